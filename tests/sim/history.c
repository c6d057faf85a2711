/* Histories: made from a seed, run, judged. See history.h. */
#include "history.h"

#include "base/rng.h"
#include "crew/patience.h"
#include "history_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAWN "as it was drawn" /* what a task that was drawn to fail says */
#define LIMIT_MS 600000         /* virtual; after the last fault */

#define RESUMES_MAX 8
#define STORE_FAULTS_NS 10000000000ull /* of a run, in which the store fails now and then */

void culm_history_complain(struct running *run, const char *format, ...) {
    if (run->complaint[0]) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(run->complaint, sizeof run->complaint, format, args);
    va_end(args);
}

/* --- the oracle's eyes --- */

/* By the newest view that was told of. */
bool culm_history_is_named(const struct running *run, int32_t node) {
    bool named = false;
    for (int32_t p = 0; p < run->history->shape.pipelines; p++) {
        for (int32_t s = 0; s < run->history->shape.stages; s++) {
            named |= run->role[p][s].owner == node || run->role[p][s].shadow == node;
        }
    }
    return named;
}

/* Does some stage have no copy left among those who live and are still in the run, or are to be waited for? */
static bool some_stage_is_gone(const struct running *run) {
    for (int32_t s = 0; s < run->layout.stages; s++) {
        int32_t copies = 0;
        for (int32_t i = 0; i < culm_sim_worker_count(run->sim); i++) {
            const struct culm_node *node = culm_sim_worker(run->sim, i);
            copies += node && (!run->put_out[i] || culm_history_is_awaited(run, i)) &&
                      !culm_node_is_damaged(node) && culm_node_version(node, s) >= 0;
        }
        if (copies == 0) {
            return true;
        }
    }
    return false;
}

/* A step is being committed: what must hold now? */
static void check_commit(struct running *run, int64_t step) {
    struct culm_pipeline_leader_totals totals;
    culm_history_totals_of(run, &totals);
    const uint64_t now = culm_sim_now(run->sim), took = now - run->step_ns;
    run->copied_on += totals.transfers > 0;
    if (run->step_ns > 0) {
        uint64_t *longest = &run->longest_ns[totals.transfers > 0];
        *longest = took > *longest ? took : *longest;
    }
    run->step_ns = now;
    int32_t workers = culm_sim_worker_count(run->sim);
    for (int32_t s = 0; s < run->layout.stages; s++) {
        int32_t copies = 0;
        for (int32_t i = 0; i < workers; i++) {
            const struct culm_node *node = culm_sim_remains(run->sim, i);
            copies += !run->put_out[i] && culm_node_version(node, s) == step - 1;
        }
        if (copies == 0) {
            culm_history_complain(run, "step %lld was committed and nobody can make stage %d",
                                  (long long)step, s);
        }
    }
    int32_t frames = 2 * run->layout.stages * run->history->shape.micros +
                     run->layout.grad_count * (2 * run->history->shape.lanes + 2);
    for (int32_t i = 0; i < workers; i++) {
        struct culm_node_queues queues = culm_node_queues_of(culm_sim_remains(run->sim, i));
        if (queues.early > frames || queues.early_have > CULM_MAX_NODES ||
            queues.orders > 8 * run->layout.stages + 2 * CULM_MAX_TRANSFERS) {
            culm_history_complain(run, "queues of node %d are long: %d frames, %d HAVE, %d orders",
                                  i, queues.early, queues.early_have, queues.orders);
        }
    }
    for (int32_t i = 0; i < WORKERS_MAX; i++) {
        if (run->owed[i] && ++run->owed[i] > 3) {
            culm_history_complain(run, "node %d is not reported recovered two steps after its loss",
                                  i);
        }
    }
}

static int64_t number(const json_t *event, const char *key) {
    return json_integer_value(json_object_get(event, key));
}

static void note_lost(struct running *run, int32_t node, const char *cause, bool told);

