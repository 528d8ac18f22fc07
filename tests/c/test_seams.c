/* test_seams.c: errors that come between two steps of the core. Functions of the core and of the C
 * library are wrapped by the linker, so that they fail, or something else happens, at just that moment.
 * Run by tests/unit/mailbox/test_seams.py, once per test:
 *
 *   test_seams NAME      0 if it holds; says what does not
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "receiver.h"

#define CHECK(what)                                                                  \
    do {                                                                             \
        if (!(what)) {                                                               \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __func__, __LINE__, #what); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

#define NOW (SC_UNCOUNTED | 1)
#define PATIENCE_NS (30 * NS_PER_S)

static char name[64];

static sc_domain *new_domain(uint32_t copies, enum sc_protocol protocol, uint64_t bound_ns)
{
    struct sc_domain_params p = {.copies = copies, .senders = 16, .mailboxes = 1,
                                 .protocol = protocol, .mode = 0600, .group_id = -1};
    const struct sc_mailbox_params box = {.message_bytes = 64, .capacity = 4, .receivers = 4,
                                          .checksum = 1, .evict = 1};
    p.bounds = (struct sc_bounds){.send_ns = bound_ns, .poll_ns = 1000000};
    p.bounds.expiry_ns = 2 * bound_ns;
    p.bounds.hold_ns = NS_PER_S;
    sc_domain *d = NULL;
    snprintf(name, sizeof name, "t%d-seams", (int)getpid());
    CHECK(sc_domain_create(name, &p, &d) == 0);
    CHECK(sc_mailbox_create(d, "box", &box) == 0);
    return d;
}

static int next_text(sc_receiver *r, char *out, uint64_t deadline)
{
    struct sc_message m;
    memset(out, 0, 64);
    return sc_receive(r, out, 64, deadline, &m);
}

/* ---- a walk that ends in an error after its proposals ---- */

static int failing_walks;

int __real_agree_while_frozen(struct view *, struct place, enum age_shift, uint64_t, uint64_t *);
int __wrap_agree_while_frozen(struct view *view, struct place where, enum age_shift shift,
                              uint64_t proposal, uint64_t *decided);
int __wrap_agree_while_frozen(struct view *view, struct place where, enum age_shift shift,
                              uint64_t proposal, uint64_t *decided)
{
    int rc = __real_agree_while_frozen(view, where, shift, proposal, decided);
    return failing_walks > 0 && failing_walks-- ? -EMFILE : rc;
}

struct ends { sc_domain *domain; sc_sender *sender; sc_receiver *receiver; };

static struct ends open_ends(void)
{
    struct ends e = {.domain = new_domain(2, SC_EAGER, 1000000)};
    CHECK(sc_sender_open(e.domain, NOW, &e.sender) == 0);
    CHECK(sc_receiver_open(e.domain, 0, NOW, &e.receiver) == 0);
    return e;
}

static void close_ends(struct ends *e)
{
    sc_sender_free(e->sender);
    sc_receiver_free(e->receiver);
    sc_domain_close(e->domain);
}

static void expect(struct ends *e, const char *text)
{
    char got[64];
    CHECK(next_text(e->receiver, got, sys_now() + PATIENCE_NS) == 0);
    CHECK(strcmp(got, text) == 0);
}

static void a_send_whose_walk_fails_once_is_ended_by_the_sender(void)
{
    struct ends e = open_ends();
    struct sc_receipt receipt;
    CHECK(sc_send(e.sender, 1, "a", 2, NOW, &receipt) == 0);
    failing_walks = 1;
    CHECK(sc_send(e.sender, 1, "b", 2, NOW, &receipt) == 0);
    CHECK(sc_send(e.sender, 1, "c", 2, NOW, &receipt) == 0 && receipt.sequence == 2);
    expect(&e, "a");
    expect(&e, "b");
    expect(&e, "c");
    close_ends(&e);
}

/* The error goes on: the outcome is open, said so, and never overwritten by what comes next. */
static void a_send_that_cannot_be_ended_is_undecided_until_it_can(void)
{
    struct ends e = open_ends();
    struct sc_receipt open, told, next;
    failing_walks = 2;
    CHECK(sc_send(e.sender, 1, "a", 2, NOW, &open) == SC_UNDECIDED);
    CHECK(sc_sender_undecided(e.sender, &told) == 0 && told.timestamp == open.timestamp);
    failing_walks = 1;
    CHECK(sc_send(e.sender, 1, "b", 2, NOW, &next) == -EMFILE);
    CHECK(sc_send(e.sender, 1, "b", 2, NOW, &next) == 0);
    CHECK(next.position == open.position + 1 && next.sequence == open.sequence + 1);
    CHECK(sc_confirm(e.sender, 0, &open, NOW) == 0 && sc_confirm(e.sender, 0, &next, NOW) == 0);
    expect(&e, "a");
    expect(&e, "b");
    close_ends(&e);
}

