/* memory.c: steps on words that threads share, store buffers, copies that fail.
 *
 * Store buffers. MODEL_SC: none. MODEL_TSO: each thread has a queue of stores; its own loads look
 * there first; a fence and every read-modify-write wait until it is empty; moving the oldest store
 * to memory is a step of its own. MODEL_RELAXED: a relaxed store may also leave before older
 * stores to other words, an ordered (release) store only after all older ones. Loads are never
 * reordered, so a missing acquire is beyond this checker.
 *
 * Sharing. For every word the threads that read and that write it are noted, over all executions
 * of a search; see sched.c for what follows from it.
 *
 * A truncated copy: its contents are gone for everybody; a process notices when it touches one of
 * its mappings, which then is zero pages of its own, where its writes stay (csrc/guard.h). A
 * poisoned copy: its configuration word is zero, everything else works on.
 */
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "layout.h"
#include "sim.h"

#define WORDS (4u << 20 >> 3)
#define CONFIG_AT offsetof(struct segment_header, config)

static uint16_t readers[WORDS], writers[WORDS];
static bool grew, statistics[SEGMENT_BYTES / 8];
uint32_t watched[THREADS_MAX][WATCHED_MAX];

void sharing_forget(void)
{
    memset(readers, 0, sizeof readers);
    memset(writers, 0, sizeof writers);
}

bool sharing_grew(void)
{
    bool answer = grew;
    grew = false;
    return answer;
}

void statistics_are(uint32_t offset, uint32_t bytes)
{
    memset(statistics + offset / 8, true, bytes / 8);
}

static struct { uint32_t from, stride, count; } flags;

void flags_are(uint32_t offset, uint32_t stride, uint32_t count)
{
    flags.from = offset;
    flags.stride = stride;
    flags.count = count;
}

static bool is_flag(uint32_t place)
{
    uint32_t at = (place - SEGMENTS_AT) % SEGMENT_BYTES - flags.from;
    return flags.count && segment_at(place) >= 0 && at % flags.stride == 0 &&
           at / flags.stride < flags.count;
}

static void note(uint32_t place, bool write)
{
    uint16_t bit = (uint16_t)(1u << run.current), *set = write ? writers : readers;
    if (!(set[place / 8] & bit)) {
        set[place / 8] |= bit;
        grew = true;
    }
}

/* Threads that are gone do nothing more that could depend on a step. */
static bool others_write(uint32_t place)
{
    return writers[place / 8] & ~(1u << run.current | run.gone);
}

static bool others_use(uint32_t place, int thread)
{
    return (readers[place / 8] | writers[place / 8]) & ~(1u << thread | run.gone);
}

/* ---- who has read what since its last wait ---- */

void watch(uint32_t place)
{
    struct thread *t = self();
    uint32_t *mine = watched[run.current];
    for (int i = 0; i < t->watched; i++)
        if (mine[i] == place / 8)
            return;
    if (t->watched == WATCHED_MAX)
        t->disturbed = true;                         /* too much to remember: looks again anyway */
    else
        mine[t->watched++] = place / 8;
}

void disturb(uint32_t place, int except)
{
    for (int i = 0; i < run.thread_count; i++)
        for (int w = 0; i != except && w < run.thread[i].watched; w++)
            if (watched[i][w] == place / 8)
                run.thread[i].disturbed = true;
}

struct hash watched_hash(int thread)
{
    struct hash all = {0, 0};
    for (int w = 0; w < run.thread[thread].watched; w++)
        hash_toggle(&all, watched[thread][w], 1);
    return all;
}

/* ---- memory itself ---- */

static uint64_t whole_word(uint32_t place)
{
    uint64_t value;
    memcpy(&value, at_of(place & ~7u), 8);
    return value;
}

uint64_t peek(uint32_t place, unsigned size)
{
    uint64_t value = 0;
    memcpy(&value, at_of(place), size);
    return value;
}

/* Copies that are part of a configuration: one that is being made does not count yet. */
void count_intact(void)
{
    run.intact = 0;
    for (int s = 0; s < SEGMENTS_MAX; s++) {
        uint64_t config = peek(segment_start(s) + CONFIG_AT, 8);
        run.intact += run.segment[s].named && !run.segment[s].failed && seal_ok(config) &&
                  (sealed_value(config) & 127) > run.segment[s].serial;
    }
}

/* In a segment, or in the zero pages that a process has instead. Nothing that anybody does depends on
 * it, so it is no part of the state, and no progress. */
static bool is_statistic(uint32_t place)
{
    return place >= SEGMENTS_AT && place < HEAPS_AT &&
           statistics[(place - SEGMENTS_AT) % SEGMENT_BYTES / 8];
}

