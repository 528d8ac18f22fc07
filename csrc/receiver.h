/* receiver.h: one receiver's handle. */
#ifndef SHMCAST_RECEIVER_H
#define SHMCAST_RECEIVER_H

#include "overrun.h"
#include "rt_histogram.h"

enum receiver_stat { STAT_RECEIVED, STAT_RECEIVED_BYTES, STAT_SAW_REJECTED, STAT_RESOLVED,
                     STAT_VIOLATIONS, STAT_SLEEPS, STAT_RECEIVE_WORST_NS, STAT_DELIVERED_LATE,
                     /* of the thread that decides: it alone writes them */
                     STAT_LATE_ROUNDS = 16, STAT_LATE_PEERS, STAT_EVICTED, STAT_HEARTBEAT_NS };

/* What is known of one lane. */
struct reading {
    uint64_t position;                               /* next to deliver */
    uint64_t flushed;                                /* what the copies' cursors say */
    bool has_head;
    struct slot head;                                /* header of the message at `position` */
    uint64_t drained;                                /* eager: sealed intent with nothing behind it */
    uint64_t blocking_op;                            /* eager: operation that we wait for, or 0 */
    uint64_t blocked_since;
    uint64_t suspect_at;
    uint64_t resolved_op;                            /* eager: decided, and flagged, by our own walk */
};

/* Messages of `lane` before (ts, lane) may be delivered. */
struct run {
    uint32_t lane;
    uint64_t bound_ts;
    uint32_t bound_lane;
};

struct decider;

struct sc_receiver {
    struct sc_domain *domain;
    uint32_t fork_generation;
    struct view view;
    struct copy *reading_from;                       /* lanes[] was read in this copy */
    int box;
    uint32_t slot;
    struct owner owner;
    uint64_t live_word;                              /* sealed owner word while we are a member */
    uint64_t entry, exit;                            /* in units of LOW_SHIFT */
    uint64_t spin_ns;
    uint64_t latency_ns;                             /* from the timestamp until it may be delivered */
    uint64_t began;                                  /* this call's first look, by our clock; 0: none */
    uint64_t now;                                    /* true time of the last look */
    uint64_t wake_at;                                /* nothing can become ready before, unrung */
    uint64_t say_again_at;                           /* the cursors; see flush() */
    uint64_t last_ts;                                /* of the last delivered message */
    uint32_t last_lane;
    struct turn turn;
    bool leaving;
    bool thorough;                                   /* about to sleep: look at everything */
    bool viewing;
    uint64_t stats[8];
    bool raise_late, was_late;
    uint32_t dirty_low, dirty_high;                  /* buckets to be published, low <= i < high */
    uint64_t histogram[HISTOGRAM_WORDS];             /* from timestamp to delivery */
    struct overruns overruns;
    struct decider *decider;                         /* timing only */
    struct turn rounds;                              /* of decisions that a schedule takes */
    struct reading lanes[SC_SENDERS_MAX];
};

/* Each returns 1 and a run, 0 if nothing may be delivered yet, SC_COPY_FAILED to be called again
 * with another copy, or an error. */
int pick_eager(struct sc_receiver *r, struct run *run);
int pick_crash(struct sc_receiver *r, struct run *run);
int pick_timing(struct sc_receiver *r, struct run *run);

int decider_start(struct sc_receiver *r);
void decider_stop(struct sc_receiver *r);
void decider_follow(struct sc_receiver *r, uint32_t lane);
int decider_round(struct sc_receiver *r, uint64_t deadline);

int receiver_enter(struct sc_receiver *r, uint64_t *deadline); /* takes the handle's turn */
void receiver_exit(struct sc_receiver *r);
void receiver_store_cursor(struct sc_receiver *r, uint32_t lane);
int receiver_store_everything(struct sc_receiver *r);
int relieve_eager(struct sc_receiver *r);

void receiver_count(struct sc_receiver *r, enum receiver_stat what, uint64_t add);
int receiver_load_head(struct sc_receiver *r, uint32_t lane); /* 1 found, 0 none, or an error */
void receiver_skip(struct sc_receiver *r, uint32_t lane);

static inline bool before(uint64_t ts_a, uint32_t lane_a, uint64_t ts_b, uint32_t lane_b)
{
    return ts_a != ts_b ? ts_a < ts_b : lane_a < lane_b;
}

/* The earliest head of all lanes, or -1. */
static inline int earliest_head(const struct sc_receiver *r)
{
    int best = -1;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++)
        if (r->lanes[lane].has_head &&
            (best < 0 || r->lanes[lane].head.timestamp < r->lanes[best].head.timestamp))
            best = (int)lane;
    return best;
}

#endif
