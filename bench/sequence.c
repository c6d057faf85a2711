/*
 * Milliseconds of the kernels on sequences: one layer of long short-term memory, additive
 * attention, and attention, forward and backward.
 *
 *     bench_sequence lstm|bahdanau|attention [--threads N] [--iters N] [--time T] [--isa NAME]
 *                    [--batch N] [--width N] [--cpu-time]
 *
 * One JSON line for each shape. --batch and --width: of lstm, only that one. --cpu-time counts the
 * process's seconds, not the wall's: for busy machines, with one thread. The same of PyTorch:
 * peers/lstm.py, and in pairs peers/step.py --model lstm.
 */
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define ITERS_MAX 1000

static struct culm_device *cpu;
static int threads = 2, iters = 9, steps = 50, batch = 0, width = 0;
static bool cpu_time;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Numbers in (-size, size). */
static float *array(int64_t count, float size) {
    size_t bytes = ((size_t)count * sizeof(float) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    float *x = aligned_alloc(HUGE_PAGE, bytes);
    if (!x) {
        fprintf(stderr, "bench_sequence: out of memory\n");
        exit(1);
    }
    madvise(x, bytes, MADV_HUGEPAGE);
    uint32_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ((float)(state >> 8) / 8388608.0f - 1) * size;
    }
    return x;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef void call(void *context);

static void measure(const char *what, call *forward, call *backward, void *context) {
    double first[ITERS_MAX], both[ITERS_MAX];
    for (int i = -2; i < iters; i++) {
        double start = now_ms();
        forward(context);
        double middle = now_ms();
        backward(context);
        if (i >= 0) {
            both[i] = now_ms() - start;
            first[i] = middle - start;
        }
    }
    qsort(first, (size_t)iters, sizeof first[0], ascending);
    qsort(both, (size_t)iters, sizeof both[0], ascending);
    printf("{\"culm\": \"%s\", \"threads\": %d, %s, \"forward_ms\": {\"median\": %.2f, \"min\": "
           "%.2f}, \"both_ms\": {\"median\": %.2f, \"min\": %.2f}}\n",
           culm_cpu_isa(cpu), threads, what, first[iters / 2], first[0], both[iters / 2], both[0]);
    fflush(stdout);
}

/* ---- LSTM ---- */

struct lstm {
    struct culm_lstm how;
    struct culm_lstm_params params;
    struct culm_lstm_grads grads;
    float *x, *y, *dy, *gates, *cells, *work[2];
};

static void lstm_forward(void *context) {
    struct lstm *l = context;
    CULM_RUN(cpu, lstm_forward, .y = culm_out_f32(l->y), .gates = l->gates, .cells = l->cells,
             .work = l->work[0], .x = culm_in_f32(l->x), .params = &l->params, .how = &l->how);
}

static void lstm_backward(void *context) {
    struct lstm *l = context;
    CULM_RUN(cpu, lstm_backward, .grads = &l->grads, .work = l->work[1], .dy = culm_in_f32(l->dy),
             .x = culm_in_f32(l->x), .y = culm_in_f32(l->y), .gates = l->gates, .cells = l->cells,
             .params = &l->params, .how = &l->how, .first = true);
}

static void bench_lstm(int64_t b, int64_t h) {
    struct lstm l = {.how = {.b = b, .t = steps, .i = h, .h = h}};
    int64_t n = b * steps * h;
    float size = h > 512 ? 0.03f : 0.04f;
    float *parts[] = {array(4 * h * h, size), array(4 * h * h, size), array(4 * h, size),
                      array(4 * h, size),     array(4 * h * h, 0),    array(4 * h * h, 0),
                      array(4 * h, 0),        array(4 * h, 0),        array(n, 0)};
    l.params = (struct culm_lstm_params){parts[0], parts[1], parts[2], parts[3], {0}, {0}};
    l.grads = (struct culm_lstm_grads){
        parts[4], parts[5], parts[6], parts[7], culm_out_f32(parts[8]), {0}, {0}};
    l.x = array(n, 1.7f);
    l.dy = array(n, 1);
    l.y = array(n, 0);
    l.cells = array(n, 0);
    l.gates = array(4 * n, 0);
    l.work[0] = array(culm_cpu_device_ops.lstm_forward_floats(&l.how), 0);
    l.work[1] = array(culm_cpu_device_ops.lstm_backward_floats(&l.how), 0);
    char what[96];
    snprintf(what, sizeof what, "\"batch\": %d, \"time\": %d, \"width\": %d", (int)b, steps,
             (int)h);
    measure(what, lstm_forward, lstm_backward, &l);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        free(parts[i]);
    }
    free(l.x);
    free(l.dy);
    free(l.y);
    free(l.cells);
    free(l.gates);
    free(l.work[0]);
    free(l.work[1]);
}

/* ---- additive attention ---- */

struct bahdanau {
    struct culm_bahdanau how;
    struct culm_bahdanau_inputs in;
    struct culm_bahdanau_grads grads;
    float *context, *dcontext, *probabilities, *work;
};

