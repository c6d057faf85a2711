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
    culm_buf_u64(buf, at->attempt);
}

static struct culm_moment read_moment(struct culm_reader *in) {
    struct culm_moment at = {.iteration = culm_read_count(in)};
    at.attempt = culm_read_u64(in);
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
    culm_buf_i32(buf, state->slice);
    culm_buf_u64(buf, state->digest);
}

enum culm_status culm_state_decode(const uint8_t *meta, size_t len, struct culm_state *ret_state) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_state state = {.version = culm_read_count(&in)};
    state.transfer = culm_read_u32(&in);
    state.index = read_within(&in, 0, INT32_MAX);
    state.slice = read_within(&in, 0, INT32_MAX);
    state.digest = culm_read_u64(&in);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_state = state;
    return CULM_OK;
}

enum culm_status culm_have_init(struct culm_have *have, int32_t stages, int32_t micros,
                                int32_t grads, int32_t lanes) {
    *have = (struct culm_have){.stages = stages,
                               .micros = micros,
                               .grads = grads,
                               .lane_words = (int32_t)culm_bits_words(lanes)};
    have->activation = calloc((size_t)stages * (size_t)micros, 1);
    have->gradient = calloc((size_t)stages * (size_t)micros, 1);
    have->reduced = calloc((size_t)grads, 1);
    have->lanes = calloc((size_t)grads * (size_t)have->lane_words, sizeof *have->lanes);
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

/* Values of eight bytes, of which most are `none`: of each 64, which are not, and those. */
static void sparse_encode(const void *values, int32_t count, uint64_t none, struct culm_buf *buf) {
    const uint8_t *at = values;
    for (int32_t from = 0; from < count; from += 64, at += 64 * sizeof none) {
        const int32_t here = count - from < 64 ? count - from : 64;
        uint64_t told = 0, value;
        for (int32_t i = 0; i < here; i++) {
            memcpy(&value, at + (size_t)i * sizeof value, sizeof value);
            told |= (uint64_t)(value != none) << i;
        }
        culm_buf_u64(buf, told);
        for (; told; told &= told - 1) {
            memcpy(&value, at + (size_t)__builtin_ctzll(told) * sizeof value, sizeof value);
            culm_buf_u64(buf, value);
        }
    }
}

static void read_sparse(struct culm_reader *in, void *ret_values, int32_t count, uint64_t none) {
    uint8_t *at = ret_values;
    for (int32_t from = 0; from < count && !in->failed; from += 64, at += 64 * sizeof none) {
        const int32_t here = count - from < 64 ? count - from : 64;
        uint64_t told = culm_read_u64(in);
        in->failed |= here < 64 && told >> here != 0;
        for (int32_t i = 0; i < here; i++) {
            memcpy(at + (size_t)i * sizeof none, &none, sizeof none);
        }
        for (; told && !in->failed; told &= told - 1) {
            const uint64_t value = culm_read_u64(in);
            in->failed |= value == none;
            memcpy(at + (size_t)__builtin_ctzll(told) * sizeof value, &value, sizeof value);
        }
    }
}

/* A bit each, in words of 64. */
static void flags_encode(const uint8_t *flags, size_t count, struct culm_buf *buf) {
    for (size_t from = 0; from < count; from += 64) {
        uint64_t bits = 0;
        for (size_t i = 0; i < 64 && from + i < count; i++) {
            bits |= (uint64_t)(flags[from + i] != 0) << i;
        }
        culm_buf_u64(buf, bits);
    }
}

static void read_flags(struct culm_reader *in, uint8_t *ret_flags, size_t count) {
    for (size_t from = 0; from < count; from += 64) {
        const size_t here = count - from < 64 ? count - from : 64;
        const uint64_t bits = culm_read_u64(in);
        in->failed |= here < 64 && bits >> here != 0;
        for (size_t i = 0; i < here; i++) {
            ret_flags[from + i] = bits >> i & 1;
        }
    }
}

void culm_want_encode(const struct culm_want *want, struct culm_buf *buf) {
    culm_buf_u64(buf, want->view);
    culm_buf_u32(buf, want->transfer);
    culm_buf_i32(buf, want->index);
    culm_buf_i32(buf, want->slice);
}

enum culm_status culm_want_decode(const uint8_t *meta, size_t len, struct culm_want *ret_want) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_want want = {.view = culm_read_u64(&in)};
    want.transfer = culm_read_u32(&in);
    want.index = read_within(&in, 0, INT32_MAX);
    want.slice = read_within(&in, 0, INT32_MAX);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_want = want;
    return CULM_OK;
}

void culm_learn_encode(const struct culm_learn *learn, struct culm_buf *buf) {
    culm_buf_u64(buf, learn->view);
    culm_buf_u64(buf, (uint64_t)learn->got);
    culm_buf_i32(buf, learn->grads);
    flags_encode(learn->grad, (size_t)learn->grads, buf);
}

