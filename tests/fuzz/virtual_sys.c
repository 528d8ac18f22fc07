/* virtual_sys.c: csrc/sys.c with a clock of its own: a sleep is over at once and the clock says that
 * the time has passed, so that an input costs microseconds whatever deadlines it meets.
 *
 * Every look at the clock by the thread that tries the input moves it on a little, so that loops
 * that wait for a time end; one that looks too often does not end, and that is a hang. With a second thread (the decision
 * thread of `timing`) time moves when all of them sleep.
 */
#define sys_now real_now
#define sys_sleep_until real_sleep_until
#define sys_futex_wait real_futex_wait
#include "../../csrc/sys.c"
#undef sys_now
#undef sys_sleep_until
#undef sys_futex_wait

#include "harness.h"

uint64_t sys_now(void);
void sys_sleep_until(uint64_t when);
int sys_futex_wait(bell_t *bell, uint32_t expected, uint64_t until);

#define START_NS (1000 * NS_PER_S)
#define LOOK_NS 200
#define LOOKS_MAX 3000000            /* an honest input needs some thousands */
#define STALLED_NS 1000000           /* real time: somebody who is counted in does not sleep */

static _Atomic uint64_t now = START_NS;
static _Atomic uint64_t looks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int threads, sleeping;
static uint64_t earliest = UINT64_MAX;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void thread_ends(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    threads--;
    pthread_mutex_unlock(&lock);
}

static void make_key(void) { pthread_key_create(&at_exit, thread_ends); }

static _Thread_local bool leads;                     /* the thread that tries the input */

void virtual_time_reset(void)
{
    leads = true;
    STORE_RELAXED(&now, START_NS);
    STORE_RELAXED(&looks, 0);
}

static void count_look(void)
{
    if (leads && FETCH_ADD_RELAXED(&looks, 1) > LOOKS_MAX)
        fuzz_fail("hang: an operation does not end");
}

uint64_t sys_now(void)
{
    count_look();
    return FETCH_ADD_RELAXED(&now, leads ? LOOK_NS : 0);
}

static void move_to(uint64_t when)
{
    uint64_t found = LOAD_RELAXED(&now);
    while (found < when && !CAS_ACQ_REL(&now, &found, when))
        ;
    earliest = UINT64_MAX;
    pthread_cond_broadcast(&moved);
}

void sys_sleep_until(uint64_t when)
{
    count_look();
    pthread_once(&once, make_key);
    pthread_mutex_lock(&lock);
    if (!pthread_getspecific(at_exit)) {
        pthread_setspecific(at_exit, &threads);
        threads++;
    }
    sleeping++;
    while (LOAD_RELAXED(&now) < when) {
        if (when < earliest)
            earliest = when;
        struct timespec patience;
        clock_gettime(CLOCK_REALTIME, &patience);
        patience.tv_nsec += STALLED_NS;
        patience.tv_sec += patience.tv_nsec / (long)NS_PER_S;
        patience.tv_nsec %= (long)NS_PER_S;
        if (sleeping == threads ||
            pthread_cond_timedwait(&moved, &lock, &patience) == ETIMEDOUT)
            move_to(earliest);
    }
    sleeping--;
    pthread_mutex_unlock(&lock);
}

int sys_futex_wait(bell_t *bell, uint32_t expected, uint64_t until)
{
    if (LOAD_RELAXED(bell) != expected)
        return -EAGAIN;
    sys_sleep_until(until);
    return -ETIMEDOUT;
}
