/* case.h: one case: one script, one plan, from an empty /dev/shm to an empty /dev/shm. */
#ifndef CRASH_CASE_H
#define CRASH_CASE_H

#include "actor.h"

enum outcome { PASSED, FAILED, NOISE, NOT_REACHED, NO_SUCH_COPY };

/* In a process of its own, which is killed when it does not end. Fills the notes. */
enum outcome case_run(const struct job *job, struct notes *n, const char *name);

#endif
