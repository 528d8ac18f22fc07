/* layout.h: everything that lies in shared memory, version 2.
 *
 * A domain has n copies. Copy i is one segment, /dev/shm/shmcast.<domain>.<i>, and holds the
 * whole domain: when it fails, all of it has failed.
 *
 *   0          4096            +senders*256     +mailboxes*256    +senders*2560   page
 *   | header   | sender table  | directory      | histograms      | ...           | mailbox 0 | ...
 *
 * One mailbox (an extent, page aligned; sizes follow from its directory entry):
 *
 *   | bells, members | receiver records | cursor rows   | lane heads | histograms     | slots
 *   | 256 bytes      | receivers*256    | receivers*row | senders*64 | receivers*2560 | senders*...
 *
 * Histograms (rt_histogram.h) have one writer each and are read by nobody on a message's path.
 *
 * One slot: 64 bytes of header, then the payload, padded to whole cache lines.
 *
 *   0          8           16          24   32            36     40        48         56    60    64
 *   | accepted | decision  | position  | ts | incarnation | size | sequence| op/to    | crc | crc | ...
 *   |  a-flag  |  D field  |                                                | payload, header
 *
 * Words marked "sealed" carry a check of their own (seal.h). Everything else that is read while
 * it may be garbage is covered by a CRC.
 */
#ifndef SHMCAST_LAYOUT_H
#define SHMCAST_LAYOUT_H

#include <stddef.h>

#include "api_types.h"
#include "api.h"
#include "atomics.h"
#include "rt_histogram.h"
#include "seal.h"

#define SEGMENT_MAGIC UINT64_C(0x0174736163686d73) /* "shmcast\1" */
#define LAYOUT_VERSION 2u
#define BYTE_ORDER_MARK 0x01020304u
#define PAGE_BYTES 4096u
#define LINE_BYTES 64u
#define SERIALS_MAX 48u             /* segments of one domain over its whole life */
#define MESSAGE_BYTES_MAX (UINT64_C(1) << 30)
#define CAPACITY_MAX (1u << 20)
#define BOUND_NS_MAX (UINT64_C(3600) * 1000000000) /* longer is no bound; sums cannot overflow */

/* Who holds a lane, a receiver's place, a directory entry or the right to replace a copy.
 * state: sealed version:22 | state:4 | pid:22. The version grows with every change.
 * start, space: sealed low version bits | start time in ticks / pid namespace. */
struct owner_record {
    word_t state;
    word_t start;
    word_t space;
};

/* Written once, before the segment has a name; covered by `crc`. */
struct segment_fixed {
    uint64_t magic;
    uint32_t layout_version;
    uint32_t byte_order;
    uint64_t domain_id[2];
    uint8_t boot_id[16];
    uint64_t serial;
    uint64_t table_bytes;
    uint32_t copies;
    uint32_t senders;
    uint32_t mailboxes;
    uint32_t protocol;
    struct sc_bounds bounds;
    uint64_t creator_pid;
    uint64_t creator_start;
    uint64_t creator_space;
    char name[SC_NAME_MAX + 4];
    uint32_t reserved;
    uint32_t crc;
};

struct segment_header {
    struct segment_fixed fixed;
    char pad0[1024 - sizeof(struct segment_fixed)];
    /* Read by every operation, written almost never. */
    word_t config;                  /* sealed version:32 | frozen:1 | count:7 */
    word_t failed;                  /* sealed set of failed serials; bits are only added */
    word_t born;                    /* sealed 1 once every copy has its name */
    word_t removed;                 /* sealed 1 once the domain is being removed */
    char pad1[32];
    word_t extent_end;              /* sealed version:12 | pages given out:30 | last taker's box:6 */
    struct owner_record replacer;
    char pad2[PAGE_BYTES - 1024 - 96];
};

