/* properties.c: what must hold when nothing moves any more.
 *
 *   consensus     what one surviving receiver delivered, all delivered that it was meant for
 *   validity      send returned 0: delivered by all; send raised: by none; not raised without need
 *   ordering      each receiver delivers in the order of (timestamp, lane), so all agree
 *   integrity     nothing twice, nothing invented, nothing altered
 *   join          what is sent after a receiver has joined reaches it
 *   bounded time  everybody who is not dead has finished
 *   clean-up      once the survivors have reaped, the dead hold no lane and no intent
 */
#include <stdio.h>

#include "cast.h"

static bool survives(int p)
{
    return plays(p) && !run.process[p].dead;
}

/* Stops before the end, by itself or by eviction: it is not asked for the rest. */
static bool stays(const struct app *app)
{
    if (app->actor->messages)
        return false;
    for (int i = 0; i < app->event_count; i++)
        if (app->event[i].kind == EVENT_ENDED && app->event[i].rc == SC_LATE && scenario->evict)
            return false;
    return true;
}

static const struct event *delivery(const struct app *app, uint64_t payload)
{
    for (int i = 0; i < app->event_count; i++)
        if (app->event[i].kind == EVENT_DELIVERED && app->event[i].payload == payload)
            return &app->event[i];
    return NULL;
}

static bool is_addressed(const struct app *receiver, const struct event *sent, uint64_t timestamp)
{
    const struct sc_receiver *r = receiver->receiver;
    uint64_t when = timestamp >> LOW_SHIFT;
    return r && sent->boxes >> receiver->actor->boxes & 1 && r->entry <= when && when < r->exit;
}

static const struct event *sent_as(uint64_t payload)
{
    for (int p = 0; p < CAST_MAX; p++)
        for (int i = 0; plays(p) && i < app_of[p]->event_count; i++)
            if (app_of[p]->event[i].kind == EVENT_SENT && app_of[p]->event[i].payload == payload)
                return &app_of[p]->event[i];
    return NULL;
}

static void check_receiver(const struct app *app)
{
    const struct event *last = NULL;
    for (int i = 0; i < app->event_count; i++) {
        const struct event *e = &app->event[i];
        if (e->kind == EVENT_ENDED && !(e->rc == SC_CLOSED && app->actor->role == LEAVER) &&
            !(e->rc == SC_LATE && scenario->evict))
            violated("availability: receiver %d was told %s", app->index, error_name(e->rc));
        if (e->kind != EVENT_DELIVERED)
            continue;
        const struct event *sent = sent_as(e->payload);
        if (!sent || (sent->rc == 0 && sent->timestamp != e->timestamp))
            violated("integrity: receiver %d delivers %llx, which was not sent so", app->index,
                     (unsigned long long)e->payload);
        if (delivery(app, e->payload) != e)
            violated("integrity: receiver %d delivers %llx twice", app->index,
                     (unsigned long long)e->payload);
        if (last && !before(last->timestamp, (uint32_t)(last->sender & 255), e->timestamp,
                            (uint32_t)(e->sender & 255)))
            violated("ordering: receiver %d delivers %llx after %llx, which is later", app->index,
                     (unsigned long long)e->payload, (unsigned long long)last->payload);
        last = e;
    }
}

/* The timestamp of a message that somebody has: its sender, or else who delivered it. */
static bool stamped(const struct event *sent, uint64_t *timestamp)
{
    if (sent->rc == 0) {
        *timestamp = sent->timestamp;
        return true;
    }
    for (int p = 0; p < CAST_MAX; p++) {
        const struct event *e = survives(p) && is_receiver(scenario->cast[p].role)
                                    ? delivery(app_of[p], sent->payload) : NULL;
        if (e) {
            *timestamp = e->timestamp;
            return true;
        }
    }
    return false;
}

