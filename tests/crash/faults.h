/* faults.h: a copy fails, from outside: truncated, poisoned, overwritten, or without its name. */
#ifndef CRASH_FAULTS_H
#define CRASH_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum fault_kind { FAULT_NONE, FAULT_TRUNCATE, FAULT_POISON, FAULT_CORRUPT, FAULT_UNLINK };

struct fault {
    enum fault_kind kind;
    int copy;                        /* serial of the segment */
};

int fault_strike(const char *domain, const struct fault *fault); /* 0, or -1: there is none */
int fault_kind_of(const char *word);                             /* -1: no such fault */
int segments_named(const char *domain);                          /* how many are in /dev/shm */
int64_t segment_blocks(const char *domain, int serial);          /* memory that it takes */

#endif
