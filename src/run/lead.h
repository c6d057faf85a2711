/*
 * A process that may lead a run whose leader is one of several (crew/lead.h): it prepares all that does not depend on who
 * leads before, stands, and leads until the run is over or another one leads.
 *
 * Thread: the only one of its process, but those that it starts.
 */
#ifndef CULM_RUN_LEAD_H
#define CULM_RUN_LEAD_H

#include "base/status.h"

#include <signal.h>

struct culm_sink;

#define CULM_LEAD_AGAIN 111 /* the exit code of one that leads no more; another one may stand */
/* A signal: its machine is to end. It does not stand any more; or, if it leads, another one is to, from the end of the step that is in
 * progress, if one waits. It then ends with CULM_LEAD_AGAIN. */
#define CULM_LEAD_RESIGN SIGUSR1

/* All borrowed; NULL: not given. */
struct culm_run_lead_options {
    const char *store, *run, *token_file, *listen, *advertise;
    const char *agent; /* 8 letters: the process for which one stands after the other */
    const char *dir;   /* for what it keeps of the run while it leads; made, if it is not there */
    bool insecure;
    const char *fault;              /* `--fault leader,...` (leader_fault.h) */
    struct culm_sink *log, *screen; /* of events, while it leads */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
};

/* The exit code: 0: the run is done; 75: it was stopped; CULM_LEAD_AGAIN; others as of the command that
 * creates the run. */
int culm_run_lead(const struct culm_run_lead_options *options, struct culm_error *ret_error);

#endif
