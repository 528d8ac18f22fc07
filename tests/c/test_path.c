/* test_path.c: after warm-up a message of `eager` costs no allocation, no page fault and no system
 * call but the futex. Proven, not read: sender and receiver run under a seccomp filter that knows
 * the futex alone, with malloc counted by the linker's --wrap.
 *
 * Exit status 0 if it holds; else it says what was done. 77: no seccomp here.
 *
 * clock_gettime is let through: it is no system call where the kernel's vDSO has it, and on a
 * machine where it is one, the clock source is to blame (`shmcast doctor`). Asking the kernel
 * whether a peer that has kept us waiting is still alive is not on the path; here the answer is
 * always yes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core.h"

#define WARM_UP 4096                 /* several times around the ring */
#define MESSAGES 20000
#define PAUSE_EVERY 500              /* then the receiver falls asleep */
#define PAUSE_NS 300000
#define PATIENCE_NS (60 * NS_PER_S)
#define SKIPPED 77

static struct together {
    _Atomic int receiver_ready;      /* 1: opened, 2: warm */
    _Atomic int foreign_call;        /* a system call that was not the futex */
    _Atomic int sleeps;
    _Atomic long faults[2], allocations[2];
} *together;

static long allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes) { return allocations++, __real_malloc(bytes); }
void *__wrap_calloc(size_t n, size_t bytes) { return allocations++, __real_calloc(n, bytes); }
void *__wrap_realloc(void *p, size_t bytes) { return allocations++, __real_realloc(p, bytes); }

enum liveness __wrap_sys_liveness(const struct identity *who)
{
    (void)who;
    return PROCESS_ALIVE;
}

static void on_foreign_call(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    STORE_RELAXED(&together->foreign_call, info->si_syscall);
    _exit(1);
}

static void must(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %d, %s\n", what, rc, strerror(errno));
        _exit(1);
    }
}

#define ALLOW(call)                                                                         \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* From now on: futex, and what the test itself needs to end. */
static void forbid_calls(void)
{
    static struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_futex),
        ALLOW(SYS_clock_gettime),
        ALLOW(SYS_getrusage),
        ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct sigaction trap = {.sa_sigaction = on_foreign_call, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSYS, &trap, NULL), "sigaction");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(SKIPPED);
}

static long page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void spin_for(uint64_t ns)
{
    for (uint64_t end = sys_now() + ns; sys_now() < end;)
        cpu_relax();
}

static void run_sender(const char *name)
{
    sc_domain *domain;
    sc_sender *sender;
    struct sc_receipt receipt;
    char data[64] = {0};
    must(sc_domain_open(name, sys_now() + PATIENCE_NS, &domain), "open");
    must(sc_sender_open(domain, sys_now() + PATIENCE_NS, &sender), "sender");
    for (int i = 0; i < WARM_UP; i++)
        must(sc_send(sender, 1, data, sizeof data, sys_now() + PATIENCE_NS, &receipt), "warm up");
    while (LOAD_ACQUIRE(&together->receiver_ready) != 2)
        spin_for(PAUSE_NS);
    forbid_calls();
    long faults = page_faults(), before = allocations;
    for (int i = 0; i < MESSAGES; i++) {
        if (i % PAUSE_EVERY == 0)
            spin_for(PAUSE_NS);
        if (sc_send(sender, 1, data, sizeof data, sys_now() + PATIENCE_NS, &receipt))
            _exit(2);
    }
    STORE_RELAXED(&together->faults[0], page_faults() - faults);
    STORE_RELAXED(&together->allocations[0], allocations - before);
    _exit(0);
}

