/*
 * The operator test of typed arrays. See typed.h.
 *
 *     vision [test|grad|perf] [OPERATOR]          no mode: test and grad
 *     CULM_TEST_SEED=N                            another seed than 1
 *
 * bf16: inputs are rounded first, so the reference sees the same numbers; results may differ from
 * the reference's by one rounding more. A kernel that adds the same terms up in another order must give
 * other bits in each output that has sums: f32, of f32 and of bf16.
 */
/* Typed arrays know no dot products in bf16. */
#define CPUS_OPENED(isa_, thread_) CPUS_OF_ONE_AVX512(isa_)
#include "cpus.h"
#include "typed.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define GUARD 64 /* bytes past the end of each array, which nobody may touch */
void typed_declare(struct typed_run *run, int i, const char *name, bool typed, int64_t count,
                   float low, float high) {
    run->array[i] = (struct typed_array){
        .name = name, .typed = typed, .count = count, .low = low, .high = high};
}

static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool is_bf16(const struct typed_run *run, int i) { return typed_dtype(run, i) == CULM_BF16; }

static size_t bytes_of(const struct typed_run *run, int i) {
    return (size_t)run->array[i].count * (is_bf16(run, i) ? 2 : 4);
}

/* What the reference holds, as the device would hold it. */
static void round_array(struct typed_run *run, int i) {
    for (int64_t j = 0; j < run->array[i].count && is_bf16(run, i); j++) {
        run->array[i].f32[j] = from_bf16(to_bf16(run->array[i].f32[j]));
    }
}

static void run_init(struct typed_run *run, const struct typed_operator *op, int variant,
                     enum culm_dtype dtype, uint32_t wide) {
    /* Sums of a few bf16 that are alike in size are exact in f32, in whatever order. */
    static const float by[4] = {1, 0x1p-7f, 0x1p-14f, 0x1p-21f};
    *run = (struct typed_run){.variant = variant, .dtype = dtype, .wide = wide, .first = true};
    uint64_t state = culm_rng_mix(seed(), (uint64_t)variant);
    op->sizes(run);
    for (int i = 0; i < TYPED_ARRAYS; i++) {
        struct typed_array *a = &run->array[i];
        if (!a->name) {
            continue;
        }
        a->f32 = malloc((size_t)a->count * sizeof(float));
        assert_non_null(a->f32);
        for (int64_t j = 0; j < a->count; j++) {
            a->f32[j] = a->low +
                        (a->high - a->low) * culm_rng_unit((uint32_t)(culm_rng_next(&state) >> 32));
            bool sized = wide && a->typed && a->low == -a->high;
            a->f32[j] *= sized ? by[(uint32_t)j * 2654435761u >> 30] : 1;
        }
        round_array(run, i);
    }
}

/* The device's memory, from what the reference holds. */
static void load(struct typed_run *run) {
    for (int i = 0; i < TYPED_ARRAYS; i++) {
        struct typed_array *a = &run->array[i];
        if (!a->name) {
            continue;
        }
        size_t bytes = bytes_of(run, i);
        a->memory = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
        assert_non_null(a->memory);
        if (!is_bf16(run, i)) {
            memcpy(a->memory, a->f32, bytes);
        }
        for (int64_t j = 0; j < a->count && is_bf16(run, i); j++) {
            ((uint16_t *)a->memory)[j] = to_bf16(a->f32[j]);
        }
        memset((char *)a->memory + bytes, 0xA5, GUARD);
    }
}

static void unload(struct typed_run *run, const struct typed_operator *op) {
    for (int i = 0; i < TYPED_ARRAYS; i++) {
        const unsigned char *end = (unsigned char *)run->array[i].memory + bytes_of(run, i);
        for (int j = 0; j < GUARD && run->array[i].memory; j++) {
            if (end[j] != 0xA5) {
                fail_msg("%s wrote past the end of %s", op->name, run->array[i].name);
            }
        }
        free(run->array[i].memory);
        run->array[i].memory = NULL;
    }
}