static void note_view(struct running *run, const json_t *event) {
    size_t i;
    json_t *at;
    if (run->begins) {
        culm_history_check_deed(run, CULM_DEED_ROLL_BACK, ++run->rolled_back, "all begin anew");
        run->begins = false;
    }
    run->views++;
    run->deciding = false;
    memset(run->voided, 0, sizeof run->voided);
    run->loading = strcmp(json_string_value(json_object_get(event, "phase")), "load") == 0;
    json_array_foreach(json_object_get(event, "map"), i, at) {
        int64_t p = number(at, "pipeline"), s = number(at, "stage");
        run->owner_before[p][s] = run->views > 1 ? run->role[p][s].owner : -1;
        run->role[p][s] =
            (struct culm_role){(int32_t)number(at, "owner"), (int32_t)number(at, "shadow")};
    }
}

/* --- flipped bits --- */

/* Those after the last step change nothing any more: what is saved was looked at. */
void culm_history_look_for_flips(struct running *run) {
    struct culm_pipeline_leader_totals totals;
    culm_history_totals_of(run, &totals);
    for (int32_t i = 0; i < run->exec_count && i < WORKERS_MAX; i++) {
        int64_t flips = culm_symbolic_flips(run->exec[i]);
        if (flips > run->flips_seen[i]) {
            run->flips += flips - run->flips_seen[i];
            run->flips_seen[i] = flips;
            run->flipped[i] |= !run->put_out[i] && totals.committed < run->history->shape.steps &&
                               run->furthest < run->history->shape.steps;
        }
    }
}

static void note_lost(struct running *run, int32_t node, const char *cause, bool told) {
    culm_history_look_for_flips(run);
    bool noticed = strcmp(cause, "differs") == 0;
    run->left += strcmp(cause, "left") == 0;
    run->gone_before += run->let_go[node] && strcmp(cause, "left") != 0;
    run->let_go[node] = run->let_go[node] || strcmp(cause, "left") == 0;
    if (noticed && run->flips_seen[node] == 0) {
        culm_history_complain(
            run, "node %d was put out because it differs, and nothing was flipped there", node);
    }
    run->noticed += noticed;
    run->unheard[node] |= run->deciding && strcmp(cause, "heartbeat") == 0 && !told;
    run->blind |= run->flipped[node] && !noticed;
    run->flipped[node] = false;
}

/* By one that leads no more: it is out of its view, which may be that of the next one. */
static void note_noticed(struct running *run, int64_t node, const char *cause) {
    if (node >= 0 && node < WORKERS_MAX && strcmp(cause, "differs") == 0) {
        run->noticed += run->flipped[node];
        run->flipped[node] = false;
    }
}

static void note_member(struct running *run, const char *name, int64_t node, bool had_stages,
                        const char *cause, bool told) {
    if (node < 0 || node >= WORKERS_MAX) {
        culm_history_complain(run, "more workers than a history has room for");
        return;
    }
    if (strcmp(name, "lost") == 0) {
        note_lost(run, (int32_t)node, cause, told);
        culm_history_lost(run, (int32_t)node);
        if (run->put_out[node]) {
            culm_history_complain(run, "node %lld was lost twice", (long long)node);
        }
        run->put_out[node] = true;
        run->owed[node] = had_stages;
    } else {
        if (!run->owed[node]) {
            culm_history_complain(run, "node %lld was recovered and had not to be",
                                  (long long)node);
        }
        run->owed[node] = 0;
    }
}

