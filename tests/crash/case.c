/* case.c: the course of a case: the stage is set, the role acts, the survivors live on (after.c), and
 * the notes are judged (verdict.c). Creation and removal have courses of their own, since what the
 * role leaves behind may be no domain at all.
 */
#define _GNU_SOURCE
#include "case.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "after.h"
#include "evidence.h"
#include "stillborn.h"
#include "verdict.h"

#define CASE_SECONDS_MAX 60
#define BREATH FROM_NOW(MS)

/* ---- before ---- */

static void sleep_once(struct world *w, enum listener ear)
{
    struct sc_message m;
    struct body body;
    int rc = sc_receive(w->ear[ear], &body, sizeof body, BREATH, &m);
    if (rc != SC_TIMEOUT)
        fail(w, rc, "ordering: an empty mailbox gave receiver %d something: %s", ear,
             error_name(rc));
}

static void prepare(struct world *w, struct cast *c)
{
    uint64_t begun = op_begin(w, "the role prepares itself");
    if (!actor_do(c, 'p'))
        fail(w, 0, "validity: the role died before its act");
    op_end(w, begun);
}

static void set_stage(struct world *w, struct company *c)
{
    unsigned setting = w->job->script->setting;
    if (setting & DEAD_SENDER)
        prepare(w, &c->sender);
    say(w);
    hear_all(w);
    prepare(w, &c->role);
    if (setting & DEAD_RECEIVER)
        prepare(w, &c->receiver);
    if (setting & NO_LANE_LEFT) {
        if (sc_domain_open(w->name, PATIENCE, &c->filler_domain) ||
            sc_sender_open(c->filler_domain, PATIENCE, &c->filler))
            fail(w, 0, "no leak: no lane for a third sender");
    }
    say(w);
    hear_all(w);
    if (setting & DEAD_RECEIVER)
        actor_kill(&c->receiver);
    if (setting & DEAD_SENDER && actor_do(&c->sender, 'g'))
        actor_kill(&c->sender);
    say(w);
    if (setting & SLEEPERS) {
        hear(w, EAR_0);
        hear(w, EAR_B);
        sleep_once(w, EAR_0);
        sleep_once(w, EAR_B);
    }
    if (setting & FULL) {
        int rc = say_to(w, TO_A, BREATH);
        if (rc != SC_FULL)
            fail(w, rc, "validity: a send to a full lane returned %s", error_name(rc));
    }
    if (setting & LOST_COPY)
        fault_strike(w->name, &(struct fault){FAULT_TRUNCATE, 0});
}

/* ---- the courses ---- */

/* Returns false if the planned point was not reached: there is nothing to judge. */
static bool act(struct world *w, struct cast *role)
{
    uint64_t begun = op_begin(w, "the role acts");
    bool lives = actor_do(role, 'g');
    op_end(w, begun);
    if (w->job->plan.point == 0 || w->n->failures)
        return true;
    if (w->n->trace.fired && lives && w->job->plan.kill)
        lives = actor_outlives(role);                /* another thread of it may have been there */
    if (w->n->trace.fired && lives == w->job->plan.kill)
        fail(w, 0, "bounded time: the role %s its planned point", lives ? "outlived" : "died without");
    return w->n->trace.fired;
}

static void course_of_members(struct world *w, struct company *c)
{
    int rc = make_domain(w->name, w->job);
    if (rc)
        fail(w, rc, "validity: create: %s", error_name(rc));
    world_open(w);
    set_stage(w, c);
    act(w, &c->role);
    live_on(w, c);
}

