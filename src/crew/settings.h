/*
 * Waits and limits of a crew. Whoever starts a run makes them of the section `cluster` (crew/config.h); every value
 * is used as it is.
 *
 * Thread: constant.
 */
#ifndef CULM_CREW_SETTINGS_H
#define CULM_CREW_SETTINGS_H

#include <stdint.h>

struct culm_crew_settings {
    int64_t heartbeat_ms;    /* between two signs of life of a node, and two ticks */
    int64_t suspect_ms;      /* of silence, after which a node is put out */
    int64_t kill_suspect_ms; /* from then until its process is ended */
    int64_t stuck_ms;        /* how long a task may take, until some have taken longer */
    int64_t replace_ms;      /* from a loss until a replacement is asked for; -1: never */
    /* That what decides who leads does not answer, after which nothing is committed until it does; 0: never. */
    int64_t store_ms;
    int64_t wait_ms;   /* that a run without what it needs waits; 0: for ever */
    int64_t max_nodes; /* at once */
    /* --- the owner's --- */
    int64_t join_ms; /* that a commit waits for a copy of the weights */
};

#endif
