/* send_timed.c: sending in `crash` and `timing` (paper §3.3.1, Send).
 *
 * "First, the process determines the timestamp, and inserts the message into the queue of each
 * copy. [...] Second, when every mailbox copy has been written, the sender sets the a-flag in
 * each copy."
 *
 * [T1] header and payload before D: release here -> acquire where receivers look for messages.
 * [T2] payload before the a-flag: release here -> acquire in crash.c, timing.c.
 *
 * The model gives the sender Δs. One that notices in time that it is late does not set the flags,
 * and the message is rejected by everyone; one that notices too late asks what was decided.
 */
#include "sender.h"

#define OUTCOME_POLL_NS 20000

/* Of one receiver. SC_COPY_FAILED: the copy that was asked is dead, so it does not know. */
static int is_addressed(const struct sc_sender *s, int box, uint32_t r, uint64_t ts)
{
    const struct receiver_record *rec = receiver_of(s->domain, s->view.copy[0], box, r);
    uint64_t entry = LOAD_ACQUIRE(&rec->entry), exit = LOAD_ACQUIRE(&rec->exit);
    if (!seal_ok(entry) || !seal_ok(exit))
        return SC_COPY_FAILED;
    return sealed_value(entry) <= ts >> LOW_SHIFT && ts >> LOW_SHIFT < sealed_value(exit);
}

/* The d-flags of the paper: who is a member at the message's timestamp. A receiver that is left out by
 * mistake does not vote, so what a dying copy says is not taken for an answer. */
static int addressed(struct sc_sender *s, int box, uint64_t ts, uint64_t *set)
{
    *set = 0;
    for (uint64_t rest = s->lanes[box].receivers; rest; rest &= rest - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(rest);
        int is;
        while ((is = is_addressed(s, box, r, ts)) == SC_COPY_FAILED) {
            int rc = view_doubt(&s->view, s->view.copy[0], box);
            if (rc)
                return rc;
        }
        *set |= (uint64_t)is << r;
    }
    return 0;
}

/* `timing`, appendix A.1.2: a message stays until Δs + Δr + 2ε after its timestamp, so that a
 * newcomer without a d-flag can still read it. The last slot of a batch is the last to be free, and
 * waiting for it first means that SC_FULL comes before anything is written. */
static int wait_removable(struct sc_sender *s, int box, uint32_t count, uint64_t *pinned)
{
    const struct sc_bounds *b = &s->domain->params.bounds;
    uint64_t position = s->lanes[box].position + count - 1;
    if (s->domain->params.protocol != SC_TIMING ||
        position < s->domain->boxes[box].params.capacity)
        return 0;
    struct slot old = {.timestamp = 0};
    uint64_t before = position - s->domain->boxes[box].params.capacity;
    int c = 0;
    while (c < s->view.count &&
           slot_read_header(&s->view, s->view.copy[c], box, s->lane, before, &old))
        c++;
    if (c == s->view.count)
        return 0;                                            /* it was never whole: nobody's */
    const uint64_t deadline = pin(pinned);
    uint64_t until = old.timestamp + b->send_ns + b->receive_ns + 2 * b->epsilon_ns;
    for (;;) {
        uint64_t now = sys_now(), local = clock_from(now);
        if (local >= until)
            return 0;
        if (now >= deadline)
            return SC_FULL;
        uint64_t wake = now + (until - local);
        sys_sleep_until(wake < deadline ? wake : deadline);
    }
}

static enum decision look(struct sc_sender *s, int box, uint64_t position)
{
    for (int c = s->view.count - 1; c >= 0; c--) {
        uint64_t word = LOAD_ACQUIRE(&slot_at(s->domain, s->view.copy[c], box, s->lane, position)
                                          ->decision);
        if (seal_ok(word) && decision_is_for(sealed_value(word), position))
            return (enum decision)(sealed_value(word) & 3);
    }
    return UNDECIDED;
}

/* Nobody has decided in time: there is no receiver, or all of them are late. */
static int conclude(struct sc_sender *s, int box, uint64_t position, enum decision *d)
{
    uint64_t violations = 0;
    if (s->domain->params.protocol == SC_CRASH)
        return crash_decide(&s->view, box, s->lane, position, d, &violations);
    int rc = timing_conclude(&s->view, box, s->lane, position, true);
    *d = look(s, box, position);
    return rc == -EAGAIN ? 0 : rc;
}

