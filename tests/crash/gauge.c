/* gauge.c: see gauge.h. Called at every look at the clock, by threads of several processes. */
#define _GNU_SOURCE
#include "gauge.h"

#include <time.h>
#include <unistd.h>

struct gauge *gauge;
static _Thread_local struct pulse *own;

const char *const lateness_names[LATENESSES] = {
    "stalled", "overslept", "late_round", "late_send", "late_vote", "late_peer",
};

int __real_clock_gettime(clockid_t clock, struct timespec *out);

static uint64_t true_now(void)
{
    struct timespec t;
    __real_clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void gauge_late(enum lateness what, pid_t who, uint64_t late_ns, uint64_t allowed_ns)
{
    if (!gauge || late_ns <= allowed_ns)
        return;
    uint64_t most = atomic_load(&gauge->worst_ns[what]);
    while (late_ns > most)
        if (atomic_compare_exchange_weak(&gauge->worst_ns[what], &most, late_ns)) {
            gauge->allowed_by[what] = allowed_ns;
            gauge->worst_pid[what] = who;
        }
}

static struct pulse *pulse_of_thread(void)
{
    for (int i = 0; !own && i < PULSES_MAX; i++) {
        pid_t nobody = 0;
        if (atomic_compare_exchange_strong(&gauge->pulse[i].pid, &nobody, getpid()))
            own = &gauge->pulse[i];
    }
    return own;
}

static void measure(const struct pulse *p, uint64_t now)
{
    uint64_t due = p->due, last = p->last, from = due ? due : last;  /* in this order: others write */
    if (last == 0 || due == UINT64_MAX || now <= from)
        return;
    gauge_late(p->decides ? LATE_ROUND : due ? LATE_SLEEP : LATE_STALL, p->pid, now - from,
               gauge->allowed_ns);
}

void gauge_look(uint64_t now)
{
    struct pulse *p = gauge ? pulse_of_thread() : NULL;
    if (!p)
        return;
    measure(p, now);
    p->last = now;
    p->due = 0;
}

void gauge_sleep(uint64_t until)
{
    struct pulse *p = gauge ? pulse_of_thread() : NULL;
    if (!p)
        return;
    uint64_t now = true_now();
    gauge_look(now);
    p->due = until > now ? until : now;
}

void gauge_wake(uint64_t until)
{
    struct pulse *p = gauge ? pulse_of_thread() : NULL;
    uint64_t now = true_now();
    if (!p)
        return;
    if (now > until)
        measure(p, now);
    p->last = now;
    p->due = 0;
}

void gauge_rest(void)
{
    if (own) {
        own->last = 0;
        own->due = 0;
    }
}

void gauge_is_decider(void)
{
    struct pulse *p = gauge ? pulse_of_thread() : NULL;
    if (p)
        p->decides = true;
}

static void release(struct pulse *p)
{
    p->last = 0;
    p->due = 0;
    p->decides = false;
    p->pid = 0;
}

void gauge_end_thread(void)
{
    if (own)
        release(own);
    own = NULL;
}

void gauge_read(void)
{
    uint64_t now = gauge ? true_now() : 0;
    for (int i = 0; gauge && i < PULSES_MAX; i++)
        if (gauge->pulse[i].pid)
            measure(&gauge->pulse[i], now);
}

void gauge_end_process(void)
{
    pid_t self = getpid();
    gauge_read();
    for (int i = 0; gauge && i < PULSES_MAX; i++)
        if (gauge->pulse[i].pid == self)
            release(&gauge->pulse[i]);
}
