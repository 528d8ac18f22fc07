/* world.h: a small domain and its survivors: one sender, two receivers of mailbox A, one of B.
 *
 * They live in the process of the case, each with a domain handle and so with mappings of its own,
 * and act one after the other, so that a case is the same each time. Whatever does not end as it
 * must ends the case, with a failure in the notes.
 */
#ifndef CRASH_WORLD_H
#define CRASH_WORLD_H

#include "api_types.h"
#include "api.h"
#include "notes.h"

enum { LANES = 3, PLACES = 3, CAPACITY = 2, COPIES_MAX = 3 };
#define PROMISES_MAX 16
#define STRETCH_MAX 5
#define MS UINT64_C(1000000)
#define FROM_NOW(ns) ((uint64_t)(ns) | UINT64_C(1) << 63)
#define PATIENCE FROM_NOW(8000 * MS) /* for whatever must not fail; never measured against */

struct script;

struct job {
    const struct script *script;
    uint32_t protocol;
    uint32_t copies;
    struct plan plan;
    uint64_t victim_point;
    uint32_t attempt;                /* bounds are doubled with each */
    bool lose_rest;                  /* between two receivers all copies but one are lost */
};

struct world {
    const struct job *job;
    struct notes *n;
    const char *name;
    sc_domain *first_domain, *server;
    sc_domain *ear_domain[EARS];
    sc_sender *first;
    sc_receiver *ear[EARS];
    struct promise { sc_sender *sender; int box; uint64_t position; } promises[PROMISES_MAX];
    int promised;                    /* `timing`: sent, and not yet known to be accepted */
};

void fail(struct world *w, int rc, const char *format, ...)  /* rc: of the call; 0: of none */
    __attribute__((format(printf, 3, 4), noreturn));
uint64_t op_begin(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void op_end(struct world *w, uint64_t begun);

struct sc_domain_params world_params(const struct job *job);
uint64_t allowed_lateness(const struct job *job);
struct sc_mailbox_params box_params(void);
int make_domain(const char *name, const struct job *job);   /* domain and both mailboxes */

void world_open(struct world *w);                /* all survivors */
void world_close(struct world *w);
void open_ear(struct world *w, enum listener ear, int box, uint64_t deadline, int expected);
void close_ear(struct world *w, enum listener ear);

void say(struct world *w);                       /* the first sender, to both mailboxes */
int say_to(struct world *w, uint32_t boxes, uint64_t deadline);
void hear(struct world *w, enum listener ear);   /* up to what was said last */
void hear_all(struct world *w);
void lose_all_but_last(struct world *w);
int intact_copies(struct world *w, int *serials);

/* A survivor's send. In `timing` its receivers may still decide against it, if a thread of theirs
 * was late; hear() asks before it waits. */
int survivor_sends(struct world *w, sc_sender *sender, uint32_t who, uint32_t boxes,
                   uint64_t deadline);
int send_as(struct notes *n, sc_sender *sender, uint32_t who, uint32_t boxes, uint64_t deadline,
            struct sc_receipt *receipt);
int send_pair_as(struct notes *n, sc_sender *sender, uint32_t who, uint32_t boxes);

#endif
