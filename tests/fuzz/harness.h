/* harness.h: what the fuzz targets share: a private name, sound domains to damage, where the checks
 * lie in a segment, and the count of what must not be left behind. */
#ifndef SHMCAST_FUZZ_HARNESS_H
#define SHMCAST_FUZZ_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sc_domain;

#define WITHIN_MS(ms) ((UINT64_C(1) << 63) | (ms) * UINT64_C(1000000))
#define FUZZ_SENDERS 2u
#define FUZZ_BOXES 2u
#define FUZZ_RECEIVERS 3u
#define FUZZ_CAPACITY 4u
#define FUZZ_MESSAGE_BYTES 64u

const char *fuzz_name(void);
void fuzz_fail(const char *what) __attribute__((noreturn));
int fuzz_rc(int rc);                                 /* an answer that api.h knows, or the end */
void fuzz_begin(void);
void fuzz_end(void);                                 /* nothing may be left of the input */
struct sc_domain *fuzz_domain(uint32_t protocol, uint32_t copies);
int fuzz_open_copy(uint64_t serial);                 /* its file, or -1 */
void virtual_time_reset(void);

/* Makes every check in a segment's image fit what stands there: forgery. */
void reseal_words(unsigned char *image, size_t bytes);
void repair_sums(unsigned char *image, size_t bytes);
/* Is there, among what was touched, anything that a sound copy could hold and that was not there? */
bool is_forged(const unsigned char *before, const unsigned char *after, size_t bytes);

#endif
