/* world.c: the bytes of the simulated world, and how an execution begins again.
 *
 * A search runs the same beginning many thousand times a second. Set-up is done once; what it
 * left is kept, and every execution starts from it. To restore cheaply, pages are write-protected
 * once: a page that is ever written stays on the list of pages to restore, the others never cost
 * anything.
 *
 *   | pseudo words | segments | private pages per process and segment | heaps | stacks |
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

#define BASE UINT64_C(0x200000000000)
#define PAGE 4096u
#define SEGMENTS_AT PAGE
#define PRIVATE_AT (SEGMENTS_AT + SEGMENTS_MAX * SEGMENT_BYTES)
#define HEAPS_AT (PRIVATE_AT + PROCESSES_MAX * SEGMENTS_MAX * SEGMENT_BYTES)
#define STACKS_AT (HEAPS_AT + PROCESSES_MAX * HEAP_BYTES)
#define WORLD_BYTES (STACKS_AT + THREADS_MAX * STACK_BYTES)
#define PAGES (WORLD_BYTES / PAGE)

struct execution run;
static struct execution run_kept;
static unsigned char *kept;
static bool written[PAGES];
static uint16_t written_list[PAGES];
static int written_count;

bool in_world(const volatile void *at)
{
    return (uintptr_t)at >= BASE && (uintptr_t)at < BASE + WORLD_BYTES;
}
uint32_t place_of(const volatile void *at) { return (uint32_t)((uintptr_t)at - BASE); }
unsigned char *at_of(uint32_t place) { return (unsigned char *)BASE + place; }
uint32_t segment_start(int segment) { return SEGMENTS_AT + (uint32_t)segment * SEGMENT_BYTES; }
unsigned char *heap_of(int process) { return at_of(HEAPS_AT + (uint32_t)process * HEAP_BYTES); }

int segment_at(uint32_t place)
{
    return place >= SEGMENTS_AT && place < PRIVATE_AT
               ? (int)((place - SEGMENTS_AT) / SEGMENT_BYTES) : -1;
}

uint32_t private_start(int process, int segment)
{
    return PRIVATE_AT + ((uint32_t)process * SEGMENTS_MAX + (uint32_t)segment) * SEGMENT_BYTES;
}

unsigned char *stack_top(int thread)
{
    return at_of(STACKS_AT + ((uint32_t)thread + 1) * STACK_BYTES);
}

int heap_owner(uint32_t place)
{
    if (place >= STACKS_AT)
        return run.thread[(place - STACKS_AT) / STACK_BYTES].process;
    return place >= HEAPS_AT ? (int)((place - HEAPS_AT) / HEAP_BYTES) : -1;
}

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
    void *p = mmap((void *)BASE, WORLD_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != (void *)BASE) {
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
    run = run_kept;
}

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

void hash_add(struct hash *h, uint64_t value)
{
    h->a = mix(h->a * UINT64_C(0x9e3779b97f4a7c15) + value);
    h->b = mix((h->b ^ value) * UINT64_C(0xc2b2ae3d27d4eb4f) + 1);
}

/* A set of (place, value): adding and taking away are the same. */
void hash_toggle(struct hash *h, uint64_t place, uint64_t value)
{
    uint64_t one = mix(value + mix(place + 1));
    h->a ^= one;
    h->b ^= mix(one ^ UINT64_C(0x51ed270b7a1d5cc3) * (place + 7));
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

/* The true local state: heap pages that are not as in the beginning, and the live stack. Stale
 * slots of live frames are in it; they can only keep two equal states apart. */
struct hash heap_hash(int process, int thread)
{
    struct hash all = {0, 0};
    uint32_t from = HEAPS_AT + (uint32_t)process * HEAP_BYTES, to = from + HEAP_BYTES;
    for (int i = 0; i < written_count; i++) {
        uint32_t page = written_list[i] * PAGE;
        if (page < from || page >= to || memcmp(at_of(page), kept + page, PAGE) == 0)
            continue;
        for (uint32_t at = page; at < page + PAGE; at += 8) {
            uint64_t now, then;
            memcpy(&now, at_of(at), 8);
            memcpy(&then, kept + at, 8);
            if (now != then)
                hash_toggle(&all, at, now);
        }
    }
    unsigned char *sp = run.thread[thread].sp, *top = stack_top(thread);
    struct hash stack = {place_of(sp), 1};
    hash_bytes(&stack, sp, (size_t)(top - sp));
    hash_add(&all, stack.a);
    hash_add(&all, stack.b);
    return all;
}
