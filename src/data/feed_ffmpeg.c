/*
 * ffmpeg as a child process, which writes one PPM picture after another to a pipe. PPM is a few
 * bytes of header and then raw RGB, so that the size comes along with the pixels.
 */
#include "data/feed_internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/url.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define PIPE_BYTES (1 << 20)
#define HEADER_MAX 64
#define SIDE_MAX 65500
#define BYTES_MAX (1u << 28)
#define END_MS 5000 /* how long it may take to exit after the end of its output */
/* How long it looks at a stream to find out what it is, in us: by itself it takes five seconds, in which frames queue
 * up. What it looks at is not thrown away (`-fflags nobuffer`): with it the first key frame would go, and frames would
 * come only with the second, which may be ten seconds later. */
#define LOOKS_US "1000000"
#define LOOK_MS 500 /* the longest time between two looks at it */

/* --- starting and stopping --- */

/* The words of a command. */
#define WORDS_MAX (48 + CULM_FEED_WORDS_MAX)
struct words {
    char *word[WORDS_MAX + 1]; /* NULL after the last */
    int count;
    char text[4][160]; /* of words that are made here */
    int texts;
};

static void add(struct words *words, const char *word) {
    if (words->count < WORDS_MAX) {
        words->word[words->count++] = (char *)word; /* posix_spawn does not write to it */
    }
}

static void add_two(struct words *words, const char *one, const char *other) {
    add(words, one);
    add(words, other);
}

/* An option and a time, whatever a comma is here. */
static void add_seconds(struct words *words, const char *option, double seconds) {
    const int64_t us = (int64_t)(seconds * 1e6 + 0.5);
    char *text = words->text[words->texts++];
    snprintf(text, sizeof words->text[0], "%lld.%06lld", (long long)(us / 1000000),
             (long long)(us % 1000000));
    add_two(words, option, text);
}

/* The file as ffmpeg takes it. An existing one is meant as such even if its name looks like a protocol or like stdin. */
static bool name_input(const char *name, char input[CULM_PATH_MAX + 8]) {
    const bool file = (strchr(name, ':') || strcmp(name, "-") == 0) && access(name, F_OK) == 0;
    return snprintf(input, CULM_PATH_MAX + 8, "%s%s", file ? "file:" : "", name) <
           CULM_PATH_MAX + 8;
}

/* Leaves out frames before they are converted, which takes four times as long as to decode them. By the time at which they come: what streams say
 * of their times may be wrong. Half a period apart, so that those that come a little early are there, and whoever reads
 * them chooses. */
static void add_filters(struct words *words, const struct feed_child_how *how) {
    char *text = words->text[words->texts];
    const int64_t gap_us = how->most_fps > 0 ? (int64_t)(500000 / how->most_fps) : 0;
    int len = 0;
    if (how->every > 1) {
        len = snprintf(text, sizeof words->text[0], "framestep=%lld", (long long)how->every);
    }
    if (gap_us > 0) {
        snprintf(text + len, sizeof words->text[0] - (size_t)len,
                 "%sselect=if(gte(abs(time(0)-ld(0))\\,%lld.%06lld)\\,1+0*st(0\\,time(0))\\,0)",
                 len ? "," : "", (long long)(gap_us / 1000000), (long long)(gap_us % 1000000));
    }
    if (how->every > 1 || gap_us > 0) {
        words->texts++;
        add_two(words, "-vf", text);
    }
}

/* What comes before the input's name. */
static void add_input(struct words *words, const struct feed_child_how *how, const char *input) {
    add_two(words, "ffmpeg", "-nostdin");
    add_two(words, "-v", "error");
    add_two(words, "-threads", "1");
    if (how->as_recorded && culm_file_is_regular(how->file)) {
        add_two(words, "-readrate", "1");
    }
    if (culm_feed_lasts(how->file)) {
        add_two(words, "-analyzeduration", LOOKS_US);
    }
    if (how->from_s > 0) {
        add_seconds(words, "-ss", how->from_s);
    }
    if (how->to_s > 0) {
        add_seconds(words, "-to", how->to_s);
    }
    for (size_t i = 0; i < how->word_count;
         i++) { /* behind ours, so that they have the last word */
        add(words, how->words[i]);
    }
    add_two(words, "-i", input);
    add_two(words, "-map", "0:v:0");
    add_filters(words, how);
}

