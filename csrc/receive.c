/* receive.c: what is common to the protocols: waiting, copying out, telling the copies how far
 * this receiver is.
 *
 * [R1] payload copied, then the own owner word looked at: a receiver that was evicted meanwhile
 *      may have read a slot that its sender was writing again, and throws it away. The evictor
 *      changes the word, then the sender reads the cursors, then it writes the slot.
 * [R2] payload copied, then the cursor stored (release) -> acquire in lane.c before reuse.
 */
#include "crc32c.h"
#include "receiver.h"

#define BLOCKED_SLEEP_NS 50000
#define QUICK_BYTES 16384            /* copied in about a microsecond */

/* In every copy: figures survive what messages survive. The lines are this receiver's own. */
static void publish_stat(struct sc_receiver *r, enum receiver_stat what)
{
    for (int i = 0; i < r->view.count; i++)
        STORE_RELAXED(&receiver_of(r->domain, r->view.copy[i], r->box, r->slot)->stats[what],
                      r->stats[what]);
}

void receiver_count(struct sc_receiver *r, enum receiver_stat what, uint64_t add)
{
    r->stats[what] += add;
    publish_stat(r, what);
}

int sc_receiver_wait_style(sc_receiver *r, uint64_t spin_ns)
{
    r->spin_ns = spin_ns;
    return 0;
}

/* ---- looking ---- */

/* A flag in any copy says that the header was in every copy. */
static bool is_flagged(const struct sc_receiver *r, uint32_t lane)
{
    uint64_t position = r->lanes[lane].position;
    for (int i = 0; i < r->view.count; i++)
        if (LOAD_ACQUIRE(&slot_at(r->domain, r->view.copy[i], r->box, lane, position)->accepted) ==
            seal(position + 1))                              /* [T2] */
            return true;
    return false;
}

/* A decision without a header. Either the sender died before it reached this copy, or in the middle
 * of writing here, and the others decided all the same: against it, or, in `timing`, they are
 * still at it. Or this copy has lost it. 1: skipped, 0: wait, SC_COPY_FAILED. */
static int skip_unreadable(struct sc_receiver *r, uint32_t lane, enum decision decided)
{
    bool undecided = decided == UNDECIDED && r->domain->params.protocol == SC_TIMING;
    if (undecided && !is_flagged(r, lane))
        return 0;
    if (decided != REJECT)
        return SC_COPY_FAILED;
    receiver_count(r, STAT_SAW_REJECTED, 1);
    receiver_skip(r, lane);
    return 1;
}

/* `crash` and `timing`: a message that is written, decided or not. 1, 0, SC_COPY_FAILED. */
static int find_written(struct sc_receiver *r, uint32_t lane)
{
    struct reading *l = &r->lanes[lane];
    for (;;) {
        const struct slot *slot = slot_at(r->domain, r->reading_from, r->box, lane, l->position);
        uint64_t decision = LOAD_ACQUIRE(&slot->decision);   /* [T1] */
        if (!seal_ok(decision))
            return SC_COPY_FAILED;
        if (!decision_is_for(sealed_value(decision), l->position))
            return 0;
        if (slot_read_header(&r->view, r->reading_from, r->box, lane, l->position, &l->head) == 0) {
            l->has_head = true;
            return 1;
        }
        int skipped = skip_unreadable(r, lane, (enum decision)(sealed_value(decision) & 3));
        if (skipped <= 0)
            return skipped;
    }
}

/* `eager`: the next accepted message. */
static int find_accepted(struct sc_receiver *r, uint32_t lane)
{
    struct reading *l = &r->lanes[lane];
    const struct slot *slot = slot_at(r->domain, r->reading_from, r->box, lane, l->position);
    uint64_t accepted = LOAD_ACQUIRE(&slot->accepted);       /* [E3] */
    if (accepted != seal(l->position + 1)) {
        /* A later lap would mean that our cursor was passed: garbage, or we were evicted. */
        bool older = seal_ok(accepted) && sealed_value(accepted) <= l->position;
        return older ? 0 : SC_COPY_FAILED;
    }
    if (slot_read_header(&r->view, r->reading_from, r->box, lane, l->position, &l->head))
        return SC_COPY_FAILED;
    l->has_head = true;
    return 1;
}

