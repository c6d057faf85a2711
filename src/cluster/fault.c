/* idle ─▶ (armed ─▶) fired: compare-and-swap, so that one of several threads wins. */
#include "cluster/fault.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum culm_fault_state { IDLE, ARMED, FIRED };

static const char *const phase_text[CULM_PHASE_COUNT] = {
    [CULM_PHASE_LOAD] = "load",         [CULM_PHASE_FORWARD] = "forward",
    [CULM_PHASE_BACKWARD] = "backward", [CULM_PHASE_FRC] = "frc",
    [CULM_PHASE_SEND] = "send",         [CULM_PHASE_REDUCE] = "reduce",
    [CULM_PHASE_COMMIT] = "commit",     [CULM_PHASE_STEP] = "step",
    [CULM_PHASE_TRANSFER] = "transfer", [CULM_PHASE_CHECKPOINT] = "checkpoint",
};

static const char *const hurt_text[CULM_HURT_COUNT] = {[CULM_HURT_KILL] = "kill",
                                                       [CULM_HURT_STOP] = "stop",
                                                       [CULM_HURT_EXIT] = "exit",
                                                       [CULM_HURT_FLIP] = "flip"};

const char *culm_fault_phase_text(size_t phase) {
    return phase < CULM_PHASE_COUNT ? phase_text[phase] : NULL;
}

const char *culm_fault_hurt_text(size_t hurt) {
    return hurt < CULM_HURT_COUNT ? hurt_text[hurt] : NULL;
}

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
            (at->micro != -1 && at->micro != point->micro)) {
            continue;
        }
        if (at->phase == CULM_PHASE_SEND) {
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
        int len = snprintf(line, sizeof line, "%" PRId32 " %s %" PRId64 "\n", fault->index,
                           phase_text[fault->point.phase], fault->point.step);
        ssize_t put = write(faults->record_fd, line, (size_t)len); /* atomic: below PIPE_BUF */
        (void)put;
    }
    switch (fault->how) {
    case CULM_HURT_KILL:
        kill(getpid(), SIGKILL);
        for (;;) {
            pause();
        }
    case CULM_HURT_STOP: kill(getpid(), SIGSTOP); break;
    case CULM_HURT_EXIT: _exit(1);
    case CULM_HURT_FLIP: break;
    }
}

bool culm_fault_record_parse(const char *line, struct culm_fault_record *ret_record) {
    char phase[16];
    struct culm_fault_record record;
    int used = 0;
    if (sscanf(line, "%" SCNd32 " %15[a-z] %" SCNd64 "%n", &record.index, phase, &record.step,
               &used) != 3 ||
        line[used]) {
        return false;
    }
    for (int i = 0; i < CULM_PHASE_COUNT; i++) {
        if (!strcmp(phase, phase_text[i])) {
            record.phase = (enum culm_phase)i;
            *ret_record = record;
            return true;
        }
    }
    return false;
}
