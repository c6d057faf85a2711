/* The fields of `--fault`, one row each, and the checks between them. See gnn_fault.h. */
#include "run/gnn_fault.h"

#include "cluster/fault_text.h"
#include "interval/phase.h"

#include <stdlib.h>
#include <string.h>

enum field { NODE, EPOCH, INTERVAL, PHASE, HOW, FOR_MS, FIELD_COUNT };

/* Kinds of faults that make sense here: all before CULM_HOW_FLIP. */
static const char *how_name(size_t index) {
    return index < CULM_HOW_FLIP ? culm_fault_how_name(index) : NULL;
}

/* Parses "server:0" into role * 2^32 + index. */
static bool read_node(const char *text, int64_t *ret_value) {
    for (uint32_t role = 0; role < CULM_GNN_ROLES; role++) {
        const char *name = culm_gnn_role_name(role);
        size_t len = strlen(name);
        if (strncmp(text, name, len) != 0 || text[len] != ':' || text[len + 1] < '0' ||
            text[len + 1] > '9') {
            continue;
        }
        char *end;
        long index = strtol(text + len + 1, &end, 10);
        if (*end || index > INT32_MAX) {
            return false;
        }
        *ret_value = ((int64_t)role << 32) | index;
        return true;
    }
    return false;
}

static const struct culm_fault_field fields[FIELD_COUNT + 1] = {
    [NODE] = {"node", "server:K, parameter:K, worker:K, from 0", .read = read_node},
    [EPOCH] = {"epoch", "an epoch, from 1", .min = 1, .max = INT64_MAX},
    [INTERVAL] = {"interval", "an interval of the graph, from 0", .max = INT32_MAX},
    [PHASE] = {"phase",
               "load, gather, scatter, apply, edge, push-gradient, push-rows, update, commit, "
               "checkpoint",
               .word = culm_gnn_phase_name},
    [HOW] = {"how", "kill, stop, exit, stuck", .word = how_name},
    [FOR_MS] = {"for_ms", "1 to 86400000", .min = 1, .max = 86400000},
};

enum culm_status culm_gnn_fault_parse(const char *text, struct culm_gnn_fault_spec *ret_spec,
                                      struct culm_error *error) {
    int64_t values[CULM_FAULT_FIELDS_MAX] = {
        [INTERVAL] = -1, [PHASE] = CULM_GNN_PHASE_APPLY, [HOW] = CULM_HOW_KILL};
    bool given[CULM_FAULT_FIELDS_MAX];
    enum culm_status status = culm_fault_read(
        text, fields, "node=ROLE:K,epoch=E[,interval=I][,phase=P][,how=H][,for_ms=N]", values,
        given, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!given[NODE] || !given[EPOCH]) {
        return culm_error_set(
            error, CULM_ERR_CONFIG, "--fault '%.100s': %s is missing; required: %s", text,
            given[NODE] ? "epoch" : "node", fields[given[NODE] ? EPOCH : NODE].allowed);
    }
    if (given[FOR_MS] && values[HOW] != CULM_HOW_STOP) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': for_ms means nothing here; allowed with how=stop",
                              text);
    }
    uint32_t role = (uint32_t)(values[NODE] >> 32);
    if (role == CULM_GNN_PARAMETER && !given[PHASE]) {
        values[PHASE] = CULM_GNN_PHASE_UPDATE;
    }
    *ret_spec = (struct culm_gnn_fault_spec){
        .role = role,
        .index = (int32_t)(values[NODE] & INT32_MAX),
        .point = {.phase = (uint32_t)values[PHASE],
                  .step = values[EPOCH],
                  .part = values[INTERVAL]},
        .how = (enum culm_fault_how)values[HOW],
        .for_ms = values[FOR_MS],
    };
    return CULM_OK;
}

/* Which nodes reach a phase. Beside a single parameter server, the first server holds weights. */
static bool comes_to(const struct culm_gnn_fault_spec *spec, const struct culm_gnn_config *config) {
    uint32_t role = spec->role;
    bool holds = role == CULM_GNN_PARAMETER ||
                 (role == CULM_GNN_SERVER && spec->index == 0 && config->parameter_servers == 1);
    switch (spec->point.phase) {
    case CULM_GNN_PHASE_GATHER:
    case CULM_GNN_PHASE_SCATTER: return role == CULM_GNN_SERVER;
    case CULM_GNN_PHASE_APPLY:
    case CULM_GNN_PHASE_PUSH_GRADIENT: return role != CULM_GNN_PARAMETER;
    case CULM_GNN_PHASE_PUSH_ROWS: return role == CULM_GNN_WORKER;
    case CULM_GNN_PHASE_UPDATE: return holds;
    case CULM_GNN_PHASE_CHECKPOINT: return role == CULM_GNN_PARAMETER;
    case CULM_GNN_PHASE_COMMIT: return role != CULM_GNN_WORKER;
    case CULM_GNN_PHASE_EDGE: return role == CULM_GNN_SERVER && config->model.arch == CULM_GNN_GAT;
    default: return true;
    }
}

enum culm_status culm_gnn_fault_check(const struct culm_gnn_fault_spec *spec, const char *text,
                                      const struct culm_gnn_config *config,
                                      struct culm_error *error) {
    if (spec->point.step > config->epochs) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': epoch %lld never comes; the run has %lld", text,
                              (long long)spec->point.step, (long long)config->epochs);
    }
    if (spec->point.part >= config->intervals) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': no interval %lld; allowed: 0 to %lld", text,
                              (long long)spec->point.part, (long long)config->intervals - 1);
    }
    if (spec->role == CULM_GNN_WORKER && config->worker_count == 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': the run has no workers; set workers", text);
    }
    if (spec->role == CULM_GNN_WORKER && config->engine != CULM_GNN_LOCAL) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': workers are not processes of this machine; set "
                              "engine: local",
                              text);
    }
    if (spec->role == CULM_GNN_PARAMETER && spec->point.part >= 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--fault '%.100s': a parameter server has no intervals; leave "
                              "interval out",
                              text);
    }
    if (!comes_to(spec, config)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG, "--fault '%.100s': %s %d never reaches phase %s", text,
            culm_gnn_role_name(spec->role), spec->index, culm_gnn_phase_name(spec->point.phase));
    }
    return CULM_OK;
}
