/* Does anything move? See stall.h. */
#include "crew/stall.h"

#include "base/grow.h"

#include <stddef.h>
#include <string.h>

#define MS 1000000ull
#define LEAST_MS 5000 /* TCP itself tries again after one second, and after three */
#define MEDIANS 10    /* this many times the median round without a commit is suspicious */
#define LOOKS_MAX 6   /* each twice as late as the one before */

static uint64_t patience_ns(const struct culm_stall *stall, int64_t stuck_ms) {
    double sorted[CULM_STALL_KEPT];
    size_t count = stall->rounds < CULM_STALL_KEPT ? (size_t)stall->rounds : CULM_STALL_KEPT;
    memcpy(sorted, stall->round_ms, count * sizeof *sorted);
    double ms = MEDIANS * culm_median(sorted, count);
    ms = ms > (double)stuck_ms ? ms : (double)stuck_ms;
    ms = ms > LEAST_MS ? ms : LEAST_MS;
    return (uint64_t)(ms * (double)(1 << stall->looks) * 1e6);
}

void culm_stall_round(struct culm_stall *stall, double round_ms) {
    if (round_ms >= 0) {
        stall->round_ms[stall->rounds++ % CULM_STALL_KEPT] = round_ms;
    }
    stall->looks = stall->vain = 0;
}

enum culm_stall_next culm_stall_tick(struct culm_stall *stall, uint64_t now_ns, bool moves,
                                     int64_t progress, bool answered, int64_t stuck_ms,
                                     int64_t suspect_ms) {
    if (moves || progress != stall->progress) {
        stall->progress = progress;
        stall->moved_ns = now_ns;
        stall->asked_ns = 0;
        return CULM_STALL_MOVES;
    }
    uint64_t limit = (uint64_t)suspect_ms * MS;
    if (stall->asked_ns && (answered || now_ns > stall->asked_ns + limit)) {
        return CULM_STALL_JUDGE;
    }
    if (!stall->asked_ns && now_ns - stall->moved_ns > patience_ns(stall, stuck_ms)) {
        stall->asked_ns = now_ns;
        stall->question++;
        return CULM_STALL_ASK;
    }
    return CULM_STALL_WAIT;
}

int64_t culm_stall_silent_ms(const struct culm_stall *stall, uint64_t now_ns) {
    return (int64_t)((now_ns - stall->moved_ns) / MS);
}

void culm_stall_judged(struct culm_stall *stall, uint64_t now_ns, bool blamed) {
    stall->asked_ns = 0;
    stall->moved_ns = now_ns;
    stall->looks += stall->looks < LOOKS_MAX;
    stall->vain += !blamed;
}
