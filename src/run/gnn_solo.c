/*
 * A graph network in one process: times epochs, and computes what an epoch of a configuration
 * costs.
 */
#include "run/gnn_commands.h"

#include "base/file.h"

#include "base/clock.h"
#include "base/machine.h"
#include "gnn/solo.h"
#include "run/gnn_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 2

/* --- times of epochs --- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum culm_status measure(struct culm_gnn_solo *solo, int64_t epochs,
                                struct culm_gnn_bench *bench, struct culm_error *error) {
    double *took = calloc((size_t)epochs, sizeof *took);
    struct culm_gnn_solo_epoch epoch = {0};
    enum culm_status status =
        took ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    for (int64_t i = -WARM_UP; i < epochs && status == CULM_OK; i++) {
        uint64_t start = culm_clock_ns();
        status = culm_gnn_solo_train(solo, i + WARM_UP + 1, false, &epoch, error);
        if (i >= 0) {
            took[i] = (double)(culm_clock_ns() - start) / 1e9;
        }
    }
    if (status == CULM_OK) {
        qsort(took, (size_t)epochs, sizeof *took, by_size);
        bench->least_s = took[0];
        bench->median_s = (took[epochs / 2] + took[(epochs - 1) / 2]) / 2;
        bench->gathered_floats = epoch.gathered_floats;
        bench->peak_memory_bytes = (int64_t)culm_machine_peak();
    }
    free(took);
    return status;
}

enum culm_status culm_gnn_bench(const char *config_path, const char *dtype, int threads,
                                int64_t epochs, struct culm_gnn_bench *ret_bench,
                                struct culm_error *error) {
    struct culm_gnn_config config;
    struct culm_gnn_setup *setup = NULL;
    struct culm_gnn_solo *solo = NULL;
    char set[64];
    const char *const sets[] = {set};
    snprintf(set, sizeof set, "precision=%s", dtype ? dtype : "");
    enum culm_status status =
        culm_gnn_config_load(config_path, sets, dtype != NULL, &config, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_gnn_bench bench = {.dtype = culm_precision_names[config.precision],
                                   .threads = threads};
    snprintf(bench.model, sizeof bench.model, "%s", culm_gnn_arch_names[config.model.arch]);
    status = culm_gnn_setup_open(&config, NULL, &setup, error);
    if (status == CULM_OK) {
        status = culm_gnn_solo_new(setup, threads, NULL, &solo, error);
    }
    if (status == CULM_OK) {
        status = measure(solo, epochs, &bench, error);
    }
    culm_gnn_solo_free(solo);
    culm_gnn_setup_close(setup);
    culm_gnn_config_release(&config);
    if (status == CULM_OK) {
        *ret_bench = bench;
    }
    return status;
}

/* --- costs of a configuration --- */

/* Bytes of a vertex's rows that are sent to a worker and back in an epoch. */
static int64_t worker_bytes(const struct culm_gnn_setup *setup, const struct culm_gnn_step *step) {
    const struct culm_gnn_border *border = setup->model->border;
    const struct culm_gnn_layout *layout = &setup->layout;
    int64_t floats = 0;
    if (step->rows >= 0) {
        floats += border[step->stage - 1].width + border[step->stage - 1].extra;
    }
    if (step->d_rows >= 0) {
        floats += border[step->stage].width;
    }
    int64_t out = step->makes >= 0 ? (int64_t)layout->gather[step->makes].row_bytes : 0;
    return floats * (int64_t)culm_dtype_bytes(setup->model->rows) + out;
}

static void count_rows(const struct culm_gnn_config *config, const struct culm_gnn_setup *setup,
                       struct culm_gnn_config_about *about) {
    const struct culm_gnn_layout *layout = &setup->layout;
    const struct culm_gnn_plan *plan = &setup->model->plan;
    for (int32_t i = 0; i < layout->train_steps; i++) {
        const struct culm_gnn_step *step = &layout->step[i];
        if (step->makes >= 0) {
            const struct culm_gnn_gather *gather = &layout->gather[step->makes];
            about->floats_per_edge += gather->sent_floats;
            about->ghost_floats_per_vertex += gather->constant ? 0 : gather->sent_floats;
        }
        about->bytes_per_vertex += step->remote ? worker_bytes(setup, step) : 0;
    }
    about->parameters = culm_gnn_model_parameters(setup->model);
    about->layers = plan->layers;
    for (int32_t l = 0; l < plan->layers; l++) {
        about->multiply_first[l] = plan->multiply_first[l];
    }
    about->aggregated = plan->aggregated;
    about->memory_bytes = culm_gnn_setup_memory(setup);
    about->intervals = config->intervals;
    about->servers = config->servers;
}

enum culm_status culm_gnn_show_config(const char *config_path,
                                      struct culm_gnn_config_about *ret_about, char *ret_note,
                                      struct culm_error *error) {
    struct culm_gnn_config config;
    struct culm_gnn_setup *setup = NULL;
    struct culm_gnn_config_about about = {0};
    struct culm_gnn_own own = {0};
    char path[CULM_PATH_MAX];
    bool run = culm_file_is_directory(config_path);
    enum culm_status status =
        culm_path_format(path, error, run ? "%s/config.yaml" : "%s", config_path);
    if (status != CULM_OK ||
        (status = culm_gnn_config_load(path, NULL, 0, &config, error)) != CULM_OK) {
        return status;
    }
    status = culm_gnn_show(config.graph.path, config.graph.split, &about.graph, error);
    if (status == CULM_OK && run) {
        status = culm_gnn_own_find(config_path, &own, error);
        own.advice = "put it back; what is there now is shown by config.yaml of the run";
    }
    if (status == CULM_OK) {
        status = culm_gnn_setup_open_cut(&config, own.pins, &own.cut, &setup, error);
        status = culm_gnn_own_check(&own, status, setup, ret_note, error);
    }
    if (status == CULM_OK) {
        count_rows(&config, setup, &about);
        about.cut_edges = setup->counts.cut_edges;
        about.ghosts = setup->counts.ghosts;
    }
    culm_gnn_setup_close(setup);
    culm_gnn_own_release(&own);
    culm_gnn_config_release(&config);
    if (status == CULM_OK) {
        *ret_about = about;
    }
    return status;
}