/* An end with an error is honest when the history is made to end like that. */
static void note_error(struct running *run, const char *message) {
    const char *must_say = run->history->must_say;
    run->said = must_say && strstr(message, must_say);
    run->honest = run->said || (run->store->fail_percent > 0 &&
                                strncmp(message, "the last checkpoint could not be ", 33) == 0);
    if (strstr(message, "has not read the samples whose turn it was")) {
        run->misread++;
        run->honest = run->reader;
    }
    if (strstr(message, "it cannot be told which is right")) {
        culm_history_look_for_flips(run);
        run->undecided++;
        run->honest = run->flips > 0;
    }
    int32_t pinched = 0;
    for (int32_t i = 0; i < WORKERS_MAX; i++) {
        pinched += run->pinched[i];
    }
    for (int32_t t = 0; t < run->history->trouble_count; t++) {
        const struct culm_history_trouble *trouble = &run->history->trouble[t];
        bool lasts =
            trouble->failed > 0 && (trouble->times == 0 || trouble->status == CULM_ERR_CHANGED);
        run->troubled |= lasts && strstr(message, DRAWN);
    }
    bool given_up = strncmp(message, "the last checkpoint could not be ", 33) == 0 ||
                    strncmp(message, "write the final model: ", 23) == 0;
    run->honest |= run->stopped_ns && run->refused > 0 && given_up && strstr(message, DRAWN);
    bool unstarted =
        run->history->start_fail_later > 0 && run->steps == 0 && strstr(message, " can start: ");
    run->honest |= run->troubled || unstarted;
    run->honest |=
        pinched >= 3 && strstr(message, " failed, as ") && strstr(message, ": out of memory");
    /* Where so many never end the same task, nobody can tell that it is not the task. */
    run->honest |= run->stuck >= CULM_PATIENCE_TRIES && strstr(message, " were too short; ");
    if (!run->honest) {
        culm_history_complain(run, "error: %s", message);
    }
}

/* For one whose writer was lost, the next version is saved, or the one after it, when its files have gone. */
static void note_checkpoint(struct running *run, int64_t step, const char *why_or_null) {
    if (step < STEPS_MAX) {
        run->told[step] = true;
    }
    if (why_or_null && strcmp(why_or_null, "the previous one is still being written") == 0) {
        return;
    }
    if (run->save_owed && step > run->owed_after + 2) {
        culm_history_complain(
            run, "a checkpoint was given up after step %lld, and that of step %lld came next",
            (long long)run->owed_after, (long long)step);
    }
    run->save_owed =
        why_or_null && strcmp(why_or_null, "a worker was lost while it wrote its part") == 0;
    run->owed_after = run->committed;
}

static bool flips(const struct culm_history *history) {
    bool any = false;
    for (int32_t i = 0; i < history->fault_count; i++) {
        any |= history->fault[i].kind == CULM_FAULT_FLIP;
    }
    return any;
}

/* However often it is told, and by whomever: in a history without flips. */
static void note_loss(struct running *run, int64_t step, const char *bits) {
    run->furthest = step > run->furthest ? step : run->furthest;
    if (step >= STEPS_MAX) {
        return;
    }
    if (run->loss_bits[step][0] && strcmp(run->loss_bits[step], bits) != 0 &&
        !flips(run->history)) {
        culm_history_complain(run, "the loss of step %lld is another one when it is told again",
                              (long long)step);
    }
    snprintf(run->loss_bits[step], sizeof run->loss_bits[0], "%s", bits);
    run->in_curve[step] = true;
}

/* What was told of steps after that one is void. */
void culm_history_cut_curve(struct running *run, int64_t version) {
    for (int64_t step = version + 1; step < STEPS_MAX; step++) {
        run->in_curve[step] = false;
    }
}

static void check_curve(struct running *run) {
    for (int64_t step = run->start_step + 1; step <= run->history->shape.steps; step++) {
        if (!run->in_curve[step]) {
            culm_history_complain(run, "nobody has told of step %lld", (long long)step);
        }
    }
}

