/*
 * `culm edge run|plan|bench WORKLOAD.yaml`, `culm edge status DIR`: many models on live video in the memory of few.
 */
#include "base/clock.h"
#include "cli/command.h"
#include "cli/edge_status.h"
#include "cli/options.h"
#include "run/edge_plan.h"
#include "run/launches.h"
#include "run/references.h"

#include <culm/edge.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct values {
    struct culm_option_list sets, packages;
    const char *profile, *out;
    double for_s;
    int64_t frames, answers;
    bool json;
};

static const struct culm_option options[] = {
    CULM_OPTION("package", LIST, "DIR", struct values, packages,
                "a package of culm merge; for bench repeatable, also as NAME=DIR, or NAME=SHARE% "
                "for one that would save that share (default: the models as they are)"),
    CULM_OPTION("profile", TEXT, "FILE", struct values, profile,
                "how long models run and how fast tensors load (default: measured)"),
    CULM_OPTION("set", LIST, "key.sub=value", struct values, sets,
                "changes a key of the workload; repeatable"),
    CULM_OPTION("for", REAL, "S", struct values, for_s,
                "ends after S seconds (default: plan 60, run when all feeds have ended)"),
    CULM_OPTION("frames", INT, "N", struct values, frames,
                "bench: frames of each stream (default: 3000)"),
    CULM_OPTION("answers", INT, "N", struct values, answers,
                "bench: frames of each feed on which accuracy is measured (default: 600)"),
    CULM_OPTION("out", TEXT, "DIR", struct values, out,
                "run: folder for answers, events and profile (default: runs/<workload name>-edge)"),
    CULM_OPTION(
        "json", FLAG, NULL, struct values, json,
        "prints JSON: one object for plan and status, one per cell for bench, the events for run"),
};

const struct culm_usage culm_usage_edge = {
    .command = "edge",
    .arguments = "run|plan|bench WORKLOAD.yaml|status DIR",
    .min_arguments = 2,
    .max_arguments = 2,
    .summary = "Answers queries on live video in time, with more models than memory holds",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .config = culm_merge_reference,
    .details =
        "run answers the queries of the workload on its feeds; each line of DIR/QUERY.jsonl is "
        "one\n"
        "frame's answer. A signal ends it with exit code 0. On SIGHUP it takes up changes of the\n"
        "workload's queries and feeds; a new round of the package takes effect once it is there.\n"
        "plan predicts in virtual time how such a run would go. bench does so for memory min, 50 % "
        "and\n"
        "75 %, deadlines of 100, 200 and 400 ms, and 5, 10 and 30 frames per second: for the "
        "models as\n"
        "they are (none), each package, every equal layer shared (max), and loading that takes no\n"
        "time (load-free), each also with the scheduler that was released with GEMEL.\n"
        "status tells how a run goes, by its directory: feeds, queries, memory. Its exit code is 0 "
        "if\n"
        "the run is well or has ended, and 1 if it is dead, frozen, not ready, or gets no "
        "frames.\n",
};

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

/* A line for each query, of a plan or of a run. */
static void print_frames(const json_t *queries) {
    size_t i;
    json_t *item;
    json_array_foreach(queries, i, item) {
        double frames = number(item, "frames");
        if (frames > 0) {
            printf("%-20s %5.1f %% of %.0f frames in time\n", text(item, "query"),
                   100 * number(item, "processed") / frames, frames);
        } else {
            printf("%-20s no frames\n", text(item, "query"));
        }
    }
}

/* Prints which merged queries run on their own weights all the same. */
static bool is_among(const json_t *list, const json_t *item) {
    size_t i;
    json_t *other;
    json_array_foreach(list, i, other) {
        if (json_equal(other, item)) {
            return true;
        }
    }
    return false;
}

/* Queries on their own weights: by choice, and because drift took them back. */
static void print_originals(const json_t *originals, const json_t *reverted) {
    size_t i, chosen = json_array_size(originals) - json_array_size(reverted);
    json_t *item;
    if (chosen > 0) {
        printf("originals  ");
        json_array_foreach(originals, i, item) {
            if (!is_among(reverted, item)) {
                printf(" %s", json_string_value(item));
            }
        }
        printf(" (running on their own weights loses no frame)\n");
    }
    if (json_array_size(reverted) > 0) {
        printf("originals  ");
        json_array_foreach(reverted, i, item) { printf(" %s", json_string_value(item)); }
        printf(" (drift took them back to their own weights)\n");
    }
}

