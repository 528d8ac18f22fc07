/* rt.h: one schedule: the thread that releases and runs tasks, and what watches it.
 *
 *   dispatcher   releases every task; runs native ones itself, each to its end
 *   external     Python's thread: takes released jobs, below the dispatcher (sc_rt_take)
 *   watchdog     looks at jobs that run, counts those beyond their deadline, asks for their end
 *
 * Nothing here takes a lock that Python can hold, so neither the interpreter's lock nor a garbage
 * collection delays a native task. Words with several readers have one writer each:
 *
 * [Q1] posted: release by the dispatcher -> acquire by the external thread, after the job's times
 * [Q2] finished: release by the external thread -> acquire by the dispatcher
 * [Q3] trace slots: sequence 0, contents, sequence (release) -> acquire, contents, sequence again
 */
#ifndef SHMCAST_RT_H
#define SHMCAST_RT_H

#include "core.h"
#include "rt_api.h"
#include "rt_board.h"

struct rt_usage {                                    /* of one thread, so far */
    uint64_t voluntary, involuntary, minor, major, waited_ns;
};

struct rt_runner {                                   /* a thread that runs jobs */
    int schedstat;                                   /* file, or -1 */
    struct rt_usage before;
    uint64_t stolen_before;
};

struct rt_task {
    struct sc_rt_task p;
    uint64_t next_ns;                                /* next release; the dispatcher's */
    uint64_t stretch;                                /* degraded: so many periods between releases */
    word_t release_ns, due_ns;                       /* external: of the job that is posted */
    word_t posted, finished;                         /* external: jobs [Q1] [Q2] */
    word_t running;                                  /* start of the job that runs, or 0 */
    word_t running_due, running_abort;
    word_t abort_asked;                              /* start of the job that was asked to end */
    word_t overran;                                  /* external: set by its thread before [Q2] */
    uint64_t judged;                                 /* external: the last job that degrade() saw */
};

struct rt_trace_slot {
    word_t sequence;                                 /* [Q3] ticket + 1 */
    struct sc_rt_event event;
};

struct sc_rt {
    uint32_t policy, count;
    struct rt_task tasks[SC_RT_TASKS_MAX];
    uint64_t cycle_ns, start_ns;
    struct sc_rt_entry *entries;
    uint64_t *latest_ns;                             /* by entry, in the cycle */
    uint32_t entry_count;
    struct board board;
    struct sc_rt_platform platform;
    bool started;
    uint32_t fork_generation;
    _Atomic bool stop;
    pthread_t dispatcher, watchdog;
    _Atomic uint32_t ready;                          /* dispatcher: 1 once its class is set */
    bell_t external_bell, overdue_bell;
    struct rt_runner own, external;
    word_t stolen_ticks;                             /* of the whole machine, when last looked */
    word_t trace_next;
    uint64_t trace_read;
    struct rt_trace_slot trace[SC_RT_TRACE_MAX];
};

/* rt_platform.c */
void platform_apply(struct sc_rt_platform *p);       /* to the calling thread */
void platform_prefault(void);
int platform_watchdog(const struct sc_rt_platform *p, pthread_t watchdog);
void platform_release(const struct sc_rt_platform *p);

/* rt_causes.c */
void runner_open(struct rt_runner *runner);
void runner_close(struct rt_runner *runner);
void runner_look(struct rt_runner *runner);          /* before a job */
uint64_t runner_causes(struct rt_runner *runner, const struct sc_rt *rt, uint64_t late_start_ns,
                       uint64_t excess_ns);
uint64_t stolen_ticks(void);

/* rt_record.c */
void rt_trace(struct sc_rt *rt, uint32_t task, enum sc_rt_event_kind kind, int64_t value,
              uint64_t causes);
/* A job has ended. True if it took longer than its budget or its deadline. */
bool rt_record(struct sc_rt *rt, struct rt_runner *runner, uint32_t task, uint64_t release_ns,
               uint64_t start_ns, uint64_t end_ns, int result);
/* A release for which no job is started. */
void rt_record_skip(struct sc_rt *rt, uint32_t task, uint64_t release_ns);

/* rt_external.c */
void external_post(struct sc_rt *rt, uint32_t task, uint64_t release_ns);
/* True once for each job that has ended; then `late` says how. */
bool external_judge(struct rt_task *task, bool *late);

/* rt_watch.c */
void *watch(void *rt);

static inline void board_max(word_t *word, uint64_t value)
{
    if (value > LOAD_RELAXED(word))
        STORE_RELAXED(word, value);
}

static inline void board_add(word_t *word, uint64_t add)
{
    STORE_RELAXED(word, LOAD_RELAXED(word) + add);
}

#endif
