/* The rounds of a package as a merge ships them, and the state that a resumed run continues
 * with. */
#include "run/merge_internal.h"

#include "base/json.h"
#include "base/room.h"
#include "run/merge_kept.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TENSOR_TEXT 256 /* of a tensor in the file of its round */
#define HOLD_MS 600000  /* that a round waits for room, as runs do by default */
#define AGAIN_MS 500

static struct culm_package_tensor tensor_of(const struct culm_merge_model *model, int32_t param) {
    const struct culm_shape *shape = &model->graph->param[param].shape;
    struct culm_package_tensor tensor = {.rank = shape->rank,
                                         .count = culm_merge_param_elements(model, param)};
    for (int32_t d = 0; d < shape->rank; d++) {
        tensor.shape[d] = shape->dim[d];
    }
    return tensor;
}

static int32_t layer_of(const struct culm_merge_model *model, int32_t param) {
    for (int32_t l = 0; l < model->layers.count; l++) {
        if (model->layers.layer[l].weight == param || model->layers.layer[l].bias == param) {
            return l;
        }
    }
    return -1;
}

static enum culm_status add_param(const struct culm_merging *m, struct culm_package_round *round,
                                  struct culm_package_query *query, int32_t k, int32_t param,
                                  struct culm_error *error) {
    const struct culm_merge_model *model = m->models[k];
    struct culm_package_tensor now = tensor_of(model, param), was = now;
    enum culm_status status;
    if ((status = culm_package_digest(&now, model->value[param], error)) ||
        (status = culm_package_digest(&was, model->original[param], error))) {
        return status;
    }
    int32_t tensor = culm_package_add_tensor(round, &now);
    int32_t original = tensor < 0 ? -1 : culm_package_add_tensor(round, &was);
    return original < 0 ? merging_no_memory(error)
                        : culm_package_add_param(query, model->graph->param[param].name, tensor,
                                                 original, layer_of(model, param), error);
}

/* How its answers to held-out frames differ from its original's, by which the edge knows drift. */
static enum culm_status add_samples(const struct culm_merging *m, size_t q,
                                    const struct culm_merging_measured *measured,
                                    struct culm_package_query *query, struct culm_error *error) {
    const struct culm_merge_set *set = &m->in.set[m->in.set_of[q]];
    const int32_t count = measured->counted[q];
    if (count == 0) {
        return CULM_OK;
    }
    if (!(query->sample = malloc((size_t)count * sizeof *query->sample))) {
        return merging_no_memory(error);
    }
    memcpy(query->sample, measured->sample[q], (size_t)count * sizeof *query->sample);
    query->sample_count = count;
    query->sample_score = m->workload.queries[q].score;
    query->sample_step =
        set->step[CULM_MERGE_HELD] * (double)set->part[CULM_MERGE_HELD].count / (double)count;
    return CULM_OK;
}

enum culm_status merging_round(const struct culm_merging *m, int64_t number,
                               const struct culm_merging_measured *measured,
                               struct culm_package_round *round, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    *round = (struct culm_package_round){.number = number};
    for (size_t q = 0; q < m->workload.query_count && status == CULM_OK; q++) {
        const struct culm_query_config *config = &m->workload.queries[q];
        int32_t k = m->in.model_of[q];
        struct culm_package_query *query = culm_package_add_query(
            round, config->name, config->model, config->weights, m->in.identity[k]);
        if (!query) {
            return merging_no_memory(error);
        }
        snprintf(query->structure, sizeof query->structure, "%s", m->in.structure[k]);
        query->target = config->target;
        query->names = config->names ? strdup(config->names) : NULL;
        culm_query_reading_text(&config->reading, query->reading);
        query->normalized = config->normalized;
        memcpy(query->mean, config->mean, sizeof query->mean);
        memcpy(query->deviation, config->deviation, sizeof query->deviation);
        query->original = measured ? measured->original[q] : -1;
        query->merged = measured ? measured->merged[q] : -1;
        query->agreement = measured ? measured->agreed[q] : -1;
        query->overlap = measured ? measured->overlap[q] : -1;
        status = measured ? add_samples(m, q, measured, query, error) : CULM_OK;
        for (int32_t p = 0; p < m->models[k]->param_count && status == CULM_OK; p++) {
            status = add_param(m, round, query, k, p, error);
        }
        if (status == CULM_OK && !measured) {
            merging_take_measured(m, q, round, query);
        }
    }
    return status;
}

enum culm_status merging_put(const struct culm_merging *m, const struct culm_package_round *round,
                             uint64_t *ret_bytes, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    uint64_t sum = 0, bytes = 0;
    for (int32_t q = 0; q < round->query_count; q++) {
        const struct culm_package_query *query = &round->query[q];
        const struct culm_merge_model *model = m->models[m->in.model_of[q]];
        for (int32_t p = 0; p < query->param_count; p++) {
            const struct culm_package_param *param = &query->param[p];
            if ((status = culm_package_put(NULL, m->options.dir, &round->tensor[param->original],
                                           model->original[p], &bytes, error))) {
                return status;
            }
            sum += bytes;
            if ((status = culm_package_put(NULL, m->options.dir, &round->tensor[param->tensor],
                                           model->value[p], &bytes, error))) {
                return status;
            }
            sum += bytes;
        }
    }
    *ret_bytes = sum;
    return CULM_OK;
}

/* What tensors of the round that are not there yet take, with the rest of it. */
static uint64_t room_of(const struct culm_merging *m, const struct culm_package_round *round) {
    char path[CULM_PATH_MAX];
    uint64_t bytes = culm_room_of_file((uint64_t)round->tensor_count * TENSOR_TEXT);
    for (int32_t t = 0; t < round->tensor_count; t++) {
        const struct culm_package_tensor *tensor = &round->tensor[t];
        const bool there =
            culm_package_tensor_path(m->options.dir, tensor->digest, path, NULL) == CULM_OK &&
            culm_file_is_regular(path);
        bytes += there ? 0 : culm_room_of_file(4 * (uint64_t)tensor->count);
    }
    return bytes;
}

