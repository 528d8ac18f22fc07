/* guard.c: see guard.h. The table of mappings is read by the signal handler, so it is a fixed
 * array of atomics; entries are claimed and freed by compare-and-swap. */
#define _GNU_SOURCE
#include "guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAPPINGS_MAX 4096

struct mapping {
    _Atomic uintptr_t base;                          /* 0: free, 1: being claimed */
    _Atomic size_t bytes;
    _Atomic bool lost;
};

_Atomic uint32_t guard_faults;
static struct mapping mappings[MAPPINGS_MAX];
static _Atomic int mappings_used;                    /* all beyond are free */
static struct sigaction previous;
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local volatile sig_atomic_t passing_on;

/* A fork waits for whoever is in guard_install, so that the child does not inherit a lock that nobody
 * will open. */
static void lock_install(void) { pthread_mutex_lock(&install_lock); }
static void unlock_install(void) { pthread_mutex_unlock(&install_lock); }

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(lock_install, unlock_install, unlock_install);
}

/* In a signal handler, so the bare system call: what stands around it may not be safe there (the
 * thread sanitizer's also takes it for a write that races with whoever reads the dead copy). */
static void cover_with_zeros(struct mapping *m)
{
    syscall(SYS_mmap, LOAD_RELAXED(&m->base), LOAD_RELAXED(&m->bytes), PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

/* The mapping that was hit stays, since somebody uses it; others come and go meanwhile. An entry that
 * is another's by the time its size is read must not be taken for a large one at the old address. */
static struct mapping *mapping_of(uintptr_t address)
{
    int used = LOAD_ACQUIRE(&mappings_used);
    for (int i = 0; i < used; i++) {
        uintptr_t base = LOAD_ACQUIRE(&mappings[i].base);
        size_t bytes = LOAD_ACQUIRE(&mappings[i].bytes);
        if (base > 1 && address >= base && address - base < bytes &&
            LOAD_RELAXED(&mappings[i].base) == base)
            return &mappings[i];
    }
    return NULL;
}

/* If the previous handler brings the signal back to us, it has given up: so do we. */
static void pass_on(int signal_number, siginfo_t *info, void *context)
{
    bool sent = info->si_code <= 0;                  /* by kill() or raise(), not by an access */
    if (sent && !passing_on && previous.sa_handler == SIG_IGN)
        return;
    if (passing_on || previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
        signal(SIGBUS, SIG_DFL);                     /* an access repeats and ends the process */
        if (sent)
            raise(SIGBUS);
        return;
    }
    passing_on = 1;
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(signal_number, info, context);
    else
        previous.sa_handler(signal_number);
    passing_on = 0;
}

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    int saved = errno;
    struct mapping *m = info->si_code > 0 ? mapping_of((uintptr_t)info->si_addr) : NULL;
    if (m) {
        STORE_RELAXED(&m->lost, true);
        cover_with_zeros(m);
        COUNT_UP(&guard_faults);
    } else {
        pass_on(signal_number, info, context);
    }
    errno = saved;
}

/* Called at every open of a domain or an end of it, and whenever its copies are looked after: a handler
 * installed after ours, such as faulthandler's, is chained. */
int guard_install(void)
{
    struct sigaction current, ours = {.sa_sigaction = on_sigbus};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    int rc = 0;
    pthread_mutex_lock(&install_lock);
    if (sigaction(SIGBUS, NULL, &current) != 0)
        rc = -errno;
    else if (!(current.sa_flags & SA_SIGINFO) || current.sa_sigaction != on_sigbus) {
        previous = current;
        rc = sigaction(SIGBUS, &ours, NULL) == 0 ? 0 : -errno;
    }
    pthread_mutex_unlock(&install_lock);
    return rc;
}

static void raise_used(int used)
{
    int now = LOAD_RELAXED(&mappings_used);
    while (now < used && !CAS_ACQ_REL(&mappings_used, &now, used))
        ;
}

int guard_add(void *base, size_t bytes)
{
    for (int i = 0; i < MAPPINGS_MAX; i++) {
        uintptr_t free = 0;
        if (LOAD_RELAXED(&mappings[i].base) != 0 || !CAS_ACQ_REL(&mappings[i].base, &free, 1))
            continue;
        STORE_RELEASE(&mappings[i].bytes, bytes);    /* after the claim, for mapping_of */
        STORE_RELAXED(&mappings[i].lost, false);
        STORE_RELEASE(&mappings[i].base, (uintptr_t)base); /* bytes before base, for mapping_of */
        raise_used(i + 1);
        return i;
    }
    return -ENOMEM;
}

bool guard_is_lost(int mapping) { return LOAD_RELAXED(&mappings[mapping].lost); }

void guard_retire(int mapping)
{
    STORE_RELAXED(&mappings[mapping].lost, true);
    cover_with_zeros(&mappings[mapping]);
}

void guard_remove(int mapping)
{
    void *base = (void *)LOAD_RELAXED(&mappings[mapping].base);
    STORE_RELEASE(&mappings[mapping].base, 1);       /* a new mapping may get the address at once */
    munmap(base, LOAD_RELAXED(&mappings[mapping].bytes));
    STORE_RELEASE(&mappings[mapping].base, 0);
}
