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
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
WRAP(int, pthread_create,
     (pthread_t *out, const pthread_attr_t *attributes, void *(*body)(void *), void *argument),
     (out, attributes, body, argument))

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
    long rc = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    crash_call(HERE, "syscall");
    return rc;
}

/* No point, but a measure: whoever sleeps too long may break a bound through no fault of its own. */
_Atomic uint64_t *oversleep_ns;

int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *rest);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *rest);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *rest)
{
    struct timespec now;
    clock_gettime(clock, &now);
    int64_t late = (now.tv_sec - until->tv_sec) * INT64_C(1000000000) + now.tv_nsec - until->tv_nsec;
    if (late > 0)
        return 0;                    /* it was over when we came: not the machine's fault */
    int rc = __real_clock_nanosleep(clock, flags, until, rest);
    clock_gettime(clock, &now);
    late = (now.tv_sec - until->tv_sec) * INT64_C(1000000000) + now.tv_nsec - until->tv_nsec;
    if (oversleep_ns && late > 0) {
        uint64_t most = atomic_load(oversleep_ns);
        while ((uint64_t)late > most &&
               !atomic_compare_exchange_weak(oversleep_ns, &most, (uint64_t)late))
            ;
    }
    return rc;
}
