/* domain.c: create, open, remove a domain; its copies as this process has them mapped. */
#define _GNU_SOURCE
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define BORN_POLL_NS 1000000
#define CLEAR_PATIENCE_NS (NS_PER_S / 5)

static int check_params(const char *name, const struct sc_domain_params *p)
{
    if (segment_name_ok(name))
        return SC_INVALID;
    if (p->copies < 1 || p->copies > SC_COPIES_MAX || p->senders < 1 ||
        p->senders > SC_SENDERS_MAX || p->mailboxes < 1 || p->mailboxes > SC_MAILBOXES_MAX ||
        p->protocol < SC_CRASH || p->protocol > SC_EAGER)
        return SC_INVALID;
    return bounds_ok(&p->bounds) ? 0 : SC_INVALID;
}

static int fill_fixed(struct segment_fixed *f, const char *name, const struct sc_domain_params *p)
{
    struct identity self = sys_self();
    memset(f, 0, sizeof *f);
    f->magic = SEGMENT_MAGIC;
    f->layout_version = LAYOUT_VERSION;
    f->byte_order = BYTE_ORDER_MARK;
    f->table_bytes = table_bytes(p->senders, p->mailboxes);
    f->copies = p->copies;
    f->senders = p->senders;
    f->mailboxes = p->mailboxes;
    f->protocol = p->protocol;
    f->bounds = p->bounds;
    f->creator_pid = self.pid;
    f->creator_start = self.start_ticks;
    f->creator_space = self.pid_space;
    snprintf(f->name, sizeof f->name, "%s", name);
    int rc = sys_boot_id(f->boot_id);
    return rc ? rc : sys_random(f->domain_id, sizeof f->domain_id);
}

static struct sc_domain *new_domain(const char *name)
{
    struct sc_domain *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    snprintf(d->name, sizeof d->name, "%s", name);
    d->fork_generation = sys_fork_generation();
    pthread_mutexattr_t recursive;                   /* mapping may find a copy dead, and refresh */
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&d->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    return d;
}

static void take_params(struct sc_domain *d, const struct segment_fixed *f)
{
    d->params.copies = f->copies;
    d->params.senders = f->senders;
    d->params.mailboxes = f->mailboxes;
    d->params.protocol = f->protocol;
    d->params.bounds = f->bounds;
    d->params.group_id = -1;
    d->fixed = *f;
    memcpy(d->id, f->domain_id, sizeof d->id);
}

