/* rt_dispatch.c: the thread that keeps the schedule.
 *
 * Native tasks run here, each to its end: no lock is needed between them, and what one can lose to
 * another is one budget, which admission has counted. A job gets an absolute deadline; what it calls
 * passes that on. A job that is still waiting when its deadline has passed is not started at all
 * (skip): the time is another's. In a table neither is one that comes so late that, with its budget,
 * it would make a later entry miss its deadline.
 *
 * Overruns: `skip` drops the releases that were missed; `abort` gives the job an end at its budget,
 * where its operation returns with a decided outcome; `degrade` doubles the time between releases,
 * up to 64 periods, and halves it again with every job that is in time; a job that still runs says
 * nothing yet. What is left out then is not a release: it is neither counted nor skipped.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "rt.h"

#define STRETCH_MAX 64u
/* Waking takes time, and a table may have none to spare: so late an entry still gets its place, at
 * the cost of those behind it, or a task without slack would never run. */
#define WAKE_NS 200000u

static void degrade(struct sc_rt *rt, uint32_t i, bool late)
{
    struct rt_task *t = &rt->tasks[i];
    uint64_t was = t->stretch;
    if (t->p.overrun != SC_RT_DEGRADE)
        return;
    if (late && t->stretch < STRETCH_MAX)
        t->stretch *= 2;
    else if (!late && t->stretch > 1)
        t->stretch /= 2;
    STORE_RELAXED(&rt->board.tasks[i].dispatched[BOARD_STRETCH], t->stretch);
    if (late && t->stretch != was)
        rt_trace(rt, i, SC_RT_DEGRADED, (int64_t)t->stretch, 0);
}

/* Runs a native job now. */
static void run_job(struct sc_rt *rt, uint32_t i, uint64_t release_ns, uint64_t due_ns)
{
    struct rt_task *t = &rt->tasks[i];
    struct board_task *b = &rt->board.tasks[i];
    runner_look(&rt->own);
    uint64_t start = sys_now(), end = due_ns;
    if (t->p.overrun == SC_RT_ABORT && start + t->p.budget_ns < end)
        end = start + t->p.budget_ns;
    board_max(&b->dispatched[BOARD_WORST_LATE_NS], start > release_ns ? start - release_ns : 0);
    STORE_RELAXED(&t->running_due, due_ns);
    STORE_RELAXED(&t->running_abort, FOREVER);       /* its operation ends by itself */
    STORE_RELEASE(&t->running, start);               /* [Q4] */
    int result = t->p.work(t->p.context, end);
    uint64_t ended = sys_now();
    if (t->p.overrun == SC_RT_ABORT && result < 0 && ended >= end)
        result = SC_LATE;
    bool late = rt_record(rt, &rt->own, i, release_ns, start, ended, result);
    STORE_RELEASE(&t->running, 0);
    degrade(rt, i, late);
}

static void advance(struct rt_task *t) { t->next_ns += t->p.period_ns * t->stretch; }

static void post_externals(struct sc_rt *rt, uint64_t now)
{
    for (uint32_t i = 0; i < rt->count; i++) {
        struct rt_task *t = &rt->tasks[i];
        while (t->p.kind == SC_RT_EXTERNAL && t->next_ns <= now) {
            board_add(&rt->board.tasks[i].dispatched[BOARD_RELEASED], 1);
            bool late;
            if (external_judge(t, &late))
                degrade(rt, i, late);
            external_post(rt, i, t->next_ns);
            advance(t);
        }
    }
}

/* Drops releases whose deadline has passed; -1 if nothing is ready. */
static int choose(struct sc_rt *rt, uint64_t now)
{
    int best = -1;
    uint64_t best_key = 0;
    for (uint32_t i = 0; i < rt->count; i++) {
        struct rt_task *t = &rt->tasks[i];
        if (t->p.kind != SC_RT_NATIVE)
            continue;
        while (t->next_ns + t->p.deadline_ns <= now) {
            board_add(&rt->board.tasks[i].dispatched[BOARD_RELEASED], 1);
            rt_record_skip(rt, i, t->next_ns);
            advance(t);
        }
        uint64_t key = rt->policy == SC_RT_EDF ? t->next_ns + t->p.deadline_ns : t->p.rank;
        if (t->next_ns <= now && (best < 0 || key < best_key)) {
            best = (int)i;
            best_key = key;
        }
    }
    return best;
}

static uint64_t next_release(const struct sc_rt *rt, bool externals_only)
{
    uint64_t soonest = FOREVER;
    for (uint32_t i = 0; i < rt->count; i++) {
        const struct rt_task *t = &rt->tasks[i];
        if ((t->p.kind == SC_RT_EXTERNAL || !externals_only) && t->next_ns < soonest)
            soonest = t->next_ns;
    }
    return soonest;
}

/* In slices, so that a stop is noticed; the clock of a stopped process goes on. */
static void sleep_until(struct sc_rt *rt, uint64_t when)
{
    const uint64_t slice = 20000000;
    while (!LOAD_ACQUIRE(&rt->stop)) {
        uint64_t now = sys_now();
        STORE_RELAXED(&rt->board.head->heartbeat_ns, now);
        if (now >= when)
            return;
        sys_sleep_until(when - now > slice ? now + slice : when);
    }
}