static void on_event(void *context, json_t *event) {
    struct running *run = context;
    const char *name = json_string_value(json_object_get(event, "event"));
    if (json_object_get(event, "deposed")) { /* all that counts of it is what nodes have heard */
        if (strcmp(name, "step") == 0) {
            note_loss(run, number(event, "step"),
                      json_string_value(json_object_get(event, "loss_bits")));
        } else if (strcmp(name, "lost") == 0) {
            note_noticed(run, number(event, "node"),
                         json_string_value(json_object_get(event, "cause")));
        } else if (strcmp(name, "checkpoint") == 0 && number(event, "step") < STEPS_MAX) {
            run->told[number(event, "step")] = true;
        }
        return;
    }
    if (strcmp(name, "step") == 0) {
        int64_t step = number(event, "step");
        const char *bits = json_string_value(json_object_get(event, "loss_bits"));
        run->committed = step;
        note_loss(run, step, bits);
        if (json_object_get(event, "again")) { /* as another one that led has committed it */
            return;
        }
        if (run->steps++ == 0 && run->history->start_fail_later > 0) {
            culm_sim_starts_fail(run->sim, run->history->start_fail_later);
        }
        check_commit(run, step);
        culm_history_check_leavers(run);
        culm_history_commits(run, step);
    } else if (strcmp(name, "copied") == 0) {
        run->copies++;
    } else if (strcmp(name, "view") == 0) {
        note_view(run, event);
    } else if (strcmp(name, "lost") == 0 || strcmp(name, "recovered") == 0) {
        note_member(run, name, number(event, "node"),
                    json_array_size(json_object_get(event, "stages")) > 0,
                    json_string_value(json_object_get(event, "cause")),
                    json_object_get(event, "message") != NULL);
        if (json_object_get(event, "message") &&
            strcmp(json_string_value(json_object_get(event, "cause")), "failed") == 0 &&
            !strstr(json_string_value(json_object_get(event, "message")), DRAWN) &&
            !culm_history_may_fail(run, number(event, "node"))) {
            culm_history_complain(run, "node %lld failed: %s", (long long)number(event, "node"),
                                  json_string_value(json_object_get(event, "message")));
        }
    } else if (strcmp(name, "rollback") == 0) {
        run->rollbacks++;
        culm_history_check_deed(run, CULM_DEED_ROLL_BACK, ++run->rolled_back, name);
        run->committed = run->furthest = number(event, "to_step");
        memcpy(run->voided, run->in_curve, sizeof run->voided);
        culm_history_cut_curve(run, run->committed);
        /* It may be newer than what this leader knew of: what was told up to it lies with it. */
        for (int64_t step = 0; step <= run->committed && step < STEPS_MAX; step++) {
            run->in_curve[step] |= run->loss_bits[step][0] != 0;
        }
        for (int64_t step = run->committed + 1; step < STEPS_MAX; step++) {
            run->told[step] = false;
        }
        run->save_owed = false;
        culm_history_look_for_flips(run);
        memset(run->flipped, 0, sizeof run->flipped); /* all of it is loaded anew */
        /* A checkpoint that shows to be damaged while it is loaded takes the state of those who have not got to it yet along:
         * the view in which all load it has made that void. */
        const char *why = json_string_value(json_object_get(event, "reason"));
        const bool voided = run->loading && strstr(why, " is damaged");
        if (!voided && !some_stage_is_gone(run)) {
            culm_history_complain(run, "rolled back although every stage had a copy: %s", why);
        }
    } else if (strcmp(name, "leader") == 0) {
        culm_history_decided(run, json_string_value(json_object_get(event, "reason")));
    } else if (strcmp(name, "misread") == 0) {
        run->samples_lost = number(event, "samples_lost");
        run->samples_repeated = number(event, "samples_repeated");
    } else if (strcmp(name, "held") == 0) {
        run->held = run->was_held = true;
    } else if (strcmp(name, "checkpoint") == 0 && json_is_true(json_object_get(event, "ok"))) {
        run->held = false;
    } else if (strcmp(name, "error") == 0) {
        note_error(run, json_string_value(json_object_get(event, "message")));
    } else if (strcmp(name, "done") == 0) {
        run->done = true;
        culm_history_check_deed(run, CULM_DEED_DONE, 1, name);
        check_curve(run);
        snprintf(run->weights, sizeof run->weights, "%s",
                 json_string_value(json_object_get(event, "weights_sha256")));
        if (number(event, "samples_lost") != 0 || number(event, "samples_repeated") != 0) {
            culm_history_complain(run, "samples were lost or repeated");
        }
    }
    if (strcmp(name, "checkpoint") == 0) {
        note_checkpoint(run, number(event, "step"),
                        json_string_value(json_object_get(event, "message")));
    }
    culm_history_arm(run, name);
}

