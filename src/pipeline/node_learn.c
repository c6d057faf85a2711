/*
 * The node: copies that nobody waits for.
 *
 * A *learner* is to hold a stage and does not yet. It asks the source of its transfer for one slice of a tensor after the
 * other (WANT), and gets each as it is after some version v (STATE). Of a tensor that has begun to come it is also sent
 * G of every iteration from then on (LEARN, LESSON), and steps what it has of it, slice by slice at first:
 *
 *   tensor    slices [0, done) at `version`, and perhaps one more at `tail_version`
 *             ─── ADVANCE by G(version + 1), once COMMIT has said the clip factor ───▶ version + 1
 *
 * Meanwhile iterations are committed without it. A tensor that is more than two of them behind, because its G came too
 * late or was lost with its reducer, is begun anew, and so is a slice that comes too late; where lanes wait, so that nobody
 * trains, whatever lacks a G. When all of the stage is at
 * the version before the iteration in progress it is made a state like any other (COMPLETE), the leader is told (DIGESTS,
 * JOINED), and the next view makes it a holder; if a COMMIT comes before that view, it catches up and says so again.
 *
 * What is sent yields to all else, and little of it is under way: a learner asks for a window of slices at a time, no faster
 * than it may (copy_bytes_per_ms), and a reducer sends lessons of no more than two iterations that have not been
 * acknowledged (LEARN.got). Others are left out, and the learner finds that it lacks them.
 */
#include "pipeline/node_internal.h"

#include "base/grow.h"
#include "base/mark.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define WINDOW_BYTES ((size_t)1 << 20) /* asked for at a time, or one slice */
#define BEHIND 2                       /* iterations */
#define LESSONS_UNDER_WAY 2            /* of each gradient that is wanted */

static bool learns(const struct culm_node *node, int32_t stage) {
    return node->stage[stage].incoming.id && !node->stage[stage].held;
}

static struct culm_stage_set learning(const struct culm_node *node) {
    struct culm_stage_set stages = {{0}};
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (learns(node, s)) {
            culm_stage_set_add(&stages, s);
        }
    }
    return stages;
}

static const struct culm_param_desc *param_of(const struct culm_node *node, int32_t stage,
                                              int32_t index) {
    return &node->o.layout->param[node->o.layout->stage[stage].params[index]];
}

static struct learnt *learnt_of(const struct culm_node *node, int32_t stage, int32_t index) {
    return (struct learnt *)&node->stage[stage].incoming.tensor[index];
}

/* --- gradients that are kept --- */

static void kept_clear(struct culm_node *node, struct kept *kept) {
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&kept->grad[g]);
    }
    *kept = (struct kept){.grad = kept->grad};
}

/* NULL: there is none of that iteration. */
static struct kept *kept_of(const struct culm_node *node, int64_t iteration) {
    const struct kept *kept = iteration > 0 ? &node->kept[iteration % KEPT] : NULL;
    return kept && kept->iteration == iteration ? (struct kept *)kept : NULL;
}

static struct kept *kept_begin(struct culm_node *node, int64_t iteration) {
    struct kept *kept = &node->kept[iteration % KEPT];
    if (kept->iteration != iteration) {
        kept_clear(node, kept);
        kept->iteration = iteration;
    }
    return kept;
}

/* --- what has come --- */

/* What was asked for of it does not count any more. */
static void unask(struct culm_node *node, int32_t stage, int32_t index) {
    struct incoming *in = &node->stage[stage].incoming;
    if (in->tensor[index].asked) {
        in->tensor[index].asked = in->tensor[index].came = false;
        in->asked_bytes -=
            culm_param_slice_bytes(param_of(node, stage, index), in->tensor[index].done);
    }
}

static void begin_anew(struct culm_node *node, int32_t stage, int32_t index) {
    struct learnt *tensor = learnt_of(node, stage, index);
    unask(node, stage, index);
    *tensor = (struct learnt){.life = tensor->life + 1};
    node->learn_due = true;
}

