/*
 * The numeric executor: computes a step of an interval, that is, runs a stage forward, backward, or
 * both. See numeric.h.
 *
 * A step that streams is always computed block by block (layout.h), whether a task covers one block
 * or all of them. Gradients of weights and totals are summed over blocks in order, so the bits are
 * the same either way. Since a stage's values for a whole block may exceed the caches, blocks go
 * through stages in pieces (model.h).
 */
#include "gnn/numeric_internal.h"

#include "interval/roc.h"

#include <string.h>

/* Rows that go through a stage together: a piece of a block. */
struct block {
    int64_t first, count;
    const struct culm_stage_rows *rows; /* NULL: as many as the stage was compiled for */
    const void *in, *d_in;              /* its rows, and rows of gradients; NULL: none */
    bool begins;                        /* it is the first one of the interval: starts the sums */
    int32_t piece, pieces;              /* its number, and how many there are */
};

/* Scales rows that will be gathered: by D^-1/2 (gcn), or, backward through a mean, by one over the
 * number of neighbours (sage). */
static void scale_rows(struct culm_gnn_numeric *x, const struct gnn_input *input,
                       const struct block *block, float *rows, const struct culm_gnn_border *border,
                       bool back) {
    enum culm_gnn_arch arch = x->o.config->model.arch;
    const struct culm_shape shape = {2, {block->count, border->width}};
    const struct culm_shape column = {2, {block->count, 1}};
    const float *scale = input->scale ? input->scale + block->first : NULL;
    if (arch == CULM_GNN_GCN) {
        CULM_RUN(x->o.device, binary, .y = culm_out_f32(rows), .a = culm_in_f32(rows),
                 .b = culm_in_f32(scale), .a_shape = &shape, .b_shape = &column,
                 .function = CULM_FUNCTION_MUL);
    } else if (arch == CULM_GNN_SAGE && back) {
        for (int64_t r = 0; r < block->count; r++, rows += border->width) {
            for (int64_t c = 0; c < border->sent; c++) {
                rows[c] *= scale[r];
            }
        }
    }
}

static enum culm_status check_rows(struct culm_gnn_task *task, const struct culm_blob *rows,
                                   size_t want, const char *what) {
    return rows && rows->size_bytes == want
               ? CULM_OK
               : gnn_wrong_rows(task, what, rows ? rows->size_bytes : 0, want);
}

/* Checks the sizes of what the task is given, for n rows. */
static enum culm_status check(struct culm_gnn_numeric *x, struct culm_gnn_task *task, int64_t n) {
    const struct culm_gnn_model *m = x->o.model;
    const struct culm_gnn_step *step = &x->o.layout->step[task->step];
    enum culm_status status = CULM_OK;
    size_t want = (size_t)x->weights * sizeof(float);
    if (!task->weights || task->weights->size_bytes != want) {
        return gnn_wrong_rows(task, "weights", task->weights ? task->weights->size_bytes : 0, want);
    }
    if (step->stage > 0) {
        bool training = step->kind != CULM_GNN_EVALUATE && step->kind != CULM_GNN_SCORE;
        status =
            check_rows(task, task->rows,
                       gnn_gathered_bytes(m, &m->border[step->stage - 1], n, training), "rows");
    }
    if (status == CULM_OK && step->kind == CULM_GNN_BACKWARD) {
        status = check_rows(task, task->d_rows,
                            gnn_gathered_bytes(m, &m->border[step->stage], n, false), "gradients");
    }
    return status;
}

