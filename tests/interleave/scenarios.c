/* scenarios.c: the small cases, by name. The numbers are the smallest that show the matter.
 *
 * Times: eager scenarios move by 1 ns; `crash` and `timing` scenarios by one unit of 1000 ns, with
 * bounds of a few units, and time stands still while anyone who keeps its bounds can run.
 */
#include <stdio.h>
#include <string.h>

#include "cast.h"

#define UNIT 1000u
#define LATE 200000u                                 /* longer than Δs and than any suspicion */

#define EAGER_BOUNDS {.send_ns = 100000, .receive_ns = 100000, .decide_ns = 1000, \
                      .poll_ns = 1000000000, .expiry_ns = 1000000, .hold_ns = 3000000}
#define TIMED_BOUNDS {.send_ns = 4 * UNIT, .receive_ns = 20 * UNIT, .decide_ns = 2 * UNIT,      \
                      .epsilon_ns = UNIT, .poll_ns = 2 * UNIT, .expiry_ns = 14 * UNIT,          \
                      .hold_ns = 100 * UNIT}
#define COMMON .unit_ns = 1, .late_ns = LATE, .buffer = 4, .preemptions = -1, .patience = 9, \
               .grows = true
#define TIMED .unit_ns = UNIT, .late_ns = 30 * UNIT, .buffer = 4, .preemptions = -1, \
              .patience = 60, .exact_time = true
#define EAGER .protocol = SC_EAGER, .mailboxes = 1, .capacity = 2, .bounds = EAGER_BOUNDS