static void print_plan(const json_t *plan) {
    size_t i;
    json_t *item;
    printf("memory      %.2f MB of %.2f (%.2f least, %.2f for all at once; weights %.2f)\n",
           number(plan, "resident_max_bytes") / 1e6, number(plan, "limit_bytes") / 1e6,
           number(plan, "least_bytes") / 1e6, number(plan, "most_bytes") / 1e6,
           number(plan, "distinct_bytes") / 1e6);
    printf("loading     %.2f MB a round; waiting for it %.0f %% of the time\n",
           number(plan, "round_bytes") / 1e6, 100 * number(plan, "load_share"));
    printf("order      ");
    json_array_foreach(json_object_get(plan, "order"), i, item) {
        const char *name = json_string_value(item);
        printf(" %s (%.0f)", name, number(json_object_get(plan, "visit"), name));
    }
    printf("\n");
    print_originals(json_object_get(plan, "originals"), NULL);
    print_frames(json_object_get(plan, "queries"));
}

static void print_score(const json_t *score) {
    char accuracy[16] = "     -";
    if (json_is_number(json_object_get(score, "accuracy"))) {
        snprintf(accuracy, sizeof accuracy, "%6.2f", 100 * number(score, "accuracy"));
    }
    printf("  %6.1f %6.1f %6.2f %s %5.1f", 100 * number(score, "processed"),
           100 * number(score, "least_processed"), number(score, "fairness"), accuracy,
           100 * number(score, "load_share"));
}

/* Prints a row of the table, preceded by the heading if it is the first. */
static void print_cell(const json_t *cell) {
    static bool headed;
    if (!headed) {
        const char *columns = "answered  least   fair  acc. loading";
        printf(
            "%% of frames                      %s, by the released scheduler:\n%-12s %-4s %4s %3s "
            "   %s  %s\n",
            columns, "mode", "mem.", "ms", "fps", columns, columns);
        headed = true;
    }
    printf("%-12s %-4s %4.0f %3.0f", text(cell, "mode"), text(cell, "memory"),
           number(cell, "deadline_ms"), number(cell, "fps"));
    print_score(cell);
    print_score(json_object_get(cell, "released_scheduler"));
    printf("\n");
}

static void print_lost(const json_t *done) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(done, "queries"), i, item) {
        if (number(item, "answers_lost") > 0) {
            printf("%-20s %.0f answers could not be written\n", text(item, "query"),
                   number(item, "answers_lost"));
        }
    }
    json_array_foreach(json_object_get(done, "answers"), i, item) {
        printf("%-20s has got %.0f answers", text(item, "to"), number(item, "sent"));
        if (number(item, "lost") > 0) {
            printf(", and lost %.0f", number(item, "lost"));
        }
        printf("\n");
    }
    if (number(done, "events_lost") > 0) {
        printf("%.0f events could not be written\n", number(done, "events_lost"));
    }
}

/* Prints the events of a run that matter to a person: its start, what goes wrong, its outcome. */
static void print_event(const json_t *event) {
    const char *kind = text(event, "event");
    size_t i;
    json_t *item;
    if (strcmp(kind, "start") == 0) {
        double rate = number(json_object_get(event, "loading"), "mb_per_s");
        printf("limit %.2f MB", number(event, "limit_bytes") / 1e6);
        if (rate > 0) {
            printf(", tensors at %.0f MB/s", rate);
        }
        printf("; expected:");
        json_array_foreach(json_object_get(event, "expected"), i, item) {
            printf(" %s %.0f %%", text(item, "query"), 100 * number(item, "processed"));
        }
        printf("\n");
    } else if (json_object_get(event, "error")) {
        const char *error = text(event, "error"), *query = text(event, "query");
        if (strcmp(kind, "feed") == 0) { /* most errors name it */
            bool named = strncmp(error, "feed '", strlen("feed '")) == 0;
            printf("%s%s%s%s\n", named ? "" : "feed '", named ? "" : text(event, "feed"),
                   named ? "" : "': ", error);
        } else {
            printf("%s%s%s: %s\n", kind, *query ? " " : "", query, error);
        }
    } else if (strcmp(kind, "feed") == 0 && json_object_get(event, "up")) {
        printf("feed '%s': it is back, after %.1f s\n", text(event, "feed"),
               number(event, "after_s"));
    } else if (strcmp(kind, "feed") == 0 && json_is_boolean(json_object_get(event, "slow"))) {
        printf("feed '%s': it gives %.1f frames a second; planned: %g\n", text(event, "feed"),
               number(event, "fps"), number(event, "planned"));
    } else if (strcmp(kind, "warning") == 0) {
        printf("warning: %s\n", text(event, "message"));
    } else if (strcmp(kind, "plan") == 0) {
        print_originals(json_object_get(event, "originals"), json_object_get(event, "reverted"));
    } else if (strcmp(kind, "round") == 0) {
        printf("round %.0f of the package\n", number(event, "round"));
    } else if (strcmp(kind, "drift") == 0) {
        const char *frames = text(event, "frames");
        printf("drift: %s at %.3f of %.3f (%.0f missed of %.0f, %.0f added), %s%s%s\n",
               text(event, "query"), number(event, "accuracy"), number(event, "promised"),
               number(event, "missed"), number(event, "wanted"), number(event, "added"),
               text(event, "action"), *frames ? "; frames to merge again with: " : "", frames);
    } else if (strcmp(kind, "done") == 0) {
        print_frames(json_object_get(event, "queries"));
        print_lost(event);
        printf("memory %.2f MB of %.2f; waiting for tensors %.0f %% of the time\n",
               number(event, "resident_max_bytes") / 1e6, number(event, "limit_bytes") / 1e6,
               100 * number(event, "load_share"));
        if (json_object_get(event, "saved")) {
            printf("saved       %.1f %% of the weights that queries were on, over the run\n",
                   100 * number(event, "saved"));
        }
    }
}