/* Fills in the inputs of a stage's run. */
static enum culm_status prepare(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                struct gnn_input *input, const struct block *block, int purpose,
                                const void *field[CULM_GNN_FIELDS],
                                struct culm_stage_run *ret_run) {
    const struct culm_gnn_model *m = x->o.model;
    int32_t stage = x->o.layout->step[task->step].stage;
    const struct culm_stage_info *info = culm_stage_info_of(m->stage[purpose][stage]);
    enum culm_status status =
        gnn_need_room(x, &x->activations, info->activation_bytes, &task->job.error);
    if (status == CULM_OK) {
        status = gnn_need_room(x, &x->scratch, info->scratch_bytes, &task->job.error);
    }
    const float *rows = NULL;
    if (status == CULM_OK && stage == 0) {
        status = gnn_spill_load(x, task, input);
    }
    if (status == CULM_OK && stage > 0) {
        bool keeps = purpose == CULM_GNN_FOR_TRAINING;
        status = gnn_widen(x, &x->wide[0], block->in,
                           gnn_gathered_count(&m->border[stage - 1], block->count, keeps), &rows,
                           &task->job.error);
    }
    if (status != CULM_OK) {
        return status;
    }
    int64_t at = block->first * m->plan.columns;
    int fields = 0;
    field[fields++] = input->dense ? (const void *)(input->dense + at) : &input->sparse;
    if (m->own_features) {
        field[fields++] = input->own_dense ? input->own_dense + at : NULL;
    }
    field[fields] = input->train_label + block->first;
    *ret_run = (struct culm_stage_run){
        .seed = x->o.config->seed,
        .iteration = (uint64_t)task->epoch,
        .sample_id = input->id + block->first,
        .params = (const float *)task->weights->data + m->weights_at[stage],
        .rows = block->rows,
        .fields = field,
        .input = rows,
        .loss_scale = 1 / (double)m->plan.train,
        .activations = x->activations.data,
        .scratch = x->scratch.data,
    };
    return CULM_OK;
}

static enum culm_status make_output(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                    const struct gnn_input *input, int64_t width) {
    return gnn_blob(x, (size_t)input->n * (size_t)width * gnn_element(x), &task->output,
                    &task->job.error);
}

/* Where the block's rows of the output begin. */
static void *made_at(const struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
                     const struct block *block, int64_t width) {
    return (char *)task->output->data + (size_t)(block->first * width) * gnn_element(x);
}

static enum culm_status forward(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                struct gnn_input *input, const struct block *block, int purpose) {
    const struct culm_gnn_model *m = x->o.model;
    int32_t stage = x->o.layout->step[task->step].stage;
    int64_t width = m->border[stage].width, count = block->count * width;
    const void *field[CULM_GNN_FIELDS];
    struct culm_stage_run run;
    enum culm_status status = prepare(x, task, input, block, purpose, field, &run);
    if (status == CULM_OK && block->begins) {
        status = make_output(x, task, input, width);
    }
    float *made = NULL;
    if (status == CULM_OK) {
        status = gnn_make(x, &x->wide[1], made_at(x, task, block, width), count, &made,
                          &task->job.error);
    }
    const struct culm_stage_info *info = culm_stage_info_of(m->stage[purpose][stage]);
    void *keep = status == CULM_OK && purpose == CULM_GNN_FOR_TRAINING
                     ? gnn_keep(x, task, input, info, block->piece, block->pieces)
                     : NULL;
    if (status == CULM_OK) {
        run.activations = keep ? keep : run.activations;
        run.output = made;
        status = culm_stage_forward(m->stage[purpose][stage], x->o.device, &run);
    }
    if (status == CULM_OK && keep) {
        gnn_keep_made(input, stage, block->piece);
    }
    if (status == CULM_OK) {
        scale_rows(x, input, block, made, &m->border[stage], false);
        gnn_narrow(x, made_at(x, task, block, width), made, count);
    }
    return status;
}

