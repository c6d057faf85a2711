/*
 * `culm edge plan` and `culm edge bench`: what would become of a workload, in virtual time.
 */
#include "run/edge_plan.h"

#include "base/json.h"
#include "edge/gemel.h"
#include "edge/virtual.h"
#include "live/answers.h"
#include "live/forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOR_S_MAX 1e6
#define PLAN_S 60 /* how long a plan is played, unless --for says otherwise */
#define GRID_FRAMES 3000
#define PACKAGES_MAX 16
#define MODES_MAX (PACKAGES_MAX + 3)

static enum culm_status open_catalog(const struct culm_edge_planning *planning,
                                     struct culm_live_catalog *catalog, struct culm_error *error) {
    const struct culm_live_catalog_options options = {.sets = planning->sets,
                                                      .set_count = planning->set_count,
                                                      .profile = planning->profile,
                                                      .structure = true};
    enum culm_status status = culm_live_catalog_open(planning->workload, &options, catalog, error);
    return status ? status : culm_live_catalog_measure(catalog, error);
}

static enum culm_status lay_package(struct culm_live_catalog *catalog, const char *dir,
                                    struct culm_live_forms *forms, struct culm_error *error) {
    struct culm_package_round round = {0};
    enum culm_status status = culm_package_open(dir, &round, error);
    status = status ? status : culm_live_catalog_goes_with(catalog, &round, dir, error);
    status = status ? status : culm_live_catalog_has_originals(catalog, &round, dir, error);
    status = status ? status
                    : culm_live_forms_lay(catalog, CULM_LIVE_SHARE_PACKAGE, &round, forms, error);
    culm_package_round_release(&round);
    return status;
}

static json_t *numbers(const struct culm_live_laid *laid, const struct culm_edge_totals *totals,
                       double *ret_mean, double *ret_least) {
    json_t *list = json_array();
    *ret_mean = 0;
    *ret_least = 1;
    for (int32_t q = 0; q < laid->layout.query_count; q++) {
        const struct culm_edge_totals *of = &totals[q];
        double share = of->frames ? (double)of->processed / (double)of->frames : 1;
        *ret_mean += share / laid->layout.query_count;
        *ret_least = share < *ret_least ? share : *ret_least;
        json_array_append_new(
            list,
            json_pack("{s:o, s:I, s:I, s:I, s:I}", "query", culm_json_text(laid->query[q].name),
                      "frames", (json_int_t)of->frames, "processed", (json_int_t)of->processed,
                      "dropped", (json_int_t)of->dropped, "shared", (json_int_t)of->shared));
    }
    return list;
}

/* The names of some queries, by their bits. */
static json_t *names_of(const struct culm_live_laid *laid, uint64_t queries) {
    json_t *names = json_array();
    for (int32_t q = 0; q < laid->layout.query_count; q++) {
        if (queries >> q & 1) {
            json_array_append_new(names, culm_json_text(laid->query[q].name));
        }
    }
    return names;
}