/* A receiver rejects it meanwhile: then nobody delivers it, and its sender is told. */
static void an_undecided_send_that_others_end_is_told_by_confirm(void)
{
    struct ends e = open_ends();
    struct sc_receipt open, next;
    failing_walks = 2;
    CHECK(sc_send(e.sender, 1, "a", 2, NOW, &open) == SC_UNDECIDED);
    expect(&e, "a");                                 /* after its bound, by the receiver's own walk */
    CHECK(sc_confirm(e.sender, -1, &open, NOW) == 0);
    CHECK(sc_send(e.sender, 1, "b", 2, NOW, &next) == 0);
    expect(&e, "b");
    failing_walks = 2;
    CHECK(sc_send(e.sender, 1, "c", 2, NOW, &open) == SC_UNDECIDED);
    sc_sender_free(e.sender);                        /* ends it as well */
    expect(&e, "c");
    CHECK(sc_sender_open(e.domain, NOW, &e.sender) == 0);
    close_ends(&e);
}

/* ---- a replacer that names a segment while the domain is removed ---- */

static struct copy newcomer;

int __real_segment_list(const char *domain, uint64_t *serials, int max);
int __wrap_segment_list(const char *domain, uint64_t *serials, int max);
int __wrap_segment_list(const char *domain, uint64_t *serials, int max)
{
    int count = __real_segment_list(domain, serials, max);
    if (newcomer.table) {
        CHECK(segment_link(domain, &newcomer) == 0);
        segment_close(&newcomer);
    }
    return count;
}

static void a_removal_takes_along_what_is_named_meanwhile(void)
{
    sc_domain *d = new_domain(1, SC_EAGER, 1000000);
    uint64_t serials[SERIALS_MAX];
    struct segment_fixed fixed = d->fixed;
    fixed.serial = 1;
    CHECK(sc_domain_publish(d) == 0);
    CHECK(segment_create(&fixed, fixed.table_bytes, 0600, -1, &newcomer) == 0);
    CHECK(sc_domain_remove(name) == 0);
    CHECK(__real_segment_list(name, serials, SERIALS_MAX) == 0);
    sc_domain_close(d);
}

/* ---- a fork while another thread installs the handler ---- */

static _Atomic bool hold, inside, forking, forked;

static void pause_until(_Atomic bool *flag, uint64_t at_most_ns)
{
    for (uint64_t end = sys_now() + at_most_ns; !LOAD_ACQUIRE(flag) && sys_now() < end;)
        sys_sleep_until(sys_now() + 100000);
}

int __real_sigaction(int number, const struct sigaction *action, struct sigaction *old);
int __wrap_sigaction(int number, const struct sigaction *action, struct sigaction *old);
int __wrap_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (EXCHANGE(&hold, false)) {
        STORE_RELEASE(&inside, true);
        pause_until(&forking, PATIENCE_NS);
        pause_until(&forked, 20000000);              /* it is not, if the fork waits for us */
    }
    return __real_sigaction(number, action, old);
}

static void say_forking(void) { STORE_RELEASE(&forking, true); }
static void say_forked(void) { STORE_RELEASE(&forked, true); }

static void *install(void *unused)
{
    CHECK(guard_install() == 0);
    return unused;
}

