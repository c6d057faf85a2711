/*
 * Where the tensors of queries come from: the files of the package, or those that the run writes
 * for models that the package does not have.
 */
#include "live/run.h"

#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adds a source. Parameters with the same numbers in the same order share one. */
static enum culm_status add_source(struct culm_live *run, const struct culm_package_tensor *tensor,
                                   bool turned, int32_t place, int32_t *ret_source,
                                   struct culm_error *error) {
    char key[CULM_SHA256_HEX + 8];
    snprintf(key, sizeof key, "%s%s", tensor->digest, turned ? " turned" : "");
    int32_t source = culm_live_store_source(&run->store, key, (size_t)tensor->count * 4, place);
    if (source >= run->tensor_count && source >= 0) {
        if (!CULM_GROW(run->tensor, run->tensor_capacity, source + 1)) {
            source = -1;
        } else {
            run->tensor[source] = (struct live_tensor){.of = *tensor, .turned = turned};
            run->tensor_count = source + 1;
        }
    }
    *ret_source = source;
    return source < 0 ? culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tensors")
                      : CULM_OK;
}

/* What merging has recorded of how answers differ, if it was at the score that the query has. */
static enum culm_status take_record(struct live_query *query, const struct culm_package_query *of,
                                    struct culm_error *error) {
    bool same = fabs(of->sample_score - query->score) < 1e-6;
    size_t count =
        same || query->entry->model->kind != CULM_ANSWER_BOXES ? (size_t)of->sample_count : 0;
    double *wrong = malloc((count + 1) * sizeof *wrong);
    if (!wrong) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for drift");
    }
    for (size_t i = 0; i < count; i++) {
        const struct culm_package_sample *sample = &of->sample[i];
        wrong[i] = culm_edge_drift_wrong(sample->wanted, sample->missed, sample->added);
    }
    free(query->record.wrong);
    query->record = (struct live_record){wrong, (int64_t)count, of->sample_step};
    query->null_period_ns = 0;
    query->assumed = count == 0;
    return CULM_OK;
}

/* ret_changed: whether the query's tensors are not those that it had. */
static enum culm_status from_package(struct culm_live *run, struct live_query *query,
                                     const struct culm_package_round *round, int32_t of,
                                     bool *ret_changed, struct culm_error *error) {
    const struct culm_live_entry *entry = query->entry;
    *ret_changed = query->unmeasured = false;
    query->promised = culm_edge_drift_promise(query->target, round->query[of].original,
                                              round->query[of].merged, round->query[of].agreement);
    query->own_accuracy = round->query[of].original;
    query->merged_accuracy = round->query[of].merged;
    enum culm_status taken = take_record(query, &round->query[of], error);
    if (taken != CULM_OK) {
        return taken;
    }
    for (int32_t p = 0; p < entry->part_count; p++) {
        const struct culm_package_param *param;
        enum culm_status status =
            culm_live_entry_find(entry, p, round, of, run->package, &param, error);
        if (status != CULM_OK) {
            return status;
        }
        bool turned = entry->part[p].turned;
        const int32_t runs =
            culm_live_tensor_of(&run->catalog[0]->workload, &round->query[of], param);
        int32_t original, merged;
        if ((status =
                 add_source(run, &round->tensor[param->original], turned, 0, &original, error)) ||
            (status = add_source(run, &round->tensor[runs], turned, 0, &merged, error))) {
            return status;
        }
        query->unmeasured |= runs != param->tensor;
        *ret_changed |= original != query->original[p] || merged != query->merged[p];
        query->original[p] = original;
        query->merged[p] = merged;
    }
    return CULM_OK;
}

/* Writes one parameter. models: held while the model is used; NULL: nobody else uses it. */
static enum culm_status write_one(const struct culm_live_entry *entry, int32_t p, const char *dir,
                                  pthread_mutex_t *models, struct culm_package_tensor *ret_tensor,
                                  struct culm_error *error) {
    float *data = NULL;
    if (models) {
        pthread_mutex_lock(models);
    }
    enum culm_status status = culm_live_entry_tensor(entry, p, &data, ret_tensor, error);
    if (models) {
        pthread_mutex_unlock(models);
    }
    status = status ? status : culm_package_put(NULL, dir, ret_tensor, data, NULL, error);
    free(data);
    return status;
}

