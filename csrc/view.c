/* view.c: which copies are intact, as one handle sees it.
 *
 * A failure must not stay a private opinion. If A finds copy 1 dead and sends to copies 2 and 3
 * only, while B still reads copy 1 alone, B misses A's intent and breaks the order. So:
 *
 *   before anyone skips a copy, it has set that copy's bit in `failed` of every other copy;
 *   a receiver looks at `failed` in every copy after it has scanned one, before it delivers.
 *
 * At least one copy never fails: A has written there, and B reads there. Bits are only added. They
 * are set in the failed copy too, where that is possible.
 */
#include "core.h"

#define THAW_POLL_NS 50000

bool config_frozen(uint64_t sealed_config) { return sealed_value(sealed_config) >> 7 & 1; }
int config_count(uint64_t sealed_config) { return (int)(sealed_value(sealed_config) & 127); }
uint64_t config_version(uint64_t sealed_config) { return sealed_value(sealed_config) >> 8; }

uint64_t config_make(uint64_t version, bool frozen, int count)
{
    return version << 8 | (uint64_t)frozen << 7 | (uint64_t)count;
}

/* Adds bits to one copy's set. At most SERIALS_MAX rounds, since every failed CAS means that
 * another bit has been added. */
static bool fail_in(struct copy *copy, uint64_t bits)
{
    word_t *word = &header_of(copy)->failed;
    uint64_t found = LOAD_ACQUIRE(word);
    for (;;) {
        if (!seal_ok(found))
            return false;
        uint64_t wanted = sealed_value(found) | bits;
        if (wanted == sealed_value(found) || CAS_ACQ_REL(word, &found, seal(wanted))) /* [V1] */
            return true;
    }
}

bool config_ok(uint64_t config)
{
    return seal_ok(config) && config_count(config) >= 1 &&
           config_count(config) <= (int)SERIALS_MAX;
}

/* `failed` is what this copy says of all; it may be overwritten while we look, so it is read once. */
static bool looks_intact(const struct copy *copy, uint64_t failed)
{
    return !LOAD_RELAXED(&copy->failed) && !guard_is_lost(copy->table_mapping) && seal_ok(failed) &&
           config_ok(LOAD_ACQUIRE(&header_of(copy)->config));
}

static bool boxes_intact(const struct copy *copy)
{
    for (int box = 0; box < SC_MAILBOXES_MAX; box++) {
        unsigned char *base = LOAD_ACQUIRE(&copy->box[box]); /* number before base, segment.c */
        bool lost = base && guard_is_lost(LOAD_RELAXED(&copy->box_mapping[box]));
        if (lost && LOAD_ACQUIRE(&copy->box[box]) == base)   /* not of another mailbox by now */
            return false;
    }
    return true;
}

static bool was_removed(struct sc_domain *domain)
{
    int count = LOAD_ACQUIRE(&domain->copy_count);
    for (int i = 0; i < count; i++) {
        if (!domain->copies[i].table)
            continue;
        uint64_t removed = LOAD_ACQUIRE(&header_of(&domain->copies[i])->removed);
        if (seal_ok(removed) && sealed_value(removed) == 1)
            return true;
    }
    return false;
}

/* As carry() compares them, or it and gather() could go round in a circle. */
static int64_t years_ahead(uint64_t config, uint64_t other)
{
    return (int64_t)((config_version(config) - config_version(other)) << (64 - SEAL_BITS + 8));
}

/* One round: the failures that any intact copy knows of, and then the newest configuration of the
 * copies that are left: a copy that others have given up may show one that they never knew. */
static uint64_t gather(struct sc_domain *domain, int count, uint64_t *config)
{
    uint64_t failed = 0;
    for (int i = 0; i < count; i++) {
        struct copy *copy = &domain->copies[i];
        uint64_t told = copy->table ? LOAD_ACQUIRE(&header_of(copy)->failed) : 0; /* [V1] */
        if (!copy->table || !looks_intact(copy, told) || !boxes_intact(copy))
            failed |= UINT64_C(1) << i;
        else
            failed |= sealed_value(told);
    }
    *config = 0;
    for (int i = 0; i < count; i++) {
        if (failed >> i & 1)
            continue;
        uint64_t shown = LOAD_ACQUIRE(&header_of(&domain->copies[i])->config); /* [V1] */
        if (config_ok(shown) && (!*config || years_ahead(shown, *config) > 0))
            *config = shown;
    }
    return failed;
}

/* Completes a walk that was left half done. False: look again, because this copy has a newer
 * configuration, or another one of the same age. The latter is what somebody decided who had
 * given up an earlier copy; that was told first, so the next look finds it. If it does not, no
 * walk has written this, and the copy has failed. */
