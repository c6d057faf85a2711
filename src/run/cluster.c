/* See cluster.h. */
#include "run/cluster.h"

#include "cloud/etcd.h"
#include "run/cluster_texts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY_MAX (CULM_CANDIDATE_RUN_MAX + 32)
#define TRIES 5 /* of a change whose answer was lost; what it finds the next time tells */
#define PAUSE_NS 200000000
#define LOOKS 3 /* for a run, before a store that does not answer is one that is not there */

const char *const culm_cluster_job_names[CULM_CLUSTER_JOBS] = {
    [CULM_CLUSTER_TRAIN] = "train", [CULM_CLUSTER_GNN] = "gnn"};

enum culm_status culm_cluster_open(const char *place, struct culm_keys **ret_keys,
                                   struct culm_error *error) {
    const struct culm_etcd_options options = {.place = place};
    if (!culm_etcd_is_place(place)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.100s' is no store of keys; name one as "
                              "etcd://HOST:PORT[,HOST:PORT]...[/PREFIX]",
                              place);
    }
    return culm_etcd_open(&options, ret_keys, error);
}

enum culm_status culm_cluster_check_name(const char *name, struct culm_error *error) {
    const size_t len =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return !name[0] || name[0] == '.' || name[len] || len >= CULM_CANDIDATE_RUN_MAX
               ? culm_error_set(error, CULM_ERR_ARGUMENT,
                                "--name '%.60s' is no name of a run: it has letters, digits, '.', "
                                "'_' and '-', at most %d, and does not begin with a '.'",
                                name, CULM_CANDIDATE_RUN_MAX - 1)
               : CULM_OK;
}

void culm_cluster_run_release(struct culm_cluster_run *run) {
    free(run->config.text);
    free(run->plan.text);
    free(run->to);
    free(run->endpoint);
    free(run->region);
    run->config.text = run->plan.text = run->to = run->endpoint = run->region = NULL;
}

static const char *key_of(const char *name, const char *what, char ret_key[KEY_MAX]) {
    snprintf(ret_key, KEY_MAX, "%s/%s", name, what);
    return ret_key;
}

static const struct culm_keys_pair *pair_of(const struct culm_keys_list *list, const char *name,
                                            const char *what) {
    char key[KEY_MAX];
    return culm_keys_find(list, key_of(name, what, key));
}

static enum culm_status list_run(struct culm_keys *keys, const char *name, const char *const *rest,
                                 struct culm_keys_list *ret_list, struct culm_error *error) {
    char prefix[KEY_MAX];
    return keys->ops->list(keys, key_of(name, "", prefix), rest, ret_list, error);
}

/* CULM_CLUSTER_JOBS: of none that there is. */
static enum culm_cluster_job job_of(const json_t *about) {
    const json_t *named = json_object_get(about, "job");
    const char *name = json_string_value(named);
    enum culm_cluster_job job = named ? CULM_CLUSTER_JOBS : CULM_CLUSTER_TRAIN;
    for (int i = 0; name && i < CULM_CLUSTER_JOBS; i++) {
        job = strcmp(name, culm_cluster_job_names[i]) == 0 ? (enum culm_cluster_job)i : job;
    }
    return job;
}

static enum culm_status read_about(const struct culm_keys_pair *about, const char *name,
                                   struct culm_cluster_run *run, struct culm_error *error) {
    json_t *json = json_loadb(about->value, about->len, 0, NULL);
    const char *format = json_string_value(json_object_get(json, "format"));
    const char *id = json_string_value(json_object_get(json, "run"));
    const char *signature = json_string_value(json_object_get(json, "signature"));
    const char *token = json_string_value(json_object_get(json, "token"));
    enum culm_status status = CULM_OK;
    if (!format || !id || strlen(id) >= sizeof run->run || !signature || !token) {
        status =
            culm_error_set(error, CULM_ERR_FORMAT, "what the store has of '%.60s' is no run", name);
    } else if (strcmp(format, CULM_CLUSTER_FORMAT) != 0) {
        status = culm_error_set(error, CULM_ERR_FORMAT,
                                "'%.60s' is of another version of Culm ('%.40s')", name, format);
    } else if ((run->job = job_of(json)) == CULM_CLUSTER_JOBS) {
        status = culm_error_set(error, CULM_ERR_FORMAT,
                                "'%.60s' is of a job that this version of Culm does not know; "
                                "install the version that created it",
                                name);
    } else {
        memcpy(run->run, id, strlen(id) + 1);
        snprintf(run->signature, sizeof run->signature, "%s", signature);
        snprintf(run->token, sizeof run->token, "%s", token);
        status = culm_cluster_texts_read(json, run, error);
    }
    json_decref(json);
    return status;
}