static int spawn(struct words *words, int out, int said, pid_t *ret_pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t blocked, pipes;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGHUP); /* meant for us ("read it again"), but sent to the whole group */
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE); /* by which the child learns that nobody reads any more */
    sigaddset(&pipes, SIGINT);
    sigaddset(&pipes, SIGTERM);
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed) {
        return failed;
    }
    if ((failed = posix_spawnattr_init(&attributes))) {
        posix_spawn_file_actions_destroy(&actions);
        return failed;
    }
    if (!(failed = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) &&
        !(failed = posix_spawn_file_actions_adddup2(&actions, out, 1)) &&
        !(failed = posix_spawn_file_actions_adddup2(&actions, said, 2)) &&
        !(failed = posix_spawn_file_actions_addclosefrom_np(&actions, 3)) &&
        !(failed = posix_spawnattr_setsigmask(&attributes, &blocked)) &&
        !(failed = posix_spawnattr_setsigdefault(&attributes, &pipes)) &&
        !(failed = posix_spawnattr_setflags(&attributes,
                                            POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))) {
        failed = posix_spawnp(ret_pid, words->word[0], &actions, &attributes, words->word, environ);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static int spawn_pictures(const struct feed_child_how *how, int out, int said, pid_t *ret_pid) {
    struct words words = {0};
    char input[CULM_PATH_MAX + 8];
    if (!name_input(how->file, input)) {
        return ENAMETOOLONG;
    }
    add_input(&words, how, input);
    add_two(&words, "-fps_mode", "passthrough");
    add_two(&words, "-sws_flags", "bicubic+accurate_rnd+full_chroma_int+bitexact");
    add_two(&words, "-pix_fmt", "rgb24");
    add_two(&words, "-f", "image2pipe");
    add_two(&words, "-c:v", "ppm");
    add(&words, "-");
    return spawn(&words, out, said, ret_pid);
}

int feed_child_count(const struct feed_child_how *how, int *ret_out, pid_t *ret_pid) {
    struct words words = {0};
    char input[CULM_PATH_MAX + 8];
    int out[2];
    if (!name_input(how->file, input)) {
        return ENAMETOOLONG;
    }
    add_input(&words, how, input);
    add_two(&words, "-c", "copy");
    add_two(&words, "-f", "null");
    add_two(&words, "-progress", "pipe:1");
    add_two(&words, "-nostats", "-");
    if (pipe2(out, O_CLOEXEC) != 0) {
        return errno;
    }
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int failed = null < 0 ? errno : spawn(&words, out[1], null, ret_pid);
    close(out[1]);
    if (null >= 0) {
        close(null);
    }
    if (failed) {
        close(out[0]);
        return failed;
    }
    *ret_out = out[0];
    return 0;
}

enum culm_status feed_child_start(struct feed_child *child, const struct feed_child_how *how,
                                  struct culm_error *error) {
    const char *name = how->name;
    int out[2] = {-1, -1}, said[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(said, O_CLOEXEC) != 0) {
        int failed = errno;
        close(out[0]);
        close(out[1]);
        return culm_error_errno(error, failed, "feed '%s': pipe", name);
    }
    (void)fcntl(out[0], F_SETPIPE_SZ, PIPE_BYTES); /* only to be faster, so it may fail */
    (void)fcntl(out[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(said[0], F_SETFL, O_NONBLOCK);
    pid_t pid = 0;
    int failed = spawn_pictures(how, out[1], said[1], &pid);
    close(out[1]);
    close(said[1]);
    if (failed) {
        close(out[0]);
        close(said[0]);
        if (failed == ENOENT) {
            return culm_error_set(
                error, CULM_ERR_MACHINE,
                "feed '%s': ffmpeg is not installed; install it, or give a folder "
                "of pictures",
                name);
        }
        return culm_error_errno(error, failed, "feed '%s': start ffmpeg", name);
    }
    child->pid = pid;
    child->out = out[0];
    child->said = said[0];
    child->len = child->wanted = 0;
    child->last_len = 0;
    child->first[0] = '\0';
    child->line_ended = child->said_ended = false;
    child->heard_ns = child->looked_ns = culm_clock_ns();
    return CULM_OK;
}

void feed_child_stop(struct feed_child *child) {
    if (child->pid > 0) {
        int how;
        kill(child->pid, SIGKILL);
        while (waitpid(child->pid, &how, 0) < 0 && errno == EINTR) {
        }
        close(child->out);
        close(child->said);
        child->pid = 0;
    }
}

void feed_child_release(struct feed_child *child) {
    feed_child_stop(child);
    free(child->buffer);
    *child = (struct feed_child){0};
}

/* --- its messages and its end --- */

/* The time left until then in ms, rounded up; -1: forever. */
static int left(uint64_t until_ns) {
    uint64_t now = culm_clock_ns();
    if (until_ns == UINT64_MAX) {
        return -1;
    }
    uint64_t ms = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;
    return ms > 1000000 ? 1000000 : (int)ms;
}

/* Often the first line names the cause, and the last only what came of it. */
static void note_first(struct feed_child *child) {
    if (!child->first[0] && child->last_len > 0) {
        child->last[child->last_len] = '\0';
        const char *at = strstr(child->last, " @ 0x"), *end = at ? strstr(at, "] ") : NULL;
        const char *text = child->last[0] == '[' && end
                               ? end + 2
                               : child->last; /* "[h264 @ 0x55..] " says nothing */
        snprintf(child->first, sizeof child->first, "%.500s", text);
    }
}

/* Reads what it has written to standard error, and keeps the last line that is not empty. */
static void listen_to(struct feed_child *child) {
    char part[512];
    ssize_t got;
    while ((got = read(child->said, part, sizeof part)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            bool end = part[i] == '\n' || part[i] == '\r';
            if (!end && child->line_ended) {
                child->last_len = 0;
                child->line_ended = false;
            }
            if (end) {
                child->line_ended = child->last_len > 0;
                note_first(child);
            } else if (child->last_len + 1 < sizeof child->last) {
                child->last[child->last_len++] = part[i] >= 0x20 ? part[i] : ' ';
            }
        }
    }
    child->said_ended = got == 0;
}

/* Waits until the child exits, for as long as it may take, and meanwhile reads what it says, so that
 * it need not wait for us. False: it is still there. */
static bool exits(struct feed_child *child) {
    int pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    const uint64_t until = culm_clock_ns() + END_MS * UINT64_C(1000000);
    bool exited = pidfd < 0;
    while (!exited && left(until) > 0) {
        struct pollfd ends[] = {{.fd = pidfd, .events = POLLIN},
                                {.fd = child->said, .events = POLLIN}};
        (void)poll(ends, child->said_ended ? 1 : 2, left(until));
        exited = ends[0].revents & POLLIN;
        listen_to(child);
    }
    if (pidfd >= 0) {
        close(pidfd);
    } else {
        listen_to(child); /* a kernel without them: it is waited for, however long it stays */
    }
    return exited;
}

/* Says as an error how a child that has closed its output has ended. */
static enum culm_status ended(struct feed_child *child, const char *name, int64_t frames,
                              struct culm_error *error) {
    int how = 0;
    bool by_us = !exits(child);
    if (by_us) {
        kill(child->pid, SIGKILL);
    }
    while (waitpid(child->pid, &how, 0) < 0 && errno == EINTR) {
    }
    close(child->out);
    close(child->said);
    child->pid = 0;
    child->last[child->last_len] = '\0';
    if (by_us) {
        return culm_error_set(error, CULM_ERR_IO,
                              "feed '%s': ffmpeg stopped giving frames after %lld, but did not "
                              "exit within %d s; there may have been more",
                              name, (long long)frames, END_MS / 1000);
    }
    if (WIFSIGNALED(how)) {
        return culm_error_set(error, CULM_ERR_IO,
                              "feed '%s': ffmpeg was killed by signal %d after %lld frames", name,
                              WTERMSIG(how), (long long)frames);
    }
    if (WEXITSTATUS(how) != 0) {
        char shown[sizeof child->last], first[sizeof child->first];
        culm_url_show(child->last, shown, sizeof shown); /* it repeats the address */
        culm_url_show(child->first, first, sizeof first);
        const bool both = frames == 0 && first[0] && strcmp(first, shown) != 0;
        return culm_error_set(error, frames ? CULM_ERR_IO : CULM_ERR_CONFIG,
                              "feed '%s': ffmpeg failed after %lld frames: %s%s%s", name,
                              (long long)frames, both ? first : "", both ? "; " : "",
                              *shown ? shown : "it does not say why");
    }
    if (child->len > 0) {
        return culm_error_set(error, CULM_ERR_IO,
                              "feed '%s': ffmpeg ended in the middle of frame %lld", name,
                              (long long)frames);
    }
    return culm_error_set(error, CULM_ERR_CLOSED, "feed '%s': it ended after %lld frames", name,
                          (long long)frames);
}

/* --- pictures --- */

/* Parses "P6 WIDTH HEIGHT 255 ", with any white space. 0: it is incomplete; -1: it is not a header;
 * -2: it is that of a picture that is too large. */
static int parse_header(struct feed_child *child) {
    char text[HEADER_MAX + 1];
    size_t len = child->len < HEADER_MAX ? child->len : HEADER_MAX;
    int used = 0, depth = 0;
    memcpy(text, child->buffer, len);
    text[len] = '\0';
    if (sscanf(text, "P6 %d %d %d%n", &child->width, &child->height, &depth, &used) != 3 ||
        (size_t)used >= len) {
        bool begins = strncmp(text, "P6", len < 2 ? len : 2) == 0;
        return begins && len < HEADER_MAX ? 0 : -1;
    }
    if (depth != 255 || child->width < 1 || child->height < 1) {
        return -1;
    }
    if (child->width > SIDE_MAX || child->height > SIDE_MAX ||
        (uint64_t)child->width * (uint64_t)child->height * 3 > BYTES_MAX) {
        return -2;
    }
    child->header = (size_t)used + 1;
    child->wanted = child->header + (size_t)child->width * (size_t)child->height * 3;
    return 1;
}

/* Reads what is there, but never beyond one picture. CULM_ERR_AGAIN: nothing is; CULM_ERR_CLOSED:
 * the end. */
static enum culm_status read_some(struct feed_child *child, const char *name,
                                  struct culm_error *error) {
    size_t wanted = child->wanted ? child->wanted : HEADER_MAX;
    if (wanted > child->capacity) {
        char *larger = realloc(child->buffer, wanted);
        if (!larger) {
            return culm_error_set(error, CULM_ERR_MEMORY, "feed '%s': out of memory for a frame",
                                  name);
        }
        child->buffer = larger;
        child->capacity = wanted;
    }
    /* A header has at least 11 bytes; the rest of it is read byte by byte, so as not to read on. */
    size_t most = child->wanted ? wanted - child->len : (child->len < 11 ? 11 - child->len : 1);
    ssize_t got = read(child->out, child->buffer + child->len, most);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR
                   ? CULM_ERR_AGAIN
                   : culm_error_errno(error, errno, "feed '%s': read from ffmpeg", name);
    }
    if (got == 0) {
        return CULM_ERR_CLOSED;
    }
    child->len += (size_t)got;
    child->heard_ns = child->looked_ns = culm_clock_ns();
    int parsed = child->wanted ? 1 : parse_header(child);
    if (parsed == -2) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "feed '%s': a picture of %d x %d is too large; at most %d pixels a "
                              "side and %u MB",
                              name, child->width, child->height, SIDE_MAX, BYTES_MAX >> 20);
    }
    return parsed < 0
               ? culm_error_set(error, CULM_ERR_IO, "feed '%s': ffmpeg gives no pictures", name)
               : CULM_OK;
}

