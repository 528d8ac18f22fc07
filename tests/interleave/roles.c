/* roles.c: what the simulated processes do, by the public API only, and how they are set up.
 *
 * Set-up is not scheduled: the domain, the mailboxes, the senders and receivers that are there
 * from the start. What a scenario is about happens in the parts that follow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cast.h"

void *sim_calloc(size_t count, size_t bytes);

const struct scenario *scenario;
struct app *app_of[PROCESSES_MAX];

#define DOMAIN "world"
#define PATIENCE_NS 400000u

static struct event *event_begin(struct app *app, enum event_kind kind)
{
    if (app->event_count == EVENTS_MAX)
        abort();
    struct event *e = &app->event[app->event_count++];
    *e = (struct event){.kind = (uint8_t)kind, .rc = RC_PENDING};
    return e;
}

/* A word for every process: has it joined? Senders read it before they send. */
static uint64_t joined_by_now(void)
{
    uint64_t set = 0;
    for (int p = 0; p < CAST_MAX; p++)
        if (scenario->cast[p].role == JOINER)
            set |= step_load(at_of(LITMUS_PLACE(p)), 8) << p;
        else if (is_receiver(scenario->cast[p].role))
            set |= UINT64_C(1) << p;
    return set;
}

static void send_all(struct app *app)
{
    for (int i = 0; i < app->actor->messages; i++) {
        uint64_t payload = (uint64_t)(app->index + 1) << 8 | (uint64_t)i;
        struct sc_receipt receipt = {0, 0, 0};
        struct event *e = event_begin(app, EVENT_SENT);
        e->boxes = app->actor->boxes;
        e->payload = payload;
        e->members = joined_by_now();
        uint64_t deadline = app->actor->impatient ? UINT64_C(1) << 63 | PATIENCE_NS : FOREVER;
        run.process[app->index].stamping = true;
        tell("send %llx ...", (unsigned long long)payload);
        e->rc = sc_send(app->sender, e->boxes, &payload, sizeof payload, deadline, &receipt);
        e->timestamp = receipt.timestamp;
        tell("... send %llx: %s", (unsigned long long)payload, error_name(e->rc));
    }
}

/* `timing` with the decisions taken by a schedule: a round at least every p, by the same thread. */
static int receive_by_schedule(struct app *app, struct sc_message *m)
{
    for (;;) {
        uint64_t next = sys_now() + scenario->bounds.poll_ns;
        int rc = decider_round(app->receiver, FOREVER);
        if (rc == 0)
            rc = sc_receive(app->receiver, app->buffer, sizeof app->buffer, run.now, m);
        if (rc != SC_TIMEOUT)
            return rc;
        sys_sleep_until(next);
    }
}

static int receive_one(struct app *app, struct sc_message *m)
{
    if (app->actor->role == SCHEDULED)
        return receive_by_schedule(app, m);
    return sc_receive(app->receiver, app->buffer, sizeof app->buffer, FOREVER, m);
}

static void receive_all(struct app *app)
{
    int wanted = app->actor->messages ? app->actor->messages : EVENTS_MAX - 2;
    for (int i = 0; i < wanted; i++) {
        struct sc_message m;
        int rc = receive_one(app, &m);
        struct event *e = event_begin(app, rc ? EVENT_ENDED : EVENT_DELIVERED);
        e->rc = rc;
        if (rc) {
            tell("receive: %s", error_name(rc));
            return;
        }
        memcpy(&e->payload, app->buffer, sizeof e->payload);
        e->timestamp = m.timestamp;
        e->sender = m.sender;
        tell("** delivers %llx, stamped %llu", (unsigned long long)e->payload,
             (unsigned long long)(m.timestamp - START_NS));
        run.changes++;
    }
}

static void open_receiver(struct app *app)
{
    int rc = sc_receiver_open(app->domain, app->actor->boxes, FOREVER, &app->receiver);
    if (rc) {
        violated("availability: receiver %d cannot join: %s", app->index, error_name(rc));
        return;
    }
    if (app->actor->role == SCHEDULED)
        sc_receiver_decide_by_schedule(app->receiver);
    sc_receiver_wait_style(app->receiver, scenario->sleeps ? 0 : FOREVER / 2);
}

