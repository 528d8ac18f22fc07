/* rt_board.h: what others may watch of a schedule: /dev/shm/shmcast-rt.<pid>.<name>, version 1.
 *
 *   0       256            +tasks*3072
 *   | head  | task records |
 *
 * One task's record, its cache lines written by one thread each:
 *
 *   0      128                    192                      320          384      448
 *   | what | by the dispatcher    | by whoever runs jobs   | causes     | spare  | histogram
 *
 * Made nameless, written, then linked, as segments of mailboxes are; removed when the schedule
 * is closed. If its process is killed it stays, and says whose it was: `shmcast gc` takes it away.
 */
#ifndef SHMCAST_RT_BOARD_H
#define SHMCAST_RT_BOARD_H

#include <stddef.h>

#include "rt_histogram.h"
#include "sys.h"

#define BOARD_MAGIC UINT64_C(0x017472616f627472)     /* "rtboart\1" */
#define BOARD_VERSION 1u
#define BOARD_NAME_BYTES 64

struct board_head {
    uint64_t magic;
    uint32_t version;
    uint32_t tasks;
    uint64_t pid;
    uint64_t start_ticks;
    uint64_t pid_space;
    uint8_t boot_id[16];
    uint32_t policy;
    uint32_t kernel_class;                           /* 0 other, 1 fifo, 2 deadline */
    char name[BOARD_NAME_BYTES];
    word_t heartbeat_ns;                             /* the dispatcher's last turn */
    word_t turns;
    word_t soft;                                     /* 1: not every deadline is guaranteed */
    word_t stuck;                                    /* jobs that the watchdog found beyond deadline */
    char pad1[96];
};

enum board_dispatched { BOARD_RELEASED, BOARD_SKIPPED, BOARD_STRETCH, BOARD_WORST_LATE_NS };
enum board_done {
    BOARD_FINISHED, BOARD_MISSES, BOARD_OVERRUNS, BOARD_ABORTED, BOARD_FAILED,
    BOARD_WORST_RESPONSE_NS, BOARD_WORST_WORK_NS, BOARD_TOTAL_WORK_NS, BOARD_RUNNING_SINCE_NS,
    BOARD_SLACK_NS                                   /* least time left before a deadline */
};

struct board_task {
    char name[BOARD_NAME_BYTES];
    uint64_t period_ns, budget_ns, deadline_ns, offset_ns;
    uint32_t kind, overrun;
    char pad0[24];
    word_t dispatched[8];
    word_t done[16];
    word_t causes[8];
    char pad1[64];
    word_t histogram[HISTOGRAM_WORDS];               /* of responses */
    char pad2[3072 - 448 - HISTOGRAM_WORDS * 8];
};

_Static_assert(sizeof(struct board_head) == 256, "board v1");
_Static_assert(offsetof(struct board_head, name) == 64, "board v1");
_Static_assert(offsetof(struct board_head, heartbeat_ns) == 128, "board v1");
_Static_assert(offsetof(struct board_task, dispatched) == 128, "board v1");
_Static_assert(offsetof(struct board_task, done) == 192, "board v1");
_Static_assert(offsetof(struct board_task, causes) == 320, "board v1");
_Static_assert(offsetof(struct board_task, histogram) == 448, "board v1");
_Static_assert(sizeof(struct board_task) == 3072, "board v1");

struct board {
    int mapping;                                     /* of guard.h */
    size_t bytes;
    char path[200];
    struct board_head *head;
    struct board_task *tasks;
};

int board_create(const char *name, uint32_t tasks, struct board *out);
void board_remove(struct board *board);

#endif
