/* The signals that end runs. See stops.h. */
#include "base/stops.h"

const int culm_stop_signals[CULM_STOP_SIGNALS] = {SIGTERM, SIGINT,  SIGHUP,
                                                  SIGUSR1, SIGUSR2, SIGXCPU};

void culm_stop_signals_set(sigset_t *ret_set) {
    sigemptyset(ret_set);
    for (int i = 0; i < CULM_STOP_SIGNALS; i++) {
        sigaddset(ret_set, culm_stop_signals[i]);
    }
}
