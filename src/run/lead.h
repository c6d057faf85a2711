/*
 * A process that may lead a run whose leader is one of several (crew/lead.h): it prepares all that does not depend on who
 * leads before, stands, and leads until the run is over or another one leads.
 *
 * Thread: the only one of its process, but those that it starts.
 */
#ifndef CULM_RUN_LEAD_H
#define CULM_RUN_LEAD_H

#include "launch/launcher.h"

struct culm_lead_place {   /* all borrowed */
    const char *store;     /* its address */
    const char *run;       /* the run's name */
    const char *signature; /* that all its processes have */
    const char *
        listen; /* "HOST:PORT" as people write it; NULL: where the store is called from, at any port; of all addresses, that one is told */
    const char *advertise; /* NULL: that */
    bool done;             /* set when it finds that the run is done */
    /* One line of something that is as it should not be. */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
};

/* As `stand` of culm_launcher_options, whose stand_ctx is a struct culm_lead_place. */
enum culm_status culm_lead_place_stand(void *place, const char *config_text, const char *signature,
                                       struct culm_candidate **ret_candidate, int *ret_reserved_fd,
                                       struct culm_error *error);

/* Whether the run of that id and configuration may be kept in `dir`: it is there already, or has been about to be, or nothing is.
 * CULM_ERR_EXISTS: another run is. */
enum culm_status culm_lead_check_dir(const char *dir, const char *run, const char *config_text,
                                     struct culm_error *error);

#define CULM_LEAD_AGAIN 111 /* the exit code of one that leads no more; another one may stand */

/* All borrowed; NULL: not given. */
struct culm_run_lead_options {
    const char *store, *run, *token_file, *listen, *advertise;
    const char *dir; /* for what it keeps of the run while it leads; made, if it is not there */
    bool insecure;
    const char *fault;              /* `--fault leader,...` (leader_fault.h) */
    struct culm_sink *log, *screen; /* of events, while it leads */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
};

/* The exit code: 0: the run is done; 75: it was stopped; CULM_LEAD_AGAIN; others as of `culm train`. */
int culm_run_lead(const struct culm_run_lead_options *options, struct culm_error *ret_error);

#endif
