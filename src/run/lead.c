/* See lead.h. */
#include "run/lead.h"

#include "base/file.h"
#include "cluster/advertise.h"
#include "launch/rundir.h"
#include "launch/uploads.h"
#include "net/socket.h"
#include "run/cluster.h"
#include "run/doors.h"
#include "run/launches.h"
#include "run/leader_fault.h"
#include "train/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AWAY_MS 3000 /* a store that does not answer for so long is spoken of */

/* --- standing --- */

/* Where this machine is called by those who call the store too: the address from which it calls that one. */
static enum culm_status near_the_store(const char *store, char ret_listen[CULM_ADDRESS_SIZE],
                                       struct culm_error *error) {
    const char *at = strstr(store, "://");
    char first[CULM_ADDRESS_SIZE], host[CULM_ADDRESS_HOST_SIZE];
    at = at ? at + 3 : store;
    snprintf(first, sizeof first, "tcp:%.*s", (int)strcspn(at, ",/"), at);
    enum culm_status status = culm_socket_toward(first, host, error);
    if (status == CULM_OK) {
        snprintf(ret_listen, CULM_ADDRESS_SIZE, strchr(host, ':') ? "tcp:[%s]:0" : "tcp:%s:0",
                 host);
    }
    return status;
}

static enum culm_status reserve(const struct culm_lead_place *place, int *ret_fd,
                                char ret_address[CULM_ADDRESS_SIZE], struct culm_error *error) {
    char listen[CULM_ADDRESS_SIZE], listening[CULM_ADDRESS_SIZE], advertise[CULM_ADDRESS_SIZE];
    struct culm_address address, number;
    size_t count;
    enum culm_status status =
        place->listen ? culm_doors_address("--listen", place->listen, listen, &address, error)
                      : near_the_store(place->store, listen, error);
    if (status == CULM_OK && place->advertise) {
        status = culm_doors_advertise(place->advertise, advertise, error);
    }
    if (status || (status = culm_address_parse(listen, &address, error)) ||
        (status = culm_address_resolve(&address, &number, 1, &count, error))) {
        return status;
    }
    culm_address_print(&number, listen);
    status = culm_socket_reserve(listen, ret_fd, listening, error);
    if (status == CULM_OK) {
        status = culm_advertise(place->advertise ? advertise : NULL, listening, ret_address, error);
        if (status != CULM_OK) {
            close(*ret_fd);
        }
    }
    return status;
}

struct speaker {
    const struct culm_lead_place *place;
    char address[CULM_ADDRESS_SIZE];
    bool away;
};

/* From the candidate's thread. */
static void on_away(void *ctx, int64_t ms, const char *why) {
    struct speaker *s = ctx;
    char text[CULM_ERROR_MAX + 200];
    if (ms == 0 && s->away) {
        s->away = false;
        s->place->warn(s->place->ctx, "the store of keys answers again");
    } else if (ms > AWAY_MS && !s->away) {
        s->away = true;
        snprintf(text, sizeof text,
                 "the store of keys has not answered for %lld s (%s); training goes on, and nobody "
                 "comes in meanwhile",
                 (long long)(ms / 1000), why);
        s->place->warn(s->place->ctx, text);
    }
}

static enum culm_status read_config(const char *config_text, struct culm_candidate_options *options,
                                    struct culm_error *error) {
    struct culm_train_config config;
    const enum culm_status status = culm_train_config_parse(
        config_text, strlen(config_text), "the run's configuration", NULL, 0, &config, error);
    if (status == CULM_OK) {
        options->lease_ms = config.cluster.lease_ms;
        options->most = config.cluster.candidates;
        options->end_ms = config.cluster.store_ms + culm_crew_config_orphan_ms(&config.cluster);
        culm_train_config_release(&config);
    }
    return status;
}

