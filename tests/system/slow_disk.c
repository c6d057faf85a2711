/*
 * A disk that takes its time, to be preloaded: fsync in the folder SLOW_FOLDER waits while there is a
 * pipe SLOW_GATE that nobody has open to write.
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

__attribute__((visibility("default"))) int fsync(int fd) {
    const char *gate = getenv("SLOW_GATE");
    int waited = gate && is_slow(fd, getenv("SLOW_FOLDER")) ? open(gate, O_RDONLY | O_CLOEXEC) : -1;
    if (waited >= 0) {
        close(waited);
    }
    return (int)syscall(SYS_fsync, fd);
}