static void a_fork_does_not_inherit_a_lock_that_nobody_will_open(void)
{
    pthread_t thread;
    pthread_atfork(say_forking, say_forked, NULL);   /* the last one registered prepares first */
    STORE_RELEASE(&hold, true);
    CHECK(pthread_create(&thread, NULL, install, NULL) == 0);
    pause_until(&inside, PATIENCE_NS);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(guard_install() != 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    pthread_join(thread, NULL);
}

/* ---- many senders stopped in the middle of a send ---- */

static _Atomic uint64_t ahead_ns;                    /* time that passed at no cost */
static _Atomic bool fast_time;                       /* so it passes when the application sleeps */
static pthread_t application;

uint64_t __real_sys_now(void);
uint64_t __wrap_sys_now(void);
uint64_t __wrap_sys_now(void) { return __real_sys_now() + LOAD_ACQUIRE(&ahead_ns); }

static void pass(uint64_t ns) { STORE_RELEASE(&ahead_ns, LOAD_ACQUIRE(&ahead_ns) + ns); }

void __real_sys_sleep_until(uint64_t when);
void __wrap_sys_sleep_until(uint64_t when);
void __wrap_sys_sleep_until(uint64_t when)
{
    uint64_t now = __wrap_sys_now();
    if (!LOAD_ACQUIRE(&fast_time) || !pthread_equal(pthread_self(), application))
        __real_sys_sleep_until(when - LOAD_ACQUIRE(&ahead_ns));
    else if (when > now)
        pass(when - now);
}

static void let_time_fly(bool wanted)
{
    application = pthread_self();
    STORE_RELEASE(&fast_time, wanted);
}

static void many_stopped_senders_are_overdue_at_one_moment(void)
{
    enum { STOPPED = 12 };
    const uint64_t bound_ns = 60 * NS_PER_S;         /* this machine's slowness is nothing beside it */
    sc_domain *d = new_domain(2, SC_EAGER, bound_ns);
    sc_sender *s[STOPPED];
    CHECK(sc_domain_publish(d) == 0);
    for (int i = 0; i < STOPPED; i++)
        CHECK(sc_sender_open(d, NOW, &s[i]) == 0);
    for (int i = 0; i < STOPPED; i++)                /* as if each had raised its intent */
        for (int c = 0; c < 2; c++)
            STORE_RELEASE(&sender_of(&d->copies[c], (uint32_t)i)->intent, seal(intent_busy(1)));
    CHECK(sc_fault_poison(d, 0) == 0);
    let_time_fly(true);
    uint64_t before = __wrap_sys_now();
    CHECK(sc_domain_replace(d, FOREVER) == 1);
    CHECK(__wrap_sys_now() - before < 2 * bound_ns);
    let_time_fly(false);
    for (int i = 0; i < STOPPED; i++)
        sc_sender_free(s[i]);
    CHECK(sc_domain_remove(name) == 0);
    sc_domain_close(d);
}

/* ---- a deciding thread that runs out of files ---- */

static _Atomic int failing_refreshes;                /* of other threads than the application's */

int __real_view_refresh(struct view *view);
int __wrap_view_refresh(struct view *view);
int __wrap_view_refresh(struct view *view)
{
    int left = LOAD_RELAXED(&failing_refreshes);
    if (left > 0 && !pthread_equal(pthread_self(), application)) {
        COUNT_DOWN(&failing_refreshes);
        return -EMFILE;
    }
    return __real_view_refresh(view);
}

static void a_deciding_thread_tells_of_its_error_and_goes_on(void)
{
    sc_domain *d = new_domain(2, SC_TIMING, 50000000);
    struct sc_receipt receipt;
    sc_sender *s;
    sc_receiver *r;
    char got[64];
    const uint64_t end = sys_now() + PATIENCE_NS;
    application = pthread_self();
    CHECK(sc_sender_open(d, NOW, &s) == 0 && sc_receiver_open(d, 0, NOW, &r) == 0);
    STORE_RELEASE(&failing_refreshes, 40);         /* a round may look several times */
    COUNT_UP(&guard_faults);                         /* every view looks again */
    int rc, told = 0;
    do
        told += (rc = next_text(r, got, sys_now() + NS_PER_S / 100)) == -EMFILE;
    while (sys_now() < end && (!told || LOAD_ACQUIRE(&failing_refreshes)));
    CHECK(told);
    do                                               /* rejected if this machine is too slow for it */
        sc_send(s, 1, "a", 2, end, &receipt);
    while ((rc = next_text(r, got, sys_now() + NS_PER_S)) != 0 && sys_now() < end);
    CHECK(rc == 0 && strcmp(got, "a") == 0);
    sc_sender_free(s);
    sc_receiver_free(r);
    sc_domain_close(d);
}

/* ---- deadlines ---- */

static _Atomic uint64_t latest_wake;                 /* the latest moment that anybody slept to */

int __real_sys_futex_wait(bell_t *bell, uint32_t expected, uint64_t until);
int __wrap_sys_futex_wait(bell_t *bell, uint32_t expected, uint64_t until);
int __wrap_sys_futex_wait(bell_t *bell, uint32_t expected, uint64_t until)
{
    if (until > LOAD_ACQUIRE(&latest_wake))
        STORE_RELEASE(&latest_wake, until);
    return __real_sys_futex_wait(bell, expected, until - LOAD_ACQUIRE(&ahead_ns));
}

/* However slow the machine is, nobody asks to sleep for longer than its deadline. */
static void whoever_waits_sleeps_to_its_deadline_and_no_longer(void)
{
    struct ends e = open_ends();
    struct sc_receipt receipt;
    char got[64];
    for (int i = 0; i < 4; i++)
        CHECK(sc_send(e.sender, 1, "x", 2, NOW, &receipt) == 0);
    for (int i = 0; i < 20; i++) {
        uint64_t deadline = sys_now() + 300000 + (uint64_t)i * 37000;
        STORE_RELEASE(&latest_wake, 0);
        CHECK(sc_send(e.sender, 1, "y", 2, deadline, &receipt) == SC_FULL && sys_now() >= deadline);
        CHECK(LOAD_ACQUIRE(&latest_wake) <= deadline);
    }
    for (int i = 0; i < 4; i++)
        expect(&e, "x");
    sc_receiver_wait_style(e.receiver, 0);
    for (int i = 0; i < 20; i++) {
        uint64_t deadline = sys_now() + 300000 + (uint64_t)i * 37000;
        STORE_RELEASE(&latest_wake, 0);
        CHECK(next_text(e.receiver, got, deadline) == SC_TIMEOUT && sys_now() >= deadline);
        CHECK(LOAD_ACQUIRE(&latest_wake) <= deadline);
    }
    close_ends(&e);
}

/* ---- `timing` with bounds of minutes, decided by rounds that the test takes ---- */

#define BOUND_NS (100 * NS_PER_S)

static sc_receiver *member_by_rounds(sc_domain *d)
{
    sc_receiver *r;
    let_time_fly(true);                              /* joining takes Δs */
    CHECK(sc_receiver_open(d, 0, NOW, &r) == 0);
    CHECK(sc_receiver_decide_by_schedule(r) == 0);
    let_time_fly(false);
    return r;
}

static void decide_on_all(sc_receiver *r)
{
    pass(BOUND_NS + NS_PER_S);                       /* the sender's time is over, the vote's is not */
    for (int i = 0; i < 3; i++)
        CHECK(decider_round(r, NOW) == 0);
    pass(2 * BOUND_NS);
}

static uint64_t ring_takes_ns;

void __real_ring_receivers(const struct view *view, int box);
void __wrap_ring_receivers(const struct view *view, int box);
void __wrap_ring_receivers(const struct view *view, int box)
{
    pass(ring_takes_ns);
    __real_ring_receivers(view, box);
}

static void a_late_send_ends_at_its_deadline_and_confirm_tells(void)
{
    sc_domain *d = new_domain(2, SC_TIMING, BOUND_NS);
    struct sc_receipt receipt, told;
    sc_receiver *r = member_by_rounds(d);
    sc_sender *s;
    char got[64];
    CHECK(sc_sender_open(d, NOW, &s) == 0);
    ring_takes_ns = BOUND_NS + 1;
    uint64_t deadline = sys_now() + BOUND_NS + NS_PER_S;
    CHECK(sc_send(s, 1, "a", 2, deadline, &receipt) == SC_UNDECIDED);
    ring_takes_ns = 0;
    CHECK(sys_now() < receipt.timestamp + 2 * BOUND_NS); /* the receivers' patience is longer */
    CHECK(sc_sender_undecided(s, &told) == 0 && told.timestamp == receipt.timestamp);
    CHECK(sc_confirm(s, -1, &receipt, NOW) == SC_TIMEOUT);
    for (int i = 0; i < 3; i++)
        CHECK(decider_round(r, NOW) == 0);
    CHECK(sc_confirm(s, -1, &receipt, NOW) == 0);
    pass(2 * BOUND_NS);
    CHECK(next_text(r, got, NOW) == 0 && strcmp(got, "a") == 0);
    CHECK(sc_send(s, 1, "b", 2, sys_now() + NS_PER_S, &told) == 0);
    CHECK(told.sequence == receipt.sequence + 1 && told.position == receipt.position + 1);
    sc_sender_free(s);
    sc_receiver_free(r);
    sc_domain_close(d);
}

/* Each message of a batch has a Δs of its own; the longest one is what the batch is judged by. */
static void a_batch_of_the_timed_protocols_is_not_late_for_its_length(void)
{
    const struct sc_part parts[3] = {{"a", 2}, {"b", 2}, {"c", 2}};
    sc_domain *d = new_domain(2, SC_CRASH, BOUND_NS);
    struct sc_sender_stats stats;
    struct sc_receipt receipt;
    sc_sender *s;
    CHECK(sc_sender_open(d, NOW, &s) == 0);
    ring_takes_ns = BOUND_NS / 2;
    CHECK(sc_send_many(s, 1, parts, 3, FOREVER, &receipt) == 0);
    ring_takes_ns = 0;
    CHECK(sc_domain_sender_stats(d, 0, &stats) == 0 && stats.messages == 3 && stats.late == 0);
    CHECK(stats.worst_ns >= BOUND_NS / 2 && stats.worst_ns < BOUND_NS);
    sc_sender_free(s);
    sc_domain_close(d);
}

/* As if somebody with a fast clock looked after the lane of a sender that died when its message was
 * sent, before its receivers come to vote. */
static void one_fast_clock_rejects_no_message_of_the_dead(void)
{
    sc_domain *d = new_domain(2, SC_TIMING, BOUND_NS);
    char got[64];
    CHECK(sc_domain_publish(d) == 0);
    sc_receiver *r = member_by_rounds(d);
    pid_t child = fork();
    if (child == 0) {
        struct sc_receipt receipt;
        sc_domain *own;
        sc_sender *s;
        _exit(sc_domain_open(name, NOW, &own) || sc_sender_open(own, NOW, &s) ||
              sc_send(s, 1, "last", 5, sys_now() + NS_PER_S, &receipt));
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    clock_set_fault((int64_t)(1000 * BOUND_NS), 0);
    for (int i = 0; i < 3; i++)
        CHECK(sc_domain_reap(d) == 0);
    clock_set_fault(0, 0);
    decide_on_all(r);
    CHECK(next_text(r, got, NOW) == 0 && strcmp(got, "last") == 0);
    CHECK(sc_domain_reap(d) == 1);
    sc_receiver_free(r);
    CHECK(sc_domain_remove(name) == 0);
    sc_domain_close(d);
}

static uint64_t members_of(sc_domain *d)
{
    uint64_t held = 0;
    for (int slot = 0; slot < 4; slot++) {
        struct sc_receiver_stats stats;
        CHECK(sc_mailbox_receiver_stats(d, 0, slot, &stats) == 0);
        held += stats.held;
        CHECK(stats.held == 0 || stats.late_peers == 0 || slot == 0);
    }
    return held;
}

/* Nobody's rounds run for a while; then one receiver wakes before the other. */
static void a_pause_of_all_is_nobodys_silence(void)
{
    sc_domain *d = new_domain(2, SC_TIMING, BOUND_NS);
    sc_receiver *r = member_by_rounds(d), *other = member_by_rounds(d);
    struct sc_receiver_stats stats;
    for (int pause = 0; pause < 3; pause++) {
        CHECK(decider_round(r, NOW) == 0 && decider_round(other, NOW) == 0);
        pass(50 * BOUND_NS);
        for (int i = 0; i < 12; i++)                 /* one peer is looked after in a round */
            CHECK(decider_round(r, NOW) == 0);
        CHECK(sc_mailbox_receiver_stats(d, 0, 0, &stats) == 0);
        CHECK(stats.late_peers == 0 && members_of(d) == 2);
    }
    for (int i = 0; i < 40; i++) {                   /* this time it is only the other */
        pass(BOUND_NS / 2);
        CHECK(decider_round(r, NOW) == 0);
    }
    CHECK(members_of(d) == 1);
    sc_receiver_free(other);
    sc_receiver_free(r);
    sc_domain_close(d);
}

#define TEST(name) {#name, name}

static const struct { const char *name; void (*run)(void); } tests[] = {
    TEST(a_send_whose_walk_fails_once_is_ended_by_the_sender),
    TEST(a_send_that_cannot_be_ended_is_undecided_until_it_can),
    TEST(an_undecided_send_that_others_end_is_told_by_confirm),
    TEST(a_removal_takes_along_what_is_named_meanwhile),
    TEST(a_fork_does_not_inherit_a_lock_that_nobody_will_open),
    TEST(many_stopped_senders_are_overdue_at_one_moment),
    TEST(a_deciding_thread_tells_of_its_error_and_goes_on),
    TEST(whoever_waits_sleeps_to_its_deadline_and_no_longer),
    TEST(a_late_send_ends_at_its_deadline_and_confirm_tells),
    TEST(a_batch_of_the_timed_protocols_is_not_late_for_its_length),
    TEST(one_fast_clock_rejects_no_message_of_the_dead),
    TEST(a_pause_of_all_is_nobodys_silence),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc < 2) {
            puts(tests[i].name);
        } else if (strcmp(argv[1], tests[i].name) == 0) {
            tests[i].run();
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}
