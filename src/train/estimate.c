/* A guess at the longest task. See estimate.h. */
#include "train/estimate.h"

#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIDE 384       /* of the square matrices of the measurement */
#define REPEATS 4      /* the best of them counts */
#define EFFICIENCY 0.4 /* of a whole task beside such a product: everything else is slower */
#define SLOWEST 1e9    /* no machine that this is built for is slower */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double culm_estimate_measure(void) {
    struct culm_device *device = NULL;
    size_t count = (size_t)SIDE * SIDE;
    float *all = calloc(3 * count, sizeof *all);
    double best = 0;
    if (all && culm_device_new(1, &device, NULL) == CULM_OK) {
        for (int i = 0; i < REPEATS; i++) {
            double begin = seconds();
            CULM_RUN(device, gemm, .m = SIDE, .n = SIDE, .k = SIDE, .a = all, .lda = SIDE,
                     .b = all + count, .ldb = SIDE, .beta = 0, .c = all + 2 * count, .ldc = SIDE);
            double took = seconds() - begin;
            best = i == 0 || took < best ? took : best;
        }
    }
    culm_device_free(device);
    free(all);
    return best > 0 ? 2.0 * SIDE * SIDE * SIDE / best : 0;
}

double culm_estimate_longest_s(const struct culm_plan *plan, int64_t threads, int64_t processors,
                               double rate, int32_t *ret_stage, bool *ret_backward) {
    double workers = (double)plan->shape.pipelines * plan->shape.stages * (double)threads;
    double share = workers > (double)processors ? (double)processors / workers : 1;
    double longest = 0;
    *ret_stage = 0;
    *ret_backward = false;
    for (int32_t s = 0; s < plan->shape.stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(plan->stage[s]);
        bool backward = info->backward_flops > info->forward_flops;
        double flops = backward ? info->backward_flops : info->forward_flops;
        if (flops > longest) {
            longest = flops;
            *ret_stage = s;
            *ret_backward = backward;
        }
    }
    return longest / (rate * EFFICIENCY * share * (double)threads);
}

void culm_estimate_warning(const struct culm_plan *plan, const struct culm_train_config *config,
                           char ret_text[CULM_ESTIMATE_WARNING_SIZE]) {
    double limit = (double)config->cluster.stuck_ms / 1e3;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t processors = online > 0 ? online : 1;
    int32_t stage;
    bool backward;
    ret_text[0] = '\0';
    if (culm_estimate_longest_s(plan, config->threads, processors, SLOWEST, &stage, &backward) <=
        limit) {
        return; /* not worth a measurement */
    }
    double rate = culm_estimate_measure();
    double took = rate > 0 ? culm_estimate_longest_s(plan, config->threads, processors, rate,
                                                     &stage, &backward)
                           : 0;
    if (took > limit) {
        snprintf(
            ret_text, CULM_ESTIMATE_WARNING_SIZE,
            "a %s task of stage %d may take %.3g s here and cluster.stuck_ms is %lld: workers "
            "may be put out until the limit has grown; raise it, or make the task smaller with "
            "batch.micro or stages",
            backward ? "backward" : "forward", stage, took, (long long)config->cluster.stuck_ms);
    }
}
