/* world.c: see world.h. */
#define _GNU_SOURCE
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "evidence.h"

/* ---- failing, and where we are ---- */

void fail(struct world *w, int rc, const char *format, ...)
{
    char text[LINE * 3];
    va_list more;
    va_start(more, format);
    vsnprintf(text, sizeof text, format, more);
    va_end(more);
    note_failure(w->n, kind_of(rc), "%s", text);
    evidence_of_world(w);
    _exit(0);                        /* the worker reads the notes; children die with us */
}

uint64_t op_begin(struct world *w, const char *format, ...)
{
    va_list more;
    va_start(more, format);
    vsnprintf(w->n->doing[0], LINE, format, more);
    va_end(more);
    gauge_rest();
    return sc_now();
}

void op_end(struct world *w, uint64_t begun)
{
    uint64_t took = sc_now() - begun;
    if (took > w->n->worst_ns) {
        w->n->worst_ns = took;
        memcpy(w->n->worst_what, w->n->doing[0], LINE);
    }
    if (w->job->plan.kill && w->n->trace.fired && took > w->n->worst_bereft_ns)
        w->n->worst_bereft_ns = took;
    w->n->doing[0][0] = 0;
}

/* ---- parameters ---- */

/* In `eager` Δs only says when a sender that lives but does not move is given up: never, here. The
 * timed protocols wait for their bounds on every message, so theirs are as short as a quiet machine
 * keeps. A case in which somebody broke one is repeated with bounds twice as long, until it fits the
 * machine. */
static uint64_t stretch(const struct job *job)
{
    return UINT64_C(1) << (job->attempt < STRETCH_MAX ? job->attempt : STRETCH_MAX);
}

struct sc_domain_params world_params(const struct job *job)
{
    struct sc_domain_params p = {job->copies, LANES, 2, job->protocol, 0600, -1, {0}};
    uint64_t n = job->copies, times = stretch(job);
    p.bounds.poll_ns = MS;
    p.bounds.hold_ns = 1000 * MS;
    if (job->protocol == SC_EAGER) {
        p.bounds.send_ns = 4000 * MS;
        p.bounds.decide_ns = MS;
        p.bounds.receive_ns = 100 * MS;
    } else if (job->protocol == SC_CRASH) {
        p.bounds.send_ns = 3 * MS * times;
        p.bounds.decide_ns = MS / 4 * times;
        p.bounds.receive_ns = MS * times;
    } else {
        p.bounds.send_ns = 3 * MS * times;
        p.bounds.decide_ns = 3 * MS * times;
        p.bounds.poll_ns = MS / 2;
        p.bounds.receive_ns = n * (p.bounds.decide_ns + MS / 10 * times) + p.bounds.poll_ns;
    }
    p.bounds.expiry_ns = p.bounds.send_ns + p.bounds.poll_ns + n * p.bounds.decide_ns;
    return p;
}

/* A thread that is later than this may have broken a bound: δd in `crash`; in `timing` half of it, since
 * a round has two sleeps. */
uint64_t allowed_lateness(const struct job *job)
{
    uint64_t decide_ns = world_params(job).bounds.decide_ns;
    return job->protocol == SC_TIMING ? decide_ns / 2 : decide_ns;
}

struct sc_mailbox_params box_params(void)
{
    return (struct sc_mailbox_params){sizeof(struct body), CAPACITY, PLACES, 1, 0};
}

int make_domain(const char *name, const struct job *job)
{
    struct sc_domain_params params = world_params(job);
    struct sc_mailbox_params box = box_params();
    sc_domain *d;
    int rc = sc_domain_create(name, &params, &d);
    if (rc)
        return rc;
    rc = sc_domain_publish(d);
    if (rc == 0)
        rc = sc_mailbox_create(d, "a", &box);
    if (rc == BOX_A)
        rc = sc_mailbox_create(d, "b", &box);
    sc_domain_close(d);
    return rc == BOX_B ? 0 : rc < 0 ? rc : SC_INVALID;
}

