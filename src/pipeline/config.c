/* The rows of `batch` and `cluster`. */
#include "pipeline/config.h"

#include "pipeline/layout.h"

#define FREE CULM_CONFIG_RESUMABLE
#define DAY_MS 86400000
#define SUSPECT_BEATS 3 /* a suspect has missed two, and the third is late */

/* --- batch --- */

#define B struct culm_batch_config
static const struct culm_config_row batch_rows[] = {
    CULM_CONFIG_INT("global", B, global, "32", 1, 1048576, 0,
                    "samples in a step, over all pipelines; a multiple of `batch.micro`"),
    CULM_CONFIG_INT("micro", B, micro, "4", 1, 1048576, 0, "samples in a micro-batch"),
    CULM_CONFIG_INT("lanes", B, lanes, "4", 1, 64, 0,
                    "fixed parts of the global batch that pipelines share out; divides "
                    "`batch.global` / `batch.micro`"),
};

static enum culm_status finish_batch(void *object, const struct culm_config_place *place,
                                     struct culm_error *error) {
    const struct culm_batch_config *b = object;
    if (b->global % b->micro) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("micro", "global"), error,
            "global %lld is not a multiple of micro %lld; allowed: micro that "
            "divides global",
            (long long)b->global, (long long)b->micro);
    }
    int64_t micros = b->global / b->micro;
    if (micros % b->lanes) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("lanes", "micro", "global"), error,
                                  "%lld micro-batches (global / micro) do not share out over %lld "
                                  "lanes; allowed: lanes that divide %lld",
                                  (long long)micros, (long long)b->lanes, (long long)micros);
    }
    if (micros > CULM_PIPELINE_MAX_MICROS) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("micro", "global"), error,
                                  "%lld micro-batches (global / micro); allowed: up to %d",
                                  (long long)micros, CULM_PIPELINE_MAX_MICROS);
    }
    return CULM_OK;
}

const struct culm_config_table culm_batch_config_table = {CULM_CONFIG_ROWS(batch_rows, B),
                                                          .finish = finish_batch};

/* --- cluster --- */

#define N struct culm_cluster_config
static const struct culm_config_row cluster_rows[] = {
    CULM_CONFIG_INT("heartbeat_ms", N, heartbeat_ms, "200", 1, DAY_MS, FREE,
                    "milliseconds between two signs of life of a worker"),
    CULM_CONFIG_INT("suspect_ms", N, suspect_ms, "3000", 2, DAY_MS, FREE,
                    "milliseconds of silence after which a worker is put out of the view; at least "
                    "three times `cluster.heartbeat_ms`"),
    CULM_CONFIG_INT("kill_suspect_ms", N, kill_suspect_ms, "10000", 0, DAY_MS, FREE,
                    "milliseconds from when a silent worker is put out of the view until its "
                    "process is killed"),
    CULM_CONFIG_INT("replace_ms", N, replace_ms, "500", -1, DAY_MS, FREE,
                    "milliseconds until a lost worker is replaced; -1: never"),
    CULM_CONFIG_INT("join_ms", N, join_ms, "10000", 1, DAY_MS, FREE,
                    "milliseconds that a step waits for a joining worker"),
    CULM_CONFIG_INT("wait_ms", N, wait_ms, "600000", 1, DAY_MS, FREE,
                    "milliseconds that training waits for workers that it cannot do without, and for "
                    "room on the disk when what it ends with cannot be saved"),
    CULM_CONFIG_INT("stuck_ms", N, stuck_ms, "30000", 1, DAY_MS, FREE,
                    "milliseconds that a worker may live without finishing a task that is due; the "
                    "limit grows with the time that such tasks take, and when it proved too short"),
    CULM_CONFIG_INT("orphan_ms", N, orphan_ms, "60000", 10, DAY_MS, FREE,
                    "milliseconds of silence of the launcher after which a worker ends itself; at "
                    "least `cluster.suspect_ms`"),
    CULM_CONFIG_INT(
        "max_nodes", N, max_nodes, "8", 1, CULM_MAX_NODES, FREE,
        "workers at once; at least `pipelines` * `stages`, to which the default is raised"),
};

static enum culm_status finish_cluster(void *object, const struct culm_config_place *place,
                                       struct culm_error *error) {
    const struct culm_cluster_config *c = object;
    if (c->suspect_ms < SUSPECT_BEATS * c->heartbeat_ms) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("suspect_ms", "heartbeat_ms"), error,
                                  "suspect_ms %lld would suspect nodes whose heartbeat is a "
                                  "little late; allowed: from %d times heartbeat_ms, which is %lld",
                                  (long long)c->suspect_ms, SUSPECT_BEATS,
                                  (long long)c->heartbeat_ms);
    }
    return CULM_OK;
}

const struct culm_config_table culm_cluster_config_table = {CULM_CONFIG_ROWS(cluster_rows, N),
                                                            .finish = finish_cluster};