static bool spread(struct sc_domain *domain, int count, struct copy *copy, uint64_t config,
                   uint64_t failed)
{
    uint64_t value = sealed_value(config), again;
    if (carry(&header_of(copy)->config, AGE_CONFIG, &value) || value == sealed_value(config))
        return true;                                 /* a broken word is found by the next look */
    if (years_ahead(seal(value), config) == 0 && gather(domain, count, &again) == failed &&
        again == config)
        STORE_RELAXED(&copy->failed, true);
    return false;
}

/* The failed copy is told as well, if it can be: it may look sound to somebody who misses all this
 * until the copies that were told have failed too, and would go on with it alone. */
static void bury(struct copy *copy, uint64_t failed)
{
    if (copy->table)
        fail_in(copy, failed);
    STORE_RELAXED(&copy->failed, true);
}

static void list_intact(struct view *view, int count, uint64_t failed)
{
    view->count = 0;
    for (int i = 0; i < count; i++)
        if (!(failed >> i & 1) && view->count < (int)(sizeof view->copy / sizeof *view->copy))
            view->copy[view->count++] = &view->domain->copies[i];
}

/* Ends after at most SERIALS_MAX rounds: each further one has found another failure. */
int view_refresh(struct view *view)
{
    struct sc_domain *domain = view->domain;
    for (;;) {
        uint32_t faults = LOAD_ACQUIRE(&guard_faults);
        /* Once: a copy that another thread adds meanwhile may be one that was not found. */
        int count = LOAD_ACQUIRE(&domain->copy_count);
        uint64_t config, failed = gather(domain, count, &config);
        list_intact(view, count, failed);
        for (int i = 0; i < count; i++)
            if (failed >> i & 1)
                bury(&domain->copies[i], failed);
        bool told = true;
        for (int i = 0; i < view->count; i++)
            told = fail_in(view->copy[i], failed) &&
                   spread(domain, count, view->copy[i], config, failed) && told;
        if (view->count == 0) {
            if (was_removed(domain))
                return SC_REMOVED;
            /* Compared with what this round looked at: another thread may have found it first. */
            if (domain_find_later(domain) > count)
                continue;
            return SC_LOST;
        }
        /* Not before it is decided: a new copy that one dying copy alone spoke of may never come to be,
         * and another one may get its number. */
        if (told && config_count(config) > count) {
            int rc = domain_adopt_copy(domain, count);
            if (rc)
                return rc;
            continue;
        }
        view->config = config;
        view->failed = seal(failed);
        view->faults = faults;
        uint64_t removed = LOAD_ACQUIRE(&header_of(view->copy[0])->removed);
        if (removed == seal(1)) {
            view->count = 0;                         /* never current: the next one is told too */
            return SC_REMOVED;
        }
        if (told)
            return 0;
    }
}

int view_open(struct view *view, struct sc_domain *domain)
{
    memset(view, 0, sizeof *view);
    view->domain = domain;
    return view_refresh(view);
}

void view_fail(struct view *view, struct copy *copy)
{
    STORE_RELAXED(&copy->failed, true);
    view_refresh(view);
}

/* Something in a copy is not what a sound copy holds. Either the mailbox was removed, which its
 * directory entry says in every copy before the pages go, or the copy has failed. */
int view_doubt(struct view *view, struct copy *copy, int box)
{
    if (box >= 0) {
        uint64_t state = LOAD_ACQUIRE(&directory_of(view->domain, copy, box)->owner.state);
        if (seal_ok(state) && sealed_value(state) != view->domain->boxes[box].version)
            return SC_REMOVED;
    }
    STORE_RELAXED(&copy->failed, true);
    return view_refresh(view);
}

/* A freeze lasts as long as the replacer needs; if it dies or takes too long, anyone ends it. */
int view_wait_thawed(struct view *view, uint64_t deadline)
{
    struct sc_domain *domain = view->domain;
    uint64_t frozen = view->config;
    deadline = absolute(deadline);
    uint64_t give_up = sys_now() + domain->params.bounds.send_ns * 4 + NS_PER_S;
    struct place where = {-1, offsetof(struct segment_header, config)};
    struct place replacer_at = {-1, offsetof(struct segment_header, replacer)};
    while (config_frozen(view->config)) {
        if (view->config != frozen) {
            frozen = view->config;
            give_up = sys_now() + domain->params.bounds.send_ns * 4 + NS_PER_S;
        }
        uint64_t now = sys_now();
        if (now >= deadline)
            return SC_FROZEN;
        struct owner replacer;
        int rc = owner_read(view, replacer_at, &replacer);
        if (rc)
            return rc;
        bool gone = owner_state(replacer.value) == OWNER_FREE || owner_is_dead(view, &replacer);
        if (now >= give_up || gone) {
            uint64_t decided;
            uint64_t thawed = config_make(config_version(frozen) + 1, false, config_count(frozen));
            if ((rc = agree_while_frozen(view, where, AGE_CONFIG, thawed, &decided)))
                return rc;
        } else {
            sys_sleep_until(now + THAW_POLL_NS);
        }
        if ((rc = view_refresh(view)))
            return rc;
    }
    return 0;
}
