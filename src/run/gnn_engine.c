/* The table of engines. See gnn_engine.h. */
#include "run/gnn_engine.h"

#include "cloud/gearman_engine.h"
#include "cloud/lambda_engine.h"
#include "interval/layout.h"
#include "run/gnn_function.h"

typedef enum culm_status (*make_engine)(const struct culm_gnn_config *config, const char *listen,
                                        struct culm_engine **ret_engine, struct culm_error *error);

static enum culm_status make_local(const struct culm_gnn_config *config, const char *listen,
                                   struct culm_engine **ret_engine, struct culm_error *error) {
    (void)config;
    (void)listen;
    (void)error;
    *ret_engine = NULL;
    return CULM_OK;
}

static enum culm_status make_gearman(const struct culm_gnn_config *config, const char *listen,
                                     struct culm_engine **ret_engine, struct culm_error *error) {
    return listen ? culm_gearman_engine_new(config->gearman.server, ret_engine, error)
                  : culm_error_set(error, CULM_ERR_CONFIG,
                                   "engine: gearman needs --listen ADDR:PORT, an address of this "
                                   "machine that workers can connect to");
}

static enum culm_status make_lambda(const struct culm_gnn_config *config, const char *listen,
                                    struct culm_engine **ret_engine, struct culm_error *error) {
    const struct culm_lambda_engine_options options = {
        .function = {config->lambda.function, config->lambda.region, config->lambda.endpoint},
        .memory_mb = config->lambda.memory_mb,
        .concurrency = config->lambda.concurrency ? config->lambda.concurrency
                       : config->worker_count > 0 && !config->workers_auto ? config->worker_count
                                                                           : CULM_CREW_NODES_MAX,
        .event = culm_gnn_function_event,
    };
    return listen ? culm_lambda_engine_new(&options, ret_engine, error)
                  : culm_error_set(error, CULM_ERR_CONFIG,
                                   "engine: lambda needs --listen ADDR:PORT, an address of this "
                                   "machine that functions can connect to");
}

static const make_engine engines[] = {
    [CULM_GNN_LOCAL] = make_local,
    [CULM_GNN_LAMBDA] = make_lambda,
    [CULM_GNN_GEARMAN] = make_gearman,
};

enum culm_status culm_gnn_engine_new(const struct culm_gnn_config *config, const char *listen,
                                     struct culm_engine **ret_engine, struct culm_error *error) {
    return engines[config->engine](config, listen, ret_engine, error);
}
