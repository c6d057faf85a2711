/*
 * The signals that schedulers and terminals send to every process of a run to end it. The process
 * that leads hears them; its children begin with them blocked, so there is no moment in which one
 * gets through.
 */
#ifndef CULM_BASE_STOPS_H
#define CULM_BASE_STOPS_H

#include <signal.h>

#define CULM_STOP_SIGNALS 6

/* SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU. */
extern const int culm_stop_signals[CULM_STOP_SIGNALS];

/* These and no others. Safe in a child between fork and exec. */
void culm_stop_signals_set(sigset_t *ret_set);

#endif
