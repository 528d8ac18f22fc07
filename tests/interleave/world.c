/* world.c: the bytes of the simulated world, how an execution begins again, and their hashes.
 *
 * A search runs the same beginning many thousand times a second. Set-up is done once; what it
 * left is kept, and every execution starts from it. To restore cheaply, pages are write-protected
 * once: a page that is ever written stays on the list of pages to restore, the others never cost
 * anything.
 *
 * The address is fixed and the program is not position independent, so that the same state has
 * the same bytes, and the counts of states are the same, on every machine.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

#define PAGES (WORLD_BYTES / PAGE)

struct execution run;
static struct execution run_kept;

/* States on the way to the last one, so that a search need not go back to the beginning. */
#define CHECKPOINTS_MAX 400
#define CHOICES_BETWEEN 6
struct checkpoint {
    struct execution run;
    uint32_t watched[THREADS_MAX][WATCHED_MAX];
    int pages, room;
    unsigned char *page;                             /* as in written_list */
};
static struct checkpoint *checkpoint[CHECKPOINTS_MAX];
static int checkpoints;

static unsigned char *kept;
static bool written[PAGES];
static uint16_t written_list[PAGES];
static int written_count;

static void on_write(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    if (!in_world(info->si_addr) || written[place_of(info->si_addr) / PAGE]) {
        signal(signal_number, SIG_DFL);              /* a true fault: repeat it and die */
        return;
    }
    uint32_t page = place_of(info->si_addr) / PAGE;
    written[page] = true;
    written_list[written_count++] = (uint16_t)page;
    mprotect(at_of(page * PAGE), PAGE, PROT_READ | PROT_WRITE);
}

void world_make(void)
{
    void *p = mmap((void *)WORLD_AT, WORLD_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != (void *)WORLD_AT) {
        perror("mmap");
        exit(3);
    }
    kept = malloc(WORLD_BYTES);
    static unsigned char handler_stack[64 << 10];    /* the page written may be the stack itself */
    stack_t other = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    struct sigaction action = {.sa_sigaction = on_write, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

void world_keep(void)
{
    memcpy(kept, at_of(0), WORLD_BYTES);
    run_kept = run;
    mprotect(at_of(0), WORLD_BYTES, PROT_READ);
}

void world_begin(void)
{
    for (int i = 0; i < written_count; i++)
        memcpy(at_of(written_list[i] * PAGE), kept + written_list[i] * PAGE, PAGE);
    memcpy(&run, &run_kept, offsetof(struct execution, thread) +
                                (size_t)run_kept.thread_count * sizeof run.thread[0]);
}

void checkpoint_forget(void) { checkpoints = 0; }

void checkpoint_take(void)
{
    uint64_t last = checkpoints ? checkpoint[checkpoints - 1]->run.choices : 0;
    if (checkpoints == CHECKPOINTS_MAX || run.choices < last + CHOICES_BETWEEN)
        return;
    struct checkpoint *c = checkpoint[checkpoints];
    if (!c)
        c = checkpoint[checkpoints] = calloc(1, sizeof *c);
    if (c->room < written_count) {
        c->room = written_count + 16;
        c->page = realloc(c->page, (size_t)c->room * PAGE);
    }
    c->run = run;
    for (int i = 0; i < run.thread_count; i++)
        memcpy(c->watched[i], watched[i], (size_t)run.thread[i].watched * sizeof watched[i][0]);
    c->pages = written_count;
    for (int i = 0; i < written_count; i++)
        memcpy(c->page + (size_t)i * PAGE, at_of(written_list[i] * PAGE), PAGE);
    checkpoints++;
}

bool checkpoint_resume(uint64_t choices)
{
    while (checkpoints && checkpoint[checkpoints - 1]->run.choices >= choices)
        checkpoints--;
    if (!checkpoints)
        return false;
    const struct checkpoint *c = checkpoint[checkpoints - 1];
    for (int i = 0; i < written_count; i++)
        memcpy(at_of(written_list[i] * PAGE),
               i < c->pages ? c->page + (size_t)i * PAGE : kept + written_list[i] * PAGE, PAGE);
    run = c->run;
    for (int i = 0; i < run.thread_count; i++)
        memcpy(watched[i], c->watched[i], (size_t)run.thread[i].watched * sizeof watched[i][0]);
    return true;
}

static void hash_bytes(struct hash *h, const unsigned char *from, size_t bytes)
{
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t value;
        memcpy(&value, from + i, 8);
        if (value)
            hash_toggle(h, i, value);
    }
}

/* Figures that a process keeps for people to read: nothing that it does depends on them. */
static struct { uint32_t from, to; } figures[4 * PROCESSES_MAX];
static int figures_count;

void figures_are(const void *at, size_t bytes)
{
    figures[figures_count].from = place_of(at);
    figures[figures_count++].to = place_of(at) + (uint32_t)bytes;
}

static bool is_figure(uint32_t place)
{
    for (int i = 0; i < figures_count; i++)
        if (place >= figures[i].from && place < figures[i].to)
            return true;
    return false;
}

/* What a process has in memory, apart from its segments, that is not as in the beginning. Of one
 * that does nothing more, only what its application saw still matters. */
struct hash heap_hash(int process)
{
    const struct process *p = &run.process[process];
    struct hash all = {0, 0};
    uint32_t from = HEAPS_AT + (uint32_t)process * HEAP_BYTES;
    uint32_t to = from + (p->running ? HEAP_BYTES : APP_BYTES);
    for (int i = 0; i < written_count; i++) {
        uint32_t page = written_list[i] * PAGE;
        if (page < from || page >= to)
            continue;
        uint32_t words = (to - page < PAGE ? to - page : PAGE) / 8;
        const uint64_t *now = (const uint64_t *)at_of(page);
        const uint64_t *then = (const uint64_t *)(kept + page);
        for (uint32_t w = 0; w < words; w++)
            if (now[w] != then[w] && !is_figure(page + w * 8))
                hash_toggle(&all, page + w, now[w]);
    }
    if (!p->running)
        return all;
    hash_add(&all, p->faults);
    for (int m = 0; m < p->mapping_count; m++)
        hash_add(&all, (uint64_t)(p->mapping[m].lost | p->mapping[m].used << 1));
    for (int l = 0; l < LOCKS_MAX; l++)
        hash_add(&all, p->lock[l].owner);
    return all;
}

/* The live part of a stack; the registers are saved there. Stale slots of live frames are in it;
 * they can only keep two equal states apart. */
struct hash stack_hash(int thread)
{
    unsigned char *sp = run.thread[thread].sp, *top = stack_top(thread);
    struct hash all = {place_of(sp), 1};
    hash_bytes(&all, sp, (size_t)(top - sp));
    return all;
}
