/* Signals that ask a command to stop. See signals.h. */
#include "cli/signals.h"

#include "base/stops.h"

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define ECHO_MS 1000 /* a signal that comes sooner after the first is an echo of it */

static volatile sig_atomic_t asked;
static int64_t asked_ms;

void culm_cli_on_stop_signal(void (*stop)(int number)) {
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART}, had;
    sigfillset(&action.sa_mask); /* one at a time */
    for (int i = 0; i < CULM_STOP_SIGNALS; i++) {
        const int number = culm_stop_signals[i];
        bool ignored =
            number == SIGHUP && sigaction(SIGHUP, NULL, &had) == 0 && had.sa_handler == SIG_IGN;
        if (!ignored) {
            sigaction(number, &action, NULL);
        }
    }
}

bool culm_cli_insists(int number) {
    if (number != SIGINT && number != SIGTERM) {
        return false;
    }
    struct timespec now;
    const int problem = errno;
    clock_gettime(CLOCK_MONOTONIC, &now);
    errno = problem;
    const int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (!asked) {
        asked_ms = now_ms;
        asked = 1;
        return false;
    }
    return now_ms - asked_ms >= ECHO_MS;
}
