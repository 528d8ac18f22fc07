/* rt_board.c: see rt_board.h. */
#define _GNU_SOURCE
#include "rt_board.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"

#define DIRECTORY "/dev/shm"

static void format(struct board *board, const char *name, uint32_t tasks)
{
    struct identity self = sys_self();
    struct board_head *h = board->head;
    memset(h, 0, board->bytes);                      /* touches every page */
    h->magic = BOARD_MAGIC;
    h->version = BOARD_VERSION;
    h->tasks = tasks;
    h->pid = self.pid;
    h->start_ticks = self.start_ticks;
    h->pid_space = self.pid_space;
    sys_boot_id(h->boot_id);
    snprintf(h->name, sizeof h->name, "%s", name);
    snprintf(board->path, sizeof board->path, DIRECTORY "/shmcast-rt.%u.%s", self.pid, name);
}

static int map_board(struct board *board, int fd)
{
    int rc = posix_fallocate(fd, 0, (off_t)board->bytes);
    if (rc)
        return rc == ENOSPC ? SC_NO_SPACE : -rc;
    void *base = mmap(NULL, board->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (base == MAP_FAILED)
        return -errno;
    board->mapping = guard_add(base, board->bytes);
    if (board->mapping < 0) {
        munmap(base, board->bytes);
        return board->mapping;
    }
    board->head = base;
    board->tasks = (struct board_task *)(board->head + 1);
    return 0;
}

static int link_board(const struct board *board, int fd)
{
    char from[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, from, AT_FDCWD, board->path, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    return errno == EEXIST ? SC_EXISTS : -errno;
}

int board_create(const char *name, uint32_t tasks, struct board *out)
{
    int rc = segment_name_ok(name);
    if (rc || strlen(name) >= BOARD_NAME_BYTES)
        return SC_INVALID;
    if ((rc = guard_install()))
        return rc;
    memset(out, 0, sizeof *out);
    out->bytes = round_up(sizeof(struct board_head) + tasks * sizeof(struct board_task), PAGE_BYTES);
    int fd = open(DIRECTORY, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    rc = fchmod(fd, 0644) == 0 ? map_board(out, fd) : -errno;
    if (rc == 0) {
        format(out, name, tasks);
        if ((rc = link_board(out, fd)))
            guard_remove(out->mapping);
    }
    close(fd);
    return rc;
}

void board_remove(struct board *board)
{
    unlink(board->path);
    guard_remove(board->mapping);
}
