/* segment.c: one segment of /dev/shm: make, name, open, check, map.
 *
 * A segment is made nameless (O_TMPFILE), allocated whole, written, and only then linked to its
 * name. So a name never stands for a half-made segment, a full /dev/shm is an error here and not
 * a SIGBUS later, and a creator that dies before the link leaves nothing behind.
 *
 * Opening trusts nothing: the fixed part is read with pread, checked field by field, and kept in
 * private memory. Sizes and offsets are computed from the checked parameters.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"
#include "crc32c.h"

#define DIRECTORY "/dev/shm"
#define PREFIX "shmcast."
#define PATH_BYTES (sizeof DIRECTORY + sizeof PREFIX + SC_NAME_MAX + 24)

int segment_name_ok(const char *name)
{
    size_t n = strnlen(name, SC_NAME_MAX + 1);
    if (n == 0 || n > SC_NAME_MAX || !isalnum((unsigned char)name[0]))
        return SC_INVALID;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i]))
            return SC_INVALID;
    return 0;
}

static void path_of(const char *domain, uint64_t serial, char out[PATH_BYTES])
{
    snprintf(out, PATH_BYTES, DIRECTORY "/" PREFIX "%s.%u", domain, (unsigned)serial);
}

static int map_range(int fd, uint64_t offset, uint64_t bytes, unsigned char **base)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                   (off_t)offset);
    if (p == MAP_FAILED)
        return -errno;
    int mapping = guard_add(p, bytes);
    if (mapping < 0)
        munmap(p, bytes);
    else
        *base = p;
    return mapping;
}

static int allocate(int fd, uint64_t offset, uint64_t bytes)
{
    int rc;
    do
        rc = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    while (rc == EINTR);
    return rc == ENOSPC ? SC_NO_SPACE : -rc;
}

static uint32_t fixed_crc(const struct segment_fixed *fixed)
{
    return crc32c(0, fixed, offsetof(struct segment_fixed, crc));
}

int segment_create(const struct segment_fixed *fixed, uint64_t bytes, uint32_t mode,
                   int64_t group_id, struct copy *out)
{
    struct segment_fixed own = *fixed;
    own.crc = fixed_crc(&own);
    memset(out, 0, sizeof *out);
    out->serial = own.serial;
    out->fd = open(DIRECTORY, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (out->fd < 0)
        return -errno;
    int rc = 0;
    if (group_id >= 0 && fchown(out->fd, (uid_t)-1, (gid_t)group_id) != 0)
        rc = -errno;
    if (rc == 0 && fchmod(out->fd, mode & 0777) != 0)
        rc = -errno;
    if (rc == 0)
        rc = allocate(out->fd, 0, bytes);
    if (rc == 0) {
        out->table_mapping = map_range(out->fd, 0, own.table_bytes, &out->table);
        rc = out->table_mapping < 0 ? out->table_mapping : 0;
    }
    if (rc) {
        close(out->fd);
        memset(out, 0, sizeof *out);
        return rc;
    }
    format_table(out, &own);
    return 0;
}

/* /dev/shm is sticky: only a segment's owner may take its name away. */
int segment_give_to(struct copy *copy, uint32_t user_id)
{
    struct stat now;
    if (fstat(copy->fd, &now) != 0)
        return -errno;
    if (now.st_uid == user_id)
        return 0;
    return fchown(copy->fd, (uid_t)user_id, (gid_t)-1) == 0 ? 0
           : errno == EPERM                                 ? SC_NOT_OWNER
                                                            : -errno;
}

int segment_link(const char *domain, struct copy *copy)
{
    char from[64], to[PATH_BYTES];
    snprintf(from, sizeof from, "/proc/self/fd/%d", copy->fd);
    path_of(domain, copy->serial, to);
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    return errno == EEXIST ? SC_EXISTS : -errno;
}

static int check_fixed(const struct segment_fixed *f, uint64_t serial, uint64_t file_bytes)
{
    uint8_t boot_id[16];
    if (f->magic != SEGMENT_MAGIC)
        return SC_CORRUPT;
    if (f->byte_order != BYTE_ORDER_MARK || f->layout_version != LAYOUT_VERSION)
        return SC_INCOMPATIBLE;
    if (f->crc != fixed_crc(f) || f->serial != serial || f->serial >= SERIALS_MAX ||
        f->copies < 1 || f->copies > SC_COPIES_MAX || f->senders < 1 ||
        f->senders > SC_SENDERS_MAX || f->mailboxes < 1 || f->mailboxes > SC_MAILBOXES_MAX ||
        f->protocol < SC_CRASH || f->protocol > SC_EAGER || !bounds_ok(&f->bounds) ||
        f->table_bytes != table_bytes(f->senders, f->mailboxes) || file_bytes < f->table_bytes ||
        memchr(f->name, 0, sizeof f->name) == NULL)
        return SC_CORRUPT;
    if (sys_boot_id(boot_id) == 0 && memcmp(boot_id, f->boot_id, sizeof boot_id) != 0)
        return SC_INCOMPATIBLE;
    return 0;
}