/* One sender of the domain: its intent and the decision on its last operation. */
struct sender_record {
    /* Receivers poll this line, so the sender writes it in two bursts only. */
    word_t intent;                  /* sealed op:47 | done:1 */
    word_t low;                     /* sealed: ts >> LOW_SHIFT, lower bound of the op's timestamp */
    word_t boxes;                   /* sealed set of mailboxes the op is for */
    char pad0[40];
    /* Touched by others only when something went wrong. */
    word_t cell;                    /* sealed op:46 | decision:2; older op means undecided */
    struct owner_record owner;
    char pad1[32];
    word_t stats[16];               /* single writer, never read on a message's path */
};

#define LOW_SHIFT 10                /* 48 bits of 1.024 us: nine years of uptime */

struct directory_entry {
    char name[SC_NAME_MAX + 4];
    uint64_t message_bytes;
    uint32_t capacity;
    uint32_t receivers;
    uint32_t checksum;
    uint32_t evict;
    uint64_t offset;
    uint64_t bytes;
    uint32_t reserved;
    uint32_t crc;                   /* of all above */
    char pad[40];
    struct owner_record owner;      /* OWNED: being made, LIVE: in use, FREE: none */
    char pad1[40];
};

struct mailbox_head {
    bell_t ring;                    /* receivers sleep here; bit 0: somebody may */
    char pad0[60];
    bell_t space;                   /* senders sleep here until there is room */
    char pad1[60];
    word_t members;                 /* grows whenever a receiver comes or goes */
    char pad2[120];
};

struct receiver_record {
    struct owner_record owner;
    word_t entry;                   /* sealed ts >> LOW_SHIFT, rounded up; ENTRY_NONE before */
    word_t exit;                    /* sealed ts >> LOW_SHIFT, rounded up; EXIT_NONE while staying */
    char pad0[24];
    word_t stats[24];
};

#define ENTRY_NONE SEAL_MAX
#define EXIT_NONE SEAL_MAX

struct lane_head {
    word_t tail;                    /* sealed: all positions below are decided; may lag behind */
    char pad[56];
};

struct slot {
    word_t accepted;                /* sealed position + 1 of the last accepted message */
    word_t decision;                /* `crash`, `timing`: sealed, tagged with the position */
    uint64_t position;
    uint64_t timestamp;
    uint32_t incarnation;           /* of the sender in this lane */
    uint32_t bytes;
    uint64_t sequence;
    uint64_t op_or_addressed;       /* eager: operation; else: set of receivers addressed */
    uint32_t payload_crc;
    uint32_t header_crc;            /* from `position` to `payload_crc` */
    unsigned char payload[];
};

#define SLOT_FIXED_AT offsetof(struct slot, position)
#define SLOT_FIXED_BYTES (offsetof(struct slot, payload) - SLOT_FIXED_AT)

_Static_assert(sizeof(struct sc_bounds) == 64, "layout v2");
_Static_assert(HISTOGRAM_WORDS == SC_HISTOGRAM_WORDS && HISTOGRAM_WORDS % 8 == 0, "layout v2: whole lines");
_Static_assert(sizeof(struct segment_fixed) == 280, "layout v2");
_Static_assert(offsetof(struct segment_header, config) == 1024, "layout v2");
_Static_assert(offsetof(struct segment_header, extent_end) == 1088, "layout v2");
_Static_assert(sizeof(struct segment_header) == PAGE_BYTES, "layout v2");
_Static_assert(offsetof(struct sender_record, boxes) == 16, "layout v2: one hot line");
_Static_assert(offsetof(struct sender_record, cell) == 64, "layout v2");
_Static_assert(offsetof(struct sender_record, owner) == 72, "layout v2");
_Static_assert(offsetof(struct sender_record, stats) == 128, "layout v2");
_Static_assert(sizeof(struct sender_record) == 256, "layout v2");
_Static_assert(offsetof(struct directory_entry, crc) == 148, "layout v2");
_Static_assert(offsetof(struct directory_entry, owner) == 192, "layout v2");
_Static_assert(sizeof(struct directory_entry) == 256, "layout v2");
_Static_assert(offsetof(struct mailbox_head, space) == 64, "layout v2");
_Static_assert(offsetof(struct mailbox_head, members) == 128, "layout v2");
_Static_assert(sizeof(struct mailbox_head) == 256, "layout v2");
_Static_assert(offsetof(struct receiver_record, stats) == 64, "layout v2");
_Static_assert(sizeof(struct receiver_record) == 256, "layout v2");
_Static_assert(sizeof(struct lane_head) == 64, "layout v2");
_Static_assert(offsetof(struct slot, position) == 16, "layout v2");
_Static_assert(offsetof(struct slot, header_crc) == 60, "layout v2");
_Static_assert(sizeof(struct slot) == 64, "layout v2: one line of header");

