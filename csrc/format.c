/* format.c: what a new segment and a new mailbox hold before anybody uses them. Pages come zeroed, and
 * zero is no sealed word; so every sealed word gets its first value here. */
#include "core.h"

static void format_owner(struct owner_record *owner)
{
    STORE_RELAXED(&owner->state, seal(0));
    STORE_RELAXED(&owner->start, seal(0));
    STORE_RELAXED(&owner->space, seal(0));
}

void format_table(struct copy *copy, const struct segment_fixed *fixed)
{
    struct segment_header *h = header_of(copy);
    copy_to_shared(&h->fixed, fixed, sizeof *fixed);
    STORE_RELAXED(&h->config, seal(config_make(0, false, (int)fixed->copies)));
    STORE_RELAXED(&h->failed, seal(0));
    STORE_RELAXED(&h->born, seal(0));
    STORE_RELAXED(&h->removed, seal(0));
    STORE_RELAXED(&h->extent_end, seal(extent_end(0, fixed->table_bytes / PAGE_BYTES, 0)));
    format_owner(&h->replacer);
    for (uint32_t lane = 0; lane < fixed->senders; lane++) {
        struct sender_record *s = sender_of(copy, lane);
        STORE_RELAXED(&s->intent, seal(intent_done(0)));
        STORE_RELAXED(&s->low, seal(0));
        STORE_RELAXED(&s->boxes, seal(0));
        STORE_RELAXED(&s->cell, seal(0));
        format_owner(&s->owner);
    }
    for (uint32_t box = 0; box < fixed->mailboxes; box++)
        format_owner(&((struct directory_entry *)(copy->table + directory_at(fixed->senders, box)))
                          ->owner);
}

void format_box(unsigned char *base, const struct mailbox *m, uint32_t senders)
{
    for (uint32_t r = 0; r < m->params.receivers; r++) {
        struct receiver_record *rec = (struct receiver_record *)(base + m->at.receivers_at) + r;
        format_owner(&rec->owner);
        STORE_RELAXED(&rec->entry, seal(ENTRY_NONE));
        STORE_RELAXED(&rec->exit, seal(EXIT_NONE));
        word_t *row = (word_t *)(base + m->at.rows_at + r * m->at.row_bytes);
        for (uint32_t lane = 0; lane < senders; lane++)
            STORE_RELAXED(&row[lane], seal(0));
    }
    for (uint32_t lane = 0; lane < senders; lane++) {
        struct lane_head *head = (struct lane_head *)(base + m->at.lanes_at) + lane;
        STORE_RELAXED(&head->tail, seal(0));
    }
    for (uint64_t i = 0; i < (uint64_t)senders * m->params.capacity; i++) {
        struct slot *slot = (struct slot *)(base + m->at.slots_at + i * m->at.slot_bytes);
        STORE_RELAXED(&slot->accepted, seal(0));
        STORE_RELAXED(&slot->decision, seal(0));
    }
}
