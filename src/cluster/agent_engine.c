/* Nodes that an engine starts elsewhere. See engine.h. */
#include "cluster/agent_internal.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A report of an engine, on its way to the loop. */
struct told {
    int32_t number; /* of the start; -1: culm_engine_complain */
    struct culm_error why;
};

struct culm_engine_report {
    struct culm_local_agent *agent;
    uv_async_t more;
    pthread_mutex_t lock; /* protects what follows */
    struct told *told;
    size_t count, capacity;
};

/* --- names --- */

void culm_engine_node_name(const struct culm_engine *engine, int32_t number,
                           char ret_name[CULM_ENGINE_NAME_SIZE]) {
    snprintf(ret_name, CULM_ENGINE_NAME_SIZE, "%.32s-%d", engine->ops->name, number);
}

int32_t culm_engine_number(const struct culm_engine *engine, const char *name) {
    size_t len = strlen(engine->ops->name);
    if (strncmp(name, engine->ops->name, len) != 0 || name[len] != '-') {
        return -1;
    }
    const char *digits = name + len + 1;
    size_t count = strspn(digits, "0123456789");
    if (!count || count > 10 || digits[count]) {
        return -1;
    }
    long long number = atoll(digits);
    return number < CULM_NODE_IDS ? (int32_t)number : -1;
}

/* --- reports of engines --- */

static void tell(struct culm_engine_report *report, int32_t number, const struct culm_error *why) {
    pthread_mutex_lock(&report->lock);
    if (CULM_GROW(report->told, report->capacity, report->count + 1)) {
        struct told *told = &report->told[report->count++];
        told->number = number;
        told->why = why ? *why : (struct culm_error){0};
    }
    pthread_mutex_unlock(&report->lock);
    uv_async_send(&report->more);
}

void culm_engine_ended(struct culm_engine_report *report, int32_t number,
                       const struct culm_error *why) {
    tell(report, number, why);
}

void culm_engine_complain(struct culm_engine_report *report, const struct culm_error *error) {
    tell(report, -1, error);
}

static void hear_end(struct culm_local_agent *agent, const struct told *told) {
    struct child *child = agent_child(agent, told->number);
    if (!child || !child->elsewhere || child->came || child->exited) {
        return;
    }
    struct culm_error why = told->why;
    if (!why.text[0]) {
        culm_error_set(&why, CULM_ERR_CLOSED, "ended before it joined");
    }
    child->why = why;
    agent_start_error(child, &why);
    agent_kill(child);
}

static void hear(struct culm_local_agent *agent, struct told *told) {
    if (told->number >= 0) {
        hear_end(agent, told);
    } else {
        culm_local_agent_complain(agent, &told->why);
    }
}

static void on_told(uv_async_t *async) {
    struct culm_engine_report *report = async->data;
    pthread_mutex_lock(&report->lock);
    struct told *told = report->told;
    size_t count = report->count;
    report->told = NULL;
    report->count = report->capacity = 0;
    pthread_mutex_unlock(&report->lock);
    for (size_t i = 0; i < count; i++) {
        hear(report->agent, &told[i]);
    }
    free(told);
}

/* --- starts --- */

bool agent_starts_elsewhere(const struct culm_local_agent *agent, uint32_t role) {
    return agent->o.engine && role == agent->o.engine_role;
}

void agent_start_elsewhere(struct child *child) {
    struct culm_local_agent *agent = child->agent;
    struct culm_engine *engine = agent->o.engine;
    child->newcomer = child->elsewhere = true;
    child->process.fd = -1;
    agent->alive++;
    culm_engine_node_name(engine, child->node, child->name);
    const struct culm_engine_start start = {.number = child->node,
                                            .role = child->role,
                                            .name = child->name,
                                            .address = agent->o.address,
                                            .token = agent->o.token};
    engine->ops->start(engine, &start);
}

void agent_end_elsewhere(const struct child *child) {
    if (child->elsewhere) {
        struct culm_engine *engine = child->agent->o.engine;
        engine->ops->end(engine, child->node);
    }
}

static bool awaited(const struct child *child) {
    return child && child->elsewhere && !child->came && !child->exited;
}

enum culm_status agent_take_in(struct culm_local_agent *agent, uint32_t role, int64_t pid,
                               const char *name, int32_t *ret_node, struct culm_error *error) {
    int32_t number =
        agent_starts_elsewhere(agent, role) ? culm_engine_number(agent->o.engine, name) : -1;
    *ret_node = CULM_NEWCOMER;
    if (number < 0) {
        return CULM_OK; /* not one of the engine's nodes */
    }
    struct child *child = agent_child(agent, number);
    for (int32_t i = 0; i < agent->children.count && !awaited(child); i++) {
        child = agent->children.thing[i];
    }
    if (!awaited(child)) {
        return culm_error_set(error, CULM_ERR_CONFIG, "'%.40s' is not expected, or no longer",
                              name);
    }
    child->came = true;
    child->pid = pid;
    child->heard_ns = culm_clock_ns();
    *ret_node = child->node;
    if (agent->o.engine->ops->came) {
        agent->o.engine->ops->came(agent->o.engine, child->node);
    }
    return CULM_OK;
}

/* --- life --- */

static enum culm_status engine_open(struct culm_local_agent *agent, struct culm_error *error) {
    struct culm_engine *engine = agent->o.engine;
    struct culm_engine_report *report = calloc(1, sizeof *report);
    if (!report) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an engine");
    }
    int failed = uv_async_init(agent->o.loop, &report->more, on_told);
    if (failed) {
        free(report);
        return culm_error_set(error, CULM_ERR_IO, "wake the loop: %s", uv_strerror(failed));
    }
    report->agent = agent;
    report->more.data = report;
    pthread_mutex_init(&report->lock, NULL);
    agent->report = report;
    return engine->ops->open(engine, report, error);
}

void agent_engine_open(struct culm_local_agent *agent) {
    struct culm_error error;
    if (agent->o.engine && engine_open(agent, &error) != CULM_OK) {
        agent->o.ops->failed(agent->o.ctx, &error);
    }
}

void agent_engine_close(struct culm_local_agent *agent) {
    if (agent->report) {
        agent->o.engine->ops->close(agent->o.engine);
        uv_close((uv_handle_t *)&agent->report->more, NULL);
    }
}

void agent_engine_free(struct culm_local_agent *agent) {
    if (agent->report) {
        pthread_mutex_destroy(&agent->report->lock);
        free(agent->report->told);
        free(agent->report);
    }
}
