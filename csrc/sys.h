/* sys.h: the only system calls of the core. Checkers replace sys.c. */
#ifndef SHMCAST_SYS_H
#define SHMCAST_SYS_H

#include "atomics.h"

#define NS_PER_S UINT64_C(1000000000)
#define FOREVER UINT64_MAX

/* A process, told apart from a later one with the same pid, also across containers. */
struct identity {
    uint32_t pid;
    uint64_t start_ticks;
    uint32_t pid_space;
};

enum liveness { PROCESS_ALIVE, PROCESS_DEAD, PROCESS_UNKNOWN };

uint64_t sys_now(void);                              /* CLOCK_MONOTONIC, never skewed */
void sys_sleep_until(uint64_t when);
int sys_futex_wait(bell_t *bell, uint32_t expected, uint64_t until);
void sys_futex_wake_all(bell_t *bell);
struct identity sys_self(void);
enum liveness sys_liveness(const struct identity *who);
bool sys_pid_exists(uint32_t pid);
int sys_boot_id(uint8_t out[16]);
int sys_random(void *out, size_t bytes);
uint32_t sys_fork_generation(void);                  /* changes in a forked child */

#endif
