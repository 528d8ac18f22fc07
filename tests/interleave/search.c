/* search.c: all choices, depth first, every state once.
 *
 * An execution is a sequence of choices. The next one repeats the last up to its last choice that
 * has an untried alternative, takes that, and goes on with first alternatives. At every choice of
 * a thread the state is looked up: one that was met before has been searched, or is being
 * searched, from there on.
 *
 * A state is hashed to 128 bits: memory, store buffers, time, budgets, the heap of each process and
 * the live stack of each thread. Two states are taken for one by accident with a probability below
 * 1e-20 for a hundred million states.
 *
 * Who shares which word is learnt (sched.c): some random executions first; when the search itself
 * finds a new sharer, it begins anew with that knowledge.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

#define OUTCOMES_MAX 1024
#define LEARNING_RUNS 1500
#define FIRST_TABLE (UINT64_C(1) << 16)

struct trail trail;
enum search_mode mode;
static struct hash *table;
static uint64_t table_size, table_used, made;

uint64_t choices_made(void) { return made; }

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void table_make(uint64_t size)
{
    table = calloc(size, sizeof *table);
    if (!table)
        abort();
    table_size = size;
    table_used = 0;
}

static void table_clear(void)
{
    free(table);
    table_make(FIRST_TABLE);
}

static bool insert(struct hash state)
{
    for (uint64_t i = state.a;; i++) {
        struct hash *entry = &table[i & (table_size - 1)];
        if (!entry->a && !entry->b) {
            *entry = state;
            table_used++;
            return true;
        }
        if (entry->a == state.a && entry->b == state.b)
            return false;
    }
}

/* The table grows with the search, so that several fit into one machine. */
static void table_grow(void)
{
    struct hash *old = table;
    uint64_t size = table_size;
    table_make(size * 2);
    for (uint64_t i = 0; i < size; i++)
        if (old[i].a || old[i].b)
            insert(old[i]);
    free(old);
}

bool visit(struct hash state)
{
    if (!state.a && !state.b)
        state.a = 1;
    if (table_used >= table_size / 3 * 2)
        table_grow();
    return insert(state);
}

int choose(enum choice_kind kind, const struct option *offered, int count)
{
    uint64_t at = run.choices;
    if (mode == SEARCH_ALL && kind == CHOOSE_THREAD)
        checkpoint_take();
    run.choices++;
    if (at < trail.length) {
        if (trail.chosen[at] >= count)
            trail.chosen[at] = 0;                    /* only while a trail is being shortened */
        trail.count[at] = (uint8_t)count;
        return trail.chosen[at];
    }
    made++;
    int chosen = 0;
    if (mode == SEARCH_RANDOM)
        chosen = random_choice(kind, offered, count);
    if (mode == SEARCH_GUIDED)
        chosen = kind == CHOOSE_FAULT ? guide_fault() : guide(offered, count);
    if (mode == SEARCH_ALL && kind == CHOOSE_THREAD && !visit(state_hash())) {
        run.pruned = run.over = true;
        return 0;
    }
    if (at >= TRAIL_MAX) {
        violated("bounded time: more than %d choices", TRAIL_MAX);
        return 0;
    }
    trail.chosen[at] = (uint8_t)chosen;
    trail.count[at] = (uint8_t)count;
    trail.length = (uint32_t)at + 1;
    return chosen;
}

bool run_once(void)
{
    execute();
    if (!run.pruned && !violation[0])
        properties_check();
    return !violation[0];
}

static bool next_trail(void)
{
    while (trail.length && trail.chosen[trail.length - 1] + 1 == trail.count[trail.length - 1])
        trail.length--;
    if (!trail.length)
        return false;
    trail.chosen[trail.length - 1]++;
    return true;
}

/* Which ends were met. The set, and so its sum, is the same however the search gets there. */
static void note_outcome(struct result *result)
{
    static struct hash met[OUTCOMES_MAX];
    struct hash now = outcome_hash();
    for (uint64_t i = 0; i < result->outcomes; i++)
        if (met[i].a == now.a && met[i].b == now.b)
            return;
    if (result->outcomes == OUTCOMES_MAX)
        return;
    met[result->outcomes++] = now;
    result->outcome.a += now.a;
    result->outcome.b += now.b;
}

/* One pass with what is known of sharing. True if more has been learnt. */
static bool pass(const struct limits *limits, double deadline, struct result *result)
{
    table_clear();
    trail.length = 0;
    checkpoint_forget();
    made = 0;
    result->executions = result->steps = result->longest = 0;
    result->outcomes = 0;
    result->outcome = (struct hash){0, 0};
    do {
        bool held = run_once();
        result->executions++;
        result->steps += run.steps;
        if (run.steps > result->longest)
            result->longest = run.steps;
        if (!held) {
            result->violated = true;
            return false;
        }
        if (!run.pruned)
            note_outcome(result);
        if (sharing_grew())
            return true;
        if (table_used >= limits->states)
            result->stopped_by = "limit of states";
        else if (result->executions % 64 == 0 && seconds_now() > deadline)
            result->stopped_by = "limit of time";
    } while (!result->stopped_by && next_trail());
    return false;
}

void search_all(const struct limits *limits, struct result *result)
{
    double began = seconds_now();
    *result = (struct result){0};
    struct limits learning = {.seconds = limits->seconds / 10, .states = LEARNING_RUNS, .seed = 1};
    search_random(&learning, result);
    mode = SEARCH_ALL;
    sharing_grew();
    result->stopped_by = NULL;
    while (!result->violated && !result->stopped_by &&
           pass(limits, began + limits->seconds, result))
        result->restarts++;
    result->exhausted = !result->violated && !result->stopped_by;
    result->states = table_used;
    result->transitions = made;
    result->seconds = seconds_now() - began;
    memcpy(result->violation, violation, sizeof violation);
}
