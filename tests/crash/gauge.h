/* gauge.h: how late each thread of a case was, measured beside the core and without its help.
 *
 * A timed protocol may fail where somebody broke a bound. Whether somebody did is read here: a thread
 * looks at the clock again and again; too long between two looks, or too long asleep beyond its time, and
 * it was late. A thread that stands still while the case ends is found by its last look. What the core
 * itself counts (violations, late rounds, overruns) is noted beside it, see evidence.h.
 */
#ifndef CRASH_GAUGE_H
#define CRASH_GAUGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PULSES_MAX 48

enum lateness { LATE_STALL, LATE_SLEEP, LATE_ROUND, LATE_SEND, LATE_VOTE, LATE_PEER, LATENESSES };
extern const char *const lateness_names[LATENESSES];

struct pulse {
    _Atomic pid_t pid;               /* 0: nobody's */
    _Atomic bool decides;            /* a thread of the core: it has rounds */
    _Atomic uint64_t last;           /* look at the clock; 0: waits for the harness */
    _Atomic uint64_t due;            /* asleep until then; 0: running */
};

struct gauge {
    _Atomic uint64_t allowed_ns;     /* more than this is late; set when the case begins */
    _Atomic uint64_t worst_ns[LATENESSES];
    _Atomic uint64_t allowed_by[LATENESSES];
    _Atomic pid_t worst_pid[LATENESSES];
    struct pulse pulse[PULSES_MAX];
};

extern struct gauge *gauge;          /* NULL: not measured */

void gauge_late(enum lateness what, pid_t who, uint64_t late_ns, uint64_t allowed_ns);
void gauge_look(uint64_t now);       /* this thread runs, and reads the clock */
void gauge_sleep(uint64_t until);    /* UINT64_MAX: no time of its own */
void gauge_wake(uint64_t until);
void gauge_rest(void);               /* it waits for the harness, which has no bounds */
void gauge_is_decider(void);
void gauge_end_thread(void);
void gauge_end_process(void);        /* all its threads, on the way to being killed */
void gauge_read(void);               /* those that stand still now */

#endif
