/*
 * Every family against PyTorch: logits, loss, all gradients, ten losses with SGD and with AdamW,
 * running statistics (tests/golden/golden.py says what the vectors are); and the same bits for
 * every number of stages and threads, with and without recomputation. What is f32 is also run on the
 * device `reference`.
 *
 *     CULM_GOLDEN=tests/golden unit_model_golden FAMILY
 */
#include "golden.h"
#include "golden_file.h"

#include "../astray.h"

#include "device/reference/reference.h"
#include "model/optimizer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double norm_of(const float *a, const float *minus, int64_t count) {
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = (double)a[i] - (minus ? (double)minus[i] : 0);
        squares += x * x;
    }
    return sqrt(squares);
}

/* --- what PyTorch says --- */

/* Rows of the first step that have no target: their logits are zeros in the vectors. */
static int64_t rows_without_target(void) {
    const struct culm_safetensors_entry *entry = culm_safetensors_find(golden, "field.targets");
    int64_t count = entry ? entry->elements / STEPS : 0, without = 0;
    for (int64_t i = 0; i < count; i++) {
        without += ((const float *)entry->data)[i] < 0;
    }
    return without;
}

static void test_logits(void **state) {
    (void)state;
    struct pipeline p;
    for (int32_t stages = 1; stages <= 2; stages++) {
        pipeline_new(&p, (struct variant){.stages = stages, .threads = 1, .inference = true});
        struct samples samples = samples_of(p.graph, 0);
        pipeline_forward(&p, &samples, NULL);
        int64_t count = culm_elements(&p.graph->value[p.graph->output[0].value].shape);
        float *want = vector("logits", "", count);
        const float *have = p.boundary[stages - 1];
        int64_t classes = culm_last_dim(&p.graph->value[p.graph->output[0].value].shape),
                skipped = 0;
        for (int64_t row = 0; row < count; row += classes) {
            if (norm_of(want + row, NULL, classes) == 0) {
                skipped++;
                continue;
            }
            for (int64_t i = row; i < row + classes; i++) {
                if (!(fabsf(have[i] - want[i]) < 1e-5f * (1 + fabsf(want[i])))) {
                    fail_msg("logit %lld is %g, not %g", (long long)i, (double)have[i],
                             (double)want[i]);
                }
            }
        }
        assert_int_equal(skipped, rows_without_target());
        free(want);
        samples_free(&samples);
        pipeline_free(&p);
    }
}

/* Parameters are written in PyTorch's shapes, so that it reads them back. */
static void test_shapes(void **state) {
    (void)state;
    struct pipeline p;
    pipeline_new(&p, (struct variant){.stages = 2, .threads = 1});
    for (int32_t s = 0; s < p.stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(p.stage[s]);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            const struct culm_safetensors_entry *entry = entry_of("weight.", param->name);
            if (strcmp(entry->name + strlen("weight."), param->name) != 0) {
                continue; /* found by its numbers: an exporter has made it what it is */
            }
            char have[CULM_SHAPE_TEXT_MAX], want[CULM_SHAPE_TEXT_MAX];
            culm_shape_text(param->rank, param->shape, have);
            culm_shape_text(entry->rank, entry->shape, want);
            if (strcmp(have, want) != 0) {
                fail_msg("%s is written as %s, not %s", param->name, have, want);
            }
        }
    }
    pipeline_free(&p);
}

/* What follows from PyTorch's logits for one field of targets, summed over its rows. */
struct evaluation {
    int64_t rows, counted, correct;
    double loss;
};

static struct evaluation evaluate(const struct culm_field *field, const int32_t *target) {
    struct evaluation e = {.rows = culm_elements(&field->shape)};
    int64_t classes = entry_of("logits", "")->elements / e.rows;
    float *logits = vector("logits", "", e.rows * classes);
    for (int64_t r = 0; r < e.rows; r++) {
        const float *row = logits + r * classes;
        double sum = 0;
        int64_t best = 0;
        for (int64_t c = 0; c < classes; c++) {
            sum += exp((double)row[c]);
            best = row[c] > row[best] ? c : best;
        }
        e.counted += target[r] >= 0;
        e.correct += target[r] >= 0 && target[r] == best;
        e.loss += target[r] >= 0 ? log(sum) - (double)row[target[r]] : 0;
    }
    free(logits);
    return e;
}

/* The loss and the number of right answers: dropout is off and running statistics are used. BERT
 * has a second head, of which the vectors tell the loss alone: the first of its ten. */
