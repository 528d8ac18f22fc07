/* fuzz_open.c: a domain whose segments hold anything: open it, look at everything, take part.
 *
 * The input is a mask over the image of a sound segment, so that no bytes at all is a sound one:
 *
 *   byte 0   bits 0-1 protocol; 2: seals are made to fit; 3: checksums are made to fit;
 *            4: in every copy, else in the first; 5: the file is cut
 *   byte 1   where it is cut, in 64ths
 *   rest     the mask: fixed header, control words, sender table, directory, mailbox
 *
 * Whatever it is: an answer of the API, in bounded time, and nothing left behind.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core.h"
#include "harness.h"

#define COPIES 2u
#define IMAGE_MAX 32768u

static struct { size_t bytes; unsigned char copy[COPIES][IMAGE_MAX]; } sound[4];

static void make_sound(uint32_t protocol)
{
    struct sc_domain *d = fuzz_domain(protocol, COPIES);
    sc_sender *s;
    sc_receiver *r;
    struct sc_receipt receipt;
    if (sc_receiver_open(d, 0, WITHIN_MS(100), &r) || sc_sender_open(d, WITHIN_MS(100), &s))
        fuzz_fail("a sound domain can be joined");
    for (int i = 0; i < 3; i++)
        if (sc_send(s, 1, "sound", 6, WITHIN_MS(1000), &receipt))
            fuzz_fail("a sound domain takes messages");
    for (unsigned c = 0; c < COPIES; c++) {          /* while its members are there */
        int fd = fuzz_open_copy(c);
        sound[protocol].bytes = (size_t)read(fd, sound[protocol].copy[c], IMAGE_MAX);
        close(fd);
    }
    sc_sender_free(s);
    sc_receiver_free(r);
    sc_domain_close(d);
    sc_domain_remove(fuzz_name());
}

/* ---- damage ---- */

static size_t lay_over(unsigned char *image, size_t at, size_t end, const uint8_t *mask, size_t n)
{
    size_t used = 0;
    for (; at < end && used < n; at++, used++)
        image[at] ^= mask[used];
    return used;
}

static void damage(unsigned char *image, size_t bytes, const uint8_t *mask, size_t n)
{
    const size_t parts[][2] = {{0, sizeof(struct segment_fixed)}, {1024, 1120}, {4096, bytes}};
    for (int i = 0; i < 3; i++) {
        size_t used = lay_over(image, parts[i][0], parts[i][1], mask, n);
        mask += used;
        n -= used;
    }
}

static void write_copy(uint64_t serial, const unsigned char *image, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/shmcast.%s.%d", fuzz_name(), (int)serial);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(image, 1, bytes, f) != bytes || fclose(f) != 0)
        fuzz_fail("/dev/shm can be written");
}

static void write_all(const uint8_t *data, size_t size)
{
    static unsigned char image[IMAGE_MAX];
    uint32_t protocol = 1 + (data[0] & 3) % 3;
    for (unsigned c = 0; c < COPIES; c++) {
        size_t bytes = sound[protocol].bytes;
        memcpy(image, sound[protocol].copy[c], bytes);
        if (c == 0 || data[0] & 16) {
            damage(image, bytes, data + 2, size - 2);
            if (data[0] & 4)
                reseal_words(image, bytes);
            if (data[0] & 8)
                repair_sums(image, bytes);
            if (data[0] & 32)
                bytes = bytes * (data[1] & 63) / 64;
        }
        write_copy(c, image, bytes);
    }
}

/* ---- what a process may do ---- */

