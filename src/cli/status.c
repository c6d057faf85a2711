/* `culm status DIR|RUN [--cluster PLACE] [--json] [--follow]`: what a run is at, from its events. */
#include "cli/command.h"
#include "cli/edge_status.h"
#include "cli/options.h"

#include "run/edge_status.h"
#include "run/status.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_S 1

struct values {
    const char *cluster, *token_file;
    bool json, follow;
};

static const struct culm_option options[] = {
    CULM_OPTION("cluster", TEXT, "etcd://HOST:PORT", struct values, cluster,
                "the store of keys at which the run of that name is"),
    CULM_OPTION("token-file", TEXT, "FILE", struct values, token_file,
                "with --cluster: the run's token, with which whoever leads is asked; without, what "
                "the store knows is shown"),
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object, on one line"),
    CULM_OPTION("follow", FLAG, NULL, struct values, follow,
                "goes on until the run has ended, and prints again what has changed"),
};

const struct culm_usage culm_usage_status = {
    .command = "status",
    .arguments = "DIR|RUN",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Shows what a run is at: its step, its nodes, and copies of each stage",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "The state is one of: waiting (for nodes, before the first step), running, parked (no "
        "step\n"
        "is done until a node comes), stopping, done, stopped (--resume goes on). It is made\n"
        "from DIR/events.jsonl, for runs of culm train and culm gnn train (of culm edge run, it is "
        "what\n"
        "culm edge status shows); with --cluster, from "
        "the "
        "keys\n"
        "of the run and the events of whoever leads it.\n",
};

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

static long long number_of(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_list(const char *before, const json_t *list, const char *after) {
    size_t index;
    const json_t *one;
    printf("%s", before);
    json_array_foreach(list, index, one) {
        printf("%s%lld", index ? ", " : "", (long long)json_integer_value(one));
    }
    printf("%s", after);
}

static void print_node(const json_t *node) {
    const json_t *holds = json_object_get(node, "holds");
    printf("  node %-5lld %-9s %-7s %s", number_of(node, "node"), text_of(node, "role"),
           text_of(node, "state"), text_of(node, "host"));
    if (json_is_integer(json_object_get(node, "pid"))) {
        printf(", pid %lld", number_of(node, "pid"));
    }
    if (json_is_integer(json_object_get(node, "stage"))) {
        printf(", pipeline %lld, stage %lld", number_of(node, "pipeline"),
               number_of(node, "stage"));
    }
    if (json_array_size(holds) > 0) {
        print_list(", holds stages ", holds, "");
    }
    printf("\n");
}

static void print_text(const json_t *status, bool whole) {
    const json_t *steps = json_object_get(status, "steps"), *loss = json_object_get(status, "loss"),
                 *copies = json_object_get(status, "copies"), *nodes, *one;
    size_t index;
    printf("run %s: %s, %s %lld", text_of(status, "run"), text_of(status, "state"),
           strcmp(text_of(status, "job"), "gnn") ? "step" : "epoch", number_of(status, "step"));
    if (json_is_integer(steps)) {
        printf(" of %lld", (long long)json_integer_value(steps));
    }
    if (json_is_number(loss)) {
        printf(", loss %.4f", json_number_value(loss));
    }
    printf(", %s %lld", strcmp(text_of(status, "store"), "ok") ? "launch" : "term",
           number_of(status, "term"));
    if (json_is_integer(json_object_get(status, "view"))) { /* else nobody is there to tell */
        printf(", view %lld", number_of(status, "view"));
    }
    putchar('\n');
    if (!whole) {
        return;
    }
    json_array_foreach(json_object_get(status, "agents"), index, one) {
        if (json_is_integer(json_object_get(one, "pid"))) {
            printf("  launcher    %s, pid %lld\n", text_of(one, "host"), number_of(one, "pid"));
        } else {
            printf("  %-11s %s\n",
                   json_is_true(json_object_get(one, "leads")) ? "leads" : "may lead",
                   text_of(one, "host"));
        }
    }
    if (json_array_size(copies) > 0) {
        print_list("  copies      ", copies, "\n");
    }
    if (json_is_integer(json_object_get(status, "stored"))) {
        printf("  kept apart  %lld\n", number_of(status, "stored"));
    }
    nodes = json_object_get(status, "nodes");
    json_array_foreach(nodes, index, one) { print_node(one); }
}

/* Whether it is as it was, apart from its step and loss. */
static bool same_nodes(const json_t *before, const json_t *now) {
    static const char *const keys[] = {"run", "state", "term", "view", "nodes", "stored"};
    bool same = before != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && same; i++) {
        same = json_equal(json_object_get(before, keys[i]), json_object_get(now, keys[i]));
    }
    return same;
}

static bool at_work(const json_t *status) {
    return json_array_size(json_object_get(status, "agents")) > 0;
}

static enum culm_status look(const struct values *given, const char *what,
                             char scratch[CULM_PATH_MAX], json_t **ret_status,
                             struct culm_error *error) {
    const struct culm_run_place place = {.store = given->cluster, .name = what};
    return given->cluster
               ? culm_run_status_at(&place, given->token_file, scratch, ret_status, error)
               : culm_run_status(what, ret_status, error);
}

/* The run of an edge changes all the time. */
static enum culm_status follow_edge(const struct values *given, const char *dir, int *ret_code,
                                    struct culm_error *error) {
    const struct timespec pause = {.tv_sec = PAUSE_S};
    enum culm_status status;
    bool on;
    do {
        status = culm_cli_edge_status(dir, given->json, ret_code, &on, error);
        fflush(stdout);
        on = on && given->follow && status == CULM_OK;
        if (on) {
            (void)nanosleep(&pause, NULL);
        }
    } while (on);
    return status;
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *given = values;
    const struct timespec pause = {.tv_sec = PAUSE_S};
    json_t *before = NULL, *now = NULL;
    struct culm_error problem;
    enum culm_status status;
    char scratch[CULM_PATH_MAX] = "";
    bool on;
    if (given->token_file && !given->cluster) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--token-file needs --cluster etcd://HOST:PORT");
    }
    if (!given->cluster && culm_edge_status_is_there(arguments->items[0])) {
        return follow_edge(given, arguments->items[0], ret_code, error);
    }
    do {
        status = look(given, arguments->items[0], scratch, &now, &problem);
        if (status != CULM_OK) {
            break;
        }
        if (!before || !json_equal(before, now)) {
            if (given->json) {
                culm_cli_print_json(json_incref(now));
            } else {
                print_text(now, !same_nodes(before, now));
            }
            fflush(stdout);
        }
        json_decref(before);
        before = now;
        on = given->follow && at_work(now);
        if (on) {
            (void)nanosleep(&pause, NULL);
        }
    } while (on);
    json_decref(before);
    if (scratch[0]) {
        (void)unlink(scratch);
    }
    if (status != CULM_OK) {
        fprintf(stderr, "culm status: %s\n", problem.text);
        *ret_code = culm_status_exit_code(status);
    }
    return CULM_OK;
}

int culm_cli_status(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_status, argc, argv, &values, run);
}
