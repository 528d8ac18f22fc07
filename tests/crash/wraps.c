/* wraps.c: the system calls of set-up and removal, each followed by a crash point.
 *
 * The linker sends every call of `x` to __wrap_x (-Wl,--wrap=x; the list is in build.py), so csrc/ is
 * compiled as it is. The point's place is the caller's address, which build.py turns into a line.
 * Not here: clocks, and reads of /proc; they change nothing that anyone else could see.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gauge.h"
#include "points.h"

#define HERE __builtin_return_address(0)
#define WRAP(type, name, parameters, arguments)       \
    type __real_##name parameters;                    \
    type __wrap_##name parameters;                    \
    type __wrap_##name parameters                     \
    {                                                 \
        type result = __real_##name arguments;        \
        crash_call(HERE, #name);                      \
        return result;                                \
    }

WRAP(int, close, (int fd), (fd))
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode))
WRAP(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
WRAP(int, fstat, (int fd, struct stat *out), (fd, out))
WRAP(ssize_t, pread, (int fd, void *out, size_t bytes, off_t at), (fd, out, bytes, at))
WRAP(int, posix_fallocate, (int fd, off_t at, off_t bytes), (fd, at, bytes))
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t bytes), (fd, mode, at, bytes))
WRAP(int, linkat, (int from_dir, const char *from, int to_dir, const char *to, int flags),
     (from_dir, from, to_dir, to, flags))
WRAP(int, unlink, (const char *path), (path))
WRAP(DIR *, opendir, (const char *path), (path))
WRAP(int, closedir, (DIR *dir), (dir))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    int fd = __real_open(path, flags, mode);
    if (strncmp(path, "/proc", 5) != 0)
        crash_call(HERE, "open");
    return fd;
}

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *base = __real_mmap(at, bytes, protection, flags, fd, offset);
    if (base != MAP_FAILED && flags & MAP_SHARED && fd >= 0)
        shared_range_add(base, bytes);
    crash_call(HERE, "mmap");
    return base;
}

int __real_munmap(void *base, size_t bytes);
int __wrap_munmap(void *base, size_t bytes);
int __wrap_munmap(void *base, size_t bytes)
{
    shared_range_remove(base);
    int rc = __real_munmap(base, bytes);
    crash_call(HERE, "munmap");
    return rc;
}

WRAP(int, flock, (int fd, int operation), (fd, operation))

static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * UINT64_C(1000000000) + (uint64_t)t->tv_nsec;
}

/* Futexes, and pidfd_open. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    va_list more;
    long a[6];
    va_start(more, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(more, long);
    va_end(more);
    bool waits = number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    uint64_t until = waits && a[3] ? ns_of((const struct timespec *)a[3]) : UINT64_MAX;
    if (waits)
        gauge_sleep(until);
    long rc = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    int saved = errno;
    if (waits)
        gauge_wake(until);
    errno = saved;
    crash_call(HERE, "syscall");
    return rc;
}

/* ---- no points, but measures (gauge.h) ---- */

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int rc = __real_clock_gettime(clock, out);
    if (clock == CLOCK_MONOTONIC)
        gauge_look(ns_of(out));
    return rc;
}

int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *rest);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *rest);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *rest)
{
    gauge_sleep(ns_of(until));
    int rc = __real_clock_nanosleep(clock, flags, until, rest);
    gauge_wake(ns_of(until));
    return rc;
}

/* The core's only threads are those that decide. */
struct start { void *(*body)(void *); void *argument; };

static void *decide(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    gauge_is_decider();
    void *result = start.body(start.argument);
    gauge_end_thread();
    return result;
}

int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*body)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*body)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*body)(void *),
                          void *argument)
{
    struct start *start = malloc(sizeof *start);
    if (!start)
        return ENOMEM;
    *start = (struct start){body, argument};
    int rc = __real_pthread_create(out, attributes, decide, start);
    if (rc)
        free(start);
    crash_call(HERE, "pthread_create");
    return rc;
}
