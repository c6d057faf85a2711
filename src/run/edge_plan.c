/*
 * `culm edge plan` and `culm edge bench`: workloads in virtual time.
 */
#include "run/edge_commands.h"

#include "base/json.h"
#include "edge/gemel.h"
#include "edge/virtual.h"
#include "run/edge_catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_S 60 /* unless --for says otherwise */
#define GRID_FRAMES 3000
#define PACKAGES_MAX 16

/* A layout with its numbers: the store must outlive what was laid from it. */
struct laid {
    struct culm_edge_store store;
    struct culm_edge_laid *it;
};

static void release(struct laid *laid) {
    culm_edge_laid_free(laid->it);
    culm_edge_store_release(&laid->store);
}

static enum culm_status open_catalog(const struct culm_edge_command *command,
                                     struct culm_edge_catalog *catalog, struct culm_error *error) {
    const struct culm_edge_catalog_options options = {.sets = command->sets,
                                                      .set_count = command->set_count,
                                                      .profile = command->profile,
                                                      .structure = true};
    enum culm_status status = culm_edge_catalog_open(command->workload, &options, catalog, error);
    return status ? status : culm_edge_catalog_measure(catalog, error);
}

static enum culm_status lay_package(const struct culm_edge_catalog *catalog, const char *dir,
                                    struct laid *laid, struct culm_error *error) {
    struct culm_package_round round = {0};
    enum culm_status status = culm_package_open(dir, &round, error);
    if (status == CULM_OK) {
        status = culm_edge_catalog_lay(catalog, CULM_EDGE_SHARE_PACKAGE, &round, &laid->store,
                                       &laid->it, error);
        culm_package_round_release(&round);
    }
    return status;
}

static json_t *numbers(const struct culm_edge_laid *laid, const struct culm_edge_totals *totals,
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
            list, json_pack("{s:o, s:I, s:I, s:I}", "query", culm_json_text(laid->query[q].name),
                            "frames", (json_int_t)of->frames, "processed",
                            (json_int_t)of->processed, "dropped", (json_int_t)of->dropped));
    }
    return list;
}

static enum culm_status tell_plan(const struct culm_edge_command *command,
                                  const struct culm_edge_catalog *catalog,
                                  struct culm_edge_laid *laid, struct culm_error *error) {
    struct culm_edge_plan plan;
    struct culm_edge_totals totals[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_memory memory;
    const struct culm_edge_plan_options how = {.given_order = catalog->workload.edge.order ==
                                                              CULM_EDGE_ORDER_GIVEN};
    enum culm_status status = culm_edge_plan(&laid->layout, &how, &plan, error);
    const struct culm_edge_virtual_options options = {
        .layout = &laid->layout,
        .plan = &plan,
        .for_ns = (uint64_t)((command->for_s > 0 ? command->for_s : PLAN_S) * 1e9)};
    if (status == CULM_OK && culm_edge_virtual_run(&options, totals, &memory) != CULM_OK) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a plan");
    }
    if (status != CULM_OK) {
        return status;
    }
    double mean, least;
    size_t least_bytes, most_bytes;
    json_t *queries = numbers(laid, totals, &mean, &least), *order = json_array(),
           *visit = json_object();
    culm_edge_memory_range(&laid->layout, &least_bytes, &most_bytes);
    for (int32_t i = 0; i < plan.count; i++) {
        json_array_append_new(order, culm_json_text(laid->query[plan.order[i]].name));
        json_object_set_new(visit, laid->query[plan.order[i]].name,
                            json_integer(plan.visit[plan.order[i]]));
    }
    double span = (double)memory.elapsed_ns;
    command->tell(
        command->ctx,
        json_pack("{s:o, s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "order",
                  order, "visit", visit, "frames_waiting", plan.slots, "limit_bytes",
                  (json_int_t)laid->layout.limit_bytes, "least_bytes", (json_int_t)least_bytes,
                  "most_bytes", (json_int_t)most_bytes, "distinct_bytes",
                  (json_int_t)culm_edge_distinct_bytes(&laid->layout), "resident_max_bytes",
                  (json_int_t)memory.most_bytes, "round_bytes", (json_int_t)plan.round_bytes,
                  "load_mb_per_s",
                  laid->layout.load_ns_per_byte > 0 ? 1e3 / laid->layout.load_ns_per_byte : 0.0,
                  "load_share", span > 0 ? (double)memory.waited_ns / span : 0.0, "processed", mean,
                  "least_processed", least, "queries", queries));
    return CULM_OK;
}

