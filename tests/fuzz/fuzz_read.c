/* fuzz_read.c: a sound domain at work, and wounds between its steps.
 *
 *   byte 0   bits 0-1 protocol, bit 2: three copies instead of two
 *   byte 1   the copy that stays unharmed
 *   then     steps: one byte of kind, and what the kind takes (see `step`)
 *
 * Never a crash, never a hang, nothing left behind. While one copy is unharmed, and no wound looks
 * like something that a sound copy could hold (then it is no damage but forgery, and only safety
 * and termination count): what is delivered is what was sent, in order, and in `eager` all of it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"
#include "harness.h"

#define STEPS_MAX 40
#define SENT_MAX 256
#define IMAGE_MAX 32768
#define READERS 2

struct reader { sc_receiver *handle; uint64_t next; };

struct scene {
    struct sc_domain *domain;
    sc_sender *sender;
    struct reader readers[READERS];
    uint32_t protocol, copies, safe;
    bool forged;
    uint64_t sent;                                   /* messages accepted, numbered from 0 */
    uint64_t tried;                                  /* numbers used up */
    bool unsure[SENT_MAX];                           /* perhaps decided against */
};

struct input { const uint8_t *data; size_t left; };

static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && in->left; i++, in->left--)
        value |= (uint64_t)*in->data++ << (8 * i);
    return value;
}

/* ---- traffic ---- */

static uint64_t fill(unsigned char *to, uint64_t number)
{
    memcpy(to, &number, 8);
    for (uint64_t i = 8; i < 8 + number % 50; i++)
        to[i] = (unsigned char)(number * 3 + i);
    return 8 + number % 50;
}

static void expect(struct scene *s, struct reader *r, const struct sc_message *info,
                   const unsigned char *data)
{
    unsigned char wanted[FUZZ_MESSAGE_BYTES];
    uint64_t number;
    if (info->bytes > FUZZ_MESSAGE_BYTES)
        fuzz_fail("a message longer than any");
    if (s->forged)
        return;
    memcpy(&number, data, 8);
    if (info->bytes < 8 || number >= s->tried || fill(wanted, number) != info->bytes ||
        memcmp(wanted, data, info->bytes) != 0)
        fuzz_fail("wrong delivery: not what was sent");
    if (number < r->next)
        fuzz_fail("wrong delivery: out of order, or twice");
    for (uint64_t n = r->next; n < number; n++)
        if (!s->unsure[n])
            fuzz_fail("wrong delivery: one is missing");
    r->next = number + 1;
}

/* The timed protocols may decide against a message after its send has returned. */
static void note(struct scene *s, int rc, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        s->unsure[s->tried++] = rc != 0 || s->protocol != SC_EAGER;
}

static void send_one(struct scene *s)
{
    unsigned char data[FUZZ_MESSAGE_BYTES];
    struct sc_receipt receipt;
    if (s->tried + 1 > SENT_MAX || !s->sender)
        return;
    uint64_t bytes = fill(data, s->tried);
    note(s, fuzz_rc(sc_send(s->sender, 1, data, bytes, WITHIN_MS(3), &receipt)), 1);
}

static void send_batch(struct scene *s)
{
    unsigned char data[2][FUZZ_MESSAGE_BYTES];
    struct sc_part parts[2];
    struct sc_receipt receipt;
    if (s->tried + 2 > SENT_MAX || !s->sender)
        return;
    for (uint64_t i = 0; i < 2; i++)
        parts[i] = (struct sc_part){data[i], fill(data[i], s->tried + i)};
    note(s, fuzz_rc(sc_send_many(s->sender, 1, parts, 2, WITHIN_MS(3), &receipt)), 2);
}

static void send_lent(struct scene *s)
{
    struct sc_receipt receipt;
    void *lent;
    if (s->tried + 1 > SENT_MAX || !s->sender ||
        fuzz_rc(sc_loan(s->sender, 0, FUZZ_MESSAGE_BYTES, WITHIN_MS(3), &lent)))
        return;
    uint64_t bytes = fill(lent, s->tried);
    note(s, fuzz_rc(sc_loan_send(s->sender, bytes, WITHIN_MS(3), &receipt)), 1);
}

static void receive(struct scene *s, struct reader *r)
{
    unsigned char buffer[4 * FUZZ_MESSAGE_BYTES];
    struct sc_message info[4];
    if (!r->handle)
        return;
    int n = fuzz_rc(sc_receive_many(r->handle, buffer, sizeof buffer, WITHIN_MS(40), info, 4));
    for (int i = 0; i < n; i++)
        expect(s, r, &info[i], buffer + info[i].offset);
    if (n < 0 && n != SC_TIMEOUT && !s->forged)
        fuzz_fail("a receiver is sent away though a copy is unharmed");
}

static void view(struct scene *s, struct reader *r)
{
    unsigned char copy[FUZZ_MESSAGE_BYTES];
    struct sc_message info;
    const void *data;
    if (!r->handle || fuzz_rc(sc_view(r->handle, WITHIN_MS(40), &info, &data)))
        return;
    if (info.bytes > sizeof copy)
        fuzz_fail("a message longer than any");
    memcpy(copy, data, info.bytes);
    fuzz_rc(sc_view_release(r->handle));
    expect(s, r, &info, copy);
}