void poke(uint32_t place, unsigned size, uint64_t value)
{
    uint64_t before = whole_word(place);
    memcpy(at_of(place), &value, size);
    uint64_t after = whole_word(place);
    if (before == after)
        return;
    if (segment_at(place) >= 0 && (place & ~7u) % SEGMENT_BYTES == (SEGMENTS_AT + CONFIG_AT) % SEGMENT_BYTES)
        count_intact();
    if (!is_statistic(place)) {
        hash_toggle(&run.memory, place & ~7u, before);
        hash_toggle(&run.memory, place & ~7u, after);
        run.changes++;
    }
    disturb(place, run.current);
}

/* ---- where an address leads ---- */

static bool is_plain(uint32_t place)
{
    int owner = heap_owner(place);
    return run.direct || (owner >= 0 && !run.process[owner].threaded);
}

static uint64_t *global_of(const volatile void *at)
{
    struct process *p = &run.process[self_process()];
    if (at == (const volatile void *)&guard_faults)
        return &p->faults;
    for (int i = 0; i < p->global_count; i++)
        if (p->global[i].at == at)
            return &p->global[i].value;
    if (p->global_count == GLOBALS_MAX)
        abort();
    p->global[p->global_count].at = at;
    return &p->global[p->global_count++].value;
}

/* The mapping of the running process that covers the place, or -1. */
static int mapping_of(uint32_t place, int segment)
{
    const struct process *p = &run.process[self_process()];
    uint32_t offset = place - segment_start(segment);
    for (int m = 0; m < p->mapping_count; m++)
        if (p->mapping[m].used && p->mapping[m].segment == segment &&
            offset >= p->mapping[m].from && offset < p->mapping[m].to)
            return m;
    return -1;
}

/* Zero pages that are this process's own. */
static bool is_private(uint32_t place)
{
    int segment = segment_at(place);
    if (segment < 0 || !run.process[self_process()].lost_any)
        return false;
    int m = mapping_of(place, segment);
    return m < 0 || run.process[self_process()].mapping[m].lost;
}

static uint32_t translate(uint32_t place)
{
    int segment = segment_at(place);
    struct process *p = &run.process[self_process()];
    if (segment < 0 || (!run.segment[segment].failed && !p->lost_any))
        return place;
    int m = mapping_of(place, segment);
    if (m >= 0 && run.segment[segment].failed && !p->mapping[m].lost) {
        p->mapping[m].lost = p->lost_any = true;
        p->faults++;
        tell("SIGBUS: zero pages instead of copy %d", segment);
    }
    if (m >= 0 && !p->mapping[m].lost)
        return place;
    return place - segment_start(segment) + private_start(self_process(), segment);
}

void fail_segment(int segment)
{
    uint32_t start = segment_start(segment);
    run.segment[segment].failed = true;
    count_intact();
    for (uint32_t at = 0; at < run.segment[segment].bytes; at += 8)
        if (whole_word(start + at)) {
            poke(start + at, 8, 0);
            disturb(start + at, NOBODY);
        }
    run.changes++;
}

/* Just before a step on a copy: does it fail? */
static void maybe_fail(uint32_t place)
{
    int segment = segment_at(place);
    if (!run.budget.copies || segment < 0 || run.segment[segment].failed ||
        !run.segment[segment].named || run.intact < 2)
        return;
    uint32_t config = segment_start(segment) + CONFIG_AT;
    if (options.fault == FAULT_POISON && ((place & ~7u) != config || peek(config, 8) == 0))
        return;
    bool fails = choose(CHOOSE_FAULT, NULL, 2);
    record_fault(fails);
    if (!fails)
        return;
    run.budget.copies--;
    tell(options.fault == FAULT_POISON ? "-- copy %d is poisoned" : "-- copy %d is truncated",
         segment);
    if (options.fault == FAULT_POISON) {
        poke(config, 8, 0);
        disturb(config, NOBODY);
    } else
        fail_segment(segment);
}

/* ---- store buffers ---- */

static const struct pending *youngest(const struct thread *t, uint32_t place)
{
    for (int e = t->buffered - 1; e >= 0; e--)
        if (t->buffer[e].place == place)
            return &t->buffer[e];
    return NULL;
}

bool may_flush(const struct thread *t, int entry)
{
    if (entry == 0)
        return true;
    if (options.model != MODEL_RELAXED || t->buffer[entry].ordered)
        return false;
    for (int e = 0; e < entry; e++)
        if (t->buffer[e].place / 8 == t->buffer[entry].place / 8)
            return false;
    return true;
}

