/* api_types.h: what api.h needs and cffi already knows, or could not parse. */
#ifndef SHMCAST_API_TYPES_H
#define SHMCAST_API_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SC_UNCOUNTED (UINT64_C(1) << 62) /* part of a deadline, see api.h */

#endif
