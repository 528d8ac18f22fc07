/* core.h: what one process knows of a domain. Nothing here lies in shared memory.
 *
 *   sc_domain      the segments, mapped; shared by all handles of the process
 *   struct view    which copies a handle regards as intact, and on which configuration
 *   struct mailbox one mailbox, mapped in every copy
 *
 * Each sender, receiver and decision thread has a view of its own, so that no lock is needed on
 * the path of a message; the domain's mutex guards the list of mappings, which changes only when
 * a mailbox is first used or a copy is replaced.
 */
#ifndef SHMCAST_CORE_H
#define SHMCAST_CORE_H

#include <errno.h>
#include <pthread.h>

#include "clock.h"
#include "guard.h"
#include "layout.h"

struct copy {
    uint64_t serial;
    int fd;
    _Atomic bool failed;                             /* as this process knows */
    bool retired;
    int table_mapping;
    unsigned char *table;
    _Atomic int box_mapping[SC_MAILBOXES_MAX];
    unsigned char *_Atomic box[SC_MAILBOXES_MAX];    /* NULL until used */
};

/* A dead sender's last message in `timing`, since when it is known here to be undecided. */
struct leftover { uint64_t version, tag, noticed; };

struct mailbox {
    _Atomic bool open;
    uint64_t version;                                /* of the directory entry */
    _Atomic int users;                               /* handles that hold pointers into it */
    _Atomic int visits;                              /* operations that look into it and go again */
    struct sc_mailbox_params params;
    struct extent_layout at;
    uint64_t offset;
    struct leftover leftovers[SC_SENDERS_MAX];       /* by lane, guarded by the domain's lock */
};

struct sc_domain {
    char name[SC_NAME_MAX + 4];
    struct sc_domain_params params;
    struct segment_fixed fixed;                      /* of the first copy, as it was checked */
    uint64_t id[2];
    uint32_t fork_generation;
    pthread_mutex_t lock;
    _Atomic int copy_count;                          /* serials 0 .. count-1 have been looked at */
    struct copy copies[SERIALS_MAX];
    struct mailbox boxes[SC_MAILBOXES_MAX];
    _Atomic int leases;                              /* views and loans held by the application */
};

/* The intact copies in the one order that everybody walks. */
struct view {
    struct sc_domain *domain;
    uint64_t config;                                 /* sealed words that every copy showed */
    uint64_t failed;
    uint32_t faults;                                 /* guard_faults when last looked */
    int seen;                                        /* serials below are in `copy` or failed */
    uint64_t *deadline;                              /* of the operation at work; NULL: none */
    int count;
    struct copy *copy[SC_COPIES_MAX * 2];
};

/* A place in every copy: in the tables, or in a mailbox's extent. */
struct place {
    int box;                                         /* -1: tables */
    uint64_t offset;
};

/* ---- view.c ---- */
int view_open(struct view *view, struct sc_domain *domain);
int view_refresh(struct view *view);                 /* 0, or SC_LOST, SC_REMOVED */
void view_fail(struct view *view, struct copy *copy);
int view_doubt(struct view *view, struct copy *copy, int box);
bool config_ok(uint64_t sealed_config);
bool config_frozen(uint64_t sealed_config);
int config_count(uint64_t sealed_config);
uint64_t config_version(uint64_t sealed_config);
uint64_t config_make(uint64_t version, bool frozen, int count);
int view_wait_thawed(struct view *view, uint64_t deadline);

static inline struct segment_header *header_of(const struct copy *copy)
{
    return (struct segment_header *)copy->table;
}

static inline struct sender_record *sender_of(const struct copy *copy, uint32_t lane)
{
    return (struct sender_record *)(copy->table + sender_at(lane));
}

static inline unsigned char *at_place(const struct copy *copy, struct place where)
{
    unsigned char *base = where.box < 0 ? copy->table : LOAD_RELAXED(&copy->box[where.box]);
    return base + where.offset;
}

/* True when no copy has failed, appeared or been frozen since the last look; a view without copies
 * is never current, or everything would succeed in it. The loads are of lines that hardly change. [V1] acquire: pairs with the release in fail_in and agree. */
