/* receive_timing.c: the second protocol's receiver (paper §3.4): decisions by a quorum, taken by a
 * thread of their own.
 *
 * The thread looks at all pending messages every p and advances each as far as it can without
 * waiting, so it never waits for one message alone; the application reads outcomes later, however
 * slow it is. Line numbers are those of the paper's Receive, §3.4.2. The 4-tuple (nrd, nxp, LD, D)
 * is one word, so that "testing the values and subsequently updating them" is one CAS.
 *
 * DEVIATION: the wait for nrd >= mu (line 29) is skipped where D is set already, since D never
 * changes again; and it ends at a deadline: if so many receivers are gone that there is no quorum,
 * the model is broken, which is counted, and D := LD still decides alike for everyone. The deadline
 * counts from when this receiver noticed the message, since its clock may be one of the fast ones.
 *
 * DEVIATION: the paper's validity rests on nxp >= mu "when the first intact receiver reads the
 * a-flag", because all intact ones begin within epsilon of each other (line 21). Threads do not:
 * an intact one may begin at any time before ts + chi. So a receiver votes once nxp >= mu, or after
 * ts + chi + epsilon, when no intact one can still come. Otherwise early receivers, fewer than mu,
 * could use up the votes that count (nrd < mu) before a majority has been seen.
 *
 * [D1] outcome: release by the thread -> acquire by the application.
 * [D2] the application's position: release -> acquire by the thread, which stays behind a lap.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "receiver.h"

#define LIVENESS_NS 20000000         /* how often a receiver looks whether the others are alive */
#define QUORUM_POLL_NS 50000         /* others are at it right now */

enum phase { PHASE_VISIT, PHASE_EPSILON, PHASE_QUORUM, PHASE_DONE };

struct pending {
    uint64_t tag;                                    /* position + 1 that this entry is for */
    enum phase phase;
    enum decision taken;
    uint64_t serial;                                 /* next copy to visit */
    uint64_t at;                                     /* the copy that `phase` is about */
    uint64_t wait_until;
    uint64_t timestamp;
    uint64_t addressed;
    uint64_t noticed;                                /* true time */
};

struct decider {
    pthread_t thread;
    struct sc_receiver *receiver;
    struct view view;
    _Atomic bool stop;
    _Atomic uint64_t violations;
    uint64_t look_for_dead;
    uint32_t next_peer;                              /* one is looked after in a round */
    _Atomic int error;                               /* of the last round that failed; told once */
    uint64_t last_look, this_look;                   /* true times of the rounds */
    uint64_t awake;                                  /* since then no round was missed */
    uint64_t suspected;                              /* receivers found silent, by place */
    uint64_t stats[24];                              /* those that this thread writes */
    word_t read_to[SC_SENDERS_MAX];                  /* [D2] */
    struct pending *pending;                         /* senders * capacity */
    word_t *outcome;                                 /* (position + 1) << 2 | decision [D1] */
};

/* (nrd, nxp, LD, D) of one message in one copy. */
struct field { uint32_t nrd, nxp, ld, d; };

static struct field unpack(uint64_t value)
{
    return (struct field){value >> 10 & 127, value >> 3 & 127, value >> 2 & 1, value & 3};
}

static uint64_t pack(uint64_t position, struct field f)
{
    return decision_tag(position) | (uint64_t)f.nrd << 10 | (uint64_t)f.nxp << 3 |
           (uint64_t)f.ld << 2 | f.d;
}

/* Applies `change` to the word as one step. Bounded: each receiver changes it a fixed number of
 * times. The result goes to *out. A message that is not in this copy reads as (0, 0, 0, ⊥); PASSED
 * when a later one has taken its slot, which is left alone. */
#define PASSED 1
typedef void change_fn(struct field *f, const struct pending *m, uint32_t quorum, bool flag);

