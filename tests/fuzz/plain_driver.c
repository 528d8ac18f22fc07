/* plain_driver.c: runs a fuzz target without libFuzzer: replays files, then mutates them at random,
 * without guidance.
 *
 *   target [-runs=N] [-seed=N] [-max_total_time=S] FILE|DIRECTORY...
 *
 * An input is written to crash-input before it is tried and removed after the last.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define INPUTS_MAX 4096
#define INPUT_BYTES 4096
#define SECONDS_PER_INPUT 20         /* a loop that never looks at the clock */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct { size_t size; uint8_t *data; } inputs[INPUTS_MAX];
static int count;
static uint64_t state = 1;

static uint64_t any(void)                            /* xorshift: the same everywhere */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void load(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || count == INPUTS_MAX)
        return;
    uint8_t *data = malloc(INPUT_BYTES);
    inputs[count].size = fread(data, 1, INPUT_BYTES, f);
    inputs[count++].data = data;
    fclose(f);
}

static void load_all(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        load(path);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        char inner[1024];
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.')
            load(inner);
    }
    closedir(dir);
}

static void try_one(const uint8_t *data, size_t size)
{
    FILE *f = fopen("crash-input", "wb");
    if (f) {
        fwrite(data, 1, size, f);
        fclose(f);
    }
    alarm(SECONDS_PER_INPUT);
    LLVMFuzzerTestOneInput(data, size);
    alarm(0);
}

static size_t mutate(uint8_t *data, size_t size)
{
    for (uint64_t edits = 1 + any() % 8; edits; edits--) {
        size_t at = any() % INPUT_BYTES;
        switch (any() % 4) {
        case 0: size = 2 + any() % 400; break;
        case 1: data[at % (size ? size : 1)] ^= (uint8_t)(1u << any() % 8); break;
        case 2: data[at % (size ? size : 1)] = (uint8_t)any(); break;
        default: memset(data + at % (size ? size : 1), (int)(any() % 3 * 127), 1 + any() % 8); break;
        }
    }
    return size > INPUT_BYTES ? INPUT_BYTES : size;
}

int main(int argc, char **argv)
{
    uint64_t runs = 0, seconds = 0, done = 0;
    for (int i = 1; i < argc; i++)
        if (sscanf(argv[i], "-runs=%lu", &runs) != 1 &&
            sscanf(argv[i], "-seed=%lu", &state) != 1 &&
            sscanf(argv[i], "-max_total_time=%lu", &seconds) != 1 && argv[i][0] != '-')
            load_all(argv[i]);
    for (int i = 0; i < count; i++, done++)
        try_one(inputs[i].data, inputs[i].size);
    time_t end = time(NULL) + (time_t)seconds;
    while (count > 0 && (runs ? done < runs : time(NULL) < end)) {
        static uint8_t data[INPUT_BYTES + 16];
        uint64_t base = any() % (uint64_t)count;
        memcpy(data, inputs[base].data, inputs[base].size);
        size_t size = mutate(data, inputs[base].size);
        try_one(data, size);
        done++;
    }
    unlink("crash-input");
    for (int i = 0; i < count; i++)
        free(inputs[i].data);
    printf("Done %lu runs\n", done);
    return 0;
}
