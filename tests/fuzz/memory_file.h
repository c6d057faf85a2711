/* For targets whose code opens files: a file in memory, with a path. */
#ifndef CULM_TESTS_FUZZ_MEMORY_FILE_H
#define CULM_TESTS_FUZZ_MEMORY_FILE_H

#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Its descriptor; close it when done. */
static inline int memory_file(const uint8_t *data, size_t size, char ret_path[64]) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_REQUIRE(fd >= 0, "no file in memory");
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(fd, data + done, size - done);
        FUZZ_REQUIRE(wrote > 0, "cannot write to memory");
        done += (size_t)wrote;
    }
    snprintf(ret_path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
