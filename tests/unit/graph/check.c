/* See check.h. */
#include "check.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define STEP 1e-2f
#define TOLERANCE 4e-3 /* of the length of a parameter's gradient */

static bool seen[256]; /* rows of culm_ops() whose gradient was looked at */

static void mark(const struct culm_graph *graph) {
    const struct culm_op *const *ops = culm_ops();
    for (int32_t n = 0; n < graph->node_count; n++) {
        for (int i = 0; ops[i]; i++) {
            seen[i] |= ops[i] == graph->node[n].op;
        }
    }
}

/* The gradient of a parameter is the sum over its uses. */
static double analytic(const struct net *net, const struct result *result, int32_t param,
                       int64_t element) {
    double sum = 0;
    for (int32_t u = 0; u < result->uses; u++) {
        if (net->graph->use[u].param == param) {
            sum += (double)result->grad[u][element];
        }
    }
    return sum;
}

static double numeric(struct net *net, const struct culm_stage *stage, int32_t param,
                      int64_t element) {
    float *weight = &net->params[param][element], before = *weight;
    volatile float up = before + STEP, down = before - STEP;
    *weight = up;
    double loss = run_loss(stage, &net->data);
    *weight = down;
    loss -= run_loss(stage, &net->data);
    *weight = before;
    return loss / ((double)up - (double)down);
}

/* What is frozen has no gradient, and that of the others is the same bits. */
static void check_frozen(struct net *net, const struct result *all) {
    uint64_t random = CHECK_SEED;
    for (int n = 0; n < 8; n++) {
        struct result some;
        bool frozen[64] = {0};
        char what[64];
        for (int32_t p = 0; p < net->graph->param_count; p++) {
            frozen[p] = culm_rng_below(&random, 2);
        }
        snprintf(what, sizeof what, "seed %d, choice %d", CHECK_SEED, n);
        run_stages_frozen(net->graph, 1, n % 2, frozen, &net->data, &some);
        result_expect_frozen(all, &some, net->graph, frozen, what);
        result_release(&some);
    }
}

void check_gradients(struct net *net) {
    struct culm_stage *stage;
    struct culm_error error;
    struct result result;
    mark(net->graph);
    if (culm_stages_compile(net->graph, 1, NULL, &stage, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    run_stages(net->graph, 1, &net->data, &result);
    for (int32_t p = 0; p < net->graph->param_count; p++) {
        if (net->graph->param[p].statistic) { /* its use holds no gradient */
            continue;
        }
        int64_t count = culm_elements(&net->graph->param[p].shape);
        double difference = 0, size = 0;
        for (int64_t i = 0; i < count; i++) {
            double a = analytic(net, &result, p, i), n = numeric(net, stage, p, i);
            difference += (a - n) * (a - n);
            size += n * n;
        }
        double off = sqrt(difference) / (sqrt(size) + 1e-3);
        if (!(off < TOLERANCE && size > 1e-6)) {
            fail_msg("seed %d: gradient of parameter %d (length %g) is off by %g", CHECK_SEED, p,
                     sqrt(size), off);
        }
    }
    check_frozen(net, &result);
    result_release(&result);
    culm_stage_free(stage);
    net_release(net);
}

const char *check_missing(void) {
    for (int i = 0; culm_ops()[i]; i++) {
        if (culm_ops()[i]->infer && !seen[i]) {
            return culm_ops()[i]->name;
        }
    }
    return NULL;
}
