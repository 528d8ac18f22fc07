/* lane.c: single-writer rings, one per sender and mailbox, the same in every copy.
 *
 * Why one per sender: no compare-and-swap loop that others can prolong, and a dead sender stops
 * nobody else. Positions only grow; position p lies in slot p mod capacity. A slot is free again
 * when the cursor of every receiver has passed it; a cursor in any copy is the truth of some
 * moment, so the greatest over the copies counts.
 *
 * A receiver that joins is not missed: it puts its cursors and goes LIVE before it reads the clock
 * for its entry time. A sender that has not seen it yet frees only slots whose messages were
 * stamped before that, and those are not the newcomer's.
 *
 * [L1] newcomer: LIVE, count `members`; fence; look for the lanes' ends.
 *      sender:   set a-flags; fence (send_eager.c, finish); look at `members`.
 *      So either the sender sees the newcomer, or the newcomer's cursor is where the sender was
 *      when it last looked, and the slots that it frees are behind the cursor.
 */
#include "core.h"
#include "crc32c.h"

#define SPINS_BEFORE_SLEEP 200
#define SPACE_SLEEP_NS 200000        /* [W1] has no fence on the receiver's side; see wait.c */
#define SUSPECT_AFTER_NS 2000000

uint32_t slot_header_crc(const struct slot *header)
{
    return crc32c(0, &header->position,
                  offsetof(struct slot, header_crc) - offsetof(struct slot, position));
}

/* Takes the header out of the copy and checks it. SC_COPY_FAILED, after telling the others, if a
 * sound copy could not hold it. */
int slot_read_header(struct view *view, struct copy *copy, int box, uint32_t lane,
                     uint64_t position, struct slot *header)
{
    const struct sc_domain *d = view->domain;
    const struct slot *slot = slot_at(d, copy, box, lane, position);
    copy_from_shared(&header->position, &slot->position, SLOT_FIXED_BYTES);
    if (header->position == position && header->bytes <= d->boxes[box].params.message_bytes &&
        header->header_crc == slot_header_crc(header))
        return 0;
    return SC_COPY_FAILED;
}

/* Is position *p taken in this copy: accepted, or, in the timed protocols, written at all? If so,
 * *p moves behind it. A slot that shows a later lap was taken and freed while we looked: then
 * everything before that later message was taken too, and we go on behind it. */
static int pass_taken(struct view *view, struct copy *copy, int box, uint32_t lane, uint64_t *p)
{
    const struct slot *slot = slot_at(view->domain, copy, box, lane, *p);
    uint64_t accepted = LOAD_ACQUIRE(&slot->accepted), decision = LOAD_ACQUIRE(&slot->decision);
    if (!seal_ok(accepted) || !seal_ok(decision))
        return SC_COPY_FAILED;
    uint64_t behind = sealed_value(accepted);        /* position + 1 */
    if (view->domain->params.protocol != SC_EAGER) {
        uint64_t ahead = decision_ahead(sealed_value(decision), *p);
        bool here = decision_is_for(sealed_value(decision), *p);
        if ((ahead || here) && *p + 1 + ahead > behind)
            behind = *p + 1 + ahead;
    }
    if (behind <= *p)
        return 0;
    *p = behind;
    return 1;
}

/* The first position that no copy knows of. */
int lane_tail(struct view *view, int box, uint32_t lane, uint64_t *position)
{
    const struct sc_domain *d = view->domain;
    struct place where = {box, d->boxes[box].at.lanes_at + lane * sizeof(struct lane_head)};
    uint64_t tail;
    int rc = greatest(view, where, &tail);
    if (rc)
        return rc;
    uint64_t serial = 0, most = tail;
    struct copy *copy;
    while ((copy = view_next(view, serial))) {
        uint64_t p = tail;
        /* So many moves lead past the end as it was when we began; a sender at work may make more. */
        int taken = 1;
        for (uint32_t n = 0; taken == 1 && n <= d->boxes[box].params.capacity; n++)
            taken = pass_taken(view, copy, box, lane, &p);
        if (taken < 0) {
            if ((rc = view_doubt(view, copy, box)))
                return rc;
            continue;
        }
        most = p > most ? p : most;
        serial = copy->serial + 1;
    }
    *position = most;
    return 0;
}

static int cursor(struct view *view, int box, uint32_t receiver, uint32_t lane, uint64_t *value)
{
    const struct mailbox *m = &view->domain->boxes[box];
    struct place where = {box, m->at.rows_at + receiver * m->at.row_bytes + lane * sizeof(word_t)};
    return greatest(view, where, value);
}

/* The places that are taken, as all copies agree: whoever frees slots because a receiver is gone must
 * not be the only one to know, or that receiver would find its position overtaken in sound copies. */
