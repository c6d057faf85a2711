/* Encoding and decoding of protocol messages. */
#include "pipeline/message.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status finished(const struct culm_reader *reader) {
    return culm_reader_done(reader) ? CULM_OK : CULM_ERR_FORMAT;
}

/* Reads a number in [low, high]; anything else fails the reader. */
static int32_t read_within(struct culm_reader *in, int32_t low, int32_t high) {
    int32_t value = culm_read_i32(in);
    if (value < low || value > high) {
        in->failed = true;
        return low;
    }
    return value;
}

static void moment_encode(const struct culm_moment *at, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)at->iteration);
    culm_buf_u32(buf, at->attempt);
}

static struct culm_moment read_moment(struct culm_reader *in) {
    struct culm_moment at = {.iteration = culm_read_count(in)};
    at.attempt = culm_read_u32(in);
    return at;
}

void culm_boundary_encode(const struct culm_boundary *boundary, struct culm_buf *buf) {
    moment_encode(&boundary->at, buf);
    culm_buf_i32(buf, boundary->stage);
    culm_buf_i32(buf, boundary->micro);
}

enum culm_status culm_boundary_decode(const uint8_t *meta, size_t len,
                                      struct culm_boundary *ret_boundary) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_boundary boundary = {.at = read_moment(&in)};
    boundary.stage = read_within(&in, 0, INT32_MAX);
    boundary.micro = read_within(&in, 0, INT32_MAX);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_boundary = boundary;
    return CULM_OK;
}

void culm_sum_encode(const struct culm_sum *sum, struct culm_buf *buf) {
    moment_encode(&sum->at, buf);
    culm_buf_i32(buf, sum->grad);
    culm_buf_i32(buf, sum->tree_node);
}

enum culm_status culm_sum_decode(const uint8_t *meta, size_t len, struct culm_sum *ret_sum) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_sum sum = {.at = read_moment(&in)};
    sum.grad = read_within(&in, 0, INT32_MAX);
    sum.tree_node = read_within(&in, 0, INT32_MAX);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_sum = sum;
    return CULM_OK;
}

void culm_reduced_encode(const struct culm_reduced *reduced, struct culm_buf *buf) {
    moment_encode(&reduced->at, buf);
    culm_buf_i32(buf, reduced->grad);
}

enum culm_status culm_reduced_decode(const uint8_t *meta, size_t len,
                                     struct culm_reduced *ret_reduced) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_reduced reduced = {.at = read_moment(&in)};
    reduced.grad = read_within(&in, 0, INT32_MAX);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_reduced = reduced;
    return CULM_OK;
}

void culm_state_encode(const struct culm_state *state, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)state->version);
    culm_buf_u32(buf, state->transfer);
    culm_buf_i32(buf, state->index);
    culm_buf_u64(buf, state->digest);
}

enum culm_status culm_state_decode(const uint8_t *meta, size_t len, struct culm_state *ret_state) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_state state = {.version = culm_read_count(&in)};
    state.transfer = culm_read_u32(&in);
    state.index = read_within(&in, 0, INT32_MAX);
    state.digest = culm_read_u64(&in);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_state = state;
    return CULM_OK;
}

enum culm_status culm_have_init(struct culm_have *have, int32_t stages, int32_t micros,
                                int32_t grads) {
    *have = (struct culm_have){.stages = stages, .micros = micros, .grads = grads};
    have->activation = calloc((size_t)stages * (size_t)micros, 1);
    have->gradient = calloc((size_t)stages * (size_t)micros, 1);
    have->reduced = calloc((size_t)grads, 1);
    have->lanes = calloc((size_t)grads, sizeof *have->lanes);
    if (!have->activation || !have->gradient || !have->reduced || !have->lanes) {
        culm_have_release(have);
        return CULM_ERR_MEMORY;
    }
    return CULM_OK;
}

void culm_have_release(struct culm_have *have) {
    free(have->activation);
    free(have->gradient);
    free(have->reduced);
    free(have->lanes);
    *have = (struct culm_have){0};
}

void culm_have_encode(const struct culm_have *have, struct culm_buf *buf) {
    size_t cells = (size_t)have->stages * (size_t)have->micros;
    culm_buf_u64(buf, have->view);
    culm_buf_u64(buf, (uint64_t)have->iteration);
    culm_buf_i32(buf, have->stages);
    culm_buf_i32(buf, have->micros);
    culm_buf_i32(buf, have->grads);
    culm_buf_bytes(buf, have->activation, cells);
    culm_buf_bytes(buf, have->gradient, cells);
    culm_buf_bytes(buf, have->reduced, (size_t)have->grads);
    for (int32_t g = 0; g < have->grads; g++) {
        culm_buf_u64(buf, have->lanes[g]);
    }
}