static inline bool view_is_current(const struct view *view)
{
    if (LOAD_RELAXED(&guard_faults) != view->faults || view->count == 0)
        return false;
    for (int i = 0; i < view->count; i++) {
        const struct segment_header *h = header_of(view->copy[i]);
        if (LOAD_ACQUIRE(&h->failed) != view->failed || LOAD_ACQUIRE(&h->config) != view->config)
            return false;
    }
    return true;
}

/* ---- agree.c ---- */
enum age_shift { AGE_OWNER = 26, AGE_IDENTITY = 40, AGE_CELL = 2, AGE_CONFIG = 8,
                 AGE_EXTENT = 36 };
int carry(word_t *word, enum age_shift shift, uint64_t *estimate);
struct copy *view_next(const struct view *view, uint64_t serial);
int agree(struct view *view, struct place where, enum age_shift shift, uint64_t proposal,
          uint64_t *decided);
int agree_unless_frozen(struct view *view, struct place where, enum age_shift shift,
                        uint64_t proposal, uint64_t *decided);
int agree_while_frozen(struct view *view, struct place where, enum age_shift shift,
                       uint64_t proposal, uint64_t *decided);
int settle(struct view *view, struct place where, enum age_shift shift, uint64_t *value);
int greatest(struct view *view, struct place where, uint64_t *value);

/* ---- owner.c ---- */
enum owner_state { OWNER_FREE, OWNER_CLAIMED, OWNER_OWNED, OWNER_LIVE };
struct owner {
    struct place where;
    uint64_t value;                                  /* unsealed state word */
};
static inline uint32_t owner_version(uint64_t value) { return (uint32_t)(value >> 26); }
static inline enum owner_state owner_state(uint64_t value) { return (value >> 22) & 15; }
static inline uint32_t owner_pid(uint64_t value) { return value & 0x3fffff; }
int owner_read(struct view *view, struct place where, struct owner *out);
int owner_claim(struct view *view, struct owner *owner);   /* FREE -> OWNED by this process */
int owner_publish(struct view *view, struct owner *owner); /* OWNED -> LIVE */
int owner_release(struct view *view, struct owner *owner); /* -> FREE, also for the dead */
bool owner_is_dead(struct view *view, const struct owner *owner);

/* ---- format.c ---- */
void format_table(struct copy *copy, const struct segment_fixed *fixed);
void format_box(unsigned char *base, const struct mailbox *m, uint32_t senders);

/* ---- segment.c ---- */
int segment_name_ok(const char *name);
int segment_create(const struct segment_fixed *fixed, uint64_t bytes, uint32_t mode,
                   int64_t group_id, struct copy *out);
int segment_give_to(struct copy *copy, uint32_t user_id);
int segment_link(const char *domain, struct copy *copy);
int segment_open(const char *domain, uint64_t serial, struct copy *out,
                 struct segment_fixed *fixed);
int segment_unlink(const char *domain, uint64_t serial);
int segment_hold_name(const char *domain, uint64_t serial);
void segment_release_name(const char *domain, uint64_t serial, int held, bool take_away);
int segment_list(const char *domain, uint64_t *serials, int max);
int segment_map_box(struct copy *copy, int box, uint64_t offset, uint64_t bytes);
int segment_grow(struct copy *copy, uint64_t offset, uint64_t bytes);
void segment_close(struct copy *copy);

/* ---- domain.c ---- */
int domain_adopt_copy(struct sc_domain *domain, int serial);
int domain_find_later(struct sc_domain *domain);
int domain_inspect(struct sc_domain *domain, struct view *view);
void domain_retire_failed(struct sc_domain *domain);

/* ---- mailbox.c ---- */
int mailbox_use(struct view *view, int box);         /* for a handle: counts it in `users` */
int mailbox_visit(struct view *view, int box);       /* until mailbox_leave */
static inline void mailbox_leave(struct sc_domain *d, int box) { COUNT_DOWN(&d->boxes[box].visits); }
void mailbox_return_pages(struct view *view, int box);
int extent_take(struct view *view, int box, uint64_t pages, uint64_t *offset);
static inline struct mailbox_head *mailbox_head(const struct copy *copy, int box)
{
    return (struct mailbox_head *)LOAD_RELAXED(&copy->box[box]);
}
static inline struct directory_entry *directory_of(const struct sc_domain *d,
                                                   const struct copy *copy, int box)
{
    return (struct directory_entry *)(copy->table + directory_at(d->params.senders, (uint32_t)box));
}
static inline struct place directory_place(const struct sc_domain *d, int box)
{
    return (struct place){-1, directory_at(d->params.senders, (uint32_t)box) +
                                  offsetof(struct directory_entry, owner)};
}
static inline struct place lane_place(uint32_t lane, size_t field)
{
    return (struct place){-1, sender_at(lane) + field};
}