static int list_receivers(struct view *view, int box, uint64_t *set)
{
    *set = 0;
    for (uint32_t r = 0; r < view->domain->boxes[box].params.receivers; r++) {
        struct owner owner;
        int rc = owner_read(view, receiver_place(view->domain, box, r), &owner);
        if (rc)
            return rc;
        if (owner_state(owner.value) == OWNER_LIVE)
            *set |= UINT64_C(1) << r;
    }
    return 0;
}

/* Looks at the list of receivers again if it has changed, or if it was another copy's: counters
 * of two copies differ when somebody died between them, so equal values there mean nothing. */
int lane_members(struct view *view, int box, struct lane_view *own)
{
    for (;;) {
        uint64_t failed = view->failed;
        uint64_t members = LOAD_ACQUIRE(&mailbox_head(view->copy[0], box)->members); /* [L1] */
        if (members == own->members && failed == own->failed)
            return 0;
        int rc = list_receivers(view, box, &own->receivers);
        if (rc)
            return rc;
        if (view->failed == failed) {                /* else the counter was another copy's */
            own->members = members;
            own->failed = failed;
            return 0;
        }
    }
}

static int least_cursor(struct view *view, int box, uint32_t lane, struct lane_view *own,
                        uint64_t *least)
{
    int rc = lane_members(view, box, own);
    *least = own->position;
    for (uint64_t rest = own->receivers; rc == 0 && rest; rest &= rest - 1) {
        uint64_t at;
        rc = cursor(view, box, (uint32_t)__builtin_ctzll(rest), lane, &at);
        if (rc == 0 && at < *least)
            *least = at;
    }
    return rc;
}

/* Looks how far every receiver is and raises the limit. What was read counts only if no copy had
 * failed by then: a newcomer that found one dead is not in that one's list. */
int lane_room(struct view *view, int box, uint32_t lane, struct lane_view *own)
{
    for (;;) {
        uint64_t least;
        int rc = least_cursor(view, box, lane, own, &least);
        if (rc)
            return rc;
        if (view_is_current(view)) {
            own->limit = least + view->domain->boxes[box].params.capacity;
            return 0;
        }
        if ((rc = view_refresh(view)))
            return rc;
    }
}

/* Frees the places of dead receivers and, if the mailbox says so, of those that hold everybody up
 * beyond their bound. */
static int relieve(struct view *view, int box, uint32_t lane, struct lane_view *own, bool late)
{
    const struct sc_domain *d = view->domain;
    for (uint64_t rest = own->receivers; rest; rest &= rest - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(rest);
        uint64_t at;
        struct owner owner;
        int rc = cursor(view, box, r, lane, &at);
        if (rc == 0 && at + d->boxes[box].params.capacity > own->limit)
            continue;
        if (rc == 0)
            rc = owner_read(view, receiver_place(d, box, r), &owner);
        if (rc)
            return rc;
        if (owner_state(owner.value) != OWNER_LIVE)
            own->members = ~UINT64_C(0);             /* look again */
        else if (owner_is_dead(view, &owner) || (late && d->boxes[box].params.evict)) {
            if ((rc = receiver_release(view, box, &owner)))
                return rc;
        }
    }
    return 0;
}

int lane_wait_room(struct view *view, int box, uint32_t lane, struct lane_view *own,
                   uint32_t count, uint64_t *pinned, _Atomic bool *closing)
{
    const struct sc_domain *d = view->domain;
    uint64_t suspect_at = 0;
    const uint64_t deadline = pin(pinned);
    for (int spins = 0;; spins++) {
        const uint64_t limit = own->limit;
        int rc = view_is_current(view) ? 0 : view_refresh(view);
        if (rc == 0)
            rc = lane_room(view, box, lane, own);
        if (rc)
            return rc;
        if (own->position + count <= own->limit) {
            own->full_since = 0;
            return 0;
        }
        uint64_t now = sys_now();
        if (!own->full_since || own->limit != limit)  /* of earlier calls, too: they may be short */
            own->full_since = now;
        if (!suspect_at)
            suspect_at = now + SUSPECT_AFTER_NS;
        if (now >= deadline)
            return SC_FULL;
        if (LOAD_RELAXED(closing))
            return SC_CLOSED;
        if (now >= suspect_at) {
            bool late = now - own->full_since >= d->params.bounds.hold_ns;
            if ((rc = relieve(view, box, lane, own, late)))
                return rc;
            suspect_at = now + SUSPECT_AFTER_NS;
        }
        if (spins < SPINS_BEFORE_SLEEP) {
            cpu_relax();
            continue;
        }
        bell_t *bell = &mailbox_head(view->copy[0], box)->space;
        uint32_t armed = bell_arm(bell);
        if ((rc = lane_room(view, box, lane, own)))
            return rc;
        uint64_t until = now + SPACE_SLEEP_NS < deadline ? now + SPACE_SLEEP_NS : deadline;
        if (own->position + count > own->limit && sys_futex_wait(bell, armed, until) == -EFAULT)
            sys_sleep_until(until);
    }
}
