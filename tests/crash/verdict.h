/* verdict.h: what the notes of a case must show. */
#ifndef CRASH_VERDICT_H
#define CRASH_VERDICT_H

#include "notes.h"

/* Consensus, validity, ordering; failures go to the notes. `whole_batches`: an operation is delivered
 * whole or not at all, as in `eager`. */
void verdict(struct notes *n, bool whole_batches);

#endif