/* What a task fails with. */
static enum culm_status refuse(void *context, const struct culm_task *task) {
    struct running *run = context;
    for (int32_t t = 0; t < run->history->trouble_count; t++) {
        struct culm_history_trouble *trouble = &run->history->trouble[t];
        if (trouble->kind == task->kind && trouble->met++ >= trouble->after &&
            (trouble->times == 0 || trouble->failed < trouble->times)) {
            trouble->failed++;
            run->refused++;
            return trouble->status;
        }
    }
    return CULM_OK;
}

/* --- building the run --- */

static void *make_worker(void *context, int32_t id, struct culm_world *world,
                         struct culm_blob_pool *pool) {
    struct running *run = context;
    const struct culm_history *history = run->history;
    struct culm_exec **exec = realloc(run->exec, (size_t)(id + 1) * sizeof *exec);
    if (!exec) {
        return NULL;
    }
    run->exec = exec;
    run->exec_count = id + 1;
    exec[id] = culm_symbolic_new(&run->layout, &history->shape, pool, run->store, world, 42);
    const struct culm_node_options options = {.id = id,
                                              .world = world,
                                              .exec = exec[id],
                                              .pool = pool,
                                              .layout = &run->layout,
                                              .shape = history->shape,
                                              .heartbeat_ms = history->settings.crew.heartbeat_ms,
                                              .copy_bytes_per_ms = history->copy_bytes_per_ms,
                                              .copy_window_bytes = history->copy_window_bytes};
    return exec[id] ? culm_node_new(&options) : NULL;
}

static void destroy_worker(void *context, int32_t id, void *actor) {
    struct running *run = context;
    culm_node_free(actor);
    culm_symbolic_free(run->exec[id]);
}

static uint64_t cost_of(void *context, int32_t node, const struct culm_job *job) {
    struct running *run = context;
    const struct culm_history *history = run->history;
    const struct culm_task *task = (const struct culm_task *)job;
    run->backwards += task->kind == CULM_TASK_BACKWARD;
    (void)node;
    bool slow = history->slow_ms && (int32_t)task->kind == history->slow_kind &&
                task->stage == history->slow_stage;
    const bool slice = task->kind == CULM_TASK_EXPORT || task->kind == CULM_TASK_IMPORT;
    if (slice && history->slice_us > 0) {
        return history->slice_us * 1000;
    }
    return slow ? history->slow_ms * 1000000 : job->cost_ns;
}

/* Those who come later are at the end of other links. */
static uint64_t rate_of(void *context, int32_t from, int32_t to) {
    const struct culm_history *history = ((const struct running *)context)->history;
    const int32_t first = history->shape.pipelines * history->shape.stages;
    return from >= first || to >= first ? history->fabric.later_bytes_per_ms : 0;
}

static struct culm_sim_options options_of(struct running *run) {
    const struct culm_history *history = run->history;
    return (struct culm_sim_options){
        .seed = culm_rng_mix(history->seed, (uint64_t)run->start_step),
        .latency_ns = history->latency_us * 1000,
        .jitter_ns = history->jitter_us * 1000,
        .bytes_per_ms = history->fabric.bytes_per_ms,
        .buffer_bytes = history->fabric.buffer_bytes,
        .piece_bytes = history->fabric.piece_bytes,
        .scratch_bytes = history->fabric.scratch_bytes,
        .short_percent = history->fabric.short_percent,
        .backlog_full_percent = history->fabric.backlog_full_percent,
        .exit_ns = history->fabric.exit_us * 1000,
        .orphan_ms = CULM_HISTORY_ORPHAN_MS,
        .outlives = history->outlives,
        .store_ns = 2000000 + history->latency_us * 1000,
        .candidates = history->candidates,
        .lease_ms = history->lease_ms,
        .store_end_ms = history->settings.crew.store_ms
                            ? history->settings.crew.store_ms + CULM_HISTORY_ORPHAN_MS
                            : 0,
        .store_fault_percent = history->store_fault_percent,
        .store_faults_ns = BEGIN_NS + STORE_FAULTS_NS,
        .leads = culm_history_leads,
        .unacked_ns = history->fabric.unacked_ms * 1000000,
        .job_ns = history->job_us * 1000,
        .io_ns = history->job_us * 5000,
        .spawn_ns = 30000000,
        .spawn_max = (int32_t)history->settings.crew.max_nodes,
        .start_fail_percent = history->start_fail_percent,
        .role = {{.context = run,
                  .ops = &culm_node_actor,
                  .make = make_worker,
                  .destroy = destroy_worker}},
        .leader_ops = &culm_pipeline_leader_actor,
        .cost = cost_of,
        .rate = rate_of,
        .event = on_event,
        .event_context = run,
        .fault = culm_history_at_point,
        .moment = culm_history_at_moment,
        .log = history->log,
    };
}

