/*
 * A history of a graph network: a graph, a network and a shape, and what befalls it, in the simulated world, on the
 * symbolic executor. It is drawn from a seed or put together by a test; played; and judged: it must end, with the
 * state that one server and one parameter server come to when nothing befalls them; without a roll-back unless all holders were
 * lost, and with no blob left. Where nobody is replaced it may also end with an error, when no server is left, or nobody
 * who could save. Who leaves as it was told to is no loss, and costs no roll-back. It may end as stopped if it was, soon after that, with a checkpoint of the version that was committed;
 * it is then resumed.
 *
 * What was drawn first, faults and naps, every seed has. All else is of a *draw* (enum gnn_draw), which has dice of its own: a
 * history of a seed is the same whatever draws there are besides.
 *
 * Thread: one a history; histories are independent.
 */
#ifndef CULM_TESTS_SIM_GNN_HISTORY_H
#define CULM_TESTS_SIM_GNN_HISTORY_H

#include "gnn_cast.h"

#define GNN_FAULTS 3
#define GNN_NAPS 4
#define GNN_NODES_EVER 1024
#define GNN_NEWCOMERS 4
#define GNN_TROUBLES 2
#define GNN_LEAVES 3
#define GNN_GRACE_MS 60000 /* enough to leave in any case */
#define GNN_SAVED 512      /* checkpoints that are remembered; epochs of a run are fewer */

enum gnn_draw {
    GNN_DRAW_STARTS,    /* some nodes that were asked for end before they join */
    GNN_DRAW_STOPS,     /* the run is stopped, at any time */
    GNN_DRAW_NEWCOMERS, /* servers and workers from elsewhere, who cannot read the run's folder */
    GNN_DRAW_TASKS,     /* tasks of one kind fail: once, twice, or wherever they are run */
    GNN_DRAW_LOADS,     /* checkpoints are damaged, and all copies are lost */
    GNN_DRAW_MEMORY,    /* a node gets no memory for something */
    GNN_DRAW_LEADER,    /* the leader's process stands still, for up to twenty seconds */
    GNN_DRAW_LARGE,     /* many intervals, nodes or epochs */
    GNN_DRAW_LONG,      /* replacements are due so late that a stop must not wait for them */
    GNN_DRAW_DUE,       /* each checkpoint that was due was written, or said to be given up */
    GNN_DRAW_ELSEWHERE, /* newcomers' own tasks fail, and they have little memory */
    GNN_DRAW_COPIES,    /* copies of the state take long, and are waited for only shortly */
    GNN_DRAW_SIZE,      /* half of them have more than seven nodes, one in fifty more than 32 */
    GNN_DRAW_LEAVE, /* nodes are told to end; in some of these histories nothing else befalls anyone */
    GNN_DRAWS       /* others go here: the number of a draw is that of its dice */
};

/* What the protocol as it is survives. What else a draw finds is in the table of gnn_histories.c. */
#define GNN_DRAWS_NOW ((1u << GNN_DRAWS) - 1)
#define GNN_DRAWS_THEN ((1u << GNN_DRAW_SIZE) - 1) /* before there were shapes of many sizes */

enum gnn_fault_kind {
    GNN_KILL,
    GNN_FREEZE,
    GNN_CUT,
    GNN_FLIP,
    GNN_SLOW,
    GNN_STICK,
    GNN_DROP,
    GNN_FAULT_KINDS
};

struct gnn_fault {
    enum gnn_fault_kind kind;
    bool at_phase;
    uint32_t role, phase; /* at_phase: the `after`th time that one of this role is there */
    int32_t after;
    uint64_t time_ns; /* else then */
    int32_t node, other;
    bool backwards, fired;
};

/* A process stands still, but not for so long that it is given up. */
struct gnn_nap {
    int32_t node;
    uint64_t time_ns, for_ns;
    bool fired;
};

/* Tasks of a kind fail. */
struct gnn_trouble {
    enum culm_gnn_task_kind kind;
    enum culm_status status;
    enum gnn_trouble_of { GNN_OF_ANYONE, GNN_OF_WORKERS, GNN_OF_NEWCOMERS } of;
    int32_t after, times;        /* so many go well first; so many fail, 0: all that follow */
    int32_t met, failed, counts; /* of those that failed, all but workers' */
    bool of_its_own; /* it befell a server or parameter server that the run had started */
};

struct gnn_newcomer {
    uint32_t role;
    uint64_t time_ns;
    size_t pool_bytes; /* 0: any */
    bool came;
};

/* The node is refused the memory for what it asks next but so many. */
struct gnn_pinch {
    int32_t node;
    uint64_t time_ns, after;
    bool fired;
};

/* A checkpoint that was published and has not been removed by a roll-back. */
struct gnn_saved_file {
    int64_t version;
    char path[64];
    bool damaged;
};

struct gnn_shape {
    int32_t count[CULM_GNN_ROLES];
    struct culm_gnn_pace pace;
    int64_t checkpoint_every;
    bool tunes; /* the number of workers is sought */
    enum culm_gnn_tune goal;
    int64_t replace_ms; /* -1: never */
    struct culm_gnn_stop stop;
};

extern const char *const gnn_fault_kind_names[GNN_FAULT_KINDS];

