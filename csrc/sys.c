/* sys.c: time, sleeping, identity of processes. */
#define _GNU_SOURCE
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t sys_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

void sys_sleep_until(uint64_t when)
{
    struct timespec t = to_timespec(when);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/* FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC. Not the private variant: the word
 * is shared between processes. Returns 0, -EAGAIN, -ETIMEDOUT, -EINTR, or -EFAULT in a dead copy. */
int sys_futex_wait(bell_t *bell, uint32_t expected, uint64_t until)
{
    struct timespec t = to_timespec(until);
    long rc = syscall(SYS_futex, bell, FUTEX_WAIT_BITSET, expected, &t, NULL,
                      FUTEX_BITSET_MATCH_ANY);
    return rc < 0 ? -errno : 0;
}

void sys_futex_wake_all(bell_t *bell)
{
    syscall(SYS_futex, bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Fields 3 (state), 20 (threads) and 22 (start time) of /proc/<pid>/stat. The command in field 2
 * may hold anything, so count from the last parenthesis. */
static int read_stat(uint32_t pid, char *state, long *threads, uint64_t *start_ticks)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, sizeof text - 1);
    int saved = errno;
    close(fd);
    if (n <= 0)
        return n < 0 ? -saved : -ESRCH;
    text[n] = 0;
    char *p = strrchr(text, ')');
    if (!p || p[1] != ' ' || !p[2])
        return -EBADMSG;
    *state = p[2];
    p += 3;
    for (int field = 4; field <= 22; field++) {
        if (*p != ' ')
            return -EBADMSG;
        char *end;
        long long value = strtoll(p + 1, &end, 10);
        if (field == 20)
            *threads = (long)value;
        if (field == 22)
            *start_ticks = (uint64_t)value;
        p = end;
    }
    return 0;
}

static uint32_t fork_generation;                     /* written only while one thread exists */
static struct identity self;

static void learn_self(void)
{
    char state;
    long threads;
    struct stat ns;
    self.pid = (uint32_t)getpid();
    self.start_ticks = 0;
    read_stat(self.pid, &state, &threads, &self.start_ticks);
    self.pid_space = stat("/proc/self/ns/pid", &ns) == 0 ? (uint32_t)ns.st_ino : 0;
}

static void in_forked_child(void)
{
    fork_generation++;
    learn_self();
}

__attribute__((constructor)) static void start_up(void)
{
    learn_self();
    pthread_atfork(NULL, NULL, in_forked_child);
}

uint32_t sys_fork_generation(void) { return fork_generation; }

struct identity sys_self(void) { return self; }

bool sys_pid_exists(uint32_t pid) { return kill((pid_t)pid, 0) == 0 || errno != ESRCH; }

/* Has the pid been used again? Only if both start times are known: /proc may hide others' processes
 * (hidepid), or not be there at all. */
static bool is_another(const struct identity *who, uint64_t start_ticks)
{
    return who->start_ticks && start_ticks && start_ticks != who->start_ticks;
}

/* A pidfd pins the pid while its start time is compared, so that a reused pid cannot fool us. Nobody is
 * called dead because /proc does not show it. */
enum liveness sys_liveness(const struct identity *who)
{
    if (who->pid == 0 || who->pid_space != self.pid_space)
        return PROCESS_UNKNOWN;
    if (who->pid == self.pid)
        return is_another(who, self.start_ticks) ? PROCESS_DEAD : PROCESS_ALIVE;
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)who->pid, 0);
    if (fd < 0 && errno == ESRCH)
        return PROCESS_DEAD;
    char state = 0;
    long threads = 0;
    uint64_t start_ticks = 0;
    int rc = read_stat(who->pid, &state, &threads, &start_ticks);
    bool dead, same = rc == 0 && start_ticks && start_ticks == who->start_ticks;
    if (rc == 0 && is_another(who, start_ticks))
        dead = true;
    else if (fd >= 0) {
        struct pollfd ended = {.fd = fd, .events = POLLIN};
        dead = poll(&ended, 1, 0) == 1;
    } else if (rc == 0)                              /* no pidfd here: as well as /proc can tell */
        dead = (state == 'Z' || state == 'X') && threads <= 1;
    else
        dead = !sys_pid_exists(who->pid);
    enum liveness answer = dead ? PROCESS_DEAD : same ? PROCESS_ALIVE : PROCESS_UNKNOWN;
    if (fd >= 0)
        close(fd);
    return answer;
}

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sys_boot_id(uint8_t out[16])
{
    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    int digits = 0;
    memset(out, 0, 16);
    for (ssize_t i = 0; i < n && digits < 32; i++) {
        int d = hex_digit(text[i]);
        if (d < 0)
            continue;
        out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | d);
        digits++;
    }
    return digits == 32 ? 0 : -EBADMSG;
}

int sys_random(void *out, size_t bytes)
{
    return getrandom(out, bytes, 0) == (ssize_t)bytes ? 0 : -EIO;
}