static int apply(word_t *word, uint64_t position, change_fn *change, const struct pending *m,
                 uint32_t quorum, bool flag, struct field *out)
{
    uint64_t found = LOAD_ACQUIRE(word);
    for (;;) {
        if (!seal_ok(found))
            return SC_COPY_FAILED;
        uint64_t value = sealed_value(found);
        if (decision_ahead(value, position))
            return PASSED;
        struct field f = decision_is_for(value, position) ? unpack(value) : (struct field){0};
        change(&f, m, quorum, flag);
        uint64_t wanted = seal(pack(position, f));
        *out = f;
        if (wanted == found || CAS_ACQ_REL(word, &found, wanted))
            return 0;
    }
}

static void enter_copy(struct field *f, const struct pending *m, uint32_t quorum, bool in_time)
{
    (void)quorum;
    if (f->d == UNDECIDED && m->taken != UNDECIDED)  /* 12-15 */
        f->d = m->taken;
    if (f->d == UNDECIDED && in_time)                /* 16-20 */
        f->nxp++;
}

static void vote(struct field *f, const struct pending *m, uint32_t quorum, bool flag)
{
    (void)m;
    if (f->d == UNDECIDED && f->nxp >= quorum && flag && f->nrd < quorum) /* 22-26 */
        f->ld = 1;
    if (f->nrd < 127)
        f->nrd++;                                    /* 28 */
}

static void conclude(struct field *f, const struct pending *m, uint32_t quorum, bool flag)
{
    (void)m, (void)quorum, (void)flag;
    if (f->d == UNDECIDED)                           /* 30-33 */
        f->d = f->ld ? ACCEPT : REJECT;
}

static void nothing(struct field *f, const struct pending *m, uint32_t quorum, bool flag)
{
    (void)f, (void)m, (void)quorum, (void)flag;
}

static uint32_t quorum_of(uint64_t addressed)
{
    uint32_t n = (uint32_t)__builtin_popcountll(addressed);
    return (n + 2) / 2;                              /* ⌈(N+1)/2⌉ */
}

/* For a message that its sender leaves behind: decided by its receivers, or, when they are overdue,
 * by us. -EAGAIN while they have time. */
int timing_conclude(struct view *view, int box, uint32_t lane, uint64_t position, bool overdue)
{
    struct pending m = {.taken = UNDECIDED};
    uint64_t serial = 0;
    struct copy *copy;
    while ((copy = view_next(view, serial))) {
        word_t *word = &slot_at(view->domain, copy, box, lane, position)->decision;
        struct field f;
        int rc = apply(word, position, overdue ? enter_copy : nothing, &m, 0, false, &f);
        if (rc == 0 && overdue)
            rc = apply(word, position, conclude, &m, 0, false, &f);
        if (rc == PASSED)
            return 0;                                /* the lane has gone on: somebody else saw to it */
        if (rc) {
            if ((rc = view_doubt(view, copy, box)))
                return rc;
            continue;
        }
        if (f.d == UNDECIDED)
            return -EAGAIN;
        m.taken = (enum decision)f.d;
        serial = copy->serial + 1;
    }
    return 0;
}

static void decider_count(struct decider *d, enum receiver_stat what, uint64_t add)
{
    const struct sc_receiver *r = d->receiver;
    d->stats[what] += add;
    for (int i = 0; i < d->view.count; i++)
        STORE_RELAXED(&receiver_of(r->domain, d->view.copy[i], r->box, r->slot)->stats[what],
                      d->stats[what]);
}

/* Too late to vote. Ours is the fault if we did not look once while there was time. */
static void note_lateness(struct decider *d, const struct pending *m, uint64_t local)
{
    const struct sc_bounds *b = &d->receiver->domain->params.bounds;
    uint64_t ready = m->timestamp + b->send_ns + b->epsilon_ns + b->poll_ns;
    if (m->serial != 0 || clock_from(d->last_look) >= ready)
        return;
    decider_count(d, STAT_LATE_ROUNDS, 1);
    overrun_note(&d->receiver->overruns, SC_DECISION_LATE, m->timestamp, local - m->timestamp,
                 b->expiry_ns);
}

