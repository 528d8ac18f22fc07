/* stress.c: the public API under real concurrency, for the sanitizers and valgrind.
 *
 *   stress               lists the scenarios
 *   stress NAME [SIZE]   runs one; SIZE sends per sender (60). 0 if it holds; says what does not
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "traffic.h"

static int size = 60;
static struct member senders[MEMBERS_MAX], receivers[MEMBERS_MAX], others[MEMBERS_MAX];

struct plan {
    int protocol, copies, boxes, failures, joins, mailboxes;
    bool visitors;                                   /* the second sender and receiver */
};

static void start_receivers(struct arena *a, const struct plan *p, int n)
{
    for (int i = 0; i < n; i++) {
        receivers[i].box = i % p->boxes;
        receivers[i].viewing = i == 0;
        receivers[i].visitor = p->visitors && i == 1;
        start(&receivers[i], a, i, receive_to_the_end);
    }
    while (atomic_load(&a->seen) < n)                /* they count themselves in */
        sched_yield();
}

static int start_others(struct arena *a, const struct plan *p)
{
    const struct { int times; void *(*body)(void *); } wanted[] = {
        {p->failures, fail_and_replace_copies},
        {p->joins, join_and_leave},
        {p->mailboxes, make_and_remove_mailboxes},
        {1, look_after_the_domain},
    };
    int n = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (wanted[i].times) {
            others[n].messages = wanted[i].times;
            start(&others[n], a, n, wanted[i].body);
            n++;
        }
    return n;
}

static void run(struct plan p)
{
    struct arena a = arena_open(p.protocol, p.copies, p.boxes, 0);
    int receiver_count = p.boxes == 2 ? 3 : 2;
    start_receivers(&a, &p, receiver_count);
    for (int i = 0; i < 2; i++) {
        senders[i].messages = size;
        senders[i].visitor = p.visitors && i == 1;
        start(&senders[i], &a, i, send_all);
    }
    int other_count = start_others(&a, &p);
    for (int i = 0; i < 2; i++)
        join(&senders[i]);
    atomic_store(&a.traffic_is_over, true);
    for (int i = 0; i < other_count; i++)
        join(&others[i]);
    send_the_end(&a);
    for (int i = 0; i < receiver_count; i++)
        join(&receivers[i]);
    check_deliveries(&a, senders, 2, receivers, receiver_count);
    arena_close(&a);
}

static void eager_traffic_survives_failing_copies(void)
{
    run((struct plan){SC_EAGER, 3, 2, .failures = 6, .joins = 6});
}

static void eager_traffic_between_several_mappings(void)
{
    run((struct plan){SC_EAGER, 3, 2, .failures = 6, .joins = 6, .visitors = true});
}

static void crash_traffic_survives_failing_copies(void)
{
    run((struct plan){SC_CRASH, 3, 1, .failures = 4, .joins = 3});
}

static void timing_traffic_survives_failing_copies(void)
{
    run((struct plan){SC_TIMING, 3, 1, .failures = 4, .joins = 3});
}

static void mailboxes_come_and_go_beside_traffic(void)
{
    run((struct plan){SC_EAGER, 2, 1, .mailboxes = 30});
}

/* ---- others' fates ---- */

static void a_reader_that_holds_everybody_up_is_evicted_and_told(void)
{
    struct arena a = arena_open(SC_EAGER, 2, 1, 1);
    sc_receiver *slow;
    MUST(sc_receiver_open(a.domain, 0, PATIENCE, &slow));
    start_receivers(&a, &(struct plan){.boxes = 1}, 2);
    senders[0].messages = size < 40 ? 40 : size;     /* more than there is room for */
    start(&senders[0], &a, 0, send_all);
    join(&senders[0]);
    atomic_store(&a.traffic_is_over, true);
    send_the_end(&a);
    unsigned char buffer[MESSAGE_BYTES];
    struct sc_message info;
    CHECK(sc_receive(slow, buffer, sizeof buffer, PATIENCE, &info) == SC_LATE);
    sc_receiver_free(slow);
    for (int i = 0; i < 2; i++)
        join(&receivers[i]);
    check_deliveries(&a, senders, 1, receivers, 2);
    arena_close(&a);
}

