/* atomics.h: the only file that names a memory order.
 *
 * Everything that lies in shared memory and is written by more than one process, or read while
 * it is written, goes through these names. A checker that owns every step brings its own definitions
 * of them, -DSHMCAST_ATOMICS='"file.h"'; so no other file may include <stdatomic.h>.
 *
 * Ordering in one paragraph. Data are published by STORE_RELEASE and taken by LOAD_ACQUIRE of the
 * same word. CAS is acquire-release. Where one process stores A and then reads B while another
 * stores B and then reads A, both put FENCE_SEQ_CST between, and one of them sees the other. The
 * clock takes part in such pairs as if it were a word: see clock.h.
 */
#ifndef SHMCAST_ATOMICS_H
#define SHMCAST_ATOMICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef SHMCAST_ATOMICS
#include SHMCAST_ATOMICS
#else

typedef _Atomic uint64_t word_t;   /* one shared word */
typedef _Atomic uint32_t bell_t;   /* one futex word  */

_Static_assert(sizeof(word_t) == 8 && sizeof(bell_t) == 4, "atomics must have no hidden parts");
_Static_assert(ATOMIC_LONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "a hidden lock would be private to each process");

#define LOAD_RELAXED(p) atomic_load_explicit((p), memory_order_relaxed)
#define LOAD_ACQUIRE(p) atomic_load_explicit((p), memory_order_acquire)
#define STORE_RELAXED(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define STORE_RELEASE(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define CAS_ACQ_REL(p, expected, desired)                                                \
    atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_acq_rel, \
                                            memory_order_acquire)
#define FETCH_OR_ACQ_REL(p, v) atomic_fetch_or_explicit((p), (v), memory_order_acq_rel)
#define FETCH_ADD_RELAXED(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
/* Counters and switches of one process; seldom used, so the strongest order will do. */
#define COUNT_UP(p) atomic_fetch_add((p), 1)
#define COUNT_DOWN(p) atomic_fetch_sub((p), 1)
#define EXCHANGE(p, v) atomic_exchange((p), (v))

#if defined(__SANITIZE_THREAD__)     /* gcc */
#define UNDER_TSAN 1
#elif defined(__has_feature)         /* clang */
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif

/* The thread sanitizer does not know fences. Its build has real ones that it does not see, rather
 * than something stronger that it does: what is ordered by fences alone it reports, so that it
 * never keeps quiet about a race because of us. */
#if defined(UNDER_TSAN) && defined(__x86_64__)
#define FENCE_SEQ_CST() __asm__ volatile("mfence" ::: "memory")
#define FENCE_ACQUIRE() __asm__ volatile("" ::: "memory")
#elif defined(UNDER_TSAN) && defined(__aarch64__)
#define FENCE_SEQ_CST() __asm__ volatile("dmb ish" ::: "memory")
#define FENCE_ACQUIRE() __asm__ volatile("dmb ishld" ::: "memory")
#else
#define FENCE_ACQUIRE() atomic_thread_fence(memory_order_acquire)
#define FENCE_SEQ_CST() atomic_thread_fence(memory_order_seq_cst)
#endif

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Payload bytes. A receiver that was evicted while it copied may read what a sender is writing;
 * it finds out afterwards and throws the bytes away. In the C model that is a race, so what is
 * meant here is a copy of relaxed byte atomics, which C11 cannot say. An opaque memcpy is that
 * on every compiler we build with; the thread sanitizer's build says it byte by byte. */
static inline void copy_from_shared(void *to, const void *from, size_t bytes)
{
#if defined(UNDER_TSAN)
    const _Atomic unsigned char *source = from;
    unsigned char *target = to;
    for (size_t i = 0; i < bytes; i++)
        target[i] = LOAD_RELAXED(&source[i]);
#else
    memcpy(to, from, bytes);
#endif
}

static inline void copy_to_shared(void *to, const void *from, size_t bytes)
{
#if defined(UNDER_TSAN)
    _Atomic unsigned char *target = to;
    const unsigned char *source = from;
    for (size_t i = 0; i < bytes; i++)
        STORE_RELAXED(&target[i], source[i]);
#else
    memcpy(to, from, bytes);
#endif
}

#endif /* SHMCAST_ATOMICS */
#endif