static void test_evaluation(void **state) {
    (void)state;
    struct pipeline p;
    pipeline_new(&p,
                 (struct variant){.stages = 1, .threads = 1, .dropout = true, .evaluate = true});
    struct samples samples = samples_of(p.graph, 0);
    pipeline_forward(&p, &samples, NULL);
    struct evaluation e = {0};
    int64_t second_head = 0;
    double want = 0;
    for (int32_t f = 0; f < p.graph->field_count; f++) {
        const struct culm_field *field = &p.graph->field[f];
        if (strcmp(field->name, "label") == 0 || strcmp(field->name, "targets") == 0) {
            e = evaluate(field, samples.field[f]);
            want = e.loss / (double)e.rows;
        } else if (strcmp(field->name, "mlm_targets") == 0) {
            e = evaluate(field, samples.field[f]);
            second_head = family->options.batch;
            float *losses = vector("losses.sgd", "", STEPS);
            want = (double)losses[0];
            free(losses);
            assert_true(e.loss / (double)e.rows < want);
        }
    }
    assert_true(e.rows > 0);
    if (!(fabs(p.loss - want) < 1e-5)) {
        fail_msg("the loss is %.7f, not %.7f", p.loss, want);
    }
    assert_int_equal(p.total.rows, e.rows + second_head);
    assert_int_equal(p.total.counted, e.counted + second_head);
    assert_in_range(p.total.correct, e.correct, e.correct + second_head);
    samples_free(&samples);
    pipeline_free(&p);
}

static void test_loss_and_gradients(void **state) {
    (void)state;
    struct pipeline p;
    pipeline_new(&p, (struct variant){.stages = 1, .threads = 1});
    struct samples samples = samples_of(p.graph, 0);
    pipeline_step(&p, &samples, NULL);
    float *losses = vector("losses.sgd", "", STEPS);
    if (!(fabs(p.loss - (double)losses[0]) < 1e-5)) {
        fail_msg("the loss is %.7f, not %.7f", p.loss, (double)losses[0]);
    }
    float *norms = vector("norms.adamw", "", STEPS);
    for (int32_t i = 0; i < p.graph->param_count; i++) {
        const struct culm_param *param = &p.graph->param[i];
        if (param->statistic) {
            continue;
        }
        int64_t count = culm_elements(&param->shape);
        float *want = vector("grad.", param->name, count), *have = gradient(&p, i);
        double size = norm_of(want, NULL, count), off = norm_of(have, want, count);
        /* Some are zero but for rounding: a bias before batch norm, the bias of keys; some are small
         * differences of large terms: weights between two batch norms. */
        double allowed = size < 1e-7 * (double)norms[0] ? 1e-5 * (double)norms[0]
                                                        : 1e-4 * size + 1e-7 * (double)norms[0];
        if (!(off < allowed)) {
            fail_msg("gradient of %s is off by %g of %g", param->name, off, size);
        }
        free(have);
        free(want);
    }
    free(losses);
    free(norms);
    samples_free(&samples);
    pipeline_free(&p);
}

/* As the executor steps, with the program's kernels. */
static void optimize(struct pipeline *p, int64_t step, bool sgd, const float *lr,
                     double *ret_norm) {
    double top = (double)lr[sgd ? 0 : 1], squares = 0;
    const struct culm_schedule cosine = {CULM_SCHEDULE_COSINE, top, top / 10, 3, STEPS, 0, 0};
    float *grads[PARAMS_MAX];
    for (int32_t i = 0; i < p->graph->param_count; i++) {
        grads[i] = gradient(p, i);
        if (!p->graph->param[i].statistic) {
            squares +=
                culm_device_sum_squares(p->cpu, grads[i], culm_elements(&p->graph->param[i].shape));
        }
    }
    *ret_norm = sqrt(squares);
    struct culm_adamw adamw = culm_adamw_at(step, 0.9, 0.95);
    adamw.lr = culm_schedule_lr(&cosine, step);
    adamw.eps = 1e-8;
    adamw.grad_scale = *ret_norm + 1e-6 > 1 ? 1 / (*ret_norm + 1e-6) : 1;
    for (int32_t s = 0; s < p->stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(p->stage[s]);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            float *data = p->params[s] + param->offset, *m = p->m[s] + param->offset;
            const float *grad = grads[param->global_index];
            adamw.weight_decay = param->decay ? 0.1 : 0;
            if (param->statistic) {
                culm_statistic_step(data, grad, param->count, param->momentum, 1);
            } else if (sgd) {
                const struct culm_sgd hyper = {.lr = step > 5 ? top / 10 : top,
                                               .momentum = 0.9,
                                               .weight_decay = param->decay ? 0.01 : 0,
                                               .grad_scale = 1,
                                               .first = step == 1};
                CULM_RUN(p->cpu, sgd, .p = data, .buffer = m, .g = grad, .count = param->count,
                         .hyper = &hyper);
            } else {
                CULM_RUN(p->cpu, adamw, .p = data, .m = m, .v = p->v[s] + param->offset, .g = grad,
                         .count = param->count, .hyper = &adamw);
            }
        }
    }
    for (int32_t i = 0; i < p->graph->param_count; i++) {
        free(grads[i]);
    }
}

