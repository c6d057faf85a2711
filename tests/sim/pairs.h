/*
 * The points at which whoever leads can be struck, of both protocols, and what programs on ordered pairs of points share.
 */
#ifndef CULM_TESTS_SIM_PAIRS_H
#define CULM_TESTS_SIM_PAIRS_H

#include "sim/sim.h"

#define PAIRS_POINTS_MAX 80

/* A node that is in a phase, whoever that is; or, with a name, whoever leads, the skip+1st time that it is there. */
struct pairs_point {
    const char *name; /* NULL: of a node */
    uint32_t role, phase;
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
    static const char *const deed[] = {"roll-back", "stop", "done", "registration"};
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
        for (int i = 0; i < 3; i++) {
            ret_list[count++] = (struct pairs_point){.name = deed[d], .moment = {around[i], d}};
        }
    }
    return count;
}

/* In words, after `name` of a point of a leader. */
static inline const char *pairs_where(const struct pairs_point *point) {
    static const char *const where[CULM_SIM_DOES] = {[CULM_SIM_BEGINS] = "before the first",
                                                     [CULM_SIM_PROMISED] = "promised by",
                                                     [CULM_SIM_HEARS] = "answered by",
                                                     [CULM_SIM_SENDS] = "before the first",
                                                     [CULM_SIM_SENT] = "sent to",
                                                     [CULM_SIM_WRITES] = "before it is written",
                                                     [CULM_SIM_WRITTEN] = "written, unheard of",
                                                     [CULM_SIM_KNOWS] = "written, not told"};
    return where[point->moment.does];
}

#endif
