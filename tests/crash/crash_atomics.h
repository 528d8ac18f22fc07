/* crash_atomics.h: atomics.h with a crash point behind every write to shared memory.
 *
 * The core is compiled with -DSHMCAST_ATOMICS='"crash_atomics.h"', so csrc/ needs no marks: whatever
 * writes shared memory goes through these names. The orders are those of atomics.h. Every use is a
 * static site, with file and line, in the section `crash_sites`; so the sites that no script
 * reaches can be listed. Whether a word is shared is decided by its address, when the point is
 * passed (points.c): the same names serve counters of one process.
 */
#ifndef CRASH_ATOMICS_H
#define CRASH_ATOMICS_H

struct crash_site {
    const char *file;
    const char *what;
    uint64_t line;
    uint64_t pad;                    /* 32 bytes: no gap between two of them in the section */
} __attribute__((aligned(32)));

void crash_point(const struct crash_site *site, const volatile void *address);
void crash_copy(const struct crash_site *site, void *to, const void *from, size_t bytes);

#define CRASH_SITE(name_, what_)                                                        \
    static const struct crash_site name_ __attribute__((section("crash_sites"), used)) = \
        {__FILE__, what_, __LINE__, 0}

typedef _Atomic uint64_t word_t;
typedef _Atomic uint32_t bell_t;

#define LOAD_RELAXED(p) atomic_load_explicit((p), memory_order_relaxed)
#define LOAD_ACQUIRE(p) atomic_load_explicit((p), memory_order_acquire)

#define CRASH_STORE(p, v, order)                                                        \
    ({                                                                                  \
        CRASH_SITE(site_, "store");                                                     \
        __auto_type at_ = (p);                                                          \
        atomic_store_explicit(at_, (v), order);                                         \
        crash_point(&site_, at_);                                                       \
    })
#define STORE_RELAXED(p, v) CRASH_STORE(p, v, memory_order_relaxed)
#define STORE_RELEASE(p, v) CRASH_STORE(p, v, memory_order_release)

/* A point also behind a CAS that lost: nothing was written, but the loser may die here too. */
#define CRASH_CHANGE(p, what_, expression)                                              \
    ({                                                                                  \
        CRASH_SITE(site_, what_);                                                       \
        __auto_type at_ = (p);                                                          \
        __auto_type result_ = (expression);                                             \
        crash_point(&site_, at_);                                                       \
        result_;                                                                        \
    })
#define CAS_ACQ_REL(p, expected, desired)                                               \
    CRASH_CHANGE(p, "cas",                                                              \
                 atomic_compare_exchange_strong_explicit(at_, (expected), (desired),    \
                                                         memory_order_acq_rel,          \
                                                         memory_order_acquire))
#define FETCH_OR_ACQ_REL(p, v)                                                          \
    CRASH_CHANGE(p, "fetch-or", atomic_fetch_or_explicit(at_, (v), memory_order_acq_rel))
#define FETCH_ADD_RELAXED(p, v)                                                         \
    CRASH_CHANGE(p, "fetch-add", atomic_fetch_add_explicit(at_, (v), memory_order_relaxed))
#define COUNT_UP(p) CRASH_CHANGE(p, "count-up", atomic_fetch_add(at_, 1))
#define COUNT_DOWN(p) CRASH_CHANGE(p, "count-down", atomic_fetch_sub(at_, 1))
#define EXCHANGE(p, v) CRASH_CHANGE(p, "exchange", atomic_exchange(at_, (v)))

#define FENCE_ACQUIRE() atomic_thread_fence(memory_order_acquire)
#define FENCE_SEQ_CST() atomic_thread_fence(memory_order_seq_cst)

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void copy_from_shared(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/* In pieces, so that headers and payloads are torn. */
#define copy_to_shared(to, from, bytes)                                                 \
    ({                                                                                  \
        CRASH_SITE(site_, "copy");                                                      \
        crash_copy(&site_, (to), (from), (bytes));                                      \
    })

#endif