static void bahdanau_forward(void *context) {
    struct bahdanau *l = context;
    CULM_RUN(cpu, bahdanau_forward, .context = culm_out_f32(l->context),
             .probabilities = l->probabilities, .in = &l->in, .how = &l->how);
}

static void bahdanau_backward(void *context) {
    struct bahdanau *l = context;
    CULM_RUN(cpu, bahdanau_backward, .grads = &l->grads, .work = l->work,
             .dcontext = culm_in_f32(l->dcontext), .probabilities = l->probabilities, .in = &l->in,
             .how = &l->how, .first = true);
}

static void bench_bahdanau(int64_t b, int64_t a) {
    struct bahdanau l = {.how = {.b = b, .t = steps, .s = steps, .a = a, .c = a}};
    int64_t n = b * steps * a;
    l.in = (struct culm_bahdanau_inputs){culm_in_f32(array(n, 1)),
                                         culm_in_f32(array(n, 1)),
                                         culm_in_f32(array(n, 1)),
                                         array(a, 1),
                                         array(1, 1),
                                         array(a, 1)};
    l.grads = (struct culm_bahdanau_grads){culm_out_f32(array(n, 0)),
                                           culm_out_f32(array(n, 0)),
                                           culm_out_f32(array(n, 0)),
                                           array(a, 0),
                                           array(1, 0),
                                           array(a, 0)};
    l.context = array(n, 0);
    l.dcontext = array(n, 1);
    l.probabilities = array(b * steps * steps, 0);
    l.work = array(culm_cpu_device_ops.bahdanau_backward_floats(&l.how), 0);
    char what[96];
    snprintf(what, sizeof what, "\"batch\": %d, \"queries\": %d, \"keys\": %d, \"width\": %d",
             (int)b, steps, steps, (int)a);
    measure(what, bahdanau_forward, bahdanau_backward, &l); /* once a run: nothing is freed */
}

/* ---- attention: 12 heads of 64 ---- */

struct attention {
    struct culm_attention how;
    struct culm_attention_rows in;
    struct culm_attention_grads grads;
    float *out, *dout, *lse;
};

static void attention_forward(void *context) {
    struct attention *l = context;
    CULM_RUN(cpu, attention_forward, .out = culm_out_f32(l->out), .lse = l->lse, .in = &l->in,
             .how = &l->how);
}

static void attention_backward(void *context) {
    struct attention *l = context;
    CULM_RUN(cpu, attention_backward, .grads = &l->grads, .dout = culm_in_f32(l->dout),
             .in = &l->in, .out = culm_in_f32(l->out), .lse = l->lse, .how = &l->how);
}

static void bench_attention(int64_t b, int64_t t, bool causal) {
    const int64_t c = 768, heads = 12;
    struct attention l = {
        .how = {.b = b, .tq = t, .tk = t, .c = c, .heads = heads, .causal = causal}};
    l.in = culm_attention_packed(culm_in_f32(array(b * t * 3 * c, 1)), c);
    l.grads = culm_attention_packed_grads(culm_out_f32(array(b * t * 3 * c, 0)), c);
    l.out = array(b * t * c, 0);
    l.dout = array(b * t * c, 1);
    l.lse = array(b * heads * t, 0);
    char what[96];
    snprintf(what, sizeof what, "\"batch\": %d, \"time\": %d, \"causal\": %s", (int)b, (int)t,
             causal ? "true" : "false");
    measure(what, attention_forward, attention_backward, &l);
}

int main(int argc, char **argv) {
    const char *subject = argc > 1 ? argv[1] : "", *isa = NULL;
    for (int i = 2; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--threads") && more) {
            threads = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--iters") && more) {
            iters = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--time") && more) {
            steps = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--batch") && more) {
            batch = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--width") && more) {
            width = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--isa") && more) {
            isa = argv[++i];
        } else if (!strcmp(argv[i], "--cpu-time")) {
            cpu_time = true;
        } else {
            subject = "";
        }
    }
    struct culm_error error;
    bool known =
        !strcmp(subject, "lstm") || !strcmp(subject, "bahdanau") || !strcmp(subject, "attention");
    if (!known || iters < 1 || iters > ITERS_MAX || steps < 1 || batch < 0 || width < 0) {
        fprintf(stderr, "usage: bench_sequence lstm|bahdanau|attention [--threads N] [--iters N] "
                        "[--time T] [--isa NAME] [--batch N] [--width N] [--cpu-time]\n");
        return 2;
    }
    if (culm_cpu_new(threads, isa, &cpu, &error)) {
        fprintf(stderr, "bench_sequence: %s\n", error.text);
        return 1;
    }
    if (!strcmp(subject, "lstm")) {
        for (int64_t h = width ? width : 512; h <= (width ? width : 1024); h *= 2) {
            for (int64_t b = batch ? batch : 8; b <= (batch ? batch : 64); b *= 2) {
                bench_lstm(b, h);
            }
        }
    } else if (!strcmp(subject, "bahdanau")) {
        bench_bahdanau(32, 1024);
    } else {
        bench_attention(4, 256, true);
        bench_attention(1, 1024, true);
        bench_attention(8, 128, false);
        bench_attention(4, 512, false);
    }
    culm_device_free(cpu);
    return 0;
}