int sc_domain_create(const char *name, const struct sc_domain_params *params, sc_domain **out)
{
    struct segment_fixed fixed;
    int rc = check_params(name, params);
    if (rc == 0)
        rc = fill_fixed(&fixed, name, params);
    if (rc == 0)
        rc = guard_install();
    if (rc)
        return rc;
    struct sc_domain *d = new_domain(name);
    if (!d)
        return -ENOMEM;
    take_params(d, &fixed);
    d->params.mode = params->mode;
    d->params.group_id = params->group_id;
    for (uint32_t i = 0; i < params->copies && rc == 0; i++) {
        fixed.serial = i;
        rc = segment_create(&fixed, fixed.table_bytes, params->mode, params->group_id,
                            &d->copies[i]);
        if (rc == 0)
            STORE_RELEASE(&d->copy_count, (int)i + 1);
    }
    if (rc) {
        sc_domain_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

/* 1: never born, its creator dead; 0: not so; SC_CORRUPT, SC_MISSING: it has failed, or is gone. */
static int is_stillborn(const char *name, uint64_t serial)
{
    struct copy copy;
    struct segment_fixed f;
    int rc = segment_open(name, serial, &copy, &f);
    if (rc)
        return rc == SC_CORRUPT || rc == SC_MISSING ? rc : 0;
    struct identity creator = {(uint32_t)f.creator_pid, f.creator_start, (uint32_t)f.creator_space};
    uint64_t born = LOAD_ACQUIRE(&header_of(&copy)->born);
    segment_close(&copy);
    if (!seal_ok(born))
        return SC_CORRUPT;
    return sealed_value(born) == 0 && sys_liveness(&creator) == PROCESS_DEAD;
}

/* Removes what a creator left that died between naming its segments and calling them born. One
 * sound segment that was never born is enough: whoever used the domain had it born everywhere. All are
 * looked at with their names held, so that nobody clears them, and makes others, meanwhile. Returns 1,
 * 0 if there is something else, or -EWOULDBLOCK while somebody else is clearing. */
static int clear_stillborn(const char *name)
{
    uint64_t serials[SERIALS_MAX];
    int held[SERIALS_MAX], count = segment_list(name, serials, SERIALS_MAX), looked_at = 0;
    int sound = 0, rc = 1;
    while (rc > 0 && looked_at < count) {
        uint64_t serial = serials[looked_at];
        int hold = held[looked_at++] = segment_hold_name(name, serial);
        int stillborn = hold == SC_MISSING ? hold : hold < 0 ? 0 : is_stillborn(name, serial);
        sound += stillborn == 1;
        if (stillborn == 0)
            rc = hold == -EWOULDBLOCK ? hold : 0;
    }
    for (int i = 0; i < looked_at; i++)
        if (held[i] >= 0)
            segment_release_name(name, serials[i], held[i], rc > 0 && sound > 0);
    return rc > 0 && sound == 0 ? 0 : rc;
}

static int link_all(struct sc_domain *d)
{
    int linked = LOAD_RELAXED(&d->copy_count);
    int rc = 0;
    while (linked > 0 && (rc = segment_link(d->name, &d->copies[linked - 1])) == 0)
        linked--;
    if (rc)
        for (int i = linked; i < LOAD_RELAXED(&d->copy_count); i++)
            segment_unlink(d->name, (uint64_t)i);
    return rc;
}

/* For a new domain. Whoever clears is soon done with it, unless he is stopped: then he has the name. */
static int clear_name(const char *name)
{
    uint64_t serials[SERIALS_MAX];
    const uint64_t give_up = sys_now() + CLEAR_PATIENCE_NS;
    while (segment_list(name, serials, SERIALS_MAX) > 0) {
        int rc = clear_stillborn(name);
        if (rc == 0 || (rc < 0 && sys_now() >= give_up))
            return SC_EXISTS;
        if (rc < 0)
            sys_sleep_until(sys_now() + BORN_POLL_NS);
    }
    return 0;
}

int sc_domain_publish(sc_domain *d)
{
    int rc = check_usable(d);
    if (rc == 0)
        rc = clear_name(d->name);
    if (rc || (rc = link_all(d)))
        return rc;
    for (int i = 0; i < LOAD_RELAXED(&d->copy_count); i++)
        STORE_RELEASE(&header_of(&d->copies[i])->born, seal(1));
    return 0;
}

static int opened_segments(const struct sc_domain *d)
{
    int opened = 0;
    for (unsigned i = 0; i < SERIALS_MAX; i++)
        opened += d->copies[i].table != NULL;
    return opened;
}

/* Opens every named segment that belongs to the same domain as the first valid one, and is not open
 * yet. */
static int open_segments(struct sc_domain *d)
{
    uint64_t serials[SERIALS_MAX];
    int named = segment_list(d->name, serials, SERIALS_MAX);
    int opened = opened_segments(d), last_error = SC_LOST;
    if (named <= 0 && opened == 0)
        return named < 0 ? named : SC_MISSING;
    for (int i = 0; i < named; i++) {
        if (d->copies[serials[i]].table)
            continue;
        struct copy copy;
        struct segment_fixed f;
        int rc = segment_open(d->name, serials[i], &copy, &f);
        if (rc == 0 && opened && memcmp(f.domain_id, d->id, sizeof d->id) != 0) {
            segment_close(&copy);
            rc = SC_CORRUPT;
        }
        if (rc == -EACCES || rc == -EPERM || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE)
            return rc;                               /* our trouble, not the copy's */
        if (rc) {
            last_error = rc;
            continue;
        }
        if (!opened++)
            take_params(d, &f);
        d->copies[serials[i]] = copy;
    }
    return opened ? 0 : last_error;
}

/* How many serials the newest configuration speaks of, 0 if none is sound; and whether the domain is
 * complete. */
static int read_config(struct sc_domain *d, bool *born)
{
    uint64_t newest = 0;
    *born = false;
    for (unsigned i = 0; i < SERIALS_MAX; i++) {
        if (!d->copies[i].table)
            continue;
        struct segment_header *h = header_of(&d->copies[i]);
        uint64_t config = LOAD_ACQUIRE(&h->config);
        if (config_ok(config) && (!newest || config_version(config) > config_version(newest)))
            newest = config;
        *born = *born || LOAD_ACQUIRE(&h->born) == seal(1);
    }
    return newest ? config_count(newest) : 0;
}

/* Its creator may have died before it had said so in every copy. */
static void complete_birth(struct sc_domain *d)
{
    for (unsigned i = 0; i < SERIALS_MAX; i++)
        if (d->copies[i].table && LOAD_ACQUIRE(&header_of(&d->copies[i])->born) == seal(0))
            STORE_RELEASE(&header_of(&d->copies[i])->born, seal(1));
}

static void close_segments(struct sc_domain *d)
{
    for (unsigned i = 0; i < SERIALS_MAX; i++)
        segment_close(&d->copies[i]);
    STORE_RELAXED(&d->copy_count, 0);
}

/* A segment has its name before the domain is born, or a configuration counts it. So one that was not
 * found is gone only if it is not found by a look that begins after that: or we would call a copy
 * failed that was being named while we looked. Ends, since configurations only count more. */
static int open_all_named(struct sc_domain *d, bool *born)
{
    int rc, count = 0;
    bool was_born;
    do {
        int before = count;
        was_born = *born;
        rc = open_segments(d);
        count = rc ? 0 : read_config(d, born);
        if (rc == 0 && count == 0)
            rc = SC_CORRUPT;
        if (rc == 0 && count == before && *born == was_born)
            break;
    } while (rc == 0);
    STORE_RELEASE(&d->copy_count, count);
    return rc;
}

static int open_once(struct sc_domain *d, bool *born)
{
    int rc = open_all_named(d, born);
    if (rc == 0 && *born) {
        struct view view;
        complete_birth(d);
        rc = view_open(&view, d);                    /* tells the others of copies not found */
    }
    return rc;
}

int sc_domain_open(const char *name, uint64_t deadline, sc_domain **out)
{
    if (segment_name_ok(name))
        return SC_INVALID;
    int rc = guard_install();
    if (rc)
        return rc;
    deadline = absolute(deadline);
    struct sc_domain *d = new_domain(name);
    if (!d)
        return -ENOMEM;
    for (;;) {
        bool born = false;
        rc = open_once(d, &born);
        if (rc == 0 && born) {
            *out = d;
            return 0;
        }
        close_segments(d);
        if (rc == 0)                                 /* being made, or left behind half made */
            rc = clear_stillborn(name) > 0 ? SC_MISSING : SC_TIMEOUT;
        if (rc != SC_TIMEOUT || sys_now() >= deadline)
            break;
        sys_sleep_until(sys_now() + BORN_POLL_NS);
    }
    sc_domain_close(d);
    return rc;
}

void sc_domain_close(sc_domain *d)
{
    if (!d)
        return;
    close_segments(d);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static void say_removed(struct copy *copy)
{
    STORE_RELEASE(&header_of(copy)->removed, seal(1));
    STORE_RELEASE(&header_of(copy)->failed, seal(SEAL_MAX)); /* makes everyone look */
}

/* A replacer may have named a segment since the names were listed. One that does so after this look finds
 * in every other copy that the domain is gone, and takes the name away itself. Ends: a domain has no
 * more than SERIALS_MAX segments, and each round takes one away. Another domain that got the name by
 * now is left alone. */
static void remove_latecomers(const char *name, const uint64_t id[2])
{
    uint64_t serials[SERIALS_MAX];
    bool found = true;
    for (unsigned round = 0; found && round < SERIALS_MAX; round++) {
        int count = segment_list(name, serials, SERIALS_MAX);
        found = false;
        for (int i = 0; i < count; i++) {
            struct copy copy;
            struct segment_fixed f;
            if (segment_open(name, serials[i], &copy, &f) != 0)
                continue;
            if (memcmp(f.domain_id, id, sizeof f.domain_id) == 0) {
                say_removed(&copy);
                found = segment_unlink(name, serials[i]) == 0 || found;
            }
            segment_close(&copy);
        }
    }
}

/* Says so in every copy, then takes the names away. Members find out at their next step. The first
 * name goes before anything is said: whoever may not unlink it may not end the domain either. */
int sc_domain_remove(const char *name)
{
    uint64_t serials[SERIALS_MAX], id[2];
    bool known = false;
    if (segment_name_ok(name))
        return SC_INVALID;
    int rc = guard_install();                        /* a copy may die under our hands here too */
    int count = rc ? rc : segment_list(name, serials, SERIALS_MAX);
    if (count <= 0)
        return count < 0 ? count : SC_MISSING;
    for (int i = 0; i < count; i++) {
        struct copy copy;
        struct segment_fixed f;
        int opened = segment_open(name, serials[i], &copy, &f);
        if (opened == -EACCES || opened == -EPERM)
            return opened;
        if (i == 0 && (rc = segment_unlink(name, serials[0])) && rc != SC_MISSING) {
            if (opened == 0)
                segment_close(&copy);
            return rc;
        }
        if (opened == 0) {
            if (!known)
                memcpy(id, f.domain_id, sizeof id);
            known = true;
            say_removed(&copy);
            segment_close(&copy);
        }
    }
    rc = 0;
    for (int i = 1; i < count; i++) {
        int unlinked = segment_unlink(name, serials[i]);
        if (unlinked && unlinked != SC_MISSING)
            rc = unlinked;
    }
    if (known)
        remove_latecomers(name, id);
    return rc;
}

static int map_open_boxes(struct sc_domain *d, struct copy *copy)
{
    for (int box = 0; box < (int)d->params.mailboxes; box++) {
        struct mailbox *m = &d->boxes[box];
        if (!LOAD_RELAXED(&m->open))
            continue;
        int rc = segment_map_box(copy, box, m->offset, m->at.bytes);
        if (rc)
            return rc;
    }
    return 0;
}

/* Takes the next copy of a newer configuration into the list. One that cannot be found or is not
 * ours has failed already; one that this process cannot map is this process's error. */
int domain_adopt_copy(struct sc_domain *d, int serial)
{
    int rc = 0;
    pthread_mutex_lock(&d->lock);
    if (LOAD_RELAXED(&d->copy_count) == serial && serial < (int)SERIALS_MAX) {
        struct segment_fixed f;
        struct copy *copy = &d->copies[serial];
        segment_close(copy);                         /* found at the opening, not counted then */
        rc = segment_open(d->name, (uint64_t)serial, copy, &f);
        if (rc == 0 && memcmp(f.domain_id, d->id, sizeof d->id) != 0)
            rc = SC_CORRUPT;
        if (rc == 0)
            rc = map_open_boxes(d, copy);
        if (rc)
            segment_close(copy);
        if (rc == SC_MISSING || rc == SC_CORRUPT || rc == SC_INCOMPATIBLE || rc == SC_COPY_FAILED)
            rc = 0;
        copy->serial = (uint64_t)serial;
        if (rc == 0)
            STORE_RELEASE(&d->copy_count, serial + 1);
    }
    pthread_mutex_unlock(&d->lock);
    return rc;
}

/* Every copy that we know of is gone. Perhaps they were replaced while we did not look: a later
 * segment of our domain whose own configuration counts it can stand alone. Returns how many
 * serials are known now. */
int domain_find_later(struct sc_domain *d)
{
    uint64_t serials[SERIALS_MAX];
    int known = LOAD_ACQUIRE(&d->copy_count), target = known;
    int named = segment_list(d->name, serials, SERIALS_MAX);
    for (int i = 0; i < named; i++) {
        struct copy copy;
        struct segment_fixed f;
        if ((int)serials[i] < known || segment_open(d->name, serials[i], &copy, &f) != 0)
            continue;
        uint64_t config = LOAD_ACQUIRE(&header_of(&copy)->config);
        if (memcmp(f.domain_id, d->id, sizeof d->id) == 0 && config_ok(config) &&
            config_count(config) > (int)serials[i])
            target = config_count(config);
        segment_close(&copy);
    }
    while (LOAD_ACQUIRE(&d->copy_count) < target)
        if (domain_adopt_copy(d, LOAD_ACQUIRE(&d->copy_count)))
            break;
    return LOAD_ACQUIRE(&d->copy_count);
}

/* Gives back the memory of copies that have failed and been replaced. Their addresses stay
 * valid, as zero pages, because other threads may be reading them. */
void domain_retire_failed(struct sc_domain *d)
{
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < LOAD_RELAXED(&d->copy_count) && LOAD_RELAXED(&d->leases) == 0; i++) {
        struct copy *copy = &d->copies[i];
        if (!copy->table || copy->retired || !LOAD_RELAXED(&copy->failed))
            continue;
        guard_retire(copy->table_mapping);
        for (int box = 0; box < SC_MAILBOXES_MAX; box++)
            if (LOAD_RELAXED(&copy->box[box]))
                guard_retire(LOAD_RELAXED(&copy->box_mapping[box]));
        copy->retired = true;
    }
    pthread_mutex_unlock(&d->lock);
}

int sc_domain_params(sc_domain *d, struct sc_domain_params *out)
{
    *out = d->params;
    return 0;
}

/* Failures that no access shows: the name is gone, so that newcomers cannot find the copy, or the
 * file is shorter than its tables. For those who look after the domain, not for a message's path. */
int domain_inspect(struct sc_domain *d, struct view *view)
{
    guard_install();                                 /* somebody may have put a handler over ours */
    for (int i = 0; i < LOAD_ACQUIRE(&d->copy_count); i++) {
        struct copy *copy = &d->copies[i];
        struct stat st;
        if (!copy->table || LOAD_RELAXED(&copy->failed) ||
            LOAD_ACQUIRE(&header_of(copy)->born) != seal(1) || fstat(copy->fd, &st) != 0)
            continue;
        if (st.st_nlink == 0 || (uint64_t)st.st_size < table_bytes(d->params.senders,
                                                                   d->params.mailboxes))
            STORE_RELAXED(&copy->failed, true);
    }
    return view_refresh(view);
}

/* One entry per copy wanted: the intact ones first, then failed ones to make up the number. */
int sc_domain_copies(sc_domain *d, struct sc_copy_info *out, int max)
{
    struct view view;
    int rc = check_usable(d);
    if (rc)
        return rc;
    rc = view_open(&view, d);
    if (rc == 0)
        rc = domain_inspect(d, &view);
    if (rc && rc != SC_LOST)
        return rc;
    int count = LOAD_ACQUIRE(&d->copy_count), filled = 0;
    for (int i = 0; i < count && filled < max; i++)
        out[filled++] = (struct sc_copy_info){
            .serial = (uint64_t)i,
            .intact = !(sealed_value(view.failed) >> i & 1) && view.count > 0,
        };
    return filled;
}
