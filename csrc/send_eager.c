/* send_eager.c: one operation of `eager`, from intent to flags.
 *
 *   payload in every copy; intent in every copy; fence; read the clock; headers in every copy;
 *   walk with ACCEPT; a-flags in every copy; intent down in every copy
 *
 * [E1] intent before the clock (clock.h K1), against the receiver's clock before the intent (K2).
 * [E2] payload and header before the decision cell: release in the walk's CAS -> acquire of whoever adopts.
 * [E3] payload and header before the a-flag: release here -> acquire in receive_eager.c.
 * [E4] a-flags before the lowered intent: release -> acquire in receive_eager.c. So a receiver
 *      that sees the intent down sees every message that it stood for.
 * [E5] `boxes` before the intent, and not before the last operation's intent was lowered.
 *
 * A copy that dies on the way is skipped, but only after the others have been told: before the
 * clock is read, so that a receiver of that copy finds out before it delivers (view.c); before
 * the walk; and before success is reported.
 */
#include "sender.h"

static uint64_t stamp(struct sc_sender *s, uint32_t count)
{
    uint64_t ts = clock_from(clock_after_stores());          /* [E1] */
    if (ts <= s->last_ts)
        ts = s->last_ts + 1;
    s->last_ts = ts + count - 1;
    if (ts >> LOW_SHIFT > s->low)
        s->low = ts >> LOW_SHIFT;
    return ts;
}

static void write_headers(struct sc_sender *s, const struct operation *op, uint64_t ts)
{
    for (uint64_t rest = op->boxes; rest; rest &= rest - 1)
        for (uint32_t i = 0; i < op->count; i++) {
            int box = __builtin_ctzll(rest);
            struct slot header;
            header_make(s, op, i, box, ts, s->op, &header);
            for (int c = 0; c < s->view.count; c++)
                header_write(s, box, s->view.copy[c], &header);
        }
}

static void set_flags(struct sc_sender *s, const struct operation *op)
{
    for (int c = 0; c < s->view.count; c++)
        for (uint64_t rest = op->boxes; rest; rest &= rest - 1) {
            int box = __builtin_ctzll(rest);
            uint64_t position = s->lanes[box].position;
            for (uint32_t i = 0; i < op->count; i++)
                STORE_RELEASE(&slot_at(s->domain, s->view.copy[c], box, s->lane, position + i)
                                   ->accepted,
                              seal(position + i + 1));       /* [E3] */
            /* Only a hint where to start looking; relaxed is enough. */
            STORE_RELAXED(&lane_head_of(s->domain, s->view.copy[c], box, s->lane)->tail,
                          seal(position));
        }
}

/* Lowers the intent and wakes who sleeps. The bells are looked at before the intent is lowered: the
 * slots' lines are ours, but the intent's line is polled, and a fence after writing it would wait
 * for it to come back. They are rung afterwards, so that whoever wakes finds the intent down. A
 * receiver that sleeps because of the raised intent itself sleeps for a moment only (receive.c). */
static void finish(struct sc_sender *s, uint64_t boxes)
{
    bool asleep = false;
    FENCE_SEQ_CST();                                         /* [W1] in wait.c */
    for (uint64_t rest = boxes; rest; rest &= rest - 1)
        asleep = asleep || receivers_asleep(&s->view, __builtin_ctzll(rest));
    intent_lower(s);
    for (; asleep && boxes; boxes &= boxes - 1)
        ring_receivers(&s->view, __builtin_ctzll(boxes));
}

static int decide(struct sc_sender *s, enum decision *decided)
{
    struct place cell = lane_place(s->lane, offsetof(struct sender_record, cell));
    uint64_t value;
    int rc = view_is_current(&s->view) ? 0 : view_refresh(&s->view);
    if (rc == 0)                                             /* [E2] */
        rc = agree_while_frozen(&s->view, cell, AGE_CELL, cell_make(s->op, ACCEPT), &value);
    *decided = rc ? UNDECIDED : (enum decision)(value & 3);
    return rc;
}

/* Ends the operation that an error cut short, as anyone may (resolve.c). Its slots may be taken, so
 * the lanes' ends are looked for anew. */
int sender_settle(struct sc_sender *s)
{
    struct place cell = lane_place(s->lane, offsetof(struct sender_record, cell));
    uint64_t value;
    int rc = view_refresh(&s->view);
    if (rc == 0)
        rc = resolve_lane(&s->view, s->lane, true);
    if (rc == 0)
        rc = settle(&s->view, cell, AGE_CELL, &value);
    if (rc)
        return rc;
    s->in_doubt = false;
    s->last_open.decided = value == cell_make(s->op, ACCEPT) ? ACCEPT : REJECT;
    sender_detach(s);
    return 0;
}

/* An error of this process, such as too many open files, in the middle of the walk: whoever met our
 * proposal may accept the message. It is ended here and now, or, if that fails too, before this handle does
 * anything else. */
static int cut_short(struct sc_sender *s, const struct operation *op, uint64_t ts, int error)
{
    int box = __builtin_ctzll(op->boxes);
    s->last_open = (struct undecided){
        .receipt = {ts, s->sequence, s->lanes[box].position}, .box = box};
    s->in_doubt = true;
    if (sender_settle(s))
        return error == SC_LOST || error == SC_REMOVED ? error : SC_UNDECIDED;
    return s->last_open.decided == ACCEPT ? 0 : SC_REJECTED;
}

/* *begun: an error came after the first proposal. */
static int operate(struct sc_sender *s, const struct operation *op, uint64_t *ts, bool *begun)
{
    enum decision decided;
    uint64_t config = s->view.config;
    int rc = payloads_write(s, op);
    if (rc == 0)
        rc = intent_raise(s, op);
    if (rc)
        return rc;
    if (s->view.config != config && (rc = payloads_write(s, op))) { /* a copy came meanwhile */
        intent_lower(s);
        return rc;
    }
    *ts = stamp(s, op->count);
    write_headers(s, op, *ts);
    *begun = true;
    if ((rc = decide(s, &decided)))
        return rc;
    if (decided == ACCEPT) {
        set_flags(s, op);
        for (uint64_t rest = op->boxes; rest; rest &= rest - 1)
            s->lanes[__builtin_ctzll(rest)].position += op->count;
    }
    finish(s, op->boxes);
    return decided == ACCEPT ? 0 : SC_REJECTED;
}

int operation_eager(struct sc_sender *s, const struct operation *op, uint64_t *ts)
{
    bool begun = false;
    int rc = operate(s, op, ts, &begun);
    return begun && rc && rc != SC_REJECTED ? cut_short(s, op, *ts, rc) : rc;
}
