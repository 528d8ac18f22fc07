/* actor.h: a process that plays a role and may be killed in the middle of it.
 *
 * It is forked before anything else happens and shares nothing with the survivors but the notes. A
 * script has three parts: `prepare` is not counted; in `act` every write to shared memory and every
 * system call is a crash point; `stay` is for those who live on, because the fault hit a copy only.
 */
#ifndef CRASH_ACTOR_H
#define CRASH_ACTOR_H

#include <sys/types.h>

#include "world.h"

struct actor {
    const struct script *script;
    const struct job *job;
    struct notes *n;
    const char *name;
    uint32_t who;
    sc_domain *domain;
    sc_sender *sender;
    sc_receiver *receiver;
};

typedef void part_fn(struct actor *a);
struct world;

enum flow { FLOW_MEMBERS, FLOW_CREATE, FLOW_REMOVE_BOX, FLOW_REMOVE_DOMAIN };
enum setting {
    SLEEPERS = 1,                    /* receivers have slept, so bells are to be rung */
    FULL = 2,                        /* the first sender's lane is full, and it has slept */
    LOST_COPY = 4,                   /* copy 0 is gone */
    DEAD_SENDER = 8,                 /* killed in mid-send at the job's victim point */
    DEAD_RECEIVER = 16,
    NO_LANE_LEFT = 32,
    THREADS = 64,                    /* the order of points may vary from run to run */
    STILLBORN = 128,                 /* a creator died here before, behind its last name */
};

struct script {
    const char *name, *role;
    unsigned protocols;              /* 1 << SC_CRASH | ... */
    part_fn *prepare, *act, *stay;
    enum flow flow;
    unsigned setting;
};

extern const struct script scripts[];
const struct script *script_named(const char *name);

/* A started actor, seen from the case. */
struct cast {
    pid_t pid;
    int tell, hear;
    bool alive;
    bool zombie;                     /* dead, its parent does not care: it keeps its pid */
};

struct cast actor_start(const struct job *job, const struct script *script, struct notes *n,
                        const char *name, uint32_t who);
bool actor_do(struct cast *c, char command);     /* false: it died, and is buried */
bool actor_outlives(struct cast *c);             /* its kill has fired: false once it is buried */
void actor_kill(struct cast *c);
void actor_end(struct cast *c);                  /* waits for its own end */

#define ALL_PROTOCOLS (1u << SC_CRASH | 1u << SC_TIMING | 1u << SC_EAGER)

void actor_fail(struct actor *a, int rc, const char *format, ...)  /* as fail() */
    __attribute__((format(printf, 3, 4), noreturn));
void must(struct actor *a, const char *what, int rc);
int actor_receive(struct actor *a, uint64_t deadline);

/* scripts_send.c, scripts_receive.c, scripts_serve.c */
part_fn open_sender, send_two, send_first, send_more, send_batch, send_multi, send_loan, send_full;
part_fn close_sender, open_and_send, open_multi;
part_fn join, join_now, receive_two, receive_batch, receive_views, receive_and_wait, leave_group;
part_fn listen_on, receive_three, open_domain_only, take_dead_lane;
part_fn create_all, reap_once, remove_box, remove_domain, replace_copy;

#endif
