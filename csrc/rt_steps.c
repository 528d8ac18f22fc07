/* rt_steps.c: the five steps of the paper, §3.1, on one copy, one by one, for calibration.
 *
 * They are the instructions of send_timed.c, receive_timing.c and receive.c, on a slot in shared
 * memory of our own, where nobody else is: what is measured is the machine, not the traffic. Left out
 * is what a whole operation does besides: raising and lowering the intent, ringing and hearing bells,
 * figures, looks for copies that failed, and cache lines that others use at the same time. The margin
 * has to cover it; `shmcast bench bounds --bounds calibrated` shows whether it does.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "crc32c.h"
#include "rt.h"

#define SLOTS 16u
#define WAKE_NS 200000u

struct bench {
    struct sc_rt_measure *m;
    uint64_t *histogram;
    unsigned char *shared;                           /* SLOTS slots, a lane's head, a cursor */
    unsigned char *private;
    size_t slot_bytes, bytes;
    struct sc_rt *rt;                                /* with one task that is never late */
    struct rt_runner runner;
};

static struct slot *slot_of(const struct bench *b, uint64_t i)
{
    return (struct slot *)(b->shared + i % SLOTS * b->slot_bytes);
}

static void flush_lines(const void *from, size_t bytes)
{
#if defined(__x86_64__)
    for (size_t i = 0; i < bytes; i += LINE_BYTES)
        __builtin_ia32_clflush((const unsigned char *)from + i);
    FENCE_SEQ_CST();
#else
    static unsigned char other[8u << 20];            /* more than the caches hold, mostly */
    (void)from;
    for (size_t i = 0; i < sizeof other && bytes; i += LINE_BYTES)
        ((volatile unsigned char *)other)[i]++;
#endif
}

static void step_write(const struct bench *b, struct slot *slot, uint64_t i)
{
    struct slot header = {.position = i, .timestamp = sys_now(), .bytes = (uint32_t)b->m->bytes};
    header.payload_crc = crc32c(0, b->private, b->m->bytes);
    copy_to_shared(slot->payload, b->private, b->m->bytes);
    header.header_crc = slot_header_crc(&header);
    copy_to_shared(&slot->position, &header.position, SLOT_FIXED_BYTES);
    uint64_t found = LOAD_RELAXED(&slot->decision);
    CAS_ACQ_REL(&slot->decision, &found, seal(decision_tag(i)));
}

static void step_flag(const struct bench *b, struct slot *slot, uint64_t i)
{
    word_t *tail = (word_t *)(b->shared + SLOTS * b->slot_bytes);
    STORE_RELEASE(&slot->accepted, seal(i + 1));
    STORE_RELAXED(tail, seal(i));
    FENCE_SEQ_CST();
}

/* Enter, vote, conclude: three changes of the word. */
static void step_decide(struct slot *slot, uint64_t i)
{
    for (uint64_t change = 1; change <= 3; change++) {
        uint64_t found = LOAD_ACQUIRE(&slot->decision);
        CAS_ACQ_REL(&slot->decision, &found, seal(decision_tag(i) | change << 3));
    }
}

static uint32_t step_read(const struct bench *b, struct slot *slot)
{
    struct slot header;
    copy_from_shared(&header.position, &slot->position, SLOT_FIXED_BYTES);
    copy_from_shared(b->private, slot->payload, b->m->bytes);
    return slot_header_crc(&header) ^ crc32c(0, b->private, b->m->bytes);
}

static void step_clear(const struct bench *b, uint64_t i)
{
    word_t *cursor = (word_t *)(b->shared + SLOTS * b->slot_bytes + LINE_BYTES);
    STORE_RELEASE(cursor, seal(i));
    FENCE_SEQ_CST();
    (void)LOAD_RELAXED(cursor + LINE_BYTES / sizeof(word_t)); /* the senders' bell */
}

/* Around a job that does nothing; then as if a Python job were due. Nobody sleeps there, so the kernel
 * finds nobody to wake. */
static void step_turn(struct bench *b, uint64_t start)
{
    struct rt_task *t = &b->rt->tasks[0];
    runner_look(&b->runner);
    uint64_t begun = sys_now();
    rt_record(b->rt, &b->runner, 0, start, begun, sys_now(), 0);
    external_post(b->rt, 0, start);
    STORE_RELAXED(&t->finished, LOAD_RELAXED(&t->posted));
}

static uint64_t run_once(struct bench *b, uint64_t i)
{
    struct slot *slot = slot_of(b, i);
    if (b->m->cold) {                                /* all that a step touches, and no more */
        flush_lines(slot, b->slot_bytes);
        flush_lines(b->shared + SLOTS * b->slot_bytes, b->bytes - SLOTS * b->slot_bytes);
    }
    uint64_t start = sys_now();
    switch (b->m->step) {
    case SC_RT_STEP_WRITE: step_write(b, slot, i); break;
    case SC_RT_STEP_FLAG: step_flag(b, slot, i); break;
    case SC_RT_STEP_DECIDE: step_decide(slot, i); break;
    case SC_RT_STEP_READ: step_read(b, slot); break;
    case SC_RT_STEP_CLEAR: step_clear(b, i); break;
    case SC_RT_STEP_TURN: step_turn(b, start); break;
    default:
        start += WAKE_NS;
        sys_sleep_until(start);
        break;
    }
    return sys_now() - start;
}

static void *measure(void *argument)
{
    struct bench *b = argument;
    platform_apply(&b->m->platform);
    runner_open(&b->runner);
    for (uint64_t i = 0; i < SLOTS; i++)
        run_once(b, i);                              /* warm-up */
    for (uint64_t i = 0; i < b->m->samples && (i == 0 || sys_now() < b->m->deadline); i++) {
        uint64_t took = run_once(b, i);
        b->histogram[histogram_bucket(took)]++;
        if (took > b->m->most_ns)
            b->m->most_ns = took;
        b->m->measured++;
    }
    runner_close(&b->runner);
    platform_release(&b->m->platform);
    return NULL;
}

static struct sc_rt *one_task(void)
{
    struct sc_rt *rt = calloc(1, sizeof *rt);
    if (rt && !(rt->board.tasks = calloc(1, sizeof *rt->board.tasks))) {
        free(rt);
        return NULL;
    }
    if (rt)
        rt->tasks[0].p.deadline_ns = rt->tasks[0].p.budget_ns = FOREVER;
    return rt;
}

int sc_rt_measure_step(struct sc_rt_measure *m, uint64_t *histogram)
{
    if (m->step > SC_RT_STEP_TURN || m->bytes > MESSAGE_BYTES_MAX)
        return SC_INVALID;
    struct bench b = {.m = m, .histogram = histogram};
    m->deadline = absolute(m->deadline);
    m->measured = m->most_ns = 0;
    b.slot_bytes = sizeof(struct slot) + round_up(m->bytes, LINE_BYTES);
    b.bytes = SLOTS * b.slot_bytes + 4 * LINE_BYTES;
    b.private = calloc(1, m->bytes + 1);
    b.shared = mmap(NULL, b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE,
                    -1, 0);
    b.rt = one_task();
    int rc = b.private && b.rt && b.shared != MAP_FAILED ? 0 : -ENOMEM;
    pthread_t thread;
    if (rc == 0)
        rc = -pthread_create(&thread, NULL, measure, &b);
    if (rc == 0)
        pthread_join(thread, NULL);
    if (b.shared != MAP_FAILED)
        munmap(b.shared, b.bytes);
    free(b.private);
    if (b.rt)
        free(b.rt->board.tasks);
    free(b.rt);
    return rc;
}
