/* receive_eager.c: which message comes next, without waiting out a bound.
 *
 * Read the clock first: t0. Then, for every lane: either its next accepted message is known; or
 * its intent is down and it has no message; or its intent is up. A message stamped T may be
 * delivered if T < t0 - ε, if every other lane's next message is later, and if every raised intent
 * is for a later timestamp. Anything whose intent we found down, or did not find, was or will be
 * stamped after t0. The order of these reads is the whole safety argument:
 *
 *   [E1] clock, then intent (against intent, then clock, in send_eager.c)
 *   [E4] intent, then a-flag (against a-flag, then lowered intent)
 *   [E5] intent, `boxes`, intent again (against intent lowered, `boxes`, intent raised)
 *
 * and, last, no copy has failed that somebody else may have skipped (view.c).
 */
#include "receiver.h"

#define LOOK_AFTER_NS 60             /* a sender needs about that long from its intent to its flags */
#define SUSPECT_AFTER_NS 50000       /* a send takes about a microsecond */
#define SUSPECT_FACTOR 4             /* then ask the kernel less and less often */

/* What keeps this receiver from delivering anything at or after `low`. */
static void note_blocked(struct sc_receiver *r, uint32_t lane, uint64_t op)
{
    struct reading *l = &r->lanes[lane];
    if (l->blocking_op == op)
        return;
    l->blocking_op = op;
    l->blocked_since = r->now;
    l->suspect_at = r->now + SUSPECT_AFTER_NS;
}

/* A raised intent: is it ours to wait for, and from which timestamp on? UINT64_MAX if not. */
static uint64_t blocked_from(struct sc_receiver *r, uint32_t lane, uint64_t intent)
{
    const struct sender_record *rec = sender_of(r->reading_from, lane);
    uint64_t op = sealed_value(intent) >> 1;
    if (r->lanes[lane].resolved_op == op)
        return UINT64_MAX;
    uint64_t low = LOAD_ACQUIRE(&rec->low), boxes = LOAD_ACQUIRE(&rec->boxes); /* [E5] */
    if (!seal_ok(low) || !seal_ok(boxes))
        return 0;                                    /* the next seal check finds it dead */
    bool same = LOAD_RELAXED(&rec->intent) == intent; /* after the acquire of boxes */
    if (same && !(sealed_value(boxes) >> r->box & 1))
        return UINT64_MAX;
    note_blocked(r, lane, op);
    /* An old `low` is a lower bound as well, since it only grows; but one that a later operation
     * wrote would hide this one's message, flagged after we looked for it. */
    return same ? sealed_value(low) << LOW_SHIFT : 0;
}

/* Looks at one lane after t0. *from: nothing at or after this timestamp may be delivered. */
static int look_at(struct sc_receiver *r, uint32_t lane, uint64_t *from)
{
    struct reading *l = &r->lanes[lane];
    uint64_t intent = LOAD_ACQUIRE(&sender_of(r->reading_from, lane)->intent); /* [E1] [E4] */
    *from = UINT64_MAX;
    if (intent == l->drained)
        return 0;
    if (!seal_ok(intent))
        return SC_COPY_FAILED;
    /* An operation has just begun in a lane that was empty: looking at the slot now would only
     * take its line away from the sender. */
    uint64_t op = sealed_value(intent) >> 1;
    if (intent == seal(intent_busy(op)) && l->drained == seal(intent_done(op - 1)) &&
        l->resolved_op != op && !r->thorough &&
        (l->blocking_op != op || r->now - l->blocked_since < LOOK_AFTER_NS)) {
        *from = blocked_from(r, lane, intent);
        return 0;
    }
    int found = receiver_load_head(r, lane);         /* [E4] */
    if (found)
        return found < 0 ? found : 0;
    if (sealed_value(intent) & 1)
        l->drained = intent;
    else
        *from = blocked_from(r, lane, intent);
    return 0;
}

