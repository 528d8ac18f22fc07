/* fake_segment.c: instead of csrc/segment.c and guard.c: segments are places of the world, named
 * in a registry; a mapping is a range of one, lost when the process touches a truncated copy.
 *
 * Every process maps a segment at the same address; memory.c leads it to its private zero pages
 * once its mapping is lost. `fd` is the segment's number.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core.h"
#include "crc32c.h"
#include "sim.h"

_Atomic uint32_t guard_faults;                       /* its address is enough; see step_load */

int segment_name_ok(const char *name) { return name[0] ? 0 : SC_INVALID; }

int guard_install(void) { return 0; }

static int map_range(int segment, uint64_t from, uint64_t bytes, unsigned char **base)
{
    struct process *p = &run.process[self_process()];
    if (p->mapping_count == MAPPINGS_MAX)
        abort();
    int m = p->mapping_count++;
    p->mapping[m].segment = (uint8_t)segment;
    p->mapping[m].from = (uint32_t)from;
    p->mapping[m].to = (uint32_t)(from + bytes);
    p->mapping[m].used = true;
    *base = at_of(segment_start(segment) + (uint32_t)from);
    return m;
}

int guard_add(void *base, size_t bytes)
{
    (void)base, (void)bytes;
    abort();                                         /* only segment.c calls it */
}

bool guard_is_lost(int mapping) { return run.process[self_process()].mapping[mapping].lost; }

void guard_retire(int mapping)
{
    run.process[self_process()].mapping[mapping].lost = true;
    run.process[self_process()].lost_any = true;
}

void guard_remove(int mapping) { run.process[self_process()].mapping[mapping].used = false; }

static uint32_t fixed_crc(const struct segment_fixed *fixed)
{
    return crc32c(0, fixed, offsetof(struct segment_fixed, crc));
}

int segment_create(const struct segment_fixed *fixed, uint64_t bytes, uint32_t mode,
                   int64_t group_id, struct copy *out)
{
    (void)mode, (void)group_id;
    int s = 0;
    while (s < SEGMENTS_MAX && run.segment[s].exists)
        s++;
    if (s == SEGMENTS_MAX || bytes > SEGMENT_BYTES)
        abort();
    run.segment[s] = (struct segment){.exists = true, .serial = fixed->serial,
                                      .bytes = (uint32_t)bytes};
    struct segment_fixed own = *fixed;
    own.crc = fixed_crc(&own);
    memset(out, 0, sizeof *out);
    out->serial = own.serial;
    out->fd = s;
    out->table_mapping = map_range(s, 0, own.table_bytes, &out->table);
    format_table(out, &own);
    return 0;
}

int segment_give_to(struct copy *copy, uint32_t user_id)
{
    (void)copy, (void)user_id;
    return 0;
}

static int named(uint64_t serial)
{
    for (int s = 0; s < SEGMENTS_MAX; s++)
        if (run.segment[s].named && run.segment[s].serial == serial)
            return s;
    return -1;
}

int segment_link(const char *domain, struct copy *copy)
{
    (void)domain;
    touch_pseudo(REGISTRY_PLACE, true);
    if (named(copy->serial) >= 0)
        return SC_EXISTS;
    run.segment[copy->fd].named = true;
    count_intact();
    tell("gives copy %d its name", copy->fd);
    return 0;
}

int segment_open(const char *domain, uint64_t serial, struct copy *out,
                 struct segment_fixed *fixed)
{
    (void)domain;
    touch_pseudo(REGISTRY_PLACE, false);
    int s = named(serial);
    memset(out, 0, sizeof *out);
    if (s < 0)
        return SC_MISSING;
    if (run.segment[s].failed)
        return SC_CORRUPT;
    out->serial = serial;
    out->fd = s;
    unsigned char *base;
    out->table_mapping = map_range(s, 0, PAGE_BYTES, &base);
    out->table = base;
    copy_from_shared(fixed, &header_of(out)->fixed, sizeof *fixed);
    if (fixed->crc != fixed_crc(fixed))
        return SC_CORRUPT;
    run.process[self_process()].mapping[out->table_mapping].to = (uint32_t)fixed->table_bytes;
    return 0;
}

int segment_unlink(const char *domain, uint64_t serial)
{
    (void)domain;
    touch_pseudo(REGISTRY_PLACE, true);
    int s = named(serial);
    if (s < 0)
        return SC_MISSING;
    run.segment[s].named = false;
    count_intact();
    return 0;
}

/* No scenario has a creator that dies, so nobody ever clears a name: the lock is not modelled. */
int segment_hold_name(const char *domain, uint64_t serial)
{
    (void)domain;
    return named(serial) < 0 ? SC_MISSING : named(serial);
}

void segment_release_name(const char *domain, uint64_t serial, int held, bool take_away)
{
    if (take_away && named(serial) == held)
        segment_unlink(domain, serial);
}

int segment_list(const char *domain, uint64_t *serials, int max)
{
    (void)domain;
    touch_pseudo(REGISTRY_PLACE, false);
    int count = 0;
    for (uint64_t serial = 0; serial < SERIALS_MAX && count < max; serial++)
        if (named(serial) >= 0)
            serials[count++] = serial;
    return count;
}

int segment_grow(struct copy *copy, uint64_t offset, uint64_t bytes)
{
    if (offset + bytes > SEGMENT_BYTES)
        abort();
    if (run.segment[copy->fd].bytes < offset + bytes)
        run.segment[copy->fd].bytes = (uint32_t)(offset + bytes);
    return 0;
}

int segment_map_box(struct copy *copy, int box, uint64_t offset, uint64_t bytes)
{
    if (run.segment[copy->fd].failed || run.segment[copy->fd].bytes < offset + bytes)
        return SC_COPY_FAILED;
    unsigned char *base;
    STORE_RELAXED(&copy->box_mapping[box], map_range(copy->fd, offset, bytes, &base));
    STORE_RELEASE(&copy->box[box], base);
    return 0;
}

void segment_close(struct copy *copy)
{
    if (!copy->table)
        return;
    for (int box = 0; box < SC_MAILBOXES_MAX; box++)
        if (LOAD_RELAXED(&copy->box[box]))
            guard_remove(LOAD_RELAXED(&copy->box_mapping[box]));
    guard_remove(copy->table_mapping);
    memset(copy, 0, sizeof *copy);
}

int sim_fstat(int fd, struct stat *out);
int sim_fstat(int fd, struct stat *out)
{
    memset(out, 0, sizeof *out);
    out->st_nlink = run.segment[fd].named;
    out->st_size = run.segment[fd].failed ? 0 : (off_t)run.segment[fd].bytes;
    return 0;
}

int sim_fallocate(int fd, int mode, off_t offset, off_t bytes);
int sim_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    (void)fd, (void)mode, (void)offset, (void)bytes;
    return 0;
}
