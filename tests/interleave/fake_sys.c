/* fake_sys.c: instead of csrc/sys.c and the C library: time, sleeping, futexes, identities, threads,
 * mutexes and memory of the simulated processes.
 *
 * A futex is modelled as the kernel does it: comparing and going to sleep is one step, a wake-up
 * reaches those asleep and nobody else. With `no_rescue` a sleep of p or longer never times out, so
 * a lost wake-up is a message that is never delivered.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "sim.h"

#define SPACE 7u                                     /* one pid namespace */
#define FIRST_PID 100u
#define FIRST_START 1000u
#define REPEATS_MAX 12

/* ---- time ---- */

uint64_t sys_now(void)
{
    if (run.direct)
        return run.now;
    struct thread *t = self();
    bool grows = options.grows && run.process[t->process].stamping;
    if (t->reads_clock && t->clock_seen == run.now && ++t->clock_repeats > REPEATS_MAX)
        wait_here(SPINNING);                         /* a loop that only time can end */
    touch_pseudo(CLOCK_PLACE, grows);
    if (run.budget.ticks || run.budget.lates)
        step_point(true, AT_CLOCK, false);
    if (t->clock_seen != run.now)
        t->clock_repeats = 0;
    t->reads_clock = true;
    t->clock_seen = run.now;
    tell("clock: %llu", (unsigned long long)(run.now - 1000000000));
    run.now += grows ? options.unit_ns : 0;
    run.process[t->process].stamping = false;
    return t->clock_seen;
}

void sys_sleep_until(uint64_t when)
{
    if (run.direct) {
        run.now = when > run.now ? when : run.now;
        return;
    }
    tell("sleeps until %llu", (unsigned long long)(when - 1000000000));
    self()->until = when;
    wait_here(SLEEPING);
}

/* ---- futex ---- */

static bool bell_is_gone(uint32_t place)
{
    int segment = segment_at(place);
    return segment >= 0 && run.segment[segment].failed;
}

int sys_futex_wait(bell_t *bell, uint32_t expected, uint64_t until)
{
    uint32_t place = place_of(bell);
    if (self()->buffered)
        step_point(true, AT_FUTEX_WAIT, true);
    touch_pseudo(place, true);
    if (bell_is_gone(place))
        return -EFAULT;
    if (peek(place, 4) != expected)
        return -EAGAIN;
    struct thread *t = self();
    t->bell = place;
    t->until = until;
    t->woken = false;
    t->rescued = !options.no_rescue || until - run.now < NS_PER_S;
    tell("futex: asleep");
    wait_here(IN_FUTEX);
    bool woken = self()->woken;
    self()->woken = false;
    return woken ? 0 : -ETIMEDOUT;
}

void sys_futex_wake_all(bell_t *bell)
{
    uint32_t place = place_of(bell);
    if (self()->buffered)
        step_point(true, AT_FUTEX_WAKE, true);
    touch_pseudo(place, true);
    tell("futex: wakes all");
    for (int i = 0; i < run.thread_count && !bell_is_gone(place); i++)
        if (run.thread[i].status == IN_FUTEX && run.thread[i].bell == place)
            run.thread[i].woken = true;
}

/* ---- identities ---- */

struct identity sys_self(void)
{
    uint32_t p = (uint32_t)self_process();
    return (struct identity){FIRST_PID + p, FIRST_START + p, SPACE};
}

static bool is_dead(uint32_t process)
{
    if (process >= PROCESSES_MAX)
        return true;
    if (run.direct)
        return run.process[process].dead;
    if (run.process[process].mortal && run.budget.crashes)
        step_point(true, AT_LIVENESS, false);
    uint64_t dead = run.process[process].dead;
    count_step();
    watch(LIVENESS_PLACE(process));
    tell("process %u is %s", process, dead ? "dead" : "alive");
    return dead;
}

enum liveness sys_liveness(const struct identity *who)
{
    return is_dead(who->pid - FIRST_PID) ? PROCESS_DEAD : PROCESS_ALIVE;
}

bool sys_pid_exists(uint32_t pid) { return !is_dead(pid - FIRST_PID); }
uint32_t sys_fork_generation(void) { return 0; }

int sys_boot_id(uint8_t out[16])
{
    memset(out, 1, 16);
    return 0;
}

int sys_random(void *out, size_t bytes)
{
    memset(out, 4, bytes);
    return 0;
}

/* ---- memory: handed out once, never given back, so addresses are the same every time ---- */

void *sim_calloc(size_t count, size_t bytes);
void *sim_calloc(size_t count, size_t bytes)
{
    struct process *p = &run.process[self_process()];
    size_t size = (count * bytes + 63) / 64 * 64;
    if (p->heap_used + size > HEAP_BYTES)
        abort();
    void *at = heap_of(self_process()) + p->heap_used;
    p->heap_used += (uint32_t)size;
    return at;
}

void sim_free(void *at);
void sim_free(void *at) { (void)at; }

/* ---- threads and mutexes of one process ---- */

int sim_thread_create(pthread_t *out, const pthread_attr_t *how, void *(*entry)(void *), void *arg);
int sim_thread_create(pthread_t *out, const pthread_attr_t *how, void *(*entry)(void *), void *arg)
{
    (void)how;
    *out = (pthread_t)thread_new(self_process(), entry, arg);
    return 0;
}

int sim_thread_join(pthread_t thread, void **result);
int sim_thread_join(pthread_t thread, void **result)
{
    (void)result;
    if (run.direct) {                                /* in set-up: it has not begun, and never does */
        thread_cancel((int)thread);
        return 0;
    }
    self()->join = (uint8_t)thread;
    wait_here(JOINING);
    return 0;
}

int sim_atfork(void (*a)(void), void (*b)(void), void (*c)(void));
int sim_atfork(void (*a)(void), void (*b)(void), void (*c)(void))
{
    (void)a, (void)b, (void)c;
    return 0;
}

static int lock_of(const void *mutex)
{
    struct process *p = &run.process[self_process()];
    for (int i = 0; i < LOCKS_MAX; i++) {
        if (!p->lock[i].at) {
            p->lock[i].at = mutex;
            p->lock[i].owner = NOBODY;
        }
        if (p->lock[i].at == mutex)
            return i;
    }
    abort();
}

int sim_mutex_lock(pthread_mutex_t *mutex);
int sim_mutex_lock(pthread_mutex_t *mutex)
{
    struct process *p = &run.process[self_process()];
    int i = lock_of(mutex);
    if (p->lock[i].owner != run.current) {
        if (!run.direct && p->threaded) {
            self()->bell = (uint32_t)i;
            step_point(true, AT_LOCK, false);
        }
        p->lock[i].owner = run.current;
    }
    p->lock[i].depth++;
    return 0;
}

int sim_mutex_unlock(pthread_mutex_t *mutex);
int sim_mutex_unlock(pthread_mutex_t *mutex)
{
    struct process *p = &run.process[self_process()];
    int i = lock_of(mutex);
    if (--p->lock[i].depth == 0)
        p->lock[i].owner = NOBODY;
    return 0;
}

int sim_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how);
int sim_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how)
{
    (void)mutex, (void)how;
    return 0;
}

int sim_mutex_destroy(pthread_mutex_t *mutex);
int sim_mutex_destroy(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}
