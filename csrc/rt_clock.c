/* rt_clock.c: how far the clocks of two cores are apart.
 *
 * Two pinned threads pass a number to and fro. One stamps it when it leaves (t1) and when it is
 * back (t4), the other in between (t2). The middle stamp was taken between the outer two, whatever
 * the hand-over took, so the difference of the clocks lies in [t2 - t4, t2 - t1] for certain; the
 * rounds' intervals are intersected. An interval without 0 would be two clocks. A stamp outside of
 * the outer two is an inversion, the thing that epsilon has to cover.
 *
 * [X1] ping: release by a -> acquire by b; [X2] pong: release by b -> acquire by a. The clock is
 * read after the acquire and before the release, behind an instruction barrier (clock.h).
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/timex.h>

#include "core.h"
#include "rt_api.h"

#define LOOKS_PER_CLOCK 4096                         /* spins between two looks at the deadline */

struct exchange {
    _Alignas(64) word_t ping;
    _Alignas(64) word_t pong;
    uint64_t stamp;                                  /* beside pong: comes with it */
    _Alignas(64) _Atomic bool stop;
    int cpu_a, cpu_b;
    uint32_t rounds;
    uint64_t deadline;
    struct sc_rt_skew result;
    int error;
};

static int pin_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return -pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* False at the deadline. */
static bool await(word_t *word, uint64_t wanted, struct exchange *x)
{
    for (uint32_t spins = 1; LOAD_ACQUIRE(word) != wanted; spins++) { /* [X1] [X2] */
        if (spins % LOOKS_PER_CLOCK == 0 && (LOAD_RELAXED(&x->stop) || sys_now() > x->deadline))
            return false;
        cpu_relax();
    }
    return true;
}

static void *answer(void *argument)
{
    struct exchange *x = argument;
    if (pin_to(x->cpu_b))
        return NULL;                                 /* the other side runs into its deadline */
    for (uint64_t i = 1; i <= x->rounds && await(&x->ping, i, x); i++) {
        instruction_barrier();
        x->stamp = sys_now();
        STORE_RELEASE(&x->pong, i);                  /* [X2] */
    }
    return NULL;
}

static void note(struct sc_rt_skew *r, uint64_t t1, uint64_t t2, uint64_t t4)
{
    int64_t low = (int64_t)(t2 - t4), high = (int64_t)(t2 - t1);
    int64_t early = low > 0 ? low : high < 0 ? -high : 0;
    if (r->rounds == 0 || low > r->low_ns)
        r->low_ns = low;
    if (r->rounds == 0 || high < r->high_ns)
        r->high_ns = high;
    if (r->rounds == 0 || t4 - t1 < r->round_trip_ns)
        r->round_trip_ns = t4 - t1;
    if (early > 0)
        r->inversions++;
    if ((uint64_t)early > r->inversion_ns)
        r->inversion_ns = (uint64_t)early;
    r->rounds++;
}

static void *ask(void *argument)
{
    struct exchange *x = argument;
    x->error = pin_to(x->cpu_a);
    for (uint64_t i = 1; x->error == 0 && i <= x->rounds; i++) {
        uint64_t t1 = sys_now();
        STORE_RELEASE(&x->ping, i);                  /* [X1] */
        if (!await(&x->pong, i, x))
            break;
        uint64_t t2 = x->stamp;
        instruction_barrier();
        note(&x->result, t1, t2, sys_now());
    }
    STORE_RELEASE(&x->stop, true);
    return NULL;
}

int sc_rt_clock_skew(int cpu_a, int cpu_b, uint32_t rounds, uint64_t deadline,
                     struct sc_rt_skew *out)
{
    if (cpu_a == cpu_b || cpu_a < 0 || cpu_b < 0 || cpu_a >= CPU_SETSIZE || cpu_b >= CPU_SETSIZE)
        return SC_INVALID;
    struct exchange *x = aligned_alloc(64, sizeof *x);
    if (!x)
        return -ENOMEM;
    memset(x, 0, sizeof *x);
    x->cpu_a = cpu_a, x->cpu_b = cpu_b, x->rounds = rounds, x->deadline = absolute(deadline);
    pthread_t a, b;
    int rc = -pthread_create(&b, NULL, answer, x);
    if (rc == 0) {
        rc = -pthread_create(&a, NULL, ask, x);
        if (rc == 0)
            pthread_join(a, NULL);
        STORE_RELEASE(&x->stop, true);
        pthread_join(b, NULL);
    }
    if (rc == 0)
        rc = x->error ? x->error : x->result.rounds == 0 ? SC_TIMEOUT : 0;
    *out = x->result;
    free(x);
    return rc;
}

int sc_rt_clock_error(uint64_t *max_error_ns, uint64_t *estimated_ns)
{
    struct timex t = {.modes = 0};
    int state = adjtimex(&t);
    if (state < 0)
        return -errno;
    *max_error_ns = (uint64_t)t.maxerror * 1000;
    *estimated_ns = (uint64_t)t.esterror * 1000;
    return state != TIME_ERROR && !(t.status & STA_UNSYNC);
}