/* ---- survivors ---- */

static sc_domain *open_domain(struct world *w, const char *whom)
{
    sc_domain *d = NULL;
    uint64_t begun = op_begin(w, "open the domain for %s", whom);
    int rc = sc_domain_open(w->name, PATIENCE, &d);
    op_end(w, begun);
    if (rc)
        fail(w, rc, "bounded time: %s cannot open the domain: %s", whom, error_name(rc));
    return d;
}

void open_ear(struct world *w, enum listener ear, int box, uint64_t deadline, int expected)
{
    w->ear_domain[ear] = open_domain(w, "a receiver");
    uint64_t begun = op_begin(w, "receiver %d joins mailbox %d", ear, box);
    int rc = sc_receiver_open(w->ear_domain[ear], box, deadline, &w->ear[ear]);
    op_end(w, begun);
    if (rc == 0 && expected == 0)
        sc_receiver_wait_style(w->ear[ear], 0);
    else if (rc != expected)
        fail(w, rc, "no leak: receiver %d joins mailbox %d: %s instead of %s", ear, box,
             error_name(rc), error_name(expected));
    if (rc) {
        sc_domain_close(w->ear_domain[ear]);
        w->ear_domain[ear] = NULL;
    }
}

void close_ear(struct world *w, enum listener ear)
{
    uint64_t begun = op_begin(w, "receiver %d closes", ear);
    evidence_of_receiver(w->ear[ear]);
    sc_receiver_free(w->ear[ear]);
    op_end(w, begun);
    sc_domain_close(w->ear_domain[ear]);
    w->ear[ear] = NULL;
    w->ear_domain[ear] = NULL;
}

void world_open(struct world *w)
{
    w->server = open_domain(w, "the server");
    w->first_domain = open_domain(w, "the first sender");
    int rc = sc_sender_open(w->first_domain, PATIENCE, &w->first);
    if (rc)
        fail(w, rc, "no leak: the first sender gets no lane: %s", error_name(rc));
    open_ear(w, EAR_0, BOX_A, PATIENCE, 0);
    open_ear(w, EAR_1, BOX_A, PATIENCE, 0);
    open_ear(w, EAR_B, BOX_B, PATIENCE, 0);
    for (int ear = EAR_0; ear <= EAR_B; ear++)
        w->n->ear[ear].stayed = true;
}

void world_close(struct world *w)
{
    for (int ear = 0; ear < EARS; ear++)
        if (w->ear[ear])
            close_ear(w, (enum listener)ear);
    sc_sender_free(w->first);
    sc_domain_close(w->first_domain);
    sc_domain_close(w->server);
}

/* ---- messages ---- */

int send_as(struct notes *n, sc_sender *sender, uint32_t who, uint32_t boxes, uint64_t deadline,
            struct sc_receipt *receipt)
{
    struct sent *sent = note_try(n, who, boxes, 0);
    struct body body = body_of(who, sent->number);
    return sent->rc = sc_send(sender, boxes, &body, sizeof body, deadline, receipt);
}

int survivor_sends(struct world *w, sc_sender *sender, uint32_t who, uint32_t boxes,
                   uint64_t deadline)
{
    struct sc_receipt receipt;
    uint64_t begun = op_begin(w, "sender %u sends to mailboxes %u", who, boxes);
    int rc = send_as(w->n, sender, who, boxes, deadline, &receipt);
    op_end(w, begun);
    if (rc == 0 && w->job->protocol == SC_TIMING && w->promised < PROMISES_MAX)
        w->promises[w->promised++] =
            (struct promise){sender, boxes == TO_A ? BOX_A : BOX_B, receipt.position};
    return rc;
}

