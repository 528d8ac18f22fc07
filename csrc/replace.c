/* replace.c: a new copy for a failed one, while traffic goes on.
 *
 * A configuration says how many segments there have been; failed ones drop out, a new one goes to
 * the end, so the order of the walk never changes. No walk may straddle two configurations: one
 * that ends in the old one, unseen by the new copy, could be forgotten when the old copies die.
 * So the replacer freezes the configuration, waits until every sender that is at work has
 * finished, copies, and installs the next configuration:
 *
 *   sender:    raise intent; fence; look at the configuration   (frozen: lower it and wait)
 *   walker:    change words; fence; look at the configuration   (frozen: do not act yet)
 *   replacer:  freeze; fence; wait for intents; copy the words
 *
 * Either they see the freeze, or the replacer sees what they did. A walker that waited goes on to
 * the new copy. Receivers are not stopped: their cursors only grow, and they write them again when
 * they see the new configuration. A replacer that dies or takes too long is overruled by anyone
 * (view_wait_thawed), and finds out when its own walk loses.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "core.h"
#include "crc32c.h"

#define QUIET_POLL_NS 20000
#define RIVAL_POLL_NS 1000000

static const struct place config_at = {-1, offsetof(struct segment_header, config)};
static const struct place replacer_at = {-1, offsetof(struct segment_header, replacer)};

/* ---- copying ---- */

static void put(struct copy *to, struct place where, uint64_t value)
{
    STORE_RELAXED((word_t *)at_place(to, where), seal(value));
}

static int carry_word(struct view *view, struct copy *to, struct place where, enum age_shift shift)
{
    uint64_t value;
    int rc = settle(view, where, shift, &value);
    if (rc == 0)
        put(to, where, value);
    return rc;
}

static int carry_greatest(struct view *view, struct copy *to, struct place where)
{
    uint64_t value;
    int rc = greatest(view, where, &value);
    if (rc == 0)
        put(to, where, value);
    return rc;
}

static int carry_owner(struct view *view, struct copy *to, struct place where)
{
    struct place start = {where.box, where.offset + offsetof(struct owner_record, start)};
    struct place space = {where.box, where.offset + offsetof(struct owner_record, space)};
    int rc = carry_word(view, to, where, AGE_OWNER);
    if (rc == 0)
        rc = carry_word(view, to, start, AGE_IDENTITY);
    return rc ? rc : carry_word(view, to, space, AGE_IDENTITY);
}

static int copy_lane_record(struct view *view, struct copy *to, uint32_t lane)
{
    struct sender_record *from = sender_of(view->copy[0], lane), *target = sender_of(to, lane);
    int rc = carry_greatest(view, to, lane_place(lane, offsetof(struct sender_record, intent)));
    if (rc == 0)
        rc = carry_greatest(view, to, lane_place(lane, offsetof(struct sender_record, low)));
    if (rc == 0)
        rc = carry_word(view, to, lane_place(lane, offsetof(struct sender_record, cell)), AGE_CELL);
    if (rc == 0)
        rc = carry_owner(view, to, lane_place(lane, offsetof(struct sender_record, owner)));
    STORE_RELAXED(&target->boxes, LOAD_RELAXED(&from->boxes));
    for (int i = 0; i < 16; i++)
        STORE_RELAXED(&target->stats[i], LOAD_RELAXED(&from->stats[i]));
    return rc;
}

static int copy_receiver(struct view *view, struct copy *to, int box, uint32_t slot)
{
    struct sc_domain *d = view->domain;
    const struct mailbox *m = &d->boxes[box];
    struct receiver_record *from = receiver_of(d, view->copy[0], box, slot);
    struct receiver_record *target = receiver_of(d, to, box, slot);
    int rc = carry_owner(view, to, receiver_place(d, box, slot));
    STORE_RELAXED(&target->entry, LOAD_RELAXED(&from->entry));
    STORE_RELAXED(&target->exit, LOAD_RELAXED(&from->exit));
    for (int i = 0; i < 24; i++)
        STORE_RELAXED(&target->stats[i], LOAD_RELAXED(&from->stats[i]));
    for (uint32_t lane = 0; rc == 0 && lane < d->params.senders; lane++) {
        struct place row = {box, m->at.rows_at + slot * m->at.row_bytes + lane * sizeof(word_t)};
        rc = carry_greatest(view, to, row);
    }
    return rc;
}

