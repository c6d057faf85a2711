/*
 * A world of graph networks that several processes may lead: its shape, who stands, and what befalls it. Put together by a test, which
 * also makes one that is undisturbed; played; and judged beside that one.
 *
 * Checkpoints of all leaders lie on one disk. It ends; every epoch is told, with the loss that it has undisturbed; every checkpoint that is published, by whomever, has the state that
 * the version has there; nothing goes back while a node that is well has a copy of the state; nothing that cannot be taken back is done
 * by one that does not lead. (Where rows may be stale, the numbers may be others; but what is told of an epoch, or published of it, is
 * told once and for all, unless everyone has gone back to before it; it is what was committed at the store, where each commit follows on
 * the state of the one before; nothing else is saved, or loaded; and no row or sum of one attempt counts in another.)
 *
 * Thread: one a world.
 */
#ifndef CULM_TESTS_SIM_GNN_REIGN_H
#define CULM_TESTS_SIM_GNN_REIGN_H

#include "gnn_cast.h"

#define REIGN_BEGIN_MS 1000 /* when a simulated world begins */
#define REIGN_EPOCHS_MAX 40
#define REIGN_BLOWS_MAX 6
#define REIGN_INTERVALS_MAX 48
#define STRUCK_MAX CAST_NODES
/* After store_ms, until it knows that it is cut off: it asks seldom enough that a few leases may pass. */
#define REIGN_CUT_OFF_MS(lease_ms) (3 * (lease_ms) + 500)

enum gnn_blow_kind {
    BLOW_KILL,
    BLOW_FREEZE,
    BLOW_KILL_LEADER,
    BLOW_FREEZE_LEADER,
    BLOW_CUT_LEADER,
    BLOW_AWAY,
    BLOW_HOLDERS_DIE,
    BLOW_LAST_SLEEPS, /* all holders die but one that is frozen; and who leads, but one time in three */
    BLOW_STOP,        /* the run; not drawn, as a run has a time for it */
    BLOW_LEAVE,       /* a node is told to end, and is ended after for_ms; drawn apart */
    BLOW_FIRST_SLEEPS, /* of the holders; not drawn like others, as the rest */
    BLOW_RESIGN,       /* whoever leads is told to; drawn apart */
    BLOW_KINDS
};

extern const char *const gnn_blow_names[BLOW_KINDS];

enum gnn_blow_when {
    BLOW_AT_TIME,
    BLOW_AT_PHASE,    /* the skip+1st time that one in `role` is in `phase`; KILL: that one */
    BLOW_AT_MOMENT,   /* the skip+1st time that whoever leads is there */
    BLOW_AFTER_EVENT, /* the skip+1st of that name */
};

struct gnn_blow {
    enum gnn_blow_kind kind;
    enum gnn_blow_when when;
    uint32_t role, phase;
    struct culm_sim_moment moment;
    const char *event;
    int32_t skip, met;
    int32_t behind;  /* nothing counts before that one, by its number from 1, has fired; 0: none */
    bool after_view; /* nor before a view has followed it */
    bool due, seen_through;
    uint64_t after_ms;      /* of a moment: it falls so much later */
    uint64_t at_ms, for_ms; /* for_ms 0: for good */
    int32_t node;
    bool refused, fired;
};

struct gnn_reign {
    struct gnn_cast cast; /* first member */
    uint64_t seed;
    uint64_t job_ms; /* that each takes; 0: 2 */
    bool log, calm;
    bool kind; /* all that befalls anyone is that they are told to leave, in good time */
    int32_t count[CULM_GNN_ROLES], home[REIGN_INTERVALS_MAX];
    int64_t checkpoint_every;
    struct culm_gnn_stop stop;
    int32_t candidates;
    int64_t lease_ms, store_ms;
    uint32_t store_fault_percent;
    struct gnn_blow fault[REIGN_BLOWS_MAX];
    int32_t fault_count;
    uint64_t stop_ms; /* 0: never */
    /* While it is played. */
    struct culm_sim *sim;
    struct culm_gnn_witness
        *witness;          /* outlives it, for those who are compared with it: gnn_reign_release */
    uint64_t written_term; /* of the last one */
    uint32_t written_attempt;
    int64_t written; /* commits at the store */
    char written_loss[REIGN_EPOCHS_MAX + 1]
                     [16]; /* as it was committed there last; "": it was not */
    struct culm_gnn_leader *leader[CULM_SIM_LEADERS];
    struct culm_gnn_exec *leader_exec[CULM_SIM_LEADERS];
    int32_t leaders;
    uint64_t last_fault_ns, away_ns; /* since when the store was away, when it was last */
    uint64_t cut_off_ns;             /* that time, when an epoch was committed that late */
    bool stopped, slept;             /* one that leads was frozen */
    uint64_t slept_ns[STRUCK_MAX];   /* since when it sleeps, or did last */
    uint64_t took_ns;                /* since when the newest leader leads */
    int32_t awaited[CULM_GNN_HOLDERS_MAX], awaited_count; /* holders, as it found them */
    uint64_t well_ns[STRUCK_MAX]; /* not struck before then; CULM_NEVER: never again */
    int32_t holder[CULM_GNN_HOLDERS_MAX], holder_count;
    uint64_t lacked_ns[STRUCK_MAX]; /* when a holder, as one, had no copy; 0: never */
    bool told[REIGN_EPOCHS_MAX + 1];
    char loss[REIGN_EPOCHS_MAX + 1][16], file[REIGN_EPOCHS_MAX + 1][64]; /* by version */
    /* As it was told since all have loaded a version before it; "": it was not. */
    char once_loss[REIGN_EPOCHS_MAX + 1][64], once_file[REIGN_EPOCHS_MAX + 1][64];
    int64_t loads;
    int64_t newest, epoch, rollbacks, takeovers, lost, left, checkpoints, commits_away, outages;
    const struct gnn_reign *reference;
    char state[80];
    bool done;
    int code;
    char wrong[200];
};

/* What is to be compared with is of the same world: this makes one of the other. */
void gnn_reign_calm(struct gnn_reign *world);
/* `wrong` says what is. */
void gnn_reign_play(struct gnn_reign *world);
void gnn_reign_release(struct gnn_reign *world);

#endif
