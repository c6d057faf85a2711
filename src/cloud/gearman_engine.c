/* The engine `gearman`: a thread that submits jobs to a job server. See gearman_engine.h. */
#include "cloud/gearman_engine.h"

#include "cloud/gearman_library.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define WAKE_MS 50   /* how long a new start may wait while the thread waits for answers */
#define AGAIN_MS 500 /* between two attempts to reach a lost job server */

/* A start, until its job has been answered. */
struct start {
    struct start *next;
    struct gearman_engine *engine;
    int32_t number;
    char *payload;
    bool out;   /* the job has been, or is being, submitted */
    bool over;  /* the job has been answered */
    bool came;  /* the worker has joined */
    bool ended; /* the worker is no longer wanted */
};

struct gearman_engine {
    struct culm_engine engine; /* first */
    const struct culm_gearman *gearman;
    struct culm_gearman_server server;
    struct culm_engine_report *report;
    gearman_client_st *client; /* only used by the thread; NULL: not connected */
    pthread_t thread;
    bool runs, complained;
    pthread_mutex_t lock; /* protects what follows */
    pthread_cond_t more;
    struct start *starts;
    bool closing;
};

static struct gearman_engine *of(struct culm_engine *engine) {
    return (struct gearman_engine *)engine;
}

/* --- answers: called by the library on the thread, without the lock --- */

static void answered(struct start *start, const struct culm_error *why) {
    struct gearman_engine *e = start->engine;
    pthread_mutex_lock(&e->lock);
    bool awaited = !start->came && !start->ended && !start->over;
    start->over = true;
    pthread_mutex_unlock(&e->lock);
    if (awaited) {
        culm_engine_ended(e->report, start->number, why);
    }
}

/* The job is complete. Its answer is an error of the worker, such as that it could not join, or
 * empty. */
static gearman_return_t on_complete(gearman_task_st *task) {
    const struct culm_gearman *g = culm_gearman_load(NULL); /* has been loaded before */
    struct culm_error why = {0};
    size_t len = g->task_data_size(task);
    if (len > 0) {
        culm_error_set(&why, CULM_ERR_CLOSED, "%.*s", (int)(len < 200 ? len : 200),
                       (const char *)g->task_data(task));
    }
    for (char *at = why.text; *at; at++) {
        *at = *at < ' ' || *at > '~' ? '?' : *at; /* the text comes from outside */
    }
    answered(g->task_context(task), &why);
    return GEARMAN_SUCCESS;
}

static gearman_return_t on_fail(gearman_task_st *task) {
    struct culm_error why;
    culm_error_set(&why, CULM_ERR_CLOSED,
                   "gearman: a worker cannot do such jobs; the worker's own output says why");
    answered(culm_gearman_load(NULL)->task_context(task), &why);
    return GEARMAN_SUCCESS;
}

/* --- the thread --- */

/* Closes the connection. All its jobs are lost, and will be submitted again. */
static void hang_up(struct gearman_engine *e) {
    if (e->client) {
        e->gearman->client_free(e->client);
        e->client = NULL;
    }
    pthread_mutex_lock(&e->lock);
    for (struct start *start = e->starts; start; start = start->next) {
        start->out = false;
    }
    pthread_mutex_unlock(&e->lock);
}

static bool call(struct gearman_engine *e) {
    const struct culm_gearman *g = e->gearman;
    struct culm_error error;
    if (culm_gearman_server_check(g, &e->server, "gearman.server", &error) == CULM_OK) {
        e->client = g->client_create(NULL);
    }
    if (!e->client) {
        return false;
    }
    g->client_set_options(e->client, GEARMAN_CLIENT_NON_BLOCKING | GEARMAN_CLIENT_FREE_TASKS);
    g->client_set_timeout(e->client, WAKE_MS);
    g->client_set_complete_fn(e->client, on_complete);
    g->client_set_fail_fn(e->client, on_fail);
    return g->client_add_server(e->client, e->server.host, e->server.port) == GEARMAN_SUCCESS;
}

static bool wanted(const struct start *start) {
    return !start->over && !start->came && !start->ended;
}

/* Adds new jobs, and removes finished ones. Returns how many are out. Call with the lock held. */
static int32_t add_new(struct gearman_engine *e) {
    int32_t out = 0;
    for (struct start **at = &e->starts; *at;) {
        struct start *start = *at;
        if ((start->over || !start->out) && !wanted(start)) {
            *at = start->next;
            free(start->payload);
            free(start);
            continue;
        }
        if (e->client && !start->out && wanted(start)) {
            gearman_return_t added;
            (void)e->gearman->client_add_task(e->client, NULL, start, CULM_GEARMAN_FUNCTION, NULL,
                                              start->payload, strlen(start->payload), &added);
            start->out = added == GEARMAN_SUCCESS;
        }
        out += start->out && !start->over;
        at = &start->next;
    }
    return out;
}

/* Waits up to `ms` for a new start. Call with the lock held. */
static void rest(struct gearman_engine *e, int64_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + ms * (int64_t)MS;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    (void)pthread_cond_timedwait(&e->more, &e->lock, &until);
}