/* D if any copy has it, else undefined: the counters start anew in the new, last copy. */
static uint64_t decision_of(struct view *view, int box, uint32_t lane, uint64_t slot_index)
{
    uint64_t value = 0;
    for (int i = 0; i < view->count; i++) {
        struct slot *s = slot_at(view->domain, view->copy[i], box, lane, slot_index);
        uint64_t found = sealed_value(LOAD_ACQUIRE(&s->decision));
        if (found >> 17 > value >> 17 || (found >> 17 == value >> 17 && (found & 3)))
            value = found & ~UINT64_C(0x1fffc);
    }
    return value;
}

/* Copies one message from the first copy that still holds it whole. None does if its sender left it
 * half written and it was decided against. */
static void copy_message(struct view *view, struct copy *to, int box, uint32_t lane,
                        uint64_t position)
{
    struct sc_domain *d = view->domain;
    struct slot *target = slot_at(d, to, box, lane, position), header;
    for (int i = 0; i < view->count; i++) {
        struct copy *from = view->copy[i];
        const struct slot *source = slot_at(d, from, box, lane, position);
        if (slot_read_header(view, from, box, lane, position, &header))
            continue;
        copy_to_shared(&target->position, &header.position, SLOT_FIXED_BYTES);
        copy_to_shared(target->payload, source->payload, header.bytes);
        bool whole = !d->boxes[box].params.checksum ||
                     crc32c(0, target->payload, header.bytes) == header.payload_crc;
        if (whole && !guard_is_lost(LOAD_RELAXED(&from->box_mapping[box])))
            return;
    }
}

static int copy_words(struct view *view, struct copy *to, int box, uint32_t lane, uint64_t index)
{
    struct slot *from = slot_at(view->domain, view->copy[0], box, lane, index);
    struct slot *target = slot_at(view->domain, to, box, lane, index);
    struct place accepted = {box, (uint64_t)((unsigned char *)&from->accepted -
                                             LOAD_RELAXED(&view->copy[0]->box[box]))};
    STORE_RELAXED(&target->decision, seal(decision_of(view, box, lane, index)));
    return carry_greatest(view, to, accepted);
}

/* Slots that nobody needs any more keep only their words. */
static int copy_slots(struct view *view, struct copy *to, int box, uint32_t lane)
{
    struct sc_domain *d = view->domain;
    struct lane_view all = {.members = ~UINT64_C(0)};
    int rc = lane_tail(view, box, lane, &all.position);
    if (rc == 0)
        rc = lane_room(view, box, lane, &all);
    for (uint64_t i = 0; rc == 0 && i < d->boxes[box].params.capacity; i++)
        rc = copy_words(view, to, box, lane, i);
    if (rc)
        return rc;
    uint64_t capacity = d->boxes[box].params.capacity, first = all.limit - capacity;
    if (all.position - first > capacity)             /* a cursor that makes no sense */
        first = all.position - capacity;
    for (uint64_t p = first; p < all.position; p++)
        copy_message(view, to, box, lane, p);
    return 0;
}

/* What lies in the mailbox's extent. */
static int copy_extent(struct view *view, struct copy *to, int box)
{
    struct sc_domain *d = view->domain;
    const struct mailbox *m = &d->boxes[box];
    /* The mailbox may be younger than the new segment, so the segment may be too short. */
    int rc = segment_grow(to, m->offset, m->at.bytes);
    if (rc == 0 && !LOAD_RELAXED(&to->box[box]))     /* mapped already in a second round */
        rc = segment_map_box(to, box, m->offset, m->at.bytes);
    if (rc)
        return rc;
    STORE_RELAXED(&mailbox_head(to, box)->members,
                  LOAD_RELAXED(&mailbox_head(view->copy[0], box)->members));
    for (uint32_t r = 0; rc == 0 && r < m->params.receivers; r++)
        rc = copy_receiver(view, to, box, r);
    for (uint32_t lane = 0; rc == 0 && lane < d->params.senders; lane++) {
        struct place tail = {box, m->at.lanes_at + lane * sizeof(struct lane_head)};
        rc = carry_greatest(view, to, tail);
        if (rc == 0)
            rc = copy_slots(view, to, box, lane);
    }
    return rc;
}