static void ask_for_promises(struct world *w)
{
    for (int i = 0; i < w->promised; i++) {
        const struct promise *p = &w->promises[i];
        uint64_t begun = op_begin(w, "ask whether a message was accepted");
        int rc = sc_confirm(p->sender, p->box, &(struct sc_receipt){.position = p->position},
                            PATIENCE);
        op_end(w, begun);
        if (rc == SC_REJECTED)
            fail(w, rc, "validity: a survivor's message was decided against");
        if (rc && rc != SC_INVALID)              /* its slot has been used again: long accepted */
            fail(w, rc, "bounded time: a message is not decided: %s", error_name(rc));
    }
    w->promised = 0;
}

int send_pair_as(struct notes *n, sc_sender *sender, uint32_t who, uint32_t boxes)
{
    static uint32_t batches;
    struct sc_receipt receipt;
    struct sent *one = note_try(n, who, boxes, ++batches), *two = note_try(n, who, boxes, batches);
    struct body bodies[] = {body_of(who, one->number), body_of(who, two->number)};
    struct sc_part parts[] = {{&bodies[0], sizeof bodies[0]}, {&bodies[1], sizeof bodies[1]}};
    return one->rc = two->rc = sc_send_many(sender, boxes, parts, 2, PATIENCE, &receipt);
}

int say_to(struct world *w, uint32_t boxes, uint64_t deadline)
{
    return survivor_sends(w, w->first, WHO_FIRST, boxes, deadline);
}

void say(struct world *w)
{
    static const uint32_t both[] = {TO_A | TO_B, 0}, each[] = {TO_A, TO_B, 0};
    for (const uint32_t *to = w->job->protocol == SC_EAGER ? both : each; *to; to++) {
        int rc = say_to(w, *to, PATIENCE);
        if (rc)
            fail(w, rc, "%s: the first sender, alive, was refused with %s", property_of(rc),
                 error_name(rc));
    }
}

static const struct sent *said_last(const struct world *w, uint32_t to)
{
    for (uint32_t i = w->n->sent_count; i-- > 0;)
        if (w->n->sent[i].who == WHO_FIRST && w->n->sent[i].rc == 0 && w->n->sent[i].boxes & to)
            return &w->n->sent[i];
    return NULL;
}

void hear(struct world *w, enum listener ear)
{
    const struct sent *last = said_last(w, ear == EAR_B ? TO_B : TO_A);
    struct ear *e = &w->n->ear[ear];
    struct sc_message m;
    struct body body;
    if (!last)
        return;
    ask_for_promises(w);
    while (e->count == 0 || e->got[e->count - 1].who != WHO_FIRST ||
           e->got[e->count - 1].number < last->number) {
        uint64_t begun = op_begin(w, "receiver %d waits for %u.%u", ear, last->who, last->number);
        int rc = sc_receive(w->ear[ear], &body, sizeof body, PATIENCE, &m);
        op_end(w, begun);
        if (rc)
            fail(w, rc, "%s: receiver %d waited for %u.%u and got %s",
                 property_of(rc), ear, last->who, last->number, error_name(rc));
        note_got(w->n, ear, m.timestamp, m.sender, &body, m.bytes);
    }
}

void hear_all(struct world *w)
{
    for (int ear = 0; ear < EARS; ear++)
        if (w->ear[ear])
            hear(w, (enum listener)ear);
}

/* ---- copies ---- */

int intact_copies(struct world *w, int *serials)
{
    struct sc_copy_info info[SC_MAILBOXES_MAX];
    uint64_t begun = op_begin(w, "look which copies are intact");
    int count = sc_domain_copies(w->server, info, SC_MAILBOXES_MAX), intact = 0;
    op_end(w, begun);
    if (count < 0)
        fail(w, 0, "bounded time: the copies cannot be listed: %s", error_name(count));
    for (int i = 0; i < count; i++)
        if (info[i].intact)
            serials[intact++] = (int)info[i].serial;
    return intact;
}

void lose_all_but_last(struct world *w)
{
    int serials[SC_MAILBOXES_MAX], count = intact_copies(w, serials);
    for (int i = 0; i + 1 < count; i++)
        fault_strike(w->name, &(struct fault){FAULT_TRUNCATE, serials[i]});
}
