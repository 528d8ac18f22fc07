/* sched.c: coroutines, and who may go on.
 *
 * A thread runs by itself until it comes to a step that another thread could notice, or notice
 * the lack of; there it parks. When all threads are parked, the possible next steps are listed and
 * one is chosen (search.c, random.c).
 *
 * Why running on is no loss (partial-order reduction). A step is taken without a choice only if
 * no other thread, in any execution, does anything later that depends on it: the word is used by
 * this thread alone, or nobody else writes it, counting only threads that have not ended. Which words these are is learnt: memory.c notes who uses what,
 * and the search begins again whenever a note is added (search.c). Such a step, together with the
 * choice "the copy fails just before", is a persistent set: whatever others do first, the same
 * state is reached by taking it now. No step is put off for ever, since nobody runs for ever
 * without coming to a choice or a wait: that would be an error (STEPS_MAX).
 *
 * Time. A clock step may add nothing, one unit, or "late" to the clock, as long as the budget
 * lasts; time is seen by nobody else in between, so moving it at clock steps is enough. A thread
 * that spins or sleeps goes on when something that it read has changed or its time has come. When
 * nobody can go on, time moves by itself.
 *
 * A crash takes effect between two steps of its process, and others see it only by asking; so
 * it is offered where the process is parked. A copy fails just before a step that touches it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define STEPS_MAX 300000
#define OPTIONS_MAX 64

struct options options;
char violation[512];
const char *wanted;
static void *scheduler_sp;

void switch_stack(void **save, void *load);
#if defined(__x86_64__)
__asm__(".text\n.globl switch_stack\n.type switch_stack,@function\nswitch_stack:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size switch_stack,.-switch_stack\n"
        ".section .note.GNU-stack,\"\",@progbits\n.text\n");
#define SAVED_REGISTERS 6
#else
#error "the checker's switch of stacks is written for x86-64"
#endif

static void begin_thread(void)
{
    struct thread *t = self();
    t->entry(t->argument);
    t->status = ENDED;
    leave_execution();
}

static void prepare(int index)
{
    uint64_t *sp = (uint64_t *)stack_top(index) - 2;
    sp[0] = (uint64_t)(uintptr_t)begin_thread;
    sp[1] = 0;
    sp -= SAVED_REGISTERS;
    memset(sp, 0, SAVED_REGISTERS * sizeof *sp);
    run.thread[index].sp = sp;
}

int thread_new(int process, void *(*entry)(void *), void *argument)
{
    if (run.thread_count == THREADS_MAX)
        abort();
    int index = run.thread_count++;
    struct thread *t = &run.thread[index];
    *t = (struct thread){.status = READY, .process = (uint8_t)process, .entry = entry,
                         .argument = argument};
    t->moved = run.process[process].moved = true;
    run.process[process].running++;
    run.process[process].threaded = ++run.process[process].threads > 1;
    return index;
}

void thread_cancel(int thread)
{
    struct process *p = &run.process[run.thread[thread].process];
    run.thread[thread].status = ENDED;
    p->running--;
    p->threaded = --p->threads > 1;
}

static void to_scheduler(void) { switch_stack(&self()->sp, scheduler_sp); }

void leave_execution(void)
{
    for (;;)
        to_scheduler();
}

void park(enum step_kind step, bool drains)
{
    struct thread *t = self();
    t->status = AT_STEP;
    t->step = (uint8_t)step;
    t->drains = drains;
    to_scheduler();
}

void wait_here(enum status how)
{
    self()->status = (uint8_t)how;
    to_scheduler();
    struct thread *t = self();
    if (how != SPINNING)
        return;                                      /* the loop that it sleeps in is not over */
    t->watched = 0;
    t->disturbed = t->reads_clock = false;
    t->clock_repeats = 0;
}

void count_step(void)
{
    if (++run.steps > STEPS_MAX) {
        violated("bounded time: still running after %d steps", STEPS_MAX);
        leave_execution();
    }
}

