/*
 * Ordered pairs of kill points: what is the same for all protocols. The points at which whoever leads can be struck; which pairs are played,
 * and how often; what is said of them.
 *
 *     PROGRAM [--all] [--one-in N] [--from A] [--to B] [--log]
 *
 * Whoever is at the first point dies, and in what follows whoever is at the second. Some points are reached only if something happens
 * beside the pair: each has what it needs. The second point is struck when a view has followed the first blow, or else at once. Pairs
 * that do not fire are listed: nothing follows what ends the run, for one.
 *
 *   --all         each pair with anything that may happen before and in between, after a view and at once, with each kind of redundancy
 *   --one-in      one pair of so many, such that each point is first in some, and second
 *   --from, --to  of these points alone, by number
 */
#ifndef CULM_TESTS_SIM_PAIRS_H
#define CULM_TESTS_SIM_PAIRS_H

#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_POINTS_MAX 80

/* What happens beside a pair, so that its points are reached. */
enum pairs_beside {
    PAIRS_NOTHING,
    PAIRS_NODE,    /* one dies */
    PAIRS_LEADER,  /* it dies */
    PAIRS_COPIES,  /* all copies of something are lost */
    PAIRS_STOPPED, /* the run */
    PAIRS_BESIDES
};

/* One way to play a pair. */
struct pairs_setting {
    enum pairs_beside first;   /* before the first point is struck */
    enum pairs_beside between; /* once it has been, and before the second one is */
    bool after_view;           /* the second one is struck only when a view has followed */
    int redundancy;            /* 0, 1, 2; 0 unless all are played */
};

/* A node that is in a phase, whoever that is; or, with a name, whoever leads, the skip+1st time that it is there. */
struct pairs_point {
    const char *name; /* NULL: of a node */
    uint32_t role, phase;
    enum pairs_beside need; /* of a node: to be reached */
    struct culm_sim_moment moment;
    int32_t skip;
};

/* Frames of one type, of which as many follow on one another: before the first of them, and after each. */
struct pairs_frame {
    const char *name;
    uint32_t type;
    int32_t frames;
};

/* Adds those of a leader: `frame` ends with one without a name; `report` is what nodes answer one that takes over. */
static inline int32_t pairs_of_leader(const struct pairs_frame *frame, uint32_t report,
                                      int32_t nodes, struct pairs_point *ret_list) {
    static const char *const deed[] = {"roll-back", "stop", "done", NULL, "registration"};
    static const enum culm_sim_does around[] = {CULM_SIM_WRITES, CULM_SIM_WRITTEN, CULM_SIM_KNOWS};
    int32_t count = 0;
    for (; frame->name; frame++) {
        ret_list[count++] =
            (struct pairs_point){.name = frame->name, .moment = {CULM_SIM_SENDS, frame->type}};
        for (int32_t i = 0; i < frame->frames; i++) {
            ret_list[count++] = (struct pairs_point){
                .name = frame->name, .moment = {CULM_SIM_SENT, frame->type}, .skip = i};
        }
    }
    ret_list[count++] = (struct pairs_point){.name = "TAKE_OVER", .moment = {CULM_SIM_BEGINS, 0}};
    for (int32_t i = 0; i < nodes; i++) {
        ret_list[count++] =
            (struct pairs_point){.name = "TAKE_OVER", .moment = {CULM_SIM_PROMISED, 0}, .skip = i};
        ret_list[count++] = (struct pairs_point){
            .name = "TAKE_OVER", .moment = {CULM_SIM_HEARS, report}, .skip = i};
    }
    for (uint32_t d = 0; d <= CULM_SIM_ADMITS; d++) {
        for (int i = 0; i < 3 && deed[d];
             i++) { /* commits are written where bits are not compared */
            ret_list[count++] = (struct pairs_point){.name = deed[d], .moment = {around[i], d}};
        }
    }
    return count;
}

struct pairs_result {
    bool fired; /* both, in that order */
    int64_t losses, takeovers, rollbacks;
    char wrong[256]; /* "": nothing is */
};

struct pairs {
    const char *program;
    struct pairs_point point[PAIRS_POINTS_MAX];
    int32_t count;
    int redundancies;
    void (*name_node)(const struct pairs_point *point, char *ret_text, size_t size);
    void (*play)(const struct pairs_point *a, const struct pairs_point *b, uint64_t seed,
                 const struct pairs_setting *how, bool log, struct pairs_result *ret_result);
    bool log;
    int64_t played, failed, fired, unfired, losses, takeovers, rollbacks;
};

static inline void pairs_name(const struct pairs *pairs, int32_t which, char *ret_text,
                              size_t size) {
    static const char *const where[CULM_SIM_DOES] = {[CULM_SIM_BEGINS] = "before the first",
                                                     [CULM_SIM_PROMISED] = "promised by",
                                                     [CULM_SIM_HEARS] = "answered by",
                                                     [CULM_SIM_SENDS] = "before the first",
                                                     [CULM_SIM_SENT] = "sent to",
                                                     [CULM_SIM_WRITES] = "before it is written",
                                                     [CULM_SIM_WRITTEN] = "written, unheard of",
                                                     [CULM_SIM_KNOWS] = "written, not told"};
    const struct pairs_point *point = &pairs->point[which];
    const enum culm_sim_does does = point->moment.does;
    if (!point->name) {
        pairs->name_node(point, ret_text, size);
    } else if (does == CULM_SIM_SENT || does == CULM_SIM_PROMISED || does == CULM_SIM_HEARS) {
        snprintf(ret_text, size, "leader, %s %s %d", point->name, where[does], point->skip + 1);
    } else {
        snprintf(ret_text, size, "leader, %s %s", point->name, where[does]);
    }
}

