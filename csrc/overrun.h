/* overrun.h: bounds that were broken, kept by a handle until somebody asks: the latest of them.
 *
 * Written only when something took too long, by the thread that noticed; several may. A reader that
 * meets a slot being written again throws it away.
 *
 * [O1] slot: sequence 0, contents, sequence (release) -> acquire, contents, sequence again.
 */
#ifndef SHMCAST_OVERRUN_H
#define SHMCAST_OVERRUN_H

#include "core.h"

#define OVERRUNS_KEPT 64u

struct overrun_slot {
    word_t sequence;                                 /* ticket + 1 */
    struct sc_overrun overrun;
};

struct overruns {
    word_t next;
    uint64_t read;                                   /* the reader's */
    struct overrun_slot slots[OVERRUNS_KEPT];
};

void overrun_note(struct overruns *all, enum sc_overrun_kind kind, uint64_t timestamp,
                  uint64_t took_ns, uint64_t bound_ns);
int overrun_drain(struct overruns *all, struct sc_overrun *out, uint32_t max);

#endif
