/* traffic.c: see traffic.h. Each payload names its sender and its place in the sender's row, and
 * the rest of it follows from those, so a receiver can tell a wrong byte. */
#define _GNU_SOURCE
#include "traffic.h"

#include <unistd.h>

#define BATCH 3
#define PLACES 6                     /* for receivers */
#define HEAD_BYTES 16u
#define MESSAGES_PER_HANDLE 20
#define THE_END UINT64_MAX           /* the counter of the last message of all */

/* ---- arenas ---- */

/* Bounds that threads under a sanitizer keep on a busy machine. */
static struct sc_bounds patient_bounds(int protocol)
{
    uint64_t send = protocol == SC_EAGER ? 2000 * MS : 120 * MS, decide = MS / 5;
    return (struct sc_bounds){.send_ns = send,
                              .receive_ns = 60 * MS,
                              .decide_ns = decide,
                              .poll_ns = 5 * MS,
                              .expiry_ns = send + 60 * MS,
                              .hold_ns = 50 * MS};
}

struct arena arena_open(int protocol, int copies, int boxes, uint32_t evict)
{
    static char name[64];
    static const char *const names[] = {"first", "second"};
    struct arena a = {.name = name, .boxes = boxes};
    struct sc_mailbox_params p = {.message_bytes = MESSAGE_BYTES, .capacity = 32, .receivers = PLACES,
                                  .checksum = 1, .evict = evict};
    a.params = (struct sc_domain_params){.copies = (uint32_t)copies, .senders = 6,
                                         .mailboxes = (uint32_t)boxes + 1,
                                         .protocol = (uint32_t)protocol, .mode = 0600,
                                         .group_id = -1, .bounds = patient_bounds(protocol)};
    snprintf(name, sizeof name, "stress-%d", (int)getpid());
    MUST(sc_domain_create(name, &a.params, &a.domain));
    for (int box = 0; box < boxes; box++)
        CHECK(sc_mailbox_create(a.domain, names[box], &p) == box);
    MUST(sc_domain_publish(a.domain));
    return a;
}

void arena_close(struct arena *a)
{
    sc_domain_close(a->domain);
    MUST(sc_domain_remove(a->name));
    CHECK(sc_domain_remove(a->name) == SC_MISSING);
}

sc_domain *member_domain(const struct member *m)
{
    sc_domain *d = m->arena->domain;
    if (m->visitor)
        MUST(sc_domain_open(m->arena->name, PATIENCE, &d));
    return d;
}

void member_leave(const struct member *m, sc_domain *d)
{
    if (m->visitor)
        sc_domain_close(d);
}

void start(struct member *m, struct arena *a, int number, void *(*body)(void *))
{
    m->arena = a;
    m->number = number;
    CHECK(pthread_create(&m->thread, NULL, body, m) == 0);
}

void join(struct member *m) { CHECK(pthread_join(m->thread, NULL) == 0); }

/* ---- payloads ---- */

static uint64_t size_of(uint64_t sender, uint64_t counter)
{
    return counter == THE_END ? HEAD_BYTES
                              : HEAD_BYTES + (sender * 7 + counter * 13) % (MESSAGE_BYTES - HEAD_BYTES);
}

static unsigned char byte_of(uint64_t sender, uint64_t counter, uint64_t i)
{
    return (unsigned char)(sender * 31 + counter * 17 + i);
}

static uint64_t fill(unsigned char *to, uint64_t sender, uint64_t counter)
{
    uint64_t bytes = size_of(sender, counter);
    memcpy(to, &sender, 8);
    memcpy(to + 8, &counter, 8);
    for (uint64_t i = HEAD_BYTES; i < bytes; i++)
        to[i] = byte_of(sender, counter, i);
    return bytes;
}

/* ---- sending ---- */

static void note(struct member *m, sc_sender *s, uint64_t counter, uint64_t boxes, int sure)
{
    CHECK(m->count < RECORDS_MAX);
    m->records[m->count++] = (struct record){0, sc_sender_id(s), counter, boxes, sure};
}

/* Decided against, because somebody was late, is an answer; what else may fail here is a bug. */
static bool accepted(int rc)
{
    CHECK(rc == 0 || rc == SC_REJECTED || rc == SC_LATE);
    return rc == 0;
}

static void send_alone(struct member *m, sc_sender *s, uint64_t *counter, uint64_t boxes)
{
    unsigned char data[MESSAGE_BYTES];
    struct sc_receipt receipt;
    uint64_t bytes = fill(data, sc_sender_id(s), *counter);
    bool sure = accepted(sc_send(s, boxes, data, bytes, PATIENCE, &receipt));
    note(m, s, (*counter)++, boxes, sure);
}

