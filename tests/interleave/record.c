/* record.c: an execution as its steps, whatever was a choice.
 *
 * Which steps are choices depends on what a search has learnt of sharing, so a trail means nothing
 * outside of the search that made it. Every execution is therefore recorded step by step, and a
 * failing one is run again "exposed": every step on a shared word is a choice, as in any program
 * with the same sources. The exposed trail is what is shortened, printed and replayed.
 */
#include <stdlib.h>

#include "sim.h"

#define RECORDS_MAX 400000u
#define A_FAULT 9                                    /* beside the kinds of options */

struct entry { uint8_t what, who, flushed; uint64_t advance; };

bool exposed;
static struct entry records[RECORDS_MAX], kept[RECORDS_MAX];
static uint32_t at, kept_count;
static bool lost_the_way;

static void append(struct entry e)
{
    if (run.recorded < RECORDS_MAX && mode != SEARCH_GUIDED)
        records[run.recorded++] = e;
}

void record(struct option o)
{
    append((struct entry){(uint8_t)o.what, o.who, o.entry, o.advance});
}

void record_fault(bool fails) { append((struct entry){A_FAULT, fails, 0, 0}); }

/* A step on words that others may use: a choice if they do. */
void step_point(bool visible, enum step_kind step, bool drains)
{
    if (visible || exposed)
        park(step, drains);
    if (!self()->hurried)
        record((struct option){RUN, run.current, 0, 0});
    self()->hurried = false;
}

int guide(const struct option *offered, int count)
{
    const struct entry *e = &kept[at];
    for (int i = 0; i < count && at < kept_count; i++)
        if (offered[i].what == e->what && offered[i].who == e->who &&
            offered[i].entry == e->flushed && offered[i].advance == e->advance) {
            at++;
            return i;
        }
    lost_the_way = lost_the_way || at < kept_count;
    return 0;
}

bool guide_fault(void)
{
    bool fails = at < kept_count && kept[at].what == A_FAULT && kept[at].who;
    lost_the_way = lost_the_way || (at < kept_count && kept[at].what != A_FAULT);
    at++;
    return fails;
}

bool trail_expose(void)
{
    kept_count = run.recorded;
    for (uint32_t i = 0; i < kept_count; i++)
        kept[i] = records[i];
    at = 0;
    lost_the_way = false;
    exposed = true;
    mode = SEARCH_GUIDED;
    trail.length = 0;
    bool held = run_once();
    mode = SEARCH_REPLAY;
    return !held && !lost_the_way;
}
