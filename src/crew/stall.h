/*
 * When all nodes are alive but nothing moves: when to ask them why.
 *
 * A link may swallow frames while both its ends talk on to the one who leads. So when no task runs,
 * none has ended and no frame has come anywhere for some time, all are asked, and what they answer
 * is judged: who may be put out, or nobody. How long that takes to come follows what a round of the
 * job takes, and doubles with every look until something is committed.
 *
 * Pure; no memory of its own beyond the struct. Thread: its owner's.
 */
#ifndef CULM_CREW_STALL_H
#define CULM_CREW_STALL_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_STALL_KEPT 31
#define CULM_STALL_VAIN_MAX 5 /* looks that find nobody to blame, after which nobody ever will */

struct culm_stall {
    int64_t progress;  /* at the last look */
    uint64_t moved_ns; /* when it changed */
    uint64_t asked_ns; /* 0: nobody is asked */
    uint64_t question; /* its number */
    int32_t looks;     /* since the last commit */
    int32_t vain;      /* of those, that found nobody to blame */
    int64_t rounds;
    double round_ms[CULM_STALL_KEPT]; /* of the last ones */
};

enum culm_stall_next {
    CULM_STALL_MOVES, /* what was answered does not count any more */
    CULM_STALL_WAIT,
    CULM_STALL_ASK,   /* all, under number stall->question */
    CULM_STALL_JUDGE, /* what was answered; then culm_stall_judged */
};

/* Now, at every tick. `moves`: there is nothing to wonder at, whatever `progress` (which changes
 * when anything gets on) says. `answered`: all who were asked have answered. */
enum culm_stall_next culm_stall_tick(struct culm_stall *stall, uint64_t now_ns, bool moves,
                                     int64_t progress, bool answered, int64_t stuck_ms,
                                     int64_t suspect_ms);
/* For so long nothing has moved. */
int64_t culm_stall_silent_ms(const struct culm_stall *stall, uint64_t now_ns);
/* Somebody was put out, or nobody could be blamed; the time begins anew. */
void culm_stall_judged(struct culm_stall *stall, uint64_t now_ns, bool blamed);
/* A round was committed and has taken so long; below 0: not known. */
void culm_stall_round(struct culm_stall *stall, double round_ms);

#endif
