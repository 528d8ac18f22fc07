/* guard.h: a truncated segment must be a failed copy, not a dead process.
 *
 * Reading a page that its file no longer has raises SIGBUS. Our handler puts anonymous zero pages
 * over the whole mapping and returns: the access is repeated and succeeds, in memory that nobody
 * shares. Zero is no sealed word and no message has a zero header, so whoever reads on finds out
 * at the next check; whoever writes on writes into a void. No setjmp around operations, no cost
 * while nothing fails, and an application that holds a numpy view of a slot survives as well.
 *
 * A SIGBUS elsewhere goes to the handler that was there before.
 */
#ifndef SHMCAST_GUARD_H
#define SHMCAST_GUARD_H

#include "atomics.h"

extern _Atomic uint32_t guard_faults;                /* grows with every mapping lost */

int guard_install(void);
int guard_add(void *base, size_t bytes);             /* returns a mapping's number or -ENOMEM */
bool guard_is_lost(int mapping);
void guard_retire(int mapping);                      /* zero pages now: gives the memory back */
void guard_remove(int mapping);                      /* unmaps */

#endif
