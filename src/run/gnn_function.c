/* A worker as a function of AWS Lambda. See gnn_function.h. */
#include "run/gnn_function.h"

#include "base/clock.h"
#include "cloud/lambda_runtime.h"
#include "run/gnn_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NEXT_TRIES 3
#define LEAST_MS 1000 /* with less time left, joining is of no use */
/* How long before the deadline it begins to leave: a tenth of its time, within these bounds. */
#define MARGIN_LEAST_MS 500
#define MARGIN_MOST_MS 10000

json_t *culm_gnn_function_event(const char *address, const char *token, const char *name,
                                int64_t memory_mb) {
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:I}", "culm", CULM_GNN_EVENT_FORMAT, "role",
                     "worker", "address", address, "token", token, "name", name, "memory_mb",
                     (json_int_t)memory_mb);
}

/* The content of an event; strings are borrowed from its JSON. */
struct order {
    const char *role, *address, *token, *name;
    json_int_t memory_mb;
};

static enum culm_status read_event(const struct culm_lambda_invocation *invocation,
                                   json_t **ret_json, struct order *ret_order,
                                   struct culm_error *error) {
    json_error_t where;
    int format = 0;
    *ret_order = (struct order){0};
    *ret_json = json_loadb(invocation->event, invocation->event_bytes, 0, &where);
    if (!*ret_json) {
        return culm_error_set(error, CULM_ERR_FORMAT, "the event is not JSON: %.100s", where.text);
    }
    if (json_unpack(*ret_json, "{s:i, s:s, s:s, s:s, s:s, s?:I}", "culm", &format, "role",
                    &ret_order->role, "address", &ret_order->address, "token", &ret_order->token,
                    "name", &ret_order->name, "memory_mb", &ret_order->memory_mb) ||
        format != CULM_GNN_EVENT_FORMAT || strcmp(ret_order->role, "worker") != 0 ||
        strlen(ret_order->token) >= CULM_TOKEN_SIZE) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "the event is not from this version of 'culm gnn train'");
    }
    return CULM_OK;
}

static enum culm_status check_memory(const struct order *order, struct culm_error *error) {
    const char *text = getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE");
    long long have = text ? atoll(text) : 0;
    if (have > 0 && have < order->memory_mb) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "the function has %lld MB of memory, and lambda.memory_mb is %lld",
                              have, (long long)order->memory_mb);
    }
    return CULM_OK;
}

static int64_t left_ms(const struct culm_lambda_invocation *invocation) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return invocation->deadline_ms - ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

static int64_t margin_of(int64_t ms) {
    int64_t margin = ms / 10;
    margin = margin < MARGIN_LEAST_MS ? MARGIN_LEAST_MS : margin;
    return margin > MARGIN_MOST_MS ? MARGIN_MOST_MS : margin;
}

/* Joins and works. An error makes the invocation fail. *ret_why: text for the answer, if the worker
 * was let in or refused. */
static enum culm_status work(const struct culm_lambda_invocation *invocation,
                             const struct order *order, struct culm_gnn_stay *stay,
                             struct culm_error *ret_why, struct culm_error *error) {
    enum culm_status status = check_memory(order, error);
    int64_t ms = left_ms(invocation), margin = margin_of(ms);
    if (status != CULM_OK) {
        return status;
    }
    if (ms < LEAST_MS) {
        return culm_error_set(
            error, CULM_ERR_TIMEOUT,
            "%lld ms are left, which is too little; set the function's time-out to "
            "10 s or more",
            (long long)ms);
    }
    stay->until_ns = culm_clock_ns() + (uint64_t)(ms - margin) * 1000000u;
    stay->part_ms = margin / 2;
    const struct culm_participant_call call = {.address = order->address,
                                               .token = order->token,
                                               .role = CULM_GNN_WORKER,
                                               .plain = true, /* as the run has it that called */
                                               .name = order->name};
    (void)culm_run_gnn_newcomer(&call, stay, ret_why);
    if (!stay->came && !stay->refused) {
        return culm_error_set(error, ret_why->status ? ret_why->status : CULM_ERR_IO, "%s",
                              ret_why->text);
    }
    return CULM_OK;
}

static enum culm_status answer(const struct culm_lambda_runtime *runtime, const char *id,
                               const struct culm_gnn_stay *stay, const struct culm_error *why,
                               struct culm_error *error) {
    json_t *json = json_pack("{s:i, s:b, s:s}", "node", (int)stay->node, "came", (int)stay->came,
                             "why", why->text);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(json);
    enum culm_status status = culm_lambda_answer(runtime, id, text ? text : "{}", error);
    free(text);
    return status;
}

static enum culm_status invoke(const struct culm_lambda_runtime *runtime,
                               const struct culm_lambda_invocation *invocation,
                               struct culm_gnn_stay *stay, struct culm_error *error) {
    struct culm_error why = {0}, wrong = {0};
    struct order order;
    json_t *json;
    bool warm = stay->gear != NULL;
    enum culm_status status = read_event(invocation, &json, &order, &wrong);
    if (status == CULM_OK) {
        status = work(invocation, &order, stay, &why, &wrong);
    }
    const char *said = status ? wrong.text : why.text;
    fprintf(stderr, "%s: %s%s%s\n", invocation->id,
            status        ? "failed"
            : !stay->came ? "turned away"
            : warm        ? "worked, warm"
                          : "worked, cold",
            said[0] ? ": " : "", said);
    enum culm_status told =
        status ? culm_lambda_fail(runtime, invocation->id,
                                  status == CULM_ERR_FORMAT ? "Culm.Event" : "Culm.Join",
                                  wrong.text, error)
               : answer(runtime, invocation->id, stay, &why, error);
    json_decref(json);
    return told;
}

/* Tries out what a worker needs on this machine, so that a problem shows at the start. */
static enum culm_status check_machine(struct culm_error *error) {
    struct culm_device *device = NULL;
    enum culm_status status = culm_device_new(1, &device, error);
    culm_device_free(device);
    return status;
}

static int serve(const struct culm_lambda_runtime *runtime, struct culm_error *error) {
    struct culm_gnn_stay stay = {0};
    enum culm_status status = CULM_OK;
    for (int tries = 0; tries < NEXT_TRIES;) {
        struct culm_lambda_invocation invocation;
        status = culm_lambda_next(runtime, &invocation, error);
        if (status == CULM_OK) {
            status = invoke(runtime, &invocation, &stay, error);
            culm_lambda_invocation_release(&invocation);
        }
        tries = status == CULM_OK ? 0 : tries + 1;
    }
    culm_gnn_gear_free(stay.gear);
    return culm_status_exit_code(status);
}

int culm_gnn_function_run(void) {
    struct culm_lambda_runtime runtime;
    struct culm_error error = {0}, ignored;
    const char *api = getenv("AWS_LAMBDA_RUNTIME_API");
    enum culm_status status =
        api ? culm_lambda_runtime_init(&runtime, api, &error)
            : culm_error_set(&error, CULM_ERR_ARGUMENT,
                             "AWS_LAMBDA_RUNTIME_API is not set; this command is what AWS Lambda "
                             "starts");
    int code = culm_status_exit_code(status);
    if (status == CULM_OK && (status = check_machine(&error)) != CULM_OK) {
        (void)culm_lambda_fail(&runtime, NULL, "Culm.Machine", error.text, &ignored);
        code = culm_status_exit_code(status);
    } else if (status == CULM_OK) {
        code = serve(&runtime, &error);
    }
    if (error.text[0]) {
        fprintf(stderr, "culm gnn function: %s\n", error.text);
    }
    return code;
}