static const struct scenario scenarios[] = {
    {.name = "litmus-sb", .says = "store buffering: both read 0 only with store buffers",
     .options = {COMMON}, .cast = {{SB_STORES}, {SB_STORES}}},
    {.name = "litmus-sb-fences", .says = "store buffering with fences: never both 0",
     .options = {COMMON}, .cast = {{SB_FENCES}, {SB_FENCES}}},
    {.name = "litmus-mp", .says = "message passing with relaxed stores",
     .options = {COMMON}, .cast = {{MP_WRITER}, {MP_READER}}},
    {.name = "litmus-mp-release", .says = "message passing with a release store",
     .options = {COMMON}, .cast = {{MP_WRITER, .messages = 1}, {MP_READER}}},

    {EAGER, .name = "eager-1x2", .says = "one sender, two messages, two receivers, two copies",
     .copies = 2, .options = {COMMON},
     .cast = {{SENDER, 2, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-2x1", .says = "two senders, one message each, two receivers, one copy",
     .copies = 1, .options = {COMMON},
     .cast = {{SENDER, 1, 1}, {SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-2s1r", .says = "two senders, one message each, one receiver, one copy",
     .copies = 1, .options = {COMMON},
     .cast = {{SENDER, 1, 1}, {SENDER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-low", .says = "a sender's next operation begins while a receiver looks at its last",
     .copies = 1, .options = {COMMON, .unit_ns = 1024},
     .cast = {{SENDER, 2, 1}, {SENDER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-2x1x2", .says = "two senders, one message each, two receivers, two copies",
     .copies = 2, .options = {COMMON},
     .cast = {{SENDER, 1, 1}, {SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-crash", .says = "the sender is killed at any step, two receivers",
     .copies = 2, .options = {COMMON, .budget = {.crashes = 1}},
     .cast = {{SENDER, 1, 1, .mortal = true}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-copy", .says = "one sender, two receivers; a copy is truncated at any step",
     .copies = 2, .options = {COMMON, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-copy-1r", .says = "two senders, one receiver; a copy is truncated at any step",
     .copies = 2, .options = {COMMON, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1}, {SENDER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-copy-small", .says = "one sender, one receiver; a copy is truncated at any step",
     .copies = 2, .options = {COMMON, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-tiny", .says = "one sender, one receiver, one copy; the sender may be late, or be killed",
     .copies = 1, .may_reject = true, .options = {COMMON, .budget = {.crashes = 1, .lates = 1}},
     .cast = {{SENDER, 1, 1, .mortal = true}, {RECEIVER}}},
    {EAGER, .name = "eager-three", .says = "one sender, one receiver, three copies",
     .copies = 3, .options = {COMMON}, .cast = {{SENDER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-three-2r", .says = "one sender, two receivers, three copies",
     .copies = 3, .options = {COMMON}, .cast = {{SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-three-copies", .says = "one sender, one receiver, three copies; two are truncated at any steps",
     .copies = 3, .options = {COMMON, .budget = {.copies = 2}},
     .cast = {{SENDER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-poison", .says = "two senders, one receiver; a copy is poisoned at any step",
     .copies = 2, .options = {COMMON, .fault = FAULT_POISON, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1}, {SENDER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-poison-tie", .says = "as before, and a sender's second stamp is ahead of its clock",
     .copies = 2,
     .options = {COMMON, .grows = false, .unit_ns = 2, .fault = FAULT_POISON,
                 .budget = {.copies = 1, .ticks = 1}},
     .cast = {{SENDER, 1, 1}, {SENDER, 2, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-crash-copy", .says = "the sender is killed and a copy fails, at any steps",
     .copies = 2, .options = {COMMON, .budget = {.crashes = 1, .copies = 1}},
     .cast = {{SENDER, 1, 1, .mortal = true}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-late", .says = "the sender is late at any step: it or its receivers win the walk",
     .copies = 2, .may_reject = true, .options = {COMMON, .budget = {.lates = 1}},
     .cast = {{SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-late-2", .says = "a late sender sends again after its rejection",
     .copies = 1, .may_reject = true, .options = {COMMON, .budget = {.lates = 1}},
     .cast = {{SENDER, 2, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-late-2s", .says = "one of two senders is late: its message comes in order or not at all",
     .copies = 1, .may_reject = true, .options = {COMMON, .budget = {.lates = 1}},
     .cast = {{SENDER, 1, 1}, {SENDER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-late-copy", .says = "the sender is late and a copy fails, at any steps",
     .copies = 2, .may_reject = true, .options = {COMMON, .budget = {.lates = 1, .copies = 1}},
     .cast = {{SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-boxes", .says = "two senders to two mailboxes each, a receiver in each",
     .mailboxes = 2, .copies = 1, .options = {COMMON},
     .cast = {{SENDER, 1, 3}, {SENDER, 1, 3}, {RECEIVER, .boxes = 0}, {RECEIVER, .boxes = 1}}},
    {EAGER, .name = "eager-boxes-crash", .says = "a send to two mailboxes is killed at any step",
     .mailboxes = 2, .copies = 1, .options = {COMMON, .budget = {.crashes = 1}},
     .cast = {{SENDER, 1, 3, .mortal = true}, {RECEIVER, .boxes = 0}, {RECEIVER, .boxes = 1}}},
    {EAGER, .name = "eager-sleep", .says = "receivers sleep; no time-out helps a lost wake-up",
     .copies = 1, .sleeps = true, .options = {COMMON, .no_rescue = true},
     .cast = {{SENDER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-full", .says = "capacity 2, three messages: slots are used again",
     .copies = 1, .options = {COMMON},
     .cast = {{SENDER, 3, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-full-2r", .says = "capacity 2, three messages, two receivers, two copies",
     .copies = 2, .options = {COMMON},
     .cast = {{SENDER, 3, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "eager-full-copy", .says = "capacity 2, three messages; a copy fails at any step",
     .copies = 2, .options = {COMMON, .grows = false, .budget = {.copies = 1}},
     .cast = {{SENDER, 3, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-full-dead", .says = "capacity 2: a receiver is killed and must not hold the lane",
     .copies = 1, .options = {COMMON, .budget = {.crashes = 1}},
     .cast = {{SENDER, 3, 1}, {RECEIVER, .mortal = true}, {RECEIVER}}},
    {EAGER, .name = "eager-evict", .says = "a receiver that does not read is evicted",
     .copies = 1, .evict = true, .options = {COMMON, .budget = {.lates = 1}}, .may_reject = true,
     .cast = {{SENDER, 3, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-evict-join", .says = "the place of an evicted receiver is taken by a newcomer",
     .copies = 1, .places = 1, .evict = true, .may_reject = true,
     .options = {COMMON, .unit_ns = 1024, .late_ns = 4000000, .budget = {.lates = 2}},
     .cast = {{SENDER, 5, 1}, {RECEIVER}, {JOINER}}},
    {EAGER, .name = "eager-join", .says = "a receiver joins while messages are sent",
     .copies = 1, .options = {COMMON, .unit_ns = 1024},
     .cast = {{SENDER, 2, 1}, {JOINER}}},
    {EAGER, .name = "eager-join-2", .says = "a receiver joins while another receives",
     .copies = 1, .options = {COMMON, .unit_ns = 1024},
     .cast = {{SENDER, 3, 1}, {JOINER}, {RECEIVER}}},
    {EAGER, .name = "eager-leave", .says = "a receiver leaves while messages are sent",
     .copies = 1, .options = {COMMON, .unit_ns = 1024},
     .cast = {{SENDER, 2, 1}, {LEAVER}, {RECEIVER}}},
    {EAGER, .name = "eager-reclaim", .says = "a sender is killed; another process takes its lane",
     .copies = 1, .options = {COMMON, .budget = {.crashes = 1}},
     .cast = {{CLOSING_SENDER, 1, 1, .mortal = true}, {NEWCOMER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-claims", .says = "two processes open a sender at once",
     .copies = 2, .options = {COMMON},
     .cast = {{NEWCOMER, 1, 1}, {NEWCOMER, 1, 1}, {RECEIVER}}},
    {EAGER, .name = "eager-replace", .says = "a failed copy is replaced while a message is sent",
     .copies = 2, .lost_copy = true, .options = {COMMON},
     .cast = {{SENDER, 1, 1}, {REPLACER}, {RECEIVER}}},
    {EAGER, .name = "eager-replace-copy", .says = "the old copy fails after the new one counts",
     .copies = 2, .lost_copy = true, .options = {COMMON, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1}, {REPLACER}, {RECEIVER}}},

    {EAGER, .name = "random-3x3", .says = "two senders, three messages, two receivers, three copies, faults",
     .copies = 3, .capacity = 4, .may_reject = true,
     .options = {COMMON, .fine = true, .budget = {.crashes = 1, .copies = 2, .ticks = 6, .lates = 1}},
     .cast = {{SENDER, 3, 1, .mortal = true}, {SENDER, 3, 1}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "random-members", .says = "two senders, a receiver, one joins, one leaves; a copy fails",
     .copies = 2, .may_reject = true,
     .options = {COMMON, .unit_ns = 512, .budget = {.copies = 1, .ticks = 6, .lates = 1}},
     .cast = {{SENDER, 3, 1}, {SENDER, 3, 1}, {RECEIVER}, {JOINER}, {LEAVER}}},
    {EAGER, .name = "random-replace", .says = "a copy is replaced under traffic, the old ones may fail",
     .copies = 2, .lost_copy = true, .may_reject = true,
     .options = {COMMON, .budget = {.crashes = 1, .copies = 1, .ticks = 4, .lates = 1}},
     .cast = {{SENDER, 2, 1}, {SENDER, 2, 1, .mortal = true}, {REPLACER}, {RECEIVER}, {RECEIVER}}},
    {EAGER, .name = "random-boxes", .says = "three senders to one or two mailboxes, faults",
     .mailboxes = 2, .copies = 2, .may_reject = true,
     .options = {COMMON, .budget = {.crashes = 1, .copies = 1, .ticks = 6, .lates = 1}},
     .cast = {{SENDER, 2, 3, .mortal = true}, {SENDER, 2, 3}, {SENDER, 2, 2},
              {RECEIVER, .boxes = 0}, {RECEIVER, .boxes = 1}}},

/* For a search to the end: nobody looks more often than it must. Receivers of `crash` sleep until a bell or
 * their time; those of `timing` decide by a schedule, one thread each, in rounds of p, so δd is two of them. */
#define FEW_LOOKS .send_ns = 4 * UNIT, .epsilon_ns = UNIT, .hold_ns = 100 * UNIT
#define FEW_LOOKS_CRASH {FEW_LOOKS, .receive_ns = 20 * UNIT, .decide_ns = 2 * UNIT,            \
                         .poll_ns = 200 * UNIT, .expiry_ns = 14 * UNIT}
#define FEW_LOOKS_TIMING {FEW_LOOKS, .receive_ns = 40 * UNIT, .decide_ns = 8 * UNIT,           \
                          .poll_ns = 4 * UNIT, .expiry_ns = 28 * UNIT}
#define TO_THE_END TIMED, .patience = 12
#define CRASH_END 260 * UNIT
#define TIMING_END 60 * UNIT
#define CRASH .protocol = SC_CRASH, .mailboxes = 1, .capacity = 2, .bounds = TIMED_BOUNDS, .sleeps = true
#define TIMING .protocol = SC_TIMING, .mailboxes = 1, .capacity = 2, .bounds = TIMED_BOUNDS, .sleeps = true
    {CRASH, .name = "crash-1x2", .says = "one sender, two receivers, two copies",
     .copies = 2, .options = {TIMED, .budget = {.ticks = 2}},
     .cast = {{SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {CRASH, .name = "crash-2x2", .says = "two senders, two receivers, one copy",
     .copies = 1, .options = {TIMED, .budget = {.ticks = 1}},
     .cast = {{SENDER, 1, 1}, {SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {CRASH, .name = "crash-killed", .says = "the sender is killed at any step",
     .copies = 2, .options = {TIMED, .budget = {.crashes = 1, .ticks = 1}},
     .cast = {{SENDER, 1, 1, .mortal = true}, {RECEIVER}, {RECEIVER}}},
    {CRASH, .name = "crash-copy", .says = "the sender is killed and a copy fails, at any steps",
     .copies = 2, .options = {TIMED, .budget = {.crashes = 1, .copies = 1}},
     .cast = {{SENDER, 1, 1, .mortal = true}, {RECEIVER}, {RECEIVER}}},
    {CRASH, .name = "crash-fast-receiver", .says = "a receiver's clock is ahead by more than ε: must break",
     .copies = 2, .options = {TIMED, .budget = {.ticks = 2}},
     .cast = {{SENDER, 1, 1}, {RECEIVER, .clock_offset_ns = 8 * UNIT}, {RECEIVER}}},
    {CRASH, .name = "crash-slow-receiver", .says = "a receiver runs late, the sender is killed, a copy fails",
     .copies = 2, .options = {TIMED, .budget = {.crashes = 1, .copies = 1, .lates = 4}},
     .cast = {{SENDER, 1, 1, .mortal = true}, {RECEIVER, .lags = true}, {RECEIVER}}},
    {CRASH, .name = "crash-two", .says = "one sender, two receivers, two copies; few looks",
     .copies = 2, .bounds = FEW_LOOKS_CRASH, .options = {TO_THE_END, .horizon_ns = CRASH_END},
     .cast = {{SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {CRASH, .name = "crash-two-killed", .says = "the sender is killed at any step; few looks",
     .copies = 2, .bounds = FEW_LOOKS_CRASH,
     .options = {TO_THE_END, .horizon_ns = CRASH_END, .budget = {.crashes = 1}},
     .cast = {{SENDER, 1, 1, .mortal = true}, {RECEIVER}, {RECEIVER}}},
    {CRASH, .name = "crash-two-copy", .says = "a copy fails at any step; few looks",
     .copies = 2, .bounds = FEW_LOOKS_CRASH,
     .options = {TO_THE_END, .horizon_ns = CRASH_END, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1}, {RECEIVER}, {RECEIVER}}},
    {CRASH, .name = "crash-split", .says = "the sender is killed and a copy fails, at any steps; two receivers look when its time is over",
     .copies = 2, .bounds = FEW_LOOKS_CRASH,
     .options = {TO_THE_END, .horizon_ns = CRASH_END, .budget = {.crashes = 1, .copies = 1}},
     .cast = {{SENDER, 1, 1, .mortal = true}, {RECEIVER, .begins_ns = 6 * UNIT},
              {RECEIVER, .begins_ns = 6 * UNIT}}},
    {CRASH, .name = "crash-half-two", .says = "the sender dies when one flag of two is set; a copy fails at any step",
     .copies = 2, .bounds = FEW_LOOKS_CRASH,
     .options = {TO_THE_END, .horizon_ns = CRASH_END, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1, .flags = 1}, {RECEIVER, .begins_ns = 6 * UNIT},
              {RECEIVER, .begins_ns = 6 * UNIT}}},
    {CRASH, .name = "crash-half-flagged", .says = "the sender dies when one flag of three is set; two copies fail, at any steps",
     .copies = 3, .bounds = FEW_LOOKS_CRASH,
     .options = {TO_THE_END, .horizon_ns = CRASH_END, .budget = {.copies = 2}},
     .cast = {{SENDER, 1, 1, .flags = 1}, {RECEIVER, .begins_ns = 6 * UNIT},
              {RECEIVER, .begins_ns = 6 * UNIT}}},

#define FOR_TIMING .bounds = FEW_LOOKS_TIMING
#define DECIDER {SCHEDULED, .begins_ns = 9 * UNIT}
    {TIMING, .name = "timing-two", .says = "one sender, two receivers, one copy; decisions in rounds",
     .copies = 1, FOR_TIMING, .options = {TO_THE_END, .horizon_ns = TIMING_END},
     .cast = {{SENDER, 1, 1}, {SCHEDULED}, {SCHEDULED}}},
    {TIMING, .name = "timing-two-killed", .says = "two copies, the sender is killed at any step; two receivers look when its time is over",
     .copies = 2, FOR_TIMING,
     .options = {TO_THE_END, .horizon_ns = TIMING_END, .budget = {.crashes = 1}},
     .cast = {{SENDER, 1, 1, .mortal = true}, DECIDER, DECIDER}},
    {TIMING, .name = "timing-two-copy", .says = "two copies, one fails at any step; two receivers look when the sender's time is over",
     .copies = 2, FOR_TIMING,
     .options = {TO_THE_END, .horizon_ns = TIMING_END, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1}, DECIDER, DECIDER}},
    {TIMING, .name = "timing-one-copy", .says = "one sender, one receiver, two copies, one fails at any step",
     .copies = 2, FOR_TIMING,
     .options = {TO_THE_END, .horizon_ns = TIMING_END, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1}, DECIDER}},
    {TIMING, .name = "timing-half-two", .says = "the sender dies when one flag of two is set; a copy fails at any step",
     .copies = 2, FOR_TIMING,
     .options = {TO_THE_END, .horizon_ns = TIMING_END, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1, .flags = 1}, DECIDER, DECIDER}},
    {TIMING, .name = "timing-three-copies", .says = "one sender, one receiver, three copies, two fail at any steps",
     .copies = 3, FOR_TIMING,
     .options = {TO_THE_END, .horizon_ns = TIMING_END, .budget = {.copies = 2}},
     .cast = {{SENDER, 1, 1}, DECIDER}},
    {TIMING, .name = "timing-threads", .says = "a receiver's two threads, while a lost copy is replaced and the old one fails",
     .copies = 2, .lost_copy = true, FOR_TIMING,
     .options = {TO_THE_END, .horizon_ns = 30 * UNIT, .budget = {.copies = 1}},
     .cast = {{REPLACER}, {RECEIVER}}},
    {TIMING, .name = "timing-threads-send", .says = "the same with a sender: its message is lost to nobody",
     .copies = 2, .lost_copy = true, FOR_TIMING,
     .options = {TO_THE_END, .horizon_ns = 160 * UNIT, .budget = {.copies = 1}},
     .cast = {{SENDER, 1, 1}, {RECEIVER}, {REPLACER}}},
    {TIMING, .name = "timing-three", .says = "three receivers, one copy, the sender is killed at any step; they look when its time is over",
     .copies = 1, FOR_TIMING,
     .options = {TO_THE_END, .horizon_ns = TIMING_END, .budget = {.crashes = 1}},
     .cast = {{SENDER, 1, 1, .mortal = true}, DECIDER, DECIDER, DECIDER}},
    {TIMING, .name = "timing-three-early", .says = "three receivers, one copy, the clock of one is far ahead",
     .copies = 1, FOR_TIMING, .options = {TO_THE_END, .horizon_ns = TIMING_END},
     .cast = {{SENDER, 1, 1}, {SCHEDULED, .clock_offset_ns = 8 * UNIT}, DECIDER, DECIDER}},
    {TIMING, .name = "timing-three-late", .says = "three receivers, one copy, one runs late at any steps",
     .copies = 1, FOR_TIMING,
     .options = {TO_THE_END, .horizon_ns = TIMING_END, .budget = {.lates = 2}},
     .cast = {{SENDER, 1, 1}, {SCHEDULED, .lags = true, .begins_ns = 9 * UNIT}, DECIDER, DECIDER}},
    {TIMING, .name = "timing-1x3", .says = "one sender, three receivers, one copy",
     .copies = 1, .options = {TIMED},
     .cast = {{SENDER, 1, 1}, {RECEIVER}, {RECEIVER}, {RECEIVER}}},
    {TIMING, .name = "timing-early", .says = "one of three receivers has a clock far ahead",
     .copies = 1, .options = {TIMED},
     .cast = {{SENDER, 1, 1}, {RECEIVER, .clock_offset_ns = 8 * UNIT}, {RECEIVER}, {RECEIVER}}},
    {TIMING, .name = "timing-late", .says = "one of three receivers runs late",
     .copies = 1, .options = {TIMED, .budget = {.lates = 6}},
     .cast = {{SENDER, 1, 1}, {RECEIVER, .lags = true}, {RECEIVER}, {RECEIVER}}},
};

#define COUNT (sizeof scenarios / sizeof *scenarios)

const struct scenario *scenario_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (!strcmp(scenarios[i].name, name))
            return &scenarios[i];
    return NULL;
}

void scenarios_list(void)
{
    for (size_t i = 0; i < COUNT; i++)
        printf("%-22s %s\n", scenarios[i].name, scenarios[i].says);
}
