/* points.c: see points.h. Everything here may run in a signal handler or in two threads at once. */
#define _GNU_SOURCE
#include "points.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "gauge.h"

#define RANGES_MAX 512
#define SMALL_BYTES 64               /* torn at every word; larger ones in a few places */
#define PIECES 4

extern const struct crash_site __start_crash_sites[], __stop_crash_sites[];

static struct { _Atomic uintptr_t base; _Atomic size_t bytes; } ranges[RANGES_MAX];
static struct trace *trace;
static struct plan plan;
static const char *domain;
static _Atomic bool armed;
static _Thread_local bool inside;    /* a fault's own system calls are no points */

void shared_range_add(const void *base, size_t bytes)
{
    for (int i = 0; i < RANGES_MAX; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&ranges[i].base, &none, (uintptr_t)base))
            continue;
        ranges[i].bytes = bytes;
        return;
    }
    fprintf(stderr, "more than %d shared mappings\n", RANGES_MAX);
    _exit(3);
}

void shared_range_remove(const void *base)
{
    for (int i = 0; i < RANGES_MAX; i++)
        if (ranges[i].base == (uintptr_t)base) {
            ranges[i].bytes = 0;
            ranges[i].base = 0;
        }
}

static bool is_shared(const volatile void *address)
{
    for (int i = 0; i < RANGES_MAX; i++)
        if (ranges[i].base && (uintptr_t)address - ranges[i].base < ranges[i].bytes)
            return true;
    return false;
}

void points_arm(struct trace *where, const struct plan *what, const char *name)
{
    trace = where;
    plan = *what;
    domain = name;
    armed = true;
}

void points_disarm(void) { armed = false; }

static void strike(void)
{
    inside = true;
    if (plan.fault.kind != FAULT_NONE && fault_strike(domain, &plan.fault) != 0)
        trace->void_fault = true;
    trace->fired = true;
    if (plan.kill)
        gauge_end_process();
    while (plan.kill)                /* the signal may need a moment to arrive */
        kill(getpid(), SIGKILL);
    inside = false;
}

static void pass(const void *where, const char *call)
{
    int saved = errno;
    uint64_t number = atomic_fetch_add(&trace->count, 1) + 1;
    if (number <= POINTS_MAX)
        trace->at[number - 1] = (struct passed){where, call};
    if (number == plan.point)
        strike();
    errno = saved;
}

void crash_point(const struct crash_site *site, const volatile void *address)
{
    if (!armed || inside)
        return;
    if (is_shared(address))
        pass(site, NULL);
    else if (site - __start_crash_sites < SITES_MAX)
        trace->is_private[site - __start_crash_sites] = true;
}

void crash_call(const void *caller, const char *call)
{
    if (armed && !inside)
        pass(caller, call);
}

void crash_copy(const struct crash_site *site, void *to, const void *from, size_t bytes)
{
    size_t piece = bytes;
    if (armed)
        piece = bytes <= SMALL_BYTES ? sizeof(uint64_t) : (bytes + PIECES - 1) / PIECES;
    for (size_t at = 0; at < bytes; at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        memcpy((char *)to + at, (const char *)from + at, n);
        crash_point(site, (char *)to + at);
    }
}

/* "csrc/agree.c:43 cas", or "@401b2c linkat" for addr2line. */
void points_print(const struct passed *passed, char *out, size_t size)
{
    const struct crash_site *site = passed->where;
    if (passed->call)
        snprintf(out, size, "@%lx %s", (unsigned long)(uintptr_t)passed->where, passed->call);
    else if (site) {
        const char *slash = strrchr(site->file, '/');
        snprintf(out, size, "csrc/%s:%d %s", slash ? slash + 1 : site->file, (int)site->line,
                 site->what);
    } else
        snprintf(out, size, "nowhere");
}

static void print_site(const char *word, const struct crash_site *site)
{
    char text[256];
    points_print(&(struct passed){site, NULL}, text, sizeof text);
    printf("%s %s\n", word, text);
}

void points_print_sites(void)
{
    for (const struct crash_site *site = __start_crash_sites; site < __stop_crash_sites; site++)
        print_site("site", site);
}

void points_print_private(const struct trace *of)
{
    for (const struct crash_site *site = __start_crash_sites; site < __stop_crash_sites; site++)
        if (site - __start_crash_sites < SITES_MAX && of->is_private[site - __start_crash_sites])
            print_site("private", site);
}