/* The copy that was lent may die before it is sent: then there is nothing, and one tries again. */
static void send_lent(struct member *m, sc_sender *s, uint64_t *counter, uint64_t boxes)
{
    struct sc_receipt receipt;
    int rc;
    do {
        void *to;
        MUST(sc_loan(s, __builtin_ctzll(boxes), MESSAGE_BYTES, PATIENCE, &to));
        rc = sc_loan_send(s, fill(to, sc_sender_id(s), *counter), PATIENCE, &receipt);
    } while (rc == SC_COPY_FAILED);
    note(m, s, (*counter)++, boxes, accepted(rc));
}

static void send_batch(struct member *m, sc_sender *s, uint64_t *counter, uint64_t boxes,
                       bool packed)
{
    unsigned char data[BATCH * MESSAGE_BYTES];
    struct sc_part parts[BATCH];
    uint64_t sizes[BATCH], at = 0;
    struct sc_receipt receipt;
    for (int i = 0; i < BATCH; i++) {
        sizes[i] = fill(data + at, sc_sender_id(s), *counter + (uint64_t)i);
        parts[i] = (struct sc_part){data + at, sizes[i]};
        at += sizes[i];
    }
    int rc = packed ? sc_send_packed(s, boxes, data, sizes, BATCH, PATIENCE, &receipt)
                    : sc_send_many(s, boxes, parts, BATCH, PATIENCE, &receipt);
    /* The timed protocols send a batch one by one: of a rejected one the first may have got through. */
    int refused = m->arena->params.protocol == SC_EAGER ? 0 : -1;
    int sure = accepted(rc) ? 1 : refused;
    for (int i = 0; i < BATCH; i++)
        note(m, s, (*counter)++, boxes, sure);
}

/* Each in turn: to one mailbox or all of them; alone, lent, as a batch. */
void *send_all(void *argument)
{
    struct member *m = argument;
    sc_domain *d = member_domain(m);
    for (int sent = 0; sent < m->messages;) {
        sc_sender *s;
        uint64_t counter = 0;
        MUST(sc_sender_open(d, PATIENCE, &s));
        for (int i = 0; i < MESSAGES_PER_HANDLE && sent < m->messages; i++, sent++) {
            uint64_t every = (UINT64_C(1) << m->arena->boxes) - 1;
            uint64_t one = UINT64_C(1) << sent % m->arena->boxes;
            switch (sent % 5) {
            case 0: send_alone(m, s, &counter, one); break;
            case 1: send_alone(m, s, &counter, every); break;
            case 2: send_lent(m, s, &counter, one); break;
            default: send_batch(m, s, &counter, every, sent % 5 == 3); break;
            }
        }
        MUST(sc_sender_close(s));
        sc_sender_free(s);
    }
    member_leave(m, d);
    return NULL;
}

/* Stamped after everything else has been sent, so whoever receives it has all the rest. */
void send_the_end(struct arena *a)
{
    unsigned char data[HEAD_BYTES];
    sc_sender *s;
    struct sc_receipt receipt;
    MUST(sc_sender_open(a->domain, PATIENCE, &s));
    for (int box = 0; box < a->boxes; box++) {
        uint64_t bytes = fill(data, sc_sender_id(s), THE_END);
        while (!accepted(sc_send(s, UINT64_C(1) << box, data, bytes, PATIENCE, &receipt)))
            ;
    }
    sc_sender_free(s);
}

/* ---- receiving ---- */

/* `whole`: the bytes are good; else only what the header says counts. */
void take(struct member *m, const struct sc_message *info, const unsigned char *data, bool whole)
{
    uint64_t sender = info->sender, counter = UINT64_MAX - 1;
    if (whole) {
        CHECK(info->bytes >= HEAD_BYTES);
        memcpy(&sender, data, 8);
        memcpy(&counter, data + 8, 8);
        CHECK(sender == info->sender && info->bytes == size_of(sender, counter));
        for (uint64_t i = HEAD_BYTES; i < info->bytes; i++)
            CHECK(data[i] == byte_of(sender, counter, i));
    }
    if (m->count > 0) {
        const struct record *last = &m->records[m->count - 1];
        CHECK(last->timestamp < info->timestamp ||
              (last->timestamp == info->timestamp && (last->sender & 255) < (sender & 255)));
    }
    CHECK(m->count < RECORDS_MAX);
    m->records[m->count++] = (struct record){info->timestamp, sender, counter, 0, whole};
    atomic_fetch_add(&m->arena->seen, 1);
}

