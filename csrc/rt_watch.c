/* rt_watch.c: the watchdog: looks at jobs that run. It runs beside them, so a job that never ends
 * is noticed, counted and traced while it is still there. For that it needs a core when a job does
 * not give up its own: the dispatcher puts it one priority above itself (rt_platform.c), or says why
 * it cannot.
 *
 * [Q4] running: release by whoever starts a job, after its deadlines -> acquire here.
 */
#include "rt.h"

#define LOOK_LEAST_NS 500000
#define LOOK_MOST_NS 50000000
#define STOLEN_EVERY_NS 10000000  /* the kernel counts in such ticks, and asking it takes a while */

static uint64_t look_every(const struct sc_rt *rt)
{
    uint64_t shortest = LOOK_MOST_NS * 4;
    for (uint32_t i = 0; i < rt->count; i++)
        if (rt->tasks[i].p.deadline_ns < shortest)
            shortest = rt->tasks[i].p.deadline_ns;
    uint64_t half = shortest / 2;
    return half < LOOK_LEAST_NS ? LOOK_LEAST_NS : half > LOOK_MOST_NS ? LOOK_MOST_NS : half;
}

static void look_at(struct sc_rt *rt, uint32_t i, uint64_t *noticed, uint64_t now)
{
    struct rt_task *t = &rt->tasks[i];
    uint64_t running = LOAD_ACQUIRE(&t->running);    /* [Q4] */
    STORE_RELAXED(&rt->board.tasks[i].done[BOARD_RUNNING_SINCE_NS], running);
    if (!running)
        return;
    if (now > LOAD_RELAXED(&t->running_due) && noticed[i] != running) {
        noticed[i] = running;
        board_add(&rt->board.head->stuck, 1);
        rt_trace(rt, i, SC_RT_STUCK, (int64_t)(now - running), 0);
    }
    if (now > LOAD_RELAXED(&t->running_abort) && LOAD_RELAXED(&t->abort_asked) != running) {
        STORE_RELEASE(&t->abort_asked, running);     /* [Q5] -> sc_rt_overdue */
        FETCH_ADD_RELAXED(&rt->overdue_bell, 1);
        sys_futex_wake_all(&rt->overdue_bell);
    }
}

void *watch(void *argument)
{
    struct sc_rt *rt = argument;
    uint64_t noticed[SC_RT_TASKS_MAX] = {0};
    uint64_t every = look_every(rt), look_for_stolen = 0;
    while (!LOAD_ACQUIRE(&rt->stop)) {
        uint64_t now = sys_now();
        for (uint32_t i = 0; i < rt->count; i++)
            look_at(rt, i, noticed, now);
        if (now >= look_for_stolen) {
            STORE_RELAXED(&rt->stolen_ticks, stolen_ticks());
            look_for_stolen = now + STOLEN_EVERY_NS;
        }
        sys_sleep_until(now + every);
    }
    return NULL;
}

/* An external job that is asked to end, once. */
int sc_rt_overdue(sc_rt *rt, uint64_t deadline, struct sc_rt_job *out)
{
    deadline = absolute(deadline);
    for (;;) {
        uint32_t seen = LOAD_ACQUIRE(&rt->overdue_bell);
        if (LOAD_ACQUIRE(&rt->stop))
            return SC_CLOSED;
        for (uint32_t i = 0; i < rt->count; i++) {
            struct rt_task *t = &rt->tasks[i];
            uint64_t asked = LOAD_ACQUIRE(&t->abort_asked); /* [Q5] */
            if (t->p.kind != SC_RT_EXTERNAL || !asked || LOAD_ACQUIRE(&t->running) != asked)
                continue;
            *out = (struct sc_rt_job){i, 0, LOAD_RELAXED(&t->release_ns),
                                      LOAD_RELAXED(&t->due_ns), LOAD_RELAXED(&t->running_abort)};
            STORE_RELAXED(&t->running_abort, FOREVER);
            STORE_RELEASE(&t->abort_asked, 0);
            return 0;
        }
        if (sys_now() >= deadline)
            return SC_TIMEOUT;
        sys_futex_wait(&rt->overdue_bell, seen, deadline);
    }
}