static void look(struct sc_domain *d)
{
    struct sc_domain_params params;
    struct sc_mailbox_params box;
    struct sc_copy_info copies[SERIALS_MAX];
    struct sc_sender_stats sender;
    struct sc_receiver_stats receiver;
    char name[SC_NAME_MAX + 1];
    fuzz_rc(sc_domain_params(d, &params));
    fuzz_rc(sc_domain_copies(d, copies, SERIALS_MAX));
    fuzz_rc(sc_mailbox_find(d, "box"));
    for (int b = 0; b < (int)FUZZ_BOXES; b++) {
        fuzz_rc(sc_mailbox_name(d, b, name, sizeof name));
        fuzz_rc(sc_mailbox_params(d, b, &box));
        for (int slot = 0; slot < (int)FUZZ_RECEIVERS; slot++)
            fuzz_rc(sc_mailbox_receiver_stats(d, b, slot, &receiver));
    }
    for (int lane = 0; lane < (int)FUZZ_SENDERS; lane++)
        fuzz_rc(sc_domain_sender_stats(d, lane, &sender));
}

static void send_some(struct sc_domain *d)
{
    sc_sender *s;
    struct sc_receipt receipt;
    struct sc_part parts[3] = {{"a", 1}, {"bc", 2}, {"def", 3}};
    void *lent;
    if (fuzz_rc(sc_sender_open(d, WITHIN_MS(5), &s)))
        return;
    if (fuzz_rc(sc_send(s, 1, "anything", 9, WITHIN_MS(5), &receipt)) == 0)
        fuzz_rc(sc_confirm(s, 0, &receipt, WITHIN_MS(5)));
    fuzz_rc(sc_send_many(s, 1, parts, 3, WITHIN_MS(5), &receipt));
    if (fuzz_rc(sc_loan(s, 0, 16, WITHIN_MS(5), &lent)) == 0) {
        memset(lent, 7, 16);
        fuzz_rc(sc_loan_send(s, 16, WITHIN_MS(5), &receipt));
    }
    fuzz_rc(sc_sender_close(s));
    sc_sender_free(s);
}

static void receive_some(sc_receiver *r)
{
    unsigned char buffer[512];
    struct sc_message info[8];
    const void *data;
    volatile unsigned char sum = 0;
    int n = fuzz_rc(sc_receive_many(r, buffer, sizeof buffer, WITHIN_MS(5), info, 8));
    for (int i = 0; i < n; i++)
        if (info[i].offset + info[i].bytes > sizeof buffer)
            fuzz_fail("a message beyond the buffer");
    if (fuzz_rc(sc_view(r, WITHIN_MS(5), info, &data)) == 0) {
        for (uint64_t i = 0; i < info->bytes; i++)
            sum = (unsigned char)(sum + ((const unsigned char *)data)[i]);
        fuzz_rc(sc_view_release(r));
    }
    sc_receiver_depth(r);
}

static void take_part(struct sc_domain *d)
{
    sc_receiver *r = NULL;
    look(d);
    fuzz_rc(sc_receiver_open(d, 0, WITHIN_MS(5), &r));
    send_some(d);
    if (r)
        receive_some(r);
    fuzz_rc(sc_domain_reap(d));
    fuzz_rc(sc_domain_replace(d, WITHIN_MS(50)));
    send_some(d);
    if (r) {
        receive_some(r);
        fuzz_rc(sc_receiver_leave(r));
        fuzz_rc(sc_receiver_close(r));
        sc_receiver_free(r);
    }
    struct sc_mailbox_params p = {.message_bytes = 8, .capacity = 2, .receivers = 1};
    int box = fuzz_rc(sc_mailbox_create(d, "another", &p));
    if (box >= 0)
        fuzz_rc(sc_mailbox_remove(d, box));
    look(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!sound[SC_CRASH].bytes)
        for (uint32_t protocol = SC_CRASH; protocol <= SC_EAGER; protocol++)
            make_sound(protocol);
    if (size < 2 || size > IMAGE_MAX)
        return 0;
    struct sc_domain *d;
    fuzz_begin();
    write_all(data, size);
    if (fuzz_rc(sc_domain_open(fuzz_name(), WITHIN_MS(5), &d)) == 0) {
        take_part(d);
        sc_domain_close(d);
    }
    fuzz_end();
    return 0;
}