/* If far more time has passed between two looks than should, this process was stopped or starved,
 * and perhaps the child was as well: that time does not count as its silence. */
static void look(struct feed_child *child) {
    uint64_t now = culm_clock_ns(), gap = now - child->looked_ns;
    if (gap > 2 * LOOK_MS * UINT64_C(1000000)) {
        child->heard_ns += gap - LOOK_MS * UINT64_C(1000000);
    }
    child->looked_ns = now;
}

/* How long to wait before the next look, in ms. */
static int pause_of(uint64_t stalls, uint64_t until) {
    int ms = left(stalls < until ? stalls : until);
    return ms < LOOK_MS ? ms : LOOK_MS;
}

enum culm_status feed_child_read(struct feed_child *child, const char *name, int64_t frames,
                                 int wait_ms, int stall_ms, struct culm_error *error) {
    uint64_t until =
        wait_ms < 0 ? UINT64_MAX : culm_clock_ns() + (uint64_t)wait_ms * UINT64_C(1000000);
    while (!child->wanted || child->len < child->wanted) {
        enum culm_status status = read_some(child, name, error);
        if (status == CULM_ERR_CLOSED) {
            return ended(child, name, frames, error);
        }
        if (status == CULM_OK) {
            continue;
        }
        if (status != CULM_ERR_AGAIN) {
            return status;
        }
        listen_to(child);
        look(child);
        uint64_t stalls = child->heard_ns + (uint64_t)stall_ms * UINT64_C(1000000);
        if (left(stalls) == 0) {
            child->heard_ns = culm_clock_ns(); /* so that it is reported once per such time */
            return culm_error_set(error, CULM_ERR_TIMEOUT,
                                  "feed '%s': it has stalled: nothing for %g s after %lld frames",
                                  name, stall_ms / 1000.0, (long long)frames);
        }
        if (left(until) == 0) {
            return culm_error_set(error, CULM_ERR_AGAIN, "feed '%s': no frame so far", name);
        }
        struct pollfd pipes[] = {{.fd = child->out, .events = POLLIN},
                                 {.fd = child->said, .events = POLLIN}};
        (void)poll(pipes, child->said_ended ? 1 : 2, pause_of(stalls, until));
    }
    return CULM_OK;
}

void feed_child_take(struct feed_child *child) { child->len = child->wanted = 0; }
