/* rt_decider.c: a thread that decides for a `timing` receiver, in the place of the one that every
 * such receiver starts for itself: that one is an ordinary thread, this one gets what the kernel has
 * for threads with deadlines. It also goes on where a schedule that decided has ended; otherwise
 * nobody would, and the receiver would be late for ever without a word.
 *
 * It ends with its receiver: rounds of one that is closed are refused. Its memory must outlive it.
 */
#include <stdlib.h>

#include "receiver.h"
#include "rt.h"

struct sc_rt_decider {
    struct sc_receiver *receiver;
    struct sc_rt_platform platform;
    uint64_t poll_ns;
    uint32_t fork_generation;
    _Atomic bool stop;
    _Atomic uint32_t ready;                          /* [D9] 1 once `platform` is filled in */
    pthread_t thread;
};

static void *decide(void *argument)
{
    struct sc_rt_decider *d = argument;
    platform_apply(&d->platform);
    STORE_RELEASE(&d->ready, 1);                     /* [D9] -> sc_rt_decider_open */
    sys_futex_wake_all(&d->ready);
    while (!LOAD_ACQUIRE(&d->stop) && decider_round(d->receiver, FOREVER) == 0)
        sys_sleep_until(sys_now() + d->poll_ns);
    platform_release(&d->platform);
    return NULL;
}

int sc_rt_decider_open(sc_receiver *receiver, struct sc_rt_platform *platform, sc_rt_decider **out)
{
    int rc = sc_receiver_decide_by_schedule(receiver);
    if (rc)
        return rc;
    struct sc_rt_decider *d = calloc(1, sizeof *d);
    if (!d)
        return -ENOMEM;
    d->receiver = receiver;
    d->platform = *platform;
    d->poll_ns = receiver->domain->params.bounds.poll_ns;
    d->fork_generation = sys_fork_generation();
    if ((rc = -pthread_create(&d->thread, NULL, decide, d))) {
        free(d);
        return rc;
    }
    while (!LOAD_ACQUIRE(&d->ready))                 /* [D9] */
        sys_futex_wait(&d->ready, 0, sys_now() + NS_PER_S);
    *platform = d->platform;
    *out = d;
    return 0;
}

/* In a forked child there is no thread to wait for. */
void sc_rt_decider_free(sc_rt_decider *d)
{
    STORE_RELEASE(&d->stop, true);
    if (d->fork_generation == sys_fork_generation())
        pthread_join(d->thread, NULL);
    free(d);
}
