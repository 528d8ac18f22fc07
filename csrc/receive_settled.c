/* receive_settled.c: up to which timestamp nothing is still to come in a receiver's mailbox.
 *
 * A delivery in one mailbox says nothing of the others: whoever delivers T in mailbox a has ignored
 * every operation that does not go to a, and one of those may be stamped earlier than T and not be
 * flagged yet. Who merges several mailboxes has to ask each of them. The look is that of
 * receive_eager.c, without its shortcuts, and nothing is delivered: t0 from the clock first, then of
 * every lane the intent, then the head.
 *
 *   a head in the lane               what comes from this lane is stamped at or after the head
 *   none, and the intent was down    what comes is stamped after t0
 *   none, and the intent is up       what comes is stamped after `low`
 *
 * [E1] [E4] [E5] as there. A copy that fails during the look makes it worthless (view.c).
 */
#include "receiver.h"

/* What may still come of a raised intent is stamped at or after this. */
static uint64_t raised_from(const struct sc_receiver *r, uint32_t lane, uint64_t intent)
{
    const struct sender_record *rec = sender_of(r->reading_from, lane);
    if (r->lanes[lane].resolved_op == sealed_value(intent) >> 1)
        return UINT64_MAX;
    uint64_t low = LOAD_ACQUIRE(&rec->low), boxes = LOAD_ACQUIRE(&rec->boxes); /* [E5] */
    if (!seal_ok(low) || !seal_ok(boxes) || LOAD_RELAXED(&rec->intent) != intent)
        return 0;
    return sealed_value(boxes) >> r->box & 1 ? sealed_value(low) << LOW_SHIFT : UINT64_MAX;
}

/* What this lane may still bring is stamped at or after this; 0: cannot be told. */
static uint64_t lane_from(struct sc_receiver *r, uint32_t lane)
{
    uint64_t intent = LOAD_ACQUIRE(&sender_of(r->reading_from, lane)->intent); /* [E1] [E4] */
    if (!seal_ok(intent))
        return 0;
    int found = r->lanes[lane].has_head ? 1 : receiver_load_head(r, lane);     /* [E4] */
    if (found)
        return found < 0 ? 0 : r->lanes[lane].head.timestamp;
    return sealed_value(intent) & 1 ? UINT64_MAX : raised_from(r, lane, intent);
}

static uint64_t settled(struct sc_receiver *r)
{
    if (r->reading_from != r->view.copy[0])
        return 0;
    uint64_t t0 = clock_from(clock_before_loads());          /* [E1] */
    uint64_t epsilon = r->domain->params.bounds.epsilon_ns, before = t0 > epsilon ? t0 - epsilon : 0;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++) {
        uint64_t from = lane_from(r, lane);
        if (from < before)
            before = from;
    }
    return view_is_current(&r->view) ? before : 0;
}

int sc_receiver_settled(sc_receiver *r, uint64_t deadline, uint64_t *before)
{
    *before = 0;
    int rc = receiver_enter(r, &deadline);
    if (rc)
        return rc;
    if (r->domain->params.protocol == SC_EAGER)
        *before = settled(r);
    else
        rc = SC_INVALID;
    receiver_exit(r);
    return rc;
}
