/* api_types.h: what api.h needs and cffi already knows. */
#ifndef SHMCAST_API_TYPES_H
#define SHMCAST_API_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#endif