bool is_the_end(const struct member *m)
{
    return m->count > 0 && m->records[m->count - 1].counter == THE_END;
}

static void receive_batch(struct member *m, sc_receiver *r)
{
    unsigned char buffer[4 * MESSAGE_BYTES];
    struct sc_message info[4];
    int n = sc_receive_many(r, buffer, sizeof buffer, PATIENCE, info, 4);
    MUST(n);
    CHECK(n > 0);
    for (int i = 0; i < n; i++)
        take(m, &info[i], buffer + info[i].offset, true);
}

/* What was read in a copy that died may be wrong, and the release says so. Bytes were checked when
 * they were handed out: what is overwritten under the reader's eyes, nobody notices. */
static void receive_view(struct member *m, sc_receiver *r)
{
    unsigned char copy[MESSAGE_BYTES];
    struct sc_message info;
    const void *data;
    MUST(sc_view(r, PATIENCE, &info, &data));
    CHECK(info.bytes <= sizeof copy);
    memcpy(copy, data, info.bytes);
    int rc = sc_view_release(r);
    CHECK(rc == 0 || rc == SC_COPY_FAILED);
    take(m, &info, copy, rc == 0 && !atomic_load(&m->arena->overwriting));
}

void *receive_to_the_end(void *argument)
{
    struct member *m = argument;
    sc_domain *d = member_domain(m);
    sc_receiver *r;
    MUST(sc_receiver_open(d, m->box, PATIENCE, &r));
    atomic_fetch_add(&m->arena->seen, 1);            /* joined: counts like a message */
    while (!is_the_end(m)) {
        if (m->viewing && !atomic_load(&m->arena->traffic_is_over))
            receive_view(m, r);
        else
            receive_batch(m, r);
    }
    MUST(sc_receiver_close(r));
    sc_receiver_free(r);
    member_leave(m, d);
    return NULL;
}

/* ---- afterwards ---- */

static int times_received(const struct member *r, const struct record *sent)
{
    int times = 0;
    for (int i = 0; i < r->count; i++)
        times += r->records[i].sender == sent->sender && r->records[i].counter == sent->counter;
    return times;
}

static int unreadable(const struct member *r)
{
    int n = 0;
    for (int i = 0; i < r->count; i++)
        n += !r->records[i].sure;
    return n;
}

static void check_same(const struct member *a, const struct member *b)
{
    CHECK(a->count == b->count);
    for (int i = 0; i < a->count; i++)
        CHECK(a->records[i].timestamp == b->records[i].timestamp &&
              a->records[i].sender == b->records[i].sender);
}

static void check_complete(const struct member *sender, const struct member *receiver)
{
    int missing = 0;
    for (int i = 0; i < sender->count; i++) {
        const struct record *sent = &sender->records[i];
        int times = times_received(receiver, sent);
        CHECK(times <= 1);
        if (!(sent->boxes >> receiver->box & 1) || sent->sure == 0)
            CHECK(times == 0);
        else if (sent->sure > 0)
            missing += times == 0;
    }
    CHECK(missing <= unreadable(receiver));          /* a view of a dying copy hides its name */
}

static uint64_t broken_bounds(struct arena *a)
{
    uint64_t broken = 0;
    for (int lane = 0; lane < (int)a->params.senders; lane++) {
        struct sc_sender_stats stats;
        MUST(sc_domain_sender_stats(a->domain, lane, &stats));
        broken += stats.late + stats.rejected;
    }
    for (int box = 0; box < a->boxes; box++)
        for (int slot = 0; slot < PLACES; slot++) {
            struct sc_receiver_stats stats;
            MUST(sc_mailbox_receiver_stats(a->domain, box, slot, &stats));
            CHECK(a->params.protocol != SC_EAGER || stats.violations == 0);
            broken += stats.violations + stats.rejected; /* `timing` may decide against it later */
        }
    return broken;
}

/* Payloads and order were checked on arrival. `crash` and `timing` promise the rest only to those
 * who keep their bounds, and count when they see that somebody did not. */
void check_deliveries(struct arena *a, struct member *senders, int n, struct member *receivers,
                      int m)
{
    uint64_t broken = broken_bounds(a);
    if (broken && a->params.protocol != SC_EAGER) {
        printf("agreement not judged: bounds were broken %llu times\n", (unsigned long long)broken);
        return;
    }
    for (int r = 0; r < m; r++) {
        for (int s = 0; s < n; s++)
            check_complete(&senders[s], &receivers[r]);
        for (int other = 0; other < r; other++)
            if (receivers[other].box == receivers[r].box)
                check_same(&receivers[other], &receivers[r]);
    }
}
