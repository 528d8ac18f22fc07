/* core_bench.c: how fast is the C core by itself?
 *
 * Two processes, pinned to two cores, 64-byte messages. Round trip: one mailbox each way. Stream:
 * one sender, one receiver, singly and in batches. Beside it, in the same run, the physical limit:
 * a bare cache line bounced between the two cores, without and with a clock read each way.
 *
 * usage: core_bench COPIES SECONDS [roundtrip|stream|batch|line|clockline] [senders]
 * Prints one JSON object.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_types.h"
#include "api.h"
#include "sys.h"

#define BYTES 64
#define BATCH 64
#define LINE_BLOCK 64              /* round trips of a bare line per sample */
#define SAMPLES_MAX 2000000

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Names of this run only, set before any fork. */
static char there_name[64], back_name[64], stream_name[64];

static void names_make(void)
{
    snprintf(there_name, sizeof there_name, "bench-there-%d", (int)getpid());
    snprintf(back_name, sizeof back_name, "bench-back-%d", (int)getpid());
    snprintf(stream_name, sizeof stream_name, "bench-stream-%d", (int)getpid());
}

static void names_remove(void)
{
    sc_domain_remove(there_name);
    sc_domain_remove(back_name);
    sc_domain_remove(stream_name);
}

/* A child that outlived its parent would spin for ever. */
static pid_t start_child(void)
{
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
    }
    return child;
}

static void must(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %d\n", what, rc);
        names_remove();
        exit(1);
    }
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void report(const char *what, int copies, uint32_t *ns, size_t n, double seconds,
                   uint64_t faults)
{
    qsort(ns, n, sizeof *ns, compare);
    printf("{\"what\": \"%s\", \"copies\": %d, \"operations\": %zu, \"p50_ns\": %u, "
           "\"p99_ns\": %u, \"max_ns\": %u, \"mean_ns\": %.1f, \"page_faults\": %llu}\n",
           what, copies, n, ns[n / 2], ns[n * 99 / 100], ns[n - 1], seconds * 1e9 / (double)n,
           (unsigned long long)faults);
}

static sc_domain *make(const char *name, int copies, int senders, uint32_t capacity)
{
    struct sc_domain_params p = {.copies = (uint32_t)copies, .senders = (uint32_t)senders,
                                 .mailboxes = 1, .protocol = SC_EAGER, .mode = 0600,
                                 .group_id = -1};
    struct sc_mailbox_params m = {.message_bytes = BYTES, .capacity = capacity, .receivers = 8,
                                  .checksum = 1};
    p.bounds = (struct sc_bounds){.send_ns = 1000000000, .receive_ns = 100000000,
                                  .decide_ns = 1000, .poll_ns = 10000000,
                                  .expiry_ns = 200000000, .hold_ns = 1000000000};
    sc_domain *d;
    sc_domain_remove(name);
    must(sc_domain_create(name, &p, &d), "create");
    must(sc_mailbox_create(d, name, &m), "mailbox");
    must(sc_domain_publish(d), "publish");
    return d;
}

static void attach(const char *name, sc_domain **d) { must(sc_domain_open(name, 0, d), "open"); }

static void echo(void)
{
    sc_domain *in, *out;
    sc_sender *tx;
    sc_receiver *rx;
    unsigned char buffer[BYTES];
    struct sc_message m;
    struct sc_receipt receipt;
    pin(1);
    attach(there_name, &in);
    attach(back_name, &out);
    must(sc_receiver_open(in, 0, 0, &rx), "receiver");
    must(sc_sender_open(out, 0, &tx), "sender");
    sc_receiver_wait_style(rx, UINT64_MAX);
    must(sc_send(tx, 1, buffer, 0, FOREVER, &receipt), "ready");
    while (sc_receive(rx, buffer, BYTES, FOREVER, &m) == 0 && m.bytes)
        must(sc_send(tx, 1, buffer, m.bytes, FOREVER, &receipt), "echo");
    sc_sender_free(tx);
    sc_receiver_free(rx);
    exit(0);
}

static void roundtrip(int copies, double seconds, int senders)
{
    sc_domain *there = make(there_name, copies, senders, 256);
    sc_domain *back = make(back_name, copies, senders, 256);
    sc_sender *tx;
    sc_receiver *rx;
    unsigned char buffer[BYTES] = {1};
    struct sc_message m;
    struct sc_receipt receipt;
    must(sc_receiver_open(back, 0, 0, &rx), "receiver");
    must(sc_sender_open(there, 0, &tx), "sender");
    sc_receiver_wait_style(rx, UINT64_MAX);
    pid_t child = start_child();
    if (child == 0)
        echo();
    pin(0);
    must(sc_receive(rx, buffer, BYTES, FOREVER, &m), "ready");
    uint32_t *ns = malloc(SAMPLES_MAX * sizeof *ns);
    memset(ns, 1, SAMPLES_MAX * sizeof *ns);
    size_t n = 0;
    for (int i = 0; i < 20000; i++) {
        must(sc_send(tx, 1, buffer, BYTES, FOREVER, &receipt), "send");
        must(sc_receive(rx, buffer, BYTES, FOREVER, &m), "receive");
    }
    uint64_t faults = sc_domain_minor_faults();
    uint64_t start = sys_now(), now = start, end = start + (uint64_t)(seconds * 1e9);
    while (now < end && n < SAMPLES_MAX) {
        must(sc_send(tx, 1, buffer, BYTES, FOREVER, &receipt), "send");
        must(sc_receive(rx, buffer, BYTES, FOREVER, &m), "receive");
        uint64_t then = now;
        now = sys_now();
        ns[n++] = (uint32_t)(now - then);
    }
    report("roundtrip", copies, ns, n, (double)(now - start) / 1e9,
           sc_domain_minor_faults() - faults);
    sc_send(tx, 1, buffer, 0, FOREVER, &receipt);
    waitpid(child, NULL, 0);
    sc_sender_free(tx);
    sc_receiver_free(rx);
    names_remove();
}

