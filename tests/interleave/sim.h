/* sim.h: the simulated world, and one execution in it.
 *
 *   world      segments, private pages, heaps and stacks of all simulated processes, in one region
 *              at a fixed address, so that an execution can be begun again from the same bytes
 *   run        everything else that an execution changes; copied as a whole at its beginning
 *   process    what the core calls a process: identity, heap, mappings, globals of its own
 *   thread     a coroutine of a process; it runs until its next step that others can notice
 *
 * Files: world.c (region, beginnings), sched.c (coroutines, who may go on), memory.c (steps on
 * words, store buffers, faults), fake_sys.c and fake_segment.c (instead of csrc's), search.c and
 * random.c (which choice next), trail.c (schedules as strings, shortening), story.c (printing),
 * roles.c and scenarios.c (what is run), properties.c (what must hold), litmus.c, main.c.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCESSES_MAX 6                              /* the last one only makes the domain */
#define HOST (PROCESSES_MAX - 1)
#define THREADS_MAX 10
#define SEGMENTS_MAX 6
#define SEGMENT_BYTES 32768u
#define HEAP_BYTES (256u << 10)
#define STACK_BYTES (64u << 10)
#define MAPPINGS_MAX 40
#define WATCHED_MAX 400
#define BUFFER_MAX 24
#define GLOBALS_MAX 12
#define LOCKS_MAX 4
#define EVENTS_MAX 16
#define NOBODY 255
#define START_NS 1000000000u
#define APP_BYTES 2048u                              /* of a heap: what the application saw */

struct hash { uint64_t a, b; };

/* ---- what a scenario may vary ---- */

enum memory_model { MODEL_SC, MODEL_TSO, MODEL_RELAXED };
enum fault_kind { FAULT_TRUNCATE, FAULT_POISON };

struct budget {
    uint8_t crashes, copies, ticks, lates;
};

struct options {
    enum memory_model model;
    enum fault_kind fault;
    struct budget budget;
    bool fine;                                       /* copied blocks word by word */
    bool grows;                                      /* the first clock step of a send takes a unit */
    bool no_rescue;                                  /* a sleep of p or longer ends only by a wake-up */
    bool exact_time;                                 /* time stands still while anyone can run ... */
    bool laggards;                                   /* ... but a laggard, as often as `lates` says */
    int buffer;                                      /* stores that a buffer holds */
    int preemptions;                                 /* -1: any number */
    uint64_t unit_ns, late_ns;
    int patience;                                    /* moves of time without effect before the end */
    uint64_t horizon_ns;                             /* or: the end, whatever happens; 0: none */
};

/* ---- one execution ---- */

enum status { READY, AT_STEP, SPINNING, SLEEPING, IN_FUTEX, JOINING, ENDED, KILLED };
enum step_kind { AT_LOAD, AT_STORE, AT_RMW, AT_FENCE, AT_CLOCK, AT_FULL_BUFFER, AT_LIVENESS,
                 AT_FUTEX_WAIT, AT_FUTEX_WAKE, AT_LOCK };

struct pending { uint32_t place; uint8_t size, more; bool ordered; uint64_t value; };

struct thread {
    uint8_t status, process, step;
    bool drains;                                     /* the step needs an empty store buffer */
    bool woken, reads_clock, rescued, hurried;       /* hurried: goes on because time was moved */
    bool disturbed;                                  /* a word that it has read has changed since */
    bool moved;                                      /* since `stack` was computed */
    void *sp;
    void *(*entry)(void *);
    void *argument;
    uint64_t until, clock_seen;
    uint8_t clock_repeats;                           /* the same time read, without waiting */
    uint32_t bell;
    uint8_t join, needs;                             /* needs: room in the store buffer */
    struct hash stack;
    int watched, buffered;
    struct pending buffer[BUFFER_MAX];
};

enum event_kind { EVENT_SENT, EVENT_DELIVERED, EVENT_JOINED, EVENT_LEFT, EVENT_ENDED };

/* What the application of a process saw. Lies in its heap, so it is part of its local state. */
struct event {
    uint8_t kind;
    int rc;
    uint64_t boxes, payload, timestamp, sender;
    uint64_t members;                                /* processes that had joined before the send */
};

struct process {
    bool dead, threaded, mortal, lags, lost_any;
    bool stamping;                                   /* a send has begun, its clock not been read */
    bool moved;                                      /* since `heap` was computed */
    struct hash heap;
    uint8_t flags_left;                              /* dies when it has set the last of these */
    uint8_t threads, running;                        /* running: not ended, not killed */
    uint32_t heap_used;
    uint64_t faults;
    int mapping_count;
    struct { uint8_t segment; bool lost, used; uint32_t from, to; } mapping[MAPPINGS_MAX];
    int global_count;
    struct { const volatile void *at; uint64_t value; } global[GLOBALS_MAX];
    struct { const void *at; uint8_t owner, depth; } lock[LOCKS_MAX];
};

