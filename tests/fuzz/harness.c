/* harness.c: see harness.h. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "crc32c.h"

static int first_fd, first_mapping;

const char *fuzz_name(void)
{
    static char name[64];
    snprintf(name, sizeof name, "fuzz-%d", (int)getpid());
    return name;
}

static void remove_segments(void)
{
    for (uint64_t serial = 0; serial < SERIALS_MAX; serial++)
        segment_unlink(fuzz_name(), serial);
}

void fuzz_fail(const char *what)
{
    static _Atomic bool failing;
    if (EXCHANGE(&failing, true))
        for (;;)
            pause();                                 /* another thread is telling its story */
    fprintf(stderr, "does not hold: %s\n", what);
    remove_segments();
    abort();
}

int fuzz_rc(int rc)
{
    bool known = rc >= 0 || (rc <= SC_LOST && rc >= SC_EXHAUSTED) || (rc < 0 && rc > -200);
    if (!known)
        fuzz_fail("an answer that is none of the API's");
    return rc;
}

static int lowest_fd(void)
{
    int fd = dup(2);
    close(fd);
    return fd;
}

static int lowest_mapping(void)
{
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int mapping = guard_add(page, 4096);
    guard_remove(mapping);
    return mapping;
}

void fuzz_begin(void)
{
    virtual_time_reset();
    first_fd = lowest_fd();
    first_mapping = lowest_mapping();
}

void fuzz_end(void)
{
    uint64_t serials[SERIALS_MAX];
    fuzz_rc(sc_domain_remove(fuzz_name()));
    if (segment_list(fuzz_name(), serials, SERIALS_MAX) > 0)
        fuzz_fail("segments that cannot be removed");
    if (lowest_fd() != first_fd)
        fuzz_fail("a file is left open");
    if (lowest_mapping() != first_mapping)
        fuzz_fail("a mapping is left");
}

struct sc_domain *fuzz_domain(uint32_t protocol, uint32_t copies)
{
    struct sc_domain_params p = {.copies = copies, .senders = FUZZ_SENDERS,
                                 .mailboxes = FUZZ_BOXES, .protocol = protocol, .mode = 0600,
                                 .group_id = -1};
    struct sc_mailbox_params m = {.message_bytes = FUZZ_MESSAGE_BYTES, .capacity = FUZZ_CAPACITY,
                                  .receivers = FUZZ_RECEIVERS, .checksum = 1};
    uint64_t ms = 1000000;
    p.bounds = (struct sc_bounds){.send_ns = 10 * ms, .receive_ns = 5 * ms, .decide_ns = ms / 10,
                                  .poll_ns = ms, .expiry_ns = 15 * ms, .hold_ns = 100 * ms};
    struct sc_domain *d = NULL;
    if (sc_domain_create(fuzz_name(), &p, &d) || sc_mailbox_create(d, "box", &m) != 0 ||
        sc_domain_publish(d))
        fuzz_fail("a sound domain can be made");
    return d;
}

