/*
 * A second job for the launcher, as small as can be: servers count, askers that only call add up.
 *
 *     leader ── GO: which are the servers, and who you are ──▶ asker
 *     asker ── ASK q ──▶ each server ── ANSWER q, value ──▶ asker     q = 0, 1, ... in turn
 *     asker ── SUM ──▶ leader
 *
 * The sum of an asker does not depend on who answers it. One that is lost is replaced in its role;
 * askers are told of a new server, and ask it what the lost one owed them; a new asker begins again.
 */
#ifndef CULM_TESTS_UNIT_LAUNCH_COUNTER_H
#define CULM_TESTS_UNIT_LAUNCH_COUNTER_H

#include "launch/launcher.h"

#define COUNTER_SERVERS 2
#define COUNTER_ASKERS 3
#define COUNTER_QUESTIONS 20
#define COUNTER_SUM                                                                                \
    (COUNTER_SERVERS * (1 + 2 + 3) * COUNTER_QUESTIONS * (COUNTER_QUESTIONS + 1) / 2)

/* Numbers of its own, not all of them used. */
enum { COUNTER_SERVER = 2, COUNTER_ASKER = 5 };
extern const struct culm_launcher_role counter_roles[COUNTER_ASKER + 1];

enum counter_message { COUNTER_GO = 1, COUNTER_ASK, COUNTER_ANSWER, COUNTER_TOTAL };
struct counter_go {
    int32_t server[COUNTER_SERVERS], asker;
};
struct counter_ask {
    int64_t question, asker;
};

/* --fault node=ROLE:INDEX,step=S[,phase=answer|send|hear][,how=H][,for_ms=N] */
enum culm_status counter_fault(const char *text, struct culm_agent_fault *ret_fault,
                               struct culm_worker_fault *ret_own, struct culm_error *error);

/* A server or an asker, if argv says so; else -1. */
int counter_main(int argc, char **argv);

struct counter {
    /* what is to happen */
    char dir[64];
    bool resume, stop, unwanted; /* unwanted: askers are told that they are servers */
    const char *program, *trace_path;
    bool newcomers; /* one asker comes by itself, and one that would be a server */
    const char *faults[2];
    size_t fault_count;
    struct culm_sink *log, *screen;
    /* what has */
    enum culm_status status; /* of all before it runs */
    int code;
    struct culm_error error;
    struct culm_launcher_result result;
    int32_t warned, admitted, refused;
};

/* Launches it, from beginning to end. */
void counter_run(struct counter *counter);

#endif