bool flush_is_private(int thread, int entry)
{
    const struct pending *first = &run.thread[thread].buffer[entry];
    for (int i = 0; i <= first->more; i++)
        if (exposed || others_use(first[i].place, thread))
            return false;
    return true;
}

static void flush_one(int thread, int entry)
{
    struct thread *t = &run.thread[thread];
    struct pending one = t->buffer[entry];
    uint8_t before = run.current;
    memmove(&t->buffer[entry], &t->buffer[entry + 1],
            (size_t)(--t->buffered - entry) * sizeof one);
    run.current = (uint8_t)thread;
    int segment = segment_at(one.place);
    if (segment < 0 || !run.segment[segment].failed) {
        tell_step("visible", one.place, one.size, one.value, others_use(one.place, thread));
        poke(one.place, one.size, one.value);
    }
    run.current = before;
}

/* A block that was copied as one step leaves as one, unless words may overtake each other. */
void flush_entry(int thread, int entry)
{
    int more = options.model == MODEL_TSO ? run.thread[thread].buffer[entry].more : 0;
    record((struct option){FLUSH, (uint8_t)thread, (uint8_t)entry, 0});
    for (int i = 0; i <= more; i++)
        flush_one(thread, entry);
}

static void push(uint32_t place, unsigned size, uint64_t value, bool ordered, int more)
{
    struct thread *t = self();
    if (t->buffered == BUFFER_MAX)
        abort();
    t->buffer[t->buffered++] = (struct pending){place, (uint8_t)size, (uint8_t)more, ordered, value};
}

static void await_room(int needs)
{
    struct thread *t = self();
    int room = options.buffer > needs ? options.buffer : needs;
    t->needs = (uint8_t)needs;
    if (t->buffered + needs > room)
        step_point(true, AT_FULL_BUFFER, false);
}

/* ---- steps ---- */

static uint64_t load_now(uint32_t place, unsigned size, bool visible)
{
    uint32_t where = translate(place);
    const struct pending *own = youngest(self(), where);
    uint64_t value = own ? own->value : peek(where, size);
    count_step();
    if (where == place && (exposed || others_write(place) || options.budget.copies))
        watch(place);
    tell_step("load", place, size, value, visible);
    return value;
}

uint64_t step_load(const volatile void *at, unsigned size)
{
    if (!in_world(at))
        return *global_of(at);
    uint32_t place = place_of(at);
    if (is_plain(place))
        return peek(place, size);
    bool visible = false;
    if (!is_private(place)) {
        note(place, false);
        visible = others_write(place) && !youngest(self(), place);
        step_point(visible, AT_LOAD, false);
        maybe_fail(place);
    }
    return load_now(place, size, visible);
}

static void store_now(uint32_t place, unsigned size, uint64_t value, bool ordered, int more,
                      bool visible)
{
    uint32_t where = translate(place);
    count_step();
    tell_step("store", place, size, value, visible);
    if (options.model == MODEL_SC || where != place)
        poke(where, size, value);
    else
        push(place, size, value, ordered, more);
}

void step_store(volatile void *at, unsigned size, uint64_t value, enum step_order order)
{
    if (!in_world(at)) {
        *global_of(at) = value;
        return;
    }
    uint32_t place = place_of(at);
    if (is_plain(place)) {
        memcpy(at_of(place), &value, size);
        return;
    }
    bool visible = false;
    if (!is_private(place)) {
        note(place, true);
        visible = others_use(place, run.current);
        if (options.model != MODEL_SC)
            await_room(1);
        else
            step_point(visible, AT_STORE, false);
        maybe_fail(place);
    }
    store_now(place, size, value, order == STEP_ORDERED, 0, visible);
    struct process *p = &run.process[self_process()];
    if (p->flags_left && is_flag(place) && --p->flags_left == 0)
        die_here();
}

/* Everything before the change of a read-modify-write; returns the place to change. */
static uint32_t enter_rmw(uint32_t place, bool *visible)
{
    *visible = false;
    if (is_private(place))
        return translate(place);
    note(place, true);
    note(place, false);
    *visible = others_use(place, run.current);
    step_point(*visible || self()->buffered, AT_RMW, true);
    maybe_fail(place);
    return translate(place);
}