int segment_open(const char *domain, uint64_t serial, struct copy *out,
                 struct segment_fixed *fixed)
{
    char path[PATH_BYTES];
    struct stat st;
    path_of(domain, serial, path);
    memset(out, 0, sizeof *out);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? SC_MISSING : -errno;
    int rc = 0;
    if (fstat(fd, &st) != 0)
        rc = -errno;
    else if (!S_ISREG(st.st_mode) ||
             pread(fd, fixed, sizeof *fixed, 0) != (ssize_t)sizeof *fixed)
        rc = SC_CORRUPT;
    else
        rc = check_fixed(fixed, serial, (uint64_t)st.st_size);
    if (rc == 0) {
        out->serial = serial;
        out->fd = fd;
        out->table_mapping = map_range(fd, 0, fixed->table_bytes, &out->table);
        rc = out->table_mapping < 0 ? out->table_mapping : 0;
    }
    if (rc) {
        close(fd);
        memset(out, 0, sizeof *out);
    }
    return rc;
}

int segment_unlink(const char *domain, uint64_t serial)
{
    char path[PATH_BYTES];
    path_of(domain, serial, path);
    return unlink(path) == 0 ? 0 : errno == ENOENT ? SC_MISSING : -errno;
}

/* Two who clear away the same leftovers must not take the name of what comes after them: one of them
 * may be late. So a name is taken away by whoever holds the lock of the file that it stands for.
 * Returns the lock; -EWOULDBLOCK if somebody else is at it. The lock ends with its holder. */
int segment_hold_name(const char *domain, uint64_t serial)
{
    char path[PATH_BYTES];
    path_of(domain, serial, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    int rc = -errno;
    if (fd >= 0)
        close(fd);
    return rc == -ENOENT ? SC_MISSING : rc;
}

static bool same_file(const char *path, int fd)
{
    struct stat named, held;
    return lstat(path, &named) == 0 && fstat(fd, &held) == 0 && named.st_dev == held.st_dev &&
           named.st_ino == held.st_ino;
}

void segment_release_name(const char *domain, uint64_t serial, int held, bool take_away)
{
    char path[PATH_BYTES];
    path_of(domain, serial, path);
    if (take_away && same_file(path, held))
        unlink(path);
    close(held);
}

/* The serials that have a name, in rising order. */
int segment_list(const char *domain, uint64_t *serials, int max)
{
    char prefix[PATH_BYTES];
    snprintf(prefix, sizeof prefix, PREFIX "%s.", domain);
    size_t prefix_bytes = strlen(prefix);
    DIR *dir = opendir(DIRECTORY);
    if (!dir)
        return -errno;
    uint64_t present = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (strncmp(e->d_name, prefix, prefix_bytes) != 0)
            continue;
        const char *digits = e->d_name + prefix_bytes;
        size_t n = strspn(digits, "0123456789");
        if (n == 0 || n > 2 || digits[n] || (n == 2 && digits[0] == '0'))
            continue;
        unsigned serial = (unsigned)atoi(digits);
        if (serial < SERIALS_MAX)
            present |= UINT64_C(1) << serial;
    }
    closedir(dir);
    int count = 0;
    for (unsigned i = 0; i < SERIALS_MAX && count < max; i++)
        if (present >> i & 1)
            serials[count++] = i;
    return count;
}

int segment_grow(struct copy *copy, uint64_t offset, uint64_t bytes)
{
    return allocate(copy->fd, offset, bytes);
}

/* The file must reach to the end of the extent: mapping a hole of a truncated file is SIGBUS. */
int segment_map_box(struct copy *copy, int box, uint64_t offset, uint64_t bytes)
{
    struct stat st;
    if (fstat(copy->fd, &st) != 0)
        return -errno;
    if ((uint64_t)st.st_size < offset + bytes)
        return SC_COPY_FAILED;
    unsigned char *base;
    int mapping = map_range(copy->fd, offset, bytes, &base);
    if (mapping < 0)
        return mapping;
    STORE_RELAXED(&copy->box_mapping[box], mapping);
    STORE_RELEASE(&copy->box[box], base);
    return 0;
}

void segment_close(struct copy *copy)
{
    if (!copy->table)
        return;
    for (int box = 0; box < SC_MAILBOXES_MAX; box++)
        if (LOAD_RELAXED(&copy->box[box]))
            guard_remove(LOAD_RELAXED(&copy->box_mapping[box]));
    guard_remove(copy->table_mapping);
    close(copy->fd);
    memset(copy, 0, sizeof *copy);
}
