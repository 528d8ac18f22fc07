/* seal.h: 48 bits of value and 16 bits of check in one word.
 *
 * A control word of a copy that was overwritten, zeroed or never written must not be believed:
 * one wrong intent or cursor is enough to break the order. So every control word carries its own
 * check, and a copy that shows a wrong one has failed. Zero is not a sealed word.
 */
#ifndef SHMCAST_SEAL_H
#define SHMCAST_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#define SEAL_BITS 48
#define SEAL_MAX ((UINT64_C(1) << SEAL_BITS) - 1)

static inline uint64_t seal_check(uint64_t value)
{
    return ((value ^ UINT64_C(0x5348)) * UINT64_C(0x9E3779B97F4A7C15)) >> SEAL_BITS;
}

static inline uint64_t seal(uint64_t value)
{
    return value << 16 | seal_check(value);
}

static inline uint64_t sealed_value(uint64_t word) { return word >> 16; }

static inline bool seal_ok(uint64_t word)
{
    return (word & 0xffff) == seal_check(sealed_value(word));
}

#endif
