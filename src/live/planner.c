/*
 * Plans of a run: publishing them, and the thread that works out a better plan where one was made
 * quickly. Also what all background threads share.
 */
#include "live/planner.h"
#include "live/run.h"

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

bool live_asked(const void *run) {
    return __atomic_load_n(&((const struct culm_live *)run)->asked, __ATOMIC_ACQUIRE);
}

bool live_stopped(const void *stop) {
    return __atomic_load_n((const int *)stop, __ATOMIC_ACQUIRE) != 0;
}

void live_give_way(int nice) {
#ifdef __linux__
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice);
#endif
}

/* --- plans --- */

void live_tell_plan(struct culm_live *run) {
    const struct culm_edge_plan *plan = &run->plan;
    json_t *order = json_array(), *visit = json_object(), *originals = json_array();
    json_t *reverted = json_array();
    for (int32_t i = 0; i < plan->count; i++) {
        const struct live_query *query = &run->query[plan->order[i]];
        const char *name = query->entry->config->name;
        if (query->original_of < 0) { /* not an original, which only looks at samples */
            json_array_append_new(order, culm_json_text(name));
            json_object_set_new(visit, name, json_integer(plan->visit[plan->order[i]]));
        }
    }
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        const struct culm_live_form form = {query->merged, query->original,
                                            query->entry->part_count};
        bool own = (query->plain || query->reverted) && culm_live_form_differs(&form);
        if (!query->gone && query->original_of < 0 && own) {
            json_array_append_new(originals, culm_json_text(query->entry->config->name));
            if (query->reverted) {
                json_array_append_new(reverted, culm_json_text(query->entry->config->name));
            }
        }
    }
    live_publish(run,
                 json_pack("{s:s, s:o, s:o, s:i, s:f, s:o, s:o, s:f}", "event", "plan", "order",
                           order, "visit", visit, "frames_waiting", plan->slots, "least_processed",
                           plan->least_share, "originals", originals, "reverted", reverted, "saved",
                           run->saving.own > 0 ? 1 - run->saving.laid / run->saving.own : 0.0));
}

static enum culm_status choose(const struct culm_live_catalog *catalog,
                               const struct live_choices *choices, const struct culm_stop *stop,
                               int32_t *ret_chosen, struct culm_edge_plan *ret_plan,
                               struct culm_error *error) {
    const struct culm_edge_layout *layout[CULM_LIVE_FORMS_MAX];
    for (int32_t i = 0; i < choices->count; i++) {
        layout[i] = &choices->laid[i]->layout;
    }
    enum culm_status status = culm_live_catalog_choose(catalog, layout, choices->count, 0, stop,
                                                       ret_chosen, ret_plan, error);
    if (status == CULM_OK && choices->sampled[*ret_chosen]) {
        int32_t only;
        layout[0] = &choices->sampled[*ret_chosen]->layout;
        status = culm_live_catalog_choose(catalog, layout, 1, 0, stop, &only, ret_plan, error);
    }
    return status;
}

enum culm_status live_choose(struct culm_live *run, struct culm_edge_plan *ret_plan,
                             struct culm_error *error) {
    const struct culm_stop stop = {.asked = live_asked, .ctx = run};
    struct live_choices choices;
    int32_t chosen = 0;
    enum culm_status status = live_make_choices(run, &choices, error);
    status = status ? status : choose(run->catalog[0], &choices, &stop, &chosen, ret_plan, error);
    if (status == CULM_OK) {
        run->plain = choices.plain[chosen];
    }
    live_release_choices(&choices);
    return status;
}

static void *think(void *arg) {
    struct live_planner *planner = arg;
    const struct culm_stop stop = {.asked = live_stopped, .ctx = &planner->stop};
    live_give_way(PLANNER_NICE);
    planner->status = choose(planner->catalog, &planner->choices, &stop, &planner->chosen,
                             &planner->plan, &planner->error);
    __atomic_store_n(&planner->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

void live_stop_planner(struct culm_live *run) {
    struct live_planner *planner = &run->planner;
    if (planner->thinks) {
        __atomic_store_n(&planner->stop, 1, __ATOMIC_RELEASE);
        pthread_join(planner->thread, NULL);
        live_release_choices(&planner->choices);
        *planner = (struct live_planner){0};
    }
}

/* Whether some query would run on other weights than it does now. */
static bool other_forms(const struct culm_live *run, uint64_t plain) {
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        const struct culm_live_form form = {query->merged, query->original,
                                            query->entry->part_count};
        if (!query->gone && query->original_of < 0 && !query->reverted &&
            query->plain != (plain >> q & 1) && culm_live_form_differs(&form)) {
            return true;
        }
    }
    return false;
}

/* The planner is done: takes its plan up, unless the layout has changed since or is about to. */
static void take_up(struct culm_live *run) {
    struct live_planner *planner = &run->planner;
    struct culm_edge_plan plan = planner->plan;
    bool wanted = planner->wanted, good = planner->status == CULM_OK;
    uint64_t plain = good ? planner->choices.plain[planner->chosen] : 0;
    struct culm_error error;
    live_stop_planner(run);
    planner->wanted = wanted;
    if (good && !wanted && !run->next &&
        (other_forms(run, plain) || !culm_edge_plan_same(&plan, &run->plan))) {
        run->plain = plain;
        /* If this fails, the run goes on as it is. */
        (void)live_try(run, live_take_forms, &plan, &error);
    }
}

void live_replan(struct culm_live *run) {
    struct live_planner *planner = &run->planner;
    if (planner->thinks && __atomic_load_n(&planner->done, __ATOMIC_ACQUIRE)) {
        take_up(run);
    }
    if (planner->wanted && !planner->thinks && !run->next) {
        *planner = (struct live_planner){.catalog = run->catalog[0]};
        pthread_mutex_lock(&run->lock);
        enum culm_status status = live_make_choices(run, &planner->choices, &planner->error);
        pthread_mutex_unlock(&run->lock);
        planner->thinks =
            status == CULM_OK && pthread_create(&planner->thread, NULL, think, planner) == 0;
        if (!planner->thinks) {
            live_release_choices(&planner->choices);
        }
    }
}