/* --- live lines, if somebody watches ---------------------------------------------------------- */

#define LIVE_MAX 64
#define LIVE_NS 500000000ull

struct live {
    char name[65]; /* as long as names may be */
    int64_t done, dropped;
    double late_ms; /* how long before it was due the last answer came; not how late it was */
};

struct telling {
    const struct values *values;
    void (*print)(const json_t *object);
    bool watched;       /* standard error is a terminal: show live lines */
    bool goes_on, lost; /* go on if standard output fails; it has failed */
    struct live live[LIVE_MAX];
    int32_t count, shown; /* lines; how many are on the terminal */
    double resident, limit;
    uint64_t shown_ns;
};

static void wipe(struct telling *telling) {
    if (telling->shown) {
        fprintf(stderr, "\033[%dA\033[J", telling->shown);
        telling->shown = 0;
    }
}

/* Redraws one line for each query: the share of its frames answered in time, and how many. */
static void show_live(struct telling *telling) {
    uint64_t now = culm_clock_ns();
    if (now < telling->shown_ns + LIVE_NS) {
        return;
    }
    wipe(telling);
    telling->shown_ns = now;
    for (int32_t i = 0; i < telling->count; i++) {
        const struct live *live = &telling->live[i];
        int64_t frames = live->done + live->dropped;
        fprintf(stderr,
                "%-20s %5.1f %% of %lld frames, last %.0f ms before it was due; memory %.2f of "
                "%.2f MB\n",
                live->name, frames ? 100.0 * (double)live->done / (double)frames : 100.0,
                (long long)frames, live->late_ms, telling->resident / 1e6, telling->limit / 1e6);
    }
    telling->shown = telling->count;
    fflush(stderr);
}

static void follow(struct telling *telling, const json_t *event) {
    const char *kind = text(event, "event"), *query = text(event, "query");
    if (strcmp(kind, "start") == 0) {
        telling->limit = number(event, "limit_bytes");
    } else if (strcmp(kind, "load") == 0 || strcmp(kind, "evict") == 0) {
        telling->resident = number(event, "resident_bytes");
    } else if (strcmp(kind, "frame") == 0) {
        int32_t i = 0;
        while (i < telling->count && strcmp(telling->live[i].name, query) != 0) {
            i++;
        }
        if (i == telling->count && i < LIVE_MAX) {
            snprintf(telling->live[telling->count++].name, sizeof telling->live->name, "%s", query);
        }
        if (i < LIVE_MAX && json_object_get(event, "dropped")) {
            telling->live[i].dropped++;
        } else if (i < LIVE_MAX) {
            telling->live[i].done++;
            telling->live[i].late_ms = number(event, "due_ms") - number(event, "done_ms");
        }
    } else if (strcmp(kind, "query") != 0) {
        wipe(telling); /* make way for what may be printed now */
        return;
    }
    show_live(telling);
}

static void tell(void *ctx, json_t *take_object) {
    struct telling *telling = ctx;
    if (telling->watched) {
        follow(telling, take_object);
    }
    if (telling->values->json) {
        culm_cli_print_json(take_object);
    } else {
        telling->print(take_object);
        json_decref(take_object);
    }
    struct culm_error error;
    if (culm_cli_flush(&error) != CULM_OK && telling->goes_on) {
        clearerr(stdout);
        if (!telling->lost) {
            fprintf(stderr,
                    "culm edge: warning: %s; the run goes on, and its directory has everything\n",
                    error.text);
        }
        telling->lost = true;
    }
}

/* --- run -------------------------------------------------------------------------------------- */