enum culm_status live_write_own(const struct culm_live_entry *entry, const char *dir,
                                pthread_mutex_t *lock, struct culm_package_tensor **ret_tensor,
                                struct culm_error *error) {
    struct culm_package_tensor *tensor = calloc((size_t)entry->part_count + 1, sizeof *tensor);
    enum culm_status status =
        tensor ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tensors");
    for (int32_t p = -1; p < entry->part_count && status == CULM_OK; p++) {
        pthread_mutex_lock(lock); /* so that no other thread writes there at the same time */
        status = p < 0 ? culm_package_make(NULL, dir, error)
                       : write_one(entry, p, dir, NULL, &tensor[p], error);
        pthread_mutex_unlock(lock);
    }
    if (status != CULM_OK) {
        free(tensor);
        return status;
    }
    *ret_tensor = tensor;
    return CULM_OK;
}

/* The tensors that the reading thread has written for the model; NULL: it has not. */
static const struct culm_package_tensor *written(const struct culm_live *run,
                                                 const struct culm_live_entry *entry) {
    for (int32_t i = 0; i < run->reader.ready_count; i++) {
        if (run->reader.ready[i].entry == entry && run->reader.ready[i].tensor) {
            return run->reader.ready[i].tensor;
        }
    }
    return NULL;
}

/* Sets a query's sources to its own weights, written to files so that each can be read alone. */
static enum culm_status from_model(struct culm_live *run, struct live_query *query,
                                   struct culm_error *error) {
    struct culm_live_entry *entry = query->entry;
    const struct culm_package_tensor *there = written(run, entry);
    enum culm_status status = there ? CULM_OK : culm_package_make(NULL, run->originals, error);
    query->own_accuracy = query->merged_accuracy = -1;
    for (int32_t p = 0; p < entry->part_count && status == CULM_OK; p++) {
        struct culm_package_tensor tensor = {0};
        pthread_mutex_lock(&run->originals_lock);
        status = there ? CULM_OK
                       : write_one(entry, p, run->originals, &run->models_lock, &tensor, error);
        pthread_mutex_unlock(&run->originals_lock);
        status = status ? status
                        : add_source(run, there ? &there[p] : &tensor, entry->part[p].turned, 1,
                                     &query->merged[p], error);
        query->original[p] = query->merged[p];
    }
    return status;
}

void live_mend(struct culm_live *run, const struct live_own *own, const int *stop) {
    for (int32_t p = 0; p < own->entry->part_count && !live_stopped(stop); p++) {
        struct culm_package_tensor tensor;
        struct culm_error ignored;
        if (own->source[p] < 0 || live_intact(run, own->source[p])) {
            continue;
        }
        pthread_mutex_lock(&run->originals_lock);
        (void)(culm_package_make(NULL, run->originals, &ignored) ||
               write_one(own->entry, p, run->originals, &run->models_lock, &tensor, &ignored));
        pthread_mutex_unlock(&run->originals_lock);
        pthread_mutex_lock(&run->lock);
        run->tensor[own->source[p]].verified =
            false; /* the file is not the one that was verified */
        pthread_mutex_unlock(&run->lock);
    }
}

enum culm_status live_sources(struct culm_live *run, struct culm_error *error) {
    struct culm_package_round round = {0};
    struct culm_package_sums sums = {0};
    enum culm_status status = CULM_OK;
    if (run->package && (status = culm_package_open(run->package, &round, error)) == CULM_OK &&
        run->round < 0) { /* only at the start: later rounds may leave queries out */
        status = culm_live_catalog_goes_with(run->catalog[0], &round, run->package, error);
    }
    if (run->package && status == CULM_OK) {
        run->round = round.number;
        status = culm_package_sum(&round, &sums, error);
        run->layer_bytes = sums.total_bytes;
        run->layer_distinct = sums.distinct_bytes;
        memcpy(run->round_digest, round.digest, sizeof round.digest);
    }
    for (int32_t q = 0; q < run->query_count && status == CULM_OK; q++) {
        struct live_query *query = &run->query[q];
        if (query->gone || query->original_of >= 0) {
            continue;
        }
        bool changed = false;
        int32_t of =
            run->package ? culm_package_query_find(&round, query->entry->config->name) : -1;
        query->retrained = query->unmeasured = false;
        if (of >= 0) {
            pthread_mutex_lock(&run->models_lock);
            status = culm_live_entry_sum(query->entry, error);
            pthread_mutex_unlock(&run->models_lock);
            query->retrained = culm_live_entry_is_retrained(query->entry, &round, of);
            of = query->retrained ? -1 : of;
        }
        if (status != CULM_OK) {
            break;
        }
        if (of >= 0) {
            query->own_tensors = false;
            status = from_package(run, query, &round, of, &changed, error);
        } else if (!query->own_tensors) { /* not again: that takes long, and frames are waiting */
            status = from_model(run, query, error);
            query->own_tensors = status == CULM_OK;
            changed = true;
        }
        if (changed) { /* what was seen of other tensors says nothing of these */
            query->reverted = false;
            live_forget_checks(query);
        }
    }
    culm_package_round_release(&round);
    return status ? status : live_wear(run, error);
}

