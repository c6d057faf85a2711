/*
 * The simulated world: virtual clock, fabric and processes in one thread, from one seed.
 *
 * It implements the world table for one leader and any number of workers over the same
 * connections (net/conn.h) and the same membership (cluster/member.h, roster.h) as the real one; in
 * place of sockets there is a simulated fabric (fabric.c), in place of processes and threads what
 * process.c says. A worker that is asked for joins by a hello over a stream, is told where the
 * others listen, and connects to them; frames are written and read in pieces of any size; the end
 * of a stream and the end of a process are told apart, in either order. A frozen process does
 * nothing, and what others send it waits, as far as buffers reach. Jobs take virtual time and are
 * executed when it is over. Everything random comes from the seed, so a history is replayed by its
 * number.
 *
 * Processes are -1 (the leader) and 0, 1, ... (workers); later leaders have numbers of their own. Which nodes take part, and how
 * many have led, the world knows, as a store would. Thread: one.
 */
#ifndef CULM_SIM_SIM_H
#define CULM_SIM_SIM_H

#include "net/leader.h"
#include "net/world.h"

struct culm_sim;

/* What workers in one role are. */
struct culm_sim_role {
    void *context;
    const struct culm_actor_ops *ops;
    /* An actor for worker `id`, in `world`; what it allocates comes from `pool`, which outlives it.
     * NULL: failure. */
    void *(*make)(void *context, int32_t id, struct culm_world *world, struct culm_blob_pool *pool);
    void (*destroy)(void *context, int32_t id, void *actor);
    bool calls_only; /* nobody can call it (cluster/member.h) */
};

#define CULM_SIM_ROLES 4    /* roles are below */
#define CULM_SIM_LEADERS 48 /* of one run, at most */

/* One that begins to lead. */
struct culm_sim_reign {
    struct culm_world *world;
    struct culm_agent *agent;
    struct culm_record *record;
    struct culm_blob_pool *pool;
    int32_t process;                     /* for faults; CULM_LEADER: the first one */
    const struct culm_known_node *known; /* [known_count]; valid until the next step */
    int32_t known_count;
    uint64_t term;
    const char *committed; /* what the last commit that is written down says; valid as `known` */
    bool newest;           /* false: it has slept, and another one leads in a higher term */
};

/* Where one that leads is: between any two things that it says or writes. */
enum culm_sim_does {
    CULM_SIM_BEGINS,   /* it has its term, and calls nobody yet */
    CULM_SIM_PROMISED, /* a node has promised it its term, and the answer is on its way */
    CULM_SIM_HEARS,    /* a frame of that type has come, and it has not looked at it */
    CULM_SIM_SENDS,    /* it sends a frame of that type next */
    CULM_SIM_SENT,
    CULM_SIM_WRITES,  /* it asks for that deed to be written next */
    CULM_SIM_WRITTEN, /* that is done, and it has not heard so */
    CULM_SIM_KNOWS,   /* it has, and has told nobody */
    CULM_SIM_DOES
};

#define CULM_SIM_ADMITS CULM_DEEDS /* beside the deeds: that a node takes part; with a store */

struct culm_sim_moment {
    enum culm_sim_does does;
    uint32_t what; /* the type, or the deed */
};

