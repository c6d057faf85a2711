/* Runs at a store of keys: what they are at, and stopping them. See status.h. */
#include "run/status_internal.h"

#include "base/json.h"
#include "interval/role.h"
#include "launch/depot.h"
#include "launch/token.h"
#include "report/sink.h"
#include "run/cluster.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 200

/* --- keys --- */

static const char *name_in(const char *key, const char *prefix) {
    const size_t len = strlen(prefix);
    return strncmp(key, prefix, len) == 0 ? key + len : NULL;
}

static json_t *json_of(const struct culm_keys_pair *pair) {
    return pair ? json_loadb(pair->value, pair->len, 0, NULL) : NULL;
}

static const struct culm_keys_pair *pair_of(const struct culm_keys_list *list, const char *run,
                                            const char *what) {
    char key[CULM_KEYS_KEY_MAX];
    snprintf(key, sizeof key, "%s/%s", run, what);
    return culm_keys_find(list, key);
}

static enum culm_status list_all(const char *store, const char *prefix, struct culm_keys_list *list,
                                 struct culm_error *error) {
    struct culm_keys *keys = NULL;
    enum culm_status status = culm_cluster_open(store, &keys, error);
    if (status == CULM_OK) {
        status = keys->ops->list(keys, prefix, NULL, list, error);
    }
    culm_keys_close(keys);
    if (status == CULM_ERR_AGAIN) {
        status = error->status = CULM_ERR_IO;
    }
    return status;
}

/* --- one run --- */

/* Of who takes part, as a join tells it; where it has lost itself nobody knows. */
static json_t *nodes_of(const struct culm_keys_list *list, const char *run, bool graph) {
    char prefix[CULM_KEYS_KEY_MAX];
    json_t *nodes = json_object();
    snprintf(prefix, sizeof prefix, "%s/node/", run);
    for (size_t i = 0; i < list->count; i++) {
        const char *id = name_in(list->pair[i].key, prefix);
        json_t *node = id ? json_of(&list->pair[i]) : NULL;
        if (json_is_object(node)) {
            const char *role = /* which is a number there */
                graph ? culm_gnn_role_name(
                            (uint32_t)json_integer_value(json_object_get(node, "role")))
                      : "worker";
            json_object_set_new(node, "role", json_string(role ? role : "?"));
            json_object_set_new(node, "pid", json_null());
            json_object_set(nodes, id, node);
        }
        json_decref(node);
    }
    return nodes;
}

static json_t *agents_of(const struct culm_keys_list *list, const char *run, const char *leader) {
    char prefix[CULM_KEYS_KEY_MAX];
    json_t *agents = json_array();
    snprintf(prefix, sizeof prefix, "%s/stand/", run);
    for (size_t i = 0; i < list->count; i++) {
        const char *id = name_in(list->pair[i].key, prefix);
        if (id) {
            const bool leads = strcmp(list->pair[i].value, leader) == 0;
            json_array_append_new(agents, json_pack("{s:o, s:n, s:n, s:b, s:b}", "host",
                                                    culm_json_text(list->pair[i].value), "pid",
                                                    "zone", "leads", leads, "stands", true));
        }
    }
    return agents;
}

static bool is_graph(const json_t *about) {
    const char *job = json_string_value(json_object_get(about, "job"));
    return job && strcmp(job, culm_cluster_job_names[CULM_CLUSTER_GNN]) == 0;
}

static int64_t steps_of(const struct culm_keys_list *list, const char *run, bool graph) {
    const struct culm_keys_pair *text = pair_of(list, run, "config");
    return text ? status_steps(text->value, text->len, graph) : 0;
}

