/* random.c: single executions, chosen at random, for cases too large to search.
 *
 * Three ways in turn: any thread at any step; mostly the same thread as before; priorities that
 * change at few random steps, which finds a bug that needs d changes with a known probability
 * (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs").
 * Faults and moves of time are rare, so that most executions get past their beginning.
 */
#include <string.h>

#include "sim.h"

#define CHANGES 3
#define RARE 40                                      /* once in so many choices */

static uint64_t random_state;
static int way;
static uint64_t usual_length = 200, change_at[CHANGES];
static uint8_t priority[THREADS_MAX];

static uint64_t draw(uint64_t below)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = random_state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % below;
}

static void prepare(uint64_t index)
{
    way = (int)(index % 3);
    for (int i = 0; i < THREADS_MAX; i++)
        priority[i] = (uint8_t)(10 + draw(100));
    for (int i = 0; i < CHANGES; i++)
        change_at[i] = draw(usual_length);
}

static bool is_usual(const struct option *o)
{
    return o->what == FLUSH || (o->what == RUN && !o->advance);
}

static int by_priority(const struct option *offered, int count)
{
    int best = 0;
    for (int i = 0; i < CHANGES; i++)
        if (run.choices == change_at[i])
            priority[run.last] = (uint8_t)i;
    for (int i = 1; i < count; i++)
        if (is_usual(&offered[i]) && priority[offered[i].who] > priority[offered[best].who])
            best = i;
    return best;
}

int random_choice(enum choice_kind kind, const struct option *offered, int count)
{
    if (kind == CHOOSE_FAULT)
        return draw(RARE * 2) == 0;
    int usual = 0;
    while (usual < count && is_usual(&offered[usual]))
        usual++;
    if (usual == 0)
        return draw(4) ? 0 : (int)draw((uint64_t)count);
    if (usual < count && draw(RARE / 4) == 0)
        return usual + (int)draw((uint64_t)(count - usual));
    if (way == 1 && draw(6))
        return 0;
    return way == 2 ? by_priority(offered, usual) : (int)draw((uint64_t)usual);
}

/* A failing execution is run again with every step a choice; where it cannot be followed there (what
 * counts as waiting differs a little), it is a failure all the same, and the search goes on for one that
 * can be told. */
static bool can_be_told(struct result *result)
{
    if (!result->violated)
        memcpy(result->violation, violation, sizeof violation);
    result->violated = true;
    if (trail_expose()) {
        memcpy(result->violation, violation, sizeof violation);
        return true;
    }
    exposed = false;
    mode = SEARCH_RANDOM;
    return false;
}

/* limits->states: how many executions at most; 0: as many as the time allows. */
void search_random(const struct limits *limits, struct result *result)
{
    double began = seconds_now();
    mode = SEARCH_RANDOM;
    random_state = limits->seed;
    *result = (struct result){0};
    for (uint64_t i = 0; !limits->states || i < limits->states; i++) {
        trail.length = 0;
        prepare(i);
        bool held = run_once();
        usual_length = run.choices + 1;
        result->executions++;
        result->steps += run.steps;
        if (run.steps > result->longest)
            result->longest = run.steps;
        if (!held && (result->told = can_be_told(result)))
            break;
        if (i % 64 == 0 && seconds_now() - began > limits->seconds)
            break;
    }
    result->transitions = choices_made();
    result->stopped_by = "random";
    result->seconds = seconds_now() - began;
}
