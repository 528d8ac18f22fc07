/* join.c: a receiver's place in the group: joining, leaving, and what the copies know of it.
 *
 * Joining is a barrier: cursors, then LIVE, then the clock for the entry time. Whatever is sent
 * after sc_receiver_open has returned is received. Leaving sets an exit time; what is older can
 * still be read.
 *
 * [R2] payload copied, then the cursor stored (release) -> acquire in lane.c before reuse.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "receiver.h"

#define PLACE_POLL_NS 2000000
#define DEFAULT_SPIN_NS 50000

void receiver_store_cursor(struct sc_receiver *r, uint32_t lane)
{
    for (int i = 0; i < r->view.count; i++)
        STORE_RELEASE(cursor_at(r->domain, r->view.copy[i], r->box, r->slot, lane),
                      seal(r->lanes[lane].position));        /* [R2] */
    r->lanes[lane].flushed = r->lanes[lane].position;
}

static void store_times(struct sc_receiver *r)
{
    for (int i = 0; i < r->view.count; i++) {
        struct receiver_record *rec = receiver_of(r->domain, r->view.copy[i], r->box, r->slot);
        STORE_RELEASE(&rec->entry, seal(r->entry));
        STORE_RELEASE(&rec->exit, seal(r->exit));
    }
}

/* Whatever the copies should know of us, in all of them, also in one that has just come. */
int receiver_store_everything(struct sc_receiver *r)
{
    for (;;) {
        store_times(r);
        for (uint32_t lane = 0; lane < r->domain->params.senders; lane++)
            receiver_store_cursor(r, lane);
        FENCE_SEQ_CST();
        if (view_is_current(&r->view))
            return 0;
        int rc = view_refresh(&r->view);
        if (rc)
            return rc;
    }
}

static int claim_place(struct sc_receiver *r)
{
    const struct mailbox *m = &r->domain->boxes[r->box];
    for (uint32_t slot = 0; slot < m->params.receivers; slot++) {
        int rc = owner_read(&r->view, receiver_place(r->domain, r->box, slot), &r->owner);
        if (rc)
            return rc;
        if (owner_state(r->owner.value) != OWNER_FREE)
            continue;
        rc = owner_claim(&r->view, &r->owner);
        if (rc == SC_EXISTS)
            continue;
        r->slot = slot;
        return rc;
    }
    return SC_NO_LANE;
}

/* Frees the dead's places when none is left; gives up at the deadline. */
static int claim_place_until(struct sc_receiver *r, uint64_t deadline)
{
    for (;;) {
        int rc = claim_place(r);
        if (rc != SC_NO_LANE)
            return rc;
        int freed = 0;
        for (uint32_t s = 0; s < r->domain->boxes[r->box].params.receivers && freed >= 0; s++) {
            int one = reap_receiver(&r->view, r->box, s);
            freed = one < 0 ? one : freed + one;
        }
        if (freed < 0)
            return freed;
        if (freed == 0 && sys_now() >= deadline)
            return SC_NO_LANE;
        if (freed == 0)
            sys_sleep_until(sys_now() + PLACE_POLL_NS);
    }
}

/* Places the cursors at the lanes' ends. Positions before are older than the entry time. */
static int place_cursors(struct sc_receiver *r)
{
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++) {
        int rc = lane_tail(&r->view, r->box, lane, &r->lanes[lane].position);
        if (rc)
            return rc;
        r->lanes[lane].drained = 0;
    }
    return 0;
}

/* What the last owner of the place left, before we are seen. */
static void clear_figures(struct sc_receiver *r)
{
    r->dirty_low = HISTOGRAM_WORDS;
    for (int i = 0; i < r->view.count; i++) {
        struct receiver_record *rec = receiver_of(r->domain, r->view.copy[i], r->box, r->slot);
        word_t *words = receiver_histogram(r->domain, r->view.copy[i], r->box, r->slot);
        for (int s = 0; s < 24; s++)
            STORE_RELAXED(&rec->stats[s], 0);
        for (uint32_t b = 0; b < HISTOGRAM_WORDS; b++)
            STORE_RELAXED(&words[b], 0);
    }
}

