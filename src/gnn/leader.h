/*
 * The leader of a run on a graph: starts nodes, makes views, commits epochs. It lives in the
 * launcher's process.
 *
 *     all servers and holders there ─▶ VIEW ─▶ of every interval DONE, of every holder HOLDS
 *                                      ▲                        │
 *                      who was lost ───┘        COMMIT, event `epoch` ─▶ next epoch ─▶ ... ─▶ FINISH
 *
 * A lost server's intervals go to other servers at once, and to its replacement at the next commit; a
 * lost holder's replacement is sent a copy. Nothing that was committed is done again, unless all
 * holders are lost together: then the run goes back to the last checkpoint, or to the seed.
 *
 * Events (all with t_ms; docs/formats.md has them whole): joined{node,role}, worker{node,cold},
 * released{node,role}, lost{node,role,cause}, recovered{node,role,source,pause_ms,redone_tasks},
 * view{reason,owners,holders,epoch}, stalled{epoch,for_ms,links,put_out}, epoch{...},
 * checkpoint{epoch,path}, differs{epoch}, rollback{to_epoch}, tune{workers,why,epoch},
 * cost{usd,value,...}, done{...}, error{code,message}.
 *
 * Thread: the actor's.
 */
#ifndef CULM_GNN_LEADER_H
#define CULM_GNN_LEADER_H

#include "gnn/bill.h"
#include "gnn/exec.h"
#include "gnn/pace.h"
#include "gnn/tune.h"
#include "net/leader.h"

struct culm_gnn_settings {
    int32_t count[CULM_GNN_ROLES]; /* of each role; a server and a parameter server at least */
    struct culm_gnn_pace pace;
    int64_t checkpoint_every; /* epochs; 0: only at the end */
    int64_t beat_ms;          /* between two signs of life of a node */
    int64_t suspect_ms;       /* of silence, after which a node is ended */
    int64_t stuck_ms;         /* how long a task may take, as long as none has taken longer */
    double stop_accuracy;     /* of validation: training ends there; 0: never */
    bool tunes;               /* the number of workers is not given, but sought */
    struct culm_gnn_tune_options tune;
    int64_t patience; /* evaluations without a better one, after which it ends; 0: never */
};

struct culm_gnn_leader_options { /* all borrowed as long as it lives */
    struct culm_world *world;
    struct culm_agent *agent;
    struct culm_gnn_exec *exec; /* for FINISH */
    const struct culm_gnn_layout *layout;
    struct culm_gnn_settings settings;
    const int32_t *home;           /* [intervals] which of the servers, 0, 1, ..., is to own it */
    int64_t rows[CULM_GNN_SPLITS]; /* of each part */
    int64_t start_version;         /* where a resumed run begins */
    const char *start_path;        /* its checkpoint; "": the seed */
    struct culm_gnn_rates rates;   /* what nodes cost */
    double spent_usd, spent_s;     /* of what a resumed run did before */
};

struct culm_gnn_leader;

struct culm_gnn_leader *
culm_gnn_leader_new(const struct culm_gnn_leader_options *options); /* NULL: out of memory */
void culm_gnn_leader_free(struct culm_gnn_leader *leader);          /* NULL is fine */
extern const struct culm_actor_ops culm_gnn_leader_actor;

#endif
