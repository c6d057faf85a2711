/* See cluster_create.h. */
#include "run/cluster_create.h"

#include "base/file.h"
#include "launch/rundir.h"
#include "launch/uploads.h"
#include "run/archive.h"
#include "run/cluster_texts.h"
#include "run/doors.h"
#include "store/archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum culm_status culm_cluster_check_place(const struct culm_checkpoint_config *checkpoint,
                                          struct culm_error *error) {
    return checkpoint->to ? CULM_OK
                          : culm_error_set(error, CULM_ERR_CONFIG,
                                           "--cluster needs checkpoint.to: a folder that all "
                                           "machines share, or s3://BUCKET/PREFIX");
}

/* Of a process that has not led yet there are no events. */
static bool has_config(const char *dir, const char *config_text) {
    char path[CULM_PATH_MAX], *text = NULL;
    size_t len = 0;
    const bool same =
        culm_path_format(path, NULL, "%s/config.yaml", dir) == CULM_OK &&
        culm_file_read(NULL, path, CULM_ARCHIVE_TEXT_MAX, &text, &len, NULL) == CULM_OK &&
        strcmp(text, config_text) == 0;
    free(text);
    return same;
}

enum culm_status culm_cluster_check_dir(const char *dir, const char *run, const char *config_text,
                                        struct culm_error *error) {
    char there[CULM_ARCHIVE_RUN_SIZE];
    if (culm_rundir_check(dir, false, NULL) == CULM_OK) {
        return CULM_OK;
    }
    culm_uploads_run_of(dir, there);
    return strcmp(there, run) == 0 || (!there[0] && has_config(dir, config_text))
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_EXISTS,
                                "'%.300s' has another run; choose another --out", dir);
}

static enum culm_status create(const struct culm_cluster_request *r, struct culm_keys *keys,
                               const char *token, struct culm_error *error) {
    char *config_text = strdup(r->config_text);
    struct culm_cluster_run run = {.job = r->job, .config.text = config_text};
    enum culm_status status =
        config_text ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    snprintf(run.run, sizeof run.run, "%s", r->start->run);
    if (status == CULM_OK) {
        status = culm_archive_begin(r->checkpoint, r->start, error);
    }
    if (status == CULM_OK) {
        status = r->plan(r->ctx, &run.plan.text, run.signature, error);
    }
    if (status == CULM_OK) {
        status = culm_cluster_proof(token, &run, error);
    }
    if (status == CULM_OK) {
        status = culm_cluster_texts_put(r->start->storage, r->checkpoint, &run, error);
    }
    if (status == CULM_OK) {
        status = culm_cluster_create(keys, r->name, &run, error);
    }
    culm_cluster_run_release(&run);
    return status;
}

/* It is there already. */
static enum culm_status go_on(const struct culm_cluster_request *r, struct culm_keys *keys,
                              const struct culm_cluster_run *there, struct culm_error *error) {
    if (there->job != r->job || strcmp(there->config.text, r->config_text) != 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "there is a run '%.60s' of another configuration; give this one "
                              "another --name",
                              r->name);
    }
    if (there->stopped && !there->done) {
        return r->resume ? culm_cluster_go_on(keys, r->name, error)
                         : culm_error_set(error, CULM_ERR_STOPPED,
                                          "the run '%.60s' was stopped; --resume goes on with it",
                                          r->name);
    }
    return CULM_OK;
}

static enum culm_status find(const struct culm_cluster_request *r, struct culm_keys *keys,
                             const char *token, struct culm_cluster_run *there,
                             struct culm_error *error) {
    enum culm_status status = culm_cluster_check_token(there, token, r->token_file, error);
    if (status == CULM_OK) {
        status = culm_cluster_texts_get(there, error);
    }
    if (status == CULM_OK) {
        status = culm_cluster_check_dir(r->dir, there->run, there->config.text, error);
    }
    return status == CULM_OK ? go_on(r, keys, there, error) : status;
}

enum culm_status culm_cluster_request(const struct culm_cluster_request *r,
                                      struct culm_error *error) {
    char token[CULM_TOKEN_SIZE];
    struct culm_keys *keys = NULL;
    struct culm_cluster_run there = {0};
    struct culm_error why = {0};
    enum culm_status status = culm_doors_token(r->token_file, token, error);
    if (status == CULM_OK) {
        status = culm_cluster_open(r->store, &keys, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    status = culm_cluster_look(keys, r->name, &there, &why);
    if (status == CULM_OK) {
        status = find(r, keys, token, &there, error);
    } else if (status == CULM_ERR_NOT_FOUND && r->resume) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.150s' has no run '%.60s' to resume; leave out --resume to "
                                "create it",
                                r->store, r->name);
    } else if (status == CULM_ERR_NOT_FOUND) {
        status = culm_cluster_check_dir(r->dir, r->start->run, "", error);
        status = status == CULM_OK ? create(r, keys, token, error) : status;
    } else {
        *error = why;
    }
    culm_cluster_run_release(&there);
    culm_keys_close(keys);
    return status;
}
