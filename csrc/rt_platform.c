/* rt_platform.c: what the kernel can do for a thread that has deadlines. Every wish that is refused
 * is reported; nothing is assumed. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rt.h"

#define STACK_BYTES 65536u

struct kernel_attr {                                 /* struct sched_attr of the kernel, version 0 */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

#define KERNEL_SCHED_DEADLINE 6u

/* The kernel does not count locks: munlockall ends those of the application as well. So memory in
 * which it has locked something before our first lock stays locked. */
static pthread_mutex_t memory_mutex = PTHREAD_MUTEX_INITIALIZER; /* begin and end of threads only */
static int memory_locks;                             /* threads that want memory locked */
static bool memory_was_locked;

static int set_class(const struct sc_rt_platform *p)
{
    struct kernel_attr attr = {.size = sizeof attr};
    if (p->wanted_class == SC_RT_FIFO) {
        attr.policy = SCHED_FIFO;
        attr.priority = p->priority;
    } else if (p->wanted_class == SC_RT_DEADLINE) {
        attr.policy = KERNEL_SCHED_DEADLINE;
        attr.runtime = p->runtime_ns;
        attr.deadline = attr.period = p->period_ns;
    } else {
        return 0;
    }
    return syscall(SYS_sched_setattr, 0, &attr, 0) == 0 ? 0 : -errno;
}

static int set_affinity(int cpu)
{
    if (cpu < 0)
        return 0;
    if (cpu >= CPU_SETSIZE)
        return -EINVAL;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return -pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* True also where nobody can say: memory that stays locked harms less than a lock that is lost. */
static bool has_locked_memory(void)
{
    unsigned long kilobytes = 1;
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmLck: %lu", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return kilobytes != 0;
}

/* Pages that are there stay; those that come later stay from then on. */
static int lock_memory(void)
{
    pthread_mutex_lock(&memory_mutex);
    if (memory_locks == 0)
        memory_was_locked = has_locked_memory();
    int rc = mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0 ? 0 : -errno;
    memory_locks += rc == 0;
    pthread_mutex_unlock(&memory_mutex);
    return rc;
}

static void unlock_memory(void)
{
    pthread_mutex_lock(&memory_mutex);
    if (--memory_locks == 0 && !memory_was_locked)
        munlockall();
    pthread_mutex_unlock(&memory_mutex);
}

/* SCHED_DEADLINE forbids a mask narrower than its scheduling domain, so the class goes first and
 * the mask's refusal is reported. */
void platform_apply(struct sc_rt_platform *p)
{
    p->class_error = set_class(p);
    p->got_class = p->class_error ? SC_RT_OTHER : p->wanted_class;
    p->affinity_error = set_affinity(p->cpu);
    p->lock_error = p->lock_memory ? lock_memory() : 0;
    p->slack_error = prctl(PR_SET_TIMERSLACK, 1UL) == 0 ? 0 : -errno;
    platform_prefault();
}

/* What looks at a thread must not wait for it, even on one core: it goes one priority above. Nothing
 * goes above SCHED_DEADLINE; there it runs in the time that the supply leaves, a tenth. */
int platform_watchdog(const struct sc_rt_platform *p, pthread_t watchdog)
{
    int most = sched_get_priority_max(SCHED_FIFO), wanted = (int)p->priority + 1;
    struct sched_param above = {.sched_priority = wanted < most ? wanted : most};
    if (p->got_class == SC_RT_OTHER)
        return 0;
    int rc = -pthread_setschedparam(watchdog, SCHED_FIFO, &above);
    bool beside = p->got_class == SC_RT_FIFO && wanted > most;
    return rc ? rc : beside ? -ERANGE : 0;
}

void platform_prefault(void)
{
    volatile unsigned char stack[STACK_BYTES];
    for (size_t i = 0; i < sizeof stack; i += 1024)
        stack[i] = 0;
}

void platform_release(const struct sc_rt_platform *p)
{
    if (p->lock_memory && p->lock_error == 0)
        unlock_memory();
}
