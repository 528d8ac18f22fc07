/* rt_histogram.h: completion times in fixed memory, like an HDR histogram.
 *
 * Eight buckets for every power of two, so a time is known to within an eighth; 0 to 7 ns exactly;
 * what is longer than an hour counts in the last bucket. One writer; readers at any time.
 */
#ifndef SHMCAST_RT_HISTOGRAM_H
#define SHMCAST_RT_HISTOGRAM_H

#include "atomics.h"

#define HISTOGRAM_BITS 3
#define HISTOGRAM_WORDS 320u                         /* 2560 bytes: forty cache lines */

static inline uint32_t histogram_bucket(uint64_t ns)
{
    if (ns < 1u << HISTOGRAM_BITS)
        return (uint32_t)ns;
    uint32_t exponent = 63u - (uint32_t)__builtin_clzll(ns);
    uint32_t bucket = (exponent - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS |
                      (uint32_t)(ns >> (exponent - HISTOGRAM_BITS) & ((1u << HISTOGRAM_BITS) - 1));
    return bucket < HISTOGRAM_WORDS ? bucket : HISTOGRAM_WORDS - 1;
}

static inline void histogram_add(word_t *words, uint64_t ns)
{
    word_t *word = &words[histogram_bucket(ns)];
    STORE_RELAXED(word, LOAD_RELAXED(word) + 1);     /* single writer: no lost count */
}

#endif
