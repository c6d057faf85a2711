/*
 * The thread that works out a better plan, and what all threads in the background share.
 *
 * Thread: the loop's, unless a function says otherwise.
 */
#ifndef CULM_LIVE_PLANNER_H
#define CULM_LIVE_PLANNER_H

#include "edge/plan.h"
#include "live/catalog.h"
#include "live/forms.h"

#include <pthread.h>

struct culm_live;

/* Layouts to choose from [forms.h], the same ones as for `culm edge plan`; and each of them
 * with the originals that look at samples added, from which the plan is then made. They have no
 * addresses. Owned. */
struct live_choices {
    struct culm_live_laid *laid[CULM_LIVE_FORMS_MAX], *sampled[CULM_LIVE_FORMS_MAX];
    uint64_t plain[CULM_LIVE_FORMS_MAX];
    int32_t count;
};

/* Works out which forms to run and a better plan, on a thread of its own, while the run goes on by
 * a plan that was made quickly. The loop thread owns all of it but what the planning thread was
 * given. */
struct live_planner {
    bool wanted; /* the layout in force has a quick plan */
    bool thinks; /* the thread is there */
    pthread_t thread;
    int stop, done; /* atomic */
    const struct culm_live_catalog *catalog;
    struct live_choices choices;
    int32_t chosen;
    struct culm_edge_plan plan;
    enum culm_status status;
    struct culm_error error;
};

/* For a struct culm_stop: whether the run was asked to stop; whether the int at `stop` is set. Any
 * thread. */
bool live_asked(const void *run);
bool live_stopped(const void *stop);
/* Lowers the priority of the calling thread, and of what it starts, below that of models. */
void live_give_way(int nice);
/* Chooses which queries run plain, which it sets in run->plain, and a plan. To be called only while
 * nothing runs. */
enum culm_status live_choose(struct culm_live *run, struct culm_edge_plan *ret_plan,
                             struct culm_error *error);
/* Starts to work out a better plan if the present one was made quickly, and takes the better one up
 * when it is ready. */
void live_replan(struct culm_live *run);
void live_stop_planner(struct culm_live *run);
/* Publishes the plan in force. */
void live_tell_plan(struct culm_live *run);

/* sources.c */
/* Makes the layouts to choose from. The caller holds run->lock, or no other thread runs, and no
 * layout is pending. Must be released after a failure too. */
enum culm_status live_make_choices(struct culm_live *run, struct live_choices *choices,
                                   struct culm_error *error);
void live_release_choices(struct live_choices *choices);

#endif
