/* verdict.c: consensus, validity and ordering, from the notes of a case that is over.
 *
 * The first receiver is the witness: it was there from the beginning and never died. Everything is
 * compared with what it got.
 */
#include "verdict.h"

static const struct got *find(const struct ear *ear, uint32_t who, uint32_t number)
{
    for (uint32_t i = 0; i < ear->count; i++)
        if (ear->got[i].who == who && ear->got[i].number == number)
            return &ear->got[i];
    return NULL;
}

static const struct sent *find_sent(const struct notes *n, uint32_t who, uint32_t number)
{
    for (uint32_t i = 0; i < n->sent_count; i++)
        if (n->sent[i].who == who && n->sent[i].number == number)
            return &n->sent[i];
    return NULL;
}

static bool same(const struct got *a, const struct got *b)
{
    return a->who == b->who && a->number == b->number && a->timestamp == b->timestamp &&
           a->lane == b->lane;
}

/* (timestamp, lane) rises; so do the numbers of each sender; nothing comes twice. */
static void check_order(struct notes *n, int ear)
{
    const struct ear *e = &n->ear[ear];
    for (uint32_t i = 1; i < e->count; i++) {
        const struct got *a = &e->got[i - 1], *b = &e->got[i];
        if (b->timestamp < a->timestamp || (b->timestamp == a->timestamp && b->lane <= a->lane))
            note_failure(n, TIMED, "ordering: receiver %d got %u.%u after %u.%u", ear, b->who, b->number,
                         a->who, a->number);
        for (uint32_t j = 0; j < i; j++)
            if (e->got[j].who == b->who && e->got[j].number >= b->number)
                note_failure(n, ABSOLUTE, "ordering: receiver %d got %u.%u after %u.%u of the same sender",
                             ear, b->who, b->number, b->who, e->got[j].number);
    }
}

/* Both of mailbox A, both there from the beginning: the same messages. */
static void check_consensus(struct notes *n)
{
    const struct ear *a = &n->ear[EAR_0], *b = &n->ear[EAR_1];
    uint32_t most = a->count > b->count ? a->count : b->count;
    for (uint32_t i = 0; i < most; i++) {
        if (i < a->count && i < b->count && same(&a->got[i], &b->got[i]))
            continue;
        note_failure(n, TIMED, "consensus: the receivers differ at message %u: %d.%d and %d.%d", i,
                     i < a->count ? (int)a->got[i].who : -1, i < a->count ? (int)a->got[i].number : -1,
                     i < b->count ? (int)b->got[i].who : -1, i < b->count ? (int)b->got[i].number : -1);
        return;
    }
}

/* One that came later or died: no gap between its first message and its last. */
static void check_part(struct notes *n, int ear)
{
    const struct ear *all = &n->ear[EAR_0], *part = &n->ear[ear];
    uint32_t at = 0;
    if (part->count == 0)
        return;
    while (at < all->count && !same(&all->got[at], &part->got[0]))
        at++;
    for (uint32_t i = 0; i < part->count; i++, at++)
        if (at >= all->count || !same(&all->got[at], &part->got[i])) {
            note_failure(n, TIMED, "consensus: receiver %d got %u.%u where the others %s", ear,
                         part->got[i].who, part->got[i].number,
                         at < all->count ? "got something else" : "got nothing");
            return;
        }
    if (part->stayed && at != all->count)
        note_failure(n, TIMED, "consensus: receiver %d stayed, but its messages end before the others'",
                     ear);
}

/* A message to both mailboxes is in both or in neither, with one timestamp. */
static void check_boxes(struct notes *n)
{
    for (uint32_t i = 0; i < n->sent_count; i++) {
        const struct sent *s = &n->sent[i];
        if (s->boxes != (TO_A | TO_B) || !n->ear[EAR_B].stayed)
            continue;
        const struct got *a = find(&n->ear[EAR_0], s->who, s->number);
        const struct got *b = find(&n->ear[EAR_B], s->who, s->number);
        if (!a != !b)
            note_failure(n, TIMED, "consensus: %u.%u was delivered in mailbox %s only", s->who, s->number,
                         a ? "A" : "B");
        else if (a && a->timestamp != b->timestamp)
            note_failure(n, ABSOLUTE, "ordering: %u.%u has two timestamps", s->who, s->number);
    }
}

/* What was returned is delivered, what was refused is not, and nothing comes from nowhere. */
static void check_validity(struct notes *n)
{
    for (uint32_t i = 0; i < n->sent_count; i++) {
        const struct sent *s = &n->sent[i];
        bool in_a = find(&n->ear[EAR_0], s->who, s->number) != NULL;
        bool in_b = find(&n->ear[EAR_B], s->who, s->number) != NULL;
        if (s->rc == 0 && s->boxes & TO_A && !in_a)
            note_failure(n, TIMED, "validity: %u.%u was accepted and never delivered", s->who, s->number);
        if (s->rc == 0 && s->boxes & TO_B && !in_b && n->ear[EAR_B].stayed)
            note_failure(n, TIMED, "validity: %u.%u was accepted and never delivered in B", s->who,
                         s->number);
        if (s->rc < 0 && (in_a || in_b))
            note_failure(n, TIMED, "validity: %u.%u was refused with %s and delivered", s->who, s->number,
                         error_name(s->rc));
    }
    for (int e = 0; e < EARS; e++)
        for (uint32_t i = 0; i < n->ear[e].count; i++)
            if (!find_sent(n, n->ear[e].got[i].who, n->ear[e].got[i].number))
                note_failure(n, ABSOLUTE, "validity: nobody sent %u.%u", n->ear[e].got[i].who,
                             n->ear[e].got[i].number);
}

static void check_batches(struct notes *n)
{
    for (uint32_t i = 1; i < n->sent_count; i++) {
        const struct sent *a = &n->sent[i - 1], *b = &n->sent[i];
        if (a->batch == 0 || a->batch != b->batch || a->who != b->who)
            continue;
        if (!find(&n->ear[EAR_0], a->who, a->number) != !find(&n->ear[EAR_0], b->who, b->number))
            note_failure(n, TIMED, "consensus: of one operation, %u.%u and %u.%u, one was delivered",
                         a->who, a->number, b->who, b->number);
    }
}

void verdict(struct notes *n, bool whole_batches)
{
    for (int ear = 0; ear < EARS; ear++)
        check_order(n, ear);
    check_consensus(n);
    check_part(n, EAR_ROLE);
    check_part(n, EAR_NEW);
    check_boxes(n);
    if (whole_batches)
        check_batches(n);
    check_validity(n);
}
