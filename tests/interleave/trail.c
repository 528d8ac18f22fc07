/* trail.c: a schedule as a short string, and how to make it shorter.
 *
 * Only choices that are not the first alternative are written: how many choices lie between, and
 * which alternative. Numbers are in base 16 with a bit for "more follows": one letter of 32 each.
 * The first alternative is "the same thread goes on", so most schedules need few letters.
 */
#include <string.h>

#include "sim.h"

static const char letters[] = "0123456789abcdefghjkmnpqrstvwxyz";

static size_t put(char *out, size_t at, size_t size, uint32_t number)
{
    do {
        uint32_t digit = number & 15;
        number >>= 4;
        if (at + 1 < size)
            out[at++] = letters[digit | (number ? 16 : 0)];
    } while (number);
    return at;
}

void trail_print(char *out, size_t size)
{
    size_t at = 0;
    uint32_t gap = 0;
    for (uint32_t i = 0; i < trail.length; i++) {
        if (!trail.chosen[i]) {
            gap++;
            continue;
        }
        at = put(out, at, size, gap);
        at = put(out, at, size, trail.chosen[i]);
        gap = 0;
    }
    if (at == 0)
        out[at++] = '-';                             /* first alternatives all the way */
    out[at] = 0;
}

static bool get(const char **text, uint32_t *number)
{
    *number = 0;
    for (int shift = 0; **text; shift += 4) {
        const char *found = strchr(letters, *(*text)++);
        if (!found || shift > 24)
            return false;
        uint32_t digit = (uint32_t)(found - letters);
        *number |= (digit & 15) << shift;
        if (digit < 16)
            return true;
    }
    return false;
}

bool trail_parse(const char *text)
{
    trail.length = 0;
    while (*text && *text != '-') {
        uint32_t gap, chosen;
        if (!get(&text, &gap) || !get(&text, &chosen) || trail.length + gap + 1 > TRAIL_MAX)
            return false;
        memset(trail.chosen + trail.length, 0, gap);
        trail.length += gap;
        trail.chosen[trail.length++] = (uint8_t)chosen;
    }
    return true;
}

static void trim(void)
{
    while (trail.length && !trail.chosen[trail.length - 1])
        trail.length--;
}

/* Does `candidate` break the same property? If so it becomes the trail. */
static bool still_fails(const struct trail *candidate, const char *property, size_t bytes)
{
    static struct trail before;
    before = trail;
    trail = *candidate;
    if (!run_once() && strncmp(violation, property, bytes) == 0) {
        trim();
        return true;
    }
    trail = before;
    return false;
}

/* First alternatives wherever the failure survives it: from the back in blocks, then one by one. */
void trail_shorten(void)
{
    static struct trail candidate;
    char property[sizeof violation];
    memcpy(property, violation, sizeof property);
    size_t bytes = strcspn(property, ":");
    mode = SEARCH_REPLAY;
    trim();
    bool better = true;
    for (int round = 0; better && round < 20; round++) {
        better = false;
        for (uint32_t block = trail.length / 2; block >= 1; block /= 2)
            for (uint32_t from = 0; from < trail.length; from += block) {
                candidate = trail;
                bool any = false;
                for (uint32_t i = from; i < from + block && i < candidate.length; i++) {
                    any = any || candidate.chosen[i];
                    candidate.chosen[i] = 0;
                }
                better = (any && still_fails(&candidate, property, bytes)) || better;
            }
    }
    run_once();
    trim();
}