/* --- merged or not --- */

enum culm_status live_wear(struct culm_live *run, struct culm_error *error) {
    for (int32_t q = 0; q < run->query_count; q++) {
        struct live_query *query = &run->query[q];
        if (query->original_of < 0) {
            memcpy(query->source, query->plain || query->reverted ? query->original : query->merged,
                   (size_t)query->entry->part_count * sizeof *query->source);
        }
    }
    return live_shadows(run, error);
}

static struct culm_live_form form_of(const struct live_query *query) {
    return query->gone || query->original_of >= 0 || query->reverted
               ? (struct culm_live_form){0}
               : (struct culm_live_form){query->merged, query->original, query->entry->part_count};
}

/* A query whose forms do not differ counts as plain, so that it stays on its own weights when a new
 * round brings merged ones, until these are chosen. */
enum culm_status live_take_forms(struct culm_live *run, struct culm_error *error) {
    bool wait = run->catalog[0]->workload.edge.originals == CULM_EDGE_ORIGINALS_AUTO;
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct culm_live_form form = form_of(&run->query[q]);
        if (form.count > 0) {
            run->query[q].plain = (run->plain >> q & 1) || (wait && !culm_live_form_differs(&form));
        }
    }
    return live_wear(run, error);
}

/* Adds the layouts of the present forms, with and without originals. Marks originals as gone. */
static enum culm_status lay_both(struct culm_live *run, struct live_choices *choices,
                                 struct culm_error *error) {
    int32_t at = choices->count++;
    bool samples = false;
    enum culm_status status = CULM_OK;
    for (int32_t q = 0; q < run->query_count; q++) {
        samples |= run->query[q].original_of >= 0 && !run->query[q].gone;
    }
    if (samples) {
        status = live_lay_to_plan(run, &choices->sampled[at], error);
    }
    for (int32_t q = 0; q < run->query_count; q++) {
        run->query[q].gone |= run->query[q].original_of >= 0;
    }
    return status ? status : live_lay_to_plan(run, &choices->laid[at], error);
}

enum culm_status live_make_choices(struct culm_live *run, struct live_choices *choices,
                                   struct culm_error *error) {
    struct culm_live_form form[CULM_EDGE_QUERIES_MAX];
    bool plain[CULM_EDGE_QUERIES_MAX];
    *choices = (struct live_choices){0};
    for (int32_t q = 0; q < run->query_count; q++) {
        form[q] = form_of(&run->query[q]);
        plain[q] = run->query[q].plain;
    }
    int32_t count =
        culm_live_form_sets(run->catalog[0], &run->store, form, run->query_count, choices->plain);
    enum culm_status status =
        count > 0 ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a layout");
    for (int32_t i = 0; i < count && status == CULM_OK; i++) {
        for (int32_t q = 0; q < run->query_count; q++) {
            run->query[q].plain = choices->plain[i] >> q & 1;
        }
        status = live_wear(run, error);
        status = status ? status : lay_both(run, choices, error);
    }
    for (int32_t q = 0; q < run->query_count; q++) {
        run->query[q].plain = plain[q];
    }
    enum culm_status again = live_wear(run, status ? NULL : error);
    return status ? status : again;
}

void live_release_choices(struct live_choices *choices) {
    for (int32_t i = 0; i < choices->count; i++) {
        culm_live_laid_free(choices->laid[i]);
        culm_live_laid_free(choices->sampled[i]);
    }
    *choices = (struct live_choices){0};
}
