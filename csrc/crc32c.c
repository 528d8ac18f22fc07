/* crc32c.c: three streams at once in hardware, tables elsewhere.
 *
 * The instruction takes one word per cycle but answers after three, so three independent streams
 * run side by side and are joined at the end. Joining means: advance a CRC over a stream's length
 * of zero bytes, which is linear, so four tables of 256 entries do it. Long streams first, as joining
 * costs as much as a few words; then short ones for what is left.
 *
 * crc32c_copy also copies. The bytes may change under it, so each is loaded once: what was written is
 * what was summed up. `to` is NULL where nothing is to be copied; the compiler makes two functions of each.
 */
#include "crc32c.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u      /* reflected */
#define STREAM_BYTES_MAX 1024u

static uint32_t byte_table[8][256];
static struct streams {
    size_t bytes;                   /* per stream and round; a round is three of them */
    uint32_t skip[4][256];          /* advances over so many zero bytes */
} long_streams = {.bytes = STREAM_BYTES_MAX}, short_streams = {.bytes = 128};
static bool has_instruction;

#define BOTH static inline __attribute__((always_inline))

/* The empty instruction makes the compiler keep the word that it has: it must not load it again. */
BOTH uint64_t take_word(unsigned char *to, const unsigned char *from, size_t at)
{
    uint64_t word;
    memcpy(&word, from + at, 8);
    __asm__("" : "+r"(word));
    if (to)
        memcpy(to + at, &word, 8);
    return word;
}

BOTH unsigned char take_byte(unsigned char *to, const unsigned char *from, size_t at)
{
    unsigned int byte = from[at];
    __asm__("" : "+r"(byte));
    if (to)
        to[at] = (unsigned char)byte;
    return (unsigned char)byte;
}

BOTH uint32_t crc_bytes(uint32_t crc, unsigned char *to, const unsigned char *p, size_t bytes)
{
    size_t at = 0;
    for (; bytes - at >= 8; at += 8) {
        uint64_t w = take_word(to, p, at) ^ crc;
        crc = byte_table[7][w & 255] ^ byte_table[6][w >> 8 & 255] ^
              byte_table[5][w >> 16 & 255] ^ byte_table[4][w >> 24 & 255] ^
              byte_table[3][w >> 32 & 255] ^ byte_table[2][w >> 40 & 255] ^
              byte_table[1][w >> 48 & 255] ^ byte_table[0][w >> 56];
    }
    for (; at < bytes; at++)
        crc = crc >> 8 ^ byte_table[0][(crc ^ take_byte(to, p, at)) & 255];
    return crc;
}

#if defined(__x86_64__)
#define TARGET __attribute__((target("sse4.2")))
#define STEP8(crc, word) __builtin_ia32_crc32di((crc), (word))
#define STEP1(crc, byte) __builtin_ia32_crc32qi((uint32_t)(crc), (byte))
static bool find_instruction(void) { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define TARGET __attribute__((target("+crc")))
#define STEP8(crc, word) __crc32cd((uint32_t)(crc), (word))
#define STEP1(crc, byte) __crc32cb((uint32_t)(crc), (byte))
static bool find_instruction(void) { return (getauxval(AT_HWCAP) & (1UL << 7)) != 0; }
#endif

#ifdef TARGET
static uint32_t skip(const struct streams *s, uint32_t crc)
{
    return s->skip[0][crc & 255] ^ s->skip[1][crc >> 8 & 255] ^ s->skip[2][crc >> 16 & 255] ^
           s->skip[3][crc >> 24];
}

/* As many rounds as fit; moves *at on. */
TARGET BOTH uint64_t crc_rounds(const struct streams *s, uint64_t crc, unsigned char *to,
                                const unsigned char *p, size_t bytes, size_t *at)
{
    const size_t stream = s->bytes;
    for (; bytes - *at >= 3 * stream; *at += 3 * stream) {
        uint64_t b = 0, c = 0;
        for (size_t i = *at; i < *at + stream; i += 8) {
            crc = STEP8(crc, take_word(to, p, i));
            b = STEP8(b, take_word(to, p, i + stream));
            c = STEP8(c, take_word(to, p, i + 2 * stream));
        }
        crc = skip(s, (uint32_t)crc) ^ b;
        crc = skip(s, (uint32_t)crc) ^ c;
    }
    return crc;
}

TARGET BOTH uint32_t crc_hardware(uint32_t start, unsigned char *to, const unsigned char *p,
                                  size_t bytes)
{
    size_t at = 0;
    uint64_t crc = crc_rounds(&long_streams, start, to, p, bytes, &at);
    crc = crc_rounds(&short_streams, crc, to, p, bytes, &at);
    for (; bytes - at >= 8; at += 8)
        crc = STEP8(crc, take_word(to, p, at));
    for (; at < bytes; at++)
        crc = STEP1(crc, take_byte(to, p, at));
    return (uint32_t)crc;
}

TARGET static uint32_t hardware_alone(uint32_t crc, const unsigned char *p, size_t bytes)
{
    return crc_hardware(crc, NULL, p, bytes);
}

TARGET static uint32_t hardware_copy(uint32_t crc, unsigned char *to, const unsigned char *p,
                                     size_t bytes)
{
    return crc_hardware(crc, to, p, bytes);
}
#else
static bool find_instruction(void) { return false; }
static uint32_t hardware_alone(uint32_t crc, const unsigned char *p, size_t bytes)
{
    return crc_bytes(crc, NULL, p, bytes);
}
static uint32_t hardware_copy(uint32_t crc, unsigned char *to, const unsigned char *p, size_t bytes)
{
    return crc_bytes(crc, to, p, bytes);
}
#endif

static void make_skip(struct streams *s)
{
    static const unsigned char zeros[STREAM_BYTES_MAX];
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 0; k < 4; k++)
            s->skip[k][i] = crc_bytes(i << (8 * k), NULL, zeros, s->bytes);
}

__attribute__((constructor)) static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        byte_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++) {
            uint32_t crc = byte_table[k - 1][i];
            byte_table[k][i] = crc >> 8 ^ byte_table[0][crc & 255];
        }
    make_skip(&long_streams);
    make_skip(&short_streams);
    has_instruction = find_instruction();
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    crc = ~crc;
    crc = has_instruction ? hardware_alone(crc, data, bytes) : crc_bytes(crc, NULL, data, bytes);
    return ~crc;
}

uint32_t crc32c_copy(uint32_t crc, void *to, const void *data, size_t bytes)
{
    crc = ~crc;
    crc = has_instruction ? hardware_copy(crc, to, data, bytes) : crc_bytes(crc, to, data, bytes);
    return ~crc;
}