/* What the workload says, though a level is never less than this layout needs. */
static void set_limit(const struct culm_edge_catalog *catalog, const struct culm_edge_laid *plain,
                      struct culm_edge_laid *laid) {
    size_t least, most;
    laid->layout.limit_bytes = culm_edge_catalog_limit(catalog, &plain->layout);
    culm_edge_memory_range(&laid->layout, &least, &most);
    if (!catalog->workload.edge.memory_bytes && laid->layout.limit_bytes < least) {
        laid->layout.limit_bytes = least;
    }
}

enum culm_status culm_edge_plan_run(const struct culm_edge_command *command,
                                    struct culm_error *error) {
    struct culm_edge_catalog catalog;
    struct laid plain = {0}, packed = {0};
    enum culm_status status = open_catalog(command, &catalog, error);
    status = status ? status
                    : culm_edge_catalog_lay(&catalog, CULM_EDGE_SHARE_FILES, NULL, &plain.store,
                                            &plain.it, error);
    if (status == CULM_OK && command->package_count) {
        status = lay_package(&catalog, command->packages[0], &packed, error);
    }
    if (status == CULM_OK) {
        struct culm_edge_laid *laid = packed.it ? packed.it : plain.it;
        set_limit(&catalog, plain.it, laid);
        status = tell_plan(command, &catalog, laid, error);
    }
    release(&plain);
    release(&packed);
    culm_edge_catalog_release(&catalog);
    return status;
}

/* --- the grid ----------------------------------------------------------------------------------------- */

struct mode {
    char name[64];
    struct laid laid;
    bool load_free;
};

struct cell {
    const char *memory;
    double share; /* of the way from the least to all */
    double deadline_ms, fps;
};

static enum culm_status tell_cell(const struct culm_edge_command *command, struct mode *mode,
                                  const struct cell *cell, size_t limit, int64_t frames,
                                  struct culm_error *error) {
    struct culm_edge_laid *laid = mode->laid.it;
    struct culm_edge_plan plan;
    struct culm_edge_totals totals[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_memory memory;
    struct culm_edge_gemel released;
    size_t least_bytes, most_bytes;
    uint64_t load_ns = laid->layout.load_ns;
    double per_byte = laid->layout.load_ns_per_byte, mean, least;
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
    enum culm_status status = culm_edge_plan(&laid->layout, NULL, &plan, error);
    const struct culm_edge_virtual_options options = {
        .layout = &laid->layout, .plan = &plan, .frames = frames};
    if (status == CULM_OK && (culm_edge_virtual_run(&options, totals, &memory) != CULM_OK ||
                              culm_edge_gemel(&laid->layout, frames, &released) != CULM_OK)) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the grid");
    }
    if (status == CULM_OK) {
        double released_mean = 0, released_least = 1;
        json_t *queries = numbers(laid, totals, &mean, &least);
        for (int32_t q = 0; q < laid->layout.query_count; q++) {
            double share = (double)released.processed[q] / (double)frames;
            released_mean += share / laid->layout.query_count;
            released_least = share < released_least ? share : released_least;
        }
        double span = (double)memory.elapsed_ns;
        command->tell(
            command->ctx,
            json_pack("{s:s, s:s, s:f, s:f, s:I, s:f, s:f, s:f, s:{s:f, s:f, s:f, s:I}, s:o}",
                      "mode", mode->name, "memory", cell->memory, "deadline_ms", cell->deadline_ms,
                      "fps", cell->fps, "limit_bytes",
                      (json_int_t)(mode->load_free ? 0 : laid->layout.limit_bytes), "processed",
                      mean, "least_processed", least, "load_share",
                      span > 0 ? (double)memory.waited_ns / span : 0.0, "released_scheduler",
                      "processed", released_mean, "least_processed", released_least, "load_share",
                      released.load_share, "swaps", (json_int_t)released.swaps, "queries",
                      queries));
    }
    laid->layout.load_ns = load_ns;
    laid->layout.load_ns_per_byte = per_byte;
    return status;
}

