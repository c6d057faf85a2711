/*
 * A participant: a process of a run other than the launcher's, whatever its role. The other end of
 * launcher.h, which starts it as
 *
 *     PROGRAM [ARGUMENT...] WORD... DIR NODE ADDRESS NAME FAULT_FD [INDEX FAULT]...
 *
 * with the run's token on its standard input. A *newcomer* is one that somebody else starts: it calls a
 * launcher that lets some in, and asks for a role. Whoever makes a role of it calls, in this order:
 *
 *     culm_participant_join     it has proved itself, and has been told its brief; of a newcomer,
 *                               culm_participant_come
 *                                 the role prepares from that, as long as it takes, and makes its actor
 *     culm_participant_ready    it may be given work; or, if it cannot, culm_participant_decline
 *     culm_participant_run      until it is told to end, or its launcher is gone
 *                                 the role frees its actor
 *     culm_participant_leave    nothing of it runs any more
 *                                 the role frees what the actor worked with
 *
 * It prints nothing but in culm_participant_main. A worker of a training run is worker.c. Thread: one
 * for all of this.
 */
#ifndef CULM_LAUNCH_PARTICIPANT_H
#define CULM_LAUNCH_PARTICIPANT_H

#include "cluster/worker.h"
#include "launch/token.h"

struct culm_participant;

/* What a role is to its process. Borrowed until _leave. */
struct culm_participant_role {
    int words;       /* how many words of the command line come before DIR; not of a newcomer */
    bool calls_only; /* it has no socket that listens; cluster/member.h */
    /* Reads a fault that is its own, but for the index. NULL: it has none. */
    enum culm_status (*fault)(const char *text, struct culm_worker_fault *ret_fault,
                              struct culm_error *error);
    /* One that flips a bit fires; any thread. NULL: none does. */
    void (*flip)(void *ctx, const struct culm_fault_point *point);
    /* What the launcher adds to the brief (culm_launcher_news). NULL: it adds nothing. */
    void (*news)(void *ctx, const void *news, size_t len);
    /* Another one leads, and lets nodes in there. NULL: that is all the same. */
    void (*led)(void *ctx, const char *address);
    void *ctx;
};

/* What a process took at most; process_bytes 0: it did not get so far as to work. */
struct culm_participant_memory {
    size_t blobs_bytes, process_bytes, allocations;
};

/* argv[0] is the first of its words. CULM_ERR_ARGUMENT: not a command line of the launcher's; as
 * culm_worker_new. */
enum culm_status culm_participant_join(int argc, char **argv,
                                       const struct culm_participant_role *role,
                                       struct culm_participant **ret_participant,
                                       struct culm_error *error);

/* How a newcomer comes; each as culm_worker_options has it. Borrowed until _leave. */
struct culm_participant_call {
    const char *address; /* of the launcher */
    const char *token;
    uint32_t role;
    bool plain;      /* a run that encrypts nothing between machines is fine */
    const char *dir; /* its own folder; NULL: "" */
    const char *name, *listen, *advertise, *zone;
    int64_t leave_ms;
    struct culm_stranded *stranded;
};
enum culm_status culm_participant_come(const struct culm_participant_call *newcomer,
                                       const struct culm_participant_role *role,
                                       struct culm_participant **ret_participant,
                                       struct culm_error *error);
/* Until _leave. */
const char *culm_participant_dir(const struct culm_participant *participant);
int32_t culm_participant_node(const struct culm_participant *participant);
const void *culm_participant_brief(const struct culm_participant *participant, size_t *ret_len);
struct culm_world *culm_participant_world(struct culm_participant *participant);
/* As culm_worker_report_ready, culm_worker_decline and culm_worker_run. */
enum culm_status culm_participant_ready(struct culm_participant *participant,
                                        const struct culm_worker_ready *ready,
                                        struct culm_error *error);
void culm_participant_decline(struct culm_participant *participant, const struct culm_error *why);
int culm_participant_run(struct culm_participant *participant, const struct culm_actor_ops *ops,
                         void *actor, struct culm_error *ret_error);
void culm_participant_leave(struct culm_participant *participant); /* NULL is fine */

/* Of the process so far, and of its pool. */
void culm_participant_measure(struct culm_blob_pool *pool,
                              struct culm_participant_memory *ret_memory);

/* A participant as a whole process: does the work, then prints "NAME: error" and what it took to
 * standard error, which is its log. Returns the exit code. */
int culm_participant_main(const char *name, int argc, char **argv,
                          int (*work)(int argc, char **argv,
                                      struct culm_participant_memory *ret_memory,
                                      struct culm_error *ret_error));

#endif