/* Visits one copy. 0: this copy is done, COME_BACK, PASSED, SC_COPY_FAILED. */
#define COME_BACK 2
static int advance_in(struct decider *d, struct copy *copy, uint32_t lane, uint64_t position,
                      struct pending *m, uint64_t now)
{
    const struct sc_receiver *r = d->receiver;
    const struct sc_bounds *b = &r->domain->params.bounds;
    struct slot *slot = slot_at(r->domain, copy, r->box, lane, position);
    bool member = m->addressed >> r->slot & 1;       /* else: listen in, change nothing (A.1.2) */
    uint32_t quorum = quorum_of(m->addressed);
    uint64_t local = clock_from(now);
    struct field f;
    int rc;
    if (m->phase == PHASE_VISIT) {
        bool in_time = local < m->timestamp + b->expiry_ns;
        rc = apply(&slot->decision, position, member ? enter_copy : nothing, m, quorum, in_time, &f);
        if (rc)
            return rc;
        if (member && !in_time && f.d == UNDECIDED)
            note_lateness(d, m, local);
        m->phase = !member ? PHASE_QUORUM : f.d != UNDECIDED ? PHASE_QUORUM : PHASE_EPSILON;
        m->wait_until = now + b->epsilon_ns;         /* 21 */
        if (f.d != UNDECIDED && member && (rc = apply(&slot->decision, position, vote, m, quorum,
                                                      false, &f)))
            return rc;
    }
    if (m->phase == PHASE_EPSILON) {
        if ((rc = apply(&slot->decision, position, nothing, m, quorum, false, &f)))
            return rc;
        bool all_seen = f.nxp >= quorum || f.d != UNDECIDED;
        if (now < m->wait_until ||
            (!all_seen && local < m->timestamp + b->expiry_ns + b->epsilon_ns))
            return COME_BACK;
        uint64_t accepted = LOAD_ACQUIRE(&slot->accepted); /* [T2] */
        if (!seal_ok(accepted))
            return SC_COPY_FAILED;
        bool flag = sealed_value(accepted) == position + 1;
        if ((rc = apply(&slot->decision, position, vote, m, quorum, flag, &f)))
            return rc;
        m->phase = PHASE_QUORUM;
    }
    if ((rc = apply(&slot->decision, position, nothing, m, quorum, false, &f)))
        return rc;
    bool patient = now < m->noticed + quorum_patience(b);
    if (f.d == UNDECIDED && f.nrd < quorum) {        /* 29 */
        if (patient)
            return COME_BACK;
        COUNT_UP(&d->violations);
    }
    if (f.d == UNDECIDED && !member && patient)
        return COME_BACK;
    if ((rc = apply(&slot->decision, position, conclude, m, quorum, false, &f)))
        return rc;
    m->taken = (enum decision)f.d;                   /* 34 */
    m->phase = PHASE_VISIT;
    return 0;
}

/* Advances one message. A copy that dies under our hands: go on with the next one. */
static void advance(struct decider *d, uint32_t lane, uint64_t position, struct pending *m,
                    uint64_t now)
{
    for (;;) {
        struct copy *copy = view_next(&d->view, m->serial);
        if (!copy) {
            FENCE_SEQ_CST();                         /* [A2] as in agree.c */
            if (!view_is_current(&d->view) && view_refresh(&d->view))
                return;
            if (config_frozen(d->view.config) || d->view.count == 0)
                return;
            if (view_next(&d->view, m->serial))
                continue;
            m->phase = PHASE_DONE;
            return;
        }
        if (copy->serial != m->at)                   /* the view was refreshed without that one */
            m->phase = PHASE_VISIT;
        m->at = copy->serial;
        int rc = advance_in(d, copy, lane, position, m, now);
        if (rc == COME_BACK)
            return;
        if (rc == PASSED) {                          /* we were evicted: not ours to deliver */
            m->taken = REJECT;
            m->phase = PHASE_DONE;
            return;
        }
        if (rc < 0) {
            m->phase = PHASE_VISIT;
            if (view_doubt(&d->view, copy, d->receiver->box))
                return;
        }
        m->serial = copy->serial + 1;
    }
}