/* ---- turn.c: threads of this process use a handle one after the other ---- */
struct turn {
    _Atomic uint32_t taken;
    _Atomic bool ended;                              /* nobody gets a turn any more */
};
int turn_wait(struct turn *turn, uint64_t *deadline); /* 0, SC_TIMEOUT, SC_CLOSED */
static inline int turn_take(struct turn *turn, uint64_t *deadline)
{
    uint32_t free = 0;
    return CAS_ACQ_REL(&turn->taken, &free, 1) ? 0 : turn_wait(turn, deadline);
}
int turn_end(struct turn *turn);                     /* the last turn; -EALREADY if it was taken */
/* A plain store: an exchange here would wait for every store of the operation to be visible. */
static inline void turn_give(struct turn *turn) { STORE_RELEASE(&turn->taken, 0); }

/* See api.h: the highest bit means "from now on". */
static inline uint64_t absolute(uint64_t deadline)
{
    const uint64_t relative = UINT64_C(1) << 63;
    if (deadline == FOREVER)
        return deadline;
    deadline &= ~SC_UNCOUNTED;
    return deadline & relative ? sys_now() + (deadline & ~relative) : deadline;
}

/* The caller will come again at once, with more time. */
static inline bool is_hurried(uint64_t deadline)
{
    return deadline != FOREVER && (deadline & SC_UNCOUNTED);
}

/* Whoever waits first makes an operation's deadline absolute, for all who wait after: several waits
 * in one operation end at one moment. */
static inline uint64_t pin(uint64_t *deadline)
{
    uint64_t when = absolute(*deadline);
    *deadline = when == FOREVER ? when : when | (*deadline & SC_UNCOUNTED);
    return when;
}

static inline uint64_t view_deadline(const struct view *view)
{
    return view->deadline ? pin(view->deadline) : FOREVER;
}

static inline int check_usable(const struct sc_domain *domain)
{
    return domain->fork_generation == sys_fork_generation() ? 0 : SC_FORKED;
}

/* ---- lane.c ---- */
struct lane_view {                                   /* one lane of one mailbox */
    bool attached;
    uint64_t position;                               /* next to write, or to read */
    uint64_t limit;                                  /* positions below may be written */
    uint64_t full_since;                             /* no room, and none was made; 0: there was */
    uint64_t members;                                /* the mailbox's counter, when last looked */
    uint64_t failed;                                 /* which copies were out then */
    uint64_t receivers;                              /* set of places that were taken then */
};
static inline struct slot *slot_at(const struct sc_domain *d, const struct copy *copy, int box,
                                   uint32_t lane, uint64_t position)
{
    const struct mailbox *m = &d->boxes[box];
    uint64_t index = (uint64_t)lane * m->params.capacity + (position & (m->params.capacity - 1));
    return (struct slot *)(LOAD_RELAXED(&copy->box[box]) + m->at.slots_at +
                           index * m->at.slot_bytes);
}
static inline word_t *cursor_at(const struct sc_domain *d, const struct copy *copy, int box,
                                uint32_t receiver, uint32_t lane)
{
    const struct mailbox *m = &d->boxes[box];
    return (word_t *)(LOAD_RELAXED(&copy->box[box]) + m->at.rows_at + receiver * m->at.row_bytes +
                      lane * sizeof(word_t));
}
static inline struct receiver_record *receiver_of(const struct sc_domain *d,
                                                  const struct copy *copy, int box, uint32_t slot)
{
    return (struct receiver_record *)(LOAD_RELAXED(&copy->box[box]) + d->boxes[box].at.receivers_at) +
           slot;
}
static inline struct lane_head *lane_head_of(const struct sc_domain *d, const struct copy *copy,
                                             int box, uint32_t lane)
{
    return (struct lane_head *)(LOAD_RELAXED(&copy->box[box]) + d->boxes[box].at.lanes_at) + lane;
}
static inline word_t *sender_histogram(const struct sc_domain *d, const struct copy *copy,
                                       uint32_t lane)
{
    return (word_t *)(copy->table +
                      sender_histogram_at(d->params.senders, d->params.mailboxes, lane));
}
static inline word_t *receiver_histogram(const struct sc_domain *d, const struct copy *copy, int box,
                                         uint32_t slot)
{
    return (word_t *)(LOAD_RELAXED(&copy->box[box]) + d->boxes[box].at.histograms_at) +
           slot * HISTOGRAM_WORDS;
}
static inline struct place receiver_place(const struct sc_domain *d, int box, uint32_t slot)
{
    return (struct place){box, d->boxes[box].at.receivers_at +
                                   slot * sizeof(struct receiver_record)};
}
/* The D field of `crash` and `timing`: sealed tag:31 | nrd:7 | nxp:7 | LD:1 | D:2. The tag is the
 * position + 1, so a word left from an earlier lap reads as "no message here". */