/* Computes the gradient of the stage's weights, and, if a gather reads it, that of its rows. */
static enum culm_status backward(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                 struct gnn_input *input, const struct block *block) {
    const struct culm_gnn_model *m = x->o.model;
    const struct culm_gnn_step *step = &x->o.layout->step[task->step];
    const struct culm_stage *stage = m->stage[CULM_GNN_FOR_TRAINING][step->stage];
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    size_t gradient_bytes = x->o.layout->gradient_bytes[step->stage];
    const struct culm_gnn_border *before = step->stage > 0 ? &m->border[step->stage - 1] : NULL;
    bool attention = before && before->heads > 0;
    const void *field[CULM_GNN_FIELDS];
    struct culm_stage_run run;
    enum culm_status status = prepare(x, task, input, block, CULM_GNN_FOR_TRAINING, field, &run);
    if (status == CULM_OK && block->begins && step->makes >= 0) {
        status = make_output(x, task, input, before->d_width);
    }
    if (status == CULM_OK && block->begins && gradient_bytes > 0) {
        status = gnn_blob(x, gradient_bytes, &task->gradient, &task->job.error);
    }
    size_t bytes = info->output_bytes > info->input_bytes ? info->output_bytes : info->input_bytes;
    if (status == CULM_OK && bytes > 0) {
        status = gnn_need_room(x, &x->made, bytes, &task->job.error);
    }
    const float *d_rows = NULL;
    float *made = NULL;
    if (status == CULM_OK && task->d_rows) {
        status = gnn_widen(x, &x->wide[1], block->d_in, block->count * m->border[step->stage].width,
                           &d_rows, &task->job.error);
    }
    if (status == CULM_OK && task->output) {
        status = gnn_make(x, &x->wide[2], made_at(x, task, block, before->d_width),
                          block->count * before->d_width, &made, &task->job.error);
    }
    if (status != CULM_OK) {
        return status;
    }
    run.d_output = d_rows;
    void *kept =
        step->kind == CULM_GNN_BACKWARD ? gnn_find_kept(x, task, input, info, block->piece) : NULL;
    run.activations = kept ? kept : run.activations;
    /* Forward is computed again if backward needs its activations and they were not kept. */
    if (step->kind == CULM_GNN_LOSS || (info->activation_bytes > 0 && !kept)) {
        run.output = x->made.data;
        status = culm_stage_forward(stage, x->o.device, &run);
    }
    if (gradient_bytes > 0) {
        if (block->begins) {
            /* padding between tensors too, so that equal gradients are equal blobs */
            memset(task->gradient->data, 0, gradient_bytes);
        }
        run.grads = task->gradient->data;
    }
    run.first = block->begins;
    /* A scratch buffer if the gradient of rows is not wanted, or has to be converted. */
    run.d_input = task->output && !attention ? made : x->made.data;
    if (status == CULM_OK) {
        status = culm_stage_backward(stage, x->o.device, &run);
    }
    if (kept) {
        gnn_kept_read(x, input, step->stage, block->piece);
    }
    if (status == CULM_OK && step->kind == CULM_GNN_LOSS) {
        task->totals.loss += run.loss.loss;
    }
    if (status == CULM_OK && task->output) {
        scale_rows(x, input, block, run.d_input, before, true);
        if (attention) {
            gnn_attention_rows(before, block->count, run.d_input, run.input, made);
        }
        gnn_narrow(x, made_at(x, task, block, before->d_width), made,
                   block->count * before->d_width);
    }
    return status;
}

/* Makes scores, logit of class 1 minus logit of class 0. */
static void score_rows(const struct gnn_input *input, const float *logits,
                       struct culm_gnn_scored *ret_scored) {
    for (int64_t r = 0; r < input->n; r++) {
        bool used = input->use[r] != CULM_GRAPH_UNUSED;
        ret_scored[r] = (struct culm_gnn_scored){
            .score = logits[2 * r + 1] - logits[2 * r],
            .what = used ? culm_gnn_scored_what((uint32_t)input->use[r] - CULM_GRAPH_TRAIN,
                                                (uint32_t)input->label[r])
                         : 0};
    }
}

static enum culm_status score(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                              struct gnn_input *input, const struct block *block) {
    const struct culm_gnn_model *m = x->o.model;
    const struct culm_stage *stage = m->stage[CULM_GNN_FOR_EVALUATION][m->stages - 1];
    const void *field[CULM_GNN_FIELDS];
    struct culm_stage_run run;
    enum culm_status status = prepare(x, task, input, block, CULM_GNN_FOR_EVALUATION, field, &run);
    if (status == CULM_OK) {
        status =
            gnn_need_room(x, &x->made, (size_t)input->n * (size_t)m->plan.classes * sizeof(float),
                          &task->job.error);
    }
    bool scores = !x->give_logits && x->o.layout->scores;
    if (status == CULM_OK && x->give_logits) {
        status = gnn_blob(x, (size_t)(input->n * m->plan.classes) * sizeof(float), &task->output,
                          &task->job.error);
    } else if (status == CULM_OK && scores) {
        status = gnn_blob(x, (size_t)input->n * sizeof(struct culm_gnn_scored), &task->output,
                          &task->job.error);
    }
    if (status == CULM_OK) {
        status = gnn_need_room(x, &x->index, (size_t)input->n * sizeof(int32_t), &task->job.error);
    }
    if (status != CULM_OK) {
        return status;
    }
    run.output = x->give_logits ? task->output->data : x->made.data;
    status = culm_stage_forward(stage, x->o.device, &run);
    if (status != CULM_OK) {
        return status;
    }
    const int32_t *index = x->index.data;
    CULM_RUN(x->o.device, argmax, .index = x->index.data, .x = culm_in_f32(run.output),
             .n = input->n, .c = m->plan.classes);
    for (int64_t r = 0; r < input->n; r++) {
        if (input->use[r] != CULM_GRAPH_UNUSED) {
            task->totals.correct[input->use[r] - CULM_GRAPH_TRAIN] += index[r] == input->label[r];
        }
    }
    if (scores) {
        score_rows(input, run.output, task->output->data);
    }
    return CULM_OK;
}

