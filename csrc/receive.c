/* receive.c: a receiver's place, and what is common to the protocols: joining, waiting, copying
 * out, telling the copies how far it is.
 *
 * Joining is a barrier: cursors, then LIVE, then the clock for the entry time. Whatever is sent
 * after sc_receiver_open has returned is received.
 *
 * [R1] payload copied, then the own owner word looked at: a receiver that was evicted meanwhile
 *      may have read a slot that its sender was writing again, and throws it away. The evictor
 *      changes the word, then the sender reads the cursors, then it writes the slot.
 * [R2] payload copied, then the cursor stored (release) -> acquire in lane.c before reuse.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "crc32c.h"
#include "receiver.h"

#define PLACE_POLL_NS 2000000
#define DEFAULT_SPIN_NS 50000
#define BLOCKED_SLEEP_NS 50000

int relieve_eager(struct sc_receiver *r);

void receiver_count(struct sc_receiver *r, enum receiver_stat what, uint64_t add)
{
    r->stats[what] += add;
    if (r->view.count)
        STORE_RELAXED(&receiver_of(r->domain, r->view.copy[0], r->box, r->slot)->stats[what],
                      r->stats[what]);
}

/* ---- joining and leaving ---- */

static void store_cursor(struct sc_receiver *r, uint32_t lane)
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
static int store_everything(struct sc_receiver *r)
{
    for (;;) {
        store_times(r);
        for (uint32_t lane = 0; lane < r->domain->params.senders; lane++)
            store_cursor(r, lane);
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

static int join(struct sc_receiver *r)
{
    const struct sc_bounds *b = &r->domain->params.bounds;
    r->entry = ENTRY_NONE;
    r->exit = EXIT_NONE;
    int rc = place_cursors(r);
    if (rc == 0)
        rc = store_everything(r);
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
    if ((rc = store_everything(r)))
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
    rc = view_open(&r->view, d);
    if (rc == 0)
        rc = mailbox_use(&r->view, box);
    if (rc == 0) {
        atomic_fetch_add(&d->boxes[box].users, 1);
        rc = claim_place_until(r, deadline);
        if (rc == 0 && (rc = join(r)))
            receiver_release(&r->view, box, &r->owner);
        if (rc == 0 && d->params.protocol == SC_TIMING && (rc = decider_start(r)))
            receiver_release(&r->view, box, &r->owner);
        if (rc)
            atomic_fetch_sub(&d->boxes[box].users, 1);
    }
    if (rc) {
        free(r);
        return rc;
    }
    *out = r;
    return 0;
}

static int enter(struct sc_receiver *r, uint64_t deadline)
{
    if (r->fork_generation != sys_fork_generation())
        return SC_FORKED;
    return turn_take(&r->turn, deadline);
}

static void leave(struct sc_receiver *r) { turn_give(&r->turn); }

int sc_receiver_end(sc_receiver *r)
{
    if (r->fork_generation != sys_fork_generation())
        return SC_FORKED;
    if (turn_end(&r->turn))
        return 0;
    if (r->decider)
        decider_stop(r);
    if (r->viewing)
        atomic_fetch_sub(&r->domain->leases, 1);
    int rc = view_refresh(&r->view);
    if (rc == 0)
        rc = receiver_release(&r->view, r->box, &r->owner);
    atomic_fetch_sub(&r->domain->boxes[r->box].users, 1);
    return rc;
}

void sc_receiver_free(sc_receiver *r) { free(r); }

int sc_receiver_close(sc_receiver *r)
{
    int rc = sc_receiver_end(r);
    sc_receiver_free(r);
    return rc;
}

/* Exit time := now + Δl + ε. What is older can still be received; then comes SC_CLOSED. */
int sc_receiver_leave(sc_receiver *r)
{
    const struct sc_bounds *b = &r->domain->params.bounds;
    int rc = enter(r, FOREVER);
    if (rc)
        return rc;
    if (!r->leaving) {
        uint64_t margin = b->epsilon_ns + (r->domain->params.protocol == SC_EAGER ? 0 : b->send_ns);
        r->exit = ((clock_from(sys_now()) + margin) >> LOW_SHIFT) + 1;
        r->leaving = true;
        rc = store_everything(r);
    }
    leave(r);
    return rc;
}

int sc_receiver_wait_style(sc_receiver *r, uint64_t spin_ns)
{
    r->spin_ns = spin_ns;
    return 0;
}

/* ---- looking ---- */

/* Does the slot hold nothing yet, or a sound message of an earlier lap? */
static bool is_absent(const struct sc_receiver *r, uint32_t lane)
{
    static const struct slot nothing;
    const struct slot *slot = slot_at(r->domain, r->reading_from, r->box, lane,
                                      r->lanes[lane].position);
    struct slot head;
    copy_from_shared(&head.position, &slot->position, SLOT_FIXED_BYTES);
    if (memcmp(&head.position, &nothing.position, SLOT_FIXED_BYTES) == 0)
        return true;
    return head.position < r->lanes[lane].position && head.header_crc == slot_header_crc(&head);
}

/* The sender died before it reached this copy, and the others decided here all the same: against
 * it, or they are still at it. 1: skipped, 0: wait, SC_COPY_FAILED: this copy has lost it. */
static int skip_absent(struct sc_receiver *r, uint32_t lane, enum decision decided)
{
    if (decided == ACCEPT || !is_absent(r, lane))
        return SC_COPY_FAILED;
    if (decided == UNDECIDED)
        return 0;
    receiver_count(r, STAT_SAW_REJECTED, 1);
    receiver_skip(r, lane);
    return 1;
}

/* The next message of a lane, if it is accepted (eager) or at least written (crash, timing).
 * 1 found, 0 none, SC_COPY_FAILED. */
int receiver_load_head(struct sc_receiver *r, uint32_t lane)
{
    struct reading *l = &r->lanes[lane];
    const struct slot *slot = slot_at(r->domain, r->reading_from, r->box, lane, l->position);
    if (r->domain->params.protocol == SC_EAGER) {
        uint64_t accepted = LOAD_ACQUIRE(&slot->accepted);   /* [E3] */
        if (accepted != seal(l->position + 1)) {
            /* A later lap would mean that our cursor was passed: garbage, or we were evicted. */
            bool older = seal_ok(accepted) && sealed_value(accepted) <= l->position;
            return older ? 0 : SC_COPY_FAILED;
        }
    } else {
        uint64_t decision = LOAD_ACQUIRE(&slot->decision);   /* [T1] */
        if (!seal_ok(decision))
            return SC_COPY_FAILED;
        if (!decision_is_for(sealed_value(decision), l->position))
            return 0;
        if (slot_read_header(&r->view, r->reading_from, r->box, lane, l->position, &l->head)) {
            int rc = skip_absent(r, lane, (enum decision)(sealed_value(decision) & 3));
            return rc > 0 ? receiver_load_head(r, lane) : rc; /* once: its sender is dead */
        }
        l->has_head = true;
        return 1;
    }
    if (slot_read_header(&r->view, r->reading_from, r->box, lane, l->position, &l->head))
        return SC_COPY_FAILED;
    l->has_head = true;
    return 1;
}

void receiver_skip(struct sc_receiver *r, uint32_t lane)
{
    r->lanes[lane].position++;
    r->lanes[lane].has_head = false;
}

static bool still_member(const struct sc_receiver *r)
{
    const struct receiver_record *rec = receiver_of(r->domain, r->view.copy[0], r->box, r->slot);
    return LOAD_ACQUIRE(&rec->owner.state) == r->live_word;  /* [R1] */
}

/* Our word is not what we wrote. Agreed by the copies: we were evicted, or the mailbox is gone.
 * In one copy only: that copy has failed. */
static int not_member(struct sc_receiver *r)
{
    struct owner now;
    int rc = owner_read(&r->view, r->owner.where, &now);
    if (rc)
        return rc;
    return seal(now.value) == r->live_word ? SC_COPY_FAILED : SC_LATE;
}

/* Starts afresh in the first intact copy. */
static int change_copy(struct sc_receiver *r)
{
    const struct sc_bounds *b = &r->domain->params.bounds;
    bool failed_over = r->reading_from != NULL;
    r->reading_from = r->view.copy[0];
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++) {
        r->lanes[lane].has_head = false;
        r->lanes[lane].drained = 0;
    }
    if (failed_over && r->domain->params.protocol == SC_CRASH)
        sys_sleep_until(sys_now() + b->decide_ns + b->epsilon_ns);  /* "f += 1 and wait" */
    return store_everything(r);
}

/* The copy that we read is in doubt. */
static int doubt_copy(struct sc_receiver *r)
{
    if (!still_member(r)) {
        int rc = not_member(r);
        if (rc != SC_COPY_FAILED)
            return rc;
    }
    return view_doubt(&r->view, r->reading_from, r->box);
}

/* 1 and a run, 0, or an error. On return the view has been checked after the look (view.c). */
static int pick(struct sc_receiver *r, struct run *run)
{
    for (;;) {
        int rc = 0;
        if (r->reading_from != r->view.copy[0] && (rc = change_copy(r)))
            return rc;
        switch (r->domain->params.protocol) {
        case SC_EAGER: rc = pick_eager(r, run); break;
        case SC_CRASH: rc = pick_crash(r, run); break;
        default: rc = pick_timing(r, run); break;
        }
        if (rc == SC_COPY_FAILED) {
            if ((rc = doubt_copy(r)))
                return rc;
            continue;
        }
        if (rc < 0 || view_is_current(&r->view))
            return rc;
        if ((rc = view_refresh(&r->view)) || (rc = store_everything(r)))
            return rc;
    }
}

/* ---- waiting ---- */

static void sleep_once(struct sc_receiver *r, uint64_t deadline, bool blocked)
{
    bell_t *bell = &mailbox_head(r->view.copy[0], r->box)->ring;
    uint64_t now = sys_now();
    uint64_t until = now + (blocked ? BLOCKED_SLEEP_NS : r->domain->params.bounds.poll_ns);
    struct run run;
    if (until > deadline)
        until = deadline;
    uint32_t armed = bell_arm(bell);
    r->thorough = true;
    int found = pick(r, &run);                       /* [W1] look once more */
    r->thorough = false;
    if (found != 0)
        return;
    if (until > r->wake_at)
        until = r->wake_at;
    if (until <= now)
        return;
    receiver_count(r, STAT_SLEEPS, 1);
    if (sys_futex_wait(bell, armed, until) == -EFAULT)
        sys_sleep_until(until);
}

static bool is_blocked(const struct sc_receiver *r)
{
    if (r->domain->params.protocol != SC_EAGER)
        return false;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++)
        if (r->lanes[lane].blocking_op)
            return true;
    return false;
}

