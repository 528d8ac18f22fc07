/* points.h: numbered crash points, and what happens at one of them.
 *
 * A role is armed for its act; from then on each write to shared memory and each system call is a
 * point: 1, 2, 3, ... in the order in which the process passes them. At the planned one a copy fails,
 * or the process dies by SIGKILL, or both. Which points were passed goes to a page that the harness
 * shares, so that it can name the place.
 */
#ifndef CRASH_POINTS_H
#define CRASH_POINTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "crash_atomics.h"
#include "faults.h"

#define POINTS_MAX 4096
#define SITES_MAX 1024

struct plan {
    uint64_t point;                  /* 0: none, only count */
    bool kill;
    struct fault fault;
};

/* One point that was passed. `where` is a crash_site, or the address of a system call's caller. */
struct passed {
    const void *where;
    const char *call;                /* NULL for a crash_site */
};

struct trace {
    _Atomic uint64_t count;
    _Atomic bool fired;              /* the planned point was passed */
    _Atomic bool void_fault;         /* the copy was not there to be killed */
    struct passed at[POINTS_MAX];
    _Atomic bool is_private[SITES_MAX];  /* sites seen to write what only this process has */
};

void points_arm(struct trace *trace, const struct plan *plan, const char *domain);
void points_disarm(void);
void points_print(const struct passed *passed, char *out, size_t size);
void points_print_sites(void);
void points_print_private(const struct trace *trace);

/* Behind a system call; wraps.c. */
void crash_call(const void *caller, const char *call);
void shared_range_add(const void *base, size_t bytes);
void shared_range_remove(const void *base);

#endif
