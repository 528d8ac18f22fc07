/* turn.c: waiting for another thread of this process to finish with a handle.
 *
 * The last turn is never given back. Whoever waits then, or comes later, is sent away before it
 * touches anything but the handle itself, which is freed only when no thread can hold it.
 */
#include "core.h"

#define SPINS 100
#define SLEEP_MIN_NS 20000
#define SLEEP_MAX_NS 1000000

int turn_wait(struct turn *turn, uint64_t *pinned)
{
    uint64_t sleep = SLEEP_MIN_NS;
    const uint64_t deadline = pin(pinned);
    for (int spins = 0;; spins++) {
        uint32_t free = 0;
        if (LOAD_RELAXED(&turn->taken) == 0 && CAS_ACQ_REL(&turn->taken, &free, 1))
            return 0;
        if (LOAD_RELAXED(&turn->ended))              /* says no more than "go away" */
            return SC_CLOSED;
        if (spins < SPINS) {
            cpu_relax();
            continue;
        }
        uint64_t now = sys_now();
        if (now >= deadline)
            return SC_TIMEOUT;
        sys_sleep_until(now + sleep < deadline ? now + sleep : deadline);
        sleep = sleep * 2 < SLEEP_MAX_NS ? sleep * 2 : SLEEP_MAX_NS;
    }
}

int turn_end(struct turn *turn)
{
    uint32_t free = 0;
    if (EXCHANGE(&turn->ended, true))
        return -EALREADY;
    for (uint64_t sleep = SLEEP_MIN_NS; !CAS_ACQ_REL(&turn->taken, &free, 1); free = 0)
        sys_sleep_until(sys_now() + sleep);
    return 0;
}