static void run_release(struct typed_run *run) {
    for (int i = 0; i < TYPED_ARRAYS; i++) {
        free(run->array[i].f32);
    }
}

static const char *what(const struct typed_operator *op, const struct typed_kernel *kernel,
                        const struct typed_run *run) {
    static char text[256];
    const char *type = run->dtype == CULM_DTYPE_COUNT ? "mixed" : culm_dtype_name(run->dtype);
    snprintf(text, sizeof text, "%s.%s %s, %s%s", op->name, kernel->name,
             op->describe(run->variant), type,
             kernel->accumulates && !run->first ? ", adding" : "");
    return text;
}

static float device_value(const struct typed_run *run, int i, int64_t j) {
    return is_bf16(run, i) ? from_bf16(((const uint16_t *)run->array[i].memory)[j])
                           : ((const float *)run->array[i].memory)[j];
}

static void compare(const struct typed_operator *op, const struct typed_kernel *kernel,
                    const struct typed_run *reference, const struct typed_run *device,
                    const char *where) {
    for (int i = 0; i < TYPED_ARRAYS; i++) {
        const struct typed_array *a = &reference->array[i];
        if (!(kernel->writes >> i & 1) || !a->name) {
            continue;
        }
        double largest = 0;
        for (int64_t j = 0; j < a->count; j++) {
            largest = fmax(largest, fabs((double)a->f32[j]));
        }
        for (int64_t j = 0; j < a->count; j++) {
            double want = (double)a->f32[j], got = (double)device_value(device, i, j);
            double allowed = op->tolerance * largest;
            allowed += is_bf16(device, i) ? fabs(want) / 256 : 0;
            if (device->dtype != CULM_F32) {
                allowed = fmax(allowed, op->bf16_tolerance * largest);
            }
            if (!(fabs(want - got) <= allowed)) {
                fail_msg("%s, %s: %s[%lld] is %.9g, reference %.9g (largest %.3g)",
                         what(op, kernel, reference), where, a->name, (long long)j, got, want,
                         largest);
            }
        }
    }
}

/* The negative control: what has other bits when the kernel's sums go through their terms in another
 * order. */
static uint32_t astray_shows(const struct typed_operator *op, const struct typed_kernel *kernel,
                             const struct typed_run *inputs, const struct typed_run *reference,
                             const struct typed_run *leader) {
    struct culm_device *cpu = NULL;
    struct typed_run run = *inputs;
    uint32_t shown = 0;
    for (int v = 0; v < ISAS && !cpu; v++) {
        cpu = cpus[v][0];
    }
    for (int i = 0; i < TYPED_ARRAYS; i++) {
        if (run.array[i].name) {
            size_t bytes = (size_t)run.array[i].count * sizeof(float);
            run.array[i].f32 = malloc(bytes);
            memcpy(run.array[i].f32, inputs->array[i].f32, bytes);
        }
    }
    kernel->astray(&run, false);
    load(&run);
    kernel->device(cpu, &run);
    for (int i = 0; i < TYPED_ARRAYS; i++) {
        for (int64_t j = 0; run.array[i].name && j < run.array[i].count; j++) {
            run.array[i].f32[j] = device_value(&run, i, j);
        }
    }
    unload(&run, op);
    kernel->astray(&run, true);
    load(&run);
    compare(op, kernel, reference, &run, "in another order");
    for (int i = 0; i < TYPED_ARRAYS; i++) {
        if (kernel->sums >> i & 1 && run.array[i].name) {
            bool differs = memcmp(run.array[i].memory, leader->array[i].memory, bytes_of(&run, i));
            shown |= differs ? 1u << i : 0;
        }
    }
    unload(&run, op);
    run_release(&run);
    return shown;
}