/* Nothing that was asked for counts; what is here stays. */
static void forget_asked(struct culm_node *node, int32_t stage) {
    struct incoming *in = &node->stage[stage].incoming;
    for (int32_t i = 0; i < node->o.layout->stage[stage].param_count; i++) {
        unask(node, stage, i);
    }
    in->told = 0;
    node->learn_due = true;
}

static void forget_tensors(struct culm_node *node, int32_t stage) {
    for (int32_t i = 0; i < node->o.layout->stage[stage].param_count; i++) {
        begin_anew(node, stage, i);
    }
    node->stage[stage].incoming.told = 0;
    if (!node->stage[stage].held) {
        node->stage[stage].version = -1;
    }
}

void node_learn_end(struct culm_node *node, int32_t stage) {
    forget_tensors(node, stage);
    struct incoming *in = &node->stage[stage].incoming;
    *in = (struct incoming){.tensor = in->tensor};
    const struct culm_stage_set others = learning(node);
    for (int32_t i = 0; i < KEPT && culm_stage_set_empty(&others); i++) {
        kept_clear(node, &node->kept[i]);
    }
}

void node_learn_begin(struct culm_node *node, const struct culm_transfer *transfer) {
    struct incoming *in = &node->stage[transfer->stage].incoming;
    if (in->id == transfer->id && in->source == transfer->source) {
        return;
    }
    if (in->id) {
        CULM_MARK(pipeline_copy_goes_on_from_another);
        forget_asked(node, transfer->stage);
    } else {
        forget_tensors(node, transfer->stage);
        in->begun_ns = culm_self_now(&node->self);
        in->bytes = 0;
    }
    in->id = transfer->id;
    in->stage = transfer->stage;
    in->source = transfer->source;
}

void node_learn_forget(struct culm_node *node) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (learns(node, s)) {
            forget_tensors(node, s);
        }
    }
    for (int32_t i = 0; i < KEPT; i++) {
        kept_clear(node, &node->kept[i]);
    }
    for (int32_t i = 0; i < node->student_count; i++) {
        memset(node->student[i].sent_in, 0,
               (size_t)node->o.layout->grad_count * sizeof *node->student[i].sent_in);
    }
}

/* G of that iteration, of all uses of the parameter, and what COMMIT said? */
static bool can_step(const struct culm_node *node, int32_t param, int64_t iteration) {
    const struct kept *kept = kept_of(node, iteration);
    if (!kept || !kept->committed) {
        return false;
    }
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        if (node->o.layout->grad[g].param == param && !kept->grad[g]) {
            return false;
        }
    }
    return true;
}

/* Too far; or so that it does not get on by itself, where lanes wait: there is no next iteration, and whoever has sent G of the last
 * ones may be gone. */
static bool is_late(const struct culm_node *node, int32_t param, int64_t version) {
    bool steps = true;
    for (int64_t k = version + 1; k < node->iteration; k++) {
        steps = steps && can_step(node, param, k);
    }
    return version < node->iteration - 1 - BEHIND || (!steps && culm_view_lanes_wait(node->view));
}

/* What is late is begun anew. */
static void drop_late(struct culm_node *node, int32_t stage) {
    const struct culm_stage_desc *desc = &node->o.layout->stage[stage];
    for (int32_t i = 0; i < desc->param_count; i++) {
        struct learnt *tensor = learnt_of(node, stage, i);
        if (tensor->done > 0 && is_late(node, desc->params[i], tensor->version)) {
            CULM_MARK(pipeline_tensor_is_too_far_behind);
            begin_anew(node, stage, i);
        } else if (tensor->tail && is_late(node, desc->params[i], tensor->tail_version)) {
            CULM_MARK(pipeline_slice_is_too_far_behind);
            tensor->tail = false;
            tensor->life++;
        }
    }
}

