/* owner.c: who holds a place, agreed on by all copies, released by anyone when the holder is dead.
 *
 *   FREE -> CLAIMED -> OWNED -> LIVE -> FREE        the version grows at every arrow
 *
 * OWNED is for writing what belongs to the place; LIVE makes it count.
 *
 * CLAIMED names only a pid: the holder has not yet written its full identity, so anyone may take
 * the claim back, and the holder finds out when its own step to OWNED loses. From OWNED on, the
 * place is taken back only from the dead. The identity's words carry the claim's version as their
 * age and are agreed on like everything else: a claimant that slept through the loss of its claim
 * cannot overwrite its successor's, and of two claimants in different pid namespaces with the
 * same pid, whose claims look alike, just one finds its own identity.
 */
#include "core.h"

#define CLAIM_PATIENCE_NS 20000000   /* taking back too early is safe, only impolite */

static uint64_t make(uint32_t version, enum owner_state state, uint32_t pid)
{
    return (uint64_t)(version & 0x3fffff) << 26 | (uint64_t)state << 22 | (pid & 0x3fffff);
}

static uint64_t tag(uint64_t version, uint64_t payload)
{
    uint64_t mask = (UINT64_C(1) << (AGE_IDENTITY)) - 1;
    return (version & 255) << (AGE_IDENTITY) | (payload & mask);
}

static struct place field(const struct owner *owner, size_t offset)
{
    return (struct place){owner->where.box, owner->where.offset + offset};
}

int owner_read(struct view *view, struct place where, struct owner *out)
{
    out->where = where;
    return settle(view, where, AGE_OWNER, &out->value);
}

/* Moves the agreed state on by one. 0 if our proposal was decided, SC_EXISTS if another was. */
static int step(struct view *view, struct owner *owner, enum owner_state state, uint32_t pid)
{
    uint64_t wanted = make(owner_version(owner->value) + 1, state, pid), decided;
    int rc = agree(view, owner->where, AGE_OWNER, wanted, &decided);
    if (rc)
        return rc;
    owner->value = decided;
    return decided == wanted ? 0 : SC_EXISTS;
}

static int agree_identity(struct view *view, const struct owner *owner)
{
    struct identity self = sys_self();
    uint32_t version = owner_version(owner->value);
    const struct { size_t offset; uint64_t value; } words[] = {
        {offsetof(struct owner_record, start), tag(version, self.start_ticks)},
        {offsetof(struct owner_record, space), tag(version, self.pid_space)},
    };
    for (int w = 0; w < 2; w++) {
        uint64_t decided;
        int rc = agree(view, field(owner, words[w].offset), AGE_IDENTITY, words[w].value, &decided);
        if (rc)
            return rc;
        if (decided != words[w].value)
            return SC_EXISTS;
    }
    return 0;
}

/* Two threads of one process look the same, so only one claims at a time. A fork waits for it,
 * so that the child does not inherit a lock that nobody will open. */
static pthread_mutex_t one_claim = PTHREAD_MUTEX_INITIALIZER;

static void lock_claims(void) { pthread_mutex_lock(&one_claim); }
static void unlock_claims(void) { pthread_mutex_unlock(&one_claim); }

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(lock_claims, unlock_claims, unlock_claims);
}

/* CLAIMED -> OWNED. Whoever replaces a copy waits until nothing is OWNED, and we would wait for its
 * freeze to end: so one that comes in the middle makes us step back and try again later. */
static int take(struct view *view, struct owner *owner, uint32_t pid)
{
    uint64_t wanted = make(owner_version(owner->value) + 1, OWNER_OWNED, pid), decided;
    int rc = agree_unless_frozen(view, owner->where, AGE_OWNER, wanted, &decided);
    if (rc == 0 || rc == SC_FROZEN)
        owner->value = decided;
    if (rc == 0)
        return decided == wanted ? 0 : SC_EXISTS;
    if (rc != SC_FROZEN)
        return rc;
    if (decided == wanted) {
        uint64_t back = make(owner_version(wanted) + 1, OWNER_FREE, 0);
        if ((rc = agree_while_frozen(view, owner->where, AGE_OWNER, back, &owner->value)))
            return rc;
    }
    rc = view_wait_thawed(view, FOREVER);
    return rc ? rc : SC_EXISTS;
}

int owner_claim(struct view *view, struct owner *owner)
{
    uint32_t pid = sys_self().pid;
    pthread_mutex_lock(&one_claim);
    struct owner now;
    int rc = owner_read(view, owner->where, &now);
    if (rc == 0 && now.value != owner->value)
        rc = SC_EXISTS;
    if (rc == 0)
        rc = step(view, owner, OWNER_CLAIMED, pid);
    if (rc == 0)
        rc = agree_identity(view, owner);
    if (rc == 0)
        rc = take(view, owner, pid);
    pthread_mutex_unlock(&one_claim);
    return rc;
}

/* Whoever replaces a copy waits until nothing is OWNED, so this step must not wait for it. */
int owner_publish(struct view *view, struct owner *owner)
{
    uint64_t wanted = make(owner_version(owner->value) + 1, OWNER_LIVE, owner_pid(owner->value));
    uint64_t decided;
    int rc = agree_while_frozen(view, owner->where, AGE_OWNER, wanted, &decided);
    if (rc)
        return rc;
    owner->value = decided;
    return decided == wanted ? 0 : SC_EXISTS;
}

/* Losing means that somebody else released it, which is as good. */
int owner_release(struct view *view, struct owner *owner)
{
    int rc = step(view, owner, OWNER_FREE, 0);
    return rc == SC_EXISTS ? 0 : rc;
}

/* The claim's version: CLAIMED is one step before OWNED, two before LIVE. */
static uint32_t claim_version(uint64_t value)
{
    return owner_version(value) - (owner_state(value) - OWNER_CLAIMED);
}

static bool identity_of(struct view *view, const struct owner *owner, struct identity *out)
{
    uint32_t version = claim_version(owner->value);
    uint64_t shift = AGE_IDENTITY;
    for (int i = 0; i < view->count; i++) {
        struct owner_record *r = (struct owner_record *)at_place(view->copy[i], owner->where);
        uint64_t start = LOAD_ACQUIRE(&r->start), space = LOAD_ACQUIRE(&r->space);
        if (!seal_ok(start) || !seal_ok(space))
            continue;
        start = sealed_value(start);
        space = sealed_value(space);
        if (start >> shift != (version & 255) || space >> shift != (version & 255))
            continue;
        out->pid = owner_pid(owner->value);
        out->start_ticks = start & ((UINT64_C(1) << shift) - 1);
        out->pid_space = (uint32_t)(space & UINT32_MAX);
        return true;
    }
    return false;
}

/* A claim without identity: give it a moment, then call it dead; its holder can cope. */
static bool claim_is_stale(struct view *view, const struct owner *owner)
{
    uint64_t until = sys_now() + CLAIM_PATIENCE_NS;
    while (sys_pid_exists(owner_pid(owner->value)) && sys_now() < until) {
        struct owner now;
        if (owner_read(view, owner->where, &now) || now.value != owner->value)
            return false;
        sys_sleep_until(sys_now() + CLAIM_PATIENCE_NS / 20);
    }
    return true;
}

bool owner_is_dead(struct view *view, const struct owner *owner)
{
    if (owner_state(owner->value) == OWNER_FREE)
        return false;
    if (owner_state(owner->value) == OWNER_CLAIMED)
        return claim_is_stale(view, owner);
    struct identity who;
    if (!identity_of(view, owner, &who))
        return false;
    return sys_liveness(&who) == PROCESS_DEAD;
}