/* Returns what the negative control has shown. */
static uint32_t test_kernel(const struct typed_operator *op, int k, int variant,
                            enum culm_dtype dtype, bool wide, bool first) {
    uint32_t shown = 0;
    const struct typed_kernel *kernel = &op->kernels[k];
    struct typed_run run, leader = {0};
    run_init(&run, op, variant, dtype, wide ? kernel->writes : 0);
    for (int before = 0; before < k; before++) {
        op->kernels[before].reference(&run);
        for (int i = 0; i < TYPED_ARRAYS; i++) {
            round_array(&run, i);
        }
    }
    run.first = first;
    struct typed_run reference = run;
    for (int i = 0; i < TYPED_ARRAYS; i++) {
        if (run.array[i].name) {
            size_t bytes = (size_t)run.array[i].count * sizeof(float);
            reference.array[i].f32 = malloc(bytes);
            memcpy(reference.array[i].f32, run.array[i].f32, bytes);
        }
    }
    kernel->reference(&reference);
    for (int v = 0; v < ISAS * THREADS; v++) {
        struct culm_device *cpu = cpus[v / THREADS][v % THREADS];
        char where[64];
        if (!cpu) {
            continue;
        }
        snprintf(where, sizeof where, "%s, %d threads", isas[v / THREADS], v % THREADS + 1);
        load(&run);
        kernel->device(cpu, &run);
        if (!leader.array[0].name) {
            compare(op, kernel, &reference, &run, where);
            leader = run;
            continue;
        }
        for (int i = 0; i < TYPED_ARRAYS; i++) {
            if (run.array[i].name &&
                memcmp(run.array[i].memory, leader.array[i].memory, bytes_of(&run, i))) {
                fail_msg("%s: %s has other bits with %s", what(op, kernel, &run), run.array[i].name,
                         where);
            }
        }
        unload(&run, op);
    }
    if (kernel->sums && first) {
        shown = astray_shows(op, kernel, &run, &reference, &leader);
    }
    unload(&leader, op);
    run_release(&reference);
    run_release(&run);
    return shown;
}

static void operator_test(void **state) {
    static const enum culm_dtype types[] = {CULM_F32, CULM_BF16, CULM_DTYPE_COUNT, CULM_BF16};
    const struct typed_operator *op = *state;
    uint32_t shown[TYPED_KERNELS][4] = {0}; /* where results are wide, which says most */
    for (int variant = 0; variant < op->variants; variant++) {
        for (int k = 0; k < TYPED_KERNELS && op->kernels[k].name; k++) {
            for (int type = 0; type < 4; type++) {
                for (int first = 1; first >= !op->kernels[k].accumulates; first--) {
                    if (types[type] != CULM_DTYPE_COUNT || !op->same_type) {
                        shown[k][type] |=
                            test_kernel(op, k, variant, types[type], type == 3, first);
                    }
                }
            }
        }
    }
    for (int k = 0; k < TYPED_KERNELS && op->kernels[k].name; k++) {
        for (int i = 0; i < TYPED_ARRAYS; i++) {
            if ((op->kernels[k].sums & ~(shown[k][0] & shown[k][3])) >> i & 1) {
                fail_msg("%s.%s: no variant shows in array %d that its sums have another order",
                         op->name, op->kernels[k].name, i);
            }
        }
    }
}

static double objective(const struct typed_operator *op, struct typed_run *run) {
    op->kernels[0].reference(run);
    double sum = 0;
    for (int64_t i = 0; i < run->array[op->y].count; i++) {
        sum += (double)run->array[op->y].f32[i] * (double)run->array[op->dy].f32[i];
    }
    return sum;
}

