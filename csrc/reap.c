/* reap.c: cleaning up after the dead. Anyone may do it, any number of times, at any moment; a
 * step that somebody else has done already loses its walk and nothing happens. */
#include "core.h"

/* A place that changes hands: the senders must look at the list again. */
int receiver_release(struct view *view, int box, struct owner *owner)
{
    int rc = owner_release(view, owner);
    for (int i = 0; i < view->count; i++)
        FETCH_ADD_RELAXED(&mailbox_head(view->copy[i], box)->members, 1);
    FENCE_SEQ_CST();
    ring_senders(view, box);
    return rc;
}

int reap_receiver(struct view *view, int box, uint32_t slot)
{
    struct owner owner;
    int rc = owner_read(view, receiver_place(view->domain, box, slot), &owner);
    if (rc || !owner_is_dead(view, &owner))
        return rc;
    rc = receiver_release(view, box, &owner);
    return rc ? rc : 1;
}

/* Have the receivers of a dead sender's last message had their time? Not by its timestamp and our clock:
 * one fast clock must not outvote a majority. So the time counts from when this process first met the
 * message undecided. A message that is for nobody, or was never whole, waits for nobody. */
static bool is_overdue(struct view *view, int box, uint32_t lane, uint64_t position)
{
    struct sc_domain *d = view->domain;
    struct mailbox *m = &d->boxes[box];
    uint64_t addressed = 0, now = sys_now();
    for (int i = 0; i < view->count; i++) {
        struct slot head;
        if (slot_read_header(view, view->copy[i], box, lane, position, &head) == 0)
            addressed = head.op_or_addressed;
    }
    if (!addressed)
        return true;
    pthread_mutex_lock(&d->lock);
    struct leftover *left = &m->leftovers[lane];
    if (left->version != m->version || left->tag != position + 1)
        *left = (struct leftover){m->version, position + 1, now};
    bool overdue = now - left->noticed >= quorum_patience(&d->params.bounds);
    pthread_mutex_unlock(&d->lock);
    return overdue;
}

/* In the timed protocols a message that its sender left half written must be decided on in every
 * copy before the lane has a new owner, or a receiver that changes copies would wait for it for
 * ever. In `timing` its receivers do that, if there are any and they have the time. */
static int decide_leftovers(struct view *view, uint32_t lane)
{
    struct sc_domain *d = view->domain;
    for (int box = 0; box < (int)d->params.mailboxes; box++) {
        uint64_t tail, violations = 0;
        enum decision decided;
        int rc = mailbox_visit(view, box);
        if (rc == SC_REMOVED)
            continue;
        if (rc)
            return rc;
        rc = lane_tail(view, box, lane, &tail);
        if (rc == 0 && tail > 0)
            rc = d->params.protocol == SC_CRASH
                     ? crash_decide(view, box, lane, tail - 1, &decided, &violations)
                     : timing_conclude(view, box, lane, tail - 1,
                                       is_overdue(view, box, lane, tail - 1));
        mailbox_leave(d, box);
        if (rc)
            return rc;
    }
    return 0;
}

int reap_lane(struct view *view, uint32_t lane)
{
    struct owner owner;
    struct place where = lane_place(lane, offsetof(struct sender_record, owner));
    int rc = owner_read(view, where, &owner);
    if (rc || !owner_is_dead(view, &owner))
        return rc;
    if (owner_state(owner.value) == OWNER_LIVE)
        rc = view->domain->params.protocol == SC_EAGER ? resolve_lane(view, lane, false)
                                                       : decide_leftovers(view, lane);
    if (rc)
        return rc == -EAGAIN ? 0 : rc;
    rc = owner_release(view, &owner);
    return rc ? rc : 1;
}

static int reap_entry(struct view *view, int box)
{
    struct owner owner;
    int rc = owner_read(view, directory_place(view->domain, box), &owner);
    enum owner_state state = owner_state(owner.value);
    if (rc)
        return rc;
    bool half_made = state == OWNER_CLAIMED || state == OWNER_OWNED;
    if (half_made && owner_is_dead(view, &owner) && (rc = owner_release(view, &owner)) == 0)
        rc = 1;
    if (rc >= 0 && state != OWNER_LIVE)
        mailbox_return_pages(view, box);
    return rc;
}

/* Returns how many places of the dead were freed. */
int sc_domain_reap(sc_domain *d)
{
    struct view view;
    int freed = 0, rc = check_usable(d);
    if (rc == 0)
        rc = view_open(&view, d);
    if (rc == 0)
        rc = domain_inspect(d, &view);
    for (uint32_t lane = 0; rc >= 0 && lane < d->params.senders; lane++)
        if ((rc = reap_lane(&view, lane)) > 0)
            freed++;
    for (int box = 0; rc >= 0 && box < (int)d->params.mailboxes; box++) {
        if ((rc = reap_entry(&view, box)) > 0)
            freed++;
        if (rc < 0 || mailbox_visit(&view, box) != 0)
            continue;
        for (uint32_t r = 0; rc >= 0 && r < d->boxes[box].params.receivers; r++)
            if ((rc = reap_receiver(&view, box, r)) > 0)
                freed++;
        mailbox_leave(d, box);
        if (rc == SC_REMOVED)                        /* the mailbox, while we looked at it */
            rc = view_refresh(&view);                /* or the domain */
    }
    return rc < 0 ? rc : freed;
}