static void complain(struct gearman_engine *e) {
    struct culm_error error;
    culm_error_set(&error, CULM_ERR_CLOSED,
                   "gearman.server: the job server at %s port %d is gone; workers that have joined "
                   "go on, and it is tried again",
                   e->server.host, e->server.port);
    if (!e->complained) {
        culm_engine_complain(e->report, &error);
    }
    e->complained = true;
}

/* Lets the library send and receive. False: the connection is lost. */
static bool talk(struct gearman_engine *e) {
    gearman_return_t code = e->gearman->client_run_tasks(e->client);
    if (code == GEARMAN_IO_WAIT) {
        code = e->gearman->client_wait(e->client);
    }
    return code == GEARMAN_SUCCESS || code == GEARMAN_IO_WAIT || code == GEARMAN_TIMEOUT ||
           code == GEARMAN_NO_ACTIVE_FDS;
}

static void *run(void *engine) {
    struct gearman_engine *e = engine;
    for (;;) {
        bool there = e->client || call(e);
        if (!there) {
            hang_up(e);
            complain(e);
        }
        pthread_mutex_lock(&e->lock);
        int32_t out = add_new(e);
        if (!e->closing && (!there || out == 0)) {
            rest(e, there ? WAKE_MS : AGAIN_MS);
        }
        bool closing = e->closing;
        pthread_mutex_unlock(&e->lock);
        if (closing) {
            return NULL;
        }
        e->complained = e->complained && !there;
        if (there && out > 0 && !talk(e)) {
            hang_up(e);
        }
    }
}

/* --- the table --- */

static enum culm_status engine_open(struct culm_engine *engine, struct culm_engine_report *report,
                                    struct culm_error *error) {
    struct gearman_engine *e = of(engine);
    e->report = report;
    e->runs = pthread_create(&e->thread, NULL, run, e) == 0;
    return e->runs ? CULM_OK : culm_error_set(error, CULM_ERR_IO, "start a thread for jobs");
}

static void engine_start(struct culm_engine *engine, const struct culm_engine_start *order) {
    struct gearman_engine *e = of(engine);
    struct culm_error error;
    struct start *start = calloc(1, sizeof *start);
    json_t *json =
        json_pack("{s:i, s:s, s:s, s:s, s:s}", "culm", CULM_GEARMAN_FORMAT, "role", "worker",
                  "address", order->address, "token", order->token, "name", order->name);
    char *payload = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (!start || !payload) {
        free(start);
        free(payload);
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for a job");
        culm_engine_ended(e->report, order->number, &error);
        return;
    }
    *start = (struct start){.engine = e, .number = order->number, .payload = payload};
    pthread_mutex_lock(&e->lock);
    struct start **at = &e->starts;
    while (*at) { /* append, to keep the order of starts */
        at = &(*at)->next;
    }
    *at = start;
    pthread_cond_signal(&e->more);
    pthread_mutex_unlock(&e->lock);
}

static void note(struct gearman_engine *e, int32_t number, bool came) {
    pthread_mutex_lock(&e->lock);
    for (struct start *start = e->starts; start; start = start->next) {
        if (start->number == number) {
            start->came = start->came || came;
            start->ended = start->ended || !came;
        }
    }
    pthread_mutex_unlock(&e->lock);
}

static void engine_came(struct culm_engine *engine, int32_t number) {
    note(of(engine), number, true);
}

static void engine_end(struct culm_engine *engine, int32_t number) {
    note(of(engine), number, false);
}

static void engine_close(struct culm_engine *engine) {
    struct gearman_engine *e = of(engine);
    if (!e->runs) {
        return;
    }
    pthread_mutex_lock(&e->lock);
    e->closing = true;
    pthread_cond_signal(&e->more);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    e->runs = false;
}

static void engine_free(struct culm_engine *engine) {
    struct gearman_engine *e = of(engine);
    hang_up(e);
    while (e->starts) {
        struct start *start = e->starts;
        e->starts = start->next;
        free(start->payload);
        free(start);
    }
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->more);
    free(e);
}

static const struct culm_engine_ops engine_ops = {
    .size = sizeof engine_ops,
    .name = "gearman",
    .open = engine_open,
    .start = engine_start,
    .came = engine_came,
    .end = engine_end,
    .close = engine_close,
    .free = engine_free,
};

enum culm_status culm_gearman_engine_new(const char *address, struct culm_engine **ret_engine,
                                         struct culm_error *error) {
    struct culm_gearman_server server;
    enum culm_status status = culm_gearman_server_read(address, "gearman.server", &server, error);
    const struct culm_gearman *gearman = status == CULM_OK ? culm_gearman_load(error) : NULL;
    if (status != CULM_OK || !gearman) {
        return status ? status : CULM_ERR_MACHINE;
    }
    status = culm_gearman_server_check(gearman, &server, "gearman.server", error);
    if (status != CULM_OK) {
        return status;
    }
    struct gearman_engine *e = calloc(1, sizeof *e);
    if (!e) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an engine");
    }
    e->engine.ops = &engine_ops;
    e->gearman = gearman;
    e->server = server;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->more, NULL);
    *ret_engine = &e->engine;
    return CULM_OK;
}
