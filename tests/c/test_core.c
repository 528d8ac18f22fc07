/* test_core.c: what Python cannot reach. Built with the address and undefined-behaviour sanitizers
 * together with the whole core, and run by tests/unit/mailbox/test_core.py, once per test:
 *
 *   test_core NAME      0 if it holds; says what does not
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core.h"
#include "crc32c.h"
#include "rt_api.h"

#define CHECK(what)                                                                  \
    do {                                                                             \
        if (!(what)) {                                                               \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __func__, __LINE__, #what); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

#define THREADS 4
#define SECOND (UINT64_C(1) << 63 | UINT64_C(1000000000)) /* from now on */

static sc_domain *new_domain_for(uint32_t copies, enum sc_protocol protocol, const char *name)
{
    struct sc_domain_params p = {.copies = copies, .senders = 4, .mailboxes = 1,
                                 .protocol = protocol, .mode = 0600, .group_id = -1};
    p.bounds = (struct sc_bounds){.send_ns = 1000000, .poll_ns = 1000000};
    sc_domain *d = NULL;
    CHECK(sc_domain_create(name, &p, &d) == 0);
    return d;
}

static sc_domain *new_domain(uint32_t copies)
{
    return new_domain_for(copies, SC_EAGER, "nameless");
}

static struct place cell_of(uint32_t lane)
{
    return lane_place(lane, offsetof(struct sender_record, cell));
}

static word_t *word_in(sc_domain *d, int copy, struct place where)
{
    return (word_t *)at_place(&d->copies[copy], where);
}

/* ---- crc32c, seal ---- */

static uint32_t crc_bit_by_bit(const unsigned char *data, size_t bytes)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    }
    return ~crc;
}

/* RFC 3720, B.4, and every length and alignment against the definition. */
static void crc32c_is_castagnolis(void)
{
    unsigned char zeros[32] = {0}, ones[32], rising[32], noise[4200];
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++)
        rising[i] = (unsigned char)i;
    CHECK(crc32c(0, "123456789", 9) == 0xE3069283u);
    CHECK(crc32c(0, zeros, 32) == 0x8A9136AAu);
    CHECK(crc32c(0, ones, 32) == 0x62A8AB43u);
    CHECK(crc32c(0, rising, 32) == 0x46DD794Eu);
    CHECK(crc32c(0, NULL, 0) == 0);
    srand(1);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)rand();
    for (size_t at = 0; at < 9; at++)
        for (size_t n = 0; n < 400; n++)
            CHECK(crc32c(0, noise + at, n) == crc_bit_by_bit(noise + at, n));
    CHECK(crc32c(0, noise, sizeof noise) == crc_bit_by_bit(noise, sizeof noise));
    CHECK(crc32c(crc32c(0, noise, 1000), noise + 1000, 500) == crc32c(0, noise, 1500));
}

static void crc32c_copy_copies_what_it_sums_up_and_no_more(void)
{
    unsigned char noise[4200], to[4300];
    srand(3);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)rand();
    for (size_t n = 0; n <= sizeof noise; n += n < 400 ? 1 : 317) {
        memset(to, 0x5a, sizeof to);
        CHECK(crc32c_copy(7, to + 3, noise, n) == crc32c(7, noise, n));
        CHECK(memcmp(to + 3, noise, n) == 0);
        CHECK(to[2] == 0x5a && to[3 + n] == 0x5a);
    }
}

static void a_seal_shows_every_flipped_bit(void)
{
    CHECK(!seal_ok(0));
    CHECK(!seal_ok(UINT64_MAX) || sealed_value(UINT64_MAX) == SEAL_MAX);
    srand(2);
    for (int i = 0; i < 20000; i++) {
        uint64_t value = ((uint64_t)rand() << 24 ^ (uint64_t)rand()) & SEAL_MAX, word = seal(value);
        CHECK(seal_ok(word) && sealed_value(word) == value);
        for (int bit = 0; bit < 64; bit++)
            CHECK(!seal_ok(word ^ UINT64_C(1) << bit));
    }
}

/* ---- agreement ---- */

