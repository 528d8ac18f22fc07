/* faults.c: see faults.h. Knows of the layout only where the configuration's word is. */
#define _GNU_SOURCE
#include "faults.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_AT 1024
#define PAGE 4096

static const char *const words[] = {"none", "truncate", "poison", "corrupt", "unlink"};

int fault_kind_of(const char *word)
{
    for (int i = 0; i < 5; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

static void overwrite(int fd)
{
    struct stat st;
    uint64_t noise[PAGE / 8], x = UINT64_C(0x9E3779B97F4A7C15);
    if (fstat(fd, &st) != 0)
        return;
    for (off_t at = 0; at < st.st_size; at += PAGE) {
        for (int i = 0; i < PAGE / 8; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            noise[i] = x;
        }
        if (pwrite(fd, noise, PAGE, at) != PAGE)
            return;
    }
}

int fault_strike(const char *domain, const struct fault *fault)
{
    char path[256];
    const uint64_t unsealed = 0;
    snprintf(path, sizeof path, "/dev/shm/shmcast.%s.%d", domain, fault->copy);
    if (fault->kind == FAULT_UNLINK)
        return unlink(path);
    int fd = open(path, O_RDWR | O_CLOEXEC), rc = -1;
    if (fd < 0)
        return -1;
    if (fault->kind == FAULT_TRUNCATE)
        rc = ftruncate(fd, 0);
    if (fault->kind == FAULT_POISON)
        rc = pwrite(fd, &unsealed, sizeof unsealed, CONFIG_AT) == sizeof unsealed ? 0 : -1;
    if (fault->kind == FAULT_CORRUPT) {
        overwrite(fd);
        rc = 0;
    }
    close(fd);
    return rc;
}

int64_t segment_blocks(const char *domain, int serial)
{
    char path[256];
    struct stat st;
    snprintf(path, sizeof path, "/dev/shm/shmcast.%s.%d", domain, serial);
    return stat(path, &st) == 0 ? (int64_t)st.st_blocks : -1;
}

int segments_named(const char *domain)
{
    char prefix[160];
    int n = snprintf(prefix, sizeof prefix, "shmcast.%s.", domain), found = 0;
    DIR *dir = opendir("/dev/shm");
    for (struct dirent *e; dir && (e = readdir(dir));)
        found += strncmp(e->d_name, prefix, (size_t)n) == 0;
    if (dir)
        closedir(dir);
    return found;
}