/* Is there a message at this position, in any copy? Fills `m` at the first sight of it. */
static bool notice(struct decider *d, uint32_t lane, uint64_t position, struct pending *m)
{
    struct sc_receiver *r = d->receiver;
    uint64_t serial = 0;
    struct copy *copy;
    if (m->tag == position + 1)
        return true;
    while ((copy = view_next(&d->view, serial))) {
        const struct slot *slot = slot_at(r->domain, copy, r->box, lane, position);
        uint64_t word = LOAD_ACQUIRE(&slot->decision); /* [T1] */
        struct slot head;
        bool here = seal_ok(word) && decision_is_for(sealed_value(word), position);
        if (here && slot_read_header(&d->view, copy, r->box, lane, position, &head) == 0) {
            *m = (struct pending){.tag = position + 1,
                                  .timestamp = head.timestamp,
                                  .addressed = head.op_or_addressed,
                                  .noticed = sys_now()};
            return true;
        }
        if (!seal_ok(word) && view_doubt(&d->view, copy, r->box))
            return false;
        serial = copy->serial + 1;
    }
    return false;
}

/* *wake: when to look again at the latest. */
static void look_at_lane(struct decider *d, uint32_t lane, uint64_t now, uint64_t *wake)
{
    struct sc_receiver *r = d->receiver;
    const struct sc_bounds *b = &r->domain->params.bounds;
    uint32_t capacity = r->domain->boxes[r->box].params.capacity;
    uint64_t first = LOAD_ACQUIRE(&d->read_to[lane]); /* [D2] */
    for (uint64_t p = first; p < first + capacity; p++) {
        uint64_t index = (uint64_t)lane * capacity + (p & (capacity - 1));
        struct pending *m = &d->pending[index];
        if (LOAD_RELAXED(&d->outcome[index]) >> 2 == p + 1)
            continue;
        if (!notice(d, lane, p, m))
            return;
        uint64_t ready = m->timestamp + b->send_ns + b->epsilon_ns + b->poll_ns; /* 8 */
        uint64_t local = clock_from(now);
        if (local < ready) {
            if (now + (ready - local) < *wake)
                *wake = now + (ready - local);
            continue;
        }
        advance(d, lane, p, m, now);
        if (m->phase == PHASE_EPSILON && m->wait_until > now && m->wait_until < *wake)
            *wake = m->wait_until;
        else if ((m->phase == PHASE_EPSILON || m->phase == PHASE_QUORUM) &&
                 now + QUORUM_POLL_NS < *wake)
            *wake = now + QUORUM_POLL_NS;
        if (m->phase == PHASE_DONE)
            STORE_RELEASE(&d->outcome[index], (p + 1) << 2 | (uint64_t)m->taken); /* [D1] */
    }
}

static uint64_t silence_allowed(const struct sc_bounds *b)
{
    return b->expiry_ns - b->send_ns + b->epsilon_ns; /* p + n·δd + 3ε */
}

/* Another receiver's thread has not been seen at work for longer than the model allows: reported,
 * once each time; and after hold_ns evicted, if the mailbox says so. `now` is earlier than the look at
 * its heartbeat, so that a pause of ours in between is not taken for its silence. */
static void watch_peer(struct decider *d, uint32_t slot, uint64_t now)
{
    struct sc_receiver *r = d->receiver;
    const struct sc_bounds *b = &r->domain->params.bounds;
    struct owner owner;
    const struct receiver_record *rec = receiver_of(r->domain, d->view.copy[0], r->box, slot);
    uint64_t heartbeat = LOAD_RELAXED(&rec->stats[STAT_HEARTBEAT_NS]);
    uint64_t allowed = silence_allowed(b);
    bool begun = heartbeat != 0;
    if (heartbeat < d->awake)                        /* we may have been stopped together */
        heartbeat = d->awake;
    if (!begun || now < heartbeat + allowed) {
        d->suspected &= ~(UINT64_C(1) << slot);
        return;
    }
    if (owner_read(&d->view, receiver_place(r->domain, r->box, slot), &owner) ||
        owner_state(owner.value) != OWNER_LIVE)
        return;
    if (!(d->suspected >> slot & 1)) {
        d->suspected |= UINT64_C(1) << slot;
        decider_count(d, STAT_LATE_PEERS, 1);
        overrun_note(&r->overruns, SC_PEER_LATE, owner_pid(owner.value), now - heartbeat, allowed);
    }
    if (now - heartbeat > b->hold_ns && r->domain->boxes[r->box].params.evict &&
        receiver_release(&d->view, r->box, &owner) == 0) {
        decider_count(d, STAT_EVICTED, 1);
        overrun_note(&r->overruns, SC_PEER_EVICTED, owner_pid(owner.value), now - heartbeat,
                     b->hold_ns);
    }
}

