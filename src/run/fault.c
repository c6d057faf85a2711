/* One row per field of a fault. */
#include "run/fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum field { WORKER, STEP, MICRO, FOR_MS, PHASE, HOW, FIELD_COUNT };

static const struct {
    const char *name;
    int64_t min, max;                  /* of a number */
    const char *(*word)(size_t index); /* NULL: a number; gives NULL after the last */
    const char *allowed;
} fields[FIELD_COUNT] = {
    [WORKER] = {"worker", 0, INT32_MAX, NULL, "a node id, from 0"},
    [STEP] = {"step", 1, INT64_MAX, NULL, "a step, from 1"},
    [MICRO] = {"micro", 0, INT32_MAX, NULL, "a micro-batch of the global batch, from 0"},
    [FOR_MS] = {"for_ms", 1, 86400000, NULL, "1 to 86400000"},
    [PHASE] = {"phase", 0, 0, culm_phase_name,
               "load, forward, backward, frc, send, reduce, commit, step, transfer, checkpoint"},
    [HOW] = {"how", 0, 0, culm_fault_how_name, "kill, stop, exit, flip"},
};

static bool read_value(enum field field, const char *text, int64_t *ret_value) {
    const char *word;
    for (size_t i = 0; fields[field].word && (word = fields[field].word(i)); i++) {
        if (!strcmp(text, word)) {
            *ret_value = (int64_t)i;
            return true;
        }
    }
    if (fields[field].word || !*text || text[strspn(text, "0123456789")]) {
        return false;
    }
    errno = 0;
    *ret_value = strtoll(text, NULL, 10);
    return !errno && *ret_value >= fields[field].min && *ret_value <= fields[field].max;
}

/* Reads "name=value,..." into values[] and given[]. */
static enum culm_status read_fields(const char *text, int64_t *values, bool *given,
                                    struct culm_error *error) {
    const char *at = text;
    for (bool more = true; more;) {
        char name[16], value[32];
        size_t len = strcspn(at, ","), name_len = strcspn(at, "=");
        if (name_len >= len) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "--fault '%.100s': '%.*s' is not name=value; allowed: "
                                  "worker=K,step=S[,micro=M][,phase=P][,how=H][,for_ms=N]",
                                  text, (int)(len < 40 ? len : 40), at);
        }
        snprintf(name, sizeof name, "%.*s", (int)name_len, at);
        snprintf(value, sizeof value, "%.*s", (int)(len - name_len - 1), at + name_len + 1);
        size_t field = 0;
        while (field < FIELD_COUNT && strcmp(name, fields[field].name)) {
            field++;
        }
        if (field == FIELD_COUNT) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "--fault '%.100s': '%s' is not known; allowed: worker, step, "
                                  "micro, phase, how, for_ms",
                                  text, name);
        }
        if (given[field]) {
            return culm_error_set(error, CULM_ERR_CONFIG, "--fault '%.100s': %s is given twice",
                                  text, name);
        }
        if (!read_value((enum field)field, value, &values[field])) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "--fault '%.100s': %s: '%s' is impossible; allowed: %s", text,
                                  name, value, fields[field].allowed);
        }
        given[field] = true;
        more = at[len] == ',';
        at += len + more;
    }
    return CULM_OK;
}

enum culm_status culm_fault_parse(const char *text, struct culm_fault_spec *ret_spec,
                                  struct culm_error *error) {
    int64_t values[FIELD_COUNT] = {
        [MICRO] = -1, [PHASE] = CULM_PHASE_FORWARD, [HOW] = CULM_HOW_KILL};
    bool given[FIELD_COUNT] = {false};
    enum culm_status status = read_fields(text, values, given, error);
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
                 values[PHASE] == CULM_PHASE_COMMIT || values[PHASE] == CULM_PHASE_STEP;
    if (values[HOW] == CULM_HOW_FLIP && !flips) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': how=flip means nothing in phase %s; allowed with "
                              "forward, backward, frc, reduce, commit, step",
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
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': nobody has a second copy of this gradient to "
                              "notice it; allowed with more pipelines, or more stages and "
                              "redundancy",
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