static bool has_left(const struct sc_receiver *r)
{
    const struct sc_bounds *b = &r->domain->params.bounds;
    uint64_t settled = r->domain->params.protocol == SC_EAGER  ? b->epsilon_ns
                       : r->domain->params.protocol == SC_CRASH ? b->send_ns + b->epsilon_ns
                                                                : b->expiry_ns + b->epsilon_ns;
    return r->leaving && clock_from(r->now) > (r->exit << LOW_SHIFT) + settled;
}

/* Waits for a run. */
static int await_run(struct sc_receiver *r, uint64_t deadline, struct run *run)
{
    uint64_t since = 0;
    for (;;) {
        int rc = pick(r, run);
        if (rc)
            return rc;
        if (!still_member(r) && (rc = not_member(r)) != SC_COPY_FAILED)
            return rc;
        bool blocked = is_blocked(r);
        if (blocked && (rc = relieve_eager(r)))
            return rc;
        if (has_left(r) && !blocked)
            return SC_CLOSED;
        if (r->now >= deadline)
            return SC_TIMEOUT;
        if (LOAD_RELAXED(&r->turn.ended))
            return SC_CLOSED;
        if (!since)
            since = r->now;
        if (r->now - since < r->spin_ns)
            cpu_relax();
        else
            sleep_once(r, deadline, blocked);
    }
}

