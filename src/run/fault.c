/* One row per field of a fault. */
#include "run/fault.h"

#include "cluster/fault_text.h"

#include <string.h>

enum field { WORKER, STEP, MICRO, PHASE, HOW, FOR_MS, FIELD_COUNT };

static const struct culm_fault_field fields[FIELD_COUNT + 1] = {
    [WORKER] = {"worker", "a node id, from 0", .max = INT32_MAX},
    [STEP] = {"step", "a step, from 1", .min = 1, .max = INT64_MAX},
    [MICRO] = {"micro", "a micro-batch of the global batch, from 0", .max = INT32_MAX},
    [PHASE] = {"phase",
               "load, forward, backward, frc, send, reduce, commit, step, transfer, checkpoint",
               .word = culm_phase_name},
    [HOW] = {"how", "kill, stop, exit, stuck, flip", .word = culm_fault_how_name},
    [FOR_MS] = {"for_ms", "1 to 86400000", .min = 1, .max = 86400000},
};

enum culm_status culm_fault_parse(const char *text, struct culm_fault_spec *ret_spec,
                                  struct culm_error *error) {
    int64_t values[CULM_FAULT_FIELDS_MAX] = {
        [MICRO] = -1, [PHASE] = CULM_PHASE_FORWARD, [HOW] = CULM_HOW_KILL};
    bool given[CULM_FAULT_FIELDS_MAX];
    enum culm_status status =
        culm_fault_read(text, fields, "worker=K,step=S[,micro=M][,phase=P][,how=H][,for_ms=N]",
                        values, given, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!given[WORKER] || !given[STEP]) {
        return culm_error_set(
            error, CULM_ERR_CONFIG, "--fault '%.100s': %s is missing; required: %s", text,
            given[WORKER] ? "step" : "worker", fields[given[WORKER] ? STEP : WORKER].allowed);
    }
    if (given[FOR_MS] && values[HOW] != CULM_HOW_STOP) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': for_ms means nothing here; allowed with how=stop",
                              text);
    }
    if (given[MICRO] && !culm_phase_has_part((enum culm_phase)values[PHASE])) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': micro means nothing in phase %s; allowed with "
                              "forward, backward, frc, send",
                              text, culm_phase_name((size_t)values[PHASE]));
    }
    bool flips = values[PHASE] == CULM_PHASE_FORWARD || values[PHASE] == CULM_PHASE_BACKWARD ||
                 values[PHASE] == CULM_PHASE_FRC || values[PHASE] == CULM_PHASE_REDUCE ||
                 values[PHASE] == CULM_PHASE_COMMIT || values[PHASE] == CULM_PHASE_STEP ||
                 values[PHASE] == CULM_PHASE_CHECKPOINT;
    if (values[HOW] == CULM_HOW_FLIP && !flips) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': how=flip means nothing in phase %s; allowed with "
                              "forward, backward, frc, reduce, commit, step, checkpoint",
                              text, culm_phase_name((size_t)values[PHASE]));
    }
    *ret_spec = (struct culm_fault_spec){
        .worker = (int32_t)values[WORKER],
        .point = {.phase = (uint32_t)values[PHASE], .step = values[STEP], .part = values[MICRO]},
        .how = (enum culm_fault_how)values[HOW],
        .for_ms = values[FOR_MS],
    };
    return CULM_OK;
}

enum culm_status culm_fault_check(const struct culm_fault_spec *spec, const char *text,
                                  const struct culm_train_config *config, bool replaced,
                                  struct culm_error *error) {
    int64_t micros = config->batch.global / config->batch.micro;
    int64_t workers = config->pipelines * config->stages;
    if (spec->point.step > config->steps) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': step %lld never comes; the run has %lld", text,
                              (long long)spec->point.step, (long long)config->steps);
    }
    if (spec->point.part >= micros) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': no micro-batch %lld; allowed: 0 to %lld", text,
                              (long long)spec->point.part, (long long)micros - 1);
    }
    if (spec->point.phase == CULM_PHASE_FRC && config->redundancy != CULM_REDUNDANCY_EAGER) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': there is no phase frc with redundancy %s; allowed "
                              "with eager",
                              text, culm_redundancy_name(config->redundancy));
    }
    bool alone = config->pipelines == 1 &&
                 (config->stages == 1 || config->redundancy == CULM_REDUNDANCY_NONE);
    if (spec->how == CULM_HOW_FLIP && spec->point.phase == CULM_PHASE_REDUCE && alone) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "--fault '%.100s': no worker has a second copy of this gradient, so nothing would "
            "notice it; allowed with more pipelines, or more stages and redundancy",
            text);
    }
    if (spec->worker >= workers && !replaced) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': no worker %d, since none is replaced; allowed: 0 "
                              "to %lld",
                              text, spec->worker, (long long)workers - 1);
    }
    return CULM_OK;
}
