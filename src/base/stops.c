/* The signals that end runs, and holding back signals. See stops.h. */
#include "base/stops.h"

#include <pthread.h>
#include <stddef.h>

const int culm_stop_signals[CULM_STOP_SIGNALS] = {SIGTERM, SIGINT,  SIGHUP,
                                                  SIGUSR1, SIGUSR2, SIGXCPU};

void culm_stop_signals_set(sigset_t *ret_set) {
    sigemptyset(ret_set);
    for (int i = 0; i < CULM_STOP_SIGNALS; i++) {
        sigaddset(ret_set, culm_stop_signals[i]);
    }
}

void culm_signals_hold(sigset_t *ret_before) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t held;
    sigfillset(&held);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sigdelset(&held, faults[i]);
    }
    pthread_sigmask(SIG_SETMASK, &held, ret_before);
}

void culm_signals_let(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }
