/* The processes of the second job: a server and an asker. See counter.h. */
#include "counter.h"

#include "cluster/fault_text.h"
#include "launch/participant.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define POOL_BYTES ((size_t)1 << 20)

static const char *const server_words[] = {"counter", "server", NULL};
static const char *const asker_words[] = {"counter", "asker", NULL};

const struct culm_launcher_role counter_roles[COUNTER_ASKER + 1] = {
    [COUNTER_SERVER] = {"server", server_words}, [COUNTER_ASKER] = {"asker", asker_words}};

/* --- faults --- */

enum { PHASE_ANSWER, PHASE_SEND, PHASE_HEAR };

static const char *const phases[] = {"answer", "send", "hear", NULL};

static const char *phase_name(size_t index) { return phases[index]; }

static bool read_node(const char *text, int64_t *ret_value) {
    return culm_launcher_read_place(counter_roles, COUNTER_ASKER + 1, text, ret_value);
}

enum culm_status counter_fault(const char *text, struct culm_agent_fault *ret_fault,
                               struct culm_worker_fault *ret_own, struct culm_error *error) {
    static const struct culm_fault_field fields[] = {
        {"node", "server:I, asker:I", .read = read_node},
        {"step", "from 1", .min = 1, .max = 1000},
        {"phase", "answer, send, hear", .word = phase_name},
        {"how", "kill, stop, exit, stuck, flip", .word = culm_fault_how_name},
        {"for_ms", "from 1", .min = 1, .max = 1000},
        {0},
    };
    int64_t values[CULM_FAULT_FIELDS_MAX] = {0};
    bool given[CULM_FAULT_FIELDS_MAX];
    enum culm_status status =
        culm_fault_read(text, fields, "node=ROLE:INDEX,step=S", values, given, error);
    if (status == CULM_OK) {
        *ret_fault = (struct culm_agent_fault){.node = -1,
                                               .role = (uint32_t)(values[0] >> 32),
                                               .index = (int32_t)values[0],
                                               .phase = phases[values[2]],
                                               .how = (enum culm_fault_how)values[3],
                                               .for_ms = values[4]};
        *ret_own = (struct culm_worker_fault){
            .point = {.phase = (uint32_t)values[2], .step = values[1], .part = -1},
            .at_send = values[2] == PHASE_SEND,
            .how = (enum culm_fault_how)values[3]};
    }
    return status;
}

static enum culm_status own_fault(const char *text, struct culm_worker_fault *ret_fault,
                                  struct culm_error *error) {
    struct culm_agent_fault unused;
    return counter_fault(text, &unused, ret_fault, error);
}

/* --- both --- */

struct node {
    struct culm_participant *process;
    struct culm_world *world;
    struct culm_blob_pool *pool;
    int64_t answered; /* by a server */
    struct counter_go go;
    bool began, busy;                   /* busy: with a message */
    int64_t next[COUNTER_SERVERS], sum; /* of an asker */
};

static void say(struct node *node, int32_t to, uint16_t type, const void *meta, size_t bytes,
                struct culm_blob *payload) {
    const struct culm_message message = {.type = type,
                                         .meta = meta,
                                         .meta_bytes = (uint32_t)bytes,
                                         .payload = payload,
                                         .payload_bytes = payload ? payload->size_bytes : 0};
    node->world->ops->send(node->world, to, &message);
}

static void pass(struct node *node, uint32_t phase, int64_t step) {
    const struct culm_fault_point point = {.phase = phase, .step = step};
    node->world->ops->fault(node->world, &point);
}

static void wrong(struct node *node, const char *what) {
    struct culm_error error;
    culm_error_set(&error, CULM_ERR_INTERNAL, "%s", what);
    node->world->ops->leave(node->world, 1, &error);
}

static void on_start(void *actor) { (void)actor; }

static void on_lost(void *actor, int32_t other) {
    (void)actor;
    (void)other; /* the leader says who comes instead */
}

static void on_timer(void *actor, uint32_t timer) {
    (void)actor;
    (void)timer;
}

static void on_job_done(void *actor, struct culm_job *job) {
    (void)actor;
    (void)job;
}

/* --- a server --- */

static void server_message(void *actor, int32_t from, const struct culm_message *message) {
    struct node *node = actor;
    struct counter_ask ask;
    struct culm_blob *blob;
    if (message->type != COUNTER_ASK) {
        wrong(node, "a server was told something else than a question");
        return;
    }
    memcpy(&ask, message->meta, sizeof ask);
    pass(node, PHASE_ANSWER, ++node->answered);
    pass(node, PHASE_SEND, node->answered);
    if (culm_blob_pool_get(node->pool, sizeof(int64_t), &blob) != CULM_OK) {
        wrong(node, "no memory for an answer");
        return;
    }
    *(int64_t *)blob->data = (ask.question + 1) * (ask.asker + 1);
    say(node, from, COUNTER_ANSWER, &ask, sizeof ask, blob);
    culm_blob_unref(blob);
}

/* --- an asker --- */

static void ask(struct node *node, int32_t server) {
    const struct counter_ask question = {node->next[server], node->go.asker};
    say(node, node->go.server[server], COUNTER_ASK, &question, sizeof question, NULL);
}

