/*
 * The operator test: every kernel on every instruction set and 1, 2 and 3 threads against the
 * reference, and the reference's gradients against finite differences.
 *
 *     ops [test|grad|perf|support] [FAMILY]       no mode: test and grad, as the test suite runs it
 *     CULM_TEST_SEED=N                            another seed than 1
 *
 * All variants must agree with each other bit by bit; with the reference, to the family's
 * tolerance. A kernel that adds the same terms up in another order must not, in any output that has sums.
 */
#include "ops.h"
#include "cpus.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define GUARD 16 /* floats past the end of each buffer, which nobody may touch */
#define GUARD_VALUE 12345.0f

static float uniform(uint64_t *state) {
    return culm_rng_unit((uint32_t)(culm_rng_next(state) >> 32)) * 2 - 1;
}

static void run_init(struct run *run, const struct family *family, const struct shape *shape,
                     uint64_t stream) {
    *run = (struct run){.shape = *shape, .first = true};
    uint64_t state = culm_rng_mix(seed(), stream);
    int64_t bound, tokens = family->sizes(shape, run->count, &bound), most = 1;
    for (int i = 0; i < family->buffers; i++) {
        size_t bytes = (size_t)(run->count[i] + GUARD) * sizeof(float);
        run->buffer[i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(run->buffer[i]);
        for (int64_t j = 0; j < run->count[i]; j++) {
            run->buffer[i][j] = uniform(&state) * 1.7f;
        }
        for (int j = 0; j < GUARD; j++) {
            run->buffer[i][run->count[i] + j] = GUARD_VALUE;
        }
        most = run->count[i] > most ? run->count[i] : most;
    }
    run->tokens = calloc((size_t)tokens + 1, sizeof *run->tokens);
    run->scratch = calloc((size_t)most + 2, sizeof *run->scratch);
    assert_true(run->tokens && run->scratch);
    for (int64_t i = 0; i < tokens; i++) {
        run->tokens[i] = (int32_t)culm_rng_below(&state, (uint64_t)bound);
    }
    run->dropout = (struct culm_dropout){
        .p = shape->p, .key = culm_rng_next(&state), .first_sample = ((uint64_t)1 << 32) - 1};
    bool by_sample = strstr(family->name, "dropout");
    run->dropout.samples = by_sample ? shape->dim[1] : shape->dim[0];
}

static void run_release(struct run *run, const struct family *family) {
    for (int i = 0; i < family->buffers; i++) {
        free(run->buffer[i]);
    }
    free(run->tokens);
    free(run->scratch);
}

void reference_once(struct run *run, void (*reference)(struct run *run), uint32_t writes) {
    static uint64_t inputs;
    static float *made[MAX_BUFFERS];
    bool keep = run->inputs && run->inputs != inputs;
    if (!run->inputs || keep) {
        reference(run);
    }
    for (int i = 0; i < MAX_BUFFERS && run->inputs; i++) {
        size_t bytes = (size_t)run->count[i] * sizeof(float);
        if (keep) {
            free(made[i]);
            made[i] = NULL;
        }
        if (!(writes >> i & 1)) {
            continue;
        }
        if (keep) {
            made[i] = malloc(bytes + 1);
            assert_non_null(made[i]);
            memcpy(made[i], run->buffer[i], bytes);
        } else {
            memcpy(run->buffer[i], made[i], bytes);
        }
    }
    inputs = run->inputs ? run->inputs : inputs;
}

static void guards_check(const struct run *run, const struct family *family) {
    for (int i = 0; i < family->buffers; i++) {
        for (int j = 0; j < GUARD; j++) {
            if (run->buffer[i][run->count[i] + j] != GUARD_VALUE) {
                fail_msg("%s wrote past the end of %s", family->name, family->buffer_name[i]);
            }
        }
    }
}

static const char *describe(const struct shape *shape) {
    static char text[160];
    const int64_t *d = shape->dim;
    int used = snprintf(text, sizeof text, "[%lld,%lld,%lld,%lld", (long long)d[0], (long long)d[1],
                        (long long)d[2], (long long)d[3]);
    if (d[4] || d[5] || d[6] || d[7]) {
        used += snprintf(text + used, sizeof text - (size_t)used, ",%lld,%lld,%lld,%lld",
                         (long long)d[4], (long long)d[5], (long long)d[6], (long long)d[7]);
    }
    snprintf(text + used, sizeof text - (size_t)used, "] p %g", shape->p);
    return text;
}

static void compare(const struct family *family, const struct kernel_row *kernel,
                    const struct run *reference, const struct run *device, const char *where) {
    for (int b = 0; b < family->buffers; b++) {
        if (!(kernel->writes >> b & 1)) {
            continue;
        }
        double largest = 0;
        for (int64_t i = 0; i < reference->count[b]; i++) {
            largest = fmax(largest, fabs((double)reference->buffer[b][i]));
        }
        for (int64_t i = 0; i < reference->count[b]; i++) {
            double want = (double)reference->buffer[b][i], got = (double)device->buffer[b][i];
            if (!(fabs(want - got) <= family->tolerance * largest)) {
                fail_msg("%s %s %s, %s: %s[%lld] is %.9g, reference %.9g (largest %.3g)",
                         family->name, kernel->name, describe(&reference->shape), where,
                         family->buffer_name[b], (long long)i, got, want, largest);
            }
        }
    }
}

/* The negative control: what has other bits when the kernel's sums go through their terms in another
 * order. */
static uint32_t astray_shows(const struct family *family, const struct kernel_row *kernel,
                             uint64_t stream, const struct run *reference,
                             const struct run *leader) {
    struct culm_device *cpu = NULL;
    struct run run;
    uint32_t shown = 0;
    for (int v = 0; v < ISAS && !cpu; v++) {
        cpu = cpus[v][0];
    }
    run_init(&run, family, &leader->shape, stream);
    kernel->astray(&run, false);
    kernel->call(cpu, &run);
    kernel->astray(&run, true);
    guards_check(&run, family);
    compare(family, kernel, reference, &run, "in another order");
    for (int b = 0; b < family->buffers; b++) {
        size_t bytes = (size_t)run.count[b] * sizeof(float);
        bool differs = memcmp(run.buffer[b], leader->buffer[b], bytes);
        shown |= kernel->sums >> b & differs ? 1u << b : 0;
    }
    run_release(&run, family);
    return shown;
}

static void family_test(void **state) {
    static uint64_t inputs;
    const struct family *family = *state;
    uint32_t shown[MAX_KERNELS] = {0};
    for (int s = 0; s < MAX_SHAPES && family->shapes[s].dim[0]; s++) {
        for (int k = 0; k < MAX_KERNELS && family->kernels[k].call; k++) {
            for (int first = 1; first >= !family->kernels[k].accumulates; first--) {
                const struct kernel_row *kernel = &family->kernels[k];
                uint64_t stream = (uint64_t)(s * 16 + k);
                struct run reference, leader = {0};
                bool led = false;
                inputs++;
                run_init(&reference, family, &family->shapes[s], stream);
                reference.first = first;
                kernel->call(NULL, &reference);
                for (int v = 0; v < ISAS * THREADS; v++) {
                    struct culm_device *cpu = cpus[v / THREADS][v % THREADS];
                    if (!cpu) {
                        continue;
                    }
                    char where[64];
                    snprintf(where, sizeof where, "%s, %d threads", isas[v / THREADS],
                             v % THREADS + 1);
                    struct run run;
                    run_init(&run, family, &family->shapes[s], stream);
                    run.first = first;
                    run.inputs = inputs;
                    kernel->call(cpu, &run);
                    guards_check(&run, family);
                    if (!led) {
                        compare(family, kernel, &reference, &run, where);
                        leader = run;
                        led = true;
                        continue;
                    }
                    for (int b = 0; b < family->buffers; b++) {
                        if (memcmp(run.buffer[b], leader.buffer[b],
                                   (size_t)run.count[b] * sizeof(float))) {
                            fail_msg("%s %s %s: %s has other bits with %s", family->name,
                                     kernel->name, describe(&run.shape), family->buffer_name[b],
                                     where);
                        }
                    }
                    run_release(&run, family);
                }
                if (kernel->sums && first) {
                    shown[k] |= astray_shows(family, kernel, stream, &reference, &leader);
                }
                run_release(&leader, family);
                run_release(&reference, family);
            }
        }
    }
    for (int k = 0; k < MAX_KERNELS && family->kernels[k].call; k++) {
        for (int b = 0; b < family->buffers; b++) {
            if ((family->kernels[k].sums & ~shown[k]) >> b & 1) {
                fail_msg("%s %s: no shape shows in %s that its sums have another order",
                         family->name, family->kernels[k].name, family->buffer_name[b]);
            }
        }
    }
}

/* Sum of dy y, or the loss itself. */
static double objective(const struct family *family, struct run *run) {
    family->kernels[0].call(NULL, run);
    if (family->dy < 0) {
        return (double)run->buffer[family->y][0];
    }
    double sum = 0;
    for (int64_t i = 0; i < run->count[family->y]; i++) {
        sum += (double)run->buffer[family->y][i] * (double)run->buffer[family->dy][i];
    }
    return sum;
}

static void family_grad(void **state) {
    const struct family *family = *state;
    if (!family->pair_count) {
        skip();
    }
    for (int s = 0; s < MAX_SHAPES && family->shapes[s].dim[0]; s++) {
        struct run run;
        run_init(&run, family, &family->shapes[s], (uint64_t)s);
        int64_t size = 0;
        for (int b = 0; b < family->buffers; b++) {
            size += run.count[b];
        }
        bool adds = !strcmp(family->name, "layernorm") && run.shape.dim[2];
        if (size > 100000 || adds) { /* enough shapes are left; adding is not a gradient of y */
            run_release(&run, family);
            continue;
        }
        for (int k = 1; k < MAX_KERNELS && family->kernels[k].call; k++) {
            family->kernels[k].call(NULL, &run);
        }
        for (int pair = 0; pair < family->pair_count; pair++) {
            float *x = run.buffer[family->pairs[pair][0]];
            int64_t count = run.count[family->pairs[pair][0]];
            const float *dx = run.buffer[family->pairs[pair][1]];
            if (!strcmp(family->name, "linear") && family->pairs[pair][0] == 2 &&
                !(run.shape.dim[3] & 1)) {
                continue; /* no bias in this shape */
            }
            for (int64_t trial = 0; trial < 20; trial++) {
                int64_t i = (trial * 7919 + 3) % count;
                float before = x[i], step = 4e-3f;
                volatile float up = before + step, down = before - step;
                x[i] = up;
                double above = objective(family, &run);
                x[i] = down;
                double below = objective(family, &run);
                x[i] = before;
                double want = (above - below) / ((double)up - (double)down);
                double got = (double)dx[i];
                /* outputs are rounded to float32: about 1e-7 of each, over the step */
                if (!(fabs(want - got) <= 2e-3 * (1 + fabs(want) + sqrt((double)count) * 0.02))) {
                    fail_msg("%s %s: d%s[%lld] is %.6g, finite differences give %.6g", family->name,
                             describe(&run.shape), family->buffer_name[family->pairs[pair][0]],
                             (long long)i, got, want);
                }
            }
        }
        run_release(&run, family);
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void perf(const char *only) {
    printf("%-32s %-28s %10s %10s\n", "kernel", "shape", "1 thread", "2 threads");
    for (int f = 0; f < family_count; f++) {
        for (int k = 0; k < MAX_KERNELS && families[f].kernels[k].call; k++) {
            for (int s = 0; s < MAX_SHAPES && families[f].shapes[s].dim[0]; s++) {
                const struct family *family = &families[f];
                if (only && strcmp(only, family->name)) {
                    continue;
                }
                struct run run;
                double median[2];
                run_init(&run, family, &family->shapes[s], 0);
                for (int t = 0; t < 2; t++) {
                    double times[31];
                    struct culm_device *cpu = NULL;
                    for (int i = 0; i < ISAS && !cpu; i++) {
                        cpu = cpus[i][t];
                    }
                    for (int i = 0; i < 31; i++) {
                        double start = seconds();
                        family->kernels[k].call(cpu, &run);
                        times[i] = seconds() - start;
                    }
                    qsort(times, 31, sizeof times[0], ascending);
                    median[t] = times[15];
                }
                char name[64];
                snprintf(name, sizeof name, "%s.%s", family->name, family->kernels[k].name);
                printf("%-32s %-28s %7.1f us %7.1f us\n", name, describe(&run.shape),
                       median[0] * 1e6, median[1] * 1e6);
                run_release(&run, family);
            }
        }
    }
}

static void support(void) {
    printf("%-32s reference", "kernel");
    for (int i = 0; i < ISAS; i++) {
        printf(" %s", isas[i]);
    }
    printf("   gradient\n");
    for (int f = 0; f < family_count; f++) {
        for (int k = 0; k < MAX_KERNELS && families[f].kernels[k].call; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s.%s", families[f].name, families[f].kernels[k].name);
            printf("%-32s yes      ", name);
            for (int i = 0; i < ISAS; i++) {
                printf(" %-*s", (int)strlen(isas[i]), cpus[i][0] ? "yes" : "-");
            }
            printf("   %s\n", families[f].pair_count ? "checked" : "none");
        }
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : NULL, *only = argc > 2 ? argv[2] : NULL;
    if (mode && (!strcmp(mode, "perf") || !strcmp(mode, "support"))) {
        open_devices(NULL);
        if (!strcmp(mode, "perf")) {
            perf(only);
        } else {
            support();
        }
        return close_devices(NULL);
    }
    if (mode && strcmp(mode, "test") && strcmp(mode, "grad")) {
        fprintf(stderr, "ops: unknown mode '%s'; one of test, grad, perf, support\n", mode);
        return 2;
    }
    printf("seed %llu (CULM_TEST_SEED)\n", (unsigned long long)seed());
    struct CMUnitTest tests[64] = {0};
    char names[64][64];
    size_t count = 0;
    for (int f = 0; f < family_count; f++) {
        for (int grad = 0; grad < 2; grad++) {
            if ((only && strcmp(only, families[f].name)) ||
                (mode && strcmp(mode, grad ? "grad" : "test")) ||
                (grad && !families[f].pair_count)) {
                continue;
            }
            snprintf(names[count], sizeof names[count], "%s %s", families[f].name,
                     grad ? "gradient" : "values and bits");
            tests[count] = (struct CMUnitTest){names[count], grad ? family_grad : family_test, NULL,
                                               NULL, (void *)&families[f]};
            count++;
        }
    }
    return _cmocka_run_group_tests("operators", tests, count, open_devices, close_devices);
}