static void ten_losses(bool sgd) {
    struct pipeline p;
    pipeline_new(&p, (struct variant){.stages = 2, .threads = 2});
    float *losses = vector(sgd ? "losses.sgd" : "losses.adamw", "", STEPS);
    float *norms = vector("norms.adamw", "", STEPS), *lr = vector("lr", "", 2);
    for (int step = 0; step < STEPS; step++) {
        struct samples samples = samples_of(p.graph, step);
        double norm;
        pipeline_step(&p, &samples, NULL);
        if (!(fabs(p.loss - (double)losses[step]) < 1e-4)) {
            fail_msg("loss of step %d is %.7f, not %.7f", step + 1, p.loss, (double)losses[step]);
        }
        optimize(&p, step + 1, sgd, lr, &norm);
        if (!sgd && !(fabs(norm / (double)norms[step] - 1) < 1e-3)) {
            fail_msg("norm of step %d is %.7f, not %.7f", step + 1, norm, (double)norms[step]);
        }
        samples_free(&samples);
    }
    for (int32_t s = 0; sgd && s < p.stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(p.stage[s]);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            if (!param->statistic) {
                continue;
            }
            float *want = vector("final.", param->name, param->count);
            double size = norm_of(want, NULL, param->count);
            double off = norm_of(p.params[s] + param->offset, want, param->count);
            if (!(off < 1e-4 * size)) {
                fail_msg("%s ends off by %g of %g", param->name, off, size);
            }
            free(want);
        }
    }
    free(losses);
    free(norms);
    free(lr);
    pipeline_free(&p);
}

static void test_ten_losses_of_sgd(void **state) {
    (void)state;
    ten_losses(true);
}

static void test_ten_losses_of_adamw(void **state) {
    (void)state;
    ten_losses(false);
}

/* --- the same on the device that defines what operators mean --- */

static int on_reference(void **state) {
    (void)state;
    golden_device = &culm_reference_device_ops;
    return 0;
}

static int on_default(void **state) {
    (void)state;
    golden_device = NULL;
    return 0;
}

