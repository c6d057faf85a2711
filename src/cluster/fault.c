/* A fault goes idle ─▶ (armed ─▶) fired, by compare-and-swap, so that only one thread fires it. See
 * fault.h. */
#include "cluster/fault.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum culm_fault_state { IDLE, ARMED, FIRED };

static const char *const how_name[CULM_HOW_COUNT] = {[CULM_HOW_KILL] = "kill",
                                                     [CULM_HOW_STOP] = "stop",
                                                     [CULM_HOW_EXIT] = "exit",
                                                     [CULM_HOW_STUCK] = "stuck",
                                                     [CULM_HOW_FLIP] = "flip"};

const char *culm_fault_how_name(size_t how) { return how < CULM_HOW_COUNT ? how_name[how] : NULL; }

enum culm_status culm_faults_init(struct culm_faults *faults,
                                  const struct culm_worker_fault *borrow_fault, size_t count,
                                  int record_fd, struct culm_error *error) {
    int *state = calloc(count ? count : 1, sizeof *state);
    if (!state) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %zu faults", count);
    }
    *faults = (struct culm_faults){borrow_fault, state, count, record_fd};
    return CULM_OK;
}

void culm_faults_release(struct culm_faults *faults) {
    free(faults->state);
    faults->state = NULL;
    faults->count = 0;
}

static bool move(int *state, int from, int to) {
    return __atomic_compare_exchange_n(state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

const struct culm_worker_fault *culm_faults_claim(struct culm_faults *faults,
                                                  const struct culm_fault_point *point) {
    for (size_t i = 0; i < faults->count; i++) {
        const struct culm_fault_point *at = &faults->fault[i].point;
        if (at->phase != point->phase || at->step != point->step ||
            (at->part != -1 && at->part != point->part)) {
            continue;
        }
        if (faults->fault[i].at_send) {
            (void)move(&faults->state[i], IDLE, ARMED);
        } else if (move(&faults->state[i], IDLE, FIRED)) {
            return &faults->fault[i];
        }
    }
    return NULL;
}

const struct culm_worker_fault *culm_faults_claim_send(struct culm_faults *faults) {
    for (size_t i = 0; i < faults->count; i++) {
        if (move(&faults->state[i], ARMED, FIRED)) {
            return &faults->fault[i];
        }
    }
    return NULL;
}

void culm_faults_fire(const struct culm_faults *faults, const struct culm_worker_fault *fault) {
    if (faults->record_fd >= 0) {
        char line[80];
        int len = snprintf(line, sizeof line, "%" PRId32 " %" PRId64 "\n", fault->index,
                           fault->point.step);
        ssize_t put = write(faults->record_fd, line, (size_t)len); /* atomic: below PIPE_BUF */
        (void)put;
    }
    switch (fault->how) {
    case CULM_HOW_KILL:
        kill(getpid(), SIGKILL);
        for (;;) {
            pause();
        }
    case CULM_HOW_STOP: kill(getpid(), SIGSTOP); break;
    case CULM_HOW_EXIT: _exit(1);
    case CULM_HOW_STUCK:
    case CULM_HOW_FLIP: break;
    }
}

bool culm_fault_record_parse(const char *line, struct culm_fault_record *ret_record) {
    struct culm_fault_record record;
    int used = 0;
    if (sscanf(line, "%" SCNd32 " %" SCNd64 "%n", &record.index, &record.step, &used) != 2 ||
        line[used]) {
        return false;
    }
    *ret_record = record;
    return true;
}
