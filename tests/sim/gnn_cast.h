/*
 * Who takes part in a simulated run on a graph: the actors of each role, each on a symbolic executor of
 * its own. The first member of what a test has of a run, which is the context of the simulator's roles.
 */
#ifndef CULM_TESTS_SIM_GNN_CAST_H
#define CULM_TESTS_SIM_GNN_CAST_H

#include "interval/leader.h"
#include "interval/parameter.h"
#include "interval/server.h"
#include "interval/worker.h"
#include "sim/gnn_symbolic.h"
#include "sim/sim.h"

#include <stdlib.h>

#define CAST_NODES 2048

struct gnn_cast {
    struct culm_gnn_layout layout;
    struct culm_gnn_pace pace;
    uint64_t seed;
    int64_t beat_ms, gone_ms;
    /* Of a server and of a worker, but for the node; may be changed before one is made. */
    struct culm_gnn_server_options server;
    struct culm_gnn_worker_options worker;
    uint32_t role[CAST_NODES];
    int32_t went[CULM_GNN_INTERVALS_MAX][CULM_GNN_STAGES_MAX]; /* forward last: a node */
    struct culm_gnn_exec *exec[CAST_NODES];                    /* NULL: not there */
    struct culm_gnn_witness *witness; /* sees what all of them do; NULL: nobody does */
    culm_gnn_symbolic_refuse *refuse; /* of the cast's context; NULL: no task fails */
};

static inline struct culm_gnn_node_options gnn_cast_node(struct gnn_cast *cast, int32_t id,
                                                         struct culm_world *world,
                                                         struct culm_blob_pool *pool,
                                                         uint32_t role) {
    if (id >= CAST_NODES) {
        abort();
    }
    cast->role[id] = role;
    cast->exec[id] = culm_gnn_symbolic_new(&cast->layout, &cast->pace, cast->seed, pool);
    culm_gnn_symbolic_trouble(cast->exec[id], cast->refuse, cast, id);
    culm_gnn_symbolic_witness(cast->exec[id], cast->witness);
    return (struct culm_gnn_node_options){.world = world,
                                          .exec = cast->exec[id],
                                          .layout = &cast->layout,
                                          .pool = pool,
                                          .id = id,
                                          .beat_ms = cast->beat_ms,
                                          .gone_ms = cast->gone_ms,
                                          .pace = cast->pace};
}

/* To be asked of each step, by the node that does it: whether it goes back through a stage that this node went
 * forward through, and so has kept half of the work. */
static inline bool gnn_cast_kept(struct gnn_cast *cast, int32_t node,
                                 const struct culm_gnn_task *task) {
    const struct culm_gnn_step *step = &cast->layout.step[task->step];
    int32_t *went = &cast->went[task->interval][step->stage];
    if (step->kind == CULM_GNN_FORWARD) {
        *went = node;
    }
    return step->kind == CULM_GNN_BACKWARD && *went == node;
}

static inline void *gnn_cast_server(void *context, int32_t id, struct culm_world *world,
                                    struct culm_blob_pool *pool) {
    struct gnn_cast *cast = context;
    struct culm_gnn_server_options options = cast->server;
    options.node = gnn_cast_node(cast, id, world, pool, CULM_GNN_SERVER);
    return culm_gnn_server_new(&options);
}

static inline void *gnn_cast_parameter(void *context, int32_t id, struct culm_world *world,
                                       struct culm_blob_pool *pool) {
    const struct culm_gnn_node_options options =
        gnn_cast_node(context, id, world, pool, CULM_GNN_PARAMETER);
    return culm_gnn_parameter_new(&options);
}

static inline void *gnn_cast_worker(void *context, int32_t id, struct culm_world *world,
                                    struct culm_blob_pool *pool) {
    struct gnn_cast *cast = context;
    struct culm_gnn_worker_options options = cast->worker;
    options.node = gnn_cast_node(cast, id, world, pool, CULM_GNN_WORKER);
    return culm_gnn_worker_new(&options);
}

static inline void gnn_cast_end(void *context, int32_t id, void *actor) {
    struct gnn_cast *cast = context;
    switch (cast->role[id]) {
    case CULM_GNN_SERVER: culm_gnn_server_free(actor); break;
    case CULM_GNN_PARAMETER: culm_gnn_parameter_free(actor); break;
    default: culm_gnn_worker_free(actor); break;
    }
    culm_gnn_symbolic_free(cast->exec[id]);
    cast->exec[id] = NULL;
}

/* Which phases a role has. */
static inline bool gnn_cast_has_phase(uint32_t role, uint32_t phase) {
    switch (phase) {
    case CULM_GNN_PHASE_EDGE:
    case CULM_GNN_PHASE_GATHER:
    case CULM_GNN_PHASE_SCATTER: return role == CULM_GNN_SERVER;
    case CULM_GNN_PHASE_APPLY:
    case CULM_GNN_PHASE_PUSH_GRADIENT: return role != CULM_GNN_PARAMETER;
    case CULM_GNN_PHASE_PUSH_ROWS: return role == CULM_GNN_WORKER;
    case CULM_GNN_PHASE_UPDATE:
    case CULM_GNN_PHASE_COMMIT:
    case CULM_GNN_PHASE_CHECKPOINT: return role == CULM_GNN_PARAMETER;
    default: return true;
    }
}

/* For the simulator's options; `make` and `end` of a test may do more and then call those above. */
static inline void gnn_cast_roles(struct gnn_cast *cast, struct culm_sim_options *options) {
    options->role[CULM_GNN_SERVER] =
        (struct culm_sim_role){cast, &culm_gnn_server_actor, gnn_cast_server, gnn_cast_end, false};
    options->role[CULM_GNN_PARAMETER] = (struct culm_sim_role){
        cast, &culm_gnn_parameter_actor, gnn_cast_parameter, gnn_cast_end, false};
    options->role[CULM_GNN_WORKER] =
        (struct culm_sim_role){cast, &culm_gnn_worker_actor, gnn_cast_worker, gnn_cast_end, true};
    options->leader_ops = &culm_gnn_leader_actor;
}

/* Of a run on machines that are quick and alike: what a test says of events and costs is to be added. */
static inline struct culm_sim_options gnn_cast_alike(struct gnn_cast *cast, uint64_t seed,
                                                     int32_t nodes) {
    const uint64_t ms = 1000000;
    struct culm_sim_options options = {
        .seed = seed,
        .latency_ns = ms / 10,
        .exit_ns = 5 * ms,
        .job_ns = ms,
        .io_ns = ms,
        .spawn_ns = 30 * ms,
        .spawn_max = nodes,
    };
    cast->seed = seed;
    gnn_cast_roles(cast, &options);
    return options;
}

#endif