struct shared { sc_sender *sender; sc_receiver *receiver; _Atomic int sent, got; };

static void *send_until_closed(void *argument)
{
    struct shared *s = argument;
    struct sc_receipt receipt;
    int rc;
    while ((rc = sc_send(s->sender, 1, "x", 1, PATIENCE, &receipt)) == 0)
        atomic_fetch_add(&s->sent, 1);
    CHECK(rc == SC_CLOSED);
    return NULL;
}

static void *receive_until_closed(void *argument)
{
    struct shared *s = argument;
    unsigned char byte;
    struct sc_message info;
    int rc;
    while ((rc = sc_receive(s->receiver, &byte, 1, PATIENCE, &info)) == 0)
        atomic_fetch_add(&s->got, 1);
    CHECK(rc == SC_CLOSED);
    return NULL;
}

static void threads_inside_a_handle_are_sent_away_when_it_is_closed(void)
{
    struct arena a = arena_open(SC_EAGER, 2, 1, 0);
    struct shared s = {0};
    pthread_t threads[4];
    MUST(sc_receiver_open(a.domain, 0, PATIENCE, &s.receiver));
    MUST(sc_sender_open(a.domain, PATIENCE, &s.sender));
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, i < 2 ? send_until_closed : receive_until_closed,
                             &s) == 0);
    while (atomic_load(&s.got) < size)
        sched_yield();
    MUST(sc_sender_close(s.sender));
    MUST(sc_receiver_close(s.receiver));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(atomic_load(&s.got) <= atomic_load(&s.sent));
    sc_sender_free(s.sender);
    sc_receiver_free(s.receiver);
    arena_close(&a);
}

/* The other process: sends until it is killed. */
static int send_for_ever(const char *name)
{
    sc_domain *d;
    sc_sender *s;
    struct sc_receipt receipt;
    MUST(sc_domain_open(name, PATIENCE, &d));
    MUST(sc_sender_open(d, PATIENCE, &s));
    for (;;)
        MUST(sc_send(s, 1, "from a process that dies", 24, PATIENCE, &receipt));
}

static void a_killed_sender_is_reaped_and_stops_nobody(void)
{
    extern char **environ;
    struct arena a = arena_open(SC_EAGER, 2, 1, 0);
    sc_receiver *r;
    unsigned char buffer[MESSAGE_BYTES];
    struct sc_message info;
    MUST(sc_receiver_open(a.domain, 0, PATIENCE, &r));
    for (int round = 0; round < 3; round++) {
        char *arguments[] = {"stress", "--send", (char *)a.name, NULL};
        pid_t child;
        CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
        for (int i = 0; i < size; i++)
            MUST(sc_receive(r, buffer, sizeof buffer, PATIENCE, &info));
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
        MUST(sc_domain_reap(a.domain));
        int rc;
        while ((rc = sc_receive(r, buffer, sizeof buffer, WITHIN(1), &info)) == 0)
            ;
        CHECK(rc == SC_TIMEOUT);
        struct sc_sender_stats stats;
        MUST(sc_domain_sender_stats(a.domain, 0, &stats));
        CHECK(!stats.held);
    }
    sc_receiver_free(r);
    arena_close(&a);
}

static const struct { const char *name; void (*run)(void); } tests[] = {
#define TEST(name) {#name, name}
    TEST(eager_traffic_survives_failing_copies),
    TEST(eager_traffic_between_several_mappings),
    TEST(crash_traffic_survives_failing_copies),
    TEST(timing_traffic_survives_failing_copies),
    TEST(mailboxes_come_and_go_beside_traffic),
    TEST(a_reader_that_holds_everybody_up_is_evicted_and_told),
    TEST(threads_inside_a_handle_are_sent_away_when_it_is_closed),
    TEST(a_killed_sender_is_reaped_and_stops_nobody),
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--send") == 0)
        return send_for_ever(argv[2]);
    if (argc > 2)
        size = atoi(argv[2]);
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
