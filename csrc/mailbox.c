/* mailbox.c: the mailboxes of a domain: create, find, map, remove.
 *
 * A mailbox is an extent at the same offset in every copy. The offset is agreed on first and written
 * to the directory, then the files grow, then the entry goes LIVE. Whoever dies between leaves an
 * entry that reap.c frees, and it says which pages to give back; what stays is a hole in the
 * files, since no extent is given out twice.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>

#include "core.h"
#include "crc32c.h"

#define VISIT_POLL_NS 50000
#define OFFSET_MAX (UINT64_C(1) << 60)  /* a sum of offset and bytes cannot overflow */

static uint32_t entry_crc(const struct directory_entry *e)
{
    return crc32c(0, e, offsetof(struct directory_entry, crc));
}

static int check_params(const char *name, const struct sc_mailbox_params *p)
{
    if (segment_name_ok(name) || p->message_bytes > MESSAGE_BYTES_MAX || p->capacity < 2 ||
        p->capacity > CAPACITY_MAX || (p->capacity & (p->capacity - 1)) || p->receivers < 1 ||
        p->receivers > SC_RECEIVERS_MAX || p->checksum > 1 || p->evict > 1)
        return SC_INVALID;
    return 0;
}

/* The parameters as the first copy with a sound entry tells them. `version` is the owner's word
 * that called it LIVE: an entry that is being written anew is no sign of a failed copy. */
static int read_entry(struct view *view, int box, uint64_t version, struct directory_entry *out)
{
    const struct sc_domain_params *domain = &view->domain->params;
    uint64_t serial = 0, table_end = table_bytes(domain->senders, domain->mailboxes);
    struct copy *copy;
    while ((copy = view_next(view, serial))) {
        copy_from_shared(out, directory_of(view->domain, copy, box), sizeof *out);
        struct sc_mailbox_params p = {out->message_bytes, out->capacity, out->receivers,
                                      out->checksum, out->evict};
        if (out->crc == entry_crc(out) && memchr(out->name, 0, sizeof out->name) &&
            check_params(out->name, &p) == 0 &&
            out->bytes == extent_layout(&p, domain->senders).bytes &&
            out->offset % PAGE_BYTES == 0 && out->offset >= table_end &&
            out->offset <= OFFSET_MAX)
            return 0;
        FENCE_ACQUIRE();                             /* the claim precedes what its owner wrote */
        uint64_t state = LOAD_ACQUIRE(&directory_of(view->domain, copy, box)->owner.state);
        if (seal_ok(state) && sealed_value(state) != version)
            return SC_REMOVED;
        view_fail(view, copy);
        serial = copy->serial + 1;
    }
    return SC_CORRUPT;
}

static int map_everywhere(struct view *view, int box)
{
    struct sc_domain *d = view->domain;
    struct mailbox *m = &d->boxes[box];
    for (int i = 0; i < LOAD_RELAXED(&d->copy_count); i++) {
        struct copy *copy = &d->copies[i];
        if (!copy->table || LOAD_RELAXED(&copy->failed))
            continue;
        if (LOAD_RELAXED(&copy->box[box])) {         /* of an earlier mailbox in this entry */
            STORE_RELAXED(&copy->box[box], NULL);
            guard_remove(LOAD_RELAXED(&copy->box_mapping[box]));
        }
        int rc = segment_map_box(copy, box, m->offset, m->at.bytes);
        if (rc == SC_COPY_FAILED)
            STORE_RELAXED(&copy->failed, true);
        else if (rc)
            return rc;
    }
    return 0;
}

static int map_entry(struct view *view, int box, uint64_t version)
{
    struct mailbox *m = &view->domain->boxes[box];
    struct directory_entry e;
    if (LOAD_RELAXED(&m->users) > 0)
        return SC_REMOVED;                           /* handles of its predecessor are still open */
    int rc = read_entry(view, box, version, &e);
    if (rc)
        return rc;
    STORE_RELAXED(&m->open, false);
    m->params = (struct sc_mailbox_params){e.message_bytes, e.capacity, e.receivers, e.checksum,
                                           e.evict};
    m->at = extent_layout(&m->params, view->domain->params.senders);
    m->offset = e.offset;
    if ((rc = map_everywhere(view, box)))
        return rc;
    m->version = version;
    STORE_RELEASE(&m->open, true);
    return 0;
}

/* The mapping and the sizes change only while nobody looks at them. Handles stay for long, so with
 * one of them in it a place is not used anew; a visit is over soon. */
static void lock_unvisited(struct sc_domain *d, int box)
{
    pthread_mutex_lock(&d->lock);
    while (LOAD_ACQUIRE(&d->boxes[box].visits) > 0) {
        pthread_mutex_unlock(&d->lock);              /* a visitor may need it to get out */
        sys_sleep_until(sys_now() + VISIT_POLL_NS);
        pthread_mutex_lock(&d->lock);
    }
}

