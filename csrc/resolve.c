/* resolve.c: ends an `eager` operation whose sender is dead or late, without its help.
 *
 * Walking with REJECT either decides against the operation, and the sender finds out when it
 * walks with ACCEPT; or it learns that the operation was accepted, which the sender proposes only
 * when the payload is in every copy. Then anyone may set the a-flags in its stead. All of it may
 * be done by many at once, or again, or by somebody who slept in the middle.
 */
#include "core.h"

/* The a-flag only grows, so a late helper cannot take a newer message's flag away. */
static int accept_slot(struct view *view, int box, uint32_t lane, uint64_t position)
{
    uint64_t serial = 0;
    struct copy *copy;
    while ((copy = view_next(view, serial))) {
        uint64_t flag = position + 1;
        if (carry(&slot_at(view->domain, copy, box, lane, position)->accepted, 0, &flag)) {
            int rc = view_doubt(view, copy, box);
            if (rc)
                return rc;
            continue;
        }
        serial = copy->serial + 1;
    }
    return 0;
}

/* Does the message at this position belong to the operation? Any copy may tell: its header is
 * in all of them before the operation can be accepted. */
static bool belongs_to(struct view *view, int box, uint32_t lane, uint64_t position, uint64_t op)
{
    for (int i = 0; i < view->count; i++) {
        struct slot header;
        if (slot_read_header(view, view->copy[i], box, lane, position, &header) == 0)
            return header.op_or_addressed == op;
    }
    return false;
}

/* Sets the flags of the operation's messages in one mailbox. They stand in a row around the tail:
 * those before it are flagged in some copy, but perhaps not in all, if their sender died between
 * two copies; a copy without the flag would lose them when the others fail. */
static int accept_messages(struct view *view, int box, uint32_t lane, uint64_t op)
{
    uint64_t position;
    int rc = lane_tail(view, box, lane, &position);
    while (rc == 0 && position > 0 && belongs_to(view, box, lane, position - 1, op))
        position--;
    while (rc == 0 && belongs_to(view, box, lane, position, op))
        rc = accept_slot(view, box, lane, position++);
    return rc ? rc : view->count ? 0 : SC_LOST;
}

/* box < 0: in every mailbox of the operation. `decided` is UNDECIDED if a later operation has
 * begun, so that this one is over and there is nothing left to do. */
int resolve_operation(struct view *view, uint32_t lane, uint64_t op, int box, bool frozen_by_us,
                      enum decision *decided)
{
    struct place cell = lane_place(lane, offsetof(struct sender_record, cell));
    uint64_t value, boxes;
    int rc = (frozen_by_us ? agree_while_frozen : agree)(view, cell, AGE_CELL,
                                                         cell_make(op, REJECT), &value);
    if (rc)
        return rc;
    *decided = value >> 2 == op ? (enum decision)(value & 3) : UNDECIDED;
    if (*decided != ACCEPT)
        return 0;
    if (box >= 0)
        return accept_messages(view, box, lane, op);
    /* Its sender wrote the set before the intent and cannot have begun another operation. */
    while (!seal_ok(boxes = LOAD_ACQUIRE(&sender_of(view->copy[0], lane)->boxes))) {
        view_fail(view, view->copy[0]);
        if (view->count == 0)
            return SC_LOST;
    }
    for (boxes = sealed_value(boxes); boxes; boxes &= boxes - 1) {
        int b = __builtin_ctzll(boxes);
        rc = mailbox_visit(view, b);
        if (rc == 0) {
            rc = accept_messages(view, b, lane, op);
            mailbox_leave(view->domain, b);
        }
        if (rc && rc != SC_REMOVED)
            return rc;
    }
    return 0;
}

/* Whatever the lane's sender was doing, it is over afterwards: decided, and the intent lowered. */
int resolve_lane(struct view *view, uint32_t lane, bool frozen_by_us)
{
    struct place where = lane_place(lane, offsetof(struct sender_record, intent));
    uint64_t intent, serial = 0;
    enum decision decided;
    int rc = greatest(view, where, &intent);
    if (rc)
        return rc;
    if (!(intent & 1) &&
        (rc = resolve_operation(view, lane, intent >> 1, -1, frozen_by_us, &decided)))
        return rc;
    struct copy *copy;
    while ((copy = view_next(view, serial))) {
        uint64_t done = intent | 1;
        if (carry(&sender_of(copy, lane)->intent, 0, &done)) {
            view_fail(view, copy);
            continue;
        }
        serial = copy->serial + 1;
    }
    return view->count ? 0 : SC_LOST;
}