static enum culm_status tell_plan(const struct culm_edge_planning *planning,
                                  const struct culm_live_catalog *catalog,
                                  struct culm_live_forms *forms, struct culm_error *error) {
    struct culm_edge_plan plan;
    struct culm_edge_totals totals[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_memory memory;
    size_t least_bytes, most_bytes;
    int32_t chosen;
    culm_edge_memory_range(&culm_live_forms_merged(forms)->layout, &least_bytes, &most_bytes);
    if (planning->for_s > FOR_S_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--for %g: at most %g seconds",
                              planning->for_s, FOR_S_MAX);
    }
    enum culm_status status = culm_live_forms_choose(catalog, forms, 0, &chosen, &plan, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_live_laid *laid = forms->laid[chosen];
    const struct culm_edge_virtual_options options = {
        .layout = culm_live_forms_played(forms, chosen),
        .plan = &plan,
        .for_ns = (uint64_t)((planning->for_s > 0 ? planning->for_s : PLAN_S) * 1e9)};
    if (culm_edge_virtual_run(&options, totals, &memory) != CULM_OK) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a plan");
    }
    double mean, least;
    json_t *queries = numbers(laid, totals, &mean, &least), *order = json_array(),
           *visit = json_object();
    for (int32_t i = 0; i < plan.count; i++) {
        if (plan.order[i] >= laid->layout.query_count) {
            continue; /* an original that watches */
        }
        json_array_append_new(order, culm_json_text(laid->query[plan.order[i]].name));
        json_object_set_new(visit, laid->query[plan.order[i]].name,
                            json_integer(plan.visit[plan.order[i]]));
    }
    double span = (double)memory.elapsed_ns;
    planning->tell(
        planning->ctx,
        json_pack("{s:o, s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:o}",
                  "order", order, "visit", visit, "frames_waiting", plan.slots, "limit_bytes",
                  (json_int_t)laid->layout.limit_bytes, "least_bytes", (json_int_t)least_bytes,
                  "most_bytes", (json_int_t)most_bytes, "distinct_bytes",
                  (json_int_t)culm_edge_distinct_bytes(&laid->layout), "resident_max_bytes",
                  (json_int_t)memory.most_bytes, "round_bytes", (json_int_t)plan.round_bytes,
                  "load_mb_per_s",
                  laid->layout.load_ns_per_byte > 0 ? 1e3 / laid->layout.load_ns_per_byte : 0.0,
                  "load_share", span > 0 ? (double)memory.waited_ns / span : 0.0, "processed", mean,
                  "least_processed", least, "originals", names_of(laid, forms->plain[chosen]),
                  "queries", queries));
    return CULM_OK;
}

/* Sets the limit that the workload asks for, but for a level (not bytes) at least what the layout
 * needs. */
static void set_limit(const struct culm_live_catalog *catalog, const struct culm_live_laid *plain,
                      struct culm_live_forms *forms) {
    for (int32_t i = 0; i < forms->count; i++) {
        struct culm_edge_layout *layout = &forms->laid[i]->layout;
        size_t least, most;
        layout->limit_bytes = culm_live_catalog_limit(catalog, &plain->layout);
        culm_edge_memory_range(layout, &least, &most);
        if (!catalog->workload.edge.memory_bytes && layout->limit_bytes < least) {
            layout->limit_bytes = least;
        }
    }
}

enum culm_status culm_edge_plan_run(const struct culm_edge_planning *planning,
                                    struct culm_error *error) {
    struct culm_live_catalog catalog;
    struct culm_live_forms plain = {0}, packed = {0};
    enum culm_status status = open_catalog(planning, &catalog, error);
    status =
        status ? status : culm_live_forms_lay(&catalog, CULM_LIVE_SHARE_FILES, NULL, &plain, error);
    if (status == CULM_OK && planning->package_count) {
        status = lay_package(&catalog, planning->packages[0], &packed, error);
    }
    struct culm_live_forms *forms = packed.count ? &packed : &plain;
    if (status == CULM_OK) {
        set_limit(&catalog, plain.laid[0], forms);
        status = tell_plan(planning, &catalog, forms, error);
    }
    culm_live_forms_release(&plain);
    culm_live_forms_release(&packed);
    culm_live_catalog_release(&catalog);
    return status;
}

/* --- the grid --- */

struct mode {
    char name[64];
    struct culm_live_forms forms;
    bool load_free;
    struct culm_live_answers answers; /* of its merged models; else those of the originals count */
};

struct grid {
    const struct culm_edge_planning *planning;
    struct culm_live_catalog catalog;
    struct culm_live_answers originals;
    struct mode mode[MODES_MAX];
    int32_t modes;
    int64_t frames;
    uint8_t *answered; /* [queries, frames] in the present cell: 1 if answered in time */
};

struct cell {
    const char *memory;
    double share; /* 0: the least memory possible; 1: enough for everything */
    double deadline_ms, fps;
};

/* How well one cell went under one scheduler. */
struct score {
    double share[CULM_EDGE_QUERIES_MAX], accuracy[CULM_EDGE_QUERIES_MAX]; /* -1: not known */
    double mean, least, fairness, mean_accuracy;
};

static void mark(void *context, int32_t query, int64_t frame, bool in_time) {
    struct grid *grid = context;
    const bool watches = query >= (int32_t)grid->catalog.workload.query_count;
    if (in_time && frame < grid->frames && !watches) {
        grid->answered[query * grid->frames + frame] = 1;
    }
}