/* Maps the mailbox if need be and counts the caller in before anybody else can map another one. */
static int enter(struct view *view, int box, bool as_visitor)
{
    struct sc_domain *d = view->domain;
    if (box < 0 || box >= (int)d->params.mailboxes)
        return SC_INVALID;
    struct mailbox *m = &d->boxes[box];
    struct owner owner;
    pthread_mutex_lock(&d->lock);
    int rc = owner_read(view, directory_place(d, box), &owner);
    if (rc == 0 && owner_state(owner.value) != OWNER_LIVE)
        rc = SC_REMOVED;
    if (rc == 0 && (!LOAD_RELAXED(&m->open) || m->version != owner.value)) {
        pthread_mutex_unlock(&d->lock);
        lock_unvisited(d, box);
        if (!LOAD_RELAXED(&m->open) || m->version != owner.value)
            rc = map_entry(view, box, owner.value);
    }
    if (rc == 0)
        COUNT_UP(as_visitor ? &m->visits : &m->users);
    pthread_mutex_unlock(&d->lock);
    if (rc == 0 && (rc = view_refresh(view)))
        COUNT_DOWN(as_visitor ? &m->visits : &m->users);
    return rc;
}

int mailbox_use(struct view *view, int box) { return enter(view, box, false); }

int mailbox_visit(struct view *view, int box) { return enter(view, box, true); }

int sc_mailbox_find(sc_domain *d, const char *name)
{
    struct view view;
    int rc = check_usable(d);
    if (rc == 0)
        rc = segment_name_ok(name);
    if (rc == 0)
        rc = view_open(&view, d);
    for (int box = 0; rc == 0 && box < (int)d->params.mailboxes; box++) {
        struct owner owner;
        struct directory_entry e;
        if ((rc = owner_read(&view, directory_place(d, box), &owner)))
            break;
        if (owner_state(owner.value) != OWNER_LIVE)
            continue;
        rc = read_entry(&view, box, owner.value, &e);
        if (rc == 0 && strcmp(e.name, name) == 0)
            return box;
        if (rc == SC_REMOVED)                        /* while we looked */
            rc = 0;
    }
    return rc ? rc : SC_MISSING;
}

/* The entry of a mailbox that is in use, and a view to act on it. */
static int find_live(sc_domain *d, int box, struct view *view, struct owner *owner,
                     struct directory_entry *e)
{
    int rc = check_usable(d);
    if (rc == 0 && (box < 0 || box >= (int)d->params.mailboxes))
        rc = SC_INVALID;
    if (rc == 0)
        rc = view_open(view, d);
    if (rc == 0)
        rc = owner_read(view, directory_place(d, box), owner);
    if (rc == 0 && owner_state(owner->value) != OWNER_LIVE)
        rc = SC_MISSING;
    return rc ? rc : read_entry(view, box, owner->value, e);
}

int sc_mailbox_name(sc_domain *d, int box, char *out, size_t size)
{
    struct view view;
    struct owner owner;
    struct directory_entry e;
    int rc = find_live(d, box, &view, &owner, &e);
    if (rc == 0)
        snprintf(out, size, "%s", e.name);
    return rc;
}

int sc_mailbox_params(sc_domain *d, int box, struct sc_mailbox_params *out)
{
    struct view view;
    int rc = check_usable(d);
    if (rc == 0)
        rc = view_open(&view, d);
    if (rc == 0)
        rc = mailbox_visit(&view, box);
    if (rc)
        return rc;
    *out = d->boxes[box].params;
    mailbox_leave(d, box);
    return 0;
}

/* A free entry, made ours. Entries left half made by the dead are freed on the way. */
static int claim_entry(struct view *view, struct owner *owner)
{
    struct sc_domain *d = view->domain;
    for (int box = 0; box < (int)d->params.mailboxes; box++) {
        int rc = owner_read(view, directory_place(d, box), owner);
        if (rc)
            return rc;
        enum owner_state state = owner_state(owner->value);
        if ((state == OWNER_OWNED || state == OWNER_CLAIMED) && owner_is_dead(view, owner)) {
            owner_release(view, owner);
            state = owner_state(owner->value);
        }
        if (state != OWNER_FREE || LOAD_RELAXED(&d->boxes[box].users) > 0)
            continue;
        mailbox_return_pages(view, box);             /* before its extent is forgotten */
        rc = owner_claim(view, owner);
        if (rc == 0)
            return box;
        if (rc != SC_EXISTS)
            return rc;
    }
    return SC_NO_LANE;
}

/* Pages behind all that were ever given out. `box` is the caller's own entry. */
int extent_take(struct view *view, int box, uint64_t pages, uint64_t *offset)
{
    struct place where = {-1, offsetof(struct segment_header, extent_end)};
    for (;;) {
        uint64_t end, decided;
        int rc = settle(view, where, AGE_EXTENT, &end);
        if (rc)
            return rc;
        if (extent_pages(end) + pages >= EXTENT_PAGES_MAX)
            return SC_NO_SPACE;
        uint64_t wanted = extent_end(extent_version(end) + 1, extent_pages(end) + pages, box);
        if ((rc = agree_while_frozen(view, where, AGE_EXTENT, wanted, &decided)))
            return rc;
        if (decided == wanted) {
            *offset = extent_pages(end) * PAGE_BYTES;
            return 0;
        }
    }
}