void node_learn_commit(struct culm_node *node, const struct culm_content *content) {
    const struct culm_stage_set stages = learning(node);
    const int64_t k = content->iteration;
    if (culm_stage_set_empty(&stages)) {
        return;
    }
    struct kept *kept = kept_begin(node, k);
    kept->committed = true;
    kept->clip = content->clip;
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        if (!kept->grad[g] && node->grad[g].reduced && node_needs_grad(node, g, &stages)) {
            kept->grad[g] = culm_blob_ref(node->grad[g].reduced);
        }
    }
    struct kept *old = kept_of(node, k - BEHIND);
    if (old) {
        kept_clear(node, old);
    }
}

void node_learn_on(struct culm_node *node) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        if (learns(node, s)) {
            if (node->stage[s].version != node->iteration - 1) {
                node->stage[s].version = -1;
            }
            drop_late(node, s);
            node->learn_due = true; /* says what has come, too */
        }
    }
}

void node_learn_hold(struct culm_node *node, int32_t stage) {
    const struct culm_stage_set holds = culm_stage_set_of(stage);
    const struct kept *kept = kept_of(node, node->iteration);
    for (int32_t g = 0; g < node->o.layout->grad_count && kept; g++) {
        if (!node->grad[g].reduced && kept->grad[g] && node_needs_grad(node, g, &holds)) {
            CULM_MARK(pipeline_lesson_counts_for_a_holder);
            node->grad[g].reduced = culm_blob_ref(kept->grad[g]);
        }
    }
}

static struct teacher *teacher_of(struct culm_node *node, int32_t id) {
    for (int32_t i = 0; i < node->teacher_count; i++) {
        if (node->teacher[i].id == id) {
            return &node->teacher[i];
        }
    }
    if (!CULM_GROW(node->teacher, node->teacher_capacity, node->teacher_count + 1)) {
        culm_self_fail(&node->self, CULM_ERR_MEMORY, "remember who sends gradients");
        return NULL;
    }
    node->teacher[node->teacher_count] = (struct teacher){.id = id};
    return &node->teacher[node->teacher_count++];
}

void node_lesson(struct culm_node *node, int32_t from, const struct culm_message *message) {
    struct culm_reduced lesson;
    if (culm_reduced_decode(message->meta, message->meta_bytes, &lesson) != CULM_OK ||
        lesson.grad >= node->o.layout->grad_count || !message->payload ||
        message->payload_bytes != node->o.layout->grad[lesson.grad].size_bytes) {
        return;
    }
    node->self.progress++;
    struct teacher *teacher = teacher_of(node, from);
    if (!teacher) {
        return;
    }
    teacher->got++;
    node->learn_got = true;
    const struct culm_stage_set stages = learning(node);
    const int64_t k = lesson.at.iteration;
    if (lesson.at.attempt != node->view->attempt || culm_ids_has(&node->lost, from) ||
        !node_needs_grad(node, lesson.grad, &stages) || k < 1 || k < node->iteration - BEHIND ||
        k > node->iteration + 1 || (k < node->iteration && !kept_of(node, k))) {
        CULM_MARK(pipeline_lesson_is_of_no_use);
        return;
    }
    if (k < node->iteration) {
        CULM_MARK(pipeline_lesson_comes_after_its_commit);
    }
    struct kept *kept = kept_begin(node, k);
    if (!kept->grad[lesson.grad]) {
        kept->grad[lesson.grad] = culm_blob_ref(message->payload);
    }
}

/* --- stepping what has come --- */

static void start_advance(struct culm_node *node, int32_t stage, int32_t index, bool tail) {
    const struct learnt *tensor = learnt_of(node, stage, index);
    const int64_t version = (tail ? tensor->tail_version : tensor->version) + 1;
    const int32_t param = node->o.layout->stage[stage].params[index];
    const struct kept *kept = kept_of(node, version);
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        if (node->o.layout->grad[g].param == param) {
            node->lesson[g] = culm_blob_ref(kept->grad[g]);
        }
    }
    struct culm_task *task = &node->task;
    *task = (struct culm_task){.kind = CULM_TASK_ADVANCE,
                               .stage = stage,
                               .index = index,
                               .from_slice = tail ? tensor->done : 0,
                               .to_slice = tail ? tensor->done + 1 : tensor->done,
                               .node = node->self.id,
                               .iteration = version,
                               .version = version,
                               .resets = node->resets,
                               .grad = node->lesson,
                               .clip = kept->clip};
    node->learn_life = tensor->life;
    node_submit(node, task);
}