static void the_first_proposal_is_everybodys_decision(void)
{
    sc_domain *d = new_domain(3);
    struct view one, other;
    uint64_t decided;
    CHECK(view_open(&one, d) == 0 && view_open(&other, d) == 0);
    CHECK(agree(&one, cell_of(0), AGE_CELL, cell_make(1, ACCEPT), &decided) == 0);
    CHECK(decided == cell_make(1, ACCEPT));
    CHECK(agree(&other, cell_of(0), AGE_CELL, cell_make(1, REJECT), &decided) == 0);
    CHECK(decided == cell_make(1, ACCEPT));
    CHECK(agree(&other, cell_of(0), AGE_CELL, cell_make(2, REJECT), &decided) == 0);
    CHECK(decided == cell_make(2, REJECT));
    CHECK(agree(&one, cell_of(0), AGE_CELL, cell_make(1, ACCEPT), &decided) == 0);
    CHECK(decided == cell_make(2, REJECT));
    sc_domain_close(d);
}

static void settling_completes_a_walk_left_half_done(void)
{
    sc_domain *d = new_domain(3);
    struct view view;
    uint64_t estimate = cell_make(1, ACCEPT), value;
    CHECK(view_open(&view, d) == 0);
    CHECK(carry(word_in(d, 0, cell_of(1)), AGE_CELL, &estimate) == 0);
    CHECK(settle(&view, cell_of(1), AGE_CELL, &value) == 0 && value == cell_make(1, ACCEPT));
    for (int copy = 0; copy < 3; copy++)
        CHECK(*word_in(d, copy, cell_of(1)) == seal(cell_make(1, ACCEPT)));
    sc_domain_close(d);
}

/* The walker wrote REJECT in the first copy only, and the copy died: the rest decides anew. */
static void a_walk_goes_on_behind_a_failed_copy(void)
{
    sc_domain *d = new_domain(3);
    struct view view;
    uint64_t estimate = cell_make(1, REJECT), decided;
    CHECK(view_open(&view, d) == 0);
    CHECK(carry(word_in(d, 0, cell_of(0)), AGE_CELL, &estimate) == 0);
    *word_in(d, 0, cell_of(0)) = 12345;
    CHECK(agree(&view, cell_of(0), AGE_CELL, cell_make(1, ACCEPT), &decided) == 0);
    CHECK(decided == cell_make(1, ACCEPT));
    CHECK(view.count == 2 && view.copy[0] == &d->copies[1]);
    CHECK(sealed_value(header_of(&d->copies[1])->failed) == 1);
    CHECK(sealed_value(header_of(&d->copies[2])->failed) == 1);
    sc_domain_close(d);
}

static void garbage_in_every_copy_is_a_lost_domain(void)
{
    sc_domain *d = new_domain(2);
    struct view view;
    uint64_t value;
    CHECK(view_open(&view, d) == 0);
    *word_in(d, 0, cell_of(0)) = *word_in(d, 1, cell_of(0)) = 7;
    CHECK(settle(&view, cell_of(0), AGE_CELL, &value) == SC_LOST);
    CHECK(agree(&view, cell_of(0), AGE_CELL, cell_make(1, ACCEPT), &value) == SC_LOST);
    sc_domain_close(d);
}

static void ages_are_compared_across_their_wrap(void)
{
    word_t word = seal((UINT64_C(0x3fffff) << AGE_OWNER) | 1);
    uint64_t estimate = 2;                           /* version 0, one after the last */
    CHECK(carry(&word, AGE_OWNER, &estimate) == 0 && word == seal(2));
    estimate = (UINT64_C(0x3fffff) << AGE_OWNER) | 1;
    CHECK(carry(&word, AGE_OWNER, &estimate) == 0 && estimate == 2 && word == seal(2));
}

struct race {
    sc_domain *domain;
    pthread_barrier_t *start;
    int number;
    uint64_t seen[500];
};

