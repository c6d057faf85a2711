/*
 * Signals by which people, schedulers and terminals ask a command to stop so that it can go on
 * later (base/stops.h).
 *
 * Thread: the main one.
 */
#ifndef CULM_CLI_SIGNALS_H
#define CULM_CLI_SIGNALS_H

#include <stdbool.h>

/* From here on they call `stop`, which may do only what is safe in a handler. SIGHUP does not if it
 * was ignored when the program began, as by nohup. */
void culm_cli_on_stop_signal(void (*stop)(int number));

/* In the handler: whether somebody insists. That is a SIGINT or SIGTERM that comes a second or more
 * after another one: wrappers pass on what the whole group has received, and schedulers warn with
 * other signals first. */
bool culm_cli_insists(int number);

#endif