static void operator_grad(void **state) {
    const struct typed_operator *op = *state;
    for (int variant = 0; variant < op->variants; variant++) {
        struct typed_run run;
        run_init(&run, op, variant, CULM_F32, 0);
        if (run.array[op->y].count > 600) { /* many kinks; enough small variants are left */
            run_release(&run);
            continue;
        }
        for (int k = 0; k < TYPED_KERNELS && op->kernels[k].name; k++) {
            op->kernels[k].reference(&run);
        }
        for (int pair = 0; pair < 5 && op->pairs[pair][1]; pair++) {
            struct typed_array *x = &run.array[op->pairs[pair][0]];
            const struct typed_array *dx = &run.array[op->pairs[pair][1]];
            const double middle = objective(op, &run); /* x is left as it was by each trial */
            for (int64_t trial = 0; trial < 20 && x->name && dx->name; trial++) {
                int64_t i = (trial * 7919 + 3) % x->count;
                float before = x->f32[i], step = 2e-3f;
                volatile float up = before + step, down = before - step;
                x->f32[i] = up;
                double above = objective(op, &run);
                x->f32[i] = down;
                double below = objective(op, &run);
                x->f32[i] = before;
                double got = (double)dx->f32[i];
                double right = (above - middle) / ((double)up - (double)before);
                double left = (middle - below) / ((double)before - (double)down);
                double want = (above - below) / ((double)up - (double)down);
                /* outputs are rounded to float32: about 1e-7 of each, over the step */
                double allowed = 2e-3 * (1 + fabs(want) + sqrt((double)x->count) * 0.02);
                /* at a kink, any slope in between */
                if (!(got >= fmin(want, fmin(left, right)) - allowed &&
                      got <= fmax(want, fmax(left, right)) + allowed)) {
                    fail_msg("%s %s: d%s[%lld] is %.6g, finite differences give %.6g", op->name,
                             op->describe(variant), x->name, (long long)i, got, want);
                }
            }
        }
        run_release(&run);
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void perf(const char *only) {
    printf("%-36s %-32s %-5s %12s %12s\n", "kernel", "variant", "type", "1 thread", "2 threads");
    for (int o = 0; typed_operators[o]; o++) {
        for (int k = 0; k < TYPED_KERNELS && typed_operators[o]->kernels[k].name; k++) {
            for (int v = 0; v < typed_operators[o]->variants * 2; v++) {
                const struct typed_operator *op = typed_operators[o];
                if (only && strcmp(only, op->name)) {
                    continue;
                }
                struct typed_run run;
                double best[2] = {1e9, 1e9};
                run_init(&run, op, v / 2, v % 2 ? CULM_BF16 : CULM_F32, 0);
                load(&run);
                for (int t = 0; t < 2; t++) {
                    for (int i = 0; i < 15; i++) {
                        struct culm_device *cpu = NULL;
                        for (int isa = 0; isa < ISAS && !cpu; isa++) {
                            cpu = cpus[isa][t];
                        }
                        double start = seconds();
                        op->kernels[k].device(cpu, &run);
                        best[t] = fmin(best[t], seconds() - start);
                    }
                }
                char name[64];
                snprintf(name, sizeof name, "%s.%s", op->name, op->kernels[k].name);
                printf("%-36s %-32s %-5s %9.1f us %9.1f us\n", name, op->describe(v / 2),
                       culm_dtype_name(run.dtype), best[0] * 1e6, best[1] * 1e6);
                unload(&run, op);
                run_release(&run);
            }
        }
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : NULL, *only = argc > 2 ? argv[2] : NULL;
    if (mode && !strcmp(mode, "perf")) {
        open_devices(NULL);
        perf(only);
        return close_devices(NULL);
    }
    if (mode && strcmp(mode, "test") && strcmp(mode, "grad")) {
        fprintf(stderr, "vision: unknown mode '%s'; one of test, grad, perf\n", mode);
        return 2;
    }
    printf("seed %llu (CULM_TEST_SEED)\n", (unsigned long long)seed());
    struct CMUnitTest tests[96] = {0};
    char names[96][64];
    size_t count = 0;
    for (int o = 0; typed_operators[o]; o++) {
        for (int grad = 0; grad < 2; grad++) {
            const struct typed_operator *op = typed_operators[o];
            if ((only && strcmp(only, op->name)) || (grad && op->y < 0) ||
                (mode && strcmp(mode, grad ? "grad" : "test"))) {
                continue;
            }
            snprintf(names[count], sizeof names[count], "%s %s", op->name,
                     grad ? "gradient" : "values and bits");
            tests[count] = (struct CMUnitTest){names[count], grad ? operator_grad : operator_test,
                                               NULL, NULL, (void *)op};
            count++;
        }
    }
    return _cmocka_run_group_tests("vision", tests, count, open_devices, close_devices);
}