static void start_complete(struct culm_node *node, int32_t stage) {
    struct culm_task *task = &node->task;
    *task = (struct culm_task){.kind = CULM_TASK_COMPLETE,
                               .stage = stage,
                               .node = node->self.id,
                               .iteration = node->iteration,
                               .version = node->iteration - 1,
                               .resets = node->resets,
                               .state_digest = node->stage[stage].digest};
    node->learn_life = learnt_of(node, stage, 0)->life;
    node_submit(node, task);
}

/* Takes the slice behind the others to them, when it is where they are. */
static void join_tail(struct learnt *tensor) {
    if (tensor->tail && (tensor->done == 0 || tensor->tail_version == tensor->version)) {
        tensor->version = tensor->tail_version;
        tensor->tail = false;
        tensor->done++;
    }
}

bool node_learn_next(struct culm_node *node) {
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        const struct culm_stage_desc *desc = &node->o.layout->stage[s];
        bool whole = learns(node, s) && node->stage[s].version != node->iteration - 1;
        for (int32_t i = 0; i < desc->param_count && learns(node, s); i++) {
            struct learnt *tensor = learnt_of(node, s, i);
            join_tail(tensor);
            whole = whole && !tensor->tail &&
                    tensor->done == culm_param_slices(param_of(node, s, i)) &&
                    tensor->version == node->iteration - 1;
            const bool tail = tensor->tail && tensor->tail_version < tensor->version;
            const int64_t version = tail ? tensor->tail_version : tensor->version;
            if (tensor->done == 0 || version >= node->iteration - 1 ||
                !can_step(node, desc->params[i], version + 1)) {
                continue;
            }
            if (!node->busy) {
                start_advance(node, s, i, tail);
            }
            return true;
        }
        if (whole) {
            if (!node->busy) {
                start_complete(node, s);
            }
            return true;
        }
    }
    return false;
}

void node_advanced(struct culm_node *node, const struct culm_task *task, bool well) {
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&node->lesson[g]);
    }
    struct learnt *tensor = learnt_of(node, task->stage, task->index);
    if (!well || !learns(node, task->stage) || tensor->life != node->learn_life) {
        CULM_MARK(pipeline_step_of_a_slice_that_went);
        return;
    }
    if (task->from_slice > 0) {
        tensor->tail_version = task->version;
    } else {
        tensor->version = task->version;
    }
}

void node_completed(struct culm_node *node, const struct culm_task *task) {
    if (!learns(node, task->stage) || task->version != node->iteration - 1 ||
        learnt_of(node, task->stage, 0)->life != node->learn_life) {
        CULM_MARK(pipeline_copy_is_complete_too_late);
        return;
    }
    node->stage[task->stage].version = task->version;
}

/* --- asking --- */

/* Says so, once an iteration and transfer, of copies that are whole. */
static void say_joined(struct culm_node *node, int32_t stage) {
    struct incoming *in = &node->stage[stage].incoming;
    if (node->stage[stage].version != node->iteration - 1 || in->told == node->iteration) {
        return;
    }
    in->told = node->iteration;
    const struct culm_stage_set stages = culm_stage_set_of(stage);
    node_tell_digests(node, &stages, node->stage[stage].version);
    const uint64_t took = culm_self_now(&node->self) - in->begun_ns;
    const struct culm_joined joined = {.version = node->stage[stage].version,
                                       .transfer = in->id,
                                       .bytes = in->bytes,
                                       .took_ms = (int64_t)(took / MS)};
    culm_joined_encode(&joined, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_JOINED);
}