static void join_and_receive(struct app *app)
{
    struct event *e = event_begin(app, EVENT_JOINED);
    tell("joins ...");
    open_receiver(app);
    if (run.over)
        leave_execution();
    e->rc = 0;
    tell("... has joined");
    step_store(at_of(LITMUS_PLACE(app->index)), 8, 1, STEP_ORDERED);
    receive_all(app);
}

static void leave_and_receive(struct app *app)
{
    struct event *e = event_begin(app, EVENT_LEFT);
    tell("leaves ...");
    e->rc = sc_receiver_leave(app->receiver);
    tell("... has left");
    receive_all(app);
    sc_receiver_close(app->receiver);
}

static void open_and_send(struct app *app)
{
    struct event *e = event_begin(app, EVENT_JOINED);
    e->rc = sc_sender_open(app->domain, FOREVER, &app->sender);
    if (e->rc) {
        violated("availability: sender %d cannot open: %s", app->index, error_name(e->rc));
        leave_execution();
    }
    tell("has lane %u", app->sender->lane);
    send_all(app);
}

static void send_and_close(struct app *app)
{
    send_all(app);
    sc_sender_close(app->sender);
    tell("has closed");
}

static void call_once(struct app *app, int (*what)(struct app *))
{
    struct event *e = event_begin(app, EVENT_ENDED);
    e->rc = what(app);
    tell("done: %d", e->rc);
}

static int replace(struct app *app) { return sc_domain_replace(app->domain, FOREVER); }
static int reap(struct app *app) { return sc_domain_reap(app->domain); }

static void *play(void *argument)
{
    struct app *app = argument;
    if (app->actor->begins_ns)
        sys_sleep_until(run.now + app->actor->begins_ns);
    switch (app->actor->role) {
    case SENDER: send_all(app); break;
    case CLOSING_SENDER: send_and_close(app); break;
    case RECEIVER:
    case SCHEDULED: receive_all(app); break;
    case JOINER: join_and_receive(app); break;
    case LEAVER: leave_and_receive(app); break;
    case NEWCOMER: open_and_send(app); break;
    case REPLACER: call_once(app, replace); break;
    case REAPER: call_once(app, reap); break;
    default: litmus_play(app); break;
    }
    return NULL;
}

static void must(int rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "set-up: %s: %s\n", what, error_name(rc));
    exit(3);
}

static void make_domain(const struct scenario *s)
{
    uint32_t senders = 0, receivers = 0, newcomers = 0;
    for (int p = 0; p < CAST_MAX; p++) {
        senders += s->cast[p].role == SENDER || s->cast[p].role == CLOSING_SENDER;
        receivers += is_receiver(s->cast[p].role);
    }
    for (int p = 0; p < CAST_MAX && !senders; p++)   /* else newcomers take what comes free */
        newcomers += s->cast[p].role == NEWCOMER;
    senders += newcomers;
    struct sc_domain_params params = {.copies = s->copies, .senders = senders ? senders : 1,
                                      .mailboxes = s->mailboxes, .protocol = s->protocol,
                                      .group_id = -1, .bounds = s->bounds};
    struct sc_mailbox_params box = {.message_bytes = 8, .capacity = s->capacity,
                                    .receivers = s->places ? s->places : receivers ? receivers : 1,
                                    .checksum = 1,
                                    .evict = s->evict};
    run.current = HOST;
    struct sc_domain *domain;
    must(sc_domain_create(DOMAIN, &params, &domain), "create");
    must(sc_domain_publish(domain), "publish");
    for (uint32_t i = 0; i < s->mailboxes; i++) {
        const char name[2] = {(char)('a' + i), 0};
        must(sc_mailbox_create(domain, name, &box), "mailbox");
    }
}

