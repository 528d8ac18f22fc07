/* story.c: an execution as a table, a column for each thread, in the protocol's own words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cast.h"

#define WIDTH 46

bool telling, telling_all;

static const char *role_name(enum role role)
{
    static const char *const names[] = {"-", "sender", "sender", "receiver", "receiver", "joiner", "leaver", "newcomer",
                                        "replacer", "reaper", "SB", "SB fenced", "MP writer",
                                        "MP reader"};
    return names[role];
}

const char *error_name(int rc)
{
    static char other[32];
    switch (rc) {
    case 0: return "ok";
    case RC_PENDING: return "pending";
    case SC_LOST: return "Lost";
    case SC_REJECTED: return "Rejected";
    case SC_LATE: return "Late";
    case SC_FULL: return "Full";
    case SC_CORRUPT: return "Corrupt";
    case SC_COPY_FAILED: return "CopyFailed";
    case SC_CLOSED: return "Closed";
    case SC_TIMEOUT: return "Timeout";
    case SC_EXISTS: return "Exists";
    case SC_MISSING: return "Missing";
    case SC_INVALID: return "Invalid";
    case SC_NO_LANE: return "NoLane";
    case SC_REMOVED: return "Removed";
    case SC_FROZEN: return "Frozen";
    default: snprintf(other, sizeof other, "%d", rc); return other;
    }
}

/* ---- places ---- */

static void name_owner(char *out, size_t size, const char *whose, uint32_t offset)
{
    static const char *const words[] = {"owner", "owner.start", "owner.space"};
    snprintf(out, size, "%s %s", whose, words[offset / 8 % 3]);
}

static void name_header(char *out, size_t size, uint32_t offset)
{
    if (offset == offsetof(struct segment_header, config))
        snprintf(out, size, "config");
    else if (offset == offsetof(struct segment_header, failed))
        snprintf(out, size, "failed");
    else if (offset == offsetof(struct segment_header, extent_end))
        snprintf(out, size, "extent end");
    else if (offset >= offsetof(struct segment_header, replacer))
        name_owner(out, size, "replacer", offset - (uint32_t)offsetof(struct segment_header, replacer));
    else
        snprintf(out, size, "header+%u", offset);
}

static void name_sender(char *out, size_t size, uint32_t offset)
{
    char whose[24];
    uint32_t lane = offset / (uint32_t)sizeof(struct sender_record);
    offset %= (uint32_t)sizeof(struct sender_record);
    snprintf(whose, sizeof whose, "lane %u", lane);
    if (offset == 0 || offset == 8 || offset == 16)
        snprintf(out, size, "%s %s", whose, offset == 0 ? "intent" : offset == 8 ? "low" : "boxes");
    else if (offset == offsetof(struct sender_record, cell))
        snprintf(out, size, "%s cell", whose);
    else if (offset < offsetof(struct sender_record, stats))
        name_owner(out, size, whose, offset - (uint32_t)offsetof(struct sender_record, owner));
    else
        snprintf(out, size, "%s stats", whose);
}

static void name_slot(char *out, size_t size, const struct mailbox *m, uint64_t offset)
{
    static const char *const words[] = {"a-flag", "D", "position", "ts", "size", "sequence", "op",
                                        "crc"};
    uint64_t index = offset / m->at.slot_bytes, inside = offset % m->at.slot_bytes;
    snprintf(out, size, "lane %u slot %u %s", (unsigned)(index / m->params.capacity),
             (unsigned)(index % m->params.capacity),
             inside < sizeof(struct slot) ? words[inside / 8] : "payload");
}

static void name_in_box(char *out, size_t size, const struct mailbox *m, uint64_t offset)
{
    char whose[24];
    if (offset < m->at.receivers_at)
        snprintf(out, size, "%s", offset < 64 ? "ring" : offset < 128 ? "space" : "members");
    else if (offset < m->at.rows_at) {
        uint64_t r = (offset - m->at.receivers_at) / sizeof(struct receiver_record);
        uint64_t inside = (offset - m->at.receivers_at) % sizeof(struct receiver_record);
        snprintf(whose, sizeof whose, "r%u", (unsigned)r);
        if (inside < sizeof(struct owner_record))
            name_owner(out, size, whose, (uint32_t)inside);
        else
            snprintf(out, size, "%s %s", whose,
                     inside == 24 ? "entry" : inside == 32 ? "exit" : "stats");
    } else if (offset < m->at.lanes_at) {
        snprintf(out, size, "cursor r%u lane %u",
                 (unsigned)((offset - m->at.rows_at) / m->at.row_bytes),
                 (unsigned)((offset - m->at.rows_at) % m->at.row_bytes / 8));
    } else if (offset < m->at.slots_at) {
        snprintf(out, size, "lane %u tail", (unsigned)((offset - m->at.lanes_at) / 64));
    } else {
        name_slot(out, size, m, offset - m->at.slots_at);
    }
}

