/* Masks: three trials, each compared with the rules. See mask.h. */
#include "onnx/mask.h"

#include "onnx/fold.h"
#include "onnx/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    int64_t batch, queries, keys;
};

/* Whether each key is shown, a byte each for [batch, queries, keys]. NULL: not a mask, or different
 * between heads. */
static uint8_t *shown(const struct culm_onnx_tensor *data, enum culm_onnx_mask_kind kind,
                      const struct shape *shape) {
    struct culm_onnx_operand x = {.rank = data->rank};
    int64_t dim[4] = {shape->batch, 1, shape->queries, shape->keys}, stride[4], index[4] = {0};
    memcpy(x.dim, data->dim, sizeof x.dim);
    if (data->rank > 4 || !data->data) {
        return NULL;
    }
    for (int i = 0; i < data->rank; i++) {
        int64_t wanted = dim[4 - data->rank + i];
        if (data->dim[i] != 1 && data->dim[i] != wanted) {
            return NULL;
        }
    }
    culm_onnx_strides(&x, 4, stride);
    int64_t count = dim[0] * dim[2] * dim[3];
    uint8_t *show = malloc((size_t)count + 1);
    for (int64_t i = 0; i < count && show; i++) {
        int64_t at = index[0] * stride[0] + index[2] * stride[2] + index[3] * stride[3];
        double number = culm_onnx_get_real(data, at);
        show[i] = kind == CULM_ONNX_MASK_SHOWS ? number != 0 : number == 0;
        if (kind == CULM_ONNX_MASK_ADDED && number != 0 &&
            !(number <= -1000)) { /* more than a mask: it weighs keys */
            free(show);
            return NULL;
        }
        culm_onnx_step(4, dim, index);
    }
    return show;
}

static bool follows(const uint8_t *show, const struct shape *shape, bool causal,
                    const uint8_t *key) {
    for (int64_t b = 0, i = 0; b < shape->batch; b++) {
        for (int64_t q = 0; q < shape->queries; q++) {
            for (int64_t k = 0; k < shape->keys; k++, i++) {
                bool wanted = (!causal || k <= q) && (!key || key[b * shape->keys + k]);
                if (wanted != show[i]) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Computes the mask for the values `key` of an input. */
static uint8_t *trial(const struct culm_onnx_graph *graph, int32_t value,
                      enum culm_onnx_mask_kind kind, const struct shape *shape, int32_t input,
                      const uint8_t *key) {
    const struct culm_onnx_value *v = &graph->value[input];
    int64_t count = shape->batch * shape->keys;
    size_t size = culm_onnx_type_bytes(v->type);
    struct culm_onnx_tensor data = {.name = "",
                                    .type = v->type,
                                    .rank = v->rank,
                                    .elements = count,
                                    .bytes = size * (size_t)count};
    memcpy(data.dim, v->dim, sizeof data.dim);
    void *memory = size ? calloc((size_t)count + 1, size) : NULL;
    struct culm_onnx_tensor *made = NULL;
    uint8_t *show = NULL;
    data.data = memory;
    for (int64_t i = 0; i < count && memory; i++) {
        culm_onnx_put_int(&data, i, key[i]);
    }
    const struct culm_onnx_guess guess = {input, &data};
    if (memory && culm_onnx_probe(graph, value, &guess, 1, &made, NULL) == CULM_OK) {
        show = shown(made, kind, shape);
        free(made);
    }
    free(memory);
    return show;
}

bool culm_onnx_mask_of(const struct culm_onnx_graph *graph, int32_t value,
                       enum culm_onnx_mask_kind kind, int64_t batch, int64_t queries, int64_t keys,
                       struct culm_onnx_mask *ret_mask) {
    const struct shape shape = {batch, queries, keys};
    const struct culm_onnx_value *v = &graph->value[value];
    int32_t input = -1;
    int64_t count;
    *ret_mask = (struct culm_onnx_mask){.input = -1};
    if (__builtin_mul_overflow(batch, queries, &count) ||
        __builtin_mul_overflow(count, keys, &count) || count > (int64_t)1 << 32) {
        return false;
    }
    if (v->data) {
        uint8_t *show = shown(v->data, kind, &shape);
        ret_mask->causal = show && queries == keys && follows(show, &shape, true, NULL);
        bool fine = ret_mask->causal || (show && follows(show, &shape, false, NULL));
        free(show);
        return fine;
    }
    if (culm_onnx_sources(graph, value, &input, 1) != 1 || graph->value[input].rank != 2 ||
        graph->value[input].dim[0] != batch || graph->value[input].dim[1] != keys) {
        return false;
    }
    uint8_t *key = malloc((size_t)(batch * keys) + 1);
    bool fine = key != NULL;
    uint32_t state = 12345;
    for (int round = 0; round < 3 && fine; round++) {
        for (int64_t i = 0; i < batch * keys; i++) {
            state = state * 1664525u + 1013904223u;
            /* the first key stays: some masks treat a query specially that sees none */
            key[i] = round == 0 || i % keys == 0 || state >> 30 != 0;
        }
        uint8_t *show = trial(graph, value, kind, &shape, input, key);
        if (round == 0 && show) {
            ret_mask->causal = queries == keys && queries > 1 && follows(show, &shape, true, key);
        }
        fine = show && follows(show, &shape, ret_mask->causal, key);
        free(show);
    }
    free(key);
    ret_mask->input = input;
    return fine;
}