static inline enum pairs_beside pairs_need(const struct pairs_point *point) {
    const bool of_deed = point->moment.does >= CULM_SIM_WRITES;
    if (!point->name) {
        return point->need;
    }
    return point->moment.does < CULM_SIM_SENDS                    ? PAIRS_LEADER
           : of_deed && point->moment.what == CULM_DEED_ROLL_BACK ? PAIRS_COPIES
           : of_deed && point->moment.what == CULM_DEED_STOP      ? PAIRS_STOPPED
           : of_deed && point->moment.what == CULM_SIM_ADMITS     ? PAIRS_NODE
                                                                  : PAIRS_NOTHING;
}

static inline bool pairs_play(struct pairs *pairs, int32_t a, int32_t b,
                              const struct pairs_setting *how) {
    static const char *const beside[] = {"nothing", "a node dies", "a leader dies",
                                         "all copies are lost", "it is stopped"};
    struct pairs_result result = {0};
    pairs->play(&pairs->point[a], &pairs->point[b], (uint64_t)(a * 100 + b), how, pairs->log,
                &result);
    pairs->played++;
    pairs->failed += result.wrong[0] != 0;
    pairs->losses += result.losses;
    pairs->takeovers += result.takeovers;
    pairs->rollbacks += result.rollbacks;
    if (result.wrong[0] || pairs->log) {
        char of_a[80], of_b[80];
        pairs_name(pairs, a, of_a, sizeof of_a);
        pairs_name(pairs, b, of_b, sizeof of_b);
        printf(
            "%s - %s; then %s%s (first: %s; in between: %s; redundancy %d)%s: %s\n    replay: %s "
            "--all --from %d --to %d --log\n",
            result.wrong[0] ? "not ok" : "ok", of_a, of_b, how->after_view ? ", after a view" : "",
            beside[how->first], beside[how->between], how->redundancy,
            result.fired ? "" : ", not both fired", result.wrong, pairs->program, a, b);
    }
    return result.fired;
}

/* What the points need, until both fire. */
static inline bool pairs_play_once(struct pairs *pairs, int32_t a, int32_t b) {
    const struct pairs_point *point = &pairs->point[a];
    const enum pairs_beside need = pairs_need(&pairs->point[b]);
    /* What a run begins with is loaded without anything happening. */
    const enum pairs_beside first =
        !point->name && point->need == PAIRS_COPIES ? PAIRS_NOTHING : pairs_need(point);
    bool fired = false;
    for (int between = 0; between <= (need != PAIRS_NOTHING) && !fired; between++) {
        for (int after_view = 1; after_view >= 0 && !fired; after_view--) {
            const struct pairs_setting how = {first, between ? need : PAIRS_NOTHING, after_view, 0};
            fired = pairs_play(pairs, a, b, &how);
        }
    }
    return fired;
}

static inline bool pairs_play_all(struct pairs *pairs, int32_t a, int32_t b) {
    bool fired = false;
    for (int s = 0; s < 2 * PAIRS_BESIDES * PAIRS_BESIDES * pairs->redundancies; s++) {
        const struct pairs_setting how = {
            (enum pairs_beside)(s / 2 % PAIRS_BESIDES),
            (enum pairs_beside)(s / 2 / PAIRS_BESIDES % PAIRS_BESIDES), s % 2,
            s / 2 / PAIRS_BESIDES / PAIRS_BESIDES};
        fired |= pairs_play(pairs, a, b, &how);
    }
    return fired;
}

/* All pairs, or those that the arguments ask for; returns what the program ends with. */
static inline int pairs_main(struct pairs *pairs, int argc, char **argv) {
    bool all = false;
    int32_t from = -1, to = -1, one_in = 1;
    for (int i = 1; i < argc; i++) {
        all = all || strcmp(argv[i], "--all") == 0;
        pairs->log = pairs->log || strcmp(argv[i], "--log") == 0;
        one_in = strcmp(argv[i], "--one-in") == 0 && i + 1 < argc ? atoi(argv[i + 1]) : one_in;
        from = strcmp(argv[i], "--from") == 0 && i + 1 < argc ? atoi(argv[i + 1]) : from;
        to = strcmp(argv[i], "--to") == 0 && i + 1 < argc ? atoi(argv[i + 1]) : to;
    }
    for (int32_t a = 0; a < pairs->count; a++) {
        for (int32_t b = 0; b < pairs->count; b++) {
            if ((from >= 0 && a != from) || (to >= 0 && b != to) || (a + b) % one_in != 0) {
                continue;
            }
            if (all ? pairs_play_all(pairs, a, b) : pairs_play_once(pairs, a, b)) {
                pairs->fired++;
                continue;
            }
            char of_a[80], of_b[80];
            pairs_name(pairs, a, of_a, sizeof of_a);
            pairs_name(pairs, b, of_b, sizeof of_b);
            printf("# does not fire: %s; then %s\n", of_a, of_b);
            pairs->unfired++;
        }
    }
    const bool enough = all || from >= 0 || to >= 0 || pairs->fired > 4 * pairs->unfired;
    printf("1..1\n%s 1 - %d points, %lld pairs that fired, %lld that did not; %lld histories, %lld "
           "losses, %lld leaders that took over, %lld roll-backs, %lld failed\n",
           pairs->failed || !enough ? "not ok" : "ok", pairs->count, (long long)pairs->fired,
           (long long)pairs->unfired, (long long)pairs->played, (long long)pairs->losses,
           (long long)pairs->takeovers, (long long)pairs->rollbacks, (long long)pairs->failed);
    return pairs->failed || !enough;
}

#endif