static void race(void *(*body)(void *), struct race *racers, sc_domain *d)
{
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        racers[i].domain = d;
        racers[i].start = &start;
        racers[i].number = i;
        CHECK(pthread_create(&threads[i], NULL, body, &racers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
}

static void *propose(void *argument)
{
    struct race *me = argument;
    struct view view;
    CHECK(view_open(&view, me->domain) == 0);
    for (uint64_t op = 0; op < 500; op++) {
        pthread_barrier_wait(me->start);
        if (op == 250 && me->number == 0)            /* a copy dies under their hands */
            STORE_RELEASE(&header_of(&me->domain->copies[0])->config, 0);
        CHECK(agree(&view, cell_of(0), AGE_CELL,
                    cell_make(op + 1, me->number & 1 ? ACCEPT : REJECT), &me->seen[op]) == 0);
    }
    return NULL;
}

static void racing_proposers_decide_alike(void)
{
    sc_domain *d = new_domain(3);
    struct race *racers = calloc(THREADS, sizeof *racers);
    race(propose, racers, d);
    for (int op = 0; op < 500; op++)
        for (int i = 1; i < THREADS; i++)
            CHECK(racers[i].seen[op] == racers[0].seen[op]);
    free(racers);
    sc_domain_close(d);
}

static void *take_extents(void *argument)
{
    struct race *me = argument;
    struct view view;
    CHECK(view_open(&view, me->domain) == 0);
    for (int round = 0; round < 500; round++) {
        pthread_barrier_wait(me->start);
        CHECK(extent_take(&view, me->number, 1 + (uint64_t)(me->number / 2), &me->seen[round]) == 0);
    }
    return NULL;
}

/* Two of them take one page at a time, two take two: equal and different proposals race. */
static void extents_taken_at_once_do_not_overlap(void)
{
    sc_domain *d = new_domain(3);
    struct race *racers = calloc(THREADS, sizeof *racers);
    static unsigned char taken[THREADS * 500 * 2 + 16];
    race(take_extents, racers, d);
    for (int i = 0; i < THREADS; i++)
        for (int round = 0; round < 500; round++)
            for (int page = 0; page <= i / 2; page++)
                CHECK(taken[racers[i].seen[round] / PAGE_BYTES + (uint64_t)page]++ == 0);
    free(racers);
    sc_domain_close(d);
}

/* ---- owners ---- */

static void *claim(void *argument)
{
    struct race *me = argument;
    struct view view;
    CHECK(view_open(&view, me->domain) == 0);
    for (int round = 0; round < 200; round++) {
        struct owner owner;
        pthread_barrier_wait(me->start);
        CHECK(owner_read(&view, lane_place(0, offsetof(struct sender_record, owner)), &owner) == 0);
        CHECK(owner_state(owner.value) == OWNER_FREE);
        pthread_barrier_wait(me->start);
        int rc = owner_claim(&view, &owner);
        CHECK(rc == 0 || rc == SC_EXISTS);
        me->seen[round] = rc == 0;
        if (rc == 0)
            CHECK(owner_publish(&view, &owner) == 0 && !owner_is_dead(&view, &owner));
        pthread_barrier_wait(me->start);
        if (rc == 0)
            CHECK(owner_release(&view, &owner) == 0);
    }
    return NULL;
}

static void one_of_many_claimants_gets_the_place(void)
{
    sc_domain *d = new_domain(3);
    struct race *racers = calloc(THREADS, sizeof *racers);
    race(claim, racers, d);
    for (int round = 0; round < 200; round++) {
        uint64_t winners = 0;
        for (int i = 0; i < THREADS; i++)
            winners += racers[i].seen[round];
        CHECK(winners == 1);
    }
    free(racers);
    sc_domain_close(d);
}

static void a_claim_taken_back_is_noticed_by_its_holder(void)
{
    sc_domain *d = new_domain(2);
    struct view view;
    struct owner mine, theirs;
    struct place where = lane_place(0, offsetof(struct sender_record, owner));
    CHECK(view_open(&view, d) == 0 && owner_read(&view, where, &mine) == 0);
    CHECK(owner_claim(&view, &mine) == 0);
    CHECK(owner_read(&view, where, &theirs) == 0 && theirs.value == mine.value);
    CHECK(owner_release(&view, &theirs) == 0);
    CHECK(owner_publish(&view, &mine) == SC_EXISTS);
    CHECK(owner_read(&view, where, &theirs) == 0 && owner_state(theirs.value) == OWNER_FREE);
    sc_domain_close(d);
}

/* ---- guard ---- */

static void *read_far_end(void *argument)
{
    volatile unsigned char *base = argument;
    CHECK(base[8191] == 0);
    return NULL;
}

static void a_cut_mapping_reads_as_zeros_in_every_thread(void)
{
    int fd = memfd_create("cut", 0);
    CHECK(guard_install() == 0 && fd >= 0 && ftruncate(fd, 8192) == 0);
    unsigned char *base = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int mapping = guard_add(base, 8192);
    uint32_t before = LOAD_RELAXED(&guard_faults);
    memset(base, 1, 8192);
    CHECK(mapping >= 0 && !guard_is_lost(mapping));
    CHECK(ftruncate(fd, 100) == 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, read_far_end, base) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(guard_is_lost(mapping) && LOAD_RELAXED(&guard_faults) > before);
    base[0] = 5;                                     /* the whole mapping is private now */
    CHECK(base[0] == 5);
    guard_remove(mapping);
    CHECK(guard_add(base, 4096) == mapping && !guard_is_lost(mapping)); /* its entry is free again */
    close(fd);
}

/* ---- late helpers ---- */

/* A receiver that was evicted in its sleep, or whoever saw to a dead sender's message, wakes up when
 * the slot holds the next lap's message. Its word must stand. */
static void a_late_decision_leaves_a_later_message_alone(void)
{
    const struct sc_mailbox_params params = {.message_bytes = 64, .capacity = 2, .receivers = 2,
                                             .checksum = 1};
    enum { LANE = 1, EARLY = 0, LATER = 2 };
    for (enum sc_protocol protocol = SC_CRASH; protocol <= SC_TIMING; protocol++) {
        sc_domain *d = new_domain_for(2, protocol, "nameless");
        CHECK(sc_mailbox_create(d, "box", &params) == 0);
        struct view view;
        CHECK(view_open(&view, d) == 0);
        const uint64_t later = seal(decision_tag(LATER));
        for (int i = 0; i < 2; i++)
            STORE_RELEASE(&slot_at(d, &d->copies[i], 0, LANE, LATER)->decision, later);
        enum decision decided;
        uint64_t violations = 0;
        if (protocol == SC_TIMING)
            CHECK(timing_conclude(&view, 0, LANE, EARLY, true) == 0);
        else
            CHECK(crash_decide(&view, 0, LANE, EARLY, &decided, &violations) == 0 &&
                  decided == REJECT && violations == 0);
        for (int i = 0; i < 2; i++)
            CHECK(LOAD_ACQUIRE(&slot_at(d, &d->copies[i], 0, LANE, LATER)->decision) == later);
        sc_domain_close(d);
    }
}

/* ---- copies that come while somebody looks ---- */

static char own_name[64];
static _Atomic bool enough;

static void take_own_name(void)
{
    snprintf(own_name, sizeof own_name, "test-core-%d", (int)getpid());
    sc_domain_remove(own_name);
}

static void *keep_opening(void *unused)
{
    while (!enough) {
        sc_domain *d;
        if (sc_domain_open(own_name, 0, &d) == 0)
            sc_domain_close(d);
    }
    return unused;
}

/* Its segments get their names one after the other: who opens in between must not take the ones that
 * it did not see for failed. */
static void opening_a_domain_being_born_fails_no_copy(void)
{
    pthread_t openers[THREADS];
    take_own_name();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&openers[i], NULL, keep_opening, NULL) == 0);
    for (int round = 0; round < 400; round++) {
        sc_domain *d = new_domain_for(3, SC_EAGER, own_name);
        struct view view;
        CHECK(sc_domain_publish(d) == 0);
        usleep(200);                                 /* so that they find it */
        CHECK(view_open(&view, d) == 0 && view.count == 3);
        CHECK(sc_domain_remove(own_name) == 0);
        sc_domain_close(d);
    }
    enough = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(openers[i], NULL);
}

