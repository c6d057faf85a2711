/* The table of a package's edge runs. See page_runs.h. */
#include "report/page_runs.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/sha256.h"
#include "report/chart.h"
#include "report/merge.h"
#include "report/sink.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS_MAX = 50 };
#define ROUND_BYTES_MAX ((size_t)256 << 20)
/* How much of a log is read at its beginning and at its end; `start` and `done` are shorter. */
#define END_BYTES ((size_t)256 << 10)

struct round {
    int64_t number;
    char digest[CULM_SHA256_HEX]; /* "": the package has no such round */
};

/* The rounds that runs have named, so that each is digested only once. */
struct rounds {
    const char *dir; /* of the package */
    struct round *round;
    int32_t count, capacity;
};

/* What the events of a run say. */
struct edge_run {
    int64_t round; /* the last round of this package that it had; -1: none */
    json_t *done;  /* NULL: the run has not finished */
};

static const char *digest_of(struct rounds *rounds, int64_t number) {
    char path[CULM_PATH_MAX], *text = NULL;
    size_t len;
    for (int32_t i = 0; i < rounds->count; i++) {
        if (rounds->round[i].number == number) {
            return rounds->round[i].digest;
        }
    }
    if (!CULM_GROW(rounds->round, rounds->capacity, rounds->count + 1)) {
        return "";
    }
    struct round *round = &rounds->round[rounds->count++];
    *round = (struct round){.number = number};
    if (culm_path_format(path, NULL, "%s/rounds/%" PRId64 ".json", rounds->dir, number) !=
            CULM_OK ||
        !culm_file_is_regular(path) ||
        culm_file_read(NULL, path, ROUND_BYTES_MAX, &text, &len, NULL) != CULM_OK ||
        culm_sha256_of(text, len, round->digest) != CULM_OK) {
        round->digest[0] = '\0';
    }
    free(text);
    return round->digest;
}

/* The round of this package that an event names; -1: none. */
static int64_t round_of(struct rounds *rounds, const json_t *event) {
    const json_t *package = json_object_get(event, "package");
    const char *digest = culm_event_text(package, "digest", "");
    const int64_t round = culm_event_int(event, "round", -1);
    return *digest && round >= 0 && strcmp(digest_of(rounds, round), digest) == 0 ? round : -1;
}

static void cell(struct culm_buf *out, const char *text) {
    culm_buf_printf(out, "<td>");
    culm_html_text(out, text);
    culm_buf_printf(out, "</td>");
}

static void write_run(struct culm_buf *out, const char *name, const struct edge_run *run) {
    int64_t frames = 0, processed = 0, measured = 0;
    double accuracy = 0;
    const json_t *query;
    size_t i;
    json_array_foreach(json_object_get(run->done, "queries"), i, query) {
        const json_t *own = json_object_get(query, "accuracy");
        frames += culm_event_int(query, "frames", 0);
        processed += culm_event_int(query, "processed", 0);
        accuracy += json_number_value(own);
        measured += json_is_number(own);
    }
    culm_buf_printf(out, "<tr>");
    cell(out, name);
    culm_buf_printf(out, "<td class=\"n\">%" PRId64 "</td>", run->round);
    if (!run->done) {
        culm_buf_printf(out, "<td colspan=\"4\">not finished</td></tr>\n");
        return;
    }
    culm_buf_printf(out, "<td class=\"n\">%" PRId64 "</td><td class=\"n\">", frames);
    culm_buf_printf(out, frames > 0 ? "%.1f %%</td><td class=\"n\">" : "-</td><td class=\"n\">",
                    100 * (double)processed / (double)(frames > 0 ? frames : 1));
    culm_buf_printf(out, measured > 0 ? "%.1f %%</td>" : "-</td>",
                    100 * accuracy / (double)(measured > 0 ? measured : 1));
    culm_buf_printf(out, "<td class=\"n\">%.2f of %.2f MB</td></tr>\n",
                    culm_event_real(run->done, "resident_max_bytes", 0) / 1e6,
                    culm_event_real(run->done, "limit_bytes", 0) / 1e6);
}

/* --- logs ---
 *
 * The first event of a run says what it is and the last one what came of it. What is in between may
 * be long, and is not read.
 */

/* Reads up to `room` bytes at `from`. Returns how many; -1: they cannot be read. */
static ssize_t read_at(int fd, char *to, size_t room, off_t from) {
    size_t done = 0;
    ssize_t got = 1;
    while (done < room && (got = pread(fd, to + done, room - done, from + (off_t)done)) > 0) {
        done += (size_t)got;
    }
    return got < 0 ? -1 : (ssize_t)done;
}