/* Where things are in a mailbox's extent, computed from its parameters alone. */
struct extent_layout {
    uint64_t receivers_at, rows_at, row_bytes, lanes_at, histograms_at, slots_at, slot_bytes, bytes;
};

static inline bool bounds_ok(const struct sc_bounds *b)
{
    return b->send_ns > 0 && b->poll_ns > 0 && b->send_ns <= BOUND_NS_MAX &&
           b->receive_ns <= BOUND_NS_MAX && b->decide_ns <= BOUND_NS_MAX &&
           b->epsilon_ns <= BOUND_NS_MAX && b->poll_ns <= BOUND_NS_MAX &&
           b->expiry_ns <= 2 * BOUND_NS_MAX && b->hold_ns <= BOUND_NS_MAX;
}

static inline uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

static inline struct extent_layout extent_layout(const struct sc_mailbox_params *p, uint32_t senders)
{
    struct extent_layout at;
    at.receivers_at = sizeof(struct mailbox_head);
    at.rows_at = at.receivers_at + (uint64_t)p->receivers * sizeof(struct receiver_record);
    at.row_bytes = round_up((uint64_t)senders * sizeof(word_t), LINE_BYTES);
    at.lanes_at = at.rows_at + p->receivers * at.row_bytes;
    at.histograms_at = at.lanes_at + (uint64_t)senders * sizeof(struct lane_head);
    at.slots_at = at.histograms_at + (uint64_t)p->receivers * HISTOGRAM_WORDS * sizeof(word_t);
    at.slot_bytes = sizeof(struct slot) + round_up(p->message_bytes, LINE_BYTES);
    at.bytes = round_up(at.slots_at + (uint64_t)senders * p->capacity * at.slot_bytes, PAGE_BYTES);
    return at;
}

#define EXTENT_PAGES_MAX (UINT64_C(1) << 30)

/* The taker is in it, so that two who take as much at once do not both find what they proposed. */
static inline uint64_t extent_end(uint64_t version, uint64_t pages, int box)
{
    return (version & 0xfff) << 36 | pages << 6 | (uint64_t)box;
}

static inline uint64_t extent_version(uint64_t value) { return value >> 36; }
static inline uint64_t extent_pages(uint64_t value) { return value >> 6 & (EXTENT_PAGES_MAX - 1); }

static inline uint64_t sender_at(uint32_t lane)
{
    return sizeof(struct segment_header) + (uint64_t)lane * sizeof(struct sender_record);
}

static inline uint64_t directory_at(uint32_t senders, uint32_t box)
{
    return sender_at(senders) + (uint64_t)box * sizeof(struct directory_entry);
}

static inline uint64_t sender_histogram_at(uint32_t senders, uint32_t mailboxes, uint32_t lane)
{
    return directory_at(senders, mailboxes) + (uint64_t)lane * HISTOGRAM_WORDS * sizeof(word_t);
}

static inline uint64_t table_bytes(uint32_t senders, uint32_t mailboxes)
{
    return round_up(sender_histogram_at(senders, mailboxes, senders), PAGE_BYTES);
}

#endif
