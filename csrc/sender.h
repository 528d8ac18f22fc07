/* sender.h: one sender's handle. */
#ifndef SHMCAST_SENDER_H
#define SHMCAST_SENDER_H

#include "overrun.h"
#include "rt_histogram.h"

enum sender_stat { STAT_OPERATIONS, STAT_SENT, STAT_SENT_BYTES, STAT_REJECTED, STAT_FULL,
                   STAT_LATE, STAT_SEND_WORST_NS };

#define COPY_BLOCK_BYTES 49152u                      /* whole rounds of the checksum */

/* A send whose outcome was open when its time was over. */
struct undecided {
    struct sc_receipt receipt;
    int box;                                         /* the lowest */
    uint64_t overdue;                                /* true time: then its sender sees to it */
    enum decision decided;
};

struct sc_sender {
    struct sc_domain *domain;
    uint32_t fork_generation;
    struct view view;
    uint32_t lane;
    struct owner owner;
    uint64_t op;
    uint64_t last_ts;
    uint64_t low;                                    /* clock >> LOW_SHIFT when last read */
    uint64_t sequence;
    struct turn turn;
    struct lane_view lanes[SC_MAILBOXES_MAX];
    uint64_t stats[8];
    bool raise_late, was_late;
    uint64_t began;                                  /* `eager`: before a large payload; 0: see ts */
    uint64_t took;                                   /* timed: the longest message of the operation */
    struct overruns overruns;
    uint64_t histogram[HISTOGRAM_WORDS];             /* of completion times */
    bool in_doubt;                                   /* `eager`: operation `op` was cut short */
    struct undecided last_open;                      /* of the last SC_UNDECIDED */
    uint32_t payload_crc[SC_BATCH_MAX];
    struct sc_part packed[SC_BATCH_MAX];
    unsigned char block[COPY_BLOCK_BYTES];           /* of a payload on its way into the copies */
    struct {
        bool active;
        int box;
        struct copy *copy;
        unsigned char *data;
        uint64_t bytes;
    } loan;
};

/* One operation: the same messages to every mailbox of the set. */
struct operation {
    uint64_t boxes;
    const struct sc_part *parts;
    uint32_t count;
    uint64_t *deadline;
    struct copy *in_place;                           /* this copy holds the payload already */
};

int sender_histogram_read(struct view *view, uint32_t lane, uint64_t *out); /* stats.c */
int intent_raise(struct sc_sender *s, const struct operation *op);
void intent_lower(struct sc_sender *s);
int operation_eager(struct sc_sender *s, const struct operation *op, uint64_t *ts);
int sender_settle(struct sc_sender *s);
void sender_detach(struct sc_sender *s);             /* from its mailboxes: where they end is not sure */
int operation_timed(struct sc_sender *s, const struct operation *op, uint64_t *ts);

static inline uint32_t incarnation(const struct sc_sender *s)
{
    return owner_version(s->owner.value);
}

/* The payloads go to every copy before anything else: their slots are free, nobody looks there
 * yet, and an intent should not stand up while megabytes are copied. SC_COPY_FAILED: the copy that
 * a loan was written in is gone, and the payload with it. */
int payloads_write(struct sc_sender *s, const struct operation *op);
void header_make(const struct sc_sender *s, const struct operation *op, uint32_t i, int box,
                 uint64_t ts, uint64_t extra, struct slot *header);
void header_write(const struct sc_sender *s, int box, struct copy *copy,
                  const struct slot *header);

#endif