/* Nobody waits here for a store that does not answer. */
static enum culm_status not_there(enum culm_status status, struct culm_error *error) {
    if (status == CULM_ERR_AGAIN) {
        status = error->status = CULM_ERR_IO;
    }
    return status;
}

/* CULM_ERR_NOT_FOUND: it is neither there nor apart. */
static enum culm_status take_text(const struct culm_keys_list *list, const char *name,
                                  const char *what, struct culm_cluster_text *ret_text,
                                  struct culm_error *error) {
    const struct culm_keys_pair *pair = pair_of(list, name, what);
    if (ret_text->sha256[0]) {
        return CULM_OK;
    }
    if (!pair) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND, "there is no run '%.60s'", name);
    }
    ret_text->text = strdup(pair->value);
    return ret_text->text ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

enum culm_status culm_cluster_look(struct culm_keys *keys, const char *name,
                                   struct culm_cluster_run *ret_run, struct culm_error *error) {
    static const char *const rest[] = {"config", "done", "plan", "run", "stop", NULL};
    struct culm_keys_list list = {0};
    struct culm_cluster_run run = {0};
    enum culm_status status = CULM_ERR_AGAIN;
    for (int i = 0; i < LOOKS && status == CULM_ERR_AGAIN; i++) { /* its machine may be busy */
        status = list_run(keys, name, rest, &list, error);
    }
    if (status != CULM_OK) {
        return not_there(status, error);
    }
    const struct culm_keys_pair *about = pair_of(&list, name, "run");
    if (!about) {
        status = culm_error_set(error, CULM_ERR_NOT_FOUND, "there is no run '%.60s'", name);
    } else if (!(status = read_about(about, name, &run, error)) &&
               !(status = take_text(&list, name, "config", &run.config, error)) &&
               !(status = take_text(&list, name, "plan", &run.plan, error))) {
        run.done = pair_of(&list, name, "done") != NULL;
        run.stopped = pair_of(&list, name, "stop") != NULL;
    }
    culm_keys_list_release(&list);
    if (status != CULM_OK) {
        culm_cluster_run_release(&run);
        return status;
    }
    *ret_run = run;
    return CULM_OK;
}

/* Until it has happened, or cannot: *ret_happened. */
static enum culm_status transact(struct culm_keys *keys, const struct culm_keys_transaction *what,
                                 bool *ret_happened, struct culm_error *error) {
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    enum culm_status status = CULM_ERR_AGAIN;
    int64_t revision;
    for (int i = 0; i < TRIES && status == CULM_ERR_AGAIN; i++) {
        if (i > 0) {
            (void)nanosleep(&pause, NULL);
        }
        status = keys->ops->transact(keys, what, ret_happened, &revision, error);
    }
    return not_there(status, error);
}

enum culm_status culm_cluster_proof(const char *token, struct culm_cluster_run *run,
                                    struct culm_error *error) {
    char text[CULM_TOKEN_SIZE + CULM_RUN_ID_SIZE + 16];
    snprintf(text, sizeof text, "culm run %s %s", run->run, token);
    const enum culm_status status = culm_sha256_of(text, strlen(text), run->token);
    return status ? culm_error_set(error, status, "out of memory") : CULM_OK;
}