static void check_message(const struct event *sent, bool sender_survives)
{
    uint64_t timestamp;
    unsigned long long payload = sent->payload;
    bool rejected = sent->rc == SC_REJECTED || sent->rc == SC_FULL;
    if (sent->rc < 0 && !rejected)
        violated("availability: sending %llx was answered by %s", payload, error_name(sent->rc));
    if (sent->rc == SC_REJECTED && !scenario->may_reject)
        violated("validity: %llx was rejected though nobody was late", payload);
    if (sent->rc == RC_PENDING && sender_survives)
        violated("bounded time: the send of %llx never returned", payload);
    if (!stamped(sent, &timestamp))
        return;
    if (rejected)
        violated("validity: %llx was delivered though send raised", payload);
    for (int p = 0; p < CAST_MAX; p++) {
        if (!survives(p) || !is_receiver(scenario->cast[p].role) || !stays(app_of[p]))
            continue;
        bool had_joined = sent->members >> p & 1 && scenario->cast[p].role == JOINER;
        bool mine = is_addressed(app_of[p], sent, timestamp);
        if (sent->boxes >> scenario->cast[p].boxes & 1 && had_joined && !mine)
            violated("join: %llx was sent after receiver %d had joined, and is not its own",
                     payload, p);
        if (mine && !delivery(app_of[p], sent->payload))
            violated("%s: %llx never reaches receiver %d", sent->rc == 0 ? "validity" : "consensus",
                     payload, p);
    }
}

static void check_finished(void)
{
    for (int p = 0; p < CAST_MAX; p++)
        if (survives(p) && !is_receiver(scenario->cast[p].role) && run.thread[p].status != ENDED)
            violated("bounded time: process %d is stuck", p);
}

/* Somebody who comes later cleans up after the dead; it is not scheduled. */
static void check_reaping(void)
{
    bool died = false;
    for (int p = 0; p < CAST_MAX; p++)
        died = died || (plays(p) && run.process[p].dead);
    if (!died || scenario->protocol != SC_EAGER)
        return;
    run.direct = true;
    run.current = HOST;
    struct sc_domain *d;
    struct view view;
    int rc = sc_domain_open("world", FOREVER, &d);
    if (rc == 0)
        rc = sc_domain_reap(d);
    if (rc < 0 || (rc = view_open(&view, d)))
        violated("clean-up: reaping fails: %s", error_name(rc));
    for (uint32_t lane = 0; !violation[0] && lane < d->params.senders; lane++) {
        struct owner owner;
        uint64_t intent;
        rc = owner_read(&view, lane_place(lane, offsetof(struct sender_record, owner)), &owner);
        if (rc == 0 && owner_state(owner.value) != OWNER_FREE && owner_is_dead(&view, &owner))
            violated("clean-up: lane %u is still held by a dead process", lane);
        if (rc == 0)
            rc = greatest(&view, lane_place(lane, offsetof(struct sender_record, intent)), &intent);
        if (rc == 0 && owner_state(owner.value) == OWNER_FREE && !(intent & 1))
            violated("clean-up: the intent of lane %u stays up", lane);
    }
    run.direct = false;
}

struct hash outcome_hash(void)
{
    struct hash h = {0, 0};
    for (int p = 0; p < CAST_MAX; p++)
        for (int i = 0; plays(p) && i < app_of[p]->event_count; i++) {
            const struct event *e = &app_of[p]->event[i];
            hash_add(&h, (uint64_t)p << 40 | (uint64_t)e->kind << 32 | (uint32_t)e->rc);
            hash_add(&h, e->payload);
            hash_add(&h, e->timestamp);
            hash_add(&h, run.process[p].dead);
        }
    return h;
}

static void check_litmus(void);

void properties_check(void)
{
    check_finished();
    if (!scenario->copies) {
        check_litmus();
        return;
    }
    for (int p = 0; p < CAST_MAX && !violation[0]; p++) {
        if (!plays(p))
            continue;
        const struct app *app = app_of[p];
        if (survives(p) && is_receiver(app->actor->role))
            check_receiver(app);
        for (int i = 0; i < app->event_count && !violation[0]; i++)
            if (app->event[i].kind == EVENT_SENT)
                check_message(&app->event[i], survives(p));
        if (survives(p) && app->actor->role == REPLACER && app->event[0].rc != 1)
            violated("replacing: the replacer was told %s", error_name(app->event[0].rc));
    }
    if (!violation[0])
        check_reaping();
}

/* The classical outcomes that a store buffer allows and a fence forbids. */
static void check_litmus(void)
{
    uint64_t a = app_of[0]->event[0].payload, b = app_of[1]->event[0].payload;
    enum role role = scenario->cast[0].role;
    if ((role == SB_STORES || role == SB_FENCES) && a == 0 && b == 0)
        violated("store buffering: both read 0");
    if (role == MP_WRITER && app_of[1]->event[0].timestamp == 1 && b == 0)
        violated("message passing: the flag is seen, the data are not");
}