struct segment { bool exists, named, failed; uint64_t serial; uint32_t bytes; };

struct execution {
    uint64_t now;
    struct budget budget;
    bool direct;                                     /* no scheduling: set-up and epilogue */
    uint8_t current, last;
    uint16_t gone;                                   /* threads that will never step again */
    int thread_count, preemptions, stall;
    uint32_t recorded;                               /* see record.c */
    uint64_t steps, choices, changes, changes_seen;
    int intact;                                      /* copies that count and have not failed */
    struct hash memory;
    bool pruned, over;
    struct segment segment[SEGMENTS_MAX];
    struct process process[PROCESSES_MAX];
    struct thread thread[THREADS_MAX];               /* last: only those in use are restored */
};

extern struct execution run;
extern struct options options;
extern char violation[512];                          /* empty: none */
extern const char *wanted;                           /* the property to be broken; NULL: any */

static inline struct thread *self(void) { return &run.thread[run.current]; }
static inline int self_process(void) { return run.direct ? run.current : self()->process; }

/* ---- world.c: a place is a number of bytes from the start of the region ----
 *
 *   | pseudo words | segments | private pages per process and segment | heaps | stacks |
 */
#define WORLD_AT UINT64_C(0x200000000000)
#define PAGE 4096u
#define SEGMENTS_AT PAGE
#define PRIVATE_AT (SEGMENTS_AT + SEGMENTS_MAX * SEGMENT_BYTES)
#define HEAPS_AT (PRIVATE_AT + PROCESSES_MAX * SEGMENTS_MAX * SEGMENT_BYTES)
#define STACKS_AT (HEAPS_AT + PROCESSES_MAX * HEAP_BYTES)
#define WORLD_BYTES (STACKS_AT + THREADS_MAX * STACK_BYTES)

static inline bool in_world(const volatile void *at)
{
    return (uintptr_t)at - WORLD_AT < WORLD_BYTES;
}
static inline uint32_t place_of(const volatile void *at)
{
    return (uint32_t)((uintptr_t)at - WORLD_AT);
}
static inline unsigned char *at_of(uint32_t place) { return (unsigned char *)WORLD_AT + place; }
static inline uint32_t segment_start(int segment)
{
    return SEGMENTS_AT + (uint32_t)segment * SEGMENT_BYTES;
}
static inline int segment_at(uint32_t place)         /* or -1 */
{
    return place - SEGMENTS_AT < PRIVATE_AT - SEGMENTS_AT
               ? (int)((place - SEGMENTS_AT) / SEGMENT_BYTES) : -1;
}
static inline uint32_t private_start(int process, int segment)
{
    return PRIVATE_AT + ((uint32_t)process * SEGMENTS_MAX + (uint32_t)segment) * SEGMENT_BYTES;
}
static inline unsigned char *heap_of(int process)
{
    return at_of(HEAPS_AT + (uint32_t)process * HEAP_BYTES);
}
static inline unsigned char *stack_top(int thread)
{
    return at_of(STACKS_AT + ((uint32_t)thread + 1) * STACK_BYTES);
}
static inline int heap_owner(uint32_t place)         /* process whose heap or stack, or -1 */
{
    if (place >= STACKS_AT)
        return run.thread[(place - STACKS_AT) / STACK_BYTES].process;
    return place >= HEAPS_AT ? (int)((place - HEAPS_AT) / HEAP_BYTES) : -1;
}

void world_make(void);
void world_keep(void);                               /* the beginning of every execution */
void world_begin(void);
void checkpoint_take(void);                          /* in the scheduler only */
void checkpoint_forget(void);
bool checkpoint_resume(uint64_t choices);            /* the last one before that many choices */
struct hash heap_hash(int process);                  /* of what matters and is not as in the beginning */
struct hash stack_hash(int thread);
void figures_are(const void *at, size_t bytes);      /* in a heap: no part of the state */

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}
static inline void hash_add(struct hash *h, uint64_t value)
{
    h->a = mix(h->a * UINT64_C(0x9e3779b97f4a7c15) + value);
    h->b = (h->b ^ value) * UINT64_C(0xc2b2ae3d27d4eb4f);
    h->b ^= h->b >> 29;
}
/* A set of (place, value): adding and taking away are the same. */
static inline void hash_toggle(struct hash *h, uint64_t place, uint64_t value)
{
    uint64_t one = mix(value + (place + 1) * UINT64_C(0x9e3779b97f4a7c15));
    h->a ^= one;
    h->b ^= (one ^ (place + 7) * UINT64_C(0x51ed270b7a1d5cc3)) * UINT64_C(0xc2b2ae3d27d4eb4f);
}