/* What was decided on the message, UNDECIDED while it is open. When its receivers have had their time,
 * its sender sees to it that there is a decision. */
static int ask(struct sc_sender *s, int box, uint64_t position, uint64_t overdue, enum decision *d)
{
    int rc = view_is_current(&s->view) ? 0 : view_refresh(&s->view);
    *d = rc ? UNDECIDED : look(s, box, position);
    if (rc == 0 && *d == UNDECIDED && sys_now() >= overdue)
        rc = conclude(s, box, position, d);
    return rc;
}

/* A late sender learns its message's fate, if it is decided before the deadline. */
static int ask_outcome(struct sc_sender *s, int box, uint64_t position, uint64_t receivers,
                       uint64_t ts, uint64_t *pinned)
{
    const struct sc_bounds *b = &s->domain->params.bounds;
    uint64_t overdue = receivers ? sys_now() + quorum_patience(b) : 0;
    const uint64_t deadline = pin(pinned);
    for (;;) {
        enum decision d;
        int rc = ask(s, box, position, overdue, &d);
        if (d != UNDECIDED)
            return d == ACCEPT ? 0 : SC_REJECTED;
        if (rc == SC_LOST || rc == SC_REMOVED)
            return rc;
        uint64_t now = sys_now();
        if (rc || now >= deadline) {                 /* an error of this process changes nothing */
            s->last_open = (struct undecided){
                .receipt = {ts, s->sequence, position}, .box = box, .overdue = overdue};
            return SC_UNDECIDED;
        }
        sys_sleep_until(now + OUTCOME_POLL_NS < deadline ? now + OUTCOME_POLL_NS : deadline);
    }
}

/* D := undefined, unless this sender is so late that receivers have begun to decide here: what they
 * wrote must stand. */
static void announce(word_t *decision, uint64_t position)
{
    uint64_t found = LOAD_RELAXED(decision);
    while (!decision_is_for(sealed_value(found), position) &&
           !CAS_ACQ_REL(decision, &found, seal(decision_tag(position)))) /* [T1] */
        ;
}

/* Writes the message and its flags. *to: who was addressed. */
static int write_one(struct sc_sender *s, const struct operation *op, int box, uint64_t *ts,
                     uint64_t *to)
{
    const uint64_t bound = s->domain->params.bounds.send_ns;
    struct lane_view *own = &s->lanes[box];
    struct slot header;
    int rc, copies = config_count(s->view.config);
    *ts = clock_from(sys_now());
    if (*ts <= s->last_ts)
        *ts = s->last_ts + 1;
    s->last_ts = *ts;
    if ((rc = lane_members(&s->view, box, own)))
        return rc;
    if ((rc = addressed(s, box, *ts, to)) || (rc = payloads_write(s, op)))
        return rc;
    header_make(s, op, 0, box, *ts, *to, &header);
    uint64_t position = header.position;
    for (int c = 0; c < s->view.count; c++) {
        header_write(s, box, s->view.copy[c], &header);
        announce(&slot_at(s->domain, s->view.copy[c], box, s->lane, position)->decision, position);
    }
    own->position++;
    if (!view_is_current(&s->view) && (rc = view_refresh(&s->view)))
        return rc;
    /* No flag: everyone rejects it. A copy that came meanwhile was made by somebody who had waited for
     * us long enough, and may lack the message. */
    if (clock_from(sys_now()) > *ts + bound || config_count(s->view.config) != copies)
        return SC_REJECTED;
    for (int c = 0; c < s->view.count; c++) {
        STORE_RELEASE(&slot_at(s->domain, s->view.copy[c], box, s->lane, position)->accepted,
                      seal(position + 1));                   /* [T2] */
        STORE_RELAXED(&lane_head_of(s->domain, s->view.copy[c], box, s->lane)->tail,
                      seal(position));
    }
    return 0;
}