#define ON_REFERENCE(test)                                                                         \
    { #test " on the reference", test, on_reference, on_default, NULL }

/* --- in bf16: about as far off as PyTorch's mixed precision is, which the file tells --- */

/* The gradient as a whole: single tensors may be small differences of large terms. */
static void test_bf16_gradient(void **state) {
    (void)state;
    struct pipeline p;
    pipeline_new(&p, (struct variant){.stages = 1, .threads = 1, .bf16 = true});
    struct samples samples = samples_of(p.graph, 0);
    pipeline_step(&p, &samples, NULL);
    float *peer = vector("bf16.gradient", "", 1);
    double off = 0, size = 0;
    for (int32_t i = 0; i < p.graph->param_count; i++) {
        const struct culm_param *param = &p.graph->param[i];
        if (param->statistic) {
            continue;
        }
        int64_t count = culm_elements(&param->shape);
        float *want = vector("grad.", param->name, count), *have = gradient(&p, i);
        off += pow(norm_of(have, want, count), 2);
        size += pow(norm_of(want, NULL, count), 2);
        free(have);
        free(want);
    }
    off = sqrt(off / size);
    print_message("gradient off by %.2g of its norm; PyTorch by %.2g\n", off, (double)*peer);
    assert_true(off > 0 && off < 1.5 * (double)*peer + 0.005);
    free(peer);
    samples_free(&samples);
    pipeline_free(&p);
}

static void ten_bf16_losses(bool sgd) {
    struct pipeline p;
    pipeline_new(&p, (struct variant){.stages = 2, .threads = 2, .bf16 = true});
    float *losses = vector(sgd ? "losses.sgd" : "losses.adamw", "", STEPS);
    float *peer = vector(sgd ? "bf16.sgd" : "bf16.adamw", "", STEPS), *lr = vector("lr", "", 2);
    double off = 0, peer_off = 0;
    for (int step = 0; step < STEPS; step++) {
        struct samples samples = samples_of(p.graph, step);
        double norm;
        pipeline_step(&p, &samples, NULL);
        optimize(&p, step + 1, sgd, lr, &norm);
        off += fabs(p.loss - (double)losses[step]) / STEPS;
        peer_off += fabs((double)peer[step] - (double)losses[step]) / STEPS;
        samples_free(&samples);
    }
    print_message("%s: losses off by %.2g; PyTorch by %.2g\n", sgd ? "SGD" : "AdamW", off,
                  peer_off);
    assert_true(off > 0 && off < 3 * peer_off + 0.002);
    free(losses);
    free(peer);
    free(lr);
    pipeline_free(&p);
}

static void test_bf16_ten_losses(void **state) {
    (void)state;
    ten_bf16_losses(true);
    ten_bf16_losses(false);
}

/* --- the same bits --- */

static void same_bits(bool bf16) {
    const int always = 1;
    struct pipeline reference;
    pipeline_new(&reference,
                 (struct variant){.stages = 1, .threads = 1, .dropout = true, .bf16 = bf16});
    struct samples samples = samples_of(reference.graph, 0);
    pipeline_step(&reference, &samples, NULL);
    static const struct variant variants[] = {
        {.stages = 1, .threads = 1, .pausing = true},
        {.stages = 1, .threads = 3},
        {.stages = 2, .threads = 1},
        {.stages = 3, .threads = 2},
        {.stages = 1, .threads = 2, .recompute = true},
        {.stages = 2, .threads = 3, .recompute = true, .pausing = true},
    };
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        struct variant variant = variants[v];
        struct pipeline p;
        if (variant.stages > family->stages) {
            variant.stages = (int32_t)family->stages; /* with its threads and its pauses */
        }
        variant.dropout = true;
        variant.bf16 = bf16;
        pipeline_new(&p, variant);
        pipeline_step(&p, &samples, variant.pausing ? &always : NULL);
        assert_memory_equal(&p.loss, &reference.loss, sizeof p.loss);
        for (int32_t i = 0; i < p.graph->param_count; i++) {
            float *a = gradient(&p, i), *b = gradient(&reference, i);
            size_t bytes = (size_t)culm_elements(&p.graph->param[i].shape) * sizeof(float);
            if (memcmp(a, b, bytes) != 0) {
                fail_msg("variant %zu: other bits in the gradient of %s", v,
                         p.graph->param[i].name);
            }
            free(a);
            free(b);
        }
        pipeline_free(&p);
    }
    samples_free(&samples);
    pipeline_free(&reference);
}

static void test_same_bits(void **state) {
    (void)state;
    same_bits(false);
}

/* The negative control: the same samples in another order, whose gradients are the same sums. */
static void test_another_order_shows(void **state) {
    (void)state;
    struct pipeline p, moved;
    int64_t batch = family->options.batch;
    int32_t differ = 0;
    pipeline_new(&p, (struct variant){.stages = 1, .threads = 1});
    pipeline_new(&moved, (struct variant){.stages = 1, .threads = 1});
    struct samples samples = samples_of(p.graph, 0);
    pipeline_step(&p, &samples, NULL);
    for (int32_t f = 0; f < p.graph->field_count; f++) {
        astray(samples.field[f], 1, batch, culm_elements(&p.graph->field[f].shape) / batch, false);
    }
    pipeline_step(&moved, &samples, NULL);
    assert_true(fabs(moved.loss - p.loss) < 1e-5 * fabs(p.loss));
    for (int32_t i = 0; i < p.graph->param_count; i++) {
        float *a = gradient(&p, i), *b = gradient(&moved, i);
        differ += memcmp(a, b, (size_t)culm_elements(&p.graph->param[i].shape) * sizeof *a) != 0;
        free(a);
        free(b);
    }
    assert_true(differ > p.graph->param_count / 2);
    samples_free(&samples);
    pipeline_free(&p);
    pipeline_free(&moved);
}

static void test_same_bits_of_bf16(void **state) {
    (void)state;
    same_bits(true);
}