struct culm_sim_options {
    uint64_t seed;
    uint64_t latency_ns, jitter_ns; /* of a piece of bytes: latency + uniform in [0, jitter) */
    uint64_t bytes_per_ms;          /* of each direction between two processes; 0: any */
    size_t buffer_bytes;            /* written and not yet read, of a direction; 0: any */
    size_t piece_bytes;             /* a write is cut into pieces of at most this; 0: never */
    uint64_t unacked_ns;    /* what is not acknowledged for so long breaks its stream; 0: never */
    uint32_t short_percent; /* of writes that take only some of what there is */
    uint32_t backlog_full_percent; /* of knocks that must be repeated a second later */
    size_t scratch_bytes;          /* of a connection; 0: 64 KB */
    uint64_t exit_ns;       /* from the end of a process until it is told: uniform in [0, this) */
    uint64_t job_ns, io_ns; /* of a job without a cost of its own: uniform in [1/2, 3/2) of this */
    uint64_t spawn_ns;      /* until an asked-for worker connects: uniform in [1/2, 3/2) */
    int32_t spawn_max;      /* alive at once; the leader may not ask for more */
    int64_t orphan_ms;      /* of silence of the leader, after which a worker ends; 0: never */
    bool outlives;          /* workers go on when their leader's connection has ended */
    uint64_t store_ns;      /* that a deed takes to be written: uniform in [1/2, 3/2) */
    /* So many may lead from the beginning: candidates (crew/lead.h) at one store of keys, which decides who does. 0: there is none,
     * and whoever makes leaders decides. */
    int32_t candidates;
    int64_t lease_ms, store_end_ms; /* see lead.h; the latter is its end_ms */
    uint32_t
        store_fault_percent;  /* of what is asked there is late, or not done, or not answered, */
    uint64_t store_faults_ns; /* until then */
    /* A candidate leads: culm_sim_reigns must follow from within. Of `event_context`. */
    void (*leads)(void *context, const struct culm_sim_reign *reign);
    /* That was written at the store just now, in that term; `about`: as it was asked for. Of `event_context`. May be NULL. */
    void (*deed)(void *context, enum culm_deed deed, uint64_t term, int64_t step,
                 const char *about);
    uint32_t start_fail_percent; /* of workers asked for that end before they join */
    size_t pool_bytes;           /* of a worker; 0: any */
    struct culm_sim_role role[CULM_SIM_ROLES];
    const struct culm_actor_ops *leader_ops;
    /* Told of every event published, after "t_ms" was added, and "deposed" to what is said by a leader after which
     * another one was made; borrows it. */
    void (*event)(void *context, json_t *event);
    void *event_context;
    /* Asked at every fault point of a worker; may fire faults. May be NULL. */
    void (*fault)(void *context, int32_t node, const struct culm_fault_point *point);
    /* Asked at every moment of a leader; may fire faults: of one that dies there nothing more is seen. May be NULL. */
    void (*moment)(void *context, int32_t leader, const struct culm_sim_moment *moment);
    /* How long a worker's job takes; 0: as job_ns and io_ns say. May be NULL. */
    uint64_t (*cost)(void *context, int32_t node, const struct culm_job *job);
    /* Bytes a millisecond from one process to another; 0: as bytes_per_ms says. Of `cost`'s context. May be NULL. */
    uint64_t (*rate)(void *context, int32_t from, int32_t to);
    /* How much later than spawn_ns says a worker connects: a cold start. Of `cost`'s context. May be NULL. */
    uint64_t (*cold)(void *context, int32_t node);
    bool log; /* print what happens, readably, on standard output */
};

/* How often what was asked for really happened. */
struct culm_sim_totals {
    int64_t streams, connects_failed;
    int64_t bytes;
    int64_t flips;      /* bits flipped */
    int64_t torn;       /* streams cut within a piece by a death */
    int64_t exit_first; /* ends of a process that were told before the end of its stream */
    int64_t memory;     /* requests for memory refused by culm_blob_pool_fail */
    int64_t refused;    /* workers asked for beyond spawn_max */
    int64_t
        unstarted; /* workers asked for that ended before they joined, as start_fail_percent says */
};

struct culm_sim *culm_sim_new(const struct culm_sim_options *options); /* NULL: out of memory */
/* Bytes of blobs of the simulator's pools that were never let go. */
size_t culm_sim_free(struct culm_sim *sim);
struct culm_world *culm_sim_leader_world(struct culm_sim *sim);
struct culm_agent *culm_sim_agent(struct culm_sim *sim);   /* the leader's */
struct culm_record *culm_sim_record(struct culm_sim *sim); /* the same */
/* How often the one who leads now has written that deed, and heard so. */
int64_t culm_sim_deeds(const struct culm_sim *sim, enum culm_deed deed);
/* What the last commit that is written down says; "": none is. Valid until the next step. */
const char *culm_sim_committed(struct culm_sim *sim);
struct culm_blob_pool *culm_sim_pool(struct culm_sim *sim, int32_t id);
/* Gives the leader's actor; must be called before the first step. Borrowed. */
void culm_sim_leader(struct culm_sim *sim, void *actor);

/* Without a store: another leader is made; then culm_sim_leader gives its actor. The one before is neither killed nor told. False:
 * there have been enough. */
bool culm_sim_lead(struct culm_sim *sim, struct culm_sim_reign *ret_reign);
void culm_sim_reign_of(struct culm_sim *sim, struct culm_sim_reign *ret_reign); /* the newest's */
/* The actor of the one that leads in that process. Borrowed. */
void culm_sim_reigns(struct culm_sim *sim, int32_t process, void *actor);
/* The newest leader's process, for faults; CULM_LEADER: the first one. */
int32_t culm_sim_leads(const struct culm_sim *sim);

