/* The second job's launch, and the actor that leads it. See counter.h. */
#include "counter.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODES 64
#define WATCHDOG_NS 500000000000ull /* only what hangs meets it */

struct leader {
    struct counter *counter;
    struct culm_launcher *launcher;
    struct culm_world *world;
    struct culm_agent *agent;
    int32_t server[COUNTER_SERVERS], asker[COUNTER_ASKERS]; /* nodes; -1: none is there */
    bool added[COUNTER_ASKERS];
    uint32_t role[NODES]; /* of those that are there; 0: it is not */
    int64_t sum;
    bool told_before; /* what comes before the end */
    pid_t newcomer[2];
    int newcomer_count;
};

/* --- the actor --- */

static void tell(struct leader *leader, json_t *take_event) {
    leader->world->ops->publish(leader->world, take_event);
}

static void fail(struct leader *leader, const char *what, int32_t node) {
    struct culm_error error;
    culm_error_set(&error, CULM_ERR_INTERNAL, "%s (node %d)", what, node);
    leader->world->ops->leave(leader->world, 1, &error);
}

static int32_t *place_of(struct leader *leader, uint32_t role, int32_t node) {
    int32_t *places = role == COUNTER_SERVER ? leader->server : leader->asker;
    int32_t count = role == COUNTER_SERVER ? COUNTER_SERVERS : COUNTER_ASKERS;
    for (int32_t i = 0; i < count; i++) {
        if (places[i] == node) {
            return &places[i];
        }
    }
    return NULL;
}

static void send_go(struct leader *leader) {
    struct counter_go go;
    if (place_of(leader, COUNTER_SERVER, -1)) {
        return; /* one is missing yet */
    }
    memcpy(go.server, leader->server, sizeof go.server);
    for (go.asker = 0; go.asker < COUNTER_ASKERS; go.asker++) {
        if (leader->asker[go.asker] >= 0) {
            const struct culm_message message = {
                .type = COUNTER_GO, .meta = (const uint8_t *)&go, .meta_bytes = sizeof go};
            leader->world->ops->send(leader->world, leader->asker[go.asker], &message);
        }
    }
}

static void on_start(void *actor) {
    struct leader *leader = actor;
    for (int32_t i = 0; i < COUNTER_SERVERS; i++) {
        leader->agent->ops->start(leader->agent, COUNTER_SERVER);
    }
    for (int32_t i = leader->counter->newcomers; i < COUNTER_ASKERS; i++) {
        leader->agent->ops->start(leader->agent, COUNTER_ASKER);
    }
    leader->world->ops->timer(leader->world, 0, WATCHDOG_NS);
}

static void on_joined(void *actor, int32_t node, const struct culm_node_info *info) {
    struct leader *leader = actor;
    int32_t *place = place_of(leader, info->role, -1);
    if (node >= NODES || strcmp(info->signature, "counter-1")) {
        fail(leader, "one too many, or another build", node);
        return;
    }
    leader->role[node] = info->role;
    tell(leader, json_pack("{s:s, s:i, s:s}", "event", "joined", "node", (int)node, "role",
                           counter_roles[info->role].name));
    if (place) {
        *place = node;
        send_go(leader);
    }
}

static void on_lost(void *actor, int32_t node) {
    struct leader *leader = actor;
    uint32_t role = leader->role[node];
    int32_t *place = place_of(leader, role, node);
    tell(leader, json_pack("{s:s, s:i, s:s}", "event", "lost", "node", (int)node, "role",
                           counter_roles[role].name));
    if (place) {
        *place = -1;
        leader->agent->ops->start(leader->agent, role);
    }
}

static void on_ended(void *actor, int32_t node, const struct culm_error *why) {
    struct leader *leader = actor;
    if (!leader->role[node]) {
        fail(leader, why ? why->text : "ended before it joined", node);
    }
}

static void on_removed(void *actor, int32_t node) {
    (void)actor;
    (void)node; /* its connection ends too */
}