enum culm_status culm_cluster_check_token(const struct culm_cluster_run *run, const char *token,
                                          const char *file, struct culm_error *error) {
    struct culm_cluster_run own = *run;
    const enum culm_status status = culm_cluster_proof(token, &own, error);
    return status == CULM_OK && strcmp(own.token, run->token) != 0
               ? culm_error_set(error, CULM_ERR_CLOSED,
                                "refused: the token in '%.200s' is not that of the run", file)
               : status;
}

enum culm_status culm_cluster_create(struct culm_keys *keys, const char *name,
                                     const struct culm_cluster_run *run, struct culm_error *error) {
    char key[3][KEY_MAX];
    json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:s}", "format", CULM_CLUSTER_FORMAT, "job",
                             culm_cluster_job_names[run->job], "run", run->run, "signature",
                             run->signature, "token", run->token);
    char *about =
        json && culm_cluster_texts_write(run, json) ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (!about) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    const struct culm_keys_condition fresh = {.key = key_of(name, "run", key[0])};
    struct culm_keys_change change[3] = {{key[0], about, strlen(about), 0}};
    struct culm_keys_transaction what = {&fresh, 1, change, 1};
    const struct culm_cluster_text *const text[] = {&run->config, &run->plan};
    for (int i = 0; i < 2; i++) {
        if (!text[i]->sha256[0]) {
            change[what.change_count++] =
                (struct culm_keys_change){key_of(name, i ? "plan" : "config", key[1 + i]),
                                          text[i]->text, strlen(text[i]->text), 0};
        }
    }
    bool happened = false;
    enum culm_status status = transact(keys, &what, &happened, error);
    free(about);
    if (status != CULM_OK || happened) {
        return status;
    }
    struct culm_cluster_run there = {0}; /* it may be this one, whose answer was lost */
    status = culm_cluster_look(keys, name, &there, error);
    const bool own = status == CULM_OK && strcmp(there.run, run->run) == 0;
    culm_cluster_run_release(&there);
    return status || own ? status
                         : culm_error_set(error, CULM_ERR_EXISTS, "there is a run '%.60s'", name);
}

enum culm_status culm_cluster_go_on(struct culm_keys *keys, const char *name,
                                    struct culm_error *error) {
    char key[3][KEY_MAX];
    const struct culm_keys_condition open = {.key = key_of(name, "done", key[0])};
    const struct culm_keys_change change[] = {{.key = key_of(name, "stop", key[1])},
                                              {.key = key_of(name, "ask", key[2])}};
    const struct culm_keys_transaction what = {&open, 1, change, 2};
    bool happened;
    return transact(keys, &what, &happened, error);
}

enum culm_status culm_cluster_ask_stop(struct culm_keys *keys, const char *name,
                                       struct culm_error *error) {
    char key[KEY_MAX];
    const struct culm_keys_change change = {key_of(name, "ask", key), "stop", strlen("stop"), 0};
    const struct culm_keys_transaction what = {NULL, 0, &change, 1};
    bool happened;
    return transact(keys, &what, &happened, error);
}

enum culm_status culm_cluster_leader(struct culm_keys *keys, const char *name,
                                     char ret_address[CULM_ADDRESS_SIZE], bool *ret_done,
                                     bool *ret_stopped, struct culm_error *error) {
    static const char *const rest[] = {"done", "leader", "stop", NULL};
    struct culm_keys_list list = {0};
    const enum culm_status status = list_run(keys, name, rest, &list, error);
    ret_address[0] = '\0';
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_keys_pair *leader = pair_of(&list, name, "leader");
    json_t *json = leader ? json_loadb(leader->value, leader->len, 0, NULL) : NULL;
    const char *address = json_string_value(json_object_get(json, "address"));
    snprintf(ret_address, CULM_ADDRESS_SIZE, "%s", address ? address : "");
    *ret_done = pair_of(&list, name, "done") != NULL;
    *ret_stopped = pair_of(&list, name, "stop") != NULL;
    json_decref(json);
    culm_keys_list_release(&list);
    return CULM_OK;
}
