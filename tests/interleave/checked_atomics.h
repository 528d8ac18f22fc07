/* checked_atomics.h: what csrc/atomics.h becomes when the checker owns every step.
 *
 * The names are those of atomics.h; each is a call into memory.c, which parks the caller until the
 * scheduler lets it go on. The order of a store decides what a store buffer may do with it; loads
 * are executed in program order (see memory.c for what that leaves out).
 */
#ifndef CHECKED_ATOMICS_H
#define CHECKED_ATOMICS_H

typedef uint64_t word_t;
typedef uint32_t bell_t;

enum step_order { STEP_RELAXED, STEP_ORDERED };
enum fetch_kind { FETCH_OR, FETCH_ADD, FETCH_SET };

uint64_t step_load(const volatile void *at, unsigned size);
void step_store(volatile void *at, unsigned size, uint64_t value, enum step_order order);
bool step_cas(volatile void *at, unsigned size, uint64_t *expected, uint64_t desired);
uint64_t step_fetch(volatile void *at, unsigned size, enum fetch_kind kind, uint64_t value);
void step_fence(void);
void step_spin(void);
void step_copy_out(void *to, const void *from, size_t bytes);
void step_copy_in(void *to, const void *from, size_t bytes);

#define PLAIN_TYPE(p) __typeof__((void)0, *(p))
#define STEP_LOAD(p) ((PLAIN_TYPE(p))(uintptr_t)step_load((p), sizeof *(p)))
#define STEP_STORE(p, v, order) step_store((p), sizeof *(p), (uint64_t)(uintptr_t)(v), (order))
#define STEP_FETCH(p, kind, v)                                                              \
    ({                                                                                      \
        uint64_t step_was = step_fetch((p), sizeof *(p), (kind), (uint64_t)(int64_t)(v));   \
        (PLAIN_TYPE(p))(uintptr_t)step_was;                                                 \
    })

#define LOAD_RELAXED(p) STEP_LOAD(p)
#define LOAD_ACQUIRE(p) STEP_LOAD(p)
#define STORE_RELAXED(p, v) STEP_STORE(p, v, STEP_RELAXED)
#define STORE_RELEASE(p, v) STEP_STORE(p, v, STEP_ORDERED)
#define CAS_ACQ_REL(p, expected, desired)                                        \
    ({                                                                           \
        uint64_t step_expected = (uint64_t)*(expected);                          \
        bool step_done = step_cas((p), sizeof *(p), &step_expected, (desired));  \
        *(expected) = (__typeof__(*(expected)))step_expected;                    \
        step_done;                                                               \
    })
#define FETCH_OR_ACQ_REL(p, v) STEP_FETCH(p, FETCH_OR, v)
#define FETCH_ADD_RELAXED(p, v) STEP_FETCH(p, FETCH_ADD, v)
#define COUNT_UP(p) STEP_FETCH(p, FETCH_ADD, 1)
#define COUNT_DOWN(p) STEP_FETCH(p, FETCH_ADD, -1)
#define EXCHANGE(p, v) STEP_FETCH(p, FETCH_SET, v)
#define FENCE_ACQUIRE() ((void)0)                    /* loads are in order anyway */
#define FENCE_SEQ_CST() step_fence()

static inline void cpu_relax(void) { step_spin(); }

static inline void copy_from_shared(void *to, const void *from, size_t bytes)
{
    step_copy_out(to, from, bytes);
}

static inline void copy_to_shared(void *to, const void *from, size_t bytes)
{
    step_copy_in(to, from, bytes);
}

#endif
