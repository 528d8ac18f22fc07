/* rt_api.h: the C API of bounded time: clocks, histograms, the dispatcher. Read by cffi as it is,
 * after api.h, under the same rules.
 */

/* Clocks of two cores, compared by messages through a cache line. */
struct sc_rt_skew {
    int64_t low_ns, high_ns;  /* clock of b minus clock of a lies in here, for certain */
    uint64_t round_trip_ns;   /* shortest */
    uint64_t rounds;          /* that were finished before the deadline */
    uint64_t inversions;      /* effects that were stamped before their causes */
    uint64_t inversion_ns;    /* the largest */
};

int sc_rt_clock_skew(int cpu_a, int cpu_b, uint32_t rounds, uint64_t deadline,
                     struct sc_rt_skew *out);

/* What the kernel believes of its wall clock (NTP, PTP): 1 synchronised, 0 not. */
int sc_rt_clock_error(uint64_t *max_error_ns, uint64_t *estimated_ns);

/* Schedules: tasks released by a thread of their own, in C; see rt.h. */
enum sc_rt_limit { SC_RT_TASKS_MAX = 64, SC_RT_TRACE_MAX = 1024 };
enum sc_rt_policy { SC_RT_TABLE = 1, SC_RT_FIXED = 2, SC_RT_EDF = 3 };
enum sc_rt_kind { SC_RT_NATIVE = 0, SC_RT_EXTERNAL = 1 };
enum sc_rt_overrun { SC_RT_SKIP = 0, SC_RT_ABORT = 1, SC_RT_DEGRADE = 2 };
enum sc_rt_class { SC_RT_OTHER = 0, SC_RT_FIFO = 1, SC_RT_DEADLINE = 2 };

/* Why a job was late; several may be true at once. */
enum sc_rt_cause {
    SC_RT_PREEMPTED = 0,      /* the kernel gave the core to somebody else */
    SC_RT_BLOCKED = 1,        /* it waited inside */
    SC_RT_MINOR_FAULT = 2,
    SC_RT_MAJOR_FAULT = 3,    /* a page came from a disk */
    SC_RT_STOLEN = 4,         /* the host ran another machine */
    SC_RT_LATE_START = 5,     /* it was started late: woken late, or another job was in the way */
    SC_RT_OWN_WORK = 6,       /* none of these: it took that long by itself */
    SC_RT_CAUSES = 7
};

enum sc_rt_event_kind {
    SC_RT_MISS = 1, SC_RT_OVERRUN = 2, SC_RT_SKIPPED = 3, SC_RT_ABORTED = 4, SC_RT_DEGRADED = 5,
    SC_RT_FAILED = 6, SC_RT_STUCK = 7
};

struct sc_rt_event {
    uint64_t time_ns;
    uint32_t task, kind;
    int64_t value;            /* MISS, OVERRUN: ns beyond the bound; SKIPPED: ns since its release;
                               * ABORTED, STUCK: ns that it ran; DEGRADED: periods between releases;
                               * FAILED: the error */
    uint64_t causes;          /* bit i: enum sc_rt_cause i */
};

typedef int sc_rt_work(void *context, uint64_t deadline);

struct sc_rt_task {
    const char *name;
    uint64_t period_ns, offset_ns, budget_ns, deadline_ns;
    uint32_t rank;            /* 0 is the most urgent */
    uint32_t kind, overrun;
    sc_rt_work *work;         /* NULL for external ones */
    void *context;
};

struct sc_rt_entry { uint64_t start_ns, release_ns, deadline_ns; uint32_t task, reserved; };

struct sc_rt_platform {
    uint32_t wanted_class;
    uint32_t priority;        /* of SCHED_FIFO */
    int32_t cpu;              /* -1: any */
    uint32_t lock_memory;
    uint64_t runtime_ns, period_ns;  /* of SCHED_DEADLINE */
    /* Filled in by sc_rt_start: what the thread got, and 0 or -errno for each wish. */
    uint32_t got_class;
    int32_t class_error, affinity_error, lock_error, slack_error;
    int32_t watch_error;      /* of a schedule: no watchdog above the thread */
    uint32_t soft;            /* of a schedule; given: the caller knows a reason already */
};

struct sc_rt_job { uint32_t task, reserved; uint64_t release_ns, deadline_ns, abort_ns; };

typedef struct sc_rt sc_rt;

