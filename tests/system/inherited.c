/*
 * What a process has inherited, to be preloaded: before anything else runs in it, each process writes what it has
 * open into a file of the folder INHERITED: its command line, then a line "NUMBER WHAT" for each descriptor. With
 * INHERITED_LEAK in its environment, a process opens, for its children to inherit, /dev/zero.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 1024

/* Words, with spaces between them. */
static void put_command(FILE *out) {
    FILE *file = fopen("/proc/self/cmdline", "re");
    for (int c; file && (c = getc(file)) != EOF;) {
        putc(c ? c : ' ', out);
    }
    putc('\n', out);
    if (file) {
        fclose(file);
    }
}

static void note(const char *folder) {
    static unsigned char is_open[MOST];
    char written[4096], name[4096];
    for (int fd = 0; fd < MOST; fd++) {
        is_open[fd] = fcntl(fd, F_GETFD) >= 0;
    }
    snprintf(written, sizeof written, "%s/.%d", folder, (int)getpid());
    FILE *out = fopen(written, "we");
    if (!out) {
        abort();
    }
    put_command(out);
    for (int fd = 0; fd < MOST; fd++) {
        char link[64], what[4096];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = is_open[fd] ? readlink(link, what, sizeof what) : 0;
        if (len > 0) {
            fprintf(out, "%d %.*s\n", fd, (int)len, what);
        }
    }
    int number = 0; /* one process may run several programs */
    do {
        snprintf(name, sizeof name, "%s/%d-%d", folder, (int)getpid(), number++);
    } while (access(name, F_OK) == 0);
    if (fclose(out) || rename(written, name)) {
        abort();
    }
}

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("INHERITED");
    if (folder) {
        note(folder);
    }
    if (getenv("INHERITED_LEAK")) {
        unsetenv("INHERITED_LEAK");
        int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        if (fcntl(fd, F_DUPFD, 100) < 0) { /* not close-on-exec, as some libraries do it */
            abort();
        }
        close(fd);
    }
}
