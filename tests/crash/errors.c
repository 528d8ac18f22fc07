/* errors.c: see errors.h. */
#define _GNU_SOURCE
#include "errors.h"

#include <stdio.h>
#include <string.h>

#include "api_types.h"
#include "api.h"

#define NAMES 4

static const char *const names[] = {
    "SC_LOST", "SC_REJECTED", "SC_LATE", "SC_FULL", "SC_TOO_LARGE", "SC_PEER_DEAD",
    "SC_INCOMPATIBLE", "SC_CORRUPT", "SC_COPY_FAILED", "SC_CLOSED", "SC_FORKED", "SC_TIMEOUT",
    "SC_EXISTS", "SC_MISSING", "SC_INVALID", "SC_NO_SPACE", "SC_NO_LANE", "SC_REMOVED",
    "SC_FROZEN", "SC_EXHAUSTED", "SC_OVERRUN",
};

const char *error_name(int rc)
{
    static _Thread_local char numbers[NAMES][24];
    static _Thread_local unsigned used;
    if (rc <= SC_LOST && rc >= SC_OVERRUN)
        return names[SC_LOST - rc];
    const char *of_system = rc < 0 ? strerrorname_np(-rc) : NULL;
    if (of_system)
        return of_system;
    char *number = numbers[used++ % NAMES];
    snprintf(number, sizeof numbers[0], "%d", rc);
    return number;
}

const char *property_of(int rc)
{
    if (rc == SC_TIMEOUT || rc == SC_FROZEN)
        return "bounded time";
    return rc == SC_FULL || rc == SC_NO_LANE || rc == SC_NO_SPACE ? "no leak" : "validity";
}

enum kind kind_of(int rc)
{
    return rc == SC_TIMEOUT || rc == SC_REJECTED || rc == SC_LATE ? TIMED : ABSOLUTE;
}