/* False: the window is full, or it is too soon. */
static bool ask(struct culm_node *node, int32_t stage, int32_t index) {
    struct incoming *in = &node->stage[stage].incoming;
    struct learnt *tensor = &in->tensor[index];
    const struct culm_param_desc *param = param_of(node, stage, index);
    const size_t window = node->o.copy_window_bytes ? node->o.copy_window_bytes : WINDOW_BYTES;
    const size_t bytes = culm_param_slice_bytes(param, tensor->done);
    const uint64_t now = culm_self_now(&node->self);
    if (in->asked_bytes > 0 && in->asked_bytes + bytes > window) {
        return false;
    }
    if (node->ask_ns > now) {
        CULM_MARK(pipeline_copy_keeps_to_its_rate);
        culm_tell_timer(&node->self.tell, CULM_NODE_TIMER_COPY,
                        (int64_t)((node->ask_ns - now) / MS + 1));
        return false;
    }
    if (node->o.copy_bytes_per_ms > 0) {
        node->ask_ns = now + bytes * MS / node->o.copy_bytes_per_ms;
    }
    in->asked_bytes += bytes;
    tensor->asked = true;
    node->learn_due |= tensor->done == 0;
    const struct culm_want want = {
        .view = node->view->number, .transfer = in->id, .index = index, .slice = tensor->done};
    culm_want_encode(&want, culm_self_meta(&node->self));
    culm_self_send(&node->self, in->source, CULM_MSG_WANT, NULL, 0, 0);
    return true;
}

/* The gradients of what has begun to come. Those that it gets as a holder need not be sent twice. */
static int32_t find_wanted(struct culm_node *node) {
    const struct culm_layout *layout = node->o.layout;
    const struct culm_view_node *self = culm_view_find(node->view, node->self.id);
    int32_t count = 0;
    memset(node->wanted, 0, (size_t)layout->grad_count);
    for (int32_t s = 0; s < layout->stages; s++) {
        for (int32_t i = 0; i < layout->stage[s].param_count && learns(node, s); i++) {
            const struct learnt *tensor = learnt_of(node, s, i);
            for (int32_t g = 0;
                 g < layout->grad_count && (tensor->done || tensor->tail || tensor->asked); g++) {
                if (layout->grad[g].param == layout->stage[s].params[i] && !node->wanted[g] &&
                    !(self && node_needs_grad(node, g, &self->holds))) {
                    node->wanted[g] = 1;
                    count++;
                }
            }
        }
    }
    return count;
}

static void tell_wanted(struct culm_node *node, int32_t reducer) {
    struct teacher *teacher = teacher_of(node, reducer);
    if (teacher) {
        teacher->told = teacher->got;
        const struct culm_learn learn = {.view = node->view->number,
                                         .got = teacher->got,
                                         .grads = node->o.layout->grad_count,
                                         .grad = node->wanted};
        culm_learn_encode(&learn, culm_self_meta(&node->self));
        culm_self_send(&node->self, reducer, CULM_MSG_LEARN, NULL, 0, 0);
    }
}

static void tell_reducers(struct culm_node *node, const struct culm_stage_set *stages) {
    const int32_t grads = node->o.layout->grad_count;
    for (int32_t g = 0; g < grads; g++) {
        const int32_t reducer = node->reducer[g];
        bool again = reducer < 0 || reducer == node->self.id || !node_needs_grad(node, g, stages);
        for (int32_t before = 0; before < g && !again; before++) {
            again = node->reducer[before] == reducer && node_needs_grad(node, before, stages);
        }
        if (!again) {
            tell_wanted(node, reducer);
        }
    }
}

