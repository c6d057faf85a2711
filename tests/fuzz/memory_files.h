/* For targets whose code opens several files: the parts of an input, at "====", as files in memory
 * under names in a folder. */
#ifndef CULM_TESTS_FUZZ_MEMORY_FILES_H
#define CULM_TESTS_FUZZ_MEMORY_FILES_H

#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_FILES_MAX 8

struct memory_files {
    char folder[64];
    int fd[MEMORY_FILES_MAX];
    size_t count;
};

/* `names` ended by NULL. Once in a process: the folder is removed at its end. */
static struct memory_files memory_files_of;

static inline void drop_memory_files(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", memory_files_of.folder);
    if (system(command) != 0) {
        fprintf(stderr, "cannot remove %s\n", memory_files_of.folder);
    }
}

static inline const struct memory_files *memory_files(const char *const *names) {
    struct memory_files *files = &memory_files_of;
    if (!files->count) {
        strcpy(files->folder, "/tmp/culm-fuzz-XXXXXX");
        FUZZ_REQUIRE(mkdtemp(files->folder), "no folder");
        atexit(drop_memory_files);
        for (; names[files->count]; files->count++) {
            char to[64], path[128];
            int fd = files->fd[files->count] = memfd_create("fuzz", MFD_CLOEXEC);
            FUZZ_REQUIRE(fd >= 0, "no file in memory");
            snprintf(to, sizeof to, "/proc/self/fd/%d", fd);
            snprintf(path, sizeof path, "%s/%s", files->folder, names[files->count]);
            FUZZ_REQUIRE(symlink(to, path) == 0, "no link");
        }
    }
    return files;
}

/* Missing parts are empty files; what is more is passed over. */
static inline void memory_files_fill(const struct memory_files *files, const uint8_t *data,
                                     size_t size) {
    for (size_t i = 0; i < files->count; i++) {
        const uint8_t *end = size ? memmem(data, size, "====", 4) : NULL;
        size_t len = end ? (size_t)(end - data) : size;
        FUZZ_REQUIRE(ftruncate(files->fd[i], 0) == 0 &&
                         pwrite(files->fd[i], data, len, 0) == (ssize_t)len,
                     "cannot write to memory");
        data += end ? len + 4 : len;
        size -= end ? len + 4 : len;
    }
}

#endif
