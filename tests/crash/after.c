/* after.c: what the survivors do after the kill. It is the same for every point:
 *
 *   go on sending and receiving; between two receivers perhaps lose all copies but the last; replace
 *   what was lost, and then lose the old ones; reap; let newcomers take every place that should be
 *   free, and go round the ring twice; remove everything
 */
#include "after.h"

#include <stdio.h>

#include "evidence.h"

#define LAPS 2

static bool copies_are_missing(struct world *w)
{
    int serials[SC_MAILBOXES_MAX];
    return intact_copies(w, serials) < (int)w->job->copies;
}

static void replace_all(struct world *w)
{
    for (uint32_t i = 0; i <= w->job->copies; i++) {
        uint64_t begun = op_begin(w, "replace a copy");
        int rc = sc_domain_replace(w->server, PATIENCE);
        op_end(w, begun);
        if (rc == 0 && !copies_are_missing(w))
            return;
        if (rc != 1)
            fail(w, rc, "%s: replacing a copy returned %s", property_of(rc), error_name(rc));
    }
    fail(w, 0, "no leak: copies are still missing after replacing them");
}

/* With a message on its way; then only the new copies are left to tell of it. */
static void restore(struct world *w)
{
    int old[SC_MAILBOXES_MAX], before;
    if (!copies_are_missing(w))
        return;
    say(w);
    before = intact_copies(w, old);
    replace_all(w);
    for (int i = 0; i < before; i++)
        fault_strike(w->name, &(struct fault){FAULT_TRUNCATE, old[i]});
    hear_all(w);
    replace_all(w);
}

static void go_on(struct world *w)
{
    say(w);
    hear(w, EAR_0);
    if (w->job->lose_rest)
        lose_all_but_last(w);
    hear_all(w);
    restore(w);
}

static void say_goodbye(struct world *w, struct company *c)
{
    say(w);
    for (uint32_t i = 0; i < w->n->sent_count; i++)
        if (w->n->sent[i].who == WHO_FIRST && w->n->sent[i].boxes & TO_A && w->n->sent[i].rc == 0)
            w->n->goodbye_number = w->n->sent[i].number;
    w->n->goodbye = true;
    hear_all(w);
    uint64_t begun = op_begin(w, "the role, alive, ends by itself");
    actor_end(&c->role);
    op_end(w, begun);
    if (c->filler) {
        sc_sender_free(c->filler);
        sc_domain_close(c->filler_domain);
    }
}

/* Every lane and every place but the survivors' own can be had, and the ring goes round. */
static void welcome_newcomers(struct world *w)
{
    sc_domain *domain[LANES];
    sc_sender *sender[LANES];
    for (int i = 0; i < LANES; i++) {
        if (sc_domain_open(w->name, PATIENCE, &domain[i]))
            fail(w, 0, "bounded time: a newcomer cannot open the domain");
        uint64_t begun = op_begin(w, "newcomer %d asks for a lane", i);
        bool last = i == LANES - 1;              /* one more than there are */
        int rc = sc_sender_open(domain[i], last ? FROM_NOW(0) : PATIENCE, &sender[i]);
        op_end(w, begun);
        if (rc != (last ? SC_NO_LANE : 0))
            fail(w, rc, "no leak: lane for newcomer %d of %d: %s", i, LANES - 1,
                 error_name(rc));
    }
    open_ear(w, EAR_NEW, BOX_A, PATIENCE, 0);
    w->n->ear[EAR_NEW].stayed = true;
    for (int lap = 0; lap < LAPS; lap++) {
        for (int i = 0; i < (LANES - 1) * CAPACITY; i++) {
            int rc = survivor_sends(w, sender[i % (LANES - 1)],
                                    WHO_NEW + (uint32_t)i % (LANES - 1), TO_A, PATIENCE);
            if (rc)
                fail(w, rc, "%s: a newcomer's send returned %s", property_of(rc), error_name(rc));
        }
        say(w);
        hear_all(w);
    }
    for (int i = 0; i < LANES; i++) {
        if (i < LANES - 1) {
            evidence_of_sender(sender[i]);
            sc_sender_free(sender[i]);
        }
        sc_domain_close(domain[i]);
    }
}

/* Joining takes time in the timed protocols, so in them B's places are tried only where B itself was
 * made or removed. */
static void fill_places(struct world *w)
{
    sc_receiver *more[PLACES];
    int taken[] = {3, 1};                        /* EAR_0, EAR_1, EAR_NEW; EAR_B */
    bool both = w->job->protocol == SC_EAGER || w->job->script->flow != FLOW_MEMBERS;
    for (int box = BOX_A; box <= (both ? BOX_B : BOX_A); box++) {
        int free = PLACES - taken[box];
        for (int i = 0; i <= free; i++) {
            uint64_t begun = op_begin(w, "newcomer %d joins mailbox %d", i, box);
            int rc = sc_receiver_open(w->server, box, i == free ? FROM_NOW(0) : PATIENCE, &more[i]);
            op_end(w, begun);
            if (rc != (i == free ? SC_NO_LANE : 0))
                fail(w, rc, "no leak: place %d of %d in mailbox %d: %s", i, free, box,
                     error_name(rc));
        }
        for (int i = 0; i < free; i++)
            sc_receiver_free(more[i]);
    }
}

static void reap(struct world *w)
{
    uint64_t begun = op_begin(w, "the server reaps");
    int rc = sc_domain_reap(w->server);
    op_end(w, begun);
    if (rc < 0)
        fail(w, rc, "no leak: reaping returned %s", error_name(rc));
}

static void remove_everything(struct world *w)
{
    world_close(w);
    uint64_t begun = op_begin(w, "remove the domain");
    int rc = sc_domain_remove(w->name);
    op_end(w, begun);
    if (rc || segments_named(w->name))
        fail(w, rc, "no leak: removal returned %s, %d segments left", error_name(rc),
             segments_named(w->name));
}

/* While there are figures to be read. */
static void testify(struct world *w)
{
    evidence_of_world(w);
    if (w->n->violations)
        note_failure(w->n, TIMED, "consensus: the receivers counted %u violations",
                     (unsigned)w->n->violations);
}

void live_on(struct world *w, struct company *c)
{
    go_on(w);
    say_goodbye(w, c);
    reap(w);
    welcome_newcomers(w);
    fill_places(w);
    testify(w);
    remove_everything(w);
}

/* Whoever made or removed a mailbox and died has left no memory behind: a domain takes as much as one
 * that was made in peace. (Where a copy was lost the new one holds everything anew.) */
void check_memory(struct world *w)
{
    char peace[96];
    if (w->job->plan.fault.kind)
        return;
    snprintf(peace, sizeof peace, "%s-peace", w->name);
    if (make_domain(peace, w->job))
        fail(w, 0, "no leak: no second domain to compare with");
    for (int serial = 0; serial < (int)w->job->copies; serial++) {
        int64_t now = segment_blocks(w->name, serial), expected = segment_blocks(peace, serial);
        if (now != expected)
            note_failure(w->n, ABSOLUTE, "no leak: copy %d takes %d blocks instead of %d", serial, (int)now,
                         (int)expected);
    }
    sc_domain_remove(peace);
}