/* Runs the next event. False: nothing is left to happen, or the leader has left. */
bool culm_sim_step(struct culm_sim *sim);
uint64_t culm_sim_now(const struct culm_sim *sim);
uint64_t culm_sim_random(struct culm_sim *sim,
                         uint64_t bound); /* of a stream apart from the fabric's */
bool culm_sim_left(const struct culm_sim *sim, int *ret_exit_code, const char **ret_error);
void culm_sim_totals_of(const struct culm_sim *sim, struct culm_sim_totals *ret_totals);

/* --- faults --- */

void culm_sim_kill(struct culm_sim *sim, int32_t id); /* any process */
/* Its tasks no longer end, but it goes on talking. */
void culm_sim_stick(struct culm_sim *sim, int32_t node);
/* Any process; CULM_NEVER: for good. */
void culm_sim_freeze(struct culm_sim *sim, int32_t id, uint64_t for_ns);
/* All streams between two break, both see it, and no other can be made. */
void culm_sim_cut(struct culm_sim *sim, int32_t one, int32_t other);
/* Nothing arrives at `to` any more, acknowledgements included, and nobody is told. Healed after
 * for_ns, what was sent arrives. */
void culm_sim_drop(struct culm_sim *sim, int32_t from, int32_t to, uint64_t for_ns);
void culm_sim_slow(struct culm_sim *sim, int32_t from, int32_t to, uint32_t times, uint64_t for_ns);
/* One bit changes in the byte that is sent after so many others. */
void culm_sim_flip(struct culm_sim *sim, int32_t from, int32_t to, int64_t after_bytes);
/* It is told to end (net/world.h), once, and is ended after that time. */
void culm_sim_leave(struct culm_sim *sim, int32_t node, uint64_t within_ms);
/* For a while it can open no socket, nor accept one. */
void culm_sim_no_descriptors(struct culm_sim *sim, int32_t id, uint64_t for_ns);

/* --- the store --- */

/* Another candidate comes. False: there have been enough. */
bool culm_sim_candidate(struct culm_sim *sim);
/* Nothing is done there, and no answer comes: for anyone; for who leads in that process, or is to. */
void culm_sim_store_away(struct culm_sim *sim, uint64_t for_ns);
bool culm_sim_store_is_away(const struct culm_sim *sim);
void culm_sim_store_cut(struct culm_sim *sim, int32_t process, uint64_t for_ns);
/* That process is dead, as its machine tells the other candidates. */
void culm_sim_refused(struct culm_sim *sim, int32_t process);
/* Whether what cannot be taken back would be written for it now; without a store: whether it is the newest leader. */
bool culm_sim_may(const struct culm_sim *sim, int32_t process);
/* The run was ended by what somebody had written, who was not there any more to say so. */
bool culm_sim_over(const struct culm_sim *sim, enum culm_deed *ret_how);
/* What was done at the store and should not have been; NULL: nothing. */
const char *culm_sim_wrong(const struct culm_sim *sim);

/* A worker that nobody asked for, as a preemption trace adds one. */
void culm_sim_add(struct culm_sim *sim, uint32_t role);
/* From now on so many of those that are asked for end before they join. */
void culm_sim_starts_fail(struct culm_sim *sim, uint32_t percent);
/* A newcomer: the agent does not know it, and the leader says whether it may come in (net/leader.h).
 * `pool_bytes` is what it has of memory; 0: any. Returns its id. */
int32_t culm_sim_come(struct culm_sim *sim, uint32_t role, size_t pool_bytes);
bool culm_sim_is_newcomer(const struct culm_sim *sim, int32_t node);
/* What people and traces tell the one who leads (net/leader.h). */
void culm_sim_stop(struct culm_sim *sim);
void culm_sim_resign(struct culm_sim *sim);
void culm_sim_removed(struct culm_sim *sim, int32_t node);

/* The actor of a worker that lives, frozen or not; NULL otherwise. */
void *culm_sim_worker(const struct culm_sim *sim, int32_t node);
/* The same, also of one that has ended: what it last was. NULL: there never was one. */
void *culm_sim_remains(const struct culm_sim *sim, int32_t node);
bool culm_sim_started(const struct culm_sim *sim, int32_t node); /* has joined */
int32_t culm_sim_worker_count(const struct culm_sim *sim); /* ever started: ids are below it */

#endif