static int make_extent(struct view *view, int box, struct directory_entry *e)
{
    struct sc_domain *d = view->domain;
    struct mailbox *m = &d->boxes[box];
    int rc = extent_take(view, box, e->bytes / PAGE_BYTES, &e->offset);
    e->crc = entry_crc(e);
    for (int i = 0; rc == 0 && i < view->count; i++)
        copy_to_shared(directory_of(d, view->copy[i], box), e,
                       offsetof(struct directory_entry, pad));
    for (int i = 0; rc == 0 && i < view->count; i++)
        rc = segment_grow(view->copy[i], e->offset, e->bytes);
    if (rc)
        return rc;
    m->params = (struct sc_mailbox_params){e->message_bytes, e->capacity, e->receivers,
                                           e->checksum, e->evict};
    m->at = extent_layout(&m->params, d->params.senders);
    m->offset = e->offset;
    if ((rc = map_everywhere(view, box)) || (rc = view_refresh(view)))
        return rc;
    for (int i = 0; i < view->count; i++)
        format_box(LOAD_RELAXED(&view->copy[i]->box[box]), m, d->params.senders);
    return 0;
}

static void give_pages_back(struct view *view, const struct directory_entry *e)
{
    for (int i = 0; e->offset && i < view->count; i++)
        fallocate(view->copy[i]->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)e->offset,
                  (off_t)e->bytes);
}

/* In place of a maker or remover that died before it came to it. The entry is read while it is free:
 * if it still is free afterwards, nobody has written there. */
void mailbox_return_pages(struct view *view, int box)
{
    struct place where = directory_place(view->domain, box);
    struct owner before, after;
    struct directory_entry e;
    if (owner_read(view, where, &before) || owner_state(before.value) != OWNER_FREE)
        return;
    copy_from_shared(&e, directory_of(view->domain, view->copy[0], box), sizeof e);
    if (e.crc == entry_crc(&e) && owner_read(view, where, &after) == 0 &&
        after.value == before.value)
        give_pages_back(view, &e);
}

/* Two processes may make the same name at once. Each goes LIVE, then looks: whoever sees the other
 * gives way, so that nobody keeps a name that somebody else has kept. Both may give way. */
static int is_the_only(struct view *view, int box, const char *name)
{
    for (int other = 0; other < (int)view->domain->params.mailboxes; other++) {
        struct owner owner;
        struct directory_entry e;
        int rc = other == box ? 0 : owner_read(view, directory_place(view->domain, other), &owner);
        if (rc == 0 && other != box && owner_state(owner.value) == OWNER_LIVE &&
            (rc = read_entry(view, other, owner.value, &e)) == 0 && strcmp(e.name, name) == 0)
            return SC_EXISTS;
        if (rc && rc != SC_REMOVED)
            return rc;
    }
    return 0;
}

int sc_mailbox_create(sc_domain *d, const char *name, const struct sc_mailbox_params *params)
{
    struct view view;
    struct owner owner;
    struct directory_entry e = {0};
    int rc = check_params(name, params);
    if (rc == 0)
        rc = check_usable(d);
    if (rc == 0)
        rc = view_open(&view, d);
    if (rc)
        return rc;
    rc = sc_mailbox_find(d, name);
    if (rc != SC_MISSING)
        return rc >= 0 ? SC_EXISTS : rc;
    int box = claim_entry(&view, &owner);
    if (box < 0)
        return box;
    snprintf(e.name, sizeof e.name, "%s", name);
    e.message_bytes = params->message_bytes;
    e.capacity = params->capacity;
    e.receivers = params->receivers;
    e.checksum = params->checksum;
    e.evict = params->evict;
    e.bytes = extent_layout(params, d->params.senders).bytes;
    lock_unvisited(d, box);
    rc = LOAD_RELAXED(&d->boxes[box].users) > 0 ? SC_NO_LANE : make_extent(&view, box, &e);
    if (rc == 0)
        rc = owner_publish(&view, &owner);
    if (rc == 0)
        d->boxes[box].version = owner.value;
    if (LOAD_RELAXED(&d->boxes[box].users) == 0)
        STORE_RELEASE(&d->boxes[box].open, rc == 0);
    pthread_mutex_unlock(&d->lock);
    if (rc == 0)
        rc = is_the_only(&view, box, name);
    if (rc) {
        owner_release(&view, &owner);
        give_pages_back(&view, &e);
        return rc;
    }
    return box;
}

/* Handles that are still open find the entry gone at their next step; only then are the pages
 * zero, and zero is never taken for a message. */
int sc_mailbox_remove(sc_domain *d, int box)
{
    struct view view;
    struct owner owner;
    struct directory_entry e;
    int rc = find_live(d, box, &view, &owner, &e);
    if (rc == 0)
        rc = owner_release(&view, &owner);
    if (rc == 0)
        give_pages_back(&view, &e);
    return rc;
}