static int copy_box(struct view *view, struct copy *to, int box)
{
    struct sc_domain *d = view->domain;
    struct owner entry;
    int rc = owner_read(view, directory_place(d, box), &entry);
    if (rc)
        return rc;
    copy_to_shared(directory_of(d, to, box), directory_of(d, view->copy[0], box),
                   offsetof(struct directory_entry, owner));
    if ((rc = carry_owner(view, to, directory_place(d, box))) ||
        owner_state(entry.value) != OWNER_LIVE)
        return rc;
    if ((rc = mailbox_visit(view, box)))
        return rc;
    rc = copy_extent(view, to, box);
    mailbox_leave(d, box);
    return rc;
}

static int copy_everything(struct view *view, struct copy *to)
{
    struct sc_domain *d = view->domain;
    struct place end = {-1, offsetof(struct segment_header, extent_end)};
    int rc = carry_word(view, to, end, AGE_EXTENT);
    if (rc == 0)
        rc = carry_owner(view, to, replacer_at);
    for (uint32_t lane = 0; rc == 0 && lane < d->params.senders; lane++)
        rc = copy_lane_record(view, to, lane);
    for (int box = 0; rc == 0 && box < (int)d->params.mailboxes; box++)
        rc = copy_box(view, to, box);
    STORE_RELAXED(&header_of(to)->failed, view->failed);
    STORE_RELAXED(&header_of(to)->born, seal(1));
    return rc;
}

/* What was read from a copy that died meanwhile is zeros: then everything once more, from the others.
 * Each round has found another failure. */
static int copy_from_intact(struct view *view, struct copy *to)
{
    for (;;) {
        uint64_t failed = view->failed;
        int rc = copy_everything(view, to);
        if (rc == 0 && !view_is_current(view))
            rc = view_refresh(view);
        if (rc || view->failed == failed)
            return rc;
    }
}

/* ---- standing still ---- */

/* 1: somebody is between OWNED and LIVE and is writing. */
static int being_made(struct view *view, struct place where)
{
    struct owner owner;
    int rc = owner_read(view, where, &owner);
    return rc ? rc : owner_state(owner.value) == OWNER_OWNED;
}

static int anyone_making(struct view *view)
{
    struct sc_domain *d = view->domain;
    int busy = 0;
    for (uint32_t lane = 0; busy == 0 && lane < d->params.senders; lane++)
        busy = being_made(view, lane_place(lane, offsetof(struct sender_record, owner)));
    for (int box = 0; busy == 0 && box < (int)d->params.mailboxes; box++) {
        busy = being_made(view, directory_place(d, box));
        if (busy || mailbox_visit(view, box) != 0)
            continue;
        for (uint32_t r = 0; busy == 0 && r < d->boxes[box].params.receivers; r++)
            busy = being_made(view, receiver_place(d, box, r));
        mailbox_leave(d, box);
    }
    return busy;
}

/* Waits for the lane's sender to finish; ends its operation when it is overdue. */
static int wait_lane(struct view *view, uint32_t lane, uint64_t overdue)
{
    struct place where = lane_place(lane, offsetof(struct sender_record, intent));
    uint64_t intent;
    for (;;) {
        int rc = greatest(view, where, &intent);
        if (rc || (intent & 1))
            return rc;
        if (sys_now() >= overdue)
            return resolve_lane(view, lane, true);
        sys_sleep_until(sys_now() + QUIET_POLL_NS);
    }
}

/* One moment at which all are overdue: everybody stands still meanwhile, and ends a freeze that
 * lasts longer than a few Δs, so many stopped senders must not cost a Δs each. */
static int wait_quiet(struct view *view, uint64_t deadline)
{
    const struct sc_bounds *b = &view->domain->params.bounds;
    const uint64_t overdue = sys_now() + b->send_ns + b->epsilon_ns;
    int rc = 0;
    for (uint32_t lane = 0; rc == 0 && lane < view->domain->params.senders; lane++)
        rc = wait_lane(view, lane, overdue);
    while (rc == 0 && (rc = anyone_making(view)) > 0) {
        if (sys_now() >= deadline)
            return SC_FROZEN;
        sys_sleep_until(sys_now() + QUIET_POLL_NS);
        rc = 0;
    }
    return rc;
}

/* ---- the steps ---- */

static int configure(struct view *view, uint64_t wanted)
{
    uint64_t decided;
    int rc = agree_while_frozen(view, config_at, AGE_CONFIG, wanted, &decided);
    return rc ? rc : decided == wanted ? 0 : SC_EXISTS;
}