int fuzz_open_copy(uint64_t serial)
{
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/shmcast.%s.%d", fuzz_name(), (int)serial);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* ---- where the checks are ---- */

static struct extent_layout box_layout(void)
{
    struct sc_mailbox_params m = {.message_bytes = FUZZ_MESSAGE_BYTES, .capacity = FUZZ_CAPACITY,
                                  .receivers = FUZZ_RECEIVERS};
    return extent_layout(&m, FUZZ_SENDERS);
}

typedef void word_fn(unsigned char *image, size_t bytes, uint64_t at, void *argument);

static void owner_words(unsigned char *image, size_t bytes, uint64_t at, word_fn *act, void *arg)
{
    for (uint64_t i = 0; i < 3; i++)
        act(image, bytes, at + 8 * i, arg);
}

static void each_sealed_word(unsigned char *image, size_t bytes, word_fn *act, void *arg)
{
    const struct extent_layout at = box_layout();
    uint64_t box = table_bytes(FUZZ_SENDERS, FUZZ_BOXES);
    for (uint64_t o = 1024; o < 1056; o += 8)
        act(image, bytes, o, arg);
    act(image, bytes, offsetof(struct segment_header, extent_end), arg);
    owner_words(image, bytes, offsetof(struct segment_header, replacer), act, arg);
    for (uint32_t lane = 0; lane < FUZZ_SENDERS; lane++) {
        for (uint64_t o = 0; o < 24; o += 8)
            act(image, bytes, sender_at(lane) + o, arg);
        act(image, bytes, sender_at(lane) + offsetof(struct sender_record, cell), arg);
        owner_words(image, bytes, sender_at(lane) + offsetof(struct sender_record, owner), act, arg);
        act(image, bytes, box + at.lanes_at + lane * sizeof(struct lane_head), arg);
    }
    for (uint32_t b = 0; b < FUZZ_BOXES; b++)
        owner_words(image, bytes, directory_at(FUZZ_SENDERS, b) +
                                      offsetof(struct directory_entry, owner), act, arg);
    for (uint32_t r = 0; r < FUZZ_RECEIVERS; r++) {
        uint64_t rec = box + at.receivers_at + r * sizeof(struct receiver_record);
        for (uint64_t o = 0; o < 40; o += 8)
            act(image, bytes, rec + o, arg);
        for (uint32_t lane = 0; lane < FUZZ_SENDERS; lane++)
            act(image, bytes, box + at.rows_at + r * at.row_bytes + 8 * lane, arg);
    }
    for (uint64_t i = 0; i < FUZZ_SENDERS * FUZZ_CAPACITY; i++)
        for (uint64_t o = 0; o < 16; o += 8)
            act(image, bytes, box + at.slots_at + i * at.slot_bytes + o, arg);
}

static uint64_t word_at(const unsigned char *image, uint64_t at)
{
    uint64_t word;
    memcpy(&word, image + at, 8);
    return word;
}

static void reseal(unsigned char *image, size_t bytes, uint64_t at, void *unused)
{
    (void)unused;
    if (at + 8 > bytes)
        return;
    uint64_t word = seal(sealed_value(word_at(image, at)));
    memcpy(image + at, &word, 8);
}

void reseal_words(unsigned char *image, size_t bytes) { each_sealed_word(image, bytes, reseal, NULL); }

static struct slot *slot_in(const unsigned char *image, size_t bytes, uint64_t i)
{
    const struct extent_layout at = box_layout();
    uint64_t offset = table_bytes(FUZZ_SENDERS, FUZZ_BOXES) + at.slots_at + i * at.slot_bytes;
    return offset + at.slot_bytes <= bytes ? (struct slot *)(uintptr_t)(image + offset) : NULL;
}

static uint32_t payload_sum(const struct slot *s)
{
    return crc32c(0, s->payload, s->bytes > FUZZ_MESSAGE_BYTES ? FUZZ_MESSAGE_BYTES : s->bytes);
}

void repair_sums(unsigned char *image, size_t bytes)
{
    struct segment_fixed *f = (struct segment_fixed *)image;
    if (bytes < 4096)
        return;
    f->magic = SEGMENT_MAGIC;
    f->layout_version = LAYOUT_VERSION;
    f->byte_order = BYTE_ORDER_MARK;
    uint64_t *bound = (uint64_t *)&f->bounds;        /* such that a wait is no hang, or refused */
    for (size_t i = 0; i < sizeof f->bounds / 8; i++)
        bound[i] = bound[i] > BOUND_NS_MAX ? bound[i] : bound[i] % 100000000;
    f->crc = crc32c(0, f, offsetof(struct segment_fixed, crc));
    for (uint32_t b = 0; b < FUZZ_BOXES && directory_at(FUZZ_SENDERS, b + 1) <= bytes; b++) {
        struct directory_entry *e = (void *)(image + directory_at(FUZZ_SENDERS, b));
        e->crc = crc32c(0, e, offsetof(struct directory_entry, crc));
    }
    for (uint64_t i = 0; i < FUZZ_SENDERS * FUZZ_CAPACITY; i++) {
        struct slot *s = slot_in(image, bytes, i);
        if (!s)
            return;
        s->payload_crc = payload_sum(s);
        s->header_crc = slot_header_crc(s);
    }
}

struct compared { const unsigned char *before; bool forged; };

static void compare(unsigned char *after, size_t bytes, uint64_t at, void *argument)
{
    struct compared *c = argument;
    if (at + 8 <= bytes && word_at(after, at) != word_at(c->before, at) &&
        seal_ok(word_at(after, at)))
        c->forged = true;
}

static bool slot_is_forged(const struct slot *b, const struct slot *a)
{
    size_t whole = sizeof *a + FUZZ_MESSAGE_BYTES;
    return memcmp(a, b, whole) != 0 && memcmp(&a->position, &b->position, whole - 16) != 0 &&
           slot_header_crc(a) == a->header_crc && payload_sum(a) == a->payload_crc;
}

bool is_forged(const unsigned char *before, const unsigned char *after, size_t bytes)
{
    struct compared c = {before, false};
    uint64_t box = table_bytes(FUZZ_SENDERS, FUZZ_BOXES);
    uint64_t members = box + offsetof(struct mailbox_head, members);
    each_sealed_word((unsigned char *)(uintptr_t)after, bytes, compare, &c);
    for (uint32_t b = 0; b < FUZZ_BOXES; b++) {
        const struct directory_entry *was = (const void *)(before + directory_at(FUZZ_SENDERS, b));
        const struct directory_entry *is = (const void *)(after + directory_at(FUZZ_SENDERS, b));
        if (memcmp(was, is, offsetof(struct directory_entry, pad)) != 0 &&
            is->crc == crc32c(0, is, offsetof(struct directory_entry, crc)))
            c.forged = true;
    }
    /* A plain counter: chance does not hit one of the few values that mean something. */
    if (bytes > members + 8 && word_at(after, members) != word_at(before, members) &&
        word_at(after, members) < UINT64_C(1) << 32)
        c.forged = true;
    for (uint64_t i = 0; i < FUZZ_SENDERS * FUZZ_CAPACITY; i++) {
        const struct slot *b = slot_in(before, bytes, i), *a = slot_in(after, bytes, i);
        c.forged = c.forged || (a && slot_is_forged(b, a));
    }
    return c.forged;
}
