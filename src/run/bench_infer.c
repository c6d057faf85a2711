/* How fast a model of pictures answers. See vision_commands.h. */
#include "base/clock.h"
#include "base/grow.h"
#include "base/rng.h"
#include "run/vision_commands.h"
#include "run/vision_open.h"
#include "vision/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define WARM_UP 3

static enum culm_status measure(struct culm_vision_runner *runner, int64_t iters,
                                struct culm_infer_bench *bench, struct culm_error *error) {
    const struct culm_stage_info *info = culm_stage_info(runner->stage);
    double *took = calloc((size_t)iters, sizeof *took);
    uint64_t random = 1;
    if (!took) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    int64_t count = culm_elements(&runner->graph->field[0].shape);
    for (int64_t i = 0; i < count; i++) {
        runner->image[i] = culm_rng_unit((uint32_t)culm_rng_next(&random));
    }
    for (int64_t i = -WARM_UP; i < iters; i++) {
        uint64_t start = culm_clock_ns();
        culm_vision_runner_run(runner);
        if (i >= 0) {
            took[i] = (double)(culm_clock_ns() - start) / 1e9 / (double)runner->batch;
        }
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    bench->median_s = culm_median(took, (size_t)iters); /* and sorts them */
    bench->least_s = took[0];
    bench->flops = info->forward_flops / (double)runner->batch;
    bench->parameter_bytes = info->param_floats * 4;
    bench->activation_bytes = runner->memory_bytes - bench->parameter_bytes;
    bench->peak_memory_bytes = (int64_t)used.ru_maxrss * 1024;
    free(took);
    return CULM_OK;
}

enum culm_status culm_bench_infer(const char *what, const struct culm_infer_options *options,
                                  struct culm_infer_bench *ret_bench, struct culm_error *error) {
    const struct culm_vision_open_options how = {.weights = options->weights};
    struct culm_vision_model *model = NULL;
    struct culm_device *device = NULL;
    struct culm_vision_runner runner = {0};
    int64_t batch = options->batch ? options->batch : 1;
    *ret_bench = (struct culm_infer_bench){.batch = batch, .threads = options->threads};
    enum culm_status status;
    if (!(status = culm_vision_open(what, &how, &model, error)) &&
        !(status = culm_device_new(options->threads, &device, error)) &&
        !(status = culm_vision_runner_init(&runner, model, batch, device, error))) {
        snprintf(ret_bench->name, sizeof ret_bench->name, "%s", model->name);
        status = measure(&runner, options->iters, ret_bench, error);
    }
    culm_vision_runner_release(&runner);
    culm_device_free(device);
    culm_vision_model_free(model);
    return status;
}
