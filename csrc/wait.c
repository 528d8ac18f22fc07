/* wait.c: sleeping and waking without losing a wake-up.
 *
 * A bell is a futex word: bit 0 says that somebody may be asleep, the rest counts. A sleeper sets
 * the bit, looks once more for what it waits for, and sleeps while the word is unchanged. A waker
 * makes its change, fences, and only if it sees the bit pays for a system call.
 *
 * [W1] sleeper: arm; fence; look again.   waker: publish; fence; look at the bit.
 *      So either the sleeper sees the change or the waker sees the bit.
 *
 * A bell in a dead copy never rings, so nobody sleeps longer than the polling delay.
 */
#include "core.h"

uint32_t bell_arm(bell_t *bell)
{
    uint32_t armed = FETCH_OR_ACQ_REL(bell, 1u) | 1u;
    FENCE_SEQ_CST();                                 /* [W1] */
    return armed;
}

static void ring(bell_t *bell)
{
    uint32_t found = LOAD_RELAXED(bell);             /* after the caller's fence [W1] */
    if (!(found & 1u))
        return;
    CAS_ACQ_REL(bell, &found, (found + 2u) & ~1u);   /* lost: another waker is at it */
    sys_futex_wake_all(bell);
}

/* The caller has published and fenced. */
bool receivers_asleep(const struct view *view, int box)
{
    for (int i = 0; i < view->count; i++)
        if (LOAD_RELAXED(&mailbox_head(view->copy[i], box)->ring) & 1u)
            return true;
    return false;
}

void ring_receivers(const struct view *view, int box)
{
    for (int i = 0; i < view->count; i++)
        ring(&mailbox_head(view->copy[i], box)->ring);
}

/* No fence here: it would cost every receive. A wake-up that slips through between a cursor's
 * store and this look costs the sender one short sleep, see lane_wait_room. */
void ring_senders(const struct view *view, int box)
{
    for (int i = 0; i < view->count; i++)
        ring(&mailbox_head(view->copy[i], box)->space);
}