enum culm_status culm_have_decode(const uint8_t *meta, size_t len, struct culm_have *ret_have) {
    struct culm_reader in = culm_reader_of(meta, len);
    uint64_t view = culm_read_u64(&in);
    int64_t iteration = culm_read_count(&in);
    if (culm_read_i32(&in) != ret_have->stages || culm_read_i32(&in) != ret_have->micros ||
        culm_read_i32(&in) != ret_have->grads) {
        return CULM_ERR_FORMAT;
    }
    size_t cells = (size_t)ret_have->stages * (size_t)ret_have->micros;
    culm_read_bytes(&in, ret_have->activation, cells);
    culm_read_bytes(&in, ret_have->gradient, cells);
    culm_read_bytes(&in, ret_have->reduced, (size_t)ret_have->grads);
    for (int32_t g = 0; g < ret_have->grads; g++) {
        ret_have->lanes[g] = culm_read_u64(&in);
    }
    ret_have->view = view;
    ret_have->iteration = iteration;
    return finished(&in);
}

void culm_view_encode(const struct culm_view *view, struct culm_buf *buf) {
    culm_buf_u64(buf, view->number);
    culm_buf_u8(buf, (uint8_t)view->phase);
    culm_buf_u64(buf, (uint64_t)view->iteration);
    culm_buf_u32(buf, view->attempt);
    culm_buf_u8(buf, view->frc);
    culm_buf_i32(buf, view->pipelines);
    culm_buf_i32(buf, view->stages);
    culm_buf_i32(buf, view->lanes);
    for (int32_t p = 0; p < view->pipelines; p++) {
        for (int32_t s = 0; s < view->stages; s++) {
            culm_buf_i32(buf, view->role[p][s].owner);
            culm_buf_i32(buf, view->role[p][s].shadow);
        }
    }
    for (int32_t l = 0; l < view->lanes; l++) {
        culm_buf_i32(buf, view->lane_pipeline[l]);
    }
    culm_buf_i32(buf, view->node_count);
    for (int32_t i = 0; i < view->node_count; i++) {
        culm_buf_i32(buf, view->node[i].id);
        culm_buf_i32(buf, view->node[i].pipeline);
        culm_buf_i32(buf, view->node[i].stage);
        culm_buf_u64(buf, view->node[i].holds);
    }
    culm_buf_i32(buf, view->transfer_count);
    for (int32_t i = 0; i < view->transfer_count; i++) {
        culm_buf_u32(buf, view->transfer[i].id);
        culm_buf_i32(buf, view->transfer[i].source);
        culm_buf_i32(buf, view->transfer[i].destination);
        culm_buf_i32(buf, view->transfer[i].stage);
    }
    culm_buf_string(buf, view->reason);
    culm_buf_string(buf, view->source);
}

enum culm_status culm_view_decode(const uint8_t *meta, size_t len,
                                  const struct culm_run_shape *shape, struct culm_view *ret_view) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_view *view = calloc(1, sizeof *view); /* too large for a small stack */
    if (!view) {
        return CULM_ERR_MEMORY;
    }
    view->number = culm_read_u64(&in);
    uint8_t phase = culm_read_u8(&in);
    view->phase = phase == CULM_VIEW_LOAD ? CULM_VIEW_LOAD : CULM_VIEW_RUN;
    view->iteration = culm_read_count(&in);
    view->attempt = culm_read_u32(&in);
    view->frc = culm_read_u8(&in);
    view->pipelines = read_within(&in, shape->pipelines, shape->pipelines);
    view->stages = read_within(&in, shape->stages, shape->stages);
    view->lanes = read_within(&in, shape->lanes, shape->lanes);
    for (int32_t p = 0; p < view->pipelines; p++) {
        for (int32_t s = 0; s < view->stages; s++) {
            view->role[p][s].owner = read_within(&in, -1, INT32_MAX);
            view->role[p][s].shadow = read_within(&in, -1, INT32_MAX);
        }
    }
    for (int32_t l = 0; l < view->lanes; l++) {
        view->lane_pipeline[l] = read_within(&in, -1, shape->pipelines - 1);
    }
    view->node_count = read_within(&in, 0, CULM_MAX_NODES);
    for (int32_t i = 0; i < view->node_count; i++) {
        view->node[i].id = read_within(&in, 0, INT32_MAX);
        view->node[i].pipeline = read_within(&in, -1, shape->pipelines - 1);
        view->node[i].stage = read_within(&in, -1, shape->stages - 1);
        view->node[i].holds = culm_read_u64(&in);
    }
    view->transfer_count = read_within(&in, 0, CULM_MAX_TRANSFERS);
    for (int32_t i = 0; i < view->transfer_count; i++) {
        view->transfer[i].id = culm_read_u32(&in);
        view->transfer[i].source = read_within(&in, 0, INT32_MAX);
        view->transfer[i].destination = read_within(&in, 0, INT32_MAX);
        view->transfer[i].stage = read_within(&in, 0, shape->stages - 1);
    }
    culm_read_string(&in, view->reason, sizeof view->reason);
    culm_read_string(&in, view->source, sizeof view->source);
    bool right = phase == CULM_VIEW_LOAD || (phase == CULM_VIEW_RUN && view->iteration > 0);
    enum culm_status status = right ? finished(&in) : CULM_ERR_FORMAT;
    if (status == CULM_OK) {
        *ret_view = *view;
    }
    free(view);
    return status;
}