/* ---- copying out ---- */

static bool in_run(const struct sc_receiver *r, const struct run *run)
{
    const struct reading *l = &r->lanes[run->lane];
    return l->has_head &&
           before(l->head.timestamp, run->lane, run->bound_ts, run->bound_lane);
}

static void describe(const struct slot *head, uint32_t lane, uint64_t offset,
                     struct sc_message *out)
{
    out->timestamp = head->timestamp;
    out->sequence = head->sequence;
    out->sender = (uint64_t)head->incarnation << 8 | lane;
    out->bytes = head->bytes;
    out->offset = offset;
}

static bool is_ours(const struct sc_receiver *r, const struct slot *head)
{
    uint64_t when = head->timestamp >> LOW_SHIFT;
    return when >= r->entry && when < r->exit;
}

static int copy_payload(struct sc_receiver *r, uint32_t lane, const struct slot *head, void *to)
{
    const struct slot *slot = slot_at(r->domain, r->reading_from, r->box, lane, head->position);
    copy_from_shared(to, slot->payload, head->bytes);
    if (r->domain->boxes[r->box].params.checksum &&
        crc32c(0, to, head->bytes) != head->payload_crc)
        return SC_COPY_FAILED;
    if (guard_is_lost(r->reading_from->box_mapping[r->box]))
        return SC_COPY_FAILED;                               /* zeros, perhaps unchecked ones */
    FENCE_ACQUIRE();                                         /* [R1] */
    return still_member(r) ? 0 : not_member(r);
}