int receiver_load_head(struct sc_receiver *r, uint32_t lane)
{
    return r->domain->params.protocol == SC_EAGER ? find_accepted(r, lane) : find_written(r, lane);
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

/* A remover that died before it gave the pages back has told nobody, so whoever waits looks. */
static bool box_is_removed(const struct sc_receiver *r)
{
    const struct directory_entry *e = directory_of(r->domain, r->view.copy[0], r->box);
    uint64_t state = LOAD_ACQUIRE(&e->owner.state);
    return seal_ok(state) && sealed_value(state) != r->domain->boxes[r->box].version;
}

/* Starts afresh in the first intact copy. */
static int change_copy(struct sc_receiver *r)
{
    const struct sc_bounds *b = &r->domain->params.bounds;
    uint64_t skipped = r->reading_from ? r->view.copy[0]->serial - r->reading_from->serial : 0;
    r->reading_from = r->view.copy[0];
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++) {
        r->lanes[lane].has_head = false;
        r->lanes[lane].drained = 0;
    }
    if (skipped && r->domain->params.protocol == SC_CRASH)  /* "f += 1 and wait", for each */
        sys_sleep_until(sys_now() + skipped * crash_delay_ns(b));
    return receiver_store_everything(r);
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
        if (rc < 0)
            return rc;
        bool current = view_is_current(&r->view);
        /* Changing copies and deciding refresh the view: they may have found this copy dead. */
        if (current && r->reading_from == r->view.copy[0])
            return rc;
        if (!current && ((rc = view_refresh(&r->view)) || (rc = receiver_store_everything(r))))
            return rc;
    }
}

/* ---- waiting ---- */

static void publish_histogram(struct sc_receiver *r)
{
    for (int i = 0; i < r->view.count; i++) {
        word_t *words = receiver_histogram(r->domain, r->view.copy[i], r->box, r->slot);
        for (uint32_t b = r->dirty_low; b < r->dirty_high; b++)
            STORE_RELAXED(&words[b], r->histogram[b]);
    }
    r->dirty_low = HISTOGRAM_WORDS;
    r->dirty_high = 0;
}

static void flush(struct sc_receiver *r)
{
    /* A predecessor in this place that was evicted in its sleep may have stored its cursors over ours
     * since; a sender could wait for them for ever. So they are said again now and then. */
    bool moved = false, again = r->now >= r->say_again_at;
    if (again)
        r->say_again_at = r->now + r->domain->params.bounds.poll_ns;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++)
        if (again || r->lanes[lane].flushed != r->lanes[lane].position) {
            if (r->decider)
                decider_follow(r, lane);
            receiver_store_cursor(r, lane);
            moved = true;
        }
    if (!moved || r->view.count == 0)
        return;
    publish_stat(r, STAT_RECEIVED);
    publish_stat(r, STAT_RECEIVED_BYTES);
    publish_stat(r, STAT_RECEIVE_WORST_NS);
    publish_histogram(r);
    ring_senders(&r->view, r->box);
}

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

/* Waits for a run. Before it waits it tells the senders how far it is: messages that it skipped
 * because they were rejected may fill a whole lane, and its sender would wait for us. */
