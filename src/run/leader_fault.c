/* See leader_fault.h. */
#include "run/leader_fault.h"

#include "cluster/fault_text.h"
#include "pipeline/message.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEADER "leader"

/* --- text --- */

static const char *phase_name(size_t phase) {
    static const char *const names[] = {"prepared", "commit",  "view",        "take_over",
                                        "save",     "publish", "transaction", NULL};
    return phase < sizeof names / sizeof *names ? names[phase] : NULL;
}

static const char *how_name(size_t how) {
    return how <= CULM_HOW_STOP ? culm_fault_how_name(how) : NULL;
}

enum field { STEP, PHASE, HOW, FOR_MS, FIELD_COUNT };

static const struct culm_fault_field fields[FIELD_COUNT + 1] = {
    [STEP] = {"step", "a step, from 1", .min = 1, .max = INT64_MAX},
    [PHASE] = {"phase", "prepared, commit, view, take_over, save, publish, transaction",
               .word = phase_name},
    [HOW] = {"how", "kill, stop", .word = how_name},
    [FOR_MS] = {"for_ms", "1 to 86400000", .min = 1, .max = 86400000},
};

bool culm_leader_fault_is(const char *text) {
    const size_t len = strlen(LEADER);
    return strncmp(text, LEADER, len) == 0 && (text[len] == ',' || !text[len]);
}

enum culm_status culm_leader_fault_parse(const char *text, struct culm_leader_fault *ret_fault,
                                         struct culm_error *error) {
    int64_t values[CULM_FAULT_FIELDS_MAX] = {[PHASE] = CULM_LEADER_COMMIT, [HOW] = CULM_HOW_KILL};
    bool given[CULM_FAULT_FIELDS_MAX] = {false};
    const char *rest = text + strlen(LEADER);
    enum culm_status status = CULM_OK;
    if (*rest) {
        status = culm_fault_read(rest + 1, fields, "leader,step=S[,phase=P][,how=H][,for_ms=N]",
                                 values, given, error);
    }
    if (status == CULM_OK && !given[STEP]) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "--fault '%.100s': step is missing; required: %s", text,
                                fields[STEP].allowed);
    }
    if (status == CULM_OK && given[FOR_MS] && values[HOW] != CULM_HOW_STOP) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "--fault '%.100s': for_ms means nothing here; allowed with "
                                "how=stop",
                                text);
    }
    if (status == CULM_OK) {
        *ret_fault = (struct culm_leader_fault){.phase = (enum culm_leader_phase)values[PHASE],
                                                .step = values[STEP],
                                                .how = (enum culm_fault_how)values[HOW],
                                                .for_ms = values[FOR_MS]};
    }
    return status;
}

enum culm_status culm_leader_fault_check(const char *text, struct culm_error *error) {
    struct culm_leader_fault ignored;
    return culm_leader_fault_parse(text, &ignored, error);
}

/* --- where it happens --- */

/* Between a leader and its world. */
static struct {
    struct culm_leader_fault fault;
    int64_t nodes, stages, told, answered;
    int64_t step; /* of the last commit that was sent */
    bool armed;
    struct culm_world world;
    struct culm_world *real_world;
    struct culm_apart apart;
    struct culm_apart *real_apart;
    struct culm_actor_ops actor;
    struct culm_leader_ops leads;
    const struct culm_actor_ops *real_actor;
} f;

void culm_leader_fault_arm(const struct culm_leader_fault *fault, int64_t nodes, int64_t stages) {
    f.fault = *fault;
    f.nodes = nodes;
    f.stages = stages;
    f.armed = true;
}

/* A process of its own wakes one that is frozen for a while. */
static void fire(void) {
    f.armed = false;
    if (f.fault.how == CULM_HOW_KILL) {
        (void)raise(SIGKILL);
    }
    const pid_t self = getpid();
    if (f.fault.for_ms > 0 && fork() == 0) {
        const struct timespec pause = {.tv_sec = (time_t)(f.fault.for_ms / 1000),
                                       .tv_nsec = (long)(f.fault.for_ms % 1000) * 1000000};
        (void)nanosleep(&pause, NULL);
        (void)kill(self, SIGCONT);
        _exit(0);
    }
    (void)raise(SIGSTOP);
}

static bool is_due(enum culm_leader_phase phase, int64_t step) {
    return f.armed && f.fault.phase == phase && step >= f.fault.step;
}

/* Half are told of the same thing. One of each stage saves. */
static void told_one(enum culm_leader_phase phase, int64_t step) {
    const int64_t all = phase == CULM_LEADER_SAVE ? f.stages : f.nodes;
    if (is_due(phase, step) && ++f.told >= (all + 1) / 2) {
        fire();
    }
}

/* --- the world --- */

static int64_t step_of(const struct culm_message *message) {
    struct culm_commit commit;
    return culm_commit_decode(message->meta, message->meta_bytes, &commit) == CULM_OK
               ? commit.content.iteration
               : 0;
}