static int send_one(struct sc_sender *s, const struct operation *op, int box, uint64_t *ts)
{
    uint64_t position, to = 0;
    int rc = intent_raise(s, op);
    if (rc)
        return rc;
    position = s->lanes[box].position;
    rc = write_one(s, op, box, ts, &to);
    intent_lower(s);
    FENCE_SEQ_CST();                                         /* [W1] in wait.c */
    ring_receivers(&s->view, box);
    uint64_t took = clock_from(sys_now()) - *ts;
    if ((int64_t)took > (int64_t)s->took)
        s->took = took;
    if (rc == 0 && (int64_t)took > (int64_t)s->domain->params.bounds.send_ns)
        rc = ask_outcome(s, box, position, to, *ts, op->deadline);
    return rc;
}

static bool is_last_open(const struct sc_sender *s, const struct sc_receipt *receipt)
{
    return receipt->timestamp && receipt->timestamp == s->last_open.receipt.timestamp;
}

/* `eager` decides before send returns, unless it was cut short. */
static int outcome_eager(struct sc_sender *s, const struct sc_receipt *receipt, enum decision *d)
{
    int rc = s->in_doubt ? sender_settle(s) : 0;
    bool was_open = is_last_open(s, receipt);
    *d = rc ? UNDECIDED : was_open ? s->last_open.decided : ACCEPT;
    return rc;
}

/* What was decided on a message sent earlier; UNDECIDED while it is open. */
static int outcome_of(struct sc_sender *s, int box, const struct sc_receipt *receipt,
                      enum decision *d)
{
    if (s->domain->params.protocol == SC_EAGER)
        return outcome_eager(s, receipt, d);
    uint64_t position = receipt->position;
    bool was_open = is_last_open(s, receipt);
    if (was_open)
        box = s->last_open.box;
    if (box < 0 || box >= SC_MAILBOXES_MAX || !s->lanes[box].attached ||
        position >= s->lanes[box].position ||
        s->lanes[box].position - position > s->domain->boxes[box].params.capacity)
        return SC_INVALID;                                   /* never sent, or too long ago */
    return ask(s, box, position, was_open ? s->last_open.overdue : FOREVER, d);
}

int sc_sender_undecided(sc_sender *s, struct sc_receipt *out)
{
    *out = s->last_open.receipt;
    return 0;
}

int sc_confirm(sc_sender *s, int box, const struct sc_receipt *receipt, uint64_t deadline)
{
    if (s->fork_generation != sys_fork_generation())
        return SC_FORKED;
    deadline = absolute(deadline);
    for (;;) {
        enum decision d = UNDECIDED;
        int rc = turn_take(&s->turn, &deadline);
        if (rc)
            return rc;
        s->view.deadline = &deadline;
        rc = outcome_of(s, box, receipt, &d);
        s->view.deadline = NULL;
        turn_give(&s->turn);
        if (rc == SC_FROZEN)                                 /* for longer than the deadline */
            return SC_TIMEOUT;
        if (rc || d != UNDECIDED)
            return rc ? rc : d == ACCEPT ? 0 : SC_REJECTED;
        if (sys_now() >= deadline)
            return SC_TIMEOUT;
        sys_sleep_until(sys_now() + OUTCOME_POLL_NS);
    }
}

/* These protocols order one mailbox; a batch is sent message by message, so a sender that becomes
 * late in the middle has sent the first ones. Their sequence numbers are used up. */
int operation_timed(struct sc_sender *s, const struct operation *op, uint64_t *first_ts)
{
    if (op->boxes & (op->boxes - 1))
        return SC_INVALID;
    int box = __builtin_ctzll(op->boxes);
    int rc = wait_removable(s, box, op->count, op->deadline);
    if (rc)
        return rc;
    uint64_t patient = FOREVER;                      /* nobody can come again in the middle of a batch */
    uint64_t *deadline = op->count > 1 && is_hurried(*op->deadline) ? &patient : op->deadline;
    for (uint32_t i = 0; i < op->count; i++) {
        struct operation one = {op->boxes, &op->parts[i], 1, deadline, op->in_place};
        uint64_t ts = 0;
        s->sequence += i;
        rc = send_one(s, &one, box, &ts);
        if (i == 0 || rc)
            *first_ts = ts;                          /* or of the one that failed */
        if (rc)
            return rc;
        s->sequence -= i;
    }
    return 0;
}