static int await_run(struct sc_receiver *r, uint64_t *pinned, struct run *run)
{
    uint64_t since = 0;
    for (;;) {
        int rc = pick(r, run);
        if (!r->began)
            r->began = clock_from(r->now);
        if (rc)
            return rc;
        flush(r);
        uint64_t deadline = pin(pinned);             /* only those who wait need it */
        if (!still_member(r) && (rc = not_member(r)) != SC_COPY_FAILED)
            return rc;
        if (box_is_removed(r))
            return SC_REMOVED;
        bool blocked = is_blocked(r);
        if (blocked && !is_hurried(*pinned) && (rc = relieve_eager(r)))
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
    if (guard_is_lost(LOAD_RELAXED(&r->reading_from->box_mapping[r->box])))
        return SC_COPY_FAILED;                               /* zeros, perhaps unchecked ones */
    FENCE_ACQUIRE();                                         /* [R1] */
    return still_member(r) ? 0 : not_member(r);
}

/* Earlier than what was delivered before it: a clock was further off than ε. It may even seem to be
 * from before this receiver joined. */
static void check_order(struct sc_receiver *r, uint32_t lane, const struct slot *head)
{
    if (r->last_ts && before(head->timestamp, lane, r->last_ts, r->last_lane))
        receiver_count(r, STAT_VIOLATIONS, 1);
}

/* Δr counts while this receiver is at it: from when the message could be had, or from the first look of
 * this call, whichever was later. An application may read as late as it likes. */
static void check_lateness(struct sc_receiver *r, uint64_t timestamp, uint64_t now)
{
    const uint64_t bound = r->domain->params.bounds.receive_ns;
    uint64_t from = timestamp + r->latency_ns;
    if (from < r->began)
        from = r->began;
    if ((int64_t)(now - from) <= (int64_t)bound)
        return;
    receiver_count(r, STAT_DELIVERED_LATE, 1);
    overrun_note(&r->overruns, SC_DELIVERY_LATE, timestamp, now - from, bound);
    r->was_late = true;
}

static void delivered(struct sc_receiver *r, uint32_t lane, const struct slot *head)
{
    /* Deciding in the timed protocols and copying much take time since the look; else it will do. */
    bool long_since = r->domain->params.protocol != SC_EAGER || head->bytes > QUICK_BYTES;
    uint64_t now = clock_from(long_since ? sys_now() : r->now), age = now - head->timestamp;
    r->last_ts = head->timestamp;
    r->last_lane = lane;
    uint32_t bucket = histogram_bucket((int64_t)age < 0 ? 0 : age);
    r->histogram[bucket]++;
    if (bucket < r->dirty_low)
        r->dirty_low = bucket;
    if (bucket >= r->dirty_high)
        r->dirty_high = bucket + 1;
    check_lateness(r, head->timestamp, now);
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
        bool ours = is_ours(r, &head);
        if (ours && head.bytes > size - *used)
            return n ? (int)n : SC_TOO_LARGE;
        int rc = ours ? copy_payload(r, lane, &head, buffer + *used) : 0;
        if (rc)
            return n ? (int)n : rc;
        check_order(r, lane, &head);
        if (ours) {
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

/* Raised before anything else is taken, so that no message is lost with it. */
static int raise_lateness(struct sc_receiver *r)
{
    bool raise = r->was_late && r->raise_late;
    r->was_late = false;
    return raise ? SC_OVERRUN : 0;
}

/* Fills `out` with what can be had without waiting, after waiting for the first. */
static int receive_some(struct sc_receiver *r, unsigned char *buffer, uint64_t size,
                        uint64_t *deadline, struct sc_message *out, uint32_t max)
{
    uint32_t n = 0;
    uint64_t used = 0;
    r->began = 0;
    r->view.deadline = deadline;                     /* until receiver_exit */
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
        if (rc == SC_FROZEN)                         /* a copy was being replaced until then */
            rc = SC_TIMEOUT;
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
    int rc = receiver_enter(r, &deadline);
    if (rc)
        return rc;
    rc = r->viewing ? SC_INVALID : raise_lateness(r);
    if (rc == 0)
        rc = receive_some(r, buffer, size, &deadline, out, max);
    flush(r);
    receiver_exit(r);
    return rc;
}

int sc_receive(sc_receiver *r, void *buffer, uint64_t size, uint64_t deadline,
               struct sc_message *out)
{
    int rc = sc_receive_many(r, buffer, size, deadline, out, 1);
    return rc > 0 ? 0 : rc;
}

/* ---- views: the application reads the slot itself ---- */

static int find_view(struct sc_receiver *r, uint64_t *deadline, struct sc_message *out,
                     const void **data)
{
    r->began = 0;
    r->view.deadline = deadline;                     /* until receiver_exit */
    for (;;) {
        struct run run;
        int rc = await_run(r, deadline, &run);
        if (rc < 0)
            return rc == SC_FROZEN ? SC_TIMEOUT : rc;
        struct slot *head = &r->lanes[run.lane].head;
        if (!is_ours(r, head)) {
            check_order(r, run.lane, head);
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
        check_order(r, run.lane, head);
        describe(head, run.lane, 0, out);
        delivered(r, run.lane, head);
        receiver_skip(r, run.lane);
        *data = slot->payload;
        return 0;
    }
}

int sc_view(sc_receiver *r, uint64_t deadline, struct sc_message *out, const void **data)
{
    int rc = receiver_enter(r, &deadline);
    if (rc)
        return rc;
    rc = r->viewing ? SC_INVALID : raise_lateness(r);
    if (rc == 0)
        rc = find_view(r, &deadline, out, data);
    if (rc == 0) {
        r->viewing = true;                           /* the cursor stays until the release */
        COUNT_UP(&r->domain->leases);
    }
    receiver_exit(r);
    return rc;
}

/* SC_LATE: evicted while reading, SC_COPY_FAILED: the copy died; what was read may be wrong. */
int sc_view_release(sc_receiver *r)
{
    uint64_t forever = FOREVER;
    int rc = receiver_enter(r, &forever);
    if (rc)
        return rc;
    if (r->viewing) {
        r->viewing = false;
        COUNT_DOWN(&r->domain->leases);
        FENCE_ACQUIRE();                             /* [R1] */
        if (!view_is_current(&r->view))
            rc = view_refresh(&r->view);
        if (rc == 0 && LOAD_RELAXED(&r->reading_from->failed))
            rc = SC_COPY_FAILED;
        if (rc == 0 && !still_member(r))
            rc = not_member(r);
        flush(r);
    }
    receiver_exit(r);
    return rc;
}

uint64_t sc_receiver_depth(sc_receiver *r)
{
    uint64_t depth = 0, now = sys_now();
    if (receiver_enter(r, &now) != 0)
        return 0;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++) {
        uint64_t tail;
        if (lane_tail(&r->view, r->box, lane, &tail) == 0 && tail > r->lanes[lane].position)
            depth += tail - r->lanes[lane].position;
    }
    receiver_exit(r);
    return depth;
}