/* Scores the frames marked in grid->answered. Queries in `plain` were answered by their originals.
 * Fairness is Jain's index of the shares: 1 if all are equal, 1 / n if one query has everything. */
static enum culm_status judge(const struct grid *grid, const struct mode *mode, double fps,
                              uint64_t plain, struct score *ret_score, struct culm_error *error) {
    struct score score = {.least = 1};
    int32_t count = (int32_t)grid->catalog.workload.query_count, known = 0;
    double squares = 0;
    for (int32_t q = 0; q < count; q++) {
        const uint8_t *answered = grid->answered + q * grid->frames;
        int64_t processed = 0;
        for (int64_t f = 0; f < grid->frames; f++) {
            processed += answered[f];
        }
        double share = (double)processed / (double)grid->frames;
        score.share[q] = share;
        score.mean += share / count;
        score.least = share < score.least ? share : score.least;
        squares += share * share / count;
        enum culm_status status = culm_live_answers_accuracy(
            &grid->catalog, &grid->originals, plain >> q & 1 ? NULL : &mode->answers, q, answered,
            grid->frames, fps, &score.accuracy[q], error);
        if (status != CULM_OK && status != CULM_ERR_NOT_FOUND) {
            return status;
        }
        if (status == CULM_OK) {
            score.mean_accuracy += score.accuracy[q];
            known++;
        } else {
            score.accuracy[q] = -1;
        }
    }
    score.fairness = squares > 0 ? score.mean * score.mean / squares : 1;
    score.mean_accuracy = known ? score.mean_accuracy / known : -1;
    *ret_score = score;
    return CULM_OK;
}

static json_t *share_or_null(double share) { return share < 0 ? json_null() : json_real(share); }

static json_t *score_json(const struct score *score, double load_share) {
    return json_pack("{s:f, s:f, s:f, s:o, s:f}", "processed", score->mean, "least_processed",
                     score->least, "fairness", score->fairness, "accuracy",
                     share_or_null(score->mean_accuracy), "load_share", load_share);
}

static void tell(const struct grid *grid, const struct mode *mode, const struct cell *cell,
                 int32_t chosen, const struct score *score, double load_share,
                 const struct score *released, const struct culm_edge_gemel *gemel) {
    const struct culm_live_laid *laid = mode->forms.laid[chosen];
    json_t *object = score_json(score, load_share),
           *of_released = score_json(released, gemel->load_share), *queries = json_array();
    for (int32_t q = 0; q < laid->layout.query_count; q++) {
        json_t *query =
            json_pack("{s:o, s:I, s:I, s:o}", "query", culm_json_text(laid->query[q].name),
                      "frames", (json_int_t)grid->frames, "processed",
                      (json_int_t)(score->share[q] * (double)grid->frames + 0.5), "accuracy",
                      share_or_null(score->accuracy[q]));
        json_array_append_new(queries, query);
    }
    json_object_set_new(of_released, "swaps", json_integer((json_int_t)gemel->swaps));
    json_object_set_new(object, "mode", culm_json_text(mode->name));
    json_object_set_new(object, "memory", json_string(cell->memory));
    json_object_set_new(object, "deadline_ms", json_real(cell->deadline_ms));
    json_object_set_new(object, "fps", json_real(cell->fps));
    json_object_set_new(object, "limit_bytes",
                        json_integer(mode->load_free ? 0 : (json_int_t)laid->layout.limit_bytes));
    json_object_set_new(object, "originals", names_of(laid, mode->forms.plain[chosen]));
    json_object_set_new(object, "released_scheduler", of_released);
    json_object_set_new(object, "queries", queries);
    grid->planning->tell(grid->planning->ctx, object);
}

/* Plays the cell with the scheduler released with GEMEL. It knows only whole models, and always
 * runs what was merged. */
static enum culm_status play_released(struct grid *grid, struct mode *mode, double fps,
                                      struct culm_edge_gemel *ret_released, struct score *ret_score,
                                      struct culm_error *error) {
    struct culm_live_laid *laid = culm_live_forms_merged(&mode->forms);
    memset(grid->answered, 0, (size_t)laid->layout.query_count * (size_t)grid->frames);
    enum culm_status status = culm_live_catalog_prefixes(&grid->catalog, laid, false, error);
    if (status == CULM_OK && culm_edge_gemel_play(&laid->layout, grid->frames, ret_released,
                                                  grid->answered) != CULM_OK) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the grid");
    }
    return status ? status : judge(grid, mode, fps, 0, ret_score, error);
}