static enum culm_status apply_block(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                    struct gnn_input *input, const struct block *block) {
    switch (x->o.layout->step[task->step].kind) {
    case CULM_GNN_FORWARD: return forward(x, task, input, block, CULM_GNN_FOR_TRAINING);
    case CULM_GNN_EVALUATE: return forward(x, task, input, block, CULM_GNN_FOR_EVALUATION);
    case CULM_GNN_LOSS:
    case CULM_GNN_BACKWARD: return backward(x, task, input, block);
    case CULM_GNN_SCORE: return score(x, task, input, block);
    }
    return CULM_ERR_INTERNAL;
}

/* Computes block `b` of `blocks`, piece by piece. The task's rows begin with row `given` of the
 * interval. */
static enum culm_status apply_pieces(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                     struct gnn_input *input, int32_t blocks, int32_t b,
                                     int64_t given) {
    const struct culm_gnn_step *step = &x->o.layout->step[task->step];
    const struct culm_gnn_border *border = x->o.model->border;
    bool evaluates = step->kind == CULM_GNN_EVALUATE || step->kind == CULM_GNN_SCORE;
    int purpose = evaluates ? CULM_GNN_FOR_EVALUATION : CULM_GNN_FOR_TRAINING;
    int64_t each = x->o.model->stage_rows[purpose][step->stage], first;
    int64_t most = culm_gnn_layout_block(x->o.layout, input->n, blocks, 0, &first);
    int64_t count = culm_gnn_layout_block(x->o.layout, input->n, blocks, b, &first);
    int32_t pieces = (int32_t)((most + each - 1) / each), piece = b * pieces;
    const struct culm_stage_rows *last =
        blocks > 1 ? input->block_rows[purpose][step->stage][b == blocks - 1]
                   : input->rows[purpose][step->stage];
    enum culm_status status = CULM_OK;
    for (int64_t done = 0; done < count && status == CULM_OK; done += each, piece++) {
        bool whole = count - done >= each;
        struct block block = {.first = first + done,
                              .count = whole ? each : count - done,
                              .rows = whole ? NULL : last,
                              .begins = b == 0 && done == 0,
                              .piece = piece,
                              .pieces = blocks * pieces};
        size_t at = (size_t)(block.first - given) * gnn_element(x);
        if (task->rows) {
            block.in = (const char *)task->rows->data + at * (size_t)border[step->stage - 1].width;
        }
        if (task->d_rows) {
            block.d_in = (const char *)task->d_rows->data + at * (size_t)border[step->stage].width;
        }
        status = apply_block(x, task, input, &block);
    }
    return status;
}

enum culm_status gnn_apply(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    struct gnn_input *input;
    enum culm_status status = gnn_find_input(x, task, &input);
    int64_t given = 0, n = status == CULM_OK ? input->n : 0, count = n;
    int32_t blocks = culm_gnn_layout_blocks(x->o.layout, task->step, n);
    int32_t from = task->block > 0 ? task->block - 1 : 0, to = task->block > 0 ? from + 1 : blocks;
    if (status == CULM_OK && from >= blocks) {
        return culm_error_set(&task->job.error, CULM_ERR_INTERNAL, "block %d of %d", from, blocks);
    }
    if (status == CULM_OK && task->block > 0) {
        count = culm_gnn_layout_block(x->o.layout, n, blocks, from, &given);
    }
    if (status == CULM_OK) {
        status = check(x, task, count);
    }
    if (from == 0) {
        task->totals = (struct culm_gnn_totals){0};
    }
    const struct culm_gnn_step *step = &x->o.layout->step[task->step];
    gnn_kept_old(x, task->epoch);
    if (status == CULM_OK && step->kind == CULM_GNN_BACKWARD) {
        gnn_kept_meet(task, input, step->stage);
    }
    for (int32_t b = from; b < to && status == CULM_OK; b++) {
        status = apply_pieces(x, task, input, blocks, b, given);
    }
    return status;
}