/* What a creator left is either usable or gone; then its name can be had. */
static void course_of_creation(struct world *w, struct company *c)
{
    sc_domain *d;
    struct sc_mailbox_params box = box_params();
    struct sc_domain_params params = world_params(w->job);
    if (w->job->script->setting & STILLBORN && !leave_stillborn(w->name, &params))
        fail(w, 0, "validity: no stillborn domain to begin with");
    act(w, &c->role);
    uint64_t begun = op_begin(w, "open what the creator left");
    int rc = sc_domain_open(w->name, FROM_NOW(50 * MS), &d);
    op_end(w, begun);
    if (rc == SC_CORRUPT && w->job->plan.fault.kind && segments_named(w->name) == 1)
        rc = sc_domain_remove(w->name) ? rc : SC_MISSING;    /* all that had a name was lost */
    if (rc == SC_MISSING && !c->role.alive)
        rc = make_domain(w->name, w->job);
    else if (rc == 0) {
        if ((rc = sc_domain_reap(d)) < 0)
            fail(w, rc, "%s: reaping after the creator: %s", property_of(rc), error_name(rc));
        rc = sc_mailbox_find(d, "a");
        if (rc == SC_MISSING)
            rc = sc_mailbox_create(d, "a", &box);
        if (rc == BOX_A && (rc = sc_mailbox_find(d, "b")) == SC_MISSING)
            rc = sc_mailbox_create(d, "b", &box);
        sc_domain_close(d);
        rc = rc == BOX_B ? 0 : rc;
    }
    if (rc)
        fail(w, rc, "no leak: after the creator the name cannot be used: %s", error_name(rc));
    check_memory(w);
    world_open(w);
    say(w);
    hear_all(w);
    say(w);
    live_on(w, c);
}

/* The mailbox is gone, or somebody else removes it; whoever uses it is told; its place is free. */
static void course_of_box_removal(struct world *w, struct company *c)
{
    struct sc_mailbox_params params = box_params();
    struct sc_message m;
    struct body body;
    int rc = make_domain(w->name, w->job);
    if (rc)
        fail(w, rc, "validity: create: %s", error_name(rc));
    world_open(w);
    set_stage(w, c);
    act(w, &c->role);
    w->n->ear[EAR_B].stayed = false;
    uint64_t begun = op_begin(w, "remove mailbox B again");
    int box = sc_mailbox_find(w->server, "b");
    rc = box >= 0 ? sc_mailbox_remove(w->server, box) : box;
    op_end(w, begun);
    if (rc && rc != SC_MISSING)
        fail(w, rc, "no leak: removing the mailbox again returned %s", error_name(rc));
    if ((rc = say_to(w, TO_B, PATIENCE)) != SC_REMOVED)
        fail(w, rc, "validity: a send to a removed mailbox returned %s", error_name(rc));
    begun = op_begin(w, "the receiver of mailbox B is told");
    while ((rc = sc_receive(w->ear[EAR_B], &body, sizeof body, FROM_NOW(2000 * MS), &m)) == 0)
        ;
    op_end(w, begun);
    if (rc != SC_REMOVED)
        fail(w, rc, "bounded time: the receiver of a removed mailbox was told %s", error_name(rc));
    close_ear(w, EAR_B);
    begun = op_begin(w, "create mailbox B again");
    rc = sc_mailbox_create(w->server, "b", &params);
    op_end(w, begun);
    if (rc != BOX_B)
        fail(w, rc, "no leak: creating the mailbox again returned %s", error_name(rc));
    check_memory(w);
    open_ear(w, EAR_B, BOX_B, PATIENCE, 0);
    live_on(w, c);
}

/* The remover died between taking the first name away and saying so, and every copy that still had
 * a name was lost: nobody can find the one that is left, to say so there. Its members go on. */
static void go_on_nameless(struct world *w)
{
    hear_all(w);
    world_close(w);
}

static void expect_removed(struct world *w, const char *who, int rc)
{
    if (rc != SC_REMOVED)
        fail(w, rc, "bounded time: after the removal %s was told %s", who, error_name(rc));
}

/* Nothing is left, everyone is told, and the name can be had again. */
static void course_of_domain_removal(struct world *w, struct company *c)
{
    struct sc_message m;
    struct body body;
    int rc = make_domain(w->name, w->job);
    if (rc)
        fail(w, rc, "validity: create: %s", error_name(rc));
    world_open(w);
    set_stage(w, c);
    bool lives = act(w, &c->role) && c->role.alive;
    uint64_t begun = op_begin(w, "remove the domain again");
    rc = sc_domain_remove(w->name);
    op_end(w, begun);
    if ((rc && rc != SC_MISSING) || segments_named(w->name) || (lives && rc == 0))
        fail(w, rc, "no leak: second removal returned %s, %d segments left", error_name(rc),
             segments_named(w->name));
    if (w->job->plan.kill && w->job->plan.fault.kind && say_to(w, TO_A, PATIENCE) == 0) {
        go_on_nameless(w);
        return;
    }
    evidence_of_world(w);
    expect_removed(w, "the sender", say_to(w, TO_A, PATIENCE));
    for (int ear = EAR_0; ear <= EAR_B; ear++) {
        begun = op_begin(w, "receiver %d is told of the removal", ear);
        while ((rc = sc_receive(w->ear[ear], &body, sizeof body, PATIENCE, &m)) == 0)
            ;
        op_end(w, begun);
        expect_removed(w, "a receiver", rc);
        w->n->ear[ear].stayed = false;
        w->n->ear[ear].count = 0;
    }
    w->n->sent_count = 0;
    world_close(w);
    *w = (struct world){.job = w->job, .n = w->n, .name = w->name};
    if ((rc = make_domain(w->name, w->job)))
        fail(w, rc, "no leak: the name cannot be had again: %s", error_name(rc));
    world_open(w);
    say(w);
    live_on(w, c);
}