static void consume(uint64_t count)
{
    sc_domain *in;
    sc_receiver *rx;
    static unsigned char buffer[BYTES * 256];
    static struct sc_message m[256];
    pin(1);
    attach(stream_name, &in);
    must(sc_receiver_open(in, 0, 0, &rx), "receiver");
    sc_receiver_wait_style(rx, UINT64_MAX);
    sc_domain *ready;
    sc_sender *tx;
    struct sc_receipt receipt;
    attach(back_name, &ready);
    must(sc_sender_open(ready, 0, &tx), "sender");
    must(sc_send(tx, 1, buffer, 0, FOREVER, &receipt), "ready");
    for (uint64_t seen = 0; seen < count;) {
        int n = sc_receive_many(rx, buffer, sizeof buffer, FOREVER, m, 256);
        must(n, "receive");
        seen += (uint64_t)n;
    }
    must(sc_send(tx, 1, buffer, 0, FOREVER, &receipt), "done");
    exit(0);
}

static void stream(int copies, double seconds, int senders, uint32_t batch)
{
    uint64_t count = (uint64_t)(seconds * 4e6) / batch * batch;
    sc_domain *d = make(stream_name, copies, senders, 1024);
    sc_domain *back = make(back_name, 1, 1, 16);
    sc_sender *tx;
    sc_receiver *rx;
    static unsigned char data[BYTES] = {1};
    struct sc_part parts[BATCH];
    struct sc_message m;
    struct sc_receipt receipt;
    for (int i = 0; i < BATCH; i++)
        parts[i] = (struct sc_part){data, BYTES};
    must(sc_sender_open(d, 0, &tx), "sender");
    must(sc_receiver_open(back, 0, 0, &rx), "receiver");
    pid_t child = start_child();
    if (child == 0)
        consume(count);
    pin(0);
    must(sc_receive(rx, data, BYTES, FOREVER, &m), "ready");
    uint64_t faults = sc_domain_minor_faults();
    uint64_t start = sys_now();
    for (uint64_t i = 0; i < count; i += batch)
        must(sc_send_many(tx, 1, parts, batch, FOREVER, &receipt), "send");
    must(sc_receive(rx, data, BYTES, FOREVER, &m), "done");
    double took = (double)(sys_now() - start) / 1e9;
    printf("{\"what\": \"stream\", \"copies\": %d, \"batch\": %u, \"messages\": %llu, "
           "\"per_second\": %.0f, \"page_faults\": %llu}\n",
           copies, batch, (unsigned long long)count, (double)count / took,
           (unsigned long long)(sc_domain_minor_faults() - faults));
    waitpid(child, NULL, 0);
    names_remove();
}

/* The physical limit: two words on two lines. */
static void line(double seconds, bool clocks)
{
    word_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    word_t *there = &words[0], *back = &words[64];
    pid_t child = start_child();
    if (child == 0) {
        pin(1);
        for (uint64_t i = 1;; i++) {
            uint64_t seen;
            while ((seen = LOAD_ACQUIRE(there)) < i)
                ;
            if (seen == UINT64_MAX)
                exit(0);
            if (clocks)
                sys_now();
            STORE_RELEASE(back, i);
        }
    }
    pin(0);
    uint32_t *ns = malloc(SAMPLES_MAX * sizeof *ns);
    memset(ns, 1, SAMPLES_MAX * sizeof *ns);
    uint64_t i = 1;
    STORE_RELEASE(there, i);
    while (LOAD_ACQUIRE(back) < i)                   /* the other side is up */
        ;
    uint64_t start = sys_now(), end = start + (uint64_t)(seconds * 1e9), now = start;
    size_t n = 0;
    while (now < end && n < SAMPLES_MAX) {
        uint64_t then = now;
        for (int k = 0; k < LINE_BLOCK; k++) {
            STORE_RELEASE(there, ++i);
            while (LOAD_ACQUIRE(back) < i)
                ;
            if (clocks)
                now = sys_now();
        }
        now = sys_now();
        ns[n++] = (uint32_t)((now - then) / LINE_BLOCK);
    }
    /* The median over blocks: one preemption would spoil the mean, and flatter us. */
    report(clocks ? "clockline" : "line", 0, ns, n, (double)(now - start) / LINE_BLOCK / 1e9, 0);
    STORE_RELEASE(there, UINT64_MAX);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    int copies = argc > 1 ? atoi(argv[1]) : 3;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    names_make();
    const char *what = argc > 3 ? argv[3] : "roundtrip";
    int senders = argc > 4 ? atoi(argv[4]) : 8;
    if (!strcmp(what, "roundtrip"))
        roundtrip(copies, seconds, senders);
    else if (!strcmp(what, "stream"))
        stream(copies, seconds, senders, 1);
    else if (!strcmp(what, "batch"))
        stream(copies, seconds, senders, BATCH);
    else
        line(seconds, !strcmp(what, "clockline"));
    return 0;
}