static void delivered(struct sc_receiver *r, uint32_t lane, const struct slot *head)
{
    uint64_t age = clock_from(r->now) - head->timestamp;
    r->last_ts = head->timestamp;
    r->last_lane = lane;
    r->stats[STAT_RECEIVED]++;
    r->stats[STAT_RECEIVED_BYTES] += head->bytes;
    if ((int64_t)age > (int64_t)r->stats[STAT_RECEIVE_WORST_NS])
        r->stats[STAT_RECEIVE_WORST_NS] = age;
}

/* Delivers messages of the run while they fit. Returns how many, or an error if none. */
static int drain(struct sc_receiver *r, const struct run *run, unsigned char *buffer,
                 uint64_t *used, uint64_t size, struct sc_message *out, uint32_t max)
{
    uint32_t lane = run->lane, n = 0;
    while (n < max && in_run(r, run)) {
        struct slot head = r->lanes[lane].head;
        if (is_ours(r, &head)) {
            if (head.bytes > size - *used)
                return n ? (int)n : SC_TOO_LARGE;
            int rc = copy_payload(r, lane, &head, buffer + *used);
            if (rc)
                return n ? (int)n : rc;
            describe(&head, lane, *used, &out[n++]);
            *used += head.bytes;
            delivered(r, lane, &head);
        }
        receiver_skip(r, lane);
        if (receiver_load_head(r, lane) < 0)                 /* found again by the next look */
            break;
        if (r->domain->params.protocol != SC_EAGER)
            break;                                           /* each one is decided by itself */
    }
    return (int)n;
}

static void flush(struct sc_receiver *r)
{
    bool moved = false;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++)
        if (r->lanes[lane].flushed != r->lanes[lane].position) {
            store_cursor(r, lane);
            moved = true;
        }
    if (!moved || r->view.count == 0)
        return;
    word_t *stats = receiver_of(r->domain, r->view.copy[0], r->box, r->slot)->stats;
    STORE_RELAXED(&stats[STAT_RECEIVED], r->stats[STAT_RECEIVED]);
    STORE_RELAXED(&stats[STAT_RECEIVED_BYTES], r->stats[STAT_RECEIVED_BYTES]);
    STORE_RELAXED(&stats[STAT_RECEIVE_WORST_NS], r->stats[STAT_RECEIVE_WORST_NS]);
    ring_senders(&r->view, r->box);
}

