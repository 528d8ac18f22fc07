/* notes.c: see notes.h. */
#include "notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void note_failure(struct notes *n, enum kind kind, const char *format, ...)
{
    va_list more;
    va_start(more, format);
    if (n->failures++ == 0 || (kind == ABSOLUTE && !n->absolute))
        vsnprintf(n->failure, sizeof n->failure, format, more);
    n->absolute = n->absolute || kind == ABSOLUTE;
    va_end(more);
}

void note_figure(struct notes *n, const char *format, ...)
{
    size_t at = strlen(n->figures);
    va_list more;
    va_start(more, format);
    if (at)
        at += (size_t)snprintf(n->figures + at, sizeof n->figures - at, "; ");
    if (at < sizeof n->figures)
        vsnprintf(n->figures + at, sizeof n->figures - at, format, more);
    va_end(more);
}

static uint64_t mix_of(uint32_t who, uint32_t number)
{
    return ((uint64_t)who << 32 | number) * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

struct body body_of(uint32_t who, uint32_t number)
{
    return (struct body){who, number, mix_of(who, number)};
}

/* Numbers grow per sender; one process of the case sends at a time for each `who`. */
struct sent *note_try(struct notes *n, uint32_t who, uint32_t boxes, uint32_t batch)
{
    uint32_t number = 0, slot = atomic_fetch_add(&n->sent_count, 1);
    if (slot >= SENT_MAX)
        abort();
    for (uint32_t i = 0; i < slot; i++)
        number += n->sent[i].who == who;
    n->sent[slot] = (struct sent){who, number, boxes, batch, SENT_OPEN};
    return &n->sent[slot];
}

void note_got(struct notes *n, enum listener ear, uint64_t timestamp, uint64_t sender,
              const void *payload, uint64_t bytes)
{
    struct ear *e = &n->ear[ear];
    struct body body = {0};
    if (bytes == sizeof body)
        memcpy(&body, payload, sizeof body);
    if (bytes != sizeof body || body.mix != mix_of(body.who, body.number))
        note_failure(n, ABSOLUTE, "validity: receiver %d got a torn payload (%u bytes)", ear, (unsigned)bytes);
    if (e->count == GOT_MAX)
        abort();
    e->got[e->count++] = (struct got){timestamp, (uint32_t)(sender & 255), body.who, body.number};
}

static const char *const ear_names[] = {"first", "second", "in-B", "role", "newcomer"};

void notes_print(const struct notes *n)
{
    uint64_t first = n->ear[EAR_0].count ? n->ear[EAR_0].got[0].timestamp : 0;
    printf("  sent (sender.message -> boxes: result):");
    for (uint32_t i = 0; i < n->sent_count; i++) {
        const struct sent *s = &n->sent[i];
        printf(" %u.%u->%s%s:", s->who, s->number, s->boxes & TO_A ? "A" : "",
               s->boxes & TO_B ? "B" : "");
        if (s->rc == SENT_OPEN)
            printf("open");
        else
            printf("%s", s->rc ? error_name(s->rc) : "ok");
    }
    printf("\n");
    for (int e = 0; e < EARS; e++) {
        printf("  receiver %s got:", ear_names[e]);
        for (uint32_t i = 0; i < n->ear[e].count; i++) {
            const struct got *g = &n->ear[e].got[i];
            printf(" %u.%u@%ld/%u", g->who, g->number, (long)(g->timestamp - first), g->lane);
        }
        printf("\n");
    }
    if (n->figures[0])
        printf("  the core counted: %s\n", n->figures);
}
