/*
 * `--fault SPEC`: what a worker does to itself, and where.
 *
 *     worker=K,step=S[,micro=M][,phase=P][,how=kill|stop|exit|stuck|flip][,for_ms=N]
 *
 * Without `phase` it is `forward`, without `micro` the first of the step, without `how` `kill`,
 * without `for_ms` a stop is for good.
 */
#ifndef CULM_RUN_FAULT_H
#define CULM_RUN_FAULT_H

#include "cluster/fault.h"
#include "pipeline/phase.h"
#include "train/config.h"

struct culm_fault_spec {
    int32_t worker;
    struct culm_fault_point point; /* part -1: any micro-batch */
    enum culm_fault_how how;
    int64_t for_ms; /* 0: for good */
};

/* CULM_ERR_CONFIG, `--fault 'SPEC': what is wrong; what is allowed`. */
enum culm_status culm_fault_parse(const char *text, struct culm_fault_spec *ret_spec,
                                  struct culm_error *error);
/* CULM_ERR_CONFIG when it can never fire under `config`. `replaced`: workers beyond the first
 * pipelines * stages may come. */
enum culm_status culm_fault_check(const struct culm_fault_spec *spec, const char *text,
                                  const struct culm_train_config *config, bool replaced,
                                  struct culm_error *error);

#endif