/* What it says goes into a log of its own. */
static void call_newcomer(struct leader *leader, const char *role) {
    char log[128];
    const char *const argv[] = {leader->counter->program,
                                "counter",
                                "come",
                                leader->counter->dir,
                                culm_launcher_address(leader->launcher),
                                role,
                                NULL};
    posix_spawn_file_actions_t actions;
    snprintf(log, sizeof log, "%s/logs/%s.log", leader->counter->dir, role);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log, O_WRONLY | O_CREAT, 0600);
    if (posix_spawn(&leader->newcomer[leader->newcomer_count], argv[0], &actions, NULL,
                    (char *const *)argv, environ) == 0) {
        leader->newcomer_count++;
    }
    posix_spawn_file_actions_destroy(&actions);
}

/* Of one that asks for too much; then one comes that asks for what there is. */
static bool admits(void *actor, const struct culm_node_info *info, uint32_t *role,
                   struct culm_error *ret_error) {
    struct leader *leader = actor;
    (void)info;
    if (*role != COUNTER_ASKER || !leader->counter->newcomers) {
        if (leader->counter->newcomers && !leader->counter->refused++) {
            call_newcomer(leader, "asker");
        }
        culm_error_set(ret_error, CULM_ERR_CONFIG, "only askers may come");
        return false;
    }
    leader->counter->admitted++;
    return true;
}

static void on_stop(void *actor) {
    struct leader *leader = actor;
    leader->world->ops->leave(leader->world, 75, NULL);
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct leader *leader = actor;
    int64_t sum;
    const int32_t *place = place_of(leader, COUNTER_ASKER, from);
    bool all = true;
    if (message->type != COUNTER_TOTAL || !place || message->meta_bytes != sizeof sum) {
        fail(leader, "not a sum", from);
        return;
    }
    memcpy(&sum, message->meta, sizeof sum);
    if (!leader->added[place - leader->asker]) {
        leader->added[place - leader->asker] = true;
        leader->sum += sum;
        tell(leader, json_pack("{s:s, s:i, s:I}", "event", "sum", "node", (int)from, "sum",
                               (json_int_t)sum));
    }
    for (int32_t i = 0; i < COUNTER_ASKERS; i++) {
        all = all && leader->added[i];
    }
    if (all) {
        tell(leader, json_pack("{s:s, s:I}", "event", "done", "sum", (json_int_t)leader->sum));
        leader->world->ops->leave(leader->world, 0, NULL);
    }
}

static void on_timer(void *actor, uint32_t timer) {
    (void)timer;
    fail(actor, "it takes too long", -1);
}

static void on_job_done(void *actor, struct culm_job *job) {
    (void)actor;
    (void)job;
}

static const struct culm_leader_ops leads = {.size = sizeof leads,
                                             .joined = on_joined,
                                             .ended = on_ended,
                                             .removed = on_removed,
                                             .stop = on_stop,
                                             .admits = admits};
static const struct culm_actor_ops ops = {.size = sizeof ops,
                                          .start = on_start,
                                          .message = on_message,
                                          .lost = on_lost,
                                          .timer = on_timer,
                                          .job_done = on_job_done,
                                          .leads = &leads};

/* --- its rows of a summary --- */

enum { OWN_SUMS }; /* of own_counts */
enum { OWN_SUM };  /* of own_figures */

static enum culm_status add_sum(struct culm_summary *summary, const json_t *event,
                                struct culm_error *error) {
    (void)error;
    summary->own_counts[OWN_SUMS]++;
    summary->own_figures[OWN_SUM] += (double)culm_event_int(event, "sum", 0);
    return CULM_OK;
}

static const struct culm_summary_row rows[] = {
    {"start", .add = culm_summary_add_start},
    {"sum", .add = add_sum},
    {"lost", .count = offsetof(struct culm_summary, losses)},
    {"fault", .count = offsetof(struct culm_summary, faults)},
    {"error", .add = culm_summary_add_error},
    {"done", .add = culm_summary_add_done},
    {0},
};

static bool sum_line(const struct culm_summary *summary, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%.0f of %lld askers", summary->own_figures[OWN_SUM],
             (long long)summary->own_counts[OWN_SUMS]);
    return true;
}

static const struct culm_summary_line lines[] = {{"sum", sum_line}, {0}};
static const struct culm_summary_job summary_job = {
    .step = "question", .rows = rows, .lines = lines, .name = "counter"};

/* --- the launch --- */