enum culm_status culm_lead_place_stand(void *ctx, const char *config_text, const char *signature,
                                       struct culm_candidate **ret_candidate, int *ret_reserved_fd,
                                       struct culm_error *error) {
    static struct speaker speaker; /* one stands in a process */
    struct culm_lead_place *place = ctx;
    struct culm_candidate_options options = {
        .run = place->run, .address = speaker.address, .away = on_away, .ctx = &speaker};
    struct culm_candidate *candidate = NULL;
    enum culm_deed how;
    int fd = -1;
    speaker = (struct speaker){.place = place};
    if (strcmp(signature, place->signature) != 0) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "this machine has the signature '%.120s', and the run '%.120s'; start "
            "nodes of the same build",
            signature, place->signature);
    }
    enum culm_status status = read_config(config_text, &options, error);
    if (status == CULM_OK) {
        status = reserve(place, &fd, speaker.address, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    status = culm_cluster_open(place->store, &options.keys, error);
    if (status == CULM_OK) {
        status = culm_cluster_open(place->store, &options.more_keys, error);
        if (status != CULM_OK) {
            culm_keys_close(options.keys);
        }
    }
    if (status == CULM_OK) {
        status = culm_candidate_new(&options, &candidate, error);
    }
    if (status == CULM_OK) {
        status = culm_candidate_await(candidate, 0, &how);
        if (status == CULM_ERR_STOPPED && how == CULM_DEED_DONE) {
            place->done = true;
            culm_error_set(error, status, "the run is done");
        } else if (status != CULM_OK) {
            culm_error_set(error, status, "%s",
                           status == CULM_ERR_STOPPED ? "the run was stopped" : "out of memory");
        }
    }
    if (status != CULM_OK) {
        culm_candidate_free(candidate);
        close(fd);
        return status;
    }
    *ret_candidate = candidate;
    *ret_reserved_fd = fd;
    return CULM_OK;
}

/* --- a whole process --- */

static enum culm_status write_file(const char *dir, const char *name, const char *text,
                                   struct culm_error *error) {
    char path[CULM_PATH_MAX];
    const enum culm_status status = culm_path_format(path, error, "%s/%s", dir, name);
    return status ? status : culm_file_replace(NULL, path, text, strlen(text), error);
}

/* Of a process that has not led yet there are no events. */
static bool has_config(const char *dir, const char *config_text) {
    char path[CULM_PATH_MAX], *text = NULL;
    size_t len = 0;
    const bool same =
        culm_path_format(path, NULL, "%s/config.yaml", dir) == CULM_OK &&
        culm_file_read(NULL, path, CULM_KEYS_VALUE_MAX, &text, &len, NULL) == CULM_OK &&
        strcmp(text, config_text) == 0;
    free(text);
    return same;
}

enum culm_status culm_lead_check_dir(const char *dir, const char *run, const char *config_text,
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

/* What the directory of a run that can be resumed has. */
static enum culm_status unpack(const char *dir, const struct culm_cluster_run *run,
                               struct culm_error *error) {
    enum culm_status status = culm_lead_check_dir(dir, run->run, run->config, error);
    status = status ? status : culm_dir_make(NULL, dir, error);
    status = status ? status : write_file(dir, "config.yaml", run->config, error);
    return status ? status : write_file(dir, "plan.json", run->plan, error);
}

/* One that listens at all addresses is called by the one from which it calls the store, unless another one is named. */
static enum culm_status told_address(const struct culm_run_lead_options *o,
                                     char ret_near[CULM_ADDRESS_SIZE], const char **ret_advertise,
                                     struct culm_error *error) {
    char listen[CULM_ADDRESS_SIZE];
    struct culm_address address;
    enum culm_status status = CULM_OK;
    *ret_advertise = o->advertise;
    if (o->listen && !o->advertise) {
        status = culm_doors_address("--listen", o->listen, listen, &address, error);
        if (status == CULM_OK && culm_address_is_any(&address)) {
            *ret_advertise = ret_near;
            status = near_the_store(o->store, ret_near, error);
        }
    }
    return status;
}

static int lead(const struct culm_run_lead_options *o, const struct culm_cluster_run *run,
                struct culm_error *ret_error) {
    char near[CULM_ADDRESS_SIZE];
    const char *advertise;
    enum culm_status status = told_address(o, near, &advertise, ret_error);
    if (status != CULM_OK) {
        return culm_status_exit_code(status);
    }
    struct culm_config *config = NULL;
    struct culm_training *training = NULL;
    struct culm_lead_place place = {.store = o->store,
                                    .run = o->run,
                                    .signature = run->signature,
                                    .listen = o->listen,
                                    .advertise = advertise,
                                    .warn = o->warn,
                                    .ctx = o->ctx};
    struct culm_leader_fault fault;
    if (o->fault && culm_leader_fault_parse(o->fault, &fault, ret_error) != CULM_OK) {
        return culm_status_exit_code(CULM_ERR_CONFIG);
    }
    const struct culm_reigning reigning = {.fault = o->fault ? &fault : NULL,
                                           .run = run->run,
                                           .stand = culm_lead_place_stand,
                                           .place = &place};
    const struct culm_training_options options = {.size = sizeof options,
                                                  .dir = o->dir,
                                                  .resume = true,
                                                  .program = "/proc/self/exe",
                                                  .warning = o->warn,
                                                  .context = o->ctx,
                                                  .listen = o->listen ? o->listen : ":0",
                                                  .advertise = advertise,
                                                  .token_file = o->token_file,
                                                  .insecure = o->insecure,
                                                  .limit_workers = 1};
    const struct culm_launch_extras extras = {.reigning = &reigning};
    status = culm_config_read(run->config, strlen(run->config), "the run's configuration", &config,
                              ret_error);
    if (status == CULM_OK) {
        status = culm_training_make(config, &options, &extras, &training, ret_error);
    }
    int code = culm_status_exit_code(status);
    if (status == CULM_OK) {
        culm_training_watch(training, o->log, o->screen);
        code = culm_training_go(training, ret_error);
    }
    if (place.done) { /* by another one */
        code = 0;
        culm_error_clear(ret_error);
    } else if (ret_error->status == CULM_ERR_CLOSED && code != 0) {
        code = CULM_LEAD_AGAIN;
    }
    culm_training_free(training);
    culm_config_free(config);
    return code;
}

int culm_run_lead(const struct culm_run_lead_options *o, struct culm_error *ret_error) {
    struct culm_keys *keys = NULL;
    struct culm_cluster_run run = {0};
    enum culm_status status = culm_cluster_open(o->store, &keys, ret_error);
    if (status == CULM_OK) {
        status = culm_cluster_look(keys, o->run, &run, ret_error);
    }
    culm_keys_close(keys);
    if (status == CULM_OK && run.stopped && !run.done) {
        status = culm_error_set(ret_error, CULM_ERR_STOPPED, "the run was stopped");
    }
    if (status == CULM_OK && !run.done) {
        status = unpack(o->dir, &run, ret_error);
    }
    const int code = status     ? culm_status_exit_code(status)
                     : run.done ? 0
                                : lead(o, &run, ret_error);
    culm_cluster_run_release(&run);
    return code;
}