/* ---- sched.c ---- */
int thread_new(int process, void *(*entry)(void *), void *argument);
void die_here(void) __attribute__((noreturn));
void thread_cancel(int thread);                      /* one that has not begun */
void park(enum step_kind step, bool drains);
void wait_here(enum status how);
void execute(void);
struct hash state_hash(void);
void count_step(void);
void violated(const char *format, ...) __attribute__((format(printf, 1, 2)));
void leave_execution(void) __attribute__((noreturn));

/* ---- memory.c ---- */
void sharing_forget(void);
bool sharing_grew(void);                             /* since the last call */
void flags_are(uint32_t offset, uint32_t stride, uint32_t count); /* a-flags, in each segment */
void statistics_are(uint32_t offset, uint32_t bytes); /* in each segment: no progress */
void disturb(uint32_t place, int except);            /* whoever has read it must look again */
void watch(uint32_t place);
struct hash watched_hash(int thread);
void count_intact(void);
extern uint32_t watched[THREADS_MAX][WATCHED_MAX];   /* words read since the last wait */
void flush_entry(int thread, int entry);
bool may_flush(const struct thread *t, int entry);
bool flush_is_private(int thread, int entry);
void touch_pseudo(uint32_t place, bool write);       /* a step on something else than memory */
uint64_t peek(uint32_t place, unsigned size);
void poke(uint32_t place, unsigned size, uint64_t value);
void fail_segment(int segment);
#define LIVENESS_PLACE(process) ((uint32_t)(8 * (process)))   /* the first page is for these */
#define LOCK_PLACE(process, lock) ((uint32_t)(1024 + 64 * (process) + 8 * (lock)))
#define REGISTRY_PLACE ((uint32_t)512)
#define CLOCK_PLACE ((uint32_t)520)
#define LITMUS_PLACE(word) ((uint32_t)(2048 + 8 * (word)))

/* ---- the search ---- */
enum choice_kind { CHOOSE_THREAD, CHOOSE_FAULT };
struct option {
    enum { RUN, FLUSH, CRASH, ADVANCE } what;
    uint8_t who, entry;
    uint64_t advance;
};
int choose(enum choice_kind kind, const struct option *offered, int count);

enum search_mode { SEARCH_ALL, SEARCH_RANDOM, SEARCH_REPLAY, SEARCH_GUIDED };
#define TRAIL_MAX 20000
struct trail {
    uint32_t length;
    uint8_t chosen[TRAIL_MAX], count[TRAIL_MAX];
};
extern struct trail trail;
extern enum search_mode mode;

struct limits { uint64_t states; double seconds; uint64_t seed; };
struct result {
    uint64_t states, transitions, executions, steps, longest;
    uint64_t outcomes;                               /* different ends; at most OUTCOMES_MAX */
    struct hash outcome;                             /* their sum */
    int restarts;
    double seconds;
    bool exhausted, violated, told;                  /* told: the last execution is the exposed one */
    const char *stopped_by;
    char violation[512];
};
void search_all(const struct limits *limits, struct result *result);
void search_random(const struct limits *limits, struct result *result);
bool visit(struct hash state);                       /* search.c: false if it was visited before */
int random_choice(enum choice_kind kind, const struct option *offered, int count);
double seconds_now(void);
bool run_once(void);                                 /* execute and check: true if all held */

/* ---- record.c: an execution as its steps, whatever was a choice ---- */
extern bool exposed;                                 /* every step on shared words is a choice */
void record(struct option what);
void record_fault(bool fails);
int guide(const struct option *offered, int count);
bool guide_fault(void);
bool trail_expose(void);                             /* the last execution, with `exposed` */
void step_point(bool visible, enum step_kind step, bool drains);

void trail_shorten(void);
void trail_print(char *out, size_t size);
bool trail_parse(const char *text);
uint64_t choices_made(void);                         /* new ones, over all executions */

/* ---- scenarios.c, roles.c, properties.c ---- */
void properties_check(void);                         /* after an execution that ran to its end */
struct hash outcome_hash(void);                      /* what everybody saw, at its end */

/* ---- story.c ---- */
extern bool telling, telling_all;
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tell_step(const char *verb, uint32_t place, unsigned size, uint64_t value, bool visible);
void tell_heading(void);

#endif