static void run_receiver(const char *name)
{
    sc_domain *domain;
    sc_receiver *receiver;
    struct sc_message message;
    struct sc_receiver_stats stats;
    char buffer[64];
    must(sc_domain_open(name, sys_now() + PATIENCE_NS, &domain), "open");
    must(sc_receiver_open(domain, 0, sys_now() + PATIENCE_NS, &receiver), "receiver");
    STORE_RELEASE(&together->receiver_ready, 1);
    for (int i = 0; i < WARM_UP; i++)
        must(sc_receive(receiver, buffer, sizeof buffer, sys_now() + PATIENCE_NS, &message), "warm up");
    /* A first sleep, too, so that its path is warm. */
    sc_receive(receiver, buffer, sizeof buffer, sys_now() + PAUSE_NS, &message);
    forbid_calls();
    long faults = page_faults(), before = allocations;
    STORE_RELEASE(&together->receiver_ready, 2);
    for (int i = 0; i < MESSAGES; i++)
        if (sc_receive(receiver, buffer, sizeof buffer, sys_now() + PATIENCE_NS, &message))
            _exit(2);
    STORE_RELAXED(&together->faults[1], page_faults() - faults);
    STORE_RELAXED(&together->allocations[1], allocations - before);
    if (sc_mailbox_receiver_stats(domain, 0, 0, &stats) == 0)
        STORE_RELAXED(&together->sleeps, (int)stats.sleeps);
    _exit(0);
}

static int verdict(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Whoever ends badly ends the other, which would wait for it in vain. */
static void wait_for_both(pid_t receiver, pid_t sender, int *got, int *sent)
{
    for (int left = 2; left > 0; left--) {
        int status;
        pid_t child = wait(&status);
        must(child, "wait");
        *(child == receiver ? got : sent) = verdict(status);
        if (left == 2 && verdict(status))
            kill(child == receiver ? sender : receiver, SIGKILL);
    }
}

static pid_t start(void (*run)(const char *), const char *name)
{
    pid_t child = fork();
    must(child, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(name);
    }
    return child;
}

static void make_mailbox(const char *name)
{
    struct sc_domain_params params = {.copies = 3, .senders = 1, .mailboxes = 1,
                                      .protocol = SC_EAGER, .mode = 0600, .group_id = -1};
    struct sc_mailbox_params box = {.message_bytes = 64, .capacity = 256, .receivers = 1, .checksum = 1};
    params.bounds = (struct sc_bounds){.send_ns = NS_PER_S, .poll_ns = NS_PER_S / 100};
    sc_domain *domain;
    must(sc_domain_create(name, &params, &domain), "create");
    must(sc_mailbox_create(domain, name, &box), "mailbox");
    must(sc_domain_publish(domain), "publish");
    sc_domain_close(domain);
}

int main(void)
{
    char name[64];
    snprintf(name, sizeof name, "test-path-%d", (int)getpid());
    together = mmap(NULL, sizeof *together, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make_mailbox(name);
    pid_t receiver = start(run_receiver, name), sender = -1;
    while (LOAD_ACQUIRE(&together->receiver_ready) == 0 && waitpid(receiver, NULL, WNOHANG) == 0)
        spin_for(PAUSE_NS);
    sender = start(run_sender, name);
    int got, sent;
    wait_for_both(receiver, sender, &got, &sent);
    sc_domain_remove(name);
    if (sent == SKIPPED || got == SKIPPED)
        return SKIPPED;
    if (LOAD_RELAXED(&together->foreign_call))
        fprintf(stderr, "system call %d on the path\n", LOAD_RELAXED(&together->foreign_call));
    printf("messages %d, sleeps %d, page faults %ld %ld, allocations %ld %ld\n", MESSAGES,
           LOAD_RELAXED(&together->sleeps), LOAD_RELAXED(&together->faults[0]),
           LOAD_RELAXED(&together->faults[1]), LOAD_RELAXED(&together->allocations[0]),
           LOAD_RELAXED(&together->allocations[1]));
    bool clean = !LOAD_RELAXED(&together->faults[0]) && !LOAD_RELAXED(&together->faults[1]) &&
                 !LOAD_RELAXED(&together->allocations[0]) && !LOAD_RELAXED(&together->allocations[1]);
    return sent == 0 && got == 0 && clean ? 0 : 1;
}