static void set_up_actor(struct app *app, const struct scenario *s)
{
    if (app->actor->clock_offset_ns)
        sc_clock_fault(app->actor->clock_offset_ns, 0);
    must(sc_domain_open(DOMAIN, FOREVER, &app->domain), "open");
    for (uint32_t box = 0; box < s->mailboxes; box++) {
        struct sc_mailbox_params ignored;
        must(sc_mailbox_params(app->domain, (int)box, &ignored), "map");
    }
    switch (app->actor->role) {
    case SENDER:
    case CLOSING_SENDER:
        must(sc_sender_open(app->domain, FOREVER, &app->sender), "sender");
        break;
    case RECEIVER:
    case SCHEDULED:
    case LEAVER:
        open_receiver(app);
        break;
    default:
        break;
    }
}

static void mark_flags(const struct sc_domain *d)
{
    const struct mailbox *m = &d->boxes[0];
    flags_are((uint32_t)(m->offset + m->at.slots_at + offsetof(struct slot, accepted)),
              (uint32_t)m->at.slot_bytes, d->params.senders * m->params.capacity);
    for (int p = 0; p < CAST_MAX; p++)
        run.process[p].flags_left = scenario->cast[p].flags;
}

/* Counters that only people read: that they grow is no progress. */
static void mark_statistics(const struct sc_domain *d)
{
    for (uint32_t lane = 0; lane < d->params.senders; lane++)
        statistics_are((uint32_t)sender_at(lane) + (uint32_t)offsetof(struct sender_record, stats), 128);
    for (uint32_t box = 0; box < d->params.mailboxes; box++)
        for (uint32_t r = 0; r < d->boxes[box].params.receivers; r++)
            statistics_are((uint32_t)(d->boxes[box].offset + d->boxes[box].at.receivers_at +
                                      r * sizeof(struct receiver_record) +
                                      offsetof(struct receiver_record, stats)), 192);
    for (uint32_t lane = 0; lane < d->params.senders; lane++)
        statistics_are((uint32_t)sender_histogram_at(d->params.senders, d->params.mailboxes, lane), 8 * HISTOGRAM_WORDS);
    for (uint32_t box = 0; box < d->params.mailboxes; box++)
        for (uint32_t r = 0; r < d->boxes[box].params.receivers; r++)
            statistics_are((uint32_t)(d->boxes[box].offset + d->boxes[box].at.histograms_at + r * HISTOGRAM_WORDS * 8), 8 * HISTOGRAM_WORDS);
    for (int p = 0; p < CAST_MAX; p++) {
        if (!plays(p))
            continue;
        struct sc_sender *s = app_of[p]->sender;
        struct sc_receiver *r = app_of[p]->receiver;
        if (s) {
            figures_are(s->stats, sizeof s->stats);
            figures_are(s->histogram, sizeof s->histogram);
        }
        if (r) {
            figures_are(r->stats, sizeof r->stats);
            figures_are(r->histogram, sizeof r->histogram);
        }
    }
}

void set_up(const struct scenario *what)
{
    scenario = what;
    options = what->options;
    run = (struct execution){.direct = true, .now = START_NS, .budget = what->options.budget};
    run.preemptions = options.preemptions;
    for (int p = 0; p < CAST_MAX; p++) {
        if (!plays(p))
            continue;
        run.current = (uint8_t)p;
        struct app *app = app_of[p] = sim_calloc(1, sizeof *app);
        app->index = p;
        app->actor = &what->cast[p];
        run.process[p].mortal = what->cast[p].mortal;
        run.process[p].lags = what->cast[p].lags;
        options.laggards = options.laggards || what->cast[p].lags;
        if (thread_new(p, play, app) != p)
            abort();                                 /* casts have no gaps */
    }
    if (what->copies) {
        make_domain(what);
        for (int p = 0; p < CAST_MAX; p++)
            if (plays(p)) {
                run.current = (uint8_t)p;
                set_up_actor(app_of[p], what);
            }
    }
    if (what->copies) {
        mark_statistics(app_of[0]->domain);
        mark_flags(app_of[0]->domain);
    }
    if (what->lost_copy)
        fail_segment(0);
    run.direct = false;
    run.current = run.last = 0;
    run.changes = run.changes_seen = 0;
    run.memory = (struct hash){0, 0};
    count_intact();
    world_keep();
}
