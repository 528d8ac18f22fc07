/* send.c: a sender's lane, and what is common to the protocols: room, turn-taking, loans. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "crc32c.h"
#include "sender.h"

#define LANE_POLL_NS 2000000
#define QUICK_BYTES 4096u
#define FUSED_BYTES_MIN 1024u        /* below, a copy and then a sum is quicker: no word is read
                                      * before the stores that made it have come to rest */

/* A lane's history goes on where its last owner left it. The cell may know of an operation whose
 * intent stood only in copies that have failed since. */
static int take_over(struct sc_sender *s)
{
    uint64_t intent, low, cell;
    int rc = greatest(&s->view, lane_place(s->lane, offsetof(struct sender_record, intent)), &intent);
    if (rc == 0)
        rc = greatest(&s->view, lane_place(s->lane, offsetof(struct sender_record, low)), &low);
    if (rc == 0)
        rc = greatest(&s->view, lane_place(s->lane, offsetof(struct sender_record, cell)), &cell);
    if (rc)
        return rc;
    s->op = intent >> 1 > cell >> 2 ? intent >> 1 : cell >> 2;
    s->low = low;
    s->last_ts = ((low + 1) << LOW_SHIFT) + SC_BATCH_MAX;
    const struct sender_record *rec = sender_of(s->view.copy[0], s->lane);
    for (int i = 0; i < 8; i++)
        s->stats[i] = LOAD_RELAXED(&rec->stats[i]);
    return sender_histogram_read(&s->view, s->lane, s->histogram);
}

static int claim_lane(struct sc_sender *s)
{
    for (uint32_t lane = 0; lane < s->domain->params.senders; lane++) {
        int rc = owner_read(&s->view, lane_place(lane, offsetof(struct sender_record, owner)),
                            &s->owner);
        if (rc)
            return rc;
        if (owner_state(s->owner.value) != OWNER_FREE)
            continue;
        rc = owner_claim(&s->view, &s->owner);
        if (rc == SC_EXISTS)
            continue;
        s->lane = lane;
        if (rc == 0)
            rc = take_over(s);
        return rc ? rc : owner_publish(&s->view, &s->owner);
    }
    return SC_NO_LANE;
}