void culm_commit_encode(const struct culm_commit *commit, struct culm_buf *buf) {
    culm_buf_u64(buf, commit->view);
    culm_buf_u64(buf, (uint64_t)commit->iteration);
    culm_buf_f64(buf, commit->clip);
    culm_buf_f64(buf, commit->loss);
}

enum culm_status culm_commit_decode(const uint8_t *meta, size_t len,
                                    struct culm_commit *ret_commit) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_commit commit = {.view = culm_read_u64(&in)};
    commit.iteration = culm_read_count(&in);
    commit.clip = culm_read_f64(&in);
    commit.loss = culm_read_f64(&in);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_commit = commit;
    return CULM_OK;
}

void culm_prepared_encode(const struct culm_prepared *prepared, struct culm_buf *buf) {
    culm_buf_u64(buf, prepared->view);
    culm_buf_u64(buf, (uint64_t)prepared->iteration);
    culm_buf_u64(buf, prepared->stages);
    culm_buf_f64(buf, prepared->loss);
    culm_buf_u64(buf, (uint64_t)prepared->samples);
    culm_buf_f64(buf, prepared->weight);
    culm_buf_i32(buf, prepared->params);
    for (int32_t i = 0; i < prepared->params; i++) {
        culm_buf_f64(buf, prepared->norm[i]);
    }
    for (int32_t s = 0; s < CULM_MAX_STAGES; s++) {
        if (prepared->stages >> s & 1) {
            culm_buf_u64(buf, prepared->ids[s]);
        }
    }
}

enum culm_status culm_prepared_decode(const uint8_t *meta, size_t len,
                                      struct culm_prepared *ret_prepared) {
    struct culm_reader in = culm_reader_of(meta, len);
    ret_prepared->view = culm_read_u64(&in);
    ret_prepared->iteration = culm_read_count(&in);
    ret_prepared->stages = culm_read_u64(&in);
    ret_prepared->loss = culm_read_f64(&in);
    ret_prepared->samples = culm_read_count(&in);
    ret_prepared->weight = culm_read_f64(&in);
    if (culm_read_i32(&in) != ret_prepared->params) {
        return CULM_ERR_FORMAT;
    }
    for (int32_t i = 0; i < ret_prepared->params; i++) {
        ret_prepared->norm[i] = culm_read_f64(&in);
    }
    for (int32_t s = 0; s < CULM_MAX_STAGES; s++) {
        ret_prepared->ids[s] = ret_prepared->stages >> s & 1 ? culm_read_u64(&in) : 0;
    }
    return finished(&in);
}

void culm_digests_encode(const struct culm_digests *digests, struct culm_buf *buf) {
    culm_buf_u64(buf, digests->view);
    culm_buf_u64(buf, (uint64_t)digests->version);
    culm_buf_u64(buf, digests->stages);
    culm_buf_i32(buf, digests->params);
    for (int32_t i = 0; i < digests->params; i++) {
        culm_buf_u64(buf, digests->digest[i]);
    }
}

enum culm_status culm_digests_decode(const uint8_t *meta, size_t len,
                                     struct culm_digests *ret_digests) {
    struct culm_reader in = culm_reader_of(meta, len);
    ret_digests->view = culm_read_u64(&in);
    ret_digests->version = culm_read_count(&in);
    ret_digests->stages = culm_read_u64(&in);
    if (culm_read_i32(&in) != ret_digests->params) {
        return CULM_ERR_FORMAT;
    }
    for (int32_t i = 0; i < ret_digests->params; i++) {
        ret_digests->digest[i] = culm_read_u64(&in);
    }
    return finished(&in);
}