static void on_event(void *ctx, const char *json) {
    json_t *event = json_loads(json, 0, NULL);
    if (event) { /* else there is no memory for one more line on the screen */
        tell(ctx, event);
    }
}

static struct culm_edge *running; /* by the handler */

static void on_signal(int number) {
    if (number == SIGHUP) {
        culm_edge_reload(running);
    } else {
        culm_edge_stop(running);
    }
}

static void hold_signals(int how) {
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    pthread_sigmask(how, &held, NULL);
}

/* SIGINT and SIGTERM end the run, SIGHUP has it read the workload again; those that come before there
 * is one wait for it. */
static void hear_signals(struct culm_edge *edge) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    running = edge;
    sigfillset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    hold_signals(SIG_UNBLOCK);
}

static enum culm_status open_edge(const char *path, const struct values *v, struct telling *telling,
                                  struct culm_edge **ret_edge, struct culm_error *error) {
    const struct culm_edge_options how = {.size = sizeof how,
                                          .dir = v->out,
                                          .package =
                                              v->packages.count ? v->packages.items[0] : NULL,
                                          .profile = v->profile,
                                          .seconds = v->for_s,
                                          .event = on_event,
                                          .context = telling,
                                          .answers = -1};
    struct culm_config *workload = NULL;
    enum culm_status status = culm_config_open(path, &workload, error);
    for (size_t i = 0; i < v->sets.count && status == CULM_OK; i++) {
        status = culm_config_add(workload, v->sets.items[i], error);
    }
    if (status == CULM_OK) {
        status = culm_edge_open(workload, &how, ret_edge, error);
    }
    culm_config_free(workload);
    return status;
}

static enum culm_status run_edge(const char *workload, const struct values *v,
                                 struct culm_error *error) {
    struct telling telling = {.values = v,
                              .print = print_event,
                              .watched = !v->json && isatty(STDERR_FILENO),
                              .goes_on = true};
    struct culm_edge *edge = NULL;
    signal(SIGPIPE, SIG_IGN);
    hold_signals(SIG_BLOCK);
    enum culm_status status = open_edge(workload, v, &telling, &edge, error);
    if (status == CULM_OK) {
        hear_signals(edge);
        status = culm_edge_start(edge, error);
    }
    if (status == CULM_OK) {
        status = culm_edge_wait(edge, error);
    }
    running = NULL;
    culm_edge_close(edge);
    return status;
}

/* --- the command line ------------------------------------------------------------------------- */

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *v = values;
    struct telling telling = {.values = v};
    const struct culm_edge_planning planning = {.workload = arguments->items[1],
                                                .sets = v->sets.items,
                                                .set_count = v->sets.count,
                                                .packages = v->packages.items,
                                                .package_count = v->packages.count,
                                                .profile = v->profile,
                                                .for_s = v->for_s,
                                                .frames = v->frames,
                                                .answers = v->answers,
                                                .tell = tell,
                                                .ctx = &telling};
    const char *what = arguments->items[0];
    bool runs = strcmp(what, "run") == 0, benches = strcmp(what, "bench") == 0;
    enum culm_status status;
    if ((status = culm_cli_only(v->out && !runs, "out", "culm edge run", error)) ||
        (status = culm_cli_only(v->frames && !benches, "frames", "culm edge bench", error)) ||
        (status = culm_cli_only(v->answers && !benches, "answers", "culm edge bench", error)) ||
        (status = culm_cli_only(v->for_s > 0 && benches, "for", "culm edge run|plan", error)) ||
        (status = culm_cli_only(v->packages.count > 1 && !benches, "package, more than once,",
                                "culm edge bench", error))) {
        return status;
    }
    if (strcmp(what, "status") == 0) {
        if ((status = culm_cli_only(v->packages.count > 0, "package", "culm edge run|plan|bench",
                                    error)) ||
            (status = culm_cli_only(v->profile, "profile", "culm edge run|plan|bench", error)) ||
            (status = culm_cli_only(v->sets.count > 0, "set", "culm edge run|plan|bench", error)) ||
            (status = culm_cli_only(v->for_s > 0, "for", "culm edge run|plan", error))) {
            return status;
        }
        return culm_cli_edge_status(arguments->items[1], v->json, ret_code, NULL, error);
    }
    if (runs) {
        return run_edge(arguments->items[1], v, error);
    }
    if (strcmp(what, "plan") == 0) {
        telling.print = print_plan;
        return culm_edge_plan_run(&planning, error);
    }
    if (benches) {
        telling.print = print_cell;
        return culm_edge_grid(&planning, error);
    }
    return culm_error_set(error, CULM_ERR_ARGUMENT, "'%s' is not one of run, plan, bench, status",
                          what);
}

int culm_cli_edge(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_edge, argc, argv, &values, run);
}
