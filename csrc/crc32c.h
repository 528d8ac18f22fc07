/* crc32c.h: CRC-32C (Castagnoli), with the processor's instruction where it has one. */
#ifndef SHMCAST_CRC32C_H
#define SHMCAST_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/* Copies, and returns the CRC of what it has written, even if `data` changes meanwhile. */
uint32_t crc32c_copy(uint32_t crc, void *to, const void *data, size_t bytes);

#endif