static bool brief(void *job, uint32_t role, bool newcomer, struct culm_buf *out) {
    (void)newcomer;
    const struct leader *leader = job;
    const char *name = leader->counter->unwanted ? "server" : counter_roles[role].name;
    culm_buf_bytes(out, name, strlen(name));
    return true;
}

/* An event of the launcher's own, before the last one. */
static void before(void *job, const json_t *next) {
    struct leader *leader = job;
    if (!strcmp(culm_event_text(next, "event", ""), "done") && !leader->told_before) {
        leader->told_before = true;
        json_t *event = json_pack("{s:s}", "event", "closing");
        culm_launcher_tell_at(leader->launcher, event, next);
        json_decref(event);
    }
}

static void on_warning(void *ctx, const char *text) {
    struct counter *counter = ctx;
    (void)text;
    counter->warned++;
}

static enum culm_status begin(struct leader *leader, const struct culm_launcher_doors *doors,
                              struct culm_error *error) {
    struct culm_launcher *launcher = leader->launcher;
    enum culm_status status;
    culm_launcher_warn(launcher, "this is %s", "a test");
    if ((status = culm_launcher_check(launcher, error)) ||
        (status = culm_launcher_claim(launcher, error)) ||
        (status = culm_launcher_begin(launcher, "job: counter\n", error)) ||
        (status = culm_launcher_open(launcher, doors, error))) {
        return status;
    }
    leader->world = culm_launcher_world(launcher);
    leader->agent = culm_launcher_agent(launcher);
    return CULM_OK;
}

static void run(struct leader *leader) {
    struct counter *counter = leader->counter;
    if (counter->newcomers) {
        call_newcomer(leader, "server");
    }
    json_t *more = json_pack("{s:i}", "askers", COUNTER_ASKERS);
    culm_launcher_start(leader->launcher, "0123", more);
    json_decref(more);
    counter->code = culm_launcher_run(leader->launcher, &ops, leader, &counter->error);
    for (int i = 0; i < leader->newcomer_count; i++) {
        waitpid(leader->newcomer[i], NULL, 0);
    }
}

void counter_run(struct counter *counter) {
    struct leader leader = {.counter = counter, .server = {-1, -1}, .asker = {-1, -1, -1}};
    struct culm_agent_fault faults[2];
    struct culm_worker_fault unused;
    struct culm_launcher_options options = {.dir = counter->dir,
                                            .resume = counter->resume,
                                            .program = counter->program,
                                            .fault_texts = counter->faults,
                                            .fault_count = counter->fault_count,
                                            .trace_path = counter->trace_path,
                                            .log = counter->log,
                                            .screen = counter->screen,
                                            .warn = on_warning,
                                            .ctx = counter};
    const struct culm_launcher_job job = {.role = counter_roles,
                                          .role_count = COUNTER_ASKER + 1,
                                          .trace_role = COUNTER_ASKER,
                                          .faults = faults,
                                          .result = &counter->result,
                                          .before = before,
                                          .job = &leader};
    const struct culm_launcher_doors doors = {
        .listen = counter->newcomers ? "tcp:127.0.0.1:0" : NULL,
        .newcomers = counter->newcomers,
        .signature = "counter-1",
        .brief = brief,
        .payload_max = 64,
        .pool_bytes = 1 << 20,
        .max_nodes = counter->trace_path ? COUNTER_ASKERS : 0};
    culm_launcher_result_init(&counter->result, &summary_job);
    counter->status = culm_launcher_options_init(&options, &counter->error);
    if (counter->stop) {
        culm_launcher_stop(&options);
    }
    for (size_t i = 0; i < counter->fault_count && counter->status == CULM_OK; i++) {
        counter->status = counter_fault(counter->faults[i], &faults[i], &unused, &counter->error);
    }
    if (counter->status == CULM_OK) {
        counter->status = culm_launcher_new(&options, &job, &leader.launcher, &counter->error);
    }
    if (counter->status == CULM_OK) {
        counter->status = begin(&leader, &doors, &counter->error);
    }
    if (counter->status == CULM_OK) {
        run(&leader);
    }
    culm_launcher_free(leader.launcher);
    culm_launcher_options_release(&options);
}
