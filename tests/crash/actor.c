/* actor.c: see actor.h. Commands: p(repare), g(o); answers: r(eady), d(one). */
#define _GNU_SOURCE
#include "actor.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "evidence.h"

#define KILL_MS 20000                                /* for the kernel to end a killed process */

static void testify(const struct actor *a)
{
    gauge_read();
    evidence_of_sender(a->sender);
    evidence_of_receiver(a->receiver);
}

void actor_fail(struct actor *a, int rc, const char *format, ...)
{
    char text[LINE * 3];
    va_list more;
    points_disarm();
    va_start(more, format);
    vsnprintf(text, sizeof text, format, more);
    va_end(more);
    note_failure(a->n, kind_of(rc), "%s: the %s: %s", property_of(rc), a->script->role, text);
    testify(a);
    _exit(0);
}

void must(struct actor *a, const char *what, int rc)
{
    if (rc < 0)
        actor_fail(a, rc, "%s: %s", what, error_name(rc));
}

/* Notes what came. SC_TIMEOUT and SC_CLOSED are answers, everything else is not. */
int actor_receive(struct actor *a, uint64_t deadline)
{
    struct sc_message m;
    struct body body;
    int rc = sc_receive(a->receiver, &body, sizeof body, deadline, &m);
    if (rc == 0)
        note_got(a->n, EAR_ROLE, m.timestamp, m.sender, &body, m.bytes);
    else if (rc != SC_TIMEOUT && rc != SC_CLOSED)
        actor_fail(a, rc, "receive: %s", error_name(rc));
    return rc;
}

static void play(struct actor *a, int from, int to)
{
    const struct plan victim = {.point = a->job->victim_point, .kill = true};
    bool is_role = a->who == WHO_ROLE;
    char command;
    while (gauge_rest(), read(from, &command, 1) == 1) {
        snprintf(a->n->doing[1], LINE, "%s %c", a->script->name, command);
        if (command == 'p') {
            if (a->script->prepare)
                a->script->prepare(a);
        } else {
            points_arm(is_role ? &a->n->trace : &a->n->victim_trace,
                       is_role ? &a->job->plan : &victim, a->name);
            a->script->act(a);
            points_disarm();
        }
        if (write(to, command == 'p' ? "r" : "d", 1) != 1)
            _exit(1);
        if (command == 'g')
            break;
    }
    if (a->script->stay)
        a->script->stay(a);
    testify(a);
    sc_receiver_free(a->receiver);
    sc_sender_free(a->sender);
    sc_domain_close(a->domain);
    gauge_end_process();
    a->n->doing[1][0] = 0;
    _exit(0);
}

struct cast actor_start(const struct job *job, const struct script *script, struct notes *n,
                        const char *name, uint32_t who)
{
    int down[2], up[2];
    if (pipe(down) || pipe(up))
        abort();
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        struct actor a = {.script = script, .job = job, .n = n, .name = name, .who = who};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(down[1]);
        close(up[0]);
        play(&a, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    return (struct cast){pid, down[1], up[0], true, false};
}

static void bury(struct cast *c)
{
    siginfo_t how;
    gauge_rest();
    waitid(P_PID, (id_t)c->pid, &how, WEXITED | (c->zombie ? WNOWAIT : 0));
    close(c->tell);
    close(c->hear);
    c->alive = false;
}

bool actor_do(struct cast *c, char command)
{
    char answer;
    gauge_rest();
    if (write(c->tell, &command, 1) == 1 && read(c->hear, &answer, 1) == 1)
        return true;
    bury(c);
    return false;
}

/* SIGKILL of oneself takes effect before the call returns in the thread that made it, not in the one
 * that answered meanwhile. The end of its pipe is the end of all its threads. */
bool actor_outlives(struct cast *c)
{
    gauge_rest();
    struct pollfd end = {.fd = c->hear, .events = POLLIN};
    char answer;
    if (poll(&end, 1, KILL_MS) == 1 && read(c->hear, &answer, 1) == 1)
        return true;                                 /* it speaks again */
    if (!(end.revents & POLLHUP))
        return true;
    bury(c);
    return false;
}

void actor_kill(struct cast *c)
{
    kill(c->pid, SIGKILL);
    bury(c);
}

void actor_end(struct cast *c)
{
    if (c->alive)
        bury(c);
}

/* ---- what each role does ---- */

#define EAGER_ONLY (1u << SC_EAGER)

const struct script scripts[] = {
    {"create", "creator", ALL_PROTOCOLS, NULL, create_all, NULL, FLOW_CREATE, 0},
    {"create-again", "creator", ALL_PROTOCOLS, NULL, create_all, NULL, FLOW_CREATE, STILLBORN},
    {"send-first", "sender", ALL_PROTOCOLS, NULL, send_first, NULL, 0, SLEEPERS},
    {"send-more", "sender", ALL_PROTOCOLS, open_and_send, send_more, NULL, 0, SLEEPERS},
    {"send-batch", "sender", ALL_PROTOCOLS, open_and_send, send_batch, NULL, 0, 0},
    {"send-multi", "sender", EAGER_ONLY, open_multi, send_multi, NULL, 0, SLEEPERS},
    {"send-loan", "sender", ALL_PROTOCOLS, open_and_send, send_loan, NULL, 0, 0},
    {"send-full", "sender", ALL_PROTOCOLS, open_and_send, send_full, NULL, 0, THREADS},
    {"receive", "receiver", ALL_PROTOCOLS, join, receive_two, listen_on, 0, FULL | THREADS},
    {"receive-batch", "receiver", ALL_PROTOCOLS, join, receive_batch, listen_on, 0, THREADS},
    {"receive-view", "receiver", ALL_PROTOCOLS, join, receive_views, listen_on, 0, THREADS},
    {"receive-wait", "receiver", ALL_PROTOCOLS, join, receive_and_wait, listen_on, 0, THREADS},
    {"join", "joiner", ALL_PROTOCOLS, NULL, join_now, listen_on, 0, THREADS},
    {"leave", "leaver", ALL_PROTOCOLS, join, leave_group, NULL, 0, THREADS},
    {"leave-sender", "leaver", ALL_PROTOCOLS, open_and_send, close_sender, NULL, 0, 0},
    {"reap", "server", ALL_PROTOCOLS, open_domain_only, reap_once, NULL, 0,
     DEAD_SENDER | DEAD_RECEIVER},
    {"remove-box", "server", ALL_PROTOCOLS, open_domain_only, remove_box, NULL, FLOW_REMOVE_BOX, 0},
    {"remove-domain", "server", ALL_PROTOCOLS, NULL, remove_domain, NULL, FLOW_REMOVE_DOMAIN, 0},
    {"replace", "copy replacer", ALL_PROTOCOLS, open_domain_only, replace_copy, NULL, 0, LOST_COPY},
    {"reclaim", "lane reclaimer", ALL_PROTOCOLS, open_domain_only, take_dead_lane, NULL, 0,
     DEAD_SENDER | NO_LANE_LEFT},
    {"reclaim-receive", "lane reclaimer", EAGER_ONLY, join, receive_three, listen_on, 0,
     DEAD_SENDER},
    {0},
};

const struct script *script_named(const char *name)
{
    for (const struct script *s = scripts; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}