static bool build(struct running *run) {
    struct culm_history *history = run->history;
    if (culm_symbolic_layout_new(&history->shape, history->params_per_stage, &run->layout) !=
        CULM_OK) {
        return false;
    }
    const struct culm_sim_options options = options_of(run);
    run->sim = culm_sim_new(&options);
    if (!run->sim) {
        return false;
    }
    if (!culm_history_begin(run)) {
        return false;
    }
    int32_t wanted = history->shape.pipelines * history->shape.stages;
    for (int32_t i = 0; history->traced && i < wanted; i++) {
        run->add_ns[run->add_count++] = BEGIN_NS + culm_sim_random(run->sim, 200) * 1000000;
    }
    return true;
}

static void tear_down(struct running *run) {
    for (int32_t i = 0; i < run->leader_count; i++) {
        culm_pipeline_leader_free(run->leaders[i]);
        culm_symbolic_free(run->leader_exec[i]);
    }
    size_t left = culm_sim_free(run->sim);
    free(run->exec);
    culm_layout_release(&run->layout);
    if (left > 0) {
        run->complaint[0] = '\0'; /* whatever else: this is never right */
        culm_history_complain(run, "%zu bytes of blobs were never let go", left);
    }
}

static void play(struct running *run) {
    while (!run->complaint[0] && culm_sim_step(run->sim)) {
        culm_history_timed(run);
        uint64_t now = culm_sim_now(run->sim);
        uint64_t calm = run->last_fault_ns ? run->last_fault_ns : BEGIN_NS;
        if (now > calm + LIMIT_MS * 1000000ull) {
            culm_history_totals_of(run, &run->totals);
            culm_history_complain(
                run, "still not done %d s after the last fault; %lld steps committed, view %llu",
                LIMIT_MS / 1000, (long long)run->totals.committed,
                (unsigned long long)run->totals.view);
        }
    }
    culm_history_totals_of(run, &run->totals);
    const char *error = "";
    enum culm_deed how;
    if (culm_sim_wrong(run->sim)) {
        culm_history_complain(run, "%s", culm_sim_wrong(run->sim));
    }
    if (culm_sim_over(run->sim, &how)) {
        run->over = true;
        run->done = how == CULM_DEED_DONE;
    }
    if (!culm_sim_left(run->sim, &run->exit_code, &error)) {
        culm_history_complain(run, "nothing is left to happen and the run is not done");
    } else if (run->exit_code != 75 && !run->honest && (run->exit_code != 0 || !run->done)) {
        culm_history_complain(run, "the run ended with %d: %s", run->exit_code, error);
    }
}

/* The undisturbed run of the same shape: one pipeline, no redundancy, no faults, no failing disk.
 */