static void run_course(const struct job *job, struct notes *n, const char *name)
{
    struct world w = {.job = job, .n = n, .name = name};
    struct company c = {0};
    unsigned setting = job->script->setting;
    gauge = &n->gauge;
    gauge->allowed_ns = allowed_lateness(job);
    c.role = actor_start(job, job->script, n, name, WHO_ROLE);
    c.role.zombie = job->plan.point % 2 == 0;    /* both kinds of death */
    if (setting & DEAD_SENDER)
        c.sender = actor_start(job, script_named("send-more"), n, name, WHO_VICTIM);
    if (setting & DEAD_RECEIVER)
        c.receiver = actor_start(job, script_named("receive"), n, name, WHO_VICTIM);
    switch (job->script->flow) {
    case FLOW_MEMBERS: course_of_members(&w, &c); break;
    case FLOW_CREATE: course_of_creation(&w, &c); break;
    case FLOW_REMOVE_BOX: course_of_box_removal(&w, &c); break;
    case FLOW_REMOVE_DOMAIN: course_of_domain_removal(&w, &c); break;
    }
    verdict(n, job->protocol == SC_EAGER);
    n->finished = true;
    _exit(0);
}

/* ---- seen from the worker ---- */

/* 0, or -1 when the time was over and the process had to be killed. */
static int wait_for(pid_t pid)
{
    struct timespec pause = {0, 200000};
    time_t end = time(NULL) + CASE_SECONDS_MAX;
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (time(NULL) > end) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : status;
}

static void clear_away(const char *name)
{
    for (int serial = 0; serial < 48; serial++)
        fault_strike(name, &(struct fault){FAULT_UNLINK, serial});
}

/* Who was late, by how much: the worst of each way. */
static bool somebody_was_late(const struct job *job, struct notes *n)
{
    uint64_t worst = 0;
    for (int i = 0; i < LATENESSES; i++) {
        uint64_t late = n->gauge.worst_ns[i];
        if (late <= n->gauge.allowed_by[i])
            continue;
        note_figure(n, "process %d %s: %u us instead of %u", (int)n->gauge.worst_pid[i],
                    lateness_names[i], (unsigned)(late / 1000),
                    (unsigned)(n->gauge.allowed_by[i] / 1000));
        if (late > worst) {
            worst = late;
            n->excuse = (enum lateness)i;
        }
    }
    return worst && job->protocol != SC_EAGER;
}

static enum outcome outcome_of(const struct job *job, struct notes *n)
{
    bool late = somebody_was_late(job, n);
    if (n->failures)
        return late && !n->absolute ? NOISE : FAILED;
    if (job->plan.point && !n->trace.fired)
        return NOT_REACHED;
    return n->trace.void_fault ? NO_SUCH_COPY : PASSED;
}

enum outcome case_run(const struct job *job, struct notes *n, const char *name)
{
    memset(n, 0, sizeof *n);
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0)
        run_course(job, n, name);
    int rc = wait_for(pid);
    if (rc)
        note_failure(n, ABSOLUTE, "stuck: %s after %d s; survivors: %s; role: %s",
                     rc < 0 ? "not over" : "died", CASE_SECONDS_MAX, n->doing[0], n->doing[1]);
    if (!n->failures && !n->finished)
        note_failure(n, ABSOLUTE, "stuck: the case ended in the middle; survivors: %s",
                     n->doing[0]);
    clear_away(name);
    return outcome_of(job, n);
}