bool step_cas(volatile void *at, unsigned size, uint64_t *expected, uint64_t desired)
{
    bool visible = false, global = !in_world(at);
    uint32_t place = global ? 0 : place_of(at);
    uint64_t *word = global ? global_of(at) : NULL;
    bool plain = global || is_plain(place);
    uint32_t where = plain ? place : enter_rmw(place, &visible);
    uint64_t found = global ? *word : peek(where, size);
    bool done = found == *expected;
    *expected = found;
    if (done && global)
        *word = desired;
    else if (done && plain)
        memcpy(at_of(place), &desired, size);
    else if (done)
        poke(where, size, desired);
    if (!plain) {
        count_step();
        if (!done && where == place)
            watch(place);
        tell_step(done ? "cas" : "cas failed:", place, size, done ? desired : found, visible);
    }
    return done;
}

static uint64_t changed(uint64_t value, enum fetch_kind kind, uint64_t by)
{
    return kind == FETCH_OR ? value | by : kind == FETCH_ADD ? value + by : by;
}

uint64_t step_fetch(volatile void *at, unsigned size, enum fetch_kind kind, uint64_t by)
{
    if (!in_world(at)) {
        uint64_t *word = global_of(at), before = *word;
        *word = changed(before, kind, by);
        return before;
    }
    bool visible = false;
    uint32_t place = place_of(at);
    bool plain = is_plain(place);
    uint32_t where = plain ? place : enter_rmw(place, &visible);
    uint64_t before = peek(where, size), after = changed(before, kind, by);
    if (plain) {
        memcpy(at_of(place), &after, size);
    } else {
        poke(where, size, after);
        count_step();
        tell_step("rmw", place, size, after, visible);
    }
    return before;
}

void step_fence(void)
{
    if (!run.direct && self()->buffered)
        step_point(true, AT_FENCE, true);
}

void step_spin(void)
{
    if (run.direct)
        run.now += options.unit_ns;
    else
        wait_here(SPINNING);
}

void touch_pseudo(uint32_t place, bool write)
{
    if (run.direct)
        return;
    note(place, write);
    step_point(write ? others_use(place, run.current) : others_write(place),
               write ? AT_STORE : AT_LOAD, false);
    count_step();
}

/* ---- blocks ---- */

static unsigned piece(uint32_t place, size_t left)
{
    return place % 8 == 0 && left >= 8 ? 8 : place % 4 == 0 && left >= 4 ? 4 : 1;
}

void step_copy_out(void *to, const void *from, size_t bytes)
{
    uint32_t place = in_world(from) ? place_of(from) : 0;
    if (!place || is_plain(place)) {
        memcpy(to, from, bytes);
        return;
    }
    bool visible = false;
    for (size_t i = 0; i < bytes && !is_private(place); i += piece(place + (uint32_t)i, bytes - i)) {
        note(place + (uint32_t)i, false);
        visible = visible || (others_write(place + (uint32_t)i) &&
                              !youngest(self(), place + (uint32_t)i));
    }
    for (size_t i = 0, n; i < bytes; i += n) {
        uint32_t at = place + (uint32_t)i;
        n = piece(at, bytes - i);
        if ((i == 0 || options.fine) && !is_private(at))
            step_point(visible, AT_LOAD, false);
        if ((i == 0 || options.fine) && !is_private(at))
            maybe_fail(at);
        uint64_t value = load_now(at, (unsigned)n, visible);
        memcpy((char *)to + i, &value, n);
    }
}

void step_copy_in(void *to, const void *from, size_t bytes)
{
    uint32_t place = in_world(to) ? place_of(to) : 0;
    if (!place || is_plain(place)) {
        memcpy(to, from, bytes);
        return;
    }
    bool visible = false;
    int words = 0;
    for (size_t i = 0; i < bytes; i += piece(place + (uint32_t)i, bytes - i), words++)
        if (!is_private(place)) {
            note(place + (uint32_t)i, true);
            visible = visible || others_use(place + (uint32_t)i, run.current);
        }
    for (size_t i = 0, n; i < bytes; i += n, words--) {
        uint32_t at = place + (uint32_t)i;
        uint64_t value = 0;
        n = piece(at, bytes - i);
        bool first = i == 0 || options.fine;
        if (first && !is_private(at)) {
            if (options.model != MODEL_SC)
                await_room(options.fine ? 1 : words);
            else
                step_point(visible, AT_STORE, false);
            maybe_fail(at);
        }
        memcpy(&value, (const char *)from + i, n);
        store_now(at, (unsigned)n, value, false, i == 0 && !options.fine ? words - 1 : 0, visible);
    }
}

void *sim_memcpy(void *to, const void *from, size_t bytes);
void *sim_memcpy(void *to, const void *from, size_t bytes)
{
    unsigned char between[512];
    if (bytes > sizeof between) {
        memcpy(to, from, bytes);
        return to;
    }
    step_copy_out(between, from, bytes);
    step_copy_in(to, between, bytes);
    return to;
}
