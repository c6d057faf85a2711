/* See lead.h. */
#include "run/lead.h"

#include "base/file.h"
#include "cluster/advertise.h"
#include "net/socket.h"
#include "run/cluster_create.h"
#include "run/cluster_texts.h"
#include "run/doors.h"
#include "run/lead_job.h"
#include "run/leader_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AWAY_MS 3000 /* a store that does not answer for so long is spoken of */

struct place {             /* all borrowed */
    const char *store;     /* its address */
    const char *run;       /* the run's name */
    const char *signature; /* that all its processes have */
    const struct culm_lead_job *job;
    /* "HOST:PORT" as people write it; NULL: where the store is called from, at any port; of all addresses, that one is told */
    const char *listen;
    const char *advertise; /* NULL: that */
    const char *agent;     /* of whom one stands after the other; NULL: nobody does */
    int resign_fd;         /* can be read when this process is to end */
    bool done;             /* set when it finds that the run is done */
    /* One line of something that is as it should not be. */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
};

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

static enum culm_status reserve(const struct place *place, int *ret_fd,
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
    const struct place *place;
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

/* As `stand` of culm_launcher_options, whose stand_ctx is a place. */
static enum culm_status stand(void *ctx, const char *config_text, const char *signature,
                              struct culm_candidate **ret_candidate, int *ret_reserved_fd,
                              struct culm_error *error) {
    static struct speaker speaker; /* one stands in a process */
    struct place *place = ctx;
    struct culm_candidate_options options = {.run = place->run,
                                             .agent = place->agent,
                                             .address = speaker.address,
                                             .away = on_away,
                                             .ctx = &speaker};
    struct culm_candidate *candidate = NULL;
    struct culm_lead_terms terms;
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
    enum culm_status status = place->job->terms(config_text, &terms, error);
    if (status == CULM_OK) {
        options.lease_ms = terms.lease_ms;
        options.most = terms.most;
        options.end_ms = terms.end_ms;
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
        status = culm_candidate_await(candidate, place->resign_fd, &how);
        if (status == CULM_ERR_CLOSED) {
            culm_error_set(error, status, "this process does not stand for leader any more");
        } else if (status == CULM_ERR_STOPPED && how == CULM_DEED_DONE) {
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

/* One in a process. */
static struct {
    int fd[2]; /* a byte in it: this process is to end */
    void (*resign)(void *training);
    void *training;
    pthread_t thread; /* of resign_by, which alone looks at the two */
} resigning;

static void on_resign(int number) {
    const int before = errno;
    if (!pthread_equal(pthread_self(), resigning.thread)) {
        (void)pthread_kill(resigning.thread, number);
        errno = before;
        return;
    }
    if (resigning.resign) {
        resigning.resign(resigning.training);
    }
    (void)!write(resigning.fd[1], "", 1);
    errno = before;
}

static enum culm_status hear_resign(struct culm_error *error) {
    const struct sigaction action = {.sa_handler = on_resign, .sa_flags = SA_RESTART};
    resigning.thread = pthread_self();
    if (pipe2(resigning.fd, O_CLOEXEC | O_NONBLOCK) || sigaction(CULM_LEAD_RESIGN, &action, NULL)) {
        return culm_error_errno(error, errno, "make a pipe");
    }
    return CULM_OK;
}

/* Holds the signal back meanwhile. */
static void resign_by(void (*resign)(void *training), void *training) {
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, CULM_LEAD_RESIGN);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    resigning.resign = resign;
    resigning.training = training;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static enum culm_status write_file(const char *dir, const char *name, const char *text,
                                   struct culm_error *error) {
    char path[CULM_PATH_MAX];
    const enum culm_status status = culm_path_format(path, error, "%s/%s", dir, name);
    return status ? status : culm_file_replace(NULL, path, text, strlen(text), error);
}

/* What the directory of a run that can be resumed has. */
static enum culm_status unpack(const char *dir, const struct culm_cluster_run *run,
                               struct culm_error *error) {
    enum culm_status status = culm_cluster_check_dir(dir, run->run, run->config.text, error);
    status = status ? status : culm_dir_make(NULL, dir, error);
    status = status ? status : write_file(dir, "config.yaml", run->config.text, error);
    return status ? status : write_file(dir, "plan.json", run->plan.text, error);
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
    const struct culm_lead_job *job = &culm_lead_jobs[run->job];
    void *training = NULL;
    struct place place = {.store = o->store,
                          .run = o->run,
                          .signature = run->signature,
                          .job = job,
                          .listen = o->listen,
                          .advertise = advertise,
                          .agent = o->agent,
                          .resign_fd = resigning.fd[0],
                          .warn = o->warn,
                          .ctx = o->ctx};
    struct culm_leader_fault fault;
    if (o->fault && culm_leader_fault_parse(o->fault, &fault, ret_error) != CULM_OK) {
        return culm_status_exit_code(CULM_ERR_CONFIG);
    }
    const struct culm_reigning reigning = {
        .fault = o->fault ? &fault : NULL, .run = run->run, .stand = stand, .place = &place};
    const struct culm_lead_options options = {.dir = o->dir,
                                              .listen = o->listen ? o->listen : ":0",
                                              .advertise = advertise,
                                              .token_file = o->token_file,
                                              .insecure = o->insecure,
                                              .warn = o->warn,
                                              .ctx = o->ctx,
                                              .reigning = &reigning};
    status = culm_config_read(run->config.text, strlen(run->config.text), "the run's configuration",
                              &config, ret_error);
    if (status == CULM_OK) {
        status = job->make(config, &options, &training, ret_error);
    }
    int code = culm_status_exit_code(status);
    if (status == CULM_OK) {
        job->watch(training, o->log, o->screen);
        resign_by(job->resign, training);
        code = job->go(training, ret_error);
        resign_by(NULL, NULL);
    }
    if (place.done) { /* by another one */
        code = 0;
        culm_error_clear(ret_error);
    } else if (ret_error->status == CULM_ERR_CLOSED && code != 0) {
        code = CULM_LEAD_AGAIN;
    }
    job->free(training);
    culm_config_free(config);
    return code;
}

int culm_run_lead(const struct culm_run_lead_options *o, struct culm_error *ret_error) {
    struct culm_keys *keys = NULL;
    struct culm_cluster_run run = {0};
    enum culm_status status = hear_resign(ret_error);
    if (status == CULM_OK) {
        status = culm_cluster_open(o->store, &keys, ret_error);
    }
    if (status == CULM_OK) {
        status = culm_cluster_look(keys, o->run, &run, ret_error);
    }
    culm_keys_close(keys);
    if (status == CULM_OK && run.stopped && !run.done) {
        status = culm_error_set(ret_error, CULM_ERR_STOPPED, "the run was stopped");
    }
    bool gone = false;
    if (status == CULM_OK && !run.done) {
        status = culm_cluster_texts_get(&run, ret_error);
        gone = status == CULM_ERR_FORMAT;
    }
    if (status == CULM_OK && !run.done) {
        status = unpack(o->dir, &run, ret_error);
    }
    const int code = gone       ? 1 /* somebody may put it back, and those who compute go on */
                     : status   ? culm_status_exit_code(status)
                     : run.done ? 0
                                : lead(o, &run, ret_error);
    culm_cluster_run_release(&run);
    return code;
}