static bool reference(const struct culm_history *history, struct culm_symbolic_store *store,
                      struct running *ret_run) {
    struct culm_history *calm = malloc(sizeof *calm);
    if (!calm) {
        return false;
    }
    *calm = *history;
    calm->shape.pipelines = 1;
    calm->shape.redundancy = CULM_REDUNDANCY_NONE;
    calm->fault_count = 0;
    calm->candidates = 0;
    calm->slow_ms = 0;
    calm->must_say = NULL;
    calm->traced = false;
    calm->start_fail_percent = calm->start_fail_later = 0;
    calm->trouble_count = 0;
    calm->settings.checkpoint_every = 0;
    calm->log = false;
    culm_symbolic_store_init(store, history->seed, 0);
    ret_run->history = calm;
    ret_run->store = store;
    if (build(ret_run)) {
        play(ret_run);
    }
    tear_down(ret_run);
    free(calm);
    return !ret_run->complaint[0] && ret_run->done;
}

static void add_totals(struct culm_sim_totals *to, const struct culm_sim_totals *more) {
    to->streams += more->streams;
    to->connects_failed += more->connects_failed;
    to->bytes += more->bytes;
    to->flips += more->flips;
    to->torn += more->torn;
    to->exit_first += more->exit_first;
    to->memory += more->memory;
    to->refused += more->refused;
}

/* One start of the program, until it ends. */
static void attempt(struct running *run, struct culm_history_result *result) {
    if (build(run)) {
        play(run);
        if (!run->complaint[0]) {
            culm_history_judge_end(run);
        }
        result->losses += run->totals.losses;
        result->recovered += run->totals.recovered;
        result->flips += run->flips;
        result->noticed += run->noticed;
        result->undecided += run->undecided;
        result->misread += run->misread;
        if (run->misread) {
            result->samples_lost = run->samples_lost;
            result->samples_repeated = run->samples_repeated;
        }
        result->blind |= run->blind;
        result->refused += run->refused;
        result->due += run->due;
        result->stops += run->stopped_ns > 0;
        result->stop_ms = culm_history_stop_took_ms(run) > result->stop_ms
                              ? culm_history_stop_took_ms(run)
                              : result->stop_ms;
        result->virtual_ms += (culm_sim_now(run->sim) - BEGIN_NS) / 1000000;
    } else {
        culm_history_complain(run, "out of memory");
    }
    if (run->sim) {
        struct culm_sim_totals world;
        culm_sim_totals_of(run->sim, &world);
        add_totals(&result->world, &world);
        result->unstarted += world.unstarted;
        result->came += run->came;
        result->leaders += run->leader_count - 1;
        result->left += run->left;
        result->calm += culm_history_is_calm(run);
        result->stores += run->history->candidates > 0;
        result->away_commits += run->away_commits;
        result->copied_on += run->copied_on;
        result->copies += run->copies;
        result->alone_us = (int64_t)(run->longest_ns[0] / 1000);
        result->copying_us = (int64_t)(run->longest_ns[1] / 1000);
        result->overs += run->over;
    }
    tear_down(run);
    result->rollbacks += run->rollbacks;
    result->views += run->views;
}

/* What is needed for the next start of a run that was stopped, or whose disk failed. */
static void resume(struct running *run, struct culm_history *history) {
    char(*loss_bits)[16] = run->loss_bits;
    struct culm_symbolic_store *store = run->store;
    bool blind = run->blind;
    *run = (struct running){
        .history = history, .store = store, .loss_bits = loss_bits, .blind = blind};
    store->fail_percent = 0;
    store->piece_count = 0; /* whoever resumes cleans up first */
    history->start_fail_percent = history->start_fail_percent < 5 ? history->start_fail_percent : 5;
    history->start_fail_later = 0;
    for (int32_t t = 0; t < history->trouble_count; t++) { /* what failed everywhere is put right */
        history->trouble[t].times = history->trouble[t].times ? history->trouble[t].times : -1;
    }
    store->refuse_context = run;
    if (history->resume_pipelines) {
        history->shape.pipelines = history->resume_pipelines;
        history->shape.redundancy = history->resume_redundancy;
        int32_t wanted = history->shape.pipelines * history->shape.stages;
        if (history->settings.crew.max_nodes < wanted) {
            history->settings.crew.max_nodes = wanted;
        }
    }
}

