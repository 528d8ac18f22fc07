/* rt_record.c: the end of a job: figures into the board, anything unusual into the trace.
 *
 * The trace is a ring that keeps the latest; writers never wait for its reader. A slot that is
 * being written again while it is read is thrown away by the reader and counted as lost.
 */
#include "rt.h"

void rt_trace(struct sc_rt *rt, uint32_t task, enum sc_rt_event_kind kind, int64_t value,
              uint64_t causes)
{
    uint64_t ticket = FETCH_ADD_RELAXED(&rt->trace_next, 1);
    struct rt_trace_slot *slot = &rt->trace[ticket % SC_RT_TRACE_MAX];
    STORE_RELEASE(&slot->sequence, 0);               /* [Q3] */
    FENCE_SEQ_CST();
    slot->event = (struct sc_rt_event){sys_now(), task, kind, value, causes};
    STORE_RELEASE(&slot->sequence, ticket + 1);      /* [Q3] */
}

/* One reader at a time. */
int sc_rt_drain(sc_rt *rt, struct sc_rt_event *out, uint32_t max, uint64_t *lost)
{
    uint64_t end = LOAD_ACQUIRE(&rt->trace_next);
    uint32_t n = 0;
    *lost = 0;
    if (end - rt->trace_read > SC_RT_TRACE_MAX) {
        *lost = end - rt->trace_read - SC_RT_TRACE_MAX;
        rt->trace_read = end - SC_RT_TRACE_MAX;
    }
    for (; rt->trace_read < end && n < max; rt->trace_read++) {
        struct rt_trace_slot *slot = &rt->trace[rt->trace_read % SC_RT_TRACE_MAX];
        uint64_t before = LOAD_ACQUIRE(&slot->sequence); /* [Q3] */
        struct sc_rt_event event;
        copy_from_shared(&event, &slot->event, sizeof event);
        FENCE_ACQUIRE();
        if (before == rt->trace_read + 1 && LOAD_RELAXED(&slot->sequence) == before)
            out[n++] = event;
        else if (before < rt->trace_read + 1 && end - rt->trace_read < SC_RT_TRACE_MAX / 2)
            break;                                   /* still being written: next time */
        else
            ++*lost;
    }
    return (int)n;
}

void rt_record_skip(struct sc_rt *rt, uint32_t task, uint64_t release_ns)
{
    board_add(&rt->board.tasks[task].dispatched[BOARD_SKIPPED], 1);
    rt_trace(rt, task, SC_RT_SKIPPED, (int64_t)(sys_now() - release_ns), 0);
}

static void record_lateness(struct sc_rt *rt, struct rt_runner *runner, uint32_t task,
                            uint64_t release_ns, uint64_t start_ns, uint64_t end_ns)
{
    const struct sc_rt_task *p = &rt->tasks[task].p;
    struct board_task *b = &rt->board.tasks[task];
    uint64_t response = end_ns - release_ns, work = end_ns - start_ns;
    bool missed = response > p->deadline_ns, overran = work > p->budget_ns;
    uint64_t excess = missed ? response - p->deadline_ns : work - p->budget_ns;
    uint64_t causes = runner_causes(runner, rt, start_ns - release_ns, excess);
    if (missed) {
        board_add(&b->done[BOARD_MISSES], 1);
        for (uint32_t i = 0; i < SC_RT_CAUSES; i++)
            if (causes >> i & 1)
                board_add(&b->causes[i], 1);
        rt_trace(rt, task, SC_RT_MISS, (int64_t)excess, causes);
    }
    if (overran) {
        board_add(&b->done[BOARD_OVERRUNS], 1);
        rt_trace(rt, task, SC_RT_OVERRUN, (int64_t)(work - p->budget_ns), causes);
    }
}

bool rt_record(struct sc_rt *rt, struct rt_runner *runner, uint32_t task, uint64_t release_ns,
               uint64_t start_ns, uint64_t end_ns, int result)
{
    const struct sc_rt_task *p = &rt->tasks[task].p;
    struct board_task *b = &rt->board.tasks[task];
    uint64_t response = end_ns - release_ns, work = end_ns - start_ns;
    uint64_t slack = response < p->deadline_ns ? p->deadline_ns - response : 0;
    histogram_add(b->histogram, response);
    board_max(&b->done[BOARD_WORST_RESPONSE_NS], response);
    board_max(&b->done[BOARD_WORST_WORK_NS], work);
    board_add(&b->done[BOARD_TOTAL_WORK_NS], work);
    if (LOAD_RELAXED(&b->done[BOARD_FINISHED]) == 0 ||
        slack < LOAD_RELAXED(&b->done[BOARD_SLACK_NS]))
        STORE_RELAXED(&b->done[BOARD_SLACK_NS], slack);
    board_add(&b->done[BOARD_FINISHED], 1);
    if (result == SC_LATE) {
        board_add(&b->done[BOARD_ABORTED], 1);
        rt_trace(rt, task, SC_RT_ABORTED, (int64_t)work, 0);
    } else if (result < 0) {
        board_add(&b->done[BOARD_FAILED], 1);
        rt_trace(rt, task, SC_RT_FAILED, result, 0);
    }
    bool late = response > p->deadline_ns || work > p->budget_ns;
    if (late)
        record_lateness(rt, runner, task, release_ns, start_ns, end_ns);
    return late;
}