struct gnn_history {
    struct gnn_cast cast; /* first member */
    struct culm_sim *sim;
    struct culm_gnn_exec *leader_exec;
    struct culm_gnn_leader *leader;
    struct gnn_shape shape;
    uint64_t seed;
    uint32_t events, all; /* that may befall it; that do */
    struct gnn_fault fault[GNN_FAULTS];
    int32_t fault_count;
    struct gnn_nap nap[GNN_NAPS];
    int32_t nap_count;
    int64_t all_in; /* the epoch after which all servers and parameter servers that it began with
                     * die; 0: none */
    bool all_died;
    int32_t slow; /* the jobs of this node take long; -1: nobody's */
    int32_t home[CULM_GNN_INTERVALS_MAX];
    uint32_t draws;
    enum gnn_large {
        GNN_SMALL,
        GNN_MANY_INTERVALS,
        GNN_MANY_NODES,
        GNN_MANY_EPOCHS,
        GNN_CROWD
    } large;
    uint32_t start_fail_percent, start_fail_later; /* later: once an epoch is committed */
    uint64_t stop_ns;                              /* 0: never */
    struct gnn_newcomer newcomer[GNN_NEWCOMERS];
    int32_t newcomer_count;
    struct gnn_trouble trouble[GNN_TROUBLES];
    int32_t trouble_count;
    bool damages; /* a third of the checkpoints are damaged */
    struct gnn_pinch pinch[GNN_TROUBLES];
    int32_t pinch_count;
    struct gnn_nap leader_nap[2];
    int32_t leader_nap_count;
    struct gnn_nap leave[GNN_LEAVES]; /* told to end, and ended after for_ns */
    int32_t leave_count;
    bool calm;        /* nothing else befalls anyone, and it is long enough */
    int64_t left;     /* as they asked; among `lost` */
    int64_t join_ms;  /* 0: long enough for any copy */
    uint64_t copy_ns; /* that it takes to make one, and to take it in */
    enum gnn_die { GNN_ALL_DIE, GNN_SERVERS_DIE, GNN_PARAMETERS_DIE } die; /* in epoch `all_in` */
    int32_t more_servers; /* that a resumed run has */
    /* What came of it. */
    char state[80]; /* of `done` */
    int64_t epoch, lost, stuck, stalled, rollbacks, checkpoints, unsaved, released, tunes, cold,
        recovered;
    /* could_save: of all, those that have the run directory; servers_here: those of servers */
    int64_t alive[CULM_GNN_ROLES], could_save, servers_here;
    bool too_few;        /* it ended with an error, since nobody of a role was left */
    bool honest;         /* it ended with an error that what befell it accounts for */
    bool stopped, held;  /* the stop was sent; a version could not be saved */
    bool again, resumed; /* it was stopped, and is to be resumed; was resumed */
    uint64_t awake_ns;   /* when the leader's last nap is over */
    int64_t commits;     /* since this start of the program */
    int64_t start_version;
    /* [version] when it was committed; when it found no room, or lost its writer, and stayed due (0: never) */
    uint64_t committed_ns[GNN_SAVED], tried_ns[GNN_SAVED];
    /* [version] it was written, or given up; nobody held it who has the run directory */
    bool said[GNN_SAVED], unsaveable[GNN_SAVED];
    struct gnn_saved_file saved[GNN_SAVED];
    int32_t saved_count;
    struct culm_gnn_verdict verdict[GNN_SAVED]; /* [version] */
    int32_t holders, savers; /* of the last view; those that have the run directory */
    int64_t unstarted, stops, resumes, came, refused, unloaded, pinched, leader_naps, due,
        late; /* views that give copies up */
    uint64_t stop_took_ns, took_ns;
    bool made_up[GNN_NODES_EVER];
    int64_t ages[CULM_GNN_STALENESS_MAX + 1];
    bool log;
    char wrong[256];
};

extern const char *const gnn_draw_names[GNN_DRAWS];

/* What a seed draws, of these events (shrink.h) and draws. False: out of memory. */
bool gnn_history_from_seed(uint64_t seed, int64_t replace_ms, uint32_t events, uint32_t draws,
                           struct gnn_history *ret_history);
/* What befalls it, one bit each: its faults, its naps, and behind them the rest. */
enum {
    GNN_EVENT_NAP = GNN_FAULTS,
    GNN_EVENT_ALL_DIE = GNN_EVENT_NAP + GNN_NAPS,
    GNN_EVENT_SLOW_NODE,
    GNN_EVENT_COLD_STARTS,
    GNN_EVENT_WORKERS_LEAVE,
    GNN_EVENT_LITTLE_ROOM,
    GNN_EVENT_ROUGH_STREAMS,
    GNN_EVENT_STARTS_FAIL,
    GNN_EVENT_STOP,
    GNN_EVENT_NEWCOMER,
    GNN_EVENT_TROUBLE = GNN_EVENT_NEWCOMER + GNN_NEWCOMERS,
    GNN_EVENT_DAMAGE = GNN_EVENT_TROUBLE + GNN_TROUBLES,
    GNN_EVENT_PINCH,
    GNN_EVENT_LEADER_NAP = GNN_EVENT_PINCH + GNN_TROUBLES,
    GNN_EVENT_SLOW_COPIES = GNN_EVENT_LEADER_NAP + 2,
    GNN_EVENT_LEAVE,
};
bool gnn_history_befalls(const struct gnn_history *history, int event);
/* Conditions that hold all the time. */
bool gnn_history_leaves(const struct gnn_history *history);
bool gnn_history_has_little_room(const struct gnn_history *history);
bool gnn_history_is_cold(const struct gnn_history *history);
/* Plays it, and the undisturbed one, and judges it: `wrong` says what is. Releases the layout. */
void gnn_history_play(struct gnn_history *history, char ret_expected[80]);
void gnn_history_print_events(const struct gnn_history *history);

#endif
