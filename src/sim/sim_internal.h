/* Shared by the files of the simulated world; nobody else includes it. */
#ifndef CULM_SIM_INTERNAL_H
#define CULM_SIM_INTERNAL_H

#include "cluster/member.h"
#include "cluster/roster.h"
#include "net/fabric.h"
#include "sim/sim.h"

#define CULM_SIM_TIMERS 16
#define CULM_SIM_ADDRESS "sim:%d" /* of worker K, or of the leader, which is -1 */

struct process;
struct end;
struct candidate;
struct sim_store;

/* Something that is to happen. */
struct happen {
    uint64_t at_ns, order;
    struct process *to; /* what happens to a frozen process waits, to a dead one never happens;
                           NULL: it happens in any case */
    bool timer;         /* of a process that thaws these come before all else that waited */
    void (*call)(struct culm_sim *sim, const struct happen *happen);
    void *of;
    int32_t from;
    uint64_t number, generation;
};

/* One direction between two processes. */
struct way {
    uint64_t line_free_ns; /* when what was given to it so far is on its way */
    uint64_t slow_until_ns;
    uint32_t slowness; /* so many times as slow until then */
    bool dropped;      /* nothing arrives, and nobody is told */
    bool cut;          /* no connection can be made */
    int64_t flip_at;   /* bytes until one bit is flipped; -1: none is */
    int32_t from, to;
};

struct process {
    struct culm_world world;   /* first */
    struct culm_fabric fabric; /* see process_of_fabric */
    struct culm_agent agent;   /* of a leader */
    struct culm_record record; /* the same */
    int64_t deeds[CULM_DEEDS]; /* that it has written, and heard so */
    int64_t done[CULM_DEEDS];  /* that the store has, where there is one */
    struct culm_sim *sim;
    int32_t id;
    uint32_t role;
    char address[32], leader[32]; /* of a worker: its own, and whom it joins */
    void *actor;
    const struct culm_actor_ops *ops;
    struct culm_blob_pool *pool;
    struct culm_member *member; /* of a worker */
    struct culm_roster *roster; /* of the leader */
    bool alive, listening, started, left, stuck, up, newcomer;
    bool small;               /* a newcomer with little memory */
    uint64_t frozen_until_ns; /* 0: not frozen */
    uint64_t no_descriptors_until_ns;
    uint64_t compute_free_ns, io_free_ns;
    uint64_t timer_generation[CULM_SIM_TIMERS], alarm_generation;
    uint64_t term;               /* of a leader */
    uint64_t asked_term;         /* of the leader that asked for this worker */
    bool told;                   /* its end, to a leader */
    bool told_to_leave;          /* more than once would end it at once */
    bool admitted;               /* that it takes part is written at the store */
    bool told_gone;              /* that it does no more is to be written there */
    bool deposed;                /* of a leader: it has been told that another one leads, or may */
    struct candidate *candidate; /* whose process it is; NULL: there is no store */
    struct way **way;            /* [ways], by slot of the other; NULL: nothing special yet */
    int32_t ways;
};

struct culm_sim {
    struct culm_sim_options o;
    uint64_t now_ns, orders;
    uint64_t random_net, random_test;
    struct happen *heap;
    size_t heap_count, heap_capacity;
    struct process **process; /* [0]: the first leader; worker id is the index - 1 */
    int32_t process_count, process_capacity;
    struct process *later[CULM_SIM_LEADERS - 1]; /* the other leaders: id is FIRST_LATER - index */
    int32_t later_count;
    struct process *leads;         /* the newest leader */
    struct culm_known_node *known; /* by it, or whoever began to lead last */
    int32_t known_count;
    struct sim_store *store; /* NULL: none is needed */
    int over;                /* the deed that has ended the run at the store, plus one; 0: none */
    struct end *ends;        /* every stream that there ever was */
    struct culm_sim_totals totals;
    bool leader_left;
    int exit_code;
    char error[CULM_ERROR_MAX];
};

/* events.c: a heap by time, then order */
void sim_schedule(struct culm_sim *sim, uint64_t at_ns, struct happen happen);
void sim_again(struct culm_sim *sim, struct happen happen); /* with its time and order */
struct happen sim_next(struct culm_sim *sim);
uint64_t sim_around(struct culm_sim *sim, uint64_t mean_ns); /* uniform in [1/2, 3/2) of it */
uint64_t sim_draw(struct culm_sim *sim, uint64_t bound);     /* of the fabric's stream */
__attribute__((format(printf, 2, 3))) void culm_sim_log(const struct culm_sim *sim,
                                                        const char *format, ...);

/* fabric.c */
extern const struct culm_fabric_ops sim_fabric_ops;
/* The system closes what a process leaves behind. */
void sim_fabric_end(struct process *process);
void sim_fabric_free(struct culm_sim *sim);

/* process.c */
#define CULM_SIM_FIRST_LATER (-3)                                    /* below CULM_NEWCOMER */
struct process *sim_process(const struct culm_sim *sim, int32_t id); /* NULL: none */
struct process *sim_process_of_fabric(struct culm_fabric *fabric);
struct process *sim_process_new(struct culm_sim *sim, uint32_t role, size_t pool_bytes);
/* One that is to lead: it has no actor yet. NULL: there have been enough. */
struct process *sim_leader_new(struct culm_sim *sim);
/* It leads from now on, in that term, as far as it knows. */
void sim_lead(struct culm_sim *sim, struct process *process, uint64_t term);
struct culm_sim_reign sim_reign_of(struct culm_sim *sim, struct process *process);
struct culm_node_info sim_info_of(const struct process *worker);
/* Notes as known those who took part, and whose end no leader was told of. */
void sim_note_known(struct culm_sim *sim);
/* Calls all who are known. */
void sim_call_all(struct process *leader);
/* False: it is dead, maybe since just now. */
bool sim_moment(struct process *leader, enum culm_sim_does does, uint32_t what);
/* A leader is told that its deed is written; that another one leads, or may. */
void sim_written(struct process *leader, enum culm_deed deed);
void sim_depose(struct process *leader);
void sim_process_free(struct process *process);
extern const struct culm_agent_ops sim_agent_ops;
void sim_accepted(struct process *process, struct culm_stream *take_stream);

/* stand.c: where there is a store */
bool sim_stand_begin(struct culm_sim *sim); /* false: out of memory */
void sim_stand_end(struct culm_sim *sim);
/* A candidate stands, in that process. */
void sim_stand_join(struct culm_sim *sim, struct process *process);
/* That process has left, as another one leads: its candidate goes on in another one. */
void sim_stand_left(struct process *leader);
void sim_stand_give_up(struct process *leader);
void sim_stand_write(struct process *leader, enum culm_deed deed, int64_t step, const char *about);
/* culm_sim_reign.committed */
const char *sim_stand_committed(struct culm_sim *sim);
/* That a node is known to have gone is written, so that no later leader calls it. */
void sim_stand_gone(struct process *leader, struct process *worker);
/* False: it leads no more. */
bool sim_stand_admit(struct process *leader, const struct process *worker);

#endif
