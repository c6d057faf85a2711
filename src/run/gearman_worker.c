/* A worker that takes one job after the other from a job server. See gearman_worker.h. */
#include "run/gearman_worker.h"

#include "cloud/gearman_library.h"
#include "net/address.h"
#include "run/gnn_node.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_MS 500 /* between two attempts to reach a lost job server */

struct worker {
    const struct culm_gearman *gearman;
    struct culm_gearman_server server;
    gearman_worker_st *connection; /* NULL: none */
};

/* The content of a job; strings are borrowed from its JSON. */
struct job {
    const char *role, *address, *token, *name;
};

static enum culm_status read_job(const void *data, size_t len, json_t **ret_json,
                                 struct job *ret_job, struct culm_error *error) {
    int format = 0;
    *ret_job = (struct job){0};
    *ret_json = json_loadb(data, len, 0, NULL);
    if (!*ret_json ||
        json_unpack(*ret_json, "{s:i, s:s, s:s, s:s, s:s}", "culm", &format, "role", &ret_job->role,
                    "address", &ret_job->address, "token", &ret_job->token, "name",
                    &ret_job->name) ||
        format != CULM_GEARMAN_FORMAT || strcmp(ret_job->role, "worker") != 0 ||
        strlen(ret_job->token) >= CULM_TOKEN_SIZE ||
        strlen(ret_job->address) >= CULM_ADDRESS_SIZE || strlen(ret_job->name) > 100) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "a job is not from this version of 'culm gnn train'");
    }
    return CULM_OK;
}

/* Does a job. False: the job is such that no worker could do it. *ret_why: why the worker did not
 * work to the end. */
static bool do_job(const void *data, size_t len, struct culm_error *ret_why) {
    struct job job;
    json_t *json;
    bool can = read_job(data, len, &json, &job, ret_why) == CULM_OK;
    if (can) {
        const struct culm_participant_call call = {
            .address = job.address,
            .token = job.token,
            .role = CULM_GNN_WORKER,
            .plain = true, /* as the run has it, whose job this is */
            .name = job.name};
        (void)culm_run_gnn_newcomer(&call, NULL, ret_why);
    }
    json_decref(json);
    return can;
}

static bool call(struct worker *w) {
    const struct culm_gearman *g = w->gearman;
    w->connection = g->worker_create(NULL);
    return w->connection &&
           g->worker_add_server(w->connection, w->server.host, w->server.port) == GEARMAN_SUCCESS &&
           g->worker_register(w->connection, CULM_GEARMAN_FUNCTION, 0) == GEARMAN_SUCCESS;
}

static void hang_up(struct worker *w) {
    if (w->connection) {
        w->gearman->worker_free(w->connection);
        w->connection = NULL;
    }
}

/* Takes and does the next job. False: the job server is lost. */
static bool work(struct worker *w) {
    const struct culm_gearman *g = w->gearman;
    struct culm_error why = {0};
    gearman_return_t code;
    gearman_job_st *job = g->worker_grab_job(w->connection, NULL, &code);
    if (!job || code != GEARMAN_SUCCESS) {
        return false;
    }
    bool done = do_job(g->job_workload(job), g->job_workload_size(job), &why);
    if (why.text[0]) {
        fprintf(stderr, "culm gnn worker: %s\n", why.text);
    }
    code = done ? g->job_send_complete(job, why.text, strlen(why.text)) : g->job_send_fail(job);
    g->job_free(job);
    return code == GEARMAN_SUCCESS;
}

enum culm_status culm_gearman_work(const char *server, struct culm_error *error) {
    struct worker w = {0};
    bool told = false, failed = false;
    enum culm_status status = culm_gearman_server_read(server, "--gearman", &w.server, error);
    if (status != CULM_OK) {
        return status;
    }
    w.gearman = culm_gearman_load(error);
    if (!w.gearman) {
        return CULM_ERR_MACHINE;
    }
    status = culm_gearman_server_check(w.gearman, &w.server, "--gearman", error);
    while (status == CULM_OK) {
        if ((w.connection || call(&w)) && work(&w)) {
            failed = false;
            continue;
        }
        /* An error need not mean that the job server is gone: it may have rejected the answer to a
         * job whose run has ended. */
        hang_up(&w);
        bool gone = culm_gearman_server_check(w.gearman, &w.server, "--gearman", NULL) != CULM_OK;
        if (gone && !told) {
            fprintf(stderr, "culm gnn worker: the job server at %s port %d is gone; trying again\n",
                    w.server.host, w.server.port);
        }
        told = gone;
        /* Once, at once; a server that answers and gives no jobs is not asked without a pause. */
        usleep(gone || failed ? AGAIN_MS * 1000 : 0);
        failed = true;
    }
    return status;
}