static void world_send(struct culm_world *world, int32_t node, const struct culm_message *message) {
    (void)world;
    const int64_t step = message->type == CULM_MSG_COMMIT ? step_of(message) : f.step;
    if (step != f.step) {
        f.told = 0;
        f.step = step;
    }
    if (message->type == CULM_MSG_COMMIT && is_due(CULM_LEADER_PREPARED, step)) {
        fire();
    }
    f.real_world->ops->send(f.real_world, node, message);
    if (message->type == CULM_MSG_COMMIT) {
        told_one(CULM_LEADER_COMMIT, step);
    } else if (message->type == CULM_MSG_VIEW) {
        told_one(CULM_LEADER_VIEW, step + 1);
    } else if (message->type == CULM_MSG_SAVE) {
        told_one(CULM_LEADER_SAVE, step);
    }
}

static uint64_t world_now(struct culm_world *world) {
    (void)world;
    return f.real_world->ops->now_ns(f.real_world);
}

static void world_timer(struct culm_world *world, uint32_t timer, uint64_t delay_ns) {
    (void)world;
    f.real_world->ops->timer(f.real_world, timer, delay_ns);
}

static void world_run(struct culm_world *world, struct culm_job *job) {
    (void)world;
    f.real_world->ops->run(f.real_world, job);
}

static void world_io(struct culm_world *world, struct culm_job *job) {
    (void)world;
    f.real_world->ops->io(f.real_world, job);
}

static void world_fault(struct culm_world *world, const struct culm_fault_point *point) {
    (void)world;
    f.real_world->ops->fault(f.real_world, point);
}

static void world_publish(struct culm_world *world, json_t *take_event) {
    (void)world;
    f.real_world->ops->publish(f.real_world, take_event);
}

static void world_leave(struct culm_world *world, int exit_code, const struct culm_error *error) {
    (void)world;
    f.real_world->ops->leave(f.real_world, exit_code, error);
}

static const struct culm_world_ops world_ops = {
    .size = sizeof world_ops,
    .now_ns = world_now,
    .send = world_send,
    .timer = world_timer,
    .run = world_run,
    .io = world_io,
    .fault = world_fault,
    .publish = world_publish,
    .leave = world_leave,
};

struct culm_world *culm_leader_fault_world(struct culm_world *real) {
    if (!f.armed) {
        return real;
    }
    f.real_world = real;
    f.world.ops = &world_ops;
    return &f.world;
}

/* --- publishing --- */

static enum culm_status apart_keep(struct culm_apart *apart, int64_t step, const char *path,
                                   struct culm_error *error) {
    (void)apart;
    if (is_due(CULM_LEADER_PUBLISH, step)) {
        fire();
    }
    return f.real_apart->ops->keep(f.real_apart, step, path, error);
}

static enum culm_status apart_find(struct culm_apart *apart, int64_t most, int64_t *ret_step,
                                   struct culm_error *error) {
    (void)apart;
    return f.real_apart->ops->find(f.real_apart, most, ret_step, error);
}

static enum culm_status apart_fetch(struct culm_apart *apart, const char *run_dir, int64_t step,
                                    struct culm_error *error) {
    (void)apart;
    return f.real_apart->ops->fetch(f.real_apart, run_dir, step, error);
}

static enum culm_status apart_forget(struct culm_apart *apart, int64_t step,
                                     struct culm_error *error) {
    (void)apart;
    return f.real_apart->ops->forget(f.real_apart, step, error);
}

static enum culm_status apart_before(struct culm_apart *apart, char ret_dir[CULM_PATH_MAX],
                                     struct culm_error *error) {
    (void)apart;
    return f.real_apart->ops->before(f.real_apart, ret_dir, error);
}

static const struct culm_apart_ops apart_ops = {.size = sizeof apart_ops,
                                                .keep = apart_keep,
                                                .find = apart_find,
                                                .fetch = apart_fetch,
                                                .forget = apart_forget,
                                                .before = apart_before};

struct culm_apart *culm_leader_fault_apart(struct culm_apart *real) {
    if (!f.armed || !real) {
        return real;
    }
    f.real_apart = real;
    f.apart.ops = &apart_ops;
    return &f.apart;
}

/* --- what it hears --- */

static void actor_message(void *actor, int32_t from, const struct culm_message *message) {
    if (message->type == CULM_MSG_REPORT && is_due(CULM_LEADER_TAKE_OVER, INT64_MAX) &&
        ++f.answered >= (f.nodes + 1) / 2) {
        fire();
    }
    f.real_actor->message(actor, from, message);
}

static void leads_written(void *leader, enum culm_deed deed) {
    if (is_due(CULM_LEADER_TRANSACTION, f.step)) {
        fire();
    }
    f.real_actor->leads->written(leader, deed);
}

const struct culm_actor_ops *culm_leader_fault_actor(const struct culm_actor_ops *real) {
    if (!f.armed) {
        return real;
    }
    f.real_actor = real;
    f.actor = *real;
    f.leads = *real->leads;
    f.leads.written = leads_written;
    f.actor.leads = &f.leads;
    f.actor.message = actor_message;
    return &f.actor;
}
