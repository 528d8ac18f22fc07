/* traffic.h: senders and receivers as threads of one process, through the public API alone, and
 * the check that what came is what was sent: whole, in one order, nothing lost, nothing twice.
 *
 * Threads that share one sc_domain share its mappings: only then does a sanitizer see two threads
 * at one address. "Visitors" open the domain by its name and have mappings of their own.
 */
#ifndef SHMCAST_TESTS_TRAFFIC_H
#define SHMCAST_TESTS_TRAFFIC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_types.h"
#include "api.h"

#define CHECK(what)                                                                  \
    do {                                                                             \
        if (!(what)) {                                                               \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __func__, __LINE__, #what); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)
/* An operation that must not fail; says how it did. */
#define MUST(call)                                                                   \
    do {                                                                             \
        int must_ = (call);                                                          \
        if (must_ < 0) {                                                             \
            fprintf(stderr, "%s:%d: %s gave %d\n", __func__, __LINE__, #call, must_); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

#define MS UINT64_C(1000000)
#define WITHIN(ms) ((UINT64_C(1) << 63) | (ms) * MS)
#define PATIENCE WITHIN(60000)       /* only a hang takes that long, also under valgrind */
#define MEMBERS_MAX 8
#define RECORDS_MAX 4096
#define MESSAGE_BYTES 200u

struct record { uint64_t timestamp, sender, counter, boxes; int sure; };

struct arena {
    const char *name;
    struct sc_domain_params params;
    sc_domain *domain;
    int boxes;
    _Atomic bool traffic_is_over;                    /* everything was sent but the last message */
    _Atomic bool overwriting;                        /* somebody writes into a copy behind our backs */
    _Atomic int seen;                                /* messages received so far, by anyone */
};

struct member {                                      /* one thread */
    struct arena *arena;
    pthread_t thread;
    int number, box, messages;
    bool visitor, viewing;
    int count;
    struct record records[RECORDS_MAX];
};

struct arena arena_open(int protocol, int copies, int boxes, uint32_t evict);
void arena_close(struct arena *a);
sc_domain *member_domain(const struct member *m);    /* the arena's, or a visitor's own */
void member_leave(const struct member *m, sc_domain *d);
void start(struct member *m, struct arena *a, int number, void *(*body)(void *));
void join(struct member *m);

void *send_all(void *member);
void *receive_to_the_end(void *member);
void send_the_end(struct arena *a);
void take(struct member *m, const struct sc_message *info, const unsigned char *data, bool whole);
bool is_the_end(const struct member *m);
void check_deliveries(struct arena *a, struct member *senders, int n, struct member *receivers,
                      int m);

/* trouble.c: what goes on beside the traffic. `messages` says how often. */
void *fail_and_replace_copies(void *member);
void *look_after_the_domain(void *member);
void *join_and_leave(void *member);
void *make_and_remove_mailboxes(void *member);

#endif
