/* trouble.c: copies that fail and are replaced, members that come and go, mailboxes that are made
 * and removed, and somebody who looks after it all, beside the traffic of traffic.c. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "traffic.h"

#define NOISE_BYTES 4096u
#define NOISE 0x5A                   /* no sealed word, no checksum fits it */

static bool over(const struct member *m) { return atomic_load(&m->arena->traffic_is_over); }

/* Until somebody has received something more, or there is nothing more to come. */
static void wait_for_progress(const struct member *m, int messages)
{
    int goal = atomic_load(&m->arena->seen) + messages;
    while (!over(m) && atomic_load(&m->arena->seen) < goal)
        sched_yield();
}

/* ---- copies ---- */

enum wound { CUT, POISON, WRITE_OVER, TAKE_NAME };

static void wound(const struct member *m, sc_domain *d, uint64_t serial, enum wound kind)
{
    static const unsigned char noise[NOISE_BYTES] = {[0 ... NOISE_BYTES - 1] = NOISE};
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/shmcast.%s.%d", m->arena->name, (int)serial);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    if (kind == CUT)
        CHECK(ftruncate(fd, m->number % 2 ? 0 : 3 * 4096) == 0);
    if (kind == WRITE_OVER) {
        off_t end = lseek(fd, 0, SEEK_END);
        atomic_store(&m->arena->overwriting, true);
        for (off_t at = 4096; at < end; at += 2 * NOISE_BYTES)
            CHECK(pwrite(fd, noise, sizeof noise, at) == (ssize_t)sizeof noise);
        wait_for_progress(m, 10);                    /* readers find out by themselves, or not */
    }
    if (kind == TAKE_NAME)
        CHECK(unlink(path) == 0);
    if (kind == WRITE_OVER || kind == POISON)
        sc_fault_poison(d, (int)serial);
    close(fd);
}

/* The number of intact copies; *victim is one of them. */
static int choose(sc_domain *d, int number, uint64_t *victim)
{
    struct sc_copy_info info[48];
    int count = sc_domain_copies(d, info, 48), intact = 0;
    MUST(count);
    for (int i = 0; i < count; i++)
        intact += info[i].intact;
    int wanted = number % intact;
    for (int i = 0; i < count; i++)
        if (info[i].intact && wanted-- == 0)
            *victim = info[i].serial;
    return intact;
}

/* A cut behind its tables is noticed by whoever touches what is gone; if nobody does any more, the
 * copy is told to be dead. */
static void replace_it(const struct member *m, sc_domain *d, uint64_t victim)
{
    int rc;
    wait_for_progress(m, 5);
    while ((rc = sc_domain_replace(d, PATIENCE)) == 0) {
        if (over(m))
            sc_fault_poison(d, (int)victim);
        wait_for_progress(m, 1);
    }
    MUST(rc);
    atomic_store(&m->arena->overwriting, false);
}

void *fail_and_replace_copies(void *argument)
{
    struct member *m = argument;
    sc_domain *d = member_domain(m);
    for (int i = 0; i < m->messages; i++) {
        uint64_t victim;
        wait_for_progress(m, 20);
        CHECK(choose(d, i, &victim) == (int)m->arena->params.copies);
        wound(m, d, victim, (enum wound)(i % 4));
        replace_it(m, d, victim);
    }
    member_leave(m, d);
    return NULL;
}

/* ---- looking after ---- */

static void look_at_members(sc_domain *d, int box)
{
    struct sc_mailbox_params params;
    struct sc_receiver_stats stats;
    char name[128];
    int rc = sc_mailbox_params(d, box, &params);
    CHECK(rc == 0 || rc == SC_REMOVED || rc == SC_MISSING);
    for (int slot = 0; rc == 0 && slot < (int)params.receivers; slot++) {
        rc = sc_mailbox_receiver_stats(d, box, slot, &stats);
        CHECK(rc == 0 || rc == SC_REMOVED || rc == SC_INVALID);
    }
    rc = sc_mailbox_name(d, box, name, sizeof name);
    CHECK(rc == 0 || rc == SC_MISSING || rc == SC_REMOVED);
}

void *look_after_the_domain(void *argument)
{
    struct member *m = argument;
    sc_domain *d = member_domain(m);
    while (!over(m)) {
        struct sc_sender_stats stats;
        MUST(sc_domain_reap(d));
        for (int lane = 0; lane < (int)m->arena->params.senders; lane++)
            MUST(sc_domain_sender_stats(d, lane, &stats));
        for (int box = 0; box < (int)m->arena->params.mailboxes; box++)
            look_at_members(d, box);
        MUST(sc_mailbox_find(d, "first"));
        sched_yield();
    }
    member_leave(m, d);
    return NULL;
}

/* ---- coming and going ---- */

static int receive_one(struct member *m, sc_receiver *r, uint64_t deadline)
{
    unsigned char buffer[MESSAGE_BYTES];
    struct sc_message info;
    int rc = sc_receive(r, buffer, sizeof buffer, deadline, &info);
    if (rc == 0)
        take(m, &info, buffer, true);
    return rc;
}

void *join_and_leave(void *argument)
{
    struct member *m = argument;
    sc_domain *d = member_domain(m);
    for (int i = 0; i < m->messages && !over(m); i++) {
        sc_receiver *r;
        MUST(sc_receiver_open(d, m->box, PATIENCE, &r));
        m->count = 0;                                /* another member, another story */
        for (int n = 0, rc = 0; n < 5 && !over(m); n++) {
            rc = receive_one(m, r, WITHIN(20));
            CHECK(rc == 0 || rc == SC_TIMEOUT);
        }
        MUST(sc_receiver_leave(r));
        int rc;
        while ((rc = receive_one(m, r, PATIENCE)) == 0)
            ;
        CHECK(rc == SC_CLOSED);
        sc_receiver_free(r);
    }
    member_leave(m, d);
    return NULL;
}

static void use_once(sc_domain *d, int box, int number)
{
    sc_sender *s;
    sc_receiver *r;
    struct sc_receipt receipt;
    struct sc_message info;
    int sent = number, got = 0;
    MUST(sc_receiver_open(d, box, PATIENCE, &r));
    MUST(sc_sender_open(d, PATIENCE, &s));
    MUST(sc_send(s, UINT64_C(1) << box, &sent, sizeof sent, PATIENCE, &receipt));
    MUST(sc_receive(r, &got, sizeof got, PATIENCE, &info));
    CHECK(got == sent && info.bytes == sizeof got);
    sc_sender_free(s);
    sc_receiver_free(r);
}

/* In one place of the directory: sizes differ from one to the next. */
void *make_and_remove_mailboxes(void *argument)
{
    struct member *m = argument;
    sc_domain *d = member_domain(m);
    for (int i = 0; i < m->messages; i++) {
        struct sc_mailbox_params p = {.message_bytes = i % 2 ? 64 : 4000, .capacity = 4,
                                      .receivers = i % 2 ? 1 : 5, .checksum = 1};
        int box = sc_mailbox_create(d, "passing", &p);
        MUST(box);
        use_once(d, box, i);
        MUST(sc_mailbox_remove(d, box));
    }
    member_leave(m, d);
    return NULL;
}
