/*
 * The signals that schedulers and terminals send to every process of a run to end it. The process
 * that leads hears them; its children begin with them blocked, so there is no moment in which one
 * gets through. And whose signals are: a library's threads leave them to those of the program.
 */
#ifndef CULM_BASE_STOPS_H
#define CULM_BASE_STOPS_H

#include <signal.h>

#define CULM_STOP_SIGNALS 6

/* SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU. */
extern const int culm_stop_signals[CULM_STOP_SIGNALS];

/* These and no others. Safe in a child between fork and exec. */
void culm_stop_signals_set(sigset_t *ret_set);

/* Holds back all signals from this thread, but those that a fault raises, and so from a thread that it
 * starts; then lets them through again as before. */
void culm_signals_hold(sigset_t *ret_before);
void culm_signals_let(const sigset_t *before);

#endif