enum culm_status culm_learn_decode(const uint8_t *meta, size_t len, struct culm_learn *ret_learn) {
    struct culm_reader in = culm_reader_of(meta, len);
    ret_learn->view = culm_read_u64(&in);
    ret_learn->got = culm_read_count(&in);
    if (culm_read_i32(&in) != ret_learn->grads) {
        return CULM_ERR_FORMAT;
    }
    read_flags(&in, ret_learn->grad, (size_t)ret_learn->grads);
    return finished(&in);
}

void culm_have_encode(const struct culm_have *have, struct culm_buf *buf) {
    size_t cells = (size_t)have->stages * (size_t)have->micros;
    culm_buf_u64(buf, have->view);
    culm_buf_u64(buf, (uint64_t)have->iteration);
    culm_buf_i32(buf, have->stages);
    culm_buf_i32(buf, have->micros);
    culm_buf_i32(buf, have->grads);
    flags_encode(have->activation, cells, buf);
    flags_encode(have->gradient, cells, buf);
    flags_encode(have->reduced, (size_t)have->grads, buf);
    culm_buf_i32(buf, have->lane_words);
    sparse_encode(have->lanes, have->grads * have->lane_words, 0, buf);
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
    read_flags(&in, ret_have->activation, cells);
    read_flags(&in, ret_have->gradient, cells);
    read_flags(&in, ret_have->reduced, (size_t)ret_have->grads);
    if (culm_read_i32(&in) != ret_have->lane_words) {
        return CULM_ERR_FORMAT;
    }
    read_sparse(&in, ret_have->lanes, ret_have->grads * ret_have->lane_words, 0);
    ret_have->view = view;
    ret_have->iteration = iteration;
    return finished(&in);
}

void culm_commit_encode(const struct culm_commit *commit, struct culm_buf *buf) {
    culm_buf_u64(buf, commit->view);
    culm_content_write(buf, &commit->content);
    culm_buf_u64(buf, (uint64_t)commit->published);
    culm_totals_write(buf, &commit->totals);
}

enum culm_status culm_commit_decode(const uint8_t *meta, size_t len,
                                    struct culm_commit *ret_commit) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_commit commit = {.view = culm_read_u64(&in)};
    commit.content = culm_content_read(&in);
    commit.published = culm_read_count(&in);
    commit.totals = culm_totals_read(&in);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_commit = commit;
    return CULM_OK;
}

/* The bits of NAN. */
#define NO_NORM 0x7ff8000000000000ull

void culm_prepared_encode(const struct culm_prepared *prepared, struct culm_buf *buf) {
    culm_buf_u64(buf, prepared->view);
    culm_buf_u64(buf, (uint64_t)prepared->iteration);
    culm_stage_set_write(buf, &prepared->stages);
    culm_buf_f64(buf, prepared->loss);
    culm_buf_u64(buf, (uint64_t)prepared->samples);
    culm_buf_f64(buf, prepared->weight);
    culm_buf_i32(buf, prepared->params);
    sparse_encode(prepared->norm, prepared->params, NO_NORM, buf);
    for (int32_t s = culm_stage_set_next(&prepared->stages, 0); s >= 0;
         s = culm_stage_set_next(&prepared->stages, s + 1)) {
        culm_buf_u64(buf, prepared->ids[s]);
    }
}

enum culm_status culm_prepared_decode(const uint8_t *meta, size_t len,
                                      struct culm_prepared *ret_prepared) {
    struct culm_reader in = culm_reader_of(meta, len);
    ret_prepared->view = culm_read_u64(&in);
    ret_prepared->iteration = culm_read_count(&in);
    ret_prepared->stages = culm_stage_set_read(&in, ret_prepared->of_stages);
    ret_prepared->loss = culm_read_f64(&in);
    ret_prepared->samples = culm_read_count(&in);
    ret_prepared->weight = culm_read_f64(&in);
    if (culm_read_i32(&in) != ret_prepared->params) {
        return CULM_ERR_FORMAT;
    }
    read_sparse(&in, ret_prepared->norm, ret_prepared->params, NO_NORM);
    for (int32_t s = 0; s < ret_prepared->of_stages; s++) {
        ret_prepared->ids[s] =
            culm_stage_set_has(&ret_prepared->stages, s) ? culm_read_u64(&in) : 0;
    }
    return finished(&in);
}

void culm_digests_encode(const struct culm_digests *digests, struct culm_buf *buf) {
    culm_buf_u64(buf, digests->view);
    culm_buf_u64(buf, (uint64_t)digests->version);
    culm_stage_set_write(buf, &digests->stages);
    culm_buf_i32(buf, digests->params);
    sparse_encode(digests->digest, digests->params, 0, buf);
}

enum culm_status culm_digests_decode(const uint8_t *meta, size_t len,
                                     struct culm_digests *ret_digests) {
    struct culm_reader in = culm_reader_of(meta, len);
    ret_digests->view = culm_read_u64(&in);
    ret_digests->version = culm_read_count(&in);
    ret_digests->stages = culm_stage_set_read(&in, ret_digests->of_stages);
    if (culm_read_i32(&in) != ret_digests->params) {
        return CULM_ERR_FORMAT;
    }
    read_sparse(&in, ret_digests->digest, ret_digests->params, 0);
    return finished(&in);
}
