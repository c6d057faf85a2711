/*
 * The leader of a run on a graph: has nodes started, makes views, and commits epochs. It lives in
 * the launcher's process.
 *
 *     all servers and holders joined ─▶ VIEW ─▶ DONE for every interval, HOLDS from every holder
 *                                       ▲                   │
 *               a node joins or is lost ┘                   ▼
 *                                       COMMIT, event `epoch` ─▶ next epoch ─▶ ... ─▶ FINISH
 *
 * A lost server's intervals go to other servers at once, and to its replacement at the next commit.
 * A lost holder's replacement is sent a copy of the state. What was committed is never repeated,
 * unless all holders are lost at once: then the run goes back to the last checkpoint, or to the
 * initial weights. The process of a lost node is killed, after a while if it may only be asleep; if
 * it wakes up before, it is told to end. Checkpoints are written by a holder and published by the
 * leader alone (leader_save.c).
 *
 * Who is there, silent, stuck, missing or waited for is its crew's: crew/crew.h.
 *
 * Events (all with t_ms; docs/formats.md describes them): joined{node,role}, worker{node,cold},
 * released{node,role}, lost{node,role,cause}, fenced{node}, recovered{node,role,source,pause_ms,redone_tasks},
 * waiting{role,need,have}, view{reason,owners,holders,epoch}, stalled{epoch,for_ms,links,put_out},
 * epoch{...}, checkpoint{epoch,path,ok,message}, held{epoch,for_ms}, weights{epoch,path},
 * differs{epoch}, rollback{to_epoch}, tune{workers,why,epoch}, cost{usd,value,...}, done{...},
 * error{code,message}.
 *
 * Thread: the actor's.
 */
#ifndef CULM_INTERVAL_LEADER_H
#define CULM_INTERVAL_LEADER_H

#include "crew/settings.h"
#include "interval/bill.h"
#include "interval/exec.h"
#include "interval/pace.h"
#include "interval/tune.h"
#include "interval/verdict.h"
#include "net/leader.h"

struct culm_gnn_settings {
    int32_t count[CULM_GNN_ROLES]; /* wanted nodes by role; at least 1 server, 1 parameter server */
    struct culm_gnn_pace pace;
    int64_t checkpoint_every; /* epochs; 0: only at the end */
    struct culm_crew_settings crew;
    bool newcomers; /* servers and workers may join from elsewhere */
    bool tunes;     /* finds the number of workers by itself (tune.h) */
    struct culm_gnn_tune_options tune;
    struct culm_gnn_stop stop; /* when evaluations end training */
};

struct culm_gnn_leader_options { /* pointers are borrowed for the lifetime of the leader */
    struct culm_world *world;
    struct culm_agent *agent;
    struct culm_record *record; /* where deeds are written; NULL: nobody else can lead */
    struct culm_gnn_exec *exec; /* PUBLISH, DISCARD, ROOM, FIND and FINISH only */
    const struct culm_gnn_layout *layout;
    struct culm_gnn_settings settings;
    const int32_t *home;           /* [intervals] the server, counted from 0, that is to own it */
    int64_t rows[CULM_GNN_SPLITS]; /* vertices of each part */
    int64_t start_version;         /* version that a resumed run begins with */
    const char *start_path;        /* its checkpoint; "": initial weights */
    struct culm_gnn_verdict start_verdict; /* as that has it */
    struct culm_gnn_rates rates;           /* what nodes cost */
    double spent_usd, spent_s;             /* by earlier parts of a resumed run */
    uint64_t term;                         /* in which it leads; 0 and 1: nobody has led before */
    uint32_t start_branch;                 /* of which start_path is (past.h); 0: not known */
    const char *
        committed; /* with `record`: what the last CULM_DEED_COMMIT says; NULL or "": there was none. Read at once */
    const struct culm_known_node *known; /* those who took part under the leader before; copied */
    int32_t known_count;
    int64_t orphan_ms; /* after which a node without a leader has ended */
    /* Nodes from elsewhere load and save as those that were started here: through a depot (store/depot.h). They may then take any
     * role. */
    bool depot;
    int32_t
        here_most; /* with `depot`: nodes of a role at once that the agent is asked for, at most */
};

struct culm_gnn_leader;

struct culm_gnn_leader *
culm_gnn_leader_new(const struct culm_gnn_leader_options *options); /* NULL: out of memory */
void culm_gnn_leader_free(struct culm_gnn_leader *leader);          /* NULL is fine */
extern const struct culm_actor_ops culm_gnn_leader_actor;

#endif