static void hear_go(struct node *node, const struct culm_message *message) {
    struct counter_go before = node->go;
    memcpy(&node->go, message->meta, sizeof node->go);
    for (int32_t i = 0; i < COUNTER_SERVERS; i++) {
        bool fresh = !node->began || before.server[i] != node->go.server[i];
        if (fresh && node->next[i] < COUNTER_QUESTIONS) {
            ask(node, i);
        }
    }
    node->began = true;
}

static void hear_answer(struct node *node, int32_t from, const struct culm_message *message) {
    struct counter_ask answer;
    int32_t server = 0;
    bool all = true;
    while (server < COUNTER_SERVERS && node->go.server[server] != from) {
        server++;
    }
    if (server == COUNTER_SERVERS) {
        return; /* of one that is lost, of which the leader knew before: another one was asked again */
    }
    memcpy(&answer, message->meta, sizeof answer);
    if (answer.question != node->next[server] || message->payload_bytes != sizeof(int64_t)) {
        wrong(node, "an answer to another question");
        return;
    }
    node->sum += *(const int64_t *)message->payload->data;
    pass(node, PHASE_HEAR, ++node->next[server]);
    if (node->next[server] < COUNTER_QUESTIONS) {
        ask(node, server);
    }
    for (int32_t i = 0; i < COUNTER_SERVERS; i++) {
        all = all && node->next[i] == COUNTER_QUESTIONS;
    }
    if (all) {
        say(node, CULM_LEADER, COUNTER_TOTAL, &node->sum, sizeof node->sum, NULL);
    }
}

static void asker_message(void *actor, int32_t from, const struct culm_message *message) {
    struct node *node = actor;
    if (node->busy) {
        wrong(node, "a message was told within another");
    }
    node->busy = true;
    if (message->type == COUNTER_GO && from == CULM_LEADER) {
        hear_go(node, message);
    } else if (message->type == COUNTER_ANSWER && from != CULM_LEADER) {
        hear_answer(node, from, message);
    } else {
        wrong(node, "an asker was told something else than an answer");
    }
    node->busy = false;
}

/* --- a process --- */

static enum culm_status begin(struct node *node, const char *role, struct culm_error *error) {
    size_t len;
    const char *brief = culm_participant_brief(node->process, &len);
    if (len != strlen(role) || memcmp(brief, role, len)) {
        culm_error_set(error, CULM_ERR_CONFIG, "started as '%s', and told '%.*s'", role, (int)len,
                       brief);
        culm_participant_decline(node->process, error);
        return error->status;
    }
    const struct culm_worker_ready ready = {.signature = "counter-1",
                                            .pool = node->pool,
                                            .payload_max = 64,
                                            .dial_limit_ms = 600000,
                                            .orphan_ms = 600000};
    return culm_participant_ready(node->process, &ready, error);
}

/* counter come DIR ADDRESS ROLE */
static enum culm_status come(char **argv, const struct culm_participant_role *role,
                             struct culm_participant **ret_process, struct culm_error *error) {
    static char token[CULM_TOKEN_SIZE];
    char path[128];
    struct stat info;
    const struct culm_participant_call newcomer = {
        .address = argv[3],
        .token = token,
        .role = !strcmp(argv[4], "server") ? COUNTER_SERVER : COUNTER_ASKER,
        .dir = argv[2],
        .name = "a newcomer"};
    snprintf(path, sizeof path, "%s/token", argv[2]);
    if (stat(path, &info) || (info.st_mode & 077)) {
        return culm_error_set(error, CULM_ERR_INTERNAL, "others may read '%s'", path);
    }
    enum culm_status status = culm_token_read(path, token, error);
    return status ? status : culm_participant_come(&newcomer, role, ret_process, error);
}

static int work(int argc, char **argv, struct culm_participant_memory *ret_memory,
                struct culm_error *ret_error) {
    bool comes = !strcmp(argv[1], "come");
    const char *name = argv[comes ? 4 : 1];
    bool server = !strcmp(name, "server");
    const struct culm_actor_ops ops = {.size = sizeof ops,
                                       .start = on_start,
                                       .message = server ? server_message : asker_message,
                                       .lost = on_lost,
                                       .timer = on_timer,
                                       .job_done = on_job_done};
    const struct culm_participant_role role = {
        .words = 2, .calls_only = !server, .fault = own_fault};
    struct node node = {.pool = culm_blob_pool_new(POOL_BYTES)};
    enum culm_status status =
        comes ? come(argv, &role, &node.process, ret_error)
              : culm_participant_join(argc, argv, &role, &node.process, ret_error);
    status = status ? status : begin(&node, name, ret_error);
    int code = culm_status_exit_code(status);
    if (status == CULM_OK) {
        node.world = culm_participant_world(node.process);
        code = culm_participant_run(node.process, &ops, &node, ret_error);
        culm_participant_measure(node.pool, ret_memory);
    }
    culm_participant_leave(node.process);
    culm_blob_pool_free(node.pool);
    return code;
}

int counter_main(int argc, char **argv) {
    return argc > 2 && !strcmp(argv[1], "counter")
               ? culm_participant_main("counter", argc - 1, argv + 1, work)
               : -1;
}
