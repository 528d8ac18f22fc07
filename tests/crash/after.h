/* after.h: what the survivors do when the role has acted. */
#ifndef CRASH_AFTER_H
#define CRASH_AFTER_H

#include "actor.h"

struct company {
    struct cast role, sender, receiver;          /* the last two are there to die first */
    sc_domain *filler_domain;
    sc_sender *filler;
};

void live_on(struct world *w, struct company *c);
void check_memory(struct world *w);

#endif