static void run_priorities(struct sc_rt *rt)
{
    while (!LOAD_ACQUIRE(&rt->stop)) {
        uint64_t now = sys_now();
        board_add(&rt->board.head->turns, 1);
        STORE_RELAXED(&rt->board.head->heartbeat_ns, now);
        post_externals(rt, now);
        int i = choose(rt, now);
        if (i < 0) {
            sleep_until(rt, next_release(rt, false));
            continue;
        }
        struct rt_task *t = &rt->tasks[i];
        uint64_t release = t->next_ns;
        board_add(&rt->board.tasks[i].dispatched[BOARD_RELEASED], 1);
        run_job(rt, (uint32_t)i, release, release + t->p.deadline_ns);
        advance(t);
    }
}

static void wait_for_entry(struct sc_rt *rt, uint64_t start)
{
    while (!LOAD_ACQUIRE(&rt->stop)) {
        uint64_t now = sys_now();
        post_externals(rt, now);
        if (now >= start)
            return;
        uint64_t external = next_release(rt, true);
        sleep_until(rt, external < start ? external : start);
    }
}

/* When each entry must begin at the latest, for it and all behind it to end in time. Nothing reaches
 * into the next cycle: all deadlines are within their own. */
static void find_latest_starts(struct sc_rt *rt)
{
    uint64_t next = FOREVER;
    for (uint32_t e = rt->entry_count; e-- > 0; next = rt->latest_ns[e]) {
        const struct sc_rt_entry *entry = &rt->entries[e];
        uint64_t end = entry->deadline_ns < next ? entry->deadline_ns : next;
        rt->latest_ns[e] = end - rt->tasks[entry->task].p.budget_ns;
    }
}

static bool comes_too_late(const struct sc_rt *rt, uint32_t e, uint64_t base)
{
    const struct sc_rt_entry *entry = &rt->entries[e];
    uint64_t now = sys_now(), end = now + rt->tasks[entry->task].p.budget_ns;
    uint64_t next = e + 1 < rt->entry_count ? rt->latest_ns[e + 1]
                                            : rt->cycle_ns + rt->latest_ns[0];
    return now >= base + entry->deadline_ns || end > base + next + WAKE_NS;
}

static void run_entry(struct sc_rt *rt, uint32_t e, uint64_t base)
{
    const struct sc_rt_entry *entry = &rt->entries[e];
    struct rt_task *t = &rt->tasks[entry->task];
    uint64_t release = base + entry->release_ns;
    if (release < t->next_ns)
        return;                                      /* degraded: left out on purpose */
    wait_for_entry(rt, base + entry->start_ns);
    if (LOAD_ACQUIRE(&rt->stop))
        return;
    board_add(&rt->board.head->turns, 1);
    board_add(&rt->board.tasks[entry->task].dispatched[BOARD_RELEASED], 1);
    if (comes_too_late(rt, e, base))
        rt_record_skip(rt, entry->task, release);
    else
        run_job(rt, entry->task, release, base + entry->deadline_ns);
    t->next_ns = release;
    advance(t);
}

static void run_table(struct sc_rt *rt)
{
    for (uint64_t base = rt->start_ns; !LOAD_ACQUIRE(&rt->stop); base += rt->cycle_ns)
        for (uint32_t e = 0; e < rt->entry_count && !LOAD_ACQUIRE(&rt->stop); e++)
            run_entry(rt, e, base);
}

/* Every wish counts: a real-time thread whose pages are not locked, or that nobody can watch, keeps
 * no deadline for certain. External tasks run in an ordinary thread, whatever class this one got. */
static bool is_soft(const struct sc_rt *rt)
{
    const struct sc_rt_platform *p = &rt->platform;
    for (uint32_t i = 0; i < rt->count; i++)
        if (rt->tasks[i].p.kind == SC_RT_EXTERNAL)
            return true;
    return p->soft || p->got_class == SC_RT_OTHER || p->class_error || p->affinity_error ||
           p->lock_error || !p->lock_memory || p->slack_error || p->watch_error;
}

static void *dispatch(void *argument)
{
    struct sc_rt *rt = argument;
    platform_apply(&rt->platform);
    rt->platform.watch_error = platform_watchdog(&rt->platform, rt->watchdog);
    runner_open(&rt->own);
    rt->start_ns += sys_now();                       /* locking memory may have taken a while */
    for (uint32_t i = 0; i < rt->count; i++)
        rt->tasks[i].next_ns = rt->start_ns + rt->tasks[i].p.offset_ns;
    rt->board.head->kernel_class = rt->platform.got_class;
    rt->platform.soft = is_soft(rt);
    STORE_RELAXED(&rt->board.head->soft, rt->platform.soft);
    STORE_RELEASE(&rt->ready, 1);                    /* [Q6] -> sc_rt_start */
    sys_futex_wake_all(&rt->ready);
    if (rt->policy == SC_RT_TABLE && rt->entry_count)
        run_table(rt);
    else
        run_priorities(rt);
    runner_close(&rt->own);
    platform_release(&rt->platform);
    return NULL;
}