/* What is written, and may have to be written again. */
struct written {
    const struct culm_package_round *round; /* NULL: the state for a resumed run */
    const void *data;                       /* [len] that state */
    size_t len;
    uint64_t bytes; /* of the round, that were new */
};

static enum culm_status try_write(struct culm_merging *m, struct written *written,
                                  struct culm_error *error) {
    const struct culm_package_round *round = written->round;
    char what[40] = "the state for --resume";
    const uint64_t room = round ? room_of(m, round) : culm_room_of_file(written->len);
    if (round) {
        snprintf(what, sizeof what, "round %lld", (long long)round->number);
    }
    enum culm_status status = culm_room_check(m->options.dir, room, what, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!round) {
        return culm_merge_kept_write(m->options.dir, &m->in, written->data, written->len, error);
    }
    status = merging_put(m, round, &written->bytes, error);
    return status ? status : culm_package_publish(NULL, m->options.dir, round, error);
}

/* What was worked for is in memory alone. */
static enum culm_status hold(struct culm_merging *m, struct written *written,
                             struct culm_error *error) {
    static const struct timespec again = {.tv_nsec = AGAIN_MS * 1000000L};
    enum culm_status status = CULM_ERR_IO;
    merging_event(m, "held",
                  json_pack("{s:I, s:f, s:o}", "round", (json_int_t)m->counts, "for_ms",
                            (double)HOLD_MS, "message", culm_json_text(error->text)));
    for (int waited = 0; status == CULM_ERR_IO && waited < HOLD_MS && !m->stopped;
         waited += AGAIN_MS) {
        nanosleep(&again, NULL);
        status = try_write(m, written, error);
    }
    return status;
}

enum culm_status merging_publish(struct culm_merging *m, const struct culm_package_round *round,
                                 uint64_t *ret_bytes, struct culm_error *error) {
    struct written written = {.round = round};
    enum culm_status status = try_write(m, &written, error);
    if (status == CULM_ERR_IO && round->number > 0) {
        status = hold(m, &written, error);
    }
    if (status == CULM_OK) {
        m->counts = round->number;
        *ret_bytes = written.bytes;
    }
    return status;
}

/* The originals, and at most as much again for what is merged of them. */
static void warn_of_little_room(struct culm_merging *m,
                                const struct culm_package_round *originals) {
    struct culm_error little;
    const uint64_t bytes = room_of(m, originals);
    if (culm_room_check(m->options.dir, 2 * bytes, "a round beside the originals", &little) !=
        CULM_OK) {
        merging_warn(m, little.text);
    }
}

enum culm_status merging_begin_rounds(struct culm_merging *m, struct culm_error *error) {
    struct culm_package_round originals;
    uint64_t bytes;
    enum culm_status status = merging_round(m, 0, NULL, &originals, error);
    if (status == CULM_OK && m->have < 0) {
        warn_of_little_room(m, &originals);
        status = merging_publish(m, &originals, &bytes, error);
    } else if (status == CULM_OK) {
        status = merging_put(m, &originals, &bytes, error);
    }
    culm_package_round_release(&originals);
    return status;
}

/* --- what ships --- */

/* Whether the new round is to be dropped: the one that a resumed run found is current and saves as
 * much. */
static bool saves_no_more(const struct culm_merging *m, const struct culm_package_sums *sums) {
    return m->apart && m->counts == m->have &&
           sums->total_bytes - sums->distinct_bytes <= m->have_saves;
}

enum culm_status merging_ship(void *ctx, int32_t round, struct culm_error *error) {
    struct culm_merging *m = ctx;
    struct culm_package_round made;
    struct culm_package_sums sums;
    uint64_t bytes = 0;
    enum culm_status status = merging_round(m, merging_number(m, round), NULL, &made, error);
    status = status ? status : culm_package_sum(&made, &sums, error);
    const bool found = made.number <= m->have;
    const bool same = status == CULM_OK && found && culm_package_holds(NULL, m->options.dir, &made);
    if (found && !same) {
        m->apart = true;
        made.number = merging_number(m, round);
    }
    if (status == CULM_OK && !saves_no_more(m, &sums) &&
        !(status = same ? merging_put(m, &made, &bytes, error)
                        : merging_publish(m, &made, &bytes, error))) {
        merging_event(m, "merged",
                      json_pack("{s:I, s:o, s:I, s:I, s:f}", "round", (json_int_t)made.number,
                                "queries", merging_sharing(m, &m->share), "saved_bytes",
                                (json_int_t)(sums.total_bytes - sums.distinct_bytes),
                                "changed_bytes", (json_int_t)bytes, "cpu_s", merging_cpu_s()));
    }
    culm_package_round_release(&made);
    return status;
}

/* --- state for a resumed run --- */

enum culm_status merging_keep(void *ctx, const void *data, size_t len, struct culm_error *error) {
    struct written written = {.data = data, .len = len};
    enum culm_status status = try_write(ctx, &written, error);
    return status == CULM_ERR_IO ? hold(ctx, &written, error) : status;
}

enum culm_status merging_recall(void *ctx, void **ret_data, size_t *ret_len,
                                struct culm_error *error) {
    const struct culm_merging *m = ctx;
    *ret_data = NULL;
    *ret_len = 0;
    return m->options.resume
               ? culm_merge_kept_read(m->options.dir, &m->in, ret_data, ret_len, error)
               : CULM_OK;
}