int sc_rt_create(const char *name, uint32_t policy, const struct sc_rt_task *tasks, uint32_t count,
                 uint64_t cycle_ns, const struct sc_rt_entry *entries, uint32_t entry_count,
                 sc_rt **out);
int sc_rt_start(sc_rt *rt, uint64_t delay_ns, struct sc_rt_platform *platform);
int sc_rt_stop(sc_rt *rt);    /* after this, external waits return SC_CLOSED */
void sc_rt_free(sc_rt *rt);   /* no thread may be inside */
int sc_rt_drain(sc_rt *rt, struct sc_rt_event *out, uint32_t max, uint64_t *lost);
uint64_t sc_rt_heartbeat(sc_rt *rt);

/* For the thread that runs external tasks, and for the one that ends them when they overrun. */
int sc_rt_take(sc_rt *rt, uint64_t deadline, struct sc_rt_job *out);
int sc_rt_done(sc_rt *rt, const struct sc_rt_job *job, int result);
int sc_rt_overdue(sc_rt *rt, uint64_t deadline, struct sc_rt_job *out);

/* Work for native tasks. */
typedef struct sc_rt_outbox sc_rt_outbox;
typedef struct sc_rt_inbox sc_rt_inbox;
int sc_rt_outbox_open(sc_sender *sender, int box, uint64_t bytes_max, sc_rt_outbox **out);
int sc_rt_outbox_put(sc_rt_outbox *outbox, const void *data, uint64_t bytes);
uint64_t sc_rt_outbox_sent(sc_rt_outbox *outbox);
void sc_rt_outbox_free(sc_rt_outbox *outbox);
int sc_rt_send(void *outbox, uint64_t deadline);
int sc_rt_inbox_open(sc_receiver *receiver, uint64_t bytes_max, uint32_t slots, sc_rt_inbox **out);
int sc_rt_inbox_take(sc_rt_inbox *inbox, void *data, uint64_t size, struct sc_message *out);
void sc_rt_inbox_free(sc_rt_inbox *inbox);
int sc_rt_receive(void *inbox, uint64_t deadline);
int sc_rt_decide(void *receiver, uint64_t deadline);
/* A thread that decides for it instead of its own, until it is closed; to be freed before it. */
typedef struct sc_rt_decider sc_rt_decider;
int sc_rt_decider_open(sc_receiver *receiver, struct sc_rt_platform *platform, sc_rt_decider **out);
void sc_rt_decider_free(sc_rt_decider *decider);
int sc_rt_burn(void *wanted, uint64_t deadline);  /* for tests: computes for so long */

/* Measuring: the five steps on one copy, two of schedules, and whole operations, each in a thread of its own that
 * gets the platform asked for. Counts go to `histogram`, SC_HISTOGRAM_WORDS words. */
enum sc_rt_step {
    SC_RT_STEP_WRITE = 0, SC_RT_STEP_FLAG = 1, SC_RT_STEP_DECIDE = 2, SC_RT_STEP_READ = 3,
    SC_RT_STEP_CLEAR = 4,
    SC_RT_STEP_WAKE = 5,      /* how late a sleeping thread comes */
    SC_RT_STEP_TURN = 6       /* what a dispatcher does around a job, and to hand one to Python */
};

struct sc_rt_measure {
    uint32_t step, cold;      /* cold: the lines are not in the cache */
    uint64_t bytes, samples, deadline;
    struct sc_rt_platform platform;
    /* Filled in. */
    uint64_t measured, most_ns;
};

int sc_rt_measure_step(struct sc_rt_measure *m, uint64_t *histogram);

struct sc_rt_worst { uint64_t took_ns, causes; };  /* of one operation; bits as in sc_rt_event */

struct sc_rt_drive {
    int32_t box;
    uint32_t gap_ns;          /* between two sends */
    uint64_t bytes, operations, deadline, bound_ns;
    struct sc_rt_platform platform;
    /* Filled in. */
    uint64_t done, misses, rejected, full, most_ns, error;
    uint64_t causes[7];       /* of misses, by enum sc_rt_cause */
    struct sc_rt_worst worst[4];  /* the longest first, within their bound or not */
};

int sc_rt_drive_send(sc_sender *sender, struct sc_rt_drive *drive, uint64_t *histogram);
int sc_rt_drive_receive(sc_receiver *receiver, struct sc_rt_drive *drive, uint64_t *histogram);