static void name_place(char *out, size_t size, uint32_t place)
{
    int segment = segment_at(place);
    char inside[64];
    if (segment < 0) {
        snprintf(out, size, place < 4096 ? "word %u" : "own word %u", place / 8 % 256);
        return;
    }
    uint32_t offset = place - segment_start(segment);
    const struct sc_domain *d = app_of[0]->domain;
    snprintf(inside, sizeof inside, "directory+%u", offset);
    if (offset < sizeof(struct segment_header))
        name_header(inside, sizeof inside, offset);
    else if (offset < sender_at(d->params.senders))
        name_sender(inside, sizeof inside, offset - (uint32_t)sizeof(struct segment_header));
    for (uint32_t box = 0; box < d->params.mailboxes; box++) {
        const struct mailbox *m = &d->boxes[box];
        if (offset >= m->offset && offset < m->offset + m->at.bytes) {
            size_t used = (size_t)snprintf(inside, sizeof inside, "%s",
                                           d->params.mailboxes > 1 ? box ? "b " : "a " : "");
            name_in_box(inside + used, sizeof inside - used, m, offset - m->offset);
        }
    }
    snprintf(out, size, "c%d %s", segment, inside);
}

static void name_value(char *out, size_t size, const char *place, uint64_t value)
{
    static const char *const states[] = {"FREE", "CLAIMED", "OWNED", "LIVE"};
    static const char *const decisions[] = {"-", "ACCEPT", "REJECT", "?"};
    uint64_t plain = sealed_value(value);
    if (!value || !seal_ok(value))
        snprintf(out, size, value < 1000000 ? "%llu" : "%llx", (unsigned long long)value);
    else if (strstr(place, "intent"))
        snprintf(out, size, "op %llu %s", (unsigned long long)(plain >> 1), plain & 1 ? "down" : "UP");
    else if (strstr(place, "cell"))
        snprintf(out, size, "op %llu %s", (unsigned long long)(plain >> 2), decisions[plain & 3]);
    else if (strstr(place, " owner") && !strchr(place, '.'))
        snprintf(out, size, "v%u %s", owner_version(plain), states[owner_state(plain) & 3]);
    else if (strstr(place, " D") && plain)
        snprintf(out, size, "#%llu nrd %u nxp %u LD %u D %s", (unsigned long long)(plain >> 17),
                 (unsigned)(plain >> 10 & 127), (unsigned)(plain >> 3 & 127),
                 (unsigned)(plain >> 2 & 1), decisions[plain & 3]);
    else if (strstr(place, "config"))
        snprintf(out, size, "v%llu %s of %llu", (unsigned long long)(plain >> 8),
                 plain & 128 ? "FROZEN" : "open", (unsigned long long)(plain & 127));
    else
        snprintf(out, size, "%llu", (unsigned long long)plain);
}

/* ---- the table ---- */

static void cell(int column, const char *text)
{
    printf("%6llu |", (unsigned long long)run.steps);
    for (int i = 0; i < run.thread_count; i++)
        printf(" %-*.*s%s", WIDTH, WIDTH, i == column ? text : "",
               i + 1 < run.thread_count ? "|" : "");
    printf("\n");
}

void tell_heading(void)
{
    printf("%6s |", "step");
    for (int i = 0; i < run.thread_count; i++) {
        char title[64];
        int p = run.thread[i].process;
        snprintf(title, sizeof title, "%d: %s%s", p, role_name(scenario->cast[p].role),
                 i != p ? ", deciding" : "");
        printf(" %-*s%s", WIDTH, title, i + 1 < run.thread_count ? "|" : "");
    }
    printf("\n");
}

void tell(const char *format, ...)
{
    char text[128];
    va_list args;
    if (!telling || run.direct)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (text[0] == '-')
        printf("       %s\n", text);
    else
        cell(run.current, text);
}

void tell_step(const char *verb, uint32_t place, unsigned size, uint64_t value, bool visible)
{
    if (!telling || run.direct || !(visible || telling_all))
        return;
    char where[96], what[64], text[192];
    (void)size;
    name_place(where, sizeof where, place);
    name_value(what, sizeof what, where, value);
    snprintf(text, sizeof text, "%s %s = %s", verb, where, what);
    cell(run.current, text);
}
