/* cast.h: who plays in a scenario, and what each of them saw. */
#ifndef CAST_H
#define CAST_H

#include "receiver.h"
#include "sender.h"
#include "sim.h"

#define CAST_MAX (PROCESSES_MAX - 1)
#define RC_PENDING 1                                 /* the call has not returned */

enum role { NO_ROLE, SENDER, CLOSING_SENDER, RECEIVER, SCHEDULED, JOINER, LEAVER, NEWCOMER, REPLACER,
            REAPER, SB_STORES, SB_FENCES, MP_WRITER, MP_READER };

struct actor {
    enum role role;
    uint8_t messages;                                /* a sender's; a receiver stops after so many */
    uint8_t boxes;                                   /* set for senders, index for receivers */
    bool mortal, lags, impatient;                    /* impatient: gives up when there is no room */
    int64_t clock_offset_ns;
    uint8_t flags;                                   /* so many a-flags, then it dies; 0: does not */
    uint64_t begins_ns;                              /* the application does nothing before */
};

struct scenario {
    const char *name, *says;
    uint32_t protocol, copies, mailboxes, capacity;
    uint32_t places;                                 /* for receivers; 0: as many as there are */
    bool evict, sleeps, may_reject, lost_copy;       /* lost_copy: copy 0 is gone from the start */
    struct sc_bounds bounds;
    struct options options;
    struct actor cast[CAST_MAX];
};

/* In the heap of its process. */
struct app {
    int index;
    const struct actor *actor;
    struct sc_domain *domain;
    struct sc_sender *sender;
    struct sc_receiver *receiver;
    unsigned char buffer[64];
    int event_count;
    struct event event[EVENTS_MAX];
};

_Static_assert(sizeof(struct app) <= APP_BYTES, "the heap's beginning is the application's");

extern const struct scenario *scenario;
extern struct app *app_of[PROCESSES_MAX];            /* set once, by set-up */

const struct scenario *scenario_find(const char *name);
void scenarios_list(void);
void set_up(const struct scenario *what);
const char *error_name(int rc);

void litmus_play(struct app *app);

static inline bool plays(int process)
{
    return process < CAST_MAX && scenario->cast[process].role != NO_ROLE;
}

static inline bool is_receiver(enum role role)
{
    return role == RECEIVER || role == SCHEDULED || role == JOINER || role == LEAVER;
}

#endif