static void path_of(int serial, char out[128])
{
    snprintf(out, 128, "/dev/shm/shmcast.%s.%d", own_name, serial);
}

/* A creator that dies between naming its segments and calling them born. */
static void leave_a_stillborn_domain(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        sc_domain *d = new_domain_for(2, SC_EAGER, own_name);
        CHECK(segment_link(own_name, &d->copies[1]) == 0 && segment_link(own_name, &d->copies[0]) == 0);
        _exit(0);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

/* Whoever clears away what a dead creator left may be late, and the name another domain's by then. */
static void a_late_clearer_leaves_the_next_domain_alone(void)
{
    char path[128];
    struct stat st;
    take_own_name();
    leave_a_stillborn_domain();
    int late = segment_hold_name(own_name, 0);
    CHECK(late >= 0 && segment_hold_name(own_name, 0) == -EWOULDBLOCK);
    sc_domain *d = new_domain(1), *opened;
    snprintf(d->name, sizeof d->name, "%s", own_name);
    CHECK(sc_domain_publish(d) == SC_EXISTS);            /* it is not ours to take while he holds it */
    for (int serial = 0; serial < 2; serial++) {
        path_of(serial, path);
        CHECK(unlink(path) == 0);                        /* as somebody with `shmcast rm` may */
    }
    CHECK(sc_domain_publish(d) == 0);
    segment_release_name(own_name, 0, late, true);
    path_of(0, path);
    CHECK(stat(path, &st) == 0 && sc_domain_open(own_name, 0, &opened) == 0);
    sc_domain_close(opened);
    sc_domain_close(d);
    CHECK(sc_domain_remove(own_name) == 0);
}

static void a_stillborn_domain_makes_room(void)
{
    sc_domain *opened;
    take_own_name();
    leave_a_stillborn_domain();
    CHECK(sc_domain_open(own_name, 0, &opened) == SC_MISSING); /* and it is cleared away */
    leave_a_stillborn_domain();
    sc_domain *d = new_domain_for(3, SC_EAGER, own_name);
    CHECK(sc_domain_publish(d) == 0);
    CHECK(sc_domain_open(own_name, 0, &opened) == 0);
    sc_domain_close(opened);
    sc_domain_close(d);
    CHECK(sc_domain_remove(own_name) == 0);
}

static void lose(int serial)
{
    char path[128];
    path_of(serial, path);
    CHECK(truncate(path, 0) == 0);
}

static pthread_barrier_t both;

static void *look_again(void *domain)
{
    struct view view;
    pthread_barrier_wait(&both);
    return view_open(&view, domain) == 0 ? NULL : domain;
}

static void look_with_two_threads(sc_domain *d)
{
    pthread_t one, other;
    void *lost_one, *lost_other;
    CHECK(pthread_create(&one, NULL, look_again, d) == 0);
    CHECK(pthread_create(&other, NULL, look_again, d) == 0);
    pthread_join(one, &lost_one);
    pthread_join(other, &lost_other);
    CHECK(!lost_one && !lost_other);
}

/* All copies that a process knows are replaced while it does not look; then two of its threads look
 * at once. The one that finds nothing new, since the other has found it, is not told "lost". */
static void a_copy_that_another_thread_found_counts(void)
{
    take_own_name();
    pthread_barrier_init(&both, NULL, 2);
    sc_domain *keeper = new_domain_for(2, SC_EAGER, own_name), *reader;
    CHECK(sc_domain_publish(keeper) == 0);
    CHECK(sc_domain_open(own_name, 0, &reader) == 0);
    for (int first = 0; first < 40; first += 2) {    /* the reader knows `first` and the next one */
        lose(first);
        CHECK(sc_domain_replace(keeper, SECOND) == 1);
        lose(first + 1);
        look_with_two_threads(reader);
        CHECK(sc_domain_replace(keeper, SECOND) == 1);
        look_with_two_threads(reader);
    }
    CHECK(domain_find_later(reader) == 42 && domain_find_later(reader) == 42);
    sc_domain_close(reader);
    sc_domain_close(keeper);
    sc_domain_remove(own_name);
}

/* A freeze that its owner, alive, does not end: whoever waits for it waits until the deadline. */
static void a_freeze_is_waited_for_until_the_deadline(void)
{
    const struct place config_at = {-1, offsetof(struct segment_header, config)};
    const struct place replacer_at = {-1, offsetof(struct segment_header, replacer)};
    sc_domain *d = new_domain(2);
    struct view view;
    struct owner right;
    uint64_t decided;
    CHECK(view_open(&view, d) == 0 && owner_read(&view, replacer_at, &right) == 0);
    CHECK(owner_claim(&view, &right) == 0);
    uint64_t frozen = config_make(config_version(view.config) + 1, true, config_count(view.config));
    CHECK(agree_while_frozen(&view, config_at, AGE_CONFIG, frozen, &decided) == 0);
    CHECK(view_refresh(&view) == 0);
    uint64_t deadline = sys_now() + 2000000;
    CHECK(view_wait_thawed(&view, deadline) == SC_FROZEN && sys_now() >= deadline);
    CHECK(owner_release(&view, &right) == 0);            /* nobody's freeze ends at once */
    CHECK(view_wait_thawed(&view, FOREVER) == 0 && !config_frozen(view.config));
    sc_domain_close(d);
}

/* /dev/shm that outlived its machine's memory, in a snapshot say: clocks have begun anew. */
static void a_segment_of_another_boot_is_incompatible(void)
{
    sc_domain *opened, *d = new_domain(1);
    struct copy copy;
    struct segment_fixed foreign = d->fixed;
    take_own_name();
    foreign.boot_id[3] ^= 1;
    CHECK(segment_create(&foreign, foreign.table_bytes, 0600, -1, &copy) == 0);
    CHECK(segment_link(own_name, &copy) == 0);
    CHECK(sc_domain_open(own_name, 0, &opened) == SC_INCOMPATIBLE);
    CHECK(segment_unlink(own_name, 0) == 0);
    segment_close(&copy);
    sc_domain_close(d);
}

/* ---- who is alive ---- */

/* A start time that nobody could read says nothing; one that differs says that the pid is another's. */
static void nobody_is_dead_because_proc_does_not_tell(void)
{
    struct identity self = sys_self(), parent = {(uint32_t)getppid(), 0, self.pid_space};
    CHECK(sys_liveness(&self) == PROCESS_ALIVE);
    CHECK(sys_liveness(&parent) == PROCESS_UNKNOWN);
    parent.start_ticks = 1;
    CHECK(sys_liveness(&parent) == PROCESS_DEAD);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    struct identity gone = {(uint32_t)child, 0, self.pid_space};
    siginfo_t how;
    CHECK(waitid(P_PID, (id_t)child, &how, WEXITED | WNOWAIT) == 0);
    CHECK(sys_liveness(&gone) == PROCESS_DEAD);          /* a zombie */
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(sys_liveness(&gone) == PROCESS_DEAD);
}

/* ---- a receiver that is closed while a schedule decides for it ---- */

static _Atomic uint64_t rounds_taken;

/* As a schedule's dispatcher does: it is not told that the receiver is closed. */
static void *decide_until_closed(void *receiver)
{
    while (sc_rt_decide(receiver, FOREVER) != SC_CLOSED)
        COUNT_UP(&rounds_taken);
    return NULL;
}

static void closing_ends_the_rounds_of_a_schedule(void)
{
    const struct sc_mailbox_params params = {.message_bytes = 64, .capacity = 2, .receivers = 2,
                                             .checksum = 1};
    take_own_name();
    sc_domain *d = new_domain_for(2, SC_TIMING, own_name);
    CHECK(sc_mailbox_create(d, "box", &params) == 0 && sc_domain_publish(d) == 0);
    for (int i = 0; i < 40; i++) {
        sc_receiver *r;
        pthread_t thread;
        CHECK(sc_receiver_open(d, 0, SECOND, &r) == 0 && sc_receiver_decide_by_schedule(r) == 0);
        uint64_t before = rounds_taken;
        CHECK(pthread_create(&thread, NULL, decide_until_closed, r) == 0);
        while (rounds_taken == before)
            sched_yield();
        CHECK(sc_receiver_close(r) == 0);
        pthread_join(thread, NULL);
        CHECK(sc_receiver_decide_by_schedule(r) == SC_CLOSED);
        sc_receiver_free(r);
    }
    sc_domain_close(d);
    sc_domain_remove(own_name);
}

static const struct { const char *name; void (*run)(void); } tests[] = {
#define TEST(name) {#name, name}
    TEST(crc32c_is_castagnolis),
    TEST(crc32c_copy_copies_what_it_sums_up_and_no_more),
    TEST(a_seal_shows_every_flipped_bit),
    TEST(the_first_proposal_is_everybodys_decision),
    TEST(settling_completes_a_walk_left_half_done),
    TEST(a_walk_goes_on_behind_a_failed_copy),
    TEST(garbage_in_every_copy_is_a_lost_domain),
    TEST(ages_are_compared_across_their_wrap),
    TEST(racing_proposers_decide_alike),
    TEST(extents_taken_at_once_do_not_overlap),
    TEST(one_of_many_claimants_gets_the_place),
    TEST(a_claim_taken_back_is_noticed_by_its_holder),
    TEST(a_cut_mapping_reads_as_zeros_in_every_thread),
    TEST(a_late_decision_leaves_a_later_message_alone),
    TEST(opening_a_domain_being_born_fails_no_copy),
    TEST(a_copy_that_another_thread_found_counts),
    TEST(a_late_clearer_leaves_the_next_domain_alone),
    TEST(a_stillborn_domain_makes_room),
    TEST(a_freeze_is_waited_for_until_the_deadline),
    TEST(a_segment_of_another_boot_is_incompatible),
    TEST(nobody_is_dead_because_proc_does_not_tell),
    TEST(closing_ends_the_rounds_of_a_schedule),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc < 2)
            puts(tests[i].name);
        else if (strcmp(argv[1], tests[i].name) == 0) {
            tests[i].run();
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}