int sc_sender_open(sc_domain *d, uint64_t deadline, sc_sender **out)
{
    int rc = check_usable(d);
    if (rc)
        return rc;
    deadline = absolute(deadline);
    struct sc_sender *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    s->domain = d;
    s->fork_generation = d->fork_generation;
    if ((rc = guard_install()) == 0)
        rc = view_open(&s->view, d);
    while (rc == 0 && (rc = claim_lane(s)) == SC_NO_LANE) {
        int freed = 0;
        for (uint32_t lane = 0; lane < d->params.senders && freed >= 0; lane++) {
            int one = reap_lane(&s->view, lane);
            freed = one < 0 ? one : freed + one;
        }
        if (freed < 0)
            rc = freed;
        else if (freed > 0)
            rc = 0;
        else if (sys_now() >= deadline)
            break;
        else {
            sys_sleep_until(sys_now() + LANE_POLL_NS);
            rc = 0;
        }
    }
    if (rc) {
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

uint64_t sc_sender_id(sc_sender *s) { return (uint64_t)incarnation(s) << 8 | s->lane; }

static void leave(struct sc_sender *s)
{
    s->view.deadline = NULL;
    turn_give(&s->turn);
}

static int enter(struct sc_sender *s, uint64_t *deadline)
{
    if (s->fork_generation != sys_fork_generation())
        return SC_FORKED;
    int rc = turn_take(&s->turn, deadline);
    if (rc)
        return rc == SC_TIMEOUT ? SC_FULL : rc;
    s->view.deadline = deadline;
    if (s->in_doubt && (rc = sender_settle(s)))      /* nothing new before the last one is over */
        leave(s);
    return rc;
}

void sender_detach(struct sc_sender *s)
{
    for (int box = 0; box < SC_MAILBOXES_MAX; box++)
        if (s->lanes[box].attached) {
            s->lanes[box].attached = false;
            COUNT_DOWN(&s->domain->boxes[box].users);
        }
}

/* The last turn is never given back: whoever waits for it or comes later gets SC_CLOSED and touches
 * nothing but the handle. */
int sc_sender_close(sc_sender *s)
{
    if (s->fork_generation != sys_fork_generation())
        return SC_FORKED;
    if (turn_end(&s->turn))
        return 0;
    if (s->loan.active)
        COUNT_DOWN(&s->domain->leases);
    int rc = view_refresh(&s->view);
    if (rc == 0 && s->in_doubt)
        rc = sender_settle(s);
    if (rc == 0)
        rc = owner_release(&s->view, &s->owner);
    sender_detach(s);
    return rc;
}

void sc_sender_free(sc_sender *s)
{
    if (s)
        sc_sender_close(s);
    free(s);
}

/* Timestamps grow within a lane, also from one owner to the next, whose clock may be behind by ε. */
static void stamp_after_last(struct sc_sender *s, int box)
{
    struct slot last;
    uint64_t position = s->lanes[box].position;
    for (int c = 0; position > 0 && c < s->view.count; c++)
        if (slot_read_header(&s->view, s->view.copy[c], box, s->lane, position - 1, &last) == 0 &&
            last.timestamp > s->last_ts)
            s->last_ts = last.timestamp;
}

static int attach(struct sc_sender *s, int box)
{
    struct lane_view *own = &s->lanes[box];
    int rc = mailbox_use(&s->view, box);
    if (rc)
        return rc;
    if ((rc = lane_tail(&s->view, box, s->lane, &own->position))) {
        COUNT_DOWN(&s->domain->boxes[box].users);
        return rc;
    }
    stamp_after_last(s, box);
    own->limit = own->position;
    own->full_since = 0;
    own->members = ~UINT64_C(0);
    own->attached = true;
    return 0;
}

/* The mailbox may have been removed since the last send; its entry's word is one load away. */
static int still_there(const struct sc_sender *s, int box)
{
    const struct directory_entry *e = directory_of(s->domain, s->view.copy[0], box);
    uint64_t state = LOAD_ACQUIRE(&e->owner.state);
    return seal_ok(state) && sealed_value(state) != s->domain->boxes[box].version ? SC_REMOVED : 0;
}

static int make_room(struct sc_sender *s, const struct operation *op)
{
    for (uint64_t rest = op->boxes; rest; rest &= rest - 1) {
        int box = __builtin_ctzll(rest);
        struct lane_view *own = &s->lanes[box];
        int rc = own->attached ? still_there(s, box) : attach(s, box);
        if (rc == SC_REMOVED && own->attached) {     /* its place may be another mailbox's by now */
            own->attached = false;
            COUNT_DOWN(&s->domain->boxes[box].users);
        }
        if (rc)
            return rc;
        if (own->position + op->count > own->limit) {
            rc = lane_wait_room(&s->view, box, s->lane, own, op->count, op->deadline, &s->turn.ended);
            if (rc)
                return rc;
        }
    }
    return 0;
}

static int check_sizes(const struct sc_sender *s, const struct operation *op)
{
    for (uint64_t rest = op->boxes; rest; rest &= rest - 1) {
        const struct sc_mailbox_params *p = &s->domain->boxes[__builtin_ctzll(rest)].params;
        if (op->count > p->capacity)
            return SC_TOO_LARGE;
        for (uint32_t i = 0; i < op->count; i++)
            if (op->parts[i].bytes > p->message_bytes)
                return SC_TOO_LARGE;
    }
    return 0;
}

/* The same bytes to every copy that does not hold them yet. */
static void spread(struct sc_sender *s, const struct operation *op, uint32_t i, uint64_t at,
                   const void *data, uint64_t bytes)
{
    for (uint64_t rest = op->boxes; rest; rest &= rest - 1) {
        int box = __builtin_ctzll(rest);
        for (int c = 0; c < s->view.count; c++)
            if (s->view.copy[c] != op->in_place)
                copy_to_shared(slot_at(s->domain, s->view.copy[c], box, s->lane,
                                       s->lanes[box].position + i)->payload + at,
                               data, bytes);
    }
}

/* The next bytes into the sender's own block. The CRC is of what is there then. */
static uint32_t take_block(struct sc_sender *s, const unsigned char *data, uint64_t bytes,
                           bool checksum, uint32_t crc)
{
    if (checksum && bytes >= FUSED_BYTES_MIN)
        return crc32c_copy(crc, s->block, data, bytes);
    memcpy(s->block, data, bytes);
    return checksum ? crc32c(crc, s->block, bytes) : 0;
}

/* One message to every copy and mailbox. The application may change it meanwhile, from another
 * thread or process: every copy must get the same all the same, and the checksum of that, or receivers
 * would find one copy after the other damaged. So each byte is taken once, into a block that is
 * ours and stays in a near cache. One copy without a checksum needs no such block. */
static uint32_t payload_write(struct sc_sender *s, const struct operation *op, uint32_t i,
                              bool checksum)
{
    const unsigned char *data = op->parts[i].data;
    uint64_t bytes = op->parts[i].bytes;
    int targets = __builtin_popcountll(op->boxes) * s->view.count - (op->in_place != NULL);
    uint32_t crc = 0;
    if (targets == 0)
        return checksum ? crc32c(0, data, bytes) : 0;
    for (uint64_t at = 0; at < bytes; at += sizeof s->block) {
        uint64_t n = bytes - at < sizeof s->block ? bytes - at : sizeof s->block;
        const unsigned char *from = data + at;
        if (checksum || targets > 1) {
            crc = take_block(s, from, n, checksum, crc);
            from = s->block;
        }
        spread(s, op, i, at, from, n);
    }
    return crc;
}

int payloads_write(struct sc_sender *s, const struct operation *op)
{
    bool checksum = false;
    for (uint64_t rest = op->boxes; rest; rest &= rest - 1)
        checksum = checksum || s->domain->boxes[__builtin_ctzll(rest)].params.checksum;
    for (uint32_t i = 0; i < op->count; i++) {
        for (uint64_t rest = op->boxes; rest; rest &= rest - 1) {
            int box = __builtin_ctzll(rest);
            for (int c = 0; c < s->view.count; c++)          /* the headers are next */
                __builtin_prefetch(slot_at(s->domain, s->view.copy[c], box, s->lane,
                                           s->lanes[box].position + i), 1);
        }
        s->payload_crc[i] = payload_write(s, op, i, checksum);
    }
    if (!op->in_place)
        return 0;
    /* What was read from a copy that died under our hands is partly zeros, or anything. */
    int rc = view_is_current(&s->view) ? 0 : view_refresh(&s->view);
    bool lost = LOAD_RELAXED(&op->in_place->failed) ||
                guard_is_lost(LOAD_RELAXED(&op->in_place->box_mapping[__builtin_ctzll(op->boxes)]));
    return rc ? rc : lost ? SC_COPY_FAILED : 0;
}

void header_make(const struct sc_sender *s, const struct operation *op, uint32_t i, int box,
                 uint64_t ts, uint64_t extra, struct slot *header)
{
    header->position = s->lanes[box].position + i;
    header->timestamp = ts + i;
    header->incarnation = incarnation(s);
    header->bytes = (uint32_t)op->parts[i].bytes;
    header->sequence = s->sequence + i;
    header->op_or_addressed = extra;
    header->payload_crc = s->payload_crc[i];
    header->header_crc = slot_header_crc(header);
}

void header_write(const struct sc_sender *s, int box, struct copy *copy, const struct slot *header)
{
    struct slot *slot = slot_at(s->domain, copy, box, s->lane, header->position);
    copy_to_shared(&slot->position, &header->position, SLOT_FIXED_BYTES);
}

/* In every copy: figures survive what messages survive. The lines are this sender's own. */
static void count(struct sc_sender *s, enum sender_stat what, uint64_t add)
{
    s->stats[what] += add;
    for (int i = 0; i < s->view.count; i++)
        STORE_RELAXED(&sender_of(s->view.copy[i], s->lane)->stats[what], s->stats[what]);
}

static uint64_t op_bytes(const struct operation *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->count; i++)
        bytes += op->parts[i].bytes;
    return bytes;
}

static void count_outcome(struct sc_sender *s, const struct operation *op, uint64_t ts, int rc)
{
    if (s->view.count == 0)
        return;
    if (rc == SC_REJECTED) {
        const struct sc_bounds *b = &s->domain->params.bounds;
        count(s, STAT_REJECTED, 1);
        overrun_note(&s->overruns, SC_SEND_REJECTED, ts, clock_from(sys_now()) - ts, b->send_ns);
    }
    if (rc == SC_FULL && !is_hurried(*op->deadline))
        count(s, STAT_FULL, 1);
    if (rc)
        return;
    uint64_t bytes = op_bytes(op), now = clock_from(sys_now());
    uint64_t took = s->domain->params.protocol != SC_EAGER ? s->took
                                                           : now - (s->began ? s->began : ts);
    uint32_t bucket = histogram_bucket(took);
    s->histogram[bucket]++;
    for (int i = 0; i < s->view.count; i++)
        STORE_RELAXED(&sender_histogram(s->domain, s->view.copy[i], s->lane)[bucket],
                      s->histogram[bucket]);
    if (now >> LOW_SHIFT > s->low)
        s->low = now >> LOW_SHIFT;
    count(s, STAT_OPERATIONS, 1);
    count(s, STAT_SENT, op->count);
    count(s, STAT_SENT_BYTES, bytes);
    if ((int64_t)took > (int64_t)s->stats[STAT_SEND_WORST_NS])
        count(s, STAT_SEND_WORST_NS, took - s->stats[STAT_SEND_WORST_NS]);
    if ((int64_t)took > (int64_t)s->domain->params.bounds.send_ns) {
        count(s, STAT_LATE, 1);
        overrun_note(&s->overruns, SC_SEND_LATE, ts, took, s->domain->params.bounds.send_ns);
        s->was_late = true;
    }
}

/* The caller holds the sender's turn. */
static int run(struct sc_sender *s, const struct operation *op, struct sc_receipt *out)
{
    uint64_t ts = 0, position = 0;
    int rc = view_is_current(&s->view) ? 0 : view_refresh(&s->view);
    if (rc == 0)
        rc = make_room(s, op);
    position = s->lanes[__builtin_ctzll(op->boxes)].position;
    /* `eager` writes the payload before it reads the clock; a small one takes less than reading it. */
    s->began = op_bytes(op) > QUICK_BYTES ? clock_from(sys_now()) : 0;
    s->took = 0;
    if (rc == 0)
        rc = s->domain->params.protocol == SC_EAGER ? operation_eager(s, op, &ts)
                                                    : operation_timed(s, op, &ts);
    count_outcome(s, op, ts, rc);
    if (rc == SC_UNDECIDED) {
        *out = s->last_open.receipt;
        s->sequence = out->sequence + (s->in_doubt ? op->count : 1);
    }
    if (rc)
        return rc;
    *out = (struct sc_receipt){ts, s->sequence, position};
    s->sequence += op->count;
    if (s->was_late) {
        s->was_late = false;
        return s->raise_late ? SC_OVERRUN : 0;
    }
    return 0;
}

static int check_boxes(struct sc_sender *s, uint64_t boxes)
{
    if (boxes == 0 || boxes >> s->domain->params.mailboxes)
        return SC_INVALID;
    for (uint64_t rest = boxes; rest; rest &= rest - 1) {
        int box = __builtin_ctzll(rest);
        if (!s->lanes[box].attached) {
            int rc = attach(s, box);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* The caller holds the sender's turn. */
static int send_parts(struct sc_sender *s, const struct operation *op, struct sc_receipt *out)
{
    int rc = s->loan.active ? SC_INVALID : check_boxes(s, op->boxes);
    if (rc == 0)
        rc = check_sizes(s, op);
    return rc ? rc : run(s, op, out);
}

int sc_send_many(sc_sender *s, uint64_t boxes, const struct sc_part *parts, uint32_t count,
                 uint64_t deadline, struct sc_receipt *out)
{
    struct operation op = {boxes, parts, count, &deadline, NULL};
    if (count == 0 || count > SC_BATCH_MAX)
        return SC_INVALID;
    int rc = enter(s, op.deadline);
    if (rc)
        return rc;
    rc = send_parts(s, &op, out);
    leave(s);
    return rc;
}

int sc_send(sc_sender *s, uint64_t boxes, const void *data, uint64_t bytes, uint64_t deadline,
            struct sc_receipt *out)
{
    struct sc_part part = {data, bytes};
    return sc_send_many(s, boxes, &part, 1, deadline, out);
}

/* The same with the payloads one behind the other, as other languages have them. */
int sc_send_packed(sc_sender *s, uint64_t boxes, const void *data, const uint64_t *sizes,
                   uint32_t count, uint64_t deadline, struct sc_receipt *out)
{
    struct operation op = {boxes, s->packed, count, &deadline, NULL};
    if (count == 0 || count > SC_BATCH_MAX)
        return SC_INVALID;
    int rc = enter(s, op.deadline);
    if (rc)
        return rc;
    const unsigned char *at = data;
    for (uint32_t i = 0; i < count; at += sizes[i], i++)
        s->packed[i] = (struct sc_part){at, sizes[i]};
    rc = send_parts(s, &op, out);
    leave(s);
    return rc;
}

/* ---- loans: the application writes into the first copy itself ---- */

int sc_loan(sc_sender *s, int box, uint64_t bytes, uint64_t deadline, void **out)
{
    if (box < 0 || box >= SC_MAILBOXES_MAX)
        return SC_INVALID;
    struct sc_part part = {NULL, bytes};
    struct operation op = {UINT64_C(1) << box, &part, 1, &deadline, NULL};
    int rc = enter(s, &deadline);
    if (rc)
        return rc;
    rc = s->loan.active ? SC_INVALID : check_boxes(s, op.boxes);
    if (rc == 0)
        rc = check_sizes(s, &op);
    if (rc == 0 && !view_is_current(&s->view))
        rc = view_refresh(&s->view);
    if (rc == 0)
        rc = make_room(s, &op);
    if (rc == 0) {
        s->loan.active = true;
        s->loan.box = box;
        s->loan.copy = s->view.copy[0];
        s->loan.data = slot_at(s->domain, s->loan.copy, box, s->lane, s->lanes[box].position)
                           ->payload;
        s->loan.bytes = bytes;
        COUNT_UP(&s->domain->leases);
        *out = s->loan.data;
    }
    leave(s);
    return rc;
}

static void end_loan(struct sc_sender *s)
{
    s->loan.active = false;
    COUNT_DOWN(&s->domain->leases);
}

int sc_loan_send(sc_sender *s, uint64_t bytes, uint64_t deadline, struct sc_receipt *out)
{
    int rc = enter(s, &deadline);
    if (rc)
        return rc;
    struct sc_part part = {s->loan.data, bytes};
    struct operation op = {UINT64_C(1) << s->loan.box, &part, 1, &deadline, s->loan.copy};
    if (!s->loan.active || bytes > s->loan.bytes)
        rc = SC_INVALID;
    else {
        rc = view_is_current(&s->view) ? 0 : view_refresh(&s->view);
        if (rc == 0 && LOAD_RELAXED(&s->loan.copy->failed))
            rc = SC_COPY_FAILED;                     /* what was written there is gone */
        if (rc == 0)
            rc = run(s, &op, out);
        end_loan(s);
    }
    leave(s);
    return rc;
}

int sc_loan_drop(sc_sender *s)
{
    uint64_t forever = FOREVER;
    int rc = enter(s, &forever);
    if (rc)
        return rc;
    if (s->loan.active)
        end_loan(s);
    leave(s);
    return 0;
}