/* An execution that breaks another property than the one that is looked for ends without a verdict. */
void violated(const char *format, ...)
{
    char text[sizeof violation];
    va_list args;
    if (violation[0])
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (wanted && (strncmp(text, wanted, strlen(wanted)) || text[strlen(wanted)] != ':'))
        run.pruned = true;
    else
        memcpy(violation, text, sizeof violation);
    run.over = true;
}

static void run_ready(void)
{
    for (int i = 0; i < run.thread_count && !run.over; i++) {
        struct thread *t = &run.thread[i];
        if (t->status != READY)
            continue;
        run.current = (uint8_t)i;
        if (!t->sp)
            prepare(i);
        switch_stack(&scheduler_sp, t->sp);
        t->moved = run.process[t->process].moved = true;
        if (t->status == ENDED) {
            run.process[t->process].running--;
            run.changes++;
        }
    }
}

/* A thread is where its stack says. What it waits for is told by what it has read since its last
 * wait, and whether any of that, or the time, has changed since. */
static void add_thread(struct hash *h, int i)
{
    struct thread *t = &run.thread[i];
    for (int e = 0; e < t->buffered; e++) {
        hash_add(h, t->buffer[e].place);
        hash_add(h, t->buffer[e].value);
    }
    if (t->status == ENDED || t->status == KILLED) {
        hash_add(h, t->status);
        return;
    }
    if (t->moved) {
        t->stack = stack_hash(i);
        struct hash seen = watched_hash(i);
        hash_add(&t->stack, seen.a);
        hash_add(&t->stack, seen.b);
        t->moved = false;
    }
    bool sleeps = t->status == SLEEPING || t->status == IN_FUTEX;
    hash_add(h, (uint64_t)t->status << 16 | (uint64_t)t->step << 8 | (uint64_t)t->woken |
                    (uint64_t)t->disturbed << 1 | (uint64_t)t->reads_clock << 2 |
                    (uint64_t)(run.now > t->clock_seen) << 3 | (uint64_t)t->rescued << 4 |
                    (uint64_t)t->clock_repeats << 5);
    hash_add(h, sleeps ? t->until : 0);
    hash_add(h, t->stack.a);
    hash_add(h, t->stack.b);
}

struct hash state_hash(void)
{
    struct hash h = run.memory;
    hash_add(&h, run.now);
    hash_add(&h, (uint64_t)run.stall << 32 | (uint64_t)run.budget.crashes << 24 |
                     (uint64_t)run.budget.copies << 16 | (uint64_t)run.budget.ticks << 8 |
                     run.budget.lates);
    if (options.preemptions >= 0)
        hash_add(&h, (uint64_t)run.last << 8 | (uint64_t)run.preemptions);
    for (int s = 0; s < SEGMENTS_MAX; s++)
        hash_add(&h, (uint64_t)run.segment[s].exists | (uint64_t)run.segment[s].named << 1 |
                         (uint64_t)run.segment[s].failed << 2);
    for (int p = 0; p < PROCESSES_MAX; p++) {
        struct process *process = &run.process[p];
        if (process->moved)
            process->heap = heap_hash(p);
        process->moved = false;
        hash_add(&h, process->heap.a + process->dead);
        hash_add(&h, process->heap.b);
    }
    for (int i = 0; i < run.thread_count; i++)
        add_thread(&h, i);
    return h;
}

static bool waits_for_time(const struct thread *t)
{
    return (t->status == SPINNING && t->reads_clock) || t->status == SLEEPING ||
           (t->status == IN_FUTEX && t->rescued);
}

static bool may_wake(const struct thread *t)
{
    switch (t->status) {
    case SPINNING: return t->disturbed || (t->reads_clock && run.now > t->clock_seen);
    case SLEEPING: return run.now >= t->until;
    case IN_FUTEX: return t->woken || (t->rescued && run.now >= t->until);
    case JOINING: return run.thread[t->join].status == ENDED;
    default: return false;
    }
}