void node_learn(struct culm_node *node) {
    const struct culm_stage_set stages = learning(node);
    if (culm_stage_set_empty(&stages) || node->view->phase != CULM_VIEW_RUN) {
        return;
    }
    for (int32_t s = culm_stage_set_next(&stages, 0); s >= 0;
         s = culm_stage_set_next(&stages, s + 1)) {
        bool room = true;
        for (int32_t i = 0; i < node->o.layout->stage[s].param_count && room; i++) {
            const struct learnt *tensor = learnt_of(node, s, i);
            if (!tensor->asked && !tensor->tail &&
                tensor->done < culm_param_slices(param_of(node, s, i))) {
                room = ask(node, s, i);
            }
        }
        say_joined(node, s);
    }
    if (node->learn_due) {
        node->learn_due = false;
        node->wanted_count = find_wanted(node);
        tell_reducers(node, &stages);
    }
    for (int32_t i = 0; i < node->teacher_count && node->learn_got; i++) {
        if (4 * (node->teacher[i].got - node->teacher[i].told) > node->wanted_count) {
            tell_wanted(node, node->teacher[i].id);
        }
    }
    node->learn_got = false;
}

bool node_state_comes(struct culm_node *node, struct incoming *in, const struct culm_state *state,
                      size_t bytes) {
    struct learnt *tensor = &in->tensor[state->index];
    if (!tensor->asked || tensor->came || state->slice != tensor->done ||
        bytes != culm_param_slice_bytes(param_of(node, in->stage, state->index), state->slice)) {
        return false;
    }
    tensor->came = true;
    in->bytes += (int64_t)bytes;
    return true;
}

void node_imported(struct culm_node *node, struct incoming *in, const struct culm_task *task) {
    struct learnt *tensor = &in->tensor[task->index];
    if (tensor->life != node->learn_life || task->from_slice != tensor->done) {
        CULM_MARK(pipeline_slice_of_a_tensor_that_was_begun_anew);
        return;
    }
    unask(node, in->stage, task->index);
    tensor->tail = true;
    tensor->tail_version = task->version;
    join_tail(tensor);
    drop_late(node, in->stage);
}

/* --- those who learn from this node --- */

static struct student *student_of(struct culm_node *node, int32_t id) {
    for (int32_t i = 0; i < node->student_count; i++) {
        if (node->student[i].id == id) {
            return &node->student[i];
        }
    }
    return NULL;
}

static void student_free(struct student *student) {
    free(student->grad);
    free(student->sent_in);
}

/* NULL: out of memory, and this node has failed. */
static struct student *student_new(struct culm_node *node, int32_t id) {
    const size_t grads = (size_t)node->o.layout->grad_count;
    struct student student = {
        .id = id, .grad = calloc(grads, 1), .sent_in = calloc(grads, sizeof *student.sent_in)};
    if (!student.grad || !student.sent_in ||
        !CULM_GROW(node->student, node->student_capacity, node->student_count + 1)) {
        student_free(&student);
        culm_self_fail(&node->self, CULM_ERR_MEMORY, "remember who learns");
        return NULL;
    }
    node->student[node->student_count] = student;
    return &node->student[node->student_count++];
}

void node_learner(struct culm_node *node, int32_t from, const struct culm_message *message) {
    struct culm_learn learn = {.grads = node->o.layout->grad_count, .grad = node->wanted_there};
    if (culm_learn_decode(message->meta, message->meta_bytes, &learn) != CULM_OK ||
        culm_ids_has(&node->lost, from)) {
        return;
    }
    struct student *student = student_of(node, from);
    student = student ? student : student_new(node, from);
    if (!student) {
        return;
    }
    if (learn.view > student->view) { /* what was under way may have been lost */
        student->view = learn.view;
        student->sent = learn.got;
    }
    student->got = learn.got;
    memcpy(student->grad, learn.grad, (size_t)learn.grads);
}