static enum culm_status play_cell(struct grid *grid, struct mode *mode, const struct cell *cell,
                                  struct culm_error *error) {
    struct culm_edge_plan plan;
    struct culm_edge_totals totals[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_memory memory;
    struct culm_edge_gemel released;
    struct score score, released_score;
    int32_t chosen;
    enum culm_status status =
        culm_live_forms_choose(&grid->catalog, &mode->forms, grid->frames, &chosen, &plan, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_edge_layout *layout = &mode->forms.laid[chosen]->layout;
    const struct culm_edge_virtual_options options = {
        .layout = culm_live_forms_played(&mode->forms, chosen),
        .plan = &plan,
        .frames = grid->frames,
        .context = grid,
        .settled = mark};
    memset(grid->answered, 0, (size_t)layout->query_count * (size_t)grid->frames);
    if (culm_edge_virtual_run(&options, totals, &memory) != CULM_OK) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the grid");
    }
    status = judge(grid, mode, cell->fps, mode->forms.plain[chosen], &score, error);
    status =
        status ? status : play_released(grid, mode, cell->fps, &released, &released_score, error);
    if (status == CULM_OK) {
        double span = (double)memory.elapsed_ns;
        tell(grid, mode, cell, chosen, &score, span > 0 ? (double)memory.waited_ns / span : 0.0,
             &released_score, &released);
    }
    return status;
}

/* Sets a layout of the mode to the cell's deadline, frame rate and limit. */
static void set_cell(const struct mode *mode, const struct cell *cell, size_t limit,
                     struct culm_live_laid *laid) {
    size_t least_bytes, most_bytes;
    for (int32_t q = 0; q < laid->layout.query_count; q++) {
        laid->query[q].deadline_ns = (uint64_t)(cell->deadline_ms * 1e6);
    }
    for (int32_t f = 0; f < laid->layout.feed_count; f++) {
        laid->feed[f].period_ns = (uint64_t)(1e9 / cell->fps);
    }
    culm_edge_memory_range(&laid->layout, &least_bytes, &most_bytes);
    laid->layout.limit_bytes = limit > least_bytes ? limit : least_bytes;
    if (mode->load_free) {
        laid->layout.load_ns = 0;
        laid->layout.load_ns_per_byte = 0;
        laid->layout.limit_bytes = SIZE_MAX / 4;
    }
}

static enum culm_status run_cell(struct grid *grid, struct mode *mode, const struct cell *cell,
                                 size_t limit, struct culm_error *error) {
    for (int32_t i = 0; i < mode->forms.count; i++) {
        set_cell(mode, cell, limit, mode->forms.laid[i]);
    }
    return play_cell(grid, mode, cell, error);
}

static enum culm_status add_mode(struct grid *grid, const char *name, size_t len,
                                 enum culm_live_sharing sharing, struct culm_error *error) {
    struct mode *mode = &grid->mode[grid->modes++];
    snprintf(mode->name, sizeof mode->name, "%.*s", (int)len, name);
    return sharing == CULM_LIVE_SHARE_PACKAGE
               ? CULM_OK
               : culm_live_forms_lay(&grid->catalog, sharing, NULL, &mode->forms, error);
}

/* Adds a mode for DIR, NAME=DIR or NAME=SHARE%, which stands in for a package that would save that
 * share of the bytes of all layers. */
static enum culm_status add_package(struct grid *grid, const char *text, struct culm_error *error) {
    const char *equals = strchr(text, '='), *slash = strrchr(text, '/');
    const char *dir = equals ? equals + 1 : text;
    const char *name = equals || !slash ? text : slash + 1;
    size_t len = equals ? (size_t)(equals - text) : strlen(name);
    char *end;
    double share = strtod(dir, &end), saved;
    enum culm_status status;
    if (equals && end > dir && strcmp(end, "%") == 0) {
        if (!(share >= 0 && share <= 100)) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "--package '%.100s': a share must be 0%% to 100%%", text);
        }
        status = culm_live_catalog_share(&grid->catalog, share / 100, &saved, error);
        status = status ? status : add_mode(grid, name, len, CULM_LIVE_SHARE_EQUAL, error);
        return status ? status : culm_live_catalog_share(&grid->catalog, 1, &saved, error);
    }
    struct mode *mode = &grid->mode[grid->modes];
    status = add_mode(grid, name, len, CULM_LIVE_SHARE_PACKAGE, error);
    status = status ? status : lay_package(&grid->catalog, dir, &mode->forms, error);
    return status ? status
                  : culm_live_answers_packed(&grid->catalog, dir, &grid->originals, &mode->answers,
                                             error);
}