/* Waking, and emptying a buffer into words of its own thread, concerns nobody else. */
static bool wake_and_flush(void)
{
    bool any = false;
    for (int i = 0; i < run.thread_count; i++) {
        struct thread *t = &run.thread[i];
        while (t->buffered && flush_is_private(i, 0))
            flush_entry(i, 0);
        if ((t->status == ENDED || t->status == KILLED) && !t->buffered)
            run.gone |= (uint16_t)(1u << i);
        if (may_wake(t)) {
            t->status = READY;
            any = true;
        }
    }
    return any;
}

static bool may_step(const struct thread *t)
{
    if (t->status != AT_STEP || (t->drains && t->buffered))
        return false;
    if (t->step == AT_FULL_BUFFER) {
        int room = options.buffer > t->needs ? options.buffer : t->needs;
        return t->buffered + t->needs <= room;
    }
    if (t->step == AT_LOCK) {
        uint8_t owner = run.process[t->process].lock[t->bell].owner;
        return owner == NOBODY;
    }
    return true;
}

static int offer(struct option *list, int count, struct option one)
{
    if (count == OPTIONS_MAX)
        abort();
    list[count] = one;
    return count + 1;
}

static int offer_time(struct option *list, int n, int who)
{
    const struct thread *t = &run.thread[who];
    if (t->status == SLEEPING || t->status == IN_FUTEX) {
        if (run.budget.lates && !options.laggards)
            n = offer(list, n, (struct option){RUN, (uint8_t)who, 0, t->until - run.now});
        return n;
    }
    if (run.budget.ticks)
        n = offer(list, n, (struct option){RUN, (uint8_t)who, 0, options.unit_ns});
    if (run.budget.lates && !options.laggards)
        n = offer(list, n, (struct option){RUN, (uint8_t)who, 0, options.late_ns});
    return n;
}

static int list_steps(struct option *list, bool *held_up)
{
    int n = 0;
    bool last_can = may_step(&run.thread[run.last]);
    *held_up = true;                                 /* only those who may lag can go on */
    for (int k = 0; k < run.thread_count; k++) {
        int i = (run.last + k) % run.thread_count;
        const struct thread *t = &run.thread[i];
        if (!may_step(t))
            continue;
        *held_up = *held_up && run.process[t->process].lags;
        if (i != run.last && last_can && options.preemptions >= 0 && run.preemptions == 0)
            continue;
        n = offer(list, n, (struct option){RUN, (uint8_t)i, 0, 0});
    }
    for (int i = 0; i < run.thread_count; i++)
        for (int e = 0; e < run.thread[i].buffered; e++)
            if (may_flush(&run.thread[i], e)) {
                n = offer(list, n, (struct option){FLUSH, (uint8_t)i, (uint8_t)e, 0});
                *held_up = false;
            }
    return n;
}

static int list_extras(struct option *list, int n)
{
    for (int i = 0; i < run.thread_count; i++) {
        const struct thread *t = &run.thread[i];
        bool at_clock = t->status == AT_STEP && t->step == AT_CLOCK;
        if (at_clock || waits_for_time(t))
            n = offer_time(list, n, i);
    }
    return n;
}

static int list_crashes(struct option *list, int n)
{
    bool offered[PROCESSES_MAX] = {false};
    for (int i = 0; run.budget.crashes && i < run.thread_count; i++) {
        const struct thread *t = &run.thread[i];
        const struct process *p = &run.process[t->process];
        if (p->mortal && !p->dead && t->status != ENDED && !offered[t->process])
            n = offer(list, n, (struct option){CRASH, t->process, 0, 0});
        offered[t->process] = true;
    }
    return n;
}

/* How far time moves when nobody can go on. In `crash` and `timing` to the next moment that anyone
 * waits for; in `eager`, where no bound matters for safety, further and further. */
