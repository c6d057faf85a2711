/* The rows of `cluster`. */
#include "crew/config.h"

#define FREE CULM_CONFIG_RESUMABLE
#define DAY_MS 86400000
#define SUSPECT_BEATS 3 /* a suspect has missed two, and the third is late */

#define N struct culm_crew_config
static const struct culm_config_row rows[] = {
    CULM_CONFIG_INT("heartbeat_ms", N, heartbeat_ms, "200", 1, DAY_MS, FREE,
                    "milliseconds between two signs of life from a node"),
    CULM_CONFIG_INT("suspect_ms", N, suspect_ms, "3000", 2, DAY_MS, FREE,
                    "milliseconds of silence after which a node counts as lost; at least three "
                    "times `cluster.heartbeat_ms`"),
    CULM_CONFIG_INT("kill_suspect_ms", N, kill_suspect_ms, "10000", 0, DAY_MS, FREE,
                    "milliseconds between removing a silent or stuck node from the view and "
                    "killing its process"),
    CULM_CONFIG_INT("replace_ms", N, replace_ms, "500", -1, DAY_MS, FREE,
                    "milliseconds until a lost node is replaced; -1: never"),
    CULM_CONFIG_INT(
        "join_ms", N, join_ms, "10000", 1, DAY_MS, FREE,
        "milliseconds that the run waits for a copy of the weights that a node is being sent; "
        "then it goes on without this node, which is sent another. `culm train` waits only where "
        "nothing can be done without the copy"),
    CULM_CONFIG_INT("wait_ms", N, wait_ms, "600000", 1, DAY_MS, FREE,
                    "milliseconds that the run waits for nodes that it cannot do without, and for "
                    "disk space when its final state cannot be saved"),
    CULM_CONFIG_INT(
        "stuck_ms", N, stuck_ms, "30000", 1, DAY_MS, FREE,
        "milliseconds that a node may live without finishing a task that is due; the limit grows "
        "with the time that such tasks take, and whenever it turns out to be too short"),
    CULM_CONFIG_INT("orphan_ms", N, orphan_ms, "60000", 10, DAY_MS, FREE,
                    "milliseconds of silence from the launcher after which a node ends itself; at "
                    "least `cluster.suspect_ms`"),
    CULM_CONFIG_INT("lease_ms", N, lease_ms, "3000", 500, DAY_MS, FREE,
                    "with `--cluster`: milliseconds without a sign of life from who leads after "
                    "which another process may lead"),
    CULM_CONFIG_INT("candidates", N, candidates, "3", 1, CULM_CREW_NODES_MAX, FREE,
                    "with `--cluster`: how many processes wait to lead, beside the one that does; "
                    "others stand when these are gone"),
    CULM_CONFIG_INT("store_ms", N, store_ms, "600000", 1, DAY_MS, FREE,
                    "with `--cluster`: milliseconds that the store of keys may be away before the "
                    "run saves what it has and waits for it; who leads gives up `orphan_ms` later"),
    CULM_CONFIG_INT(
        "slice_mb", N, slice_mb, "16", 1, 1024, FREE,
        "in `culm train`: largest part of a worker's state, in MB, that a new holder is "
        "sent at a time; smaller ones suit slower links"),
    CULM_CONFIG_INT(
        "copy_mb_per_s", N, copy_mb_per_s, "0", 0, 1000000, FREE,
        "in `culm train`: how many MB of state a new holder asks for in a second; 0: as "
        "many as come, behind all else that its sources have to send"),
    CULM_CONFIG_INT(
        "max_nodes", N, max_nodes, "0", 0, CULM_CREW_NODES_MAX, FREE,
        "largest number of nodes at a time, including those that `--listen` and `--preempt-trace` "
        "bring; 0: in `culm gnn train`, and in `culm train --listen`, 4096; else 8, or as many as "
        "it "
        "needs, if that is more"),
};

static enum culm_status finish(void *object, const struct culm_config_place *place,
                               struct culm_error *error) {
    const struct culm_crew_config *c = object;
    if (c->suspect_ms < SUSPECT_BEATS * c->heartbeat_ms) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("suspect_ms", "heartbeat_ms"), error,
                                  "suspect_ms %lld would suspect nodes whose heartbeat is a "
                                  "little late; allowed: from %d times heartbeat_ms, which is %lld",
                                  (long long)c->suspect_ms, SUSPECT_BEATS,
                                  (long long)c->heartbeat_ms);
    }
    return CULM_OK;
}

const struct culm_config_table culm_crew_config_table = {CULM_CONFIG_ROWS(rows, N),
                                                         .finish = finish};

struct culm_crew_settings culm_crew_config_settings(const struct culm_crew_config *c) {
    return (struct culm_crew_settings){.heartbeat_ms = c->heartbeat_ms,
                                       .suspect_ms = c->suspect_ms,
                                       .kill_suspect_ms = c->kill_suspect_ms,
                                       .stuck_ms = c->stuck_ms,
                                       .replace_ms = c->replace_ms,
                                       .store_ms = c->store_ms,
                                       .wait_ms = c->wait_ms,
                                       .max_nodes = c->max_nodes,
                                       .join_ms = c->join_ms};
}

int64_t culm_crew_config_alive_ms(const struct culm_crew_config *c) {
    return c->suspect_ms / 3 > 1 ? c->suspect_ms / 3 : 1;
}

int64_t culm_crew_config_dial_ms(const struct culm_crew_config *c) { return 2 * c->suspect_ms; }

int64_t culm_crew_config_orphan_ms(const struct culm_crew_config *c) {
    return c->orphan_ms > c->suspect_ms ? c->orphan_ms : c->suspect_ms;
}