/* Parses a line. NULL: it is not an event of that kind. */
static json_t *event_of(const char *line, size_t len, const char *kind) {
    json_t *event = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    if (strcmp(culm_event_text(event, "event", ""), kind) != 0) {
        json_decref(event);
        event = NULL;
    }
    return event;
}

/* Goes back from the last line until one says which round the run had. If the run has finished,
 * that is the last line. */
static void read_back(struct edge_run *run, struct rounds *rounds, const char *text, size_t len) {
    while (len > 0 && !json_object_get(run->done, "package")) {
        const char *before = len > 1 ? memrchr(text, '\n', len - 1) : NULL;
        const char *line = before ? before + 1 : text;
        size_t bytes = len - (size_t)(line - text);
        json_t *event = NULL;
        if (!run->done && memmem(line, bytes, "\"done\"", 6)) {
            run->done = event = json_incref(event_of(line, bytes, "done"));
        }
        if (!event && memmem(line, bytes, "\"round\"", 7)) {
            event = event_of(line, bytes, "round");
        }
        int64_t round = event ? round_of(rounds, event) : -1;
        json_decref(event);
        if (round >= 0) {
            run->round = round;
            return;
        }
        len = (size_t)(line - text);
    }
}

/* Reads a log. False: it is not that of an edge run. */
static bool read_log(struct edge_run *run, struct rounds *rounds, int fd, off_t size, char *text) {
    ssize_t len = read_at(fd, text, END_BYTES, 0);
    const char *end = len > 0 ? memchr(text, '\n', (size_t)len) : NULL;
    json_t *start = end ? event_of(text, (size_t)(end - text), "start") : NULL;
    bool edge = strcmp(culm_event_text(start, "job", ""), culm_summary_edge.name) == 0;
    int64_t began = edge ? round_of(rounds, start) : -1;
    json_decref(start);
    if (!edge) {
        return false;
    }
    off_t from = size > (off_t)END_BYTES ? size - (off_t)END_BYTES : 0;
    len = from > 0 ? read_at(fd, text, END_BYTES, from) : len;
    if (len > 0) {
        read_back(run, rounds, text, (size_t)len);
    }
    run->round = run->round >= 0 ? run->round : began;
    return true;
}

/* Whether `path` is the directory of an edge run that had a round of this package. A log that is
 * not a plain file is left alone: reading a pipe could block forever. */
static bool look(struct edge_run *run, struct rounds *rounds, const char *path, char *text) {
    char log[CULM_PATH_MAX];
    struct stat of;
    if (culm_path_format(log, NULL, "%s/events.jsonl", path) != CULM_OK) {
        return false;
    }
    int fd = open(log, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool shown = fd >= 0 && fstat(fd, &of) == 0 && S_ISREG(of.st_mode) &&
                 read_log(run, rounds, fd, of.st_size, text) && run->round >= 0;
    if (fd >= 0) {
        close(fd);
    }
    return shown;
}

void culm_page_runs_write(struct culm_buf *out, const char *dir) {
    char own[PATH_MAX], path[CULM_PATH_MAX];
    struct culm_names names = {0};
    struct rounds rounds = {.dir = dir};
    int shown = 0;
    char *slash = realpath(dir, own) ? strrchr(own, '/') : NULL;
    char *text = slash && slash != own ? malloc(END_BYTES) : NULL;
    if (!text) {
        return;
    }
    *slash = '\0';
    if (culm_dir_list(own, &names, NULL) != CULM_OK) {
        free(text);
        return;
    }
    for (size_t i = 0; i < names.count && shown <= RUNS_MAX; i++) {
        struct edge_run run = {.round = -1};
        if (culm_path_format(path, NULL, "%s/%s", own, names.name[i]) == CULM_OK &&
            culm_file_is_directory(path) && look(&run, &rounds, path, text)) {
            culm_buf_printf(out, "%s",
                            shown == 0 ? "<h2>Runs at the edge</h2>\n<table>\n<tr><th>run</th><th "
                                         "class=\"n\">round</th><th class=\"n\">frames</th><th "
                                         "class=\"n\">in time</th><th class=\"n\">accuracy</th><th "
                                         "class=\"n\">memory</th></tr>\n"
                                       : "");
            if (shown++ < RUNS_MAX) {
                write_run(out, names.name[i], &run);
            }
        }
        json_decref(run.done);
    }
    culm_buf_printf(out, "%s", shown ? "</table>\n" : "");
    culm_buf_printf(out, "%s", shown > RUNS_MAX ? "<p>and more</p>\n" : "");
    culm_names_release(&names);
    free(rounds.round);
    free(text);
}