static uint64_t next_time(void)
{
    static const uint64_t ladder[] = {0, 64, 60000, 2200000, 25000000, 1300000000, 5000000000};
    uint64_t by = UINT64_MAX;
    for (int i = 0; i < run.thread_count; i++) {
        const struct thread *t = &run.thread[i];
        if (!waits_for_time(t))
            continue;
        uint64_t own = t->status == SPINNING ? options.unit_ns : t->until - run.now;
        by = own < by ? own : by;
    }
    if (by == UINT64_MAX || run.stall >= options.patience)
        return 0;
    if (options.horizon_ns && run.now + by > START_NS + options.horizon_ns)
        return 0;
    int level = run.stall < 7 ? run.stall : 6;
    return options.exact_time || by > ladder[level] ? by : ladder[level];
}

static void bury(int process)
{
    run.process[process].dead = run.process[process].moved = true;
    run.process[process].running = 0;
    for (int i = 0; i < run.thread_count; i++)
        if (run.thread[i].process == process && run.thread[i].status != ENDED)
            run.thread[i].status = KILLED;
    disturb(LIVENESS_PLACE(process), NOBODY);
    run.changes++;
}

static void crash(int process)
{
    bury(process);
    run.budget.crashes--;
}

/* The scenario says so; it is no choice. */
void die_here(void)
{
    tell("-- process %d dies here", self_process());
    bury(self_process());
    leave_execution();
}

static void spend_time(uint64_t advance, uint8_t *budget)
{
    (*budget)--;
    run.now += advance;
}

static void apply(const struct option *o)
{
    struct thread *t = &run.thread[o->who];
    if (o->what == CRASH || o->what == ADVANCE || (o->what == RUN && o->advance))
        record(*o);
    switch (o->what) {
    case FLUSH:
        flush_entry(o->who, o->entry);
        return;
    case CRASH:
        tell("-- process %d is killed", o->who);
        crash(o->who);
        return;
    case ADVANCE:
        tell("-- time moves by %llu ns", (unsigned long long)o->advance);
        run.now += o->advance;
        run.stall += !options.horizon_ns;
        return;
    case RUN:
        break;
    }
    t->hurried = o->advance && t->status == AT_STEP;
    if (o->advance) {
        bool tick = o->advance == options.unit_ns && t->status != SLEEPING && t->status != IN_FUTEX;
        spend_time(o->advance, tick ? &run.budget.ticks : &run.budget.lates);
        tell("-- time moves by %llu ns", (unsigned long long)o->advance);
    }
    if (o->who != run.last && may_step(&run.thread[run.last]) && options.preemptions >= 0)
        run.preemptions--;
    run.last = o->who;
    t->status = READY;
}

static void schedule(void)
{
    struct option list[OPTIONS_MAX];
    bool held_up;
    int n = list_steps(list, &held_up);
    held_up = held_up && n > 0;
    if (run.changes != run.changes_seen) {
        run.stall = 0;
        run.changes_seen = run.changes;
    }
    if (n > 0) {
        n = list_extras(list, n);
        if (held_up && run.budget.lates && next_time() > 0)
            n = offer(list, n, (struct option){ADVANCE, 0, 0, next_time()});
        n = list_crashes(list, n);
    } else {
        uint64_t by = next_time();
        if (!by) {
            run.over = true;
            return;
        }
        n = offer(list, n, (struct option){ADVANCE, 0, 0, by});
        if (run.stall == 0)
            n = list_crashes(list, n);
    }
    int chosen = n == 1 ? 0 : choose(CHOOSE_THREAD, list, n);
    if (n == 1 && mode == SEARCH_GUIDED)
        guide(list, n);
    if (run.over)
        return;
    if (list[chosen].what == ADVANCE && held_up)
        run.budget.lates--;
    apply(&list[chosen]);
}

void execute(void)
{
    violation[0] = 0;
    if (mode != SEARCH_ALL || !checkpoint_resume(trail.length))
        world_begin();
    while (!run.over) {
        run_ready();
        if (!run.over && !wake_and_flush())
            schedule();
    }
}
