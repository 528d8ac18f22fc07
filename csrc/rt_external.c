/* rt_external.c: tasks that run elsewhere, in Python's thread: released here, taken there.
 *
 * One job of a task at a time. A release that finds the last one unfinished is skipped and counted:
 * a queue of late jobs would make all later ones late as well.
 */
#include "rt.h"

/* Called by the dispatcher. */
void external_post(struct sc_rt *rt, uint32_t task, uint64_t release_ns)
{
    struct rt_task *t = &rt->tasks[task];
    uint64_t posted = LOAD_RELAXED(&t->posted);
    if (LOAD_ACQUIRE(&t->finished) != posted) {      /* [Q2] */
        rt_record_skip(rt, task, release_ns);
        return;
    }
    STORE_RELAXED(&t->release_ns, release_ns);
    STORE_RELAXED(&t->due_ns, release_ns + t->p.deadline_ns);
    STORE_RELEASE(&t->posted, posted + 1);           /* [Q1] */
    FETCH_ADD_RELAXED(&rt->external_bell, 1);
    sys_futex_wake_all(&rt->external_bell);
}

bool external_judge(struct rt_task *t, bool *late)
{
    uint64_t finished = LOAD_ACQUIRE(&t->finished);  /* [Q2] */
    if (finished == t->judged)
        return false;
    t->judged = finished;
    *late = EXCHANGE(&t->overran, 0) != 0;
    return true;
}

static int most_urgent(const struct sc_rt *rt)
{
    int best = -1;
    for (uint32_t i = 0; i < rt->count; i++) {
        const struct rt_task *t = &rt->tasks[i];
        bool waits = t->p.kind == SC_RT_EXTERNAL &&
                     LOAD_ACQUIRE(&t->posted) != LOAD_RELAXED(&t->finished); /* [Q1] */
        if (waits && (best < 0 || t->p.rank < rt->tasks[best].p.rank))
            best = (int)i;
    }
    return best;
}

int sc_rt_take(sc_rt *rt, uint64_t deadline, struct sc_rt_job *out)
{
    deadline = absolute(deadline);
    for (;;) {
        uint32_t seen = LOAD_ACQUIRE(&rt->external_bell);
        if (LOAD_ACQUIRE(&rt->stop))
            return SC_CLOSED;
        int i = most_urgent(rt);
        if (i >= 0) {
            struct rt_task *t = &rt->tasks[i];
            uint64_t now = sys_now();
            if (rt->external.schedstat == 0)
                runner_open(&rt->external);
            runner_look(&rt->external);
            uint64_t end = now + t->p.budget_ns;
            *out = (struct sc_rt_job){(uint32_t)i, 0, LOAD_RELAXED(&t->release_ns),
                                      LOAD_RELAXED(&t->due_ns),
                                      t->p.overrun == SC_RT_ABORT ? end : FOREVER};
            STORE_RELAXED(&t->running_due, out->deadline_ns);
            STORE_RELAXED(&t->running_abort, out->abort_ns);
            STORE_RELEASE(&t->running, now);         /* [Q4] -> watch() */
            return 0;
        }
        if (sys_now() >= deadline)
            return SC_TIMEOUT;
        sys_futex_wait(&rt->external_bell, seen, deadline);
    }
}

int sc_rt_done(sc_rt *rt, const struct sc_rt_job *job, int result)
{
    if (job->task >= rt->count)
        return SC_INVALID;
    struct rt_task *t = &rt->tasks[job->task];
    uint64_t start = LOAD_RELAXED(&t->running);
    if (!start)
        return 0;                                    /* done already */
    bool late = rt_record(rt, &rt->external, job->task, job->release_ns, start, sys_now(), result);
    if (late)
        STORE_RELAXED(&t->overran, 1);
    STORE_RELEASE(&t->running, 0);
    STORE_RELEASE(&t->finished, LOAD_RELAXED(&t->posted)); /* [Q2] */
    return late;
}
