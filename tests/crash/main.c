/* main.c: a worker: runs the cases of one script, one protocol and one kind of fault.
 *
 *   crash run PROTOCOL SCRIPT FAULT POINTS COPIES   cases, then one line of figures
 *   crash hunt ...                                  the same, up to the first failure
 *   crash trace PROTOCOL SCRIPT FAULT COPIES        the script's points, in order
 *   crash sites                                     all static sites of the core
 *   crash scripts                                   all scripts, with their roles
 *
 * FAULT: kill | truncate:COPY | kill+truncate:COPY | poison:… | corrupt:… | unlink:…; with +lose, all
 * copies but one are lost later, between two receivers; for a script with a dead sender, @POINT:
 * where that one was killed. POINTS: all | 17 | -9, the last nine | ~8/3, about eight of them, and which
 * is chosen by the seed 3. cases.py starts this program and reads its output.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "case.h"

#define REPEATS_MAX 12
#define FAILURES_MAX 3

static const char *const protocols[] = {"", "crash", "timing", "eager"};

struct figures {
    uint64_t run, passed, failed, repeated, not_reached, no_such_copy, excused[LATENESSES];
    uint64_t worst_ns, worst_bereft_ns, bound_ns;
    char worst_what[LINE];
};

static int usage(void)
{
    fprintf(stderr, "usage: see the head of main.c\n");
    return 2;
}

static bool parse_fault(const char *text, struct job *job)
{
    char word[64];
    job->victim_point = 0;
    const char *at = strchr(text, '@');
    size_t length = at ? (size_t)(at - text) : strlen(text);
    if (length >= sizeof word)
        return false;
    memcpy(word, text, length);
    word[length] = 0;
    if (at)
        job->victim_point = strtoull(at + 1, NULL, 10);
    char *rest = word, *plus = strrchr(word, '+');
    if (plus && strcmp(plus, "+lose") == 0) {
        job->lose_rest = true;
        *plus = 0;
    }
    if (strncmp(rest, "kill", 4) == 0) {
        job->plan.kill = true;
        rest += 4;
        if (*rest == '+')
            rest++;
    }
    if (*rest == 0)
        return job->plan.kill;
    char *colon = strchr(rest, ':');
    if (!colon)
        return false;
    *colon = 0;
    int kind = fault_kind_of(rest);
    job->plan.fault = (struct fault){(enum fault_kind)kind, atoi(colon + 1)};
    return kind > 0;
}

static bool parse_job(char **word, struct job *job)
{
    memset(job, 0, sizeof *job);
    for (uint32_t p = SC_CRASH; p <= SC_EAGER; p++)
        if (strcmp(protocols[p], word[0]) == 0)
            job->protocol = p;
    job->script = script_named(word[1]);
    return job->protocol && job->script && job->script->protocols >> job->protocol & 1;
}

/* A dry run, without any fault: it must pass, and its number of points is the end of the list. */
static uint64_t count_points(const struct job *job, struct notes *n, const char *name)
{
    struct job dry = *job;
    dry.plan = (struct plan){0};
    dry.lose_rest = false;
    for (dry.attempt = 0; dry.attempt < REPEATS_MAX; dry.attempt++) {
        enum outcome o = case_run(&dry, n, name);
        if (o == PASSED && n->trace.count <= POINTS_MAX)
            return n->trace.count;
        if (o != NOISE)
            break;
    }
    printf("FAILED dry run of %s\n  %s%s\n", job->script->name,
           dry.attempt < REPEATS_MAX ? "" : "never quiet: ", n->failure);
    notes_print(n);
    return 0;
}

static void report_failure(const struct job *job, const char *fault, const struct notes *n,
                           enum outcome o)
{
    char place[LINE] = "nowhere";
    if (job->plan.point && job->plan.point <= POINTS_MAX)
        points_print(&n->trace.at[job->plan.point - 1], place, sizeof place);
    printf("FAILED %s, %s (%s), %s at point %lu, %s, %u copies\n", protocols[job->protocol],
           job->script->role, job->script->name, fault, (unsigned long)job->plan.point, place,
           job->copies);
    printf("  %s%s\n", o == NOISE ? "never quiet: " : "", n->failure);
    notes_print(n);
}