/* Every dead receiver that is still a member counts against the quorum. Others are left to those who
 * have the time: a claim is given patience (owner.c), and this thread must not be late; so only one
 * receiver is asked after in a round, which costs system calls. */
static void look_after_one(struct decider *d, uint64_t now)
{
    struct sc_receiver *r = d->receiver;
    const uint32_t receivers = r->domain->boxes[r->box].params.receivers;
    while (d->next_peer < receivers) {
        uint32_t slot = d->next_peer++;
        struct owner owner;
        if (slot == r->slot ||
            owner_read(&d->view, receiver_place(r->domain, r->box, slot), &owner) ||
            owner_state(owner.value) != OWNER_LIVE)
            continue;
        if (reap_receiver(&d->view, r->box, slot) == 0 && d->view.count)
            watch_peer(d, slot, now);
        return;
    }
    if (now >= d->look_for_dead) {
        d->look_for_dead = now + LIVENESS_NS;
        d->next_peer = 0;
    }
}

/* After a pause of our own, others are given their time anew: a cgroup may have been frozen whole. */
static void note_pause(struct decider *d, uint64_t now)
{
    if (now - d->this_look > silence_allowed(&d->receiver->domain->params.bounds))
        d->awake = now;
}

/* One look at everything. *wake: when to look again. */
static int decide_once(struct decider *d, uint64_t *wake)
{
    struct sc_receiver *r = d->receiver;
    uint64_t now = sys_now();
    note_pause(d, now);
    look_after_one(d, now);
    int rc = view_is_current(&d->view) ? 0 : view_refresh(&d->view);
    if (rc)
        return rc;                                   /* lost or removed: the application is told */
    d->last_look = d->this_look;
    d->this_look = sys_now();
    decider_count(d, STAT_HEARTBEAT_NS, d->this_look - d->stats[STAT_HEARTBEAT_NS]);
    *wake = d->this_look + r->domain->params.bounds.poll_ns;
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++)
        look_at_lane(d, lane, sys_now(), wake);
    return 0;
}

/* What only this process lacks, files or memory, may be there again in the next round. The application
 * is told: a receiver that does not vote counts against the quorum. */
static void *decide_every_poll(void *argument)
{
    struct decider *d = argument;
    while (!LOAD_ACQUIRE(&d->stop)) {
        uint64_t wake = sys_now() + d->receiver->domain->params.bounds.poll_ns;
        int rc = decide_once(d, &wake);
        if (rc == SC_LOST || rc == SC_REMOVED)       /* the application finds that out by itself */
            break;
        if (rc)
            STORE_RELEASE(&d->error, rc);
        sys_sleep_until(wake);
    }
    return NULL;
}

static void end_own_thread(struct decider *d)
{
    if (!EXCHANGE(&d->stop, true))
        pthread_join(d->thread, NULL);
}

/* A schedule decides from now on, by calling decider_round() at least every p. */
int sc_receiver_decide_by_schedule(sc_receiver *r)
{
    uint64_t forever = FOREVER;
    if (r->domain->params.protocol != SC_TIMING)
        return SC_INVALID;
    int rc = turn_take(&r->rounds, &forever);
    if (rc)
        return rc;
    end_own_thread(r->decider);
    turn_give(&r->rounds);
    return 0;
}

/* Called by a schedule's thread, to which closing this receiver says nothing. So a round has a turn:
 * closing waits for the one that runs and keeps the last one, and whoever comes later is sent away
 * before it looks at the decider. */
