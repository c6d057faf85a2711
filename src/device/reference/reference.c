/* The device itself: memory of a call, and the table. See reference.h. */
#include "device/reference/reference.h"

#include "base/pages.h"
#include "device/reference/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *part(struct reference *r, int64_t count, size_t size) {
    void *memory = calloc((size_t)count, size);
    assert(r->parts < PARTS_MAX);
    if (!memory) {
        abort();
    }
    r->part[r->parts++] = memory;
    return memory;
}

float *culm_reference_floats(struct reference *r, int64_t count) {
    return part(r, count, sizeof(float));
}
double *culm_reference_doubles(struct reference *r, int64_t count) {
    return part(r, count, sizeof(double));
}

float culm_reference_load(struct culm_in in, int64_t i) {
    float x;
    if (in.dtype == CULM_BF16) {
        uint32_t bits = (uint32_t)((const uint16_t *)in.data)[i] << 16;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    memcpy(&x, (const char *)in.data + (size_t)i * sizeof x, sizeof x);
    return x;
}

/* To nearest even; a NaN stays one. */
void culm_reference_store(struct culm_out out, int64_t i, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (out.dtype == CULM_BF16) {
        bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
        bits += nan ? 0 : 0x7fffu + (bits >> 16 & 1);
        ((uint16_t *)out.data)[i] = (uint16_t)(bits >> 16 | (nan ? 0x40u : 0));
    } else {
        memcpy((char *)out.data + (size_t)i * sizeof x, &bits, sizeof bits);
    }
}

const float *culm_reference_get(struct reference *r, struct culm_in in, int64_t count) {
    if (!in.data) {
        return NULL;
    }
    float *x = culm_reference_floats(r, count);
    if (in.dtype != CULM_BF16) { /* i32 too: moved as they are */
        return memcpy(x, in.data, (size_t)count * sizeof *x);
    }
    for (int64_t i = 0; i < count; i++) {
        x[i] = culm_reference_load(in, i);
    }
    return x;
}

float *culm_reference_put(struct reference *r, struct culm_out out, int64_t count) {
    if (!out.data) {
        return NULL;
    }
    float *x = culm_reference_floats(r, count);
    assert(r->outputs < OUTPUTS_MAX);
    r->output[r->outputs].to = out;
    r->output[r->outputs].from = x;
    r->output[r->outputs++].count = count;
    return x;
}

float *culm_reference_change(struct reference *r, struct culm_out out, int64_t count) {
    float *x = culm_reference_put(r, out, count);
    for (int64_t i = 0; x && i < count; i++) {
        x[i] = culm_reference_load(culm_in_of(out), i);
    }
    return x;
}

void culm_reference_finish(struct reference *r) {
    for (int i = 0; i < r->outputs; i++) {
        if (r->output[i].to.dtype != CULM_BF16) {
            memcpy(r->output[i].to.data, r->output[i].from,
                   (size_t)r->output[i].count * sizeof(float));
            continue;
        }
        for (int64_t k = 0; k < r->output[i].count; k++) {
            culm_reference_store(r->output[i].to, k, r->output[i].from[k]);
        }
    }
    for (int i = 0; i < r->parts; i++) {
        free(r->part[i]);
    }
    r->outputs = r->parts = 0;
}

/* --- the table --- */

static enum culm_status create(int threads, struct culm_device **ret_device,
                               struct culm_error *error) {
    struct reference *r = calloc(1, sizeof *r);
    (void)threads;
    if (!r) {
        return culm_error_set(error, CULM_ERR_MEMORY, "reference device: out of memory");
    }
    r->device.ops = &culm_reference_device_ops;
    *ret_device = &r->device;
    return CULM_OK;
}

static void destroy(struct culm_device *device) { free(device); }

static void *alloc(struct culm_device *device, size_t bytes) {
    (void)device;
    return culm_pages_zeroed(bytes);
}
static void release(struct culm_device *device, void *memory) {
    (void)device;
    free(memory);
}
static size_t scratch_bytes(int threads) {
    (void)threads;
    return 0;
}
static int threads_of(const struct culm_device *device) {
    (void)device;
    return 1;
}
static const char *signature(const struct culm_device *device) {
    (void)device;
    return "reference";
}
static const char *bf16_flavour(const struct culm_device *device) {
    (void)device;
    return "wide";
}

/* `work` is not used; a value has at least one element. */
static int64_t lstm_floats(const struct culm_lstm *how) {
    (void)how;
    return 1;
}
static int64_t bahdanau_floats(const struct culm_bahdanau *how) {
    (void)how;
    return 1;
}

#define RUN(name)                                                                                  \
    static void run_##name(struct culm_device *device, const struct culm_##name##_args *args) {    \
        struct reference *r = (struct reference *)device;                                          \
        culm_reference_##name(r, args);                                                            \
        culm_reference_finish(r);                                                                  \
    }
CULM_KERNELS(RUN)

#define ANY ((int64_t)1 << 31)
#define ENTRY(name) .name = run_##name,
const struct culm_device_ops culm_reference_device_ops = {.size = sizeof(struct culm_device_ops),
                                                          .name = "reference",
                                                          .limits = {.width = ANY,
                                                                     .head = ANY,
                                                                     .context = ANY,
                                                                     .rows = ANY,
                                                                     .softmax = ANY,
                                                                     .lstm_batch = ANY,
                                                                     .bahdanau_keys = ANY,
                                                                     .conv_taps = ANY,
                                                                     .conv_terms = ANY},
                                                          .create = create,
                                                          .destroy = destroy,
                                                          .alloc = alloc,
                                                          .release = release,
                                                          .scratch_bytes = scratch_bytes,
                                                          .threads = threads_of,
                                                          .signature = signature,
                                                          .bf16_flavour = bf16_flavour,
                                                          .lstm_forward_floats = lstm_floats,
                                                          .lstm_backward_floats = lstm_floats,
                                                          .bahdanau_backward_floats =
                                                              bahdanau_floats,
                                                          CULM_KERNELS(ENTRY)};
