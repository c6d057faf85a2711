/*
 * A disk that takes its time, to be preloaded: fsync in the folder SLOW_FOLDER, and writes to files whose paths begin
 * with SLOW_WRITES, wait while there is a pipe SLOW_GATE that nobody has open to write.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_slow(int fd, const char *folder) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len < 0 ? 0 : len] = '\0';
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static void wait_for(int fd, const char *folder) {
    const char *gate = getenv("SLOW_GATE");
    int waited = gate && is_slow(fd, folder) ? open(gate, O_RDONLY | O_CLOEXEC) : -1;
    if (waited >= 0) {
        close(waited);
    }
}

__attribute__((visibility("default"))) int fsync(int fd) {
    wait_for(fd, getenv("SLOW_FOLDER"));
    return (int)syscall(SYS_fsync, fd);
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void *data, size_t len) {
    const char *files = getenv("SLOW_WRITES");
    if (files) {
        wait_for(fd, files);
    }
    return syscall(SYS_write, fd, data, len);
}