void culm_history_result_add(struct culm_history_result *sum,
                             const struct culm_history_result *result) {
    sum->losses += result->losses;
    sum->rollbacks += result->rollbacks;
    sum->recovered += result->recovered;
    sum->views += result->views;
    sum->resumes += result->resumes;
    sum->faults_fired += result->faults_fired;
    sum->faults_missed += result->faults_missed;
    for (int i = 0; i < CULM_FAULT_COUNT; i++) {
        sum->kind_fired[i] += result->kind_fired[i];
    }
    for (int i = 0; i < CULM_PHASE_COUNT; i++) {
        sum->phase_fired[i] += result->phase_fired[i];
    }
    sum->flips += result->flips;
    sum->noticed += result->noticed;
    sum->undecided += result->undecided;
    sum->blind += result->blind;
    sum->refused += result->refused;
    sum->due += result->due;
    sum->stops += result->stops;
    sum->unstarted += result->unstarted;
    sum->came += result->came;
    sum->leaders += result->leaders;
    sum->left += result->left;
    sum->calm += result->calm;
    sum->stores += result->stores;
    sum->away_commits += result->away_commits;
    sum->copied_on += result->copied_on;
    sum->copies += result->copies;
    sum->overs += result->overs;
    sum->stop_ms = result->stop_ms > sum->stop_ms ? result->stop_ms : sum->stop_ms;
    add_totals(&sum->world, &result->world);
}

void culm_history_run(struct culm_history *history, struct culm_history_result *ret_result) {
    struct running *run = calloc(1, sizeof *run), *calm = calloc(1, sizeof *calm);
    struct culm_symbolic_store *store = calloc(1, sizeof *store);
    char(*loss_bits)[16] = calloc(2 * STEPS_MAX, sizeof *loss_bits);
    struct culm_history *copy = malloc(sizeof *copy); /* a resumed run has another shape */
    struct culm_history_result result = {0};
    if (!run || !calm || !store || !loss_bits || !copy) {
        snprintf(result.why, sizeof result.why, "out of memory");
        goto out;
    }
    *copy = *history;
    calm->loss_bits = loss_bits + STEPS_MAX;
    if (!reference(copy, store, calm)) {
        snprintf(result.why, sizeof result.why, "the undisturbed run failed: %s", calm->complaint);
        goto out;
    }
    for (int32_t i = 0; i < copy->fault_count; i++) {
        copy->fault[i].fired = copy->fault[i].spent = false;
    }
    culm_symbolic_store_init(store, copy->seed, copy->save_fail_percent);
    store->keep = copy->checkpoint_keep;
    store->refuse = copy->trouble_count > 0 ? refuse : NULL;
    store->refuse_context = run;
    store->may_prune = culm_history_may_prune;
    store->prune_context = run;
    run->history = copy;
    run->store = store;
    run->loss_bits = loss_bits;
    attempt(run, &result);
    if (copy->must_say && !run->said) {
        culm_history_complain(run, "it did not end with '%s'", copy->must_say);
    }
    if (copy->losses_max && result.losses > copy->losses_max) {
        culm_history_complain(run, "%lld losses", (long long)result.losses);
    }
    while (!run->complaint[0] && !run->done && !run->said && result.resumes++ < RESUMES_MAX) {
        resume(run, copy);
        attempt(run, &result);
    }
    if (!run->complaint[0] && !run->said) {
        culm_history_judge(run, calm);
    }
    for (int32_t i = 0; i < copy->fault_count; i++) {
        const struct culm_history_fault *fault = &copy->fault[i];
        history->fault[i].fired = fault->fired;
        result.faults_fired += fault->fired;
        result.faults_missed += !fault->fired;
        result.kind_fired[fault->kind] += fault->fired;
        if (fault->when == CULM_AT_PHASE) {
            result.phase_fired[fault->phase] += fault->fired;
        }
    }
    result.ok = !run->complaint[0];
    snprintf(result.why, sizeof result.why, "%s", run->complaint);
out:
    free(run);
    free(calm);
    free(store);
    free(loss_bits);
    free(copy);
    *ret_result = result;
}