static int make_segment(struct view *view, int serial, struct copy *out)
{
    struct sc_domain *d = view->domain;
    struct place end = {-1, offsetof(struct segment_header, extent_end)};
    struct segment_fixed fixed = d->fixed;           /* not what a copy says now: nobody checked it */
    struct stat st;
    uint64_t taken;
    int rc = settle(view, end, AGE_EXTENT, &taken);
    if (rc)
        return rc;
    if (fstat(view->copy[0]->fd, &st) != 0)
        return -errno;
    fixed.serial = (uint64_t)serial;
    segment_unlink(d->name, fixed.serial);           /* left by a replacer that died */
    rc = segment_create(&fixed, extent_pages(taken) * PAGE_BYTES, st.st_mode, (int64_t)st.st_gid, out);
    /* Made by root, or by somebody of the group, it would keep out its members, or its remover. */
    if (rc == 0 && (rc = segment_give_to(out, (uint32_t)st.st_uid)))
        segment_close(out);
    return rc == -EPERM ? SC_NOT_OWNER : rc;         /* nor may everybody give it to the group */
}

static int freeze_and_copy(struct view *view, struct copy *new_copy, uint64_t deadline)
{
    struct sc_domain *d = view->domain;
    uint64_t version = config_version(view->config);
    int count = config_count(view->config);
    int rc = configure(view, config_make(version + 1, true, count));
    if (rc)
        return rc;
    FENCE_SEQ_CST();
    uint64_t next = config_make(version + 2, false, count + 1);
    rc = wait_quiet(view, deadline);
    if (rc == 0)
        rc = copy_from_intact(view, new_copy);
    if (rc == 0) {
        /* Not yet `next`: somebody who opens the domain now would believe it, though the walk may
         * still be lost to whoever ends our freeze. */
        STORE_RELEASE(&header_of(new_copy)->config, view->config);
        rc = segment_link(d->name, new_copy);
    }
    if (rc == 0)
        rc = configure(view, next);
    if (rc == 0)
        STORE_RELEASE(&header_of(new_copy)->config, seal(next)); /* it can stand alone now */
    if (rc) {
        segment_unlink(d->name, new_copy->serial);
        configure(view, config_make(version + 2, false, count));
    }
    return rc;
}

static int claim_right(struct view *view, struct owner *right)
{
    int rc = owner_read(view, replacer_at, right);
    if (rc == 0 && owner_is_dead(view, right))
        rc = owner_release(view, right);
    if (rc == 0 && owner_state(right->value) != OWNER_FREE)
        rc = SC_EXISTS;
    return rc ? rc : owner_claim(view, right);
}

/* SC_EXISTS: somebody else is at it, or has ended our freeze. */
static int replace_once(sc_domain *d, uint64_t deadline)
{
    struct view view;
    struct owner right;
    struct copy new_copy;
    int rc = check_usable(d);
    if (rc == 0)
        rc = view_open(&view, d);
    if (rc == 0)
        rc = domain_inspect(d, &view);
    if (rc || view.count >= (int)d->params.copies)
        return rc;
    int serial = LOAD_ACQUIRE(&d->copy_count);
    if (serial >= (int)SERIALS_MAX)
        return SC_EXHAUSTED;
    if ((rc = sc_domain_reap(d)) < 0 || (rc = view_wait_thawed(&view, deadline)) ||
        (rc = claim_right(&view, &right)))
        return rc;
    if ((rc = view_refresh(&view)) == 0 && LOAD_ACQUIRE(&d->copy_count) != serial)
        rc = SC_EXISTS;                              /* somebody was faster */
    if (rc == 0)
        rc = make_segment(&view, serial, &new_copy);
    if (rc == 0) {
        rc = freeze_and_copy(&view, &new_copy, deadline);
        segment_close(&new_copy);
    }
    if (rc == 0)
        rc = view_refresh(&view);
    owner_release(&view, &right);
    if (rc)
        return rc;
    for (int i = 0; i < serial; i++)
        if (sealed_value(view.failed) >> i & 1)
            segment_unlink(d->name, (uint64_t)i);
    domain_retire_failed(d);
    return 1;
}

/* Returns 1 if a copy was replaced, 0 if none has failed: any more, if another process was faster. */
int sc_domain_replace(sc_domain *d, uint64_t deadline)
{
    deadline = absolute(deadline);
    for (;;) {
        int rc = replace_once(d, deadline);
        if (rc != SC_EXISTS)
            return rc;
        if (sys_now() >= deadline)
            return SC_FROZEN;
        sys_sleep_until(sys_now() + RIVAL_POLL_NS);
    }
}
