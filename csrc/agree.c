/* agree.c: agreement on one word per copy, by a chain of compare-and-swap.
 *
 * Everyone walks the intact copies in the same order with an estimate, at first its own proposal.
 * Where a copy's word is older than the estimate it is replaced by the estimate; where it is of
 * the same age or newer, it is adopted as the estimate. The value held after the last copy is the
 * decision. One copy never fails: everyone leaves it with the same value, and carries that value
 * to every later copy. So everyone decides alike, in any timing, with up to n-1 failed copies.
 *
 * "Age" is the value shifted right by `shift`: the number of the operation that a decision cell
 * is for, the version of an owner's word. Nobody proposes age a+1 before the walk of age a is
 * over in every intact copy (settle() completes one that its walker left half done), so the
 * intact copies never show more than two neighbouring ages.
 *
 * A walk must not act on its result while copies are being replaced: see replace.c. So the walk
 * ends only when the configuration shows neither a freeze nor a copy it has not visited.
 *
 * [A1] CAS_ACQ_REL here -> LOAD_ACQUIRE here: whoever adopts a value sees what its proposer wrote
 *      before proposing (the payload, an owner's fields).
 * [A2] The fence before looking at the configuration pairs with the one in replace.c: either the
 *      walk sees the freeze, or the replacer sees what the walk wrote.
 */
#include "core.h"

/* Carries the word's value and the estimate to the younger of the two. Bounded: a failed CAS means
 * that the word has become younger, so it is not older than the estimate the next time. */
int carry(word_t *word, enum age_shift shift, uint64_t *estimate)
{
    uint64_t found = LOAD_ACQUIRE(word);             /* [A1] */
    for (;;) {
        if (!seal_ok(found))
            return SC_COPY_FAILED;
        uint64_t ahead = (sealed_value(found) >> shift) - (*estimate >> shift);
        if ((int64_t)(ahead << (64 - SEAL_BITS + shift)) >= 0) {
            *estimate = sealed_value(found);
            return 0;
        }
        if (CAS_ACQ_REL(word, &found, seal(*estimate))) /* [A1] */
            return 0;
    }
}

/* The first intact copy whose serial is not below `serial`, or NULL. */
struct copy *view_next(const struct view *view, uint64_t serial)
{
    for (int i = 0; i < view->count; i++)
        if (view->copy[i]->serial >= serial)
            return view->copy[i];
    return NULL;
}

enum when_frozen { WAIT, GO_ON, STOP };

/* With `has_estimate` false the first copy's value becomes the estimate. */
static int walk(struct view *view, struct place where, enum age_shift shift, bool has_estimate,
                uint64_t *estimate, enum when_frozen when_frozen)
{
    uint64_t serial = 0;
    for (;;) {
        struct copy *copy;
        while ((copy = view_next(view, serial))) {
            word_t *word = (word_t *)at_place(copy, where);
            if (!has_estimate)
                *estimate = sealed_value(LOAD_ACQUIRE(word)); /* checked by carry() */
            int rc = carry(word, shift, estimate);
            if (rc) {
                if ((rc = view_doubt(view, copy, where.box)))
                    return rc;
                continue;
            }
            has_estimate = true;
            serial = copy->serial + 1;
        }
        FENCE_SEQ_CST();                             /* [A2] */
        int rc = view_is_current(view) ? 0 : view_refresh(view);
        bool frozen = rc == 0 && config_frozen(view->config);
        if (frozen && when_frozen == WAIT)
            rc = view_wait_thawed(view, view_deadline(view));
        if (frozen && when_frozen == STOP)
            rc = SC_FROZEN;
        if (rc)
            return rc;
        if (!view_next(view, serial))
            return has_estimate ? 0 : SC_LOST;
    }
}

int agree(struct view *view, struct place where, enum age_shift shift, uint64_t proposal,
          uint64_t *decided)
{
    *decided = proposal;
    return walk(view, where, shift, true, decided, WAIT);
}

/* For whoever must not keep the freezer waiting: SC_FROZEN, with the value held so far. */
int agree_unless_frozen(struct view *view, struct place where, enum age_shift shift,
                        uint64_t proposal, uint64_t *decided)
{
    *decided = proposal;
    return walk(view, where, shift, true, decided, STOP);
}

/* For the one process that froze the configuration, and for a sender inside its operation: the
 * freezer waits for it before it copies anything. */
int agree_while_frozen(struct view *view, struct place where, enum age_shift shift,
                       uint64_t proposal, uint64_t *decided)
{
    *decided = proposal;
    return walk(view, where, shift, true, decided, GO_ON);
}

/* The word's value, after completing a walk that somebody left half done. */
int settle(struct view *view, struct place where, enum age_shift shift, uint64_t *value)
{
    return walk(view, where, shift, false, value, GO_ON);
}

/* For words that only grow and have one writer: the writer stored the value in one copy after
 * the other, so the greatest is the truest. */
int greatest(struct view *view, struct place where, uint64_t *value)
{
    uint64_t serial = 0;
    struct copy *copy;
    *value = 0;
    while ((copy = view_next(view, serial))) {
        uint64_t found = LOAD_ACQUIRE((word_t *)at_place(copy, where)); /* pairs with the writer */
        if (!seal_ok(found)) {
            int rc = view_doubt(view, copy, where.box);
            if (rc)
                return rc;
            continue;
        }
        if (sealed_value(found) > *value)
            *value = sealed_value(found);
        serial = copy->serial + 1;
    }
    return view->count > 0 ? 0 : SC_LOST;
}