int decider_round(struct sc_receiver *r, uint64_t deadline)
{
    uint64_t wake;
    int rc = turn_take(&r->rounds, &deadline);
    if (rc)
        return rc;
    rc = decide_once(r->decider, &wake);
    turn_give(&r->rounds);
    return rc;
}

int decider_start(struct sc_receiver *r)
{
    struct decider *d = calloc(1, sizeof *d);
    size_t slots = (size_t)r->domain->params.senders * r->domain->boxes[r->box].params.capacity;
    if (!d)
        return -ENOMEM;
    d->receiver = r;
    d->this_look = d->awake = sys_now();
    d->pending = calloc(slots, sizeof *d->pending);
    d->outcome = calloc(slots, sizeof *d->outcome);
    for (uint32_t lane = 0; lane < r->domain->params.senders; lane++)
        STORE_RELAXED(&d->read_to[lane], r->lanes[lane].position);
    int rc = d->pending && d->outcome ? view_open(&d->view, r->domain) : -ENOMEM;
    if (rc == 0)
        decider_count(d, STAT_HEARTBEAT_NS, d->this_look); /* it may be stopped before it begins */
    if (rc == 0)
        rc = -pthread_create(&d->thread, NULL, decide_every_poll, d);
    if (rc) {
        free(d->pending);
        free(d->outcome);
        free(d);
        return rc;
    }
    r->decider = d;
    return 0;
}

void decider_stop(struct sc_receiver *r)
{
    struct decider *d = r->decider;
    turn_end(&r->rounds);
    end_own_thread(d);
    free(d->pending);
    free(d->outcome);
    free(d);
    r->decider = NULL;
}

/* Called before the copies' cursors let the sender go on, or the thread would not look at what it
 * writes next until the application reads again. */
void decider_follow(struct sc_receiver *r, uint32_t lane)
{
    STORE_RELEASE(&r->decider->read_to[lane], r->lanes[lane].position); /* [D2] */
}

static enum decision outcome_of(const struct sc_receiver *r, uint32_t lane)
{
    uint32_t capacity = r->domain->boxes[r->box].params.capacity;
    uint64_t p = r->lanes[lane].position;
    uint64_t word = LOAD_ACQUIRE(&r->decider->outcome[(uint64_t)lane * capacity +
                                                      (p & (capacity - 1))]); /* [D1] */
    return word >> 2 == p + 1 ? (enum decision)(word & 3) : UNDECIDED;
}

/* Reading: the earliest message, once no earlier one can be accepted any more. */
int pick_timing(struct sc_receiver *r, struct run *run)
{
    const struct sc_bounds *b = &r->domain->params.bounds;
    uint64_t violations = EXCHANGE(&r->decider->violations, 0);
    if (violations)
        receiver_count(r, STAT_VIOLATIONS, violations);
    int error = EXCHANGE(&r->decider->error, 0);
    if (error)
        return error;
    for (;;) {
        r->now = clock_before_loads();
        for (uint32_t lane = 0; lane < r->domain->params.senders; lane++) {
            decider_follow(r, lane);
            if (!r->lanes[lane].has_head && receiver_load_head(r, lane) < 0)
                return SC_COPY_FAILED;
        }
        int best = earliest_head(r);
        r->wake_at = UINT64_MAX;
        if (best < 0)
            return 0;
        const struct slot *head = &r->lanes[best].head;
        uint64_t ready = head->timestamp + b->expiry_ns + b->epsilon_ns, local = clock_from(r->now);
        enum decision decided = outcome_of(r, (uint32_t)best);
        if (local < ready || decided == UNDECIDED) {
            r->wake_at = local < ready ? r->now + (ready - local) : r->now + b->poll_ns;
            return 0;
        }
        bool late = r->last_ts && before(head->timestamp, (uint32_t)best, r->last_ts, r->last_lane);
        if (late && decided == ACCEPT)
            receiver_count(r, STAT_VIOLATIONS, 1);
        if (decided == ACCEPT && !late) {
            *run = (struct run){(uint32_t)best, head->timestamp, (uint32_t)best + 1};
            return 1;
        }
        receiver_count(r, STAT_SAW_REJECTED, 1);
        receiver_skip(r, (uint32_t)best);
    }
}