static enum culm_status open_modes(struct grid *grid, struct culm_error *error) {
    const struct culm_edge_planning *planning = grid->planning;
    enum culm_status status = add_mode(grid, "none", 4, CULM_LIVE_SHARE_FILES, error);
    for (size_t i = 0; i < planning->package_count && status == CULM_OK; i++) {
        status = add_package(grid, planning->packages[i], error);
    }
    status = status ? status : add_mode(grid, "max", 3, CULM_LIVE_SHARE_EQUAL, error);
    status = status ? status : add_mode(grid, "load-free", 9, CULM_LIVE_SHARE_FILES, error);
    grid->mode[grid->modes - 1].load_free = status == CULM_OK;
    return status;
}

static enum culm_status open_grid(struct grid *grid, const struct culm_edge_planning *planning,
                                  struct culm_error *error) {
    grid->planning = planning;
    grid->frames = planning->frames > 0 ? planning->frames : GRID_FRAMES;
    enum culm_status status = open_catalog(planning, &grid->catalog, error);
    if (status == CULM_OK && planning->package_count > PACKAGES_MAX) {
        status =
            culm_error_set(error, CULM_ERR_ARGUMENT, "--package: at most %d of them", PACKAGES_MAX);
    }
    if (status == CULM_OK) {
        grid->answered = malloc(grid->catalog.workload.query_count * (size_t)grid->frames + 1);
        if (!grid->answered) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the grid");
        }
    }
    if (status == CULM_OK) {
        int64_t most = planning->answers > 0 ? planning->answers : CULM_LIVE_ANSWERS_FRAMES;
        status = culm_live_answers_read(&grid->catalog, most, &grid->originals, error);
    }
    return status ? status : open_modes(grid, error);
}

static void close_grid(struct grid *grid) {
    for (int32_t i = 0; i < grid->modes; i++) {
        culm_live_answers_release(&grid->catalog, &grid->mode[i].answers);
        culm_live_forms_release(&grid->mode[i].forms);
    }
    culm_live_answers_release(&grid->catalog, &grid->originals);
    culm_live_catalog_release(&grid->catalog);
    free(grid->answered);
    free(grid);
}

enum culm_status culm_edge_grid(const struct culm_edge_planning *planning,
                                struct culm_error *error) {
    static const struct {
        const char *name;
        double share;
    } memories[] = {{"min", 0}, {"50%", 0.5}, {"75%", 0.75}};
    static const double deadlines[] = {100, 200, 400}, rates[] = {5, 10, 30};
    size_t least = 0, most = 0;
    struct grid *grid = calloc(1, sizeof *grid);
    if (!grid) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the grid");
    }
    enum culm_status status = open_grid(grid, planning, error);
    if (status == CULM_OK) {
        culm_edge_memory_range(&grid->mode[0].forms.laid[0]->layout, &least, &most);
    }
    for (size_t m = 0; m < 3 && status == CULM_OK; m++) {
        for (size_t c = 0; c < 9 && status == CULM_OK; c++) {
            const struct cell cell = {memories[m].name, memories[m].share, deadlines[c / 3],
                                      rates[c % 3]};
            size_t limit = least + (size_t)((double)(most - least) * cell.share + 0.5);
            for (int32_t i = 0; i < grid->modes && status == CULM_OK; i++) {
                status = run_cell(grid, &grid->mode[i], &cell, limit, error);
            }
        }
    }
    close_grid(grid);
    return status;
}
