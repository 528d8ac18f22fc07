/* receive_crash.c: the first protocol's receiver (paper §3.3.1): the earliest message, once it is
 * certain that its sender has finished or died, decided copy by copy. */
#include "receiver.h"

/* The message came so late that its turn has passed: somebody broke a bound. It cannot be
 * delivered in order, so it is not delivered here; whether others did is what `violations` asks. */
static bool too_late(struct sc_receiver *r, uint32_t lane)
{
    return r->last_ts &&
           before(r->lanes[lane].head.timestamp, lane, r->last_ts, r->last_lane);
}

int pick_crash(struct sc_receiver *r, struct run *run)
{
    const struct sc_bounds *b = &r->domain->params.bounds;
    for (;;) {
        r->now = clock_before_loads();
        for (uint32_t lane = 0; lane < r->domain->params.senders; lane++)
            if (!r->lanes[lane].has_head && receiver_load_head(r, lane) < 0)
                return SC_COPY_FAILED;
        int best = earliest_head(r);
        r->wake_at = UINT64_MAX;
        if (best < 0)
            return 0;
        const struct slot *head = &r->lanes[best].head;
        uint64_t ready = head->timestamp + b->send_ns + b->epsilon_ns, local = clock_from(r->now);
        if (local < ready) {
            r->wake_at = r->now + (ready - local);
            return 0;
        }
        enum decision decided;
        uint64_t violations = 0;
        int rc = crash_decide(&r->view, r->box, (uint32_t)best, head->position, &decided,
                              &violations);
        if (rc)
            return rc;
        bool late = too_late(r, (uint32_t)best);
        if (violations || (late && decided == ACCEPT))
            receiver_count(r, STAT_VIOLATIONS, 1);
        if (decided == ACCEPT && !late) {
            *run = (struct run){(uint32_t)best, head->timestamp, (uint32_t)best + 1};
            return 1;
        }
        receiver_count(r, STAT_SAW_REJECTED, 1);
        receiver_skip(r, (uint32_t)best);
    }
}