/* A newcomer gets what is sent from now on. */
static void join_again(struct scene *s, struct reader *r)
{
    if (r->handle) {
        fuzz_rc(sc_receiver_close(r->handle));
        sc_receiver_free(r->handle);
        r->handle = NULL;
    }
    int rc = fuzz_rc(sc_receiver_open(s->domain, 0, WITHIN_MS(5), &r->handle));
    if (rc && !s->forged)
        fuzz_fail("a receiver cannot join though a copy is unharmed");
    r->next = s->tried;
}

static void change_sender(struct scene *s)
{
    if (s->sender)
        sc_sender_free(s->sender);
    s->sender = NULL;
    fuzz_rc(sc_sender_open(s->domain, WITHIN_MS(5), &s->sender));
}

static void look_after(struct scene *s)
{
    struct sc_receiver_stats stats;
    fuzz_rc(sc_domain_reap(s->domain));
    for (int slot = 0; slot < (int)FUZZ_RECEIVERS; slot++)
        fuzz_rc(sc_mailbox_receiver_stats(s->domain, 0, slot, &stats));
}

/* ---- wounds ---- */

/* A copy to hurt: any but the unharmed one. Copies that came later are left alone. */
static int open_victim(struct scene *s, uint64_t choice)
{
    uint64_t serial = choice % s->copies;
    return serial == s->safe ? -1 : fuzz_open_copy(serial);
}

static void wound(struct scene *s, struct input *in, bool reseal_it)
{
    static unsigned char before[IMAGE_MAX], after[IMAGE_MAX];
    int fd = open_victim(s, take(in, 1));
    uint64_t at = take(in, 2), count = 1 + take(in, 1) % 16;
    if (fd < 0)
        return;
    ssize_t bytes = pread(fd, before, IMAGE_MAX, 0);
    if (bytes > 8) {
        memcpy(after, before, (size_t)bytes);
        at %= (uint64_t)bytes;
        for (uint64_t i = 0; i < count && at + i < (uint64_t)bytes; i++)
            after[at + i] ^= (unsigned char)take(in, 1);
        if (reseal_it) {
            reseal_words(after, (size_t)bytes);
            repair_sums(after, (size_t)bytes);
            s->forged = true;
        }
        s->forged = s->forged || is_forged(before, after, (size_t)bytes);
        for (ssize_t i = 0; i < bytes; i++)          /* only what differs: others are writing */
            if (after[i] != before[i] && pwrite(fd, after + i, 1, i) != 1)
                fuzz_fail("a segment can be written");
    }
    close(fd);
}

static void cut(struct scene *s, struct input *in)
{
    int fd = open_victim(s, take(in, 1));
    uint64_t at = take(in, 1);
    if (fd < 0)
        return;
    struct stat st;
    if (fstat(fd, &st) == 0 && ftruncate(fd, st.st_size * (off_t)at / 256) != 0)
        fuzz_fail("a segment can be cut");
    close(fd);
}

static void blank(struct scene *s, struct input *in)
{
    static const unsigned char zeros[4096];
    int fd = open_victim(s, take(in, 1));
    uint64_t page = take(in, 1) % 4;
    if (fd < 0)
        return;
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size >= (off_t)(page + 1) * 4096 &&
        pwrite(fd, zeros, sizeof zeros, (off_t)page * 4096) < 0)
        fuzz_fail("a segment can be written");
    close(fd);
}

static void step(struct scene *s, struct input *in)
{
    switch (take(in, 1) % 14) {
    case 0: case 1: send_one(s); break;
    case 2: send_batch(s); break;
    case 3: send_lent(s); break;
    case 4: receive(s, &s->readers[0]); break;
    case 5: receive(s, &s->readers[1]); break;
    case 6: view(s, &s->readers[0]); break;
    case 7: join_again(s, &s->readers[1]); break;
    case 8: change_sender(s); break;
    case 9: look_after(s); break;
    case 10: wound(s, in, false); break;
    case 11: wound(s, in, take(in, 1) & 1); break;
    case 12: if (take(in, 1) & 1) cut(s, in); else blank(s, in); break;
    default: fuzz_rc(sc_domain_replace(s->domain, WITHIN_MS(50))); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct scene s;
    struct input in = {data, size};
    if (size < 3)
        return 0;
    fuzz_begin();
    uint64_t first = take(&in, 1);
    memset(&s, 0, sizeof s);
    s.protocol = 1 + (first & 3) % 3;
    s.copies = first & 4 ? 3 : 2;
    s.safe = (uint32_t)take(&in, 1) % s.copies;
    s.domain = fuzz_domain(s.protocol, s.copies);
    for (int i = 0; i < READERS; i++)
        join_again(&s, &s.readers[i]);
    change_sender(&s);
    for (int i = 0; i < STEPS_MAX && in.left; i++)
        step(&s, &in);
    for (int i = 0; i < READERS; i++) {
        for (int n = 0; n < 3; n++)
            receive(&s, &s.readers[i]);
        if (!s.forged && s.protocol == SC_EAGER)
            for (uint64_t n = s.readers[i].next; n < s.tried; n++)
                if (!s.unsure[n])
                    fuzz_fail("wrong delivery: the last ones are missing");
        if (s.readers[i].handle)
            sc_receiver_free(s.readers[i].handle);
    }
    if (s.sender)
        sc_sender_free(s.sender);
    sc_domain_close(s.domain);
    fuzz_end();
    return 0;
}