/* Fills `out` with what can be had without waiting, after waiting for the first. */
static int receive_some(struct sc_receiver *r, unsigned char *buffer, uint64_t size,
                        uint64_t deadline, struct sc_message *out, uint32_t max)
{
    uint32_t n = 0;
    uint64_t used = 0;
    while (n < max) {
        struct run run;
        int rc = n ? pick(r, &run) : await_run(r, deadline, &run);
        if (rc > 0)
            rc = drain(r, &run, buffer, &used, size, out + n, max - n);
        else if (rc == 0)
            break;
        if (rc == SC_COPY_FAILED) {
            if ((rc = doubt_copy(r)) == 0)
                continue;
        }
        if (rc < 0)
            return n ? (int)n : rc;
        n += (uint32_t)rc;
    }
    return (int)n;
}

int sc_receive_many(sc_receiver *r, void *buffer, uint64_t size, uint64_t deadline,
                    struct sc_message *out, uint32_t max)
{
    if (max == 0)
        return 0;
    int rc = enter(r, deadline = absolute(deadline));
    if (rc)
        return rc;
    rc = r->viewing ? SC_INVALID : receive_some(r, buffer, size, deadline, out, max);
    flush(r);
    leave(r);
    return rc;
}

int sc_receive(sc_receiver *r, void *buffer, uint64_t size, uint64_t deadline,
               struct sc_message *out)
{
    int rc = sc_receive_many(r, buffer, size, deadline, out, 1);
    return rc > 0 ? 0 : rc;
}

/* ---- views: the application reads the slot itself ---- */

static int find_view(struct sc_receiver *r, uint64_t deadline, struct sc_message *out,
                     const void **data)
{
    for (;;) {
        struct run run;
        int rc = await_run(r, deadline, &run);
        if (rc < 0)
            return rc;
        struct slot *head = &r->lanes[run.lane].head;
        if (!is_ours(r, head)) {
            receiver_skip(r, run.lane);
            continue;
        }
        const struct slot *slot = slot_at(r->domain, r->reading_from, r->box, run.lane,
                                          head->position);
        if (r->domain->boxes[r->box].params.checksum &&
            crc32c(0, slot->payload, head->bytes) != head->payload_crc) {
            if ((rc = doubt_copy(r)))
                return rc;
            continue;
        }
        describe(head, run.lane, 0, out);
        delivered(r, run.lane, head);
        receiver_skip(r, run.lane);
        *data = slot->payload;
        return 0;
    }
}

int sc_view(sc_receiver *r, uint64_t deadline, struct sc_message *out, const void **data)
{
    int rc = enter(r, deadline = absolute(deadline));
    if (rc)
        return rc;
    rc = r->viewing ? SC_INVALID : find_view(r, deadline, out, data);
    if (rc == 0) {
        r->viewing = true;                           /* the cursor stays until the release */
        atomic_fetch_add(&r->domain->leases, 1);
    }
    leave(r);
    return rc;
}

/* SC_LATE: evicted while reading, SC_COPY_FAILED: the copy died; what was read may be wrong. */
int sc_view_release(sc_receiver *r)
{
    int rc = enter(r, FOREVER);
    if (rc)
        return rc;
    if (r->viewing) {
        r->viewing = false;
        atomic_fetch_sub(&r->domain->leases, 1);
        FENCE_ACQUIRE();                             /* [R1] */
        if (!view_is_current(&r->view))
            rc = view_refresh(&r->view);
        if (rc == 0 && LOAD_RELAXED(&r->reading_from->failed))
            rc = SC_COPY_FAILED;
        if (rc == 0 && !still_member(r))
            rc = not_member(r);
        flush(r);
    }
    leave(r);
    return rc;
}

uint64_t sc_receiver_depth(sc_receiver *r)
{
    uint64_t depth = 0;
    if (enter(r, sys_now()) != 0)
        return 0;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++) {
        uint64_t tail;
        if (lane_tail(&r->view, r->box, lane, &tail) == 0 && tail > r->lanes[lane].position)
            depth += tail - r->lanes[lane].position;
    }
    leave(r);
    return depth;
}
