/* Times epochs of a graph network in one process. See gnn_measure.h. */
#include "run/gnn_measure.h"

#include "base/clock.h"
#include "base/machine.h"
#include "gnn/solo.h"

#include <stdio.h>
#include <stdlib.h>

#define WARM_UP 2

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

enum culm_status culm_gnn_bench_run(const char *config_path, const char *dtype, int threads,
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