static int join(struct sc_receiver *r)
{
    const struct sc_bounds *b = &r->domain->params.bounds;
    r->entry = ENTRY_NONE;
    r->exit = EXIT_NONE;
    clear_figures(r);
    int rc = place_cursors(r);
    if (rc == 0)
        rc = receiver_store_everything(r);
    if (rc == 0)
        rc = owner_publish(&r->view, &r->owner);
    if (rc)
        return rc;
    r->live_word = seal(r->owner.value);
    for (int i = 0; i < r->view.count; i++)
        FETCH_ADD_RELAXED(&mailbox_head(r->view.copy[i], r->box)->members, 1);
    FENCE_SEQ_CST();                                 /* [L1] in lane.c */
    /* Messages may have passed while the cursors were being placed; none of them is ours yet. */
    if ((rc = place_cursors(r)))
        return rc;
    uint64_t now = clock_from(clock_after_stores());
    uint64_t margin = b->epsilon_ns + (r->domain->params.protocol == SC_EAGER ? 0 : b->send_ns);
    r->entry = ((now + margin) >> LOW_SHIFT) + 1;
    if ((rc = receiver_store_everything(r)))
        return rc;
    /* The barrier: nothing stamped from now on is before the entry time. */
    uint64_t local;
    while ((local = clock_from(sys_now())) < r->entry << LOW_SHIFT)
        sys_sleep_until(sys_now() + ((r->entry << LOW_SHIFT) - local));
    return 0;
}

int sc_receiver_open(sc_domain *d, int box, uint64_t deadline, sc_receiver **out)
{
    int rc = check_usable(d);
    if (rc)
        return rc;
    struct sc_receiver *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    deadline = absolute(deadline);
    r->domain = d;
    r->fork_generation = d->fork_generation;
    r->box = box;
    r->spin_ns = DEFAULT_SPIN_NS;
    const struct sc_bounds *b = &d->params.bounds;
    r->latency_ns = (d->params.protocol == SC_TIMING ? b->expiry_ns : b->send_ns) + b->epsilon_ns;
    rc = guard_install();
    if (rc == 0)
        rc = view_open(&r->view, d);
    if (rc == 0)
        rc = mailbox_use(&r->view, box);
    if (rc == 0) {
        rc = claim_place_until(r, deadline);
        if (rc == 0 && (rc = join(r)))
            receiver_release(&r->view, box, &r->owner);
        if (rc == 0 && d->params.protocol == SC_TIMING && (rc = decider_start(r)))
            receiver_release(&r->view, box, &r->owner);
        if (rc)
            COUNT_DOWN(&d->boxes[box].users);
    }
    if (rc) {
        free(r);
        return rc;
    }
    *out = r;
    return 0;
}

int receiver_enter(struct sc_receiver *r, uint64_t *deadline)
{
    if (r->fork_generation != sys_fork_generation())
        return SC_FORKED;
    return turn_take(&r->turn, deadline);
}

void receiver_exit(struct sc_receiver *r)
{
    r->view.deadline = NULL;
    turn_give(&r->turn);
}

/* The last turn is never given back; see sc_sender_close. */
int sc_receiver_close(sc_receiver *r)
{
    if (r->fork_generation != sys_fork_generation())
        return SC_FORKED;
    if (turn_end(&r->turn))
        return 0;
    if (r->decider)
        decider_stop(r);
    if (r->viewing)
        COUNT_DOWN(&r->domain->leases);
    int rc = view_refresh(&r->view);
    if (rc == 0)
        rc = receiver_release(&r->view, r->box, &r->owner);
    COUNT_DOWN(&r->domain->boxes[r->box].users);
    return rc;
}

void sc_receiver_free(sc_receiver *r)
{
    if (r)
        sc_receiver_close(r);
    free(r);
}

/* Exit time := now + Δl + ε. What is older can still be received; then comes SC_CLOSED. */
int sc_receiver_leave(sc_receiver *r)
{
    const struct sc_bounds *b = &r->domain->params.bounds;
    uint64_t forever = FOREVER;
    int rc = receiver_enter(r, &forever);
    if (rc)
        return rc;
    if (!r->leaving) {
        uint64_t margin = b->epsilon_ns + (r->domain->params.protocol == SC_EAGER ? 0 : b->send_ns);
        r->exit = ((clock_from(sys_now()) + margin) >> LOW_SHIFT) + 1;
        r->leaving = true;
        rc = receiver_store_everything(r);
    }
    receiver_exit(r);
    return rc;
}
