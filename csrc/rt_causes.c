/* rt_causes.c: why a job was late, as far as the kernel can tell: context switches and page faults
 * of the thread (rusage), time it was ready and did not run (schedstat), time that the hypervisor
 * gave to others (/proc/stat, whole machine, in ticks of 10 ms: coarse, so only a hint). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rt.h"

static struct rt_usage look(const struct rt_runner *runner)
{
    struct rusage u;
    struct rt_usage now = {0};
    char text[96];
    if (getrusage(RUSAGE_THREAD, &u) == 0)
        now = (struct rt_usage){(uint64_t)u.ru_nvcsw, (uint64_t)u.ru_nivcsw, (uint64_t)u.ru_minflt,
                                (uint64_t)u.ru_majflt, 0};
    ssize_t n = runner->schedstat < 0 ? -1 : pread(runner->schedstat, text, sizeof text - 1, 0);
    if (n > 0) {                                     /* time run, time waited to run, slices */
        char *end;
        text[n] = 0;
        strtoull(text, &end, 10);
        now.waited_ns = strtoull(end, NULL, 10);
    }
    return now;
}

/* To be called by the thread itself. */
void runner_open(struct rt_runner *runner)
{
    runner->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    runner_look(runner);
}

void runner_close(struct rt_runner *runner)
{
    if (runner->schedstat >= 0)
        close(runner->schedstat);
    runner->schedstat = -1;
}

void runner_look(struct rt_runner *runner) { runner->before = look(runner); }

/* Field 8 of the first line: cpu user nice system idle iowait irq softirq steal. */
uint64_t stolen_ticks(void)
{
    char text[256];
    int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *at = text + strcspn(text, " ");
    uint64_t value = 0;
    for (int field = 1; field <= 8; field++)
        value = strtoull(at, &at, 10);
    return value;
}

uint64_t runner_causes(struct rt_runner *runner, const struct sc_rt *rt, uint64_t late_start_ns,
                       uint64_t excess_ns)
{
    struct rt_usage now = look(runner), was = runner->before;
    uint64_t causes = 0;
    if (now.involuntary != was.involuntary || (now.waited_ns - was.waited_ns) * 2 > excess_ns)
        causes |= 1u << SC_RT_PREEMPTED;
    if (now.voluntary != was.voluntary)
        causes |= 1u << SC_RT_BLOCKED;
    if (now.minor != was.minor)
        causes |= 1u << SC_RT_MINOR_FAULT;
    if (now.major != was.major)
        causes |= 1u << SC_RT_MAJOR_FAULT;
    if (late_start_ns * 2 > excess_ns)
        causes |= 1u << SC_RT_LATE_START;
    if (stolen_ticks() != LOAD_RELAXED(&rt->stolen_ticks))
        causes |= 1u << SC_RT_STOLEN;
    return causes ? causes : 1u << SC_RT_OWN_WORK;
}
