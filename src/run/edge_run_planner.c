/*
 * Plans of a run: publishing them, and the thread that works out a better plan where one was made
 * quickly. Also what all background threads share.
 */
#include "run/edge_run.h"

#include "base/json.h"

#include <string.h>
#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* A better plan is wanted soon, but not at the expense of models that run. */
#define PLANNER_NICE 5

/* --- background threads --- */

bool culm_edge_running_signalled(const void *ctx) {
    (void)ctx;
    return culm_alone_asked_to_stop();
}

bool culm_edge_running_stopped(const void *stop) {
    return __atomic_load_n((const int *)stop, __ATOMIC_ACQUIRE) != 0;
}

void culm_edge_running_give_way(int nice) {
#ifdef __linux__
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice);
#endif
}

/* --- plans --- */

void culm_edge_running_tell_plan(struct culm_edge_running *run) {
    const struct culm_edge_plan *plan = &run->plan;
    json_t *order = json_array(), *visit = json_object(), *originals = json_array();
    for (int32_t i = 0; i < plan->count; i++) {
        const struct edge_query *query = &run->query[plan->order[i]];
        const char *name = query->entry->config->name;
        if (query->original_of < 0) { /* not an original, which only looks at samples */
            json_array_append_new(order, culm_json_text(name));
            json_object_set_new(visit, name, json_integer(plan->visit[plan->order[i]]));
        }
    }
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct edge_query *query = &run->query[q];
        const struct culm_edge_form form = {query->merged, query->original,
                                            query->entry->part_count};
        if (!query->gone && query->original_of < 0 && query->plain &&
            culm_edge_form_differs(&form)) {
            json_array_append_new(originals, culm_json_text(query->entry->config->name));
        }
    }
    culm_edge_running_publish(run, json_pack("{s:s, s:o, s:o, s:i, s:f, s:o}", "event", "plan",
                                             "order", order, "visit", visit, "frames_waiting",
                                             plan->slots, "least_processed", plan->least_share,
                                             "originals", originals));
}

static enum culm_status choose(const struct culm_edge_catalog *catalog,
                               const struct edge_choices *choices,
                               const struct culm_edge_stop *stop, int32_t *ret_chosen,
                               struct culm_edge_plan *ret_plan, struct culm_error *error) {
    const struct culm_edge_layout *layout[CULM_EDGE_FORMS_MAX];
    for (int32_t i = 0; i < choices->count; i++) {
        layout[i] = &choices->laid[i]->layout;
    }
    enum culm_status status = culm_edge_catalog_choose(catalog, layout, choices->count, 0, stop,
                                                       ret_chosen, ret_plan, error);
    if (status == CULM_OK && choices->sampled[*ret_chosen]) {
        int32_t only;
        layout[0] = &choices->sampled[*ret_chosen]->layout;
        status = culm_edge_catalog_choose(catalog, layout, 1, 0, stop, &only, ret_plan, error);
    }
    return status;
}

enum culm_status culm_edge_running_choose(struct culm_edge_running *run,
                                          struct culm_edge_plan *ret_plan,
                                          struct culm_error *error) {
    const struct culm_edge_stop stop = {.asked = culm_edge_running_signalled};
    struct edge_choices choices;
    int32_t chosen = 0;
    enum culm_status status = culm_edge_running_choices(run, &choices, error);
    status = status ? status : choose(run->catalog[0], &choices, &stop, &chosen, ret_plan, error);
    if (status == CULM_OK) {
        run->plain = choices.plain[chosen];
    }
    culm_edge_running_release_choices(&choices);
    return status;
}

static void *think(void *arg) {
    struct edge_planner *planner = arg;
    const struct culm_edge_stop stop = {.asked = culm_edge_running_stopped, .ctx = &planner->stop};
    culm_edge_running_give_way(PLANNER_NICE);
    planner->status = choose(planner->catalog, &planner->choices, &stop, &planner->chosen,
                             &planner->plan, &planner->error);
    __atomic_store_n(&planner->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

void culm_edge_running_stop_planner(struct culm_edge_running *run) {
    struct edge_planner *planner = &run->planner;
    if (planner->thinks) {
        __atomic_store_n(&planner->stop, 1, __ATOMIC_RELEASE);
        pthread_join(planner->thread, NULL);
        culm_edge_running_release_choices(&planner->choices);
        *planner = (struct edge_planner){0};
    }
}

/* Whether some query would run on other weights than it does now. */
static bool other_forms(const struct culm_edge_running *run, uint64_t plain) {
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct edge_query *query = &run->query[q];
        const struct culm_edge_form form = {query->merged, query->original,
                                            query->entry->part_count};
        if (!query->gone && query->original_of < 0 && !query->reverted &&
            query->plain != (plain >> q & 1) && culm_edge_form_differs(&form)) {
            return true;
        }
    }
    return false;
}

/* The planner is done: takes its plan up, unless the layout has changed since or is about to. */
static void take_up(struct culm_edge_running *run) {
    struct edge_planner *planner = &run->planner;
    struct culm_edge_plan plan = planner->plan;
    bool wanted = planner->wanted, good = planner->status == CULM_OK;
    uint64_t plain = good ? planner->choices.plain[planner->chosen] : 0;
    struct culm_error error;
    culm_edge_running_stop_planner(run);
    planner->wanted = wanted;
    if (good && !wanted && !run->next &&
        (other_forms(run, plain) || !culm_edge_plan_same(&plan, &run->plan))) {
        run->plain = plain;
        /* If this fails, the run goes on as it is. */
        (void)culm_edge_running_try(run, culm_edge_running_take_forms, &plan, &error);
    }
}

void culm_edge_running_replan(struct culm_edge_running *run) {
    struct edge_planner *planner = &run->planner;
    if (planner->thinks && __atomic_load_n(&planner->done, __ATOMIC_ACQUIRE)) {
        take_up(run);
    }
    if (planner->wanted && !planner->thinks && !run->next) {
        *planner = (struct edge_planner){.catalog = run->catalog[0]};
        pthread_mutex_lock(&run->lock);
        enum culm_status status =
            culm_edge_running_choices(run, &planner->choices, &planner->error);
        pthread_mutex_unlock(&run->lock);
        planner->thinks =
            status == CULM_OK && pthread_create(&planner->thread, NULL, think, planner) == 0;
        if (!planner->thinks) {
            culm_edge_running_release_choices(&planner->choices);
        }
    }
}
