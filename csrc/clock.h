/* clock.h: the clock that the protocols read, with faults for tests.
 *
 * The order of messages rests on two reads of this clock that take part in a store-load pair:
 *
 *   [K1] sender:   store intent;  fence;  read clock -> ts      (clock_after_stores)
 *   [K2] receiver: read clock -> t0;  fence;  load intent       (clock_before_loads)
 *
 * If ts < t0, the sender's read came first, so its intent was visible before the receiver's load.
 * A processor may run a later load before an earlier counter read, or a counter read before an
 * earlier store is visible; the barriers below forbid both. On aarch64 the counter is a system
 * register: DMB does not order its reading against stores, and ISB does not wait for them, so that
 * takes DSB, which ends only when the stores before it are visible. CLOCK_MONOTONIC never goes backwards
 * from one core to another, so epsilon is 0 on one host unless tests inject a skew.
 */
#ifndef SHMCAST_CLOCK_H
#define SHMCAST_CLOCK_H

#include "sys.h"

struct clock_fault {
    int64_t offset_ns;
    int64_t drift_ppb;
    uint64_t since_ns;
};

extern _Atomic bool clock_is_faulty;
uint64_t clock_with_fault(uint64_t true_ns);
void clock_set_fault(int64_t offset_ns, int64_t drift_ppb);

/* This process's clock for a true time: the same, but for injected faults. */
static inline uint64_t clock_from(uint64_t true_ns)
{
    return LOAD_RELAXED(&clock_is_faulty) ? clock_with_fault(true_ns) : true_ns;
}

static inline void instruction_barrier(void)
{
#if defined(__x86_64__)
    __asm__ volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    FENCE_SEQ_CST();
#endif
}

static inline void stores_visible(void)
{
#if defined(__aarch64__)
    __asm__ volatile("dsb ish" ::: "memory");
#endif
}

static inline uint64_t clock_before_loads(void)      /* [K2]; returns true time */
{
    uint64_t now = sys_now();
    instruction_barrier();
    return now;
}

static inline uint64_t clock_after_stores(void)      /* [K1]; returns true time */
{
    FENCE_SEQ_CST();
    stores_visible();
    instruction_barrier();
    return sys_now();
}

#endif