void node_learn_push(struct culm_node *node) {
    const int32_t grads = node->o.layout->grad_count;
    for (int32_t i = 0; i < node->student_count && node->reduces; i++) {
        struct student *student = &node->student[i];
        int32_t wanted = 0;
        for (int32_t g = 0; g < grads; g++) {
            wanted += student->grad[g] && node->reducer[g] == node->self.id;
        }
        for (int32_t g = 0; g < grads && wanted > 0; g++) {
            if (!student->grad[g] || node->reducer[g] != node->self.id || !node->grad[g].reduced ||
                student->sent_in[g] == node->iteration) {
                continue;
            }
            if (student->sent - student->got >= LESSONS_UNDER_WAY * wanted) {
                CULM_MARK(pipeline_lesson_is_left_out);
                break;
            }
            student->sent++;
            student->sent_in[g] = node->iteration;
            const struct culm_reduced lesson = {.at = {node->iteration, node->view->attempt},
                                                .grad = g};
            culm_reduced_encode(&lesson, culm_self_meta(&node->self));
            culm_self_send_yielding(&node->self, student->id, CULM_MSG_LESSON,
                                    node->grad[g].reduced, 0, node->o.layout->grad[g].size_bytes);
        }
    }
}

/* Does the view say that it is sent copies? */
static bool still_learns(const struct culm_view *view, int32_t id) {
    for (int32_t t = 0; t < view->transfer_count; t++) {
        if (view->transfer[t].destination == id) {
            return true;
        }
    }
    return false;
}

void node_learn_view(struct culm_node *node, bool afresh) {
    const struct culm_view *view = node->view;
    int32_t kept = 0;
    for (int32_t i = 0; i < node->student_count; i++) {
        struct student *student = &node->student[i];
        if (student->view <= view->number && !still_learns(view, student->id)) {
            CULM_MARK(pipeline_learner_is_none_any_more);
            student_free(student);
        } else {
            node->student[kept++] = *student;
        }
    }
    node->student_count = kept;
    kept = 0;
    for (int32_t i = 0; i < node->teacher_count; i++) {
        if (culm_view_find(view, node->teacher[i].id)) {
            node->teacher[kept++] = node->teacher[i];
        }
    }
    node->teacher_count = kept;
    for (int32_t i = 0; i < KEPT && afresh; i++) {
        if (node->kept[i].iteration >= view->iteration) {
            kept_clear(node, &node->kept[i]);
        }
    }
    for (int32_t i = 0; i < node->student_count && afresh; i++) {
        memset(node->student[i].sent_in, 0,
               (size_t)node->o.layout->grad_count * sizeof *node->student[i].sent_in);
    }
    node->reduces = false;
    for (int32_t g = 0; g < node->o.layout->grad_count; g++) {
        node->reduces |= node->reducer[g] == node->self.id;
    }
    node->learn_due = true;
}

bool node_learn_init(struct culm_node *node) {
    const size_t grads = (size_t)node->o.layout->grad_count;
    bool room = true;
    for (int32_t s = 0; s < node->o.layout->stages; s++) {
        struct incoming *in = &node->stage[s].incoming;
        in->tensor = calloc((size_t)node->o.layout->stage[s].param_count + 1, sizeof *in->tensor);
        room &= in->tensor != NULL;
    }
    for (int32_t i = 0; i < KEPT; i++) {
        node->kept[i].grad = calloc(grads, sizeof(struct culm_blob *));
        room &= node->kept[i].grad != NULL;
    }
    node->lesson = calloc(grads, sizeof(struct culm_blob *));
    node->wanted = calloc(grads, 1);
    node->wanted_there = calloc(grads, 1);
    return room && node->lesson && node->wanted && node->wanted_there;
}

void node_learn_release(struct culm_node *node) {
    for (int32_t s = 0; node->stage && s < node->o.layout->stages; s++) {
        free(node->stage[s].incoming.tensor);
    }
    for (int32_t i = 0; i < KEPT; i++) {
        if (node->kept[i].grad) {
            kept_clear(node, &node->kept[i]);
        }
        free(node->kept[i].grad);
    }
    for (int32_t g = 0; node->lesson && g < node->o.layout->grad_count; g++) {
        culm_blob_clear(&node->lesson[g]);
    }
    for (int32_t i = 0; i < node->student_count; i++) {
        student_free(&node->student[i]);
    }
    free(node->lesson);
    free(node->wanted);
    free(node->wanted_there);
    free(node->student);
    free(node->teacher);
}