/* What whoever leads has told since it does. */
static enum culm_status ask_leader(const char *address, const char *token_file, char *scratch,
                                   struct status_told *told, struct culm_error *error) {
    char token[CULM_TOKEN_SIZE];
    size_t bad = 0;
    enum culm_status status = culm_token_read(token_file, token, error);
    if (status == CULM_OK && !scratch[0]) {
        const char *base = getenv("TMPDIR");
        status = culm_path_format(scratch, error, "%s/culm-status-XXXXXX",
                                  base && base[0] ? base : "/tmp");
        const int fd = status == CULM_OK ? mkostemp(scratch, O_CLOEXEC) : -1;
        if (status == CULM_OK && fd < 0) {
            status = culm_error_set(error, CULM_ERR_IO, "make a file for events in '%.200s'",
                                    base && base[0] ? base : "/tmp");
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    if (status == CULM_OK) {
        status = culm_depot_far_events(address, token, scratch, error);
    }
    return status == CULM_OK ? culm_events_skim(scratch, status_hear, told, &bad, error) : status;
}

static json_t *text_or_null(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? json_string(text) : json_null();
}

/* Besides what events tell. */
static void put_right(json_t *status, const struct culm_keys_list *list, const char *run,
                      const json_t *about, const json_t *leader, bool known) {
    const struct culm_keys_pair *term = pair_of(list, run, "term");
    json_t *saved = json_of(pair_of(list, run, "saved"));
    const char *address = json_string_value(json_object_get(leader, "address"));
    json_object_set_new(status, "run", text_or_null(about, "run"));
    json_object_set_new(status, "term", json_integer(term ? atoll(term->value) : 0));
    json_object_set_new(status, "store", json_string("ok"));
    json_object_set_new(status, "stored",
                        saved ? json_integer(json_integer_value(json_object_get(saved, "step")))
                              : json_null());
    json_object_set_new(status, "agents", agents_of(list, run, address ? address : ""));
    if (!known) {
        json_object_set_new(status, "step",
                            saved ? json_incref(json_object_get(saved, "step")) : json_null());
    }
    if (pair_of(list, run, "done")) {
        json_object_set_new(status, "state", json_string("done"));
    } else if (pair_of(list, run, "stop")) {
        json_object_set_new(status, "state", json_string("stopped"));
    } else if (!leader) {
        json_object_set_new(status, "state", json_string("waiting"));
    } else if (pair_of(list, run, "ask")) {
        json_object_set_new(status, "state", json_string("stopping"));
    } else if (!known) {
        json_object_set_new(status, "state", json_string("running"));
    }
    json_decref(saved);
}

enum culm_status culm_run_status_at(const struct culm_run_place *place, const char *token_file,
                                    char scratch[CULM_PATH_MAX], json_t **ret_status,
                                    struct culm_error *error) {
    char prefix[CULM_KEYS_KEY_MAX];
    struct culm_keys_list list = {0};
    struct status_told told = {.nodes = json_object(), .stored = -1};
    snprintf(prefix, sizeof prefix, "%s/", place->name);
    enum culm_status status = list_all(place->store, prefix, &list, error);
    json_t *about = json_of(pair_of(&list, place->name, "run"));
    json_t *leader = json_of(pair_of(&list, place->name, "leader"));
    const char *address = json_string_value(json_object_get(leader, "address"));
    if (status == CULM_OK && !about) {
        status = culm_error_set(error, CULM_ERR_NOT_FOUND, "'%.150s' has no run '%.60s'",
                                place->store, place->name);
    }
    const bool graph = is_graph(about);
    told.unit = graph ? "epoch" : "step";
    const bool asks = status == CULM_OK && token_file && address;
    if (asks) {
        status = ask_leader(address, token_file, scratch, &told, error);
    }
    if (status == CULM_OK) {
        json_decref(told.nodes);
        told.nodes = nodes_of(&list, place->name, graph);
        json_t *made = status_make(&told, graph ? "gnn" : "train", leader != NULL,
                                   steps_of(&list, place->name, graph));
        if (made) {
            put_right(made, &list, place->name, about, leader, asks);
        }
        *ret_status = made;
        status = made ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    json_decref(about);
    json_decref(leader);
    status_release(&told);
    culm_keys_list_release(&list);
    return status;
}

/* --- all of them --- */

static json_t *listed(const struct culm_keys_list *list, const char *run,
                      const struct culm_keys_pair *about) {
    json_t *json = json_of(about), *leader = json_of(pair_of(list, run, "leader"));
    const struct culm_keys_pair *term = pair_of(list, run, "term");
    const char *state = pair_of(list, run, "done")   ? "done"
                        : pair_of(list, run, "stop") ? "stopped"
                        : leader                     ? "running"
                                                     : "waiting";
    const char *job = json_string_value(json_object_get(json, "job"));
    json_t *nodes = nodes_of(list, run, is_graph(json));
    json_t *one = json_pack(
        "{s:s, s:o, s:o, s:s, s:I, s:o, s:I}", "name", run, "run", text_or_null(json, "run"), "job",
        json_string(job ? job : culm_cluster_job_names[CULM_CLUSTER_TRAIN]), "state", state, "term",
        (json_int_t)(term ? atoll(term->value) : 0), "leader", text_or_null(leader, "address"),
        "nodes", (json_int_t)json_object_size(nodes));
    json_decref(nodes);
    json_decref(json);
    json_decref(leader);
    return one;
}

enum culm_status culm_run_list(const char *store, json_t **ret_runs, struct culm_error *error) {
    struct culm_keys_list list = {0};
    const enum culm_status status = list_all(store, "", &list, error);
    json_t *runs = json_array();
    for (size_t i = 0; i < list.count && status == CULM_OK; i++) {
        char name[CULM_CANDIDATE_RUN_MAX];
        const char *slash = strchr(list.pair[i].key, '/');
        if (slash && strcmp(slash, "/run") == 0 &&
            (size_t)(slash - list.pair[i].key) < sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)(slash - list.pair[i].key), list.pair[i].key);
            json_array_append_new(runs, listed(&list, name, &list.pair[i]));
        }
    }
    culm_keys_list_release(&list);
    if (status != CULM_OK) {
        json_decref(runs);
        return status;
    }
    *ret_runs = runs;
    return CULM_OK;
}

/* --- stopping --- */

/* Whether somebody leads it, or may, and what has become of it. */
static enum culm_status look(struct culm_keys *keys, const char *run, bool *ret_there,
                             bool *ret_done, bool *ret_stopped, struct culm_error *error) {
    static const char *const rest[] = {"done", "leader", "stand/", "stop", NULL};
    char prefix[CULM_KEYS_KEY_MAX];
    struct culm_keys_list list = {0};
    snprintf(prefix, sizeof prefix, "%s/", run);
    const enum culm_status status = keys->ops->list(keys, prefix, rest, &list, error);
    json_t *agents = agents_of(&list, run, "");
    *ret_there = json_array_size(agents) > 0 || pair_of(&list, run, "leader");
    *ret_done = pair_of(&list, run, "done") != NULL;
    *ret_stopped = pair_of(&list, run, "stop") != NULL;
    json_decref(agents);
    culm_keys_list_release(&list);
    return status;
}

static enum culm_status stop(struct culm_keys *keys, const char *run, bool *ret_done,
                             struct culm_error *error) {
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    bool there = false, stopped = false, asked = false;
    for (;;) {
        const enum culm_status status = look(keys, run, &there, ret_done, &stopped, error);
        if (status != CULM_OK && status != CULM_ERR_AGAIN) {
            return status;
        }
        if (status == CULM_OK && asked && (*ret_done || stopped)) {
            return CULM_OK;
        }
        if (status == CULM_OK && (!there || *ret_done || stopped)) {
            return culm_error_set(error, CULM_ERR_NOT_FOUND, "nobody is at work for '%.60s'%s", run,
                                  *ret_done ? ", which is done"
                                  : stopped ? ", which was stopped"
                                            : "");
        }
        if (!asked) {
            const enum culm_status said = culm_cluster_ask_stop(keys, run, error);
            if (said != CULM_OK) {
                return said;
            }
            asked = true;
        }
        (void)nanosleep(&pause, NULL);
    }
}

enum culm_status culm_run_stop_at(const struct culm_run_place *place, bool *ret_done,
                                  struct culm_error *error) {
    struct culm_keys *keys = NULL;
    struct culm_cluster_run run = {0};
    enum culm_status status = culm_cluster_open(place->store, &keys, error);
    if (status == CULM_OK) {
        status = culm_cluster_look(keys, place->name, &run, error);
        culm_cluster_run_release(&run);
    }
    if (status == CULM_OK) {
        status = stop(keys, place->name, ret_done, error);
    }
    culm_keys_close(keys);
    return status;
}
