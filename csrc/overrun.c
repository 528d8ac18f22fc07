/* overrun.c: see overrun.h. */
#include "overrun.h"

#include "receiver.h"
#include "sender.h"

void overrun_note(struct overruns *all, enum sc_overrun_kind kind, uint64_t timestamp,
                  uint64_t took_ns, uint64_t bound_ns)
{
    uint64_t ticket = FETCH_ADD_RELAXED(&all->next, 1);
    struct overrun_slot *slot = &all->slots[ticket % OVERRUNS_KEPT];
    STORE_RELEASE(&slot->sequence, 0);               /* [O1] */
    FENCE_SEQ_CST();
    slot->overrun = (struct sc_overrun){sys_now(), timestamp, took_ns, bound_ns, kind};
    STORE_RELEASE(&slot->sequence, ticket + 1);      /* [O1] */
}

int overrun_drain(struct overruns *all, struct sc_overrun *out, uint32_t max)
{
    uint64_t end = LOAD_ACQUIRE(&all->next);
    uint32_t n = 0;
    if (end - all->read > OVERRUNS_KEPT)
        all->read = end - OVERRUNS_KEPT;
    for (; all->read < end && n < max; all->read++) {
        struct overrun_slot *slot = &all->slots[all->read % OVERRUNS_KEPT];
        uint64_t before = LOAD_ACQUIRE(&slot->sequence); /* [O1] */
        copy_from_shared(&out[n], &slot->overrun, sizeof out[n]);
        FENCE_ACQUIRE();
        if (before == all->read + 1 && LOAD_RELAXED(&slot->sequence) == before)
            n++;
    }
    return (int)n;
}

int sc_sender_overruns(sc_sender *s, struct sc_overrun *out, uint32_t max)
{
    uint64_t forever = FOREVER;
    if (s->fork_generation != sys_fork_generation())
        return SC_FORKED;
    int rc = turn_take(&s->turn, &forever);
    if (rc)
        return rc;
    rc = overrun_drain(&s->overruns, out, max);
    turn_give(&s->turn);
    return rc;
}

/* Not behind the receiver's turn: a thread that waits for a message has that. One reader at a time. */
int sc_receiver_overruns(sc_receiver *r, struct sc_overrun *out, uint32_t max)
{
    if (r->fork_generation != sys_fork_generation())
        return SC_FORKED;
    return overrun_drain(&r->overruns, out, max);
}

void sc_sender_raise_late(sc_sender *s, int wanted) { s->raise_late = wanted != 0; }
void sc_receiver_raise_late(sc_receiver *r, int wanted) { r->raise_late = wanted != 0; }
