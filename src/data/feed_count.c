/*
 * How long a clip is, by ffmpeg, without decoding it: it copies the packets to nowhere, and says how many there
 * were. Mostly each is a frame.
 */
#include "data/feed_internal.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 100 /* between looks at whether to stop */
#define TEXT_MAX 4096

/* Takes what whole lines say; the rest of the last one stays. */
static size_t take_lines(char *text, size_t len, struct culm_feed_length *length) {
    char *line = text, *end;
    text[len] = '\0';
    while ((end = strchr(line, '\n'))) {
        *end = '\0';
        if (strncmp(line, "frame=", 6) == 0) {
            length->frames = strtoll(line + 6, NULL, 10);
        } else if (strncmp(line, "out_time_us=", 12) == 0) {
            length->seconds = (double)strtoll(line + 12, NULL, 10) / 1e6;
        }
        line = end + 1;
    }
    len -= (size_t)(line - text);
    memmove(text, line, len);
    return len == TEXT_MAX - 1 ? 0 : len; /* a line that long is none of these */
}

/* Reads until the end. False: it was asked to stop. */
static bool read_all(int out, const struct culm_stop *stop, struct culm_feed_length *length) {
    char text[TEXT_MAX];
    size_t len = 0;
    for (;;) {
        struct pollfd pipe = {.fd = out, .events = POLLIN};
        if (stop && stop->asked(stop->ctx)) {
            return false;
        }
        if (poll(&pipe, 1, LOOK_MS) == 0) {
            continue;
        }
        ssize_t got = read(out, text + len, sizeof text - 1 - len);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
            return true;
        }
        len = take_lines(text, len + (got > 0 ? (size_t)got : 0), length);
    }
}

enum culm_status culm_feed_measure(const struct culm_feed_options *options,
                                   const struct culm_stop *stop,
                                   struct culm_feed_length *ret_length, struct culm_error *error) {
    struct culm_feed_length length = {.frames = -1, .seconds = -1};
    const struct feed_child_how how = {
        .file = options->file, .words = options->words, .word_count = options->word_count};
    int out, code;
    pid_t pid;
    *ret_length = length;
    if (!culm_file_is_regular(options->file) || options->from_s > 0 || options->to_s > 0 ||
        options->every > 1) {
        return CULM_OK;
    }
    int failed = feed_child_count(&how, &out, &pid);
    if (failed) {
        return CULM_OK; /* whoever reads the frames says why */
    }
    const bool whole = read_all(out, stop, &length);
    if (!whole) {
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR) {
    }
    close(out);
    if (whole && WIFEXITED(code) && WEXITSTATUS(code) == 0 && length.frames > 0) {
        *ret_length = length;
    }
    return whole ? CULM_OK : culm_error_set(error, CULM_ERR_AGAIN, "asked to stop");
}