static void run_one(struct job *job, const char *fault, struct notes *n, const char *name,
                    struct figures *f)
{
    enum outcome o = NOISE;
    for (job->attempt = 0; job->attempt < REPEATS_MAX && o == NOISE; job->attempt++) {
        o = case_run(job, n, name);
        f->repeated += job->attempt > 0;
        f->excused[n->excuse] += o == NOISE;
    }
    f->run++;
    f->passed += o == PASSED;
    f->failed += o == FAILED || o == NOISE;
    f->not_reached += o == NOT_REACHED;
    f->no_such_copy += o == NO_SUCH_COPY;
    if (n->worst_bereft_ns > f->worst_bereft_ns)
        f->worst_bereft_ns = n->worst_bereft_ns;
    if (n->worst_ns > f->worst_ns) {
        f->worst_ns = n->worst_ns;
        memcpy(f->worst_what, n->worst_what, LINE);
    }
    if (o == NOISE)
        note_figure(n, "never quiet: late in each of %d runs, the last with bounds %u times as long",
                    REPEATS_MAX, 1u << STRETCH_MAX);
    if (o == FAILED || o == NOISE)
        report_failure(job, fault, n, o);
}

/* Which points to visit: first, first + step, ... up to last. */
struct range {
    uint64_t first, last, step;
};

static struct range parse_points(const char *text, uint64_t count)
{
    if (text[0] == '-') {
        uint64_t last = strtoull(text + 1, NULL, 10);
        return (struct range){count > last ? count - last + 1 : 1, count, 1};
    }
    if (text[0] != '~')
        return strcmp(text, "all") == 0 ? (struct range){1, count, 1}
                                        : (struct range){strtoull(text, NULL, 10),
                                                         strtoull(text, NULL, 10), 1};
    char *slash;
    uint64_t wanted = strtoull(text + 1, &slash, 10);
    uint64_t step = wanted ? (count + wanted - 1) / wanted : 1;
    return (struct range){1 + strtoull(slash + 1, NULL, 10) % step, count, step};
}

static int run(char **word, uint64_t failures_max, struct notes *n, const char *name)
{
    struct job job;
    struct figures f = {0};
    if (!parse_job(word, &job) || !parse_fault(word[2], &job))
        return usage();
    job.copies = (uint32_t)atoi(word[4]);
    uint64_t points = count_points(&job, n, name);
    if (points == 0)
        return 1;
    struct sc_bounds bounds = world_params(&job).bounds;
    f.bound_ns = bounds.send_ns + bounds.epsilon_ns;
    struct range range = parse_points(word[3], points);
    for (uint64_t point = range.first; point <= range.last; point += range.step) {
        job.plan.point = point;
        run_one(&job, word[2], n, name, &f);
        if (f.failed >= failures_max)
            break;
    }
    printf("figures points %lu run %lu passed %lu failed %lu repeated %lu not_reached %lu "
           "no_such_copy %lu worst_us %lu bereft_us %lu bound_us %lu",
           (unsigned long)points, (unsigned long)f.run, (unsigned long)f.passed,
           (unsigned long)f.failed, (unsigned long)f.repeated, (unsigned long)f.not_reached,
           (unsigned long)f.no_such_copy, (unsigned long)(f.worst_ns / 1000),
           (unsigned long)(f.worst_bereft_ns / 1000), (unsigned long)(f.bound_ns / 1000));
    for (int i = 0; i < LATENESSES; i++)
        if (f.excused[i])
            printf(" %s %lu", lateness_names[i], (unsigned long)f.excused[i]);
    printf(" in: %s\n", f.worst_what);
    return f.failed ? 1 : 0;
}

static int trace(char **word, struct notes *n, const char *name)
{
    struct job job;
    if (!parse_job(word, &job) || !parse_fault(word[2], &job))
        return usage();
    job.copies = (uint32_t)atoi(word[3]);
    uint64_t points = count_points(&job, n, name);
    for (uint64_t i = 0; i < points; i++) {
        char text[LINE];
        points_print(&n->trace.at[i], text, sizeof text);
        printf("point %lu %s\n", (unsigned long)i + 1, text);
    }
    points_print_private(&n->trace);
    return points ? 0 : 1;
}

int main(int count, char **word)
{
    char name[64];
    struct notes *n = mmap(NULL, sizeof *n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (n == MAP_FAILED || count < 2)
        return usage();
    snprintf(name, sizeof name, "crash-%d", (int)getpid());
    if (strcmp(word[1], "run") == 0 && count == 7)
        return run(word + 2, FAILURES_MAX, n, name);
    if (strcmp(word[1], "hunt") == 0 && count == 7)
        return run(word + 2, 1, n, name);
    if (strcmp(word[1], "trace") == 0 && count == 6)
        return trace(word + 2, n, name);
    if (strcmp(word[1], "sites") == 0)
        points_print_sites();
    else if (strcmp(word[1], "scripts") == 0)
        for (const struct script *s = scripts; s->name; s++)
            printf("script %s %u %u %s\n", s->name, s->protocols, s->setting, s->role);
    else
        return usage();
    return 0;
}