static inline uint64_t decision_tag(uint64_t position) { return ((position + 1) & 0x7fffffff) << 17; }
static inline bool decision_is_for(uint64_t value, uint64_t position)
{
    return (value & ~UINT64_C(0x1ffff)) == decision_tag(position);
}
/* How many positions later than this one the word's message is; 0 if it is not later. Whoever is told to
 * decide on a position may come so late that the slot has been used again: what is there then must
 * stand. */
static inline uint64_t decision_ahead(uint64_t value, uint64_t position)
{
    uint64_t ahead = ((value >> 17) - (position + 1)) & 0x7fffffff; /* the tag has 31 bits */
    return ahead < UINT64_C(1) << 30 ? ahead : 0;
}
uint32_t slot_header_crc(const struct slot *header);
int slot_read_header(struct view *view, struct copy *copy, int box, uint32_t lane,
                     uint64_t position, struct slot *header);
int lane_tail(struct view *view, int box, uint32_t lane, uint64_t *position);
int lane_members(struct view *view, int box, struct lane_view *own);
int lane_room(struct view *view, int box, uint32_t lane, struct lane_view *own);
int lane_wait_room(struct view *view, int box, uint32_t lane, struct lane_view *own,
                   uint32_t count, uint64_t *deadline, _Atomic bool *closing);

/* ---- resolve.c ---- */
static inline uint64_t intent_busy(uint64_t op) { return op << 1; }
static inline uint64_t intent_done(uint64_t op) { return op << 1 | 1; }
enum decision { UNDECIDED = 0, ACCEPT = 1, REJECT = 2 };
static inline uint64_t cell_make(uint64_t op, enum decision d) { return op << 2 | d; }
int resolve_operation(struct view *view, uint32_t lane, uint64_t op, int box, bool frozen_by_us,
                      enum decision *decided);

int resolve_lane(struct view *view, uint32_t lane, bool frozen_by_us);

/* ---- crash.c ---- */
/* After a dead copy, before the next one is touched; see crash.c. */
static inline uint64_t crash_delay_ns(const struct sc_bounds *b)
{
    return 2 * b->decide_ns + b->epsilon_ns;
}
int crash_decide(struct view *view, int box, uint32_t lane, uint64_t position,
                 enum decision *decided, uint64_t *violations);

/* ---- receive_timing.c ---- */
/* So long after its timestamp there should have been a quorum long ago. */
static inline uint64_t quorum_patience(const struct sc_bounds *b)
{
    return b->expiry_ns + b->receive_ns + b->send_ns + 2 * b->epsilon_ns;
}
int timing_conclude(struct view *view, int box, uint32_t lane, uint64_t position, bool overdue);

/* ---- reap.c ---- */
int reap_lane(struct view *view, uint32_t lane);
int reap_receiver(struct view *view, int box, uint32_t slot);
int receiver_release(struct view *view, int box, struct owner *owner);

/* ---- wait.c ---- */
bool receivers_asleep(const struct view *view, int box);
void ring_receivers(const struct view *view, int box);
void ring_senders(const struct view *view, int box);
uint32_t bell_arm(bell_t *bell);

#endif
