/* stats.c: counters that lie in shared memory, read without disturbing their writers; clocks and
 * faults for tests. */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "crc32c.h"
#include "receiver.h"
#include "sender.h"

int sc_domain_sender_stats(sc_domain *d, int lane, struct sc_sender_stats *out)
{
    struct view view;
    struct owner owner;
    int rc = check_usable(d);
    if (rc == 0 && (lane < 0 || lane >= (int)d->params.senders))
        rc = SC_INVALID;
    if (rc == 0)
        rc = view_open(&view, d);
    if (rc == 0)
        rc = owner_read(&view, lane_place((uint32_t)lane, offsetof(struct sender_record, owner)),
                        &owner);
    if (rc)
        return rc;
    const word_t *s = sender_of(view.copy[0], (uint32_t)lane)->stats;
    *out = (struct sc_sender_stats){
        .held = owner_state(owner.value) == OWNER_LIVE,
        .pid = owner_pid(owner.value),
        .operations = LOAD_RELAXED(&s[STAT_OPERATIONS]),
        .messages = LOAD_RELAXED(&s[STAT_SENT]),
        .bytes = LOAD_RELAXED(&s[STAT_SENT_BYTES]),
        .rejected = LOAD_RELAXED(&s[STAT_REJECTED]),
        .full = LOAD_RELAXED(&s[STAT_FULL]),
        .late = LOAD_RELAXED(&s[STAT_LATE]),
        .worst_ns = LOAD_RELAXED(&s[STAT_SEND_WORST_NS]),
    };
    return 0;
}

static int depth_of(struct view *view, int box, uint32_t slot, uint64_t *depth)
{
    struct sc_domain *d = view->domain;
    const struct mailbox *m = &d->boxes[box];
    *depth = 0;
    for (uint32_t lane = 0; lane < d->params.senders; lane++) {
        struct place row = {box, m->at.rows_at + slot * m->at.row_bytes + lane * sizeof(word_t)};
        uint64_t tail, cursor;
        int rc = lane_tail(view, box, lane, &tail);
        if (rc == 0)
            rc = greatest(view, row, &cursor);
        if (rc)
            return rc;
        *depth += tail > cursor ? tail - cursor : 0;
    }
    return 0;
}

static int receiver_stats(struct view *view, int box, int slot, struct sc_receiver_stats *out)
{
    struct sc_domain *d = view->domain;
    struct owner owner;
    if (slot < 0 || slot >= (int)d->boxes[box].params.receivers)
        return SC_INVALID;
    int rc = owner_read(view, receiver_place(d, box, (uint32_t)slot), &owner);
    if (rc)
        return rc;
    const word_t *s = receiver_of(d, view->copy[0], box, (uint32_t)slot)->stats;
    uint64_t heartbeat = LOAD_RELAXED(&s[STAT_HEARTBEAT_NS]), now = sys_now();
    *out = (struct sc_receiver_stats){
        .held = owner_state(owner.value) == OWNER_LIVE,
        .pid = owner_pid(owner.value),
        .messages = LOAD_RELAXED(&s[STAT_RECEIVED]),
        .bytes = LOAD_RELAXED(&s[STAT_RECEIVED_BYTES]),
        .rejected = LOAD_RELAXED(&s[STAT_SAW_REJECTED]),
        .resolved = LOAD_RELAXED(&s[STAT_RESOLVED]),
        .violations = LOAD_RELAXED(&s[STAT_VIOLATIONS]),
        .sleeps = LOAD_RELAXED(&s[STAT_SLEEPS]),
        .worst_ns = LOAD_RELAXED(&s[STAT_RECEIVE_WORST_NS]),
        .late = LOAD_RELAXED(&s[STAT_DELIVERED_LATE]),
        .late_rounds = LOAD_RELAXED(&s[STAT_LATE_ROUNDS]),
        .late_peers = LOAD_RELAXED(&s[STAT_LATE_PEERS]),
        .evicted = LOAD_RELAXED(&s[STAT_EVICTED]),
        .silent_ns = heartbeat && now > heartbeat ? now - heartbeat : 0,
    };
    return out->held ? depth_of(view, box, (uint32_t)slot, &out->depth) : 0;
}

int sc_mailbox_receiver_stats(sc_domain *d, int box, int slot, struct sc_receiver_stats *out)
{
    struct view view;
    int rc = check_usable(d);
    if (rc == 0)
        rc = view_open(&view, d);
    if (rc == 0)
        rc = mailbox_visit(&view, box);
    if (rc)
        return rc;
    rc = receiver_stats(&view, box, slot, out);
    mailbox_leave(d, box);
    return rc;
}

/* Counts only grow, and a copy that came later may lag behind: the greatest of the copies. */
static void histogram_raise(const word_t *words, uint64_t *out)
{
    for (uint32_t b = 0; b < HISTOGRAM_WORDS; b++) {
        uint64_t count = LOAD_RELAXED(&words[b]);
        if (count > out[b])
            out[b] = count;
    }
}

int sender_histogram_read(struct view *view, uint32_t lane, uint64_t *out)
{
    memset(out, 0, HISTOGRAM_WORDS * sizeof *out);
    for (int i = 0; i < view->count; i++)
        histogram_raise(sender_histogram(view->domain, view->copy[i], lane), out);
    return view_is_current(view) ? 0 : view_refresh(view);
}

int sc_domain_sender_histogram(sc_domain *d, int lane, uint64_t *out)
{
    struct view view;
    int rc = check_usable(d);
    if (rc == 0 && (lane < 0 || lane >= (int)d->params.senders))
        rc = SC_INVALID;
    if (rc == 0)
        rc = view_open(&view, d);
    return rc ? rc : sender_histogram_read(&view, (uint32_t)lane, out);
}

int sc_mailbox_receiver_histogram(sc_domain *d, int box, int slot, uint64_t *out)
{
    struct view view;
    int rc = check_usable(d);
    if (rc == 0)
        rc = view_open(&view, d);
    if (rc == 0)
        rc = mailbox_visit(&view, box);
    if (rc)
        return rc;
    if (slot < 0 || slot >= (int)d->boxes[box].params.receivers)
        rc = SC_INVALID;
    memset(out, 0, HISTOGRAM_WORDS * sizeof *out);
    for (int i = 0; rc == 0 && i < view.count; i++)
        histogram_raise(receiver_histogram(d, view.copy[i], box, (uint32_t)slot), out);
    mailbox_leave(d, box);
    return rc;
}

uint64_t sc_domain_minor_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt;
}

uint64_t sc_now(void) { return sys_now(); }
uint64_t sc_clock(void) { return clock_from(sys_now()); }
void sc_clock_fault(int64_t offset_ns, int64_t drift_ppb) { clock_set_fault(offset_ns, drift_ppb); }
uint32_t sc_crc32c(const void *data, uint64_t bytes) { return crc32c(0, data, bytes); }

static struct copy *intact_copy(sc_domain *d, int copy)
{
    if (check_usable(d) || copy < 0 || copy >= LOAD_ACQUIRE(&d->copy_count))
        return NULL;
    return d->copies[copy].table ? &d->copies[copy] : NULL;
}

int sc_fault_poison(sc_domain *d, int serial)
{
    struct copy *copy = intact_copy(d, serial);
    if (!copy)
        return SC_MISSING;
    STORE_RELEASE(&header_of(copy)->config, 0);      /* not a sealed word */
    return 0;
}