static enum culm_status open_modes(const struct culm_edge_command *command,
                                   const struct culm_edge_catalog *catalog, struct mode *mode,
                                   int32_t *ret_count, struct culm_error *error) {
    enum culm_status status;
    int32_t count = 0;
    snprintf(mode[count].name, sizeof mode->name, "none");
    status = culm_edge_catalog_lay(catalog, CULM_EDGE_SHARE_FILES, NULL, &mode[count].laid.store,
                                   &mode[count].laid.it, error);
    *ret_count = ++count;
    for (size_t i = 0; i < command->package_count && status == CULM_OK; i++) {
        const char *text = command->packages[i], *equals = strchr(text, '=');
        const char *slash = strrchr(text, '/');
        if (equals) {
            snprintf(mode[count].name, sizeof mode->name, "%.*s", (int)(equals - text), text);
        } else {
            snprintf(mode[count].name, sizeof mode->name, "%.63s", slash ? slash + 1 : text);
        }
        *ret_count = count + 1;
        status = lay_package(catalog, equals ? equals + 1 : text, &mode[count++].laid, error);
    }
    if (status == CULM_OK) {
        snprintf(mode[count].name, sizeof mode->name, "max");
        *ret_count = count + 1;
        status = culm_edge_catalog_lay(catalog, CULM_EDGE_SHARE_EQUAL, NULL,
                                       &mode[count].laid.store, &mode[count].laid.it, error);
        count++;
    }
    if (status == CULM_OK) {
        snprintf(mode[count].name, sizeof mode->name, "load-free");
        mode[count].load_free = true;
        *ret_count = count + 1;
        status = culm_edge_catalog_lay(catalog, CULM_EDGE_SHARE_FILES, NULL,
                                       &mode[count].laid.store, &mode[count].laid.it, error);
    }
    return status;
}

enum culm_status culm_edge_grid(const struct culm_edge_command *command, struct culm_error *error) {
    static const struct {
        const char *name;
        double share;
    } memories[] = {{"min", 0}, {"50%", 0.5}, {"75%", 0.75}};
    static const double deadlines[] = {100, 200, 400}, rates[] = {5, 10, 30};
    struct culm_edge_catalog catalog;
    struct mode *mode = calloc(PACKAGES_MAX + 3, sizeof *mode);
    int32_t modes = 0;
    int64_t frames = command->frames > 0 ? command->frames : GRID_FRAMES;
    if (!mode) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the grid");
    }
    enum culm_status status = open_catalog(command, &catalog, error);
    if (status == CULM_OK && command->package_count > PACKAGES_MAX) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT, "--package: at most %d", PACKAGES_MAX);
    }
    if (status == CULM_OK) {
        status = open_modes(command, &catalog, mode, &modes, error);
    }
    size_t least = 0, most = 0;
    if (status == CULM_OK) {
        culm_edge_memory_range(&mode[0].laid.it->layout, &least, &most);
    }
    for (size_t m = 0; m < 3 && status == CULM_OK; m++) {
        for (size_t cell = 0; cell < 9 && status == CULM_OK; cell++) {
            const struct cell where = {memories[m].name, memories[m].share, deadlines[cell / 3],
                                       rates[cell % 3]};
            size_t limit = least + (size_t)((double)(most - least) * where.share + 0.5);
            for (int32_t i = 0; i < modes && status == CULM_OK; i++) {
                status = tell_cell(command, &mode[i], &where, limit, frames, error);
            }
        }
    }
    for (int32_t i = 0; i < modes; i++) {
        release(&mode[i].laid);
    }
    free(mode);
    culm_edge_catalog_release(&catalog);
    return status;
}