int pick_eager(struct sc_receiver *r, struct run *run)
{
    r->now = clock_before_loads();                   /* [E1] */
    uint64_t t0 = clock_from(r->now), epsilon = r->domain->params.bounds.epsilon_ns;
    uint64_t bound = t0 > epsilon ? t0 - epsilon : 0;
    run->bound_lane = 0;
    int best = -1;
    uint64_t second_ts = UINT64_MAX;
    uint32_t second_lane = 0;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++) {
        struct reading *l = &r->lanes[lane];
        if (!l->has_head) {
            uint64_t from;
            int rc = look_at(r, lane, &from);
            if (rc)
                return rc;
            if (from < bound)
                bound = from;
            if (!l->has_head)
                continue;
        }
        uint64_t ts = l->head.timestamp;
        if (best < 0 || ts < r->lanes[best].head.timestamp) {
            if (best >= 0) {
                second_ts = r->lanes[best].head.timestamp;
                second_lane = (uint32_t)best;
            }
            best = (int)lane;
        } else if (ts < second_ts) {
            second_ts = ts;
            second_lane = lane;
        }
    }
    r->wake_at = UINT64_MAX;
    if (best < 0)
        return 0;
    if (r->lanes[best].head.timestamp >= bound) {
        r->wake_at = r->now;                         /* ready within ε, or when an intent falls */
        return 0;
    }
    run->lane = (uint32_t)best;
    run->bound_ts = bound;
    if (second_ts < bound) {
        run->bound_ts = second_ts;
        run->bound_lane = second_lane;
    }
    return 1;
}

static bool sender_is_dead(struct sc_receiver *r, uint32_t lane)
{
    struct owner owner;
    if (owner_read(&r->view, lane_place(lane, offsetof(struct sender_record, owner)), &owner))
        return false;
    return owner_state(owner.value) == OWNER_FREE || owner_is_dead(&r->view, &owner);
}

/* Whatever is decided, nothing more will come of this operation than what is flagged by now. */
static int end_operation(struct sc_receiver *r, uint32_t lane, bool dead)
{
    struct reading *l = &r->lanes[lane];
    enum decision decided;
    int rc = resolve_operation(&r->view, lane, l->blocking_op, r->box, false, &decided);
    if (rc)
        return rc;
    if (decided != UNDECIDED)
        l->resolved_op = l->blocking_op;
    l->blocking_op = 0;
    receiver_count(r, STAT_RESOLVED, 1);
    rc = dead ? reap_lane(&r->view, lane) : 0;       /* gives the lane back on the way */
    return rc < 0 ? rc : 0;
}

/* Ends what has kept us waiting too long: the sender is dead, or its time is over. */
int relieve_eager(struct sc_receiver *r)
{
    const struct sc_bounds *bounds = &r->domain->params.bounds;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++) {
        struct reading *l = &r->lanes[lane];
        if (!l->blocking_op || r->now < l->suspect_at)
            continue;
        uint64_t intent = LOAD_ACQUIRE(&sender_of(r->reading_from, lane)->intent);
        if (intent != seal(intent_busy(l->blocking_op)) || l->resolved_op == l->blocking_op) {
            l->blocking_op = 0;
            continue;
        }
        bool late = r->now - l->blocked_since > bounds->send_ns + bounds->epsilon_ns;
        bool dead = sender_is_dead(r, lane);
        if (!late && !dead) {
            uint64_t waited = r->now - l->blocked_since;
            l->suspect_at = r->now + waited * (SUSPECT_FACTOR - 1);
            if (l->suspect_at > l->blocked_since + bounds->send_ns + bounds->epsilon_ns)
                l->suspect_at = l->blocked_since + bounds->send_ns + bounds->epsilon_ns + 1;
            continue;
        }
        int rc = end_operation(r, lane, dead);
        if (rc)
            return rc;
    }
    return 0;
}