/* Fewer samples than a stage was compiled for: the bits of a stage that was compiled for them. */
static void test_fewer_samples(void **state) {
    (void)state;
    int64_t few = family->options.batch - 1;
    struct pipeline whole, exact;
    pipeline_new(&whole, (struct variant){.stages = 1, .threads = 1});
    struct samples samples = samples_of(whole.graph, 0);
    struct variant variants[] = {
        {.stages = 1, .threads = 1, .dropout = true},
        {.stages = (int32_t)family->stages, .threads = 2, .dropout = true, .recompute = true},
        {.stages = (int32_t)family->stages, .threads = 1, .dropout = true, .bf16 = true},
    };
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        struct variant variant = variants[v];
        variant.built = few;
        pipeline_new(&exact, variant);
        pipeline_step(&exact, &samples, NULL);
        struct pipeline p;
        variant.built = 0;
        variant.run = few;
        pipeline_new(&p, variant);
        pipeline_step(&p, &samples, NULL);
        assert_memory_equal(&p.loss, &exact.loss, sizeof p.loss);
        assert_int_equal(p.total.rows, exact.total.rows);
        for (int32_t i = 0; i < p.graph->param_count; i++) { /* cuts may fall elsewhere */
            float *a = gradient(&p, i), *b = gradient(&exact, i);
            assert_memory_equal(a, b,
                                (size_t)culm_elements(&p.graph->param[i].shape) * sizeof(float));
            free(a);
            free(b);
        }
        pipeline_free(&p);
        pipeline_free(&exact);
    }
    samples_free(&samples);
    pipeline_free(&whole);
}

/* A micro-batch suspended in the middle is not disturbed by another one run meanwhile: the same
 * loss, and the same gradients from what it left for backward. */
static void test_suspended_forward(void **state) {
    (void)state;
    struct pipeline p;
    pipeline_new(&p, (struct variant){.stages = 1, .threads = 1, .dropout = true});
    struct samples one = samples_of(p.graph, 0), two = samples_of(p.graph, 1);
    const struct culm_stage_info *info = culm_stage_info_of(p.stage[0]);
    size_t grad_bytes = (size_t)info->grad_floats * sizeof(float);
    void *want = memory(grad_bytes);
    struct culm_stage_run plain = run_of(&p, 0, &one);
    assert_int_equal(culm_stage_forward(p.stage[0], p.cpu, &plain), CULM_OK);
    assert_int_equal(culm_stage_backward(p.stage[0], p.cpu, &plain), CULM_OK);
    memcpy(want, p.grads[0], grad_bytes);

    void *scratch = memory(info->scratch_bytes), *activations = memory(info->activation_bytes);
    const int stop = 1;
    struct culm_stage_run slow = run_of(&p, 0, &one);
    slow.scratch = scratch;
    slow.activations = activations;
    slow.stop = &stop;
    int32_t pauses = 0;
    for (; culm_stage_forward(p.stage[0], p.cpu, &slow) == CULM_ERR_AGAIN; pauses++) {
        struct culm_stage_run other = run_of(&p, 0, &two);
        assert_int_equal(culm_stage_forward(p.stage[0], p.cpu, &other), CULM_OK);
    }
    assert_int_equal(pauses, info->forward_ops - 1);
    assert_memory_equal(&plain.loss.loss, &slow.loss.loss, sizeof plain.loss.loss);
    assert_int_equal(culm_stage_backward(p.stage[0], p.cpu, &slow), CULM_OK);
    assert_memory_equal(p.grads[0], want, grad_bytes);
    free(want);
    free(scratch);
    free(activations);
    samples_free(&one);
    samples_free(&two);
    pipeline_free(&p);
}

int main(int argc, char **argv) {
    struct culm_error error;
    const char *directory = getenv("CULM_GOLDEN");
    char path[1024], *bytes = NULL;
    family = argc == 2 ? family_find(argv[1]) : NULL;
    if (!family || !directory) {
        fprintf(stderr, "usage: CULM_GOLDEN=DIRECTORY %s FAMILY\n", argv[0]);
        return 2;
    }
    snprintf(path, sizeof path, "%s/%s.safetensors", directory, family->name);
    if (golden_open(path, &golden, &bytes, &error) != CULM_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_loss_and_gradients),
        cmocka_unit_test(test_ten_losses_of_sgd),
        cmocka_unit_test(test_ten_losses_of_adamw),
        cmocka_unit_test(test_bf16_gradient),
        cmocka_unit_test(test_bf16_ten_losses),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_another_order_shows),
        cmocka_unit_test(test_same_bits_of_bf16),
        cmocka_unit_test(test_fewer_samples),
        cmocka_unit_test(test_suspended_forward),
    };
    const struct CMUnitTest on_references[] = {
        ON_REFERENCE(test_logits),
        ON_REFERENCE(test_evaluation),
        ON_REFERENCE(test_loss_and_gradients),
        ON_REFERENCE(test_ten_losses_of_sgd),
        ON_REFERENCE(test_ten_losses_of_adamw),
    };
    int failed = cmocka_run_group_tests_name("model/golden", tests, NULL, NULL);
    if (!getenv("CULM_ONNX")) { /* graphs of ONNX files are too large for it */
        failed += cmocka_run_group_tests_name("model/golden", on_references, NULL, NULL);
    }
    culm_safetensors_close(golden);
    free(bytes);
    return failed;
}