static int check_task(const struct sc_rt_task *t)
{
    if (!t->period_ns || !t->budget_ns || !t->deadline_ns || t->kind > SC_RT_EXTERNAL ||
        t->overrun > SC_RT_DEGRADE || (t->kind == SC_RT_NATIVE && !t->work))
        return SC_INVALID;
    return strlen(t->name) < BOARD_NAME_BYTES ? 0 : SC_INVALID;
}

static void describe_task(struct board_task *b, const struct sc_rt_task *t)
{
    memcpy(b->name, t->name, strlen(t->name) + 1);
    b->period_ns = t->period_ns;
    b->budget_ns = t->budget_ns;
    b->deadline_ns = t->deadline_ns;
    b->offset_ns = t->offset_ns;
    b->kind = t->kind;
    b->overrun = t->overrun;
    STORE_RELAXED(&b->dispatched[BOARD_STRETCH], 1);
}

static int copy_entries(struct sc_rt *rt, const struct sc_rt_entry *entries, uint32_t count)
{
    if (count == 0)
        return 0;
    rt->entries = calloc(count, sizeof *entries);
    rt->latest_ns = calloc(count, sizeof *rt->latest_ns);
    if (!rt->entries || !rt->latest_ns)
        return -ENOMEM;
    memcpy(rt->entries, entries, count * sizeof *entries);
    rt->entry_count = count;
    for (uint32_t i = 0; i < count; i++)
        if (entries[i].task >= rt->count || entries[i].start_ns >= rt->cycle_ns)
            return SC_INVALID;
    find_latest_starts(rt);
    return 0;
}

int sc_rt_create(const char *name, uint32_t policy, const struct sc_rt_task *tasks, uint32_t count,
                 uint64_t cycle_ns, const struct sc_rt_entry *entries, uint32_t entry_count,
                 sc_rt **out)
{
    if (count == 0 || count > SC_RT_TASKS_MAX || policy < SC_RT_TABLE || policy > SC_RT_EDF)
        return SC_INVALID;
    struct sc_rt *rt = calloc(1, sizeof *rt);
    if (!rt)
        return -ENOMEM;
    rt->policy = policy;
    rt->count = count;
    rt->cycle_ns = cycle_ns;
    rt->fork_generation = sys_fork_generation();
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        rc = check_task(&tasks[i]);
        rt->tasks[i].p = tasks[i];
        rt->tasks[i].stretch = 1;
    }
    if (rc == 0)
        rc = copy_entries(rt, entries, entry_count);
    if (rc == 0)
        rc = board_create(name, count, &rt->board);
    if (rc) {
        free(rt->latest_ns);
        free(rt->entries);
        free(rt);
        return rc;
    }
    rt->board.head->policy = policy;
    for (uint32_t i = 0; i < count; i++) {
        describe_task(&rt->board.tasks[i], &tasks[i]);
        rt->tasks[i].p.name = rt->board.tasks[i].name;
    }
    *out = rt;
    return 0;
}

int sc_rt_start(sc_rt *rt, uint64_t delay_ns, struct sc_rt_platform *platform)
{
    if (rt->started)
        return SC_EXISTS;
    rt->start_ns = delay_ns;
    rt->platform = *platform;
    STORE_RELAXED(&rt->stolen_ticks, stolen_ticks());
    int rc = -pthread_create(&rt->watchdog, NULL, watch, rt);
    if (rc)
        return rc;
    rc = -pthread_create(&rt->dispatcher, NULL, dispatch, rt);
    if (rc) {
        STORE_RELEASE(&rt->stop, true);
        pthread_join(rt->watchdog, NULL);
        return rc;
    }
    rt->started = true;
    while (!LOAD_ACQUIRE(&rt->ready))                /* [Q6] */
        sys_futex_wait(&rt->ready, 0, sys_now() + NS_PER_S);
    *platform = rt->platform;
    return 0;
}

int sc_rt_stop(sc_rt *rt)
{
    if (rt->fork_generation != sys_fork_generation())
        return SC_FORKED;
    STORE_RELEASE(&rt->stop, true);
    FETCH_ADD_RELAXED(&rt->external_bell, 1);
    FETCH_ADD_RELAXED(&rt->overdue_bell, 1);
    sys_futex_wake_all(&rt->external_bell);
    sys_futex_wake_all(&rt->overdue_bell);
    if (rt->started) {
        pthread_join(rt->dispatcher, NULL);
        pthread_join(rt->watchdog, NULL);
        rt->started = false;
    }
    return 0;
}

/* In a forked child there is no thread to stop, and the board is the parent's. */
void sc_rt_free(sc_rt *rt)
{
    if (!rt)
        return;
    if (sc_rt_stop(rt) == 0) {
        if (rt->external.schedstat > 0)
            runner_close(&rt->external);
        board_remove(&rt->board);
    }
    free(rt->latest_ns);
    free(rt->entries);
    free(rt);
}

uint64_t sc_rt_heartbeat(sc_rt *rt) { return LOAD_RELAXED(&rt->board.head->heartbeat_ns); }
