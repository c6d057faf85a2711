/* Finding and using common beginnings of models. See prefix.h. */
#include "live/prefix.h"

#include "base/rng.h"
#include "live/store.h"

#include <stdlib.h>
#include <string.h>

#define CUT_ID (1ull << 63) /* set in the ids of cuts, so that they never equal those of twins */
#define WORTH 0.05          /* below this share of a model's work a cut is not worth keeping */

static size_t value_bytes(const struct culm_graph *graph, int32_t value) {
    return (size_t)culm_elements(&graph->value[value].shape) *
           culm_dtype_bytes(graph->value[value].dtype);
}

/* --- what crosses --- */

/* The value whose memory this value uses. */
static int32_t root_of(const struct culm_graph *graph, int32_t value) {
    while (graph->value[value].same_as >= 0) {
        value = graph->value[value].same_as;
    }
    return value;
}

/* ret_last[values]: the last operator that reads the memory of each root; `operators` for outputs;
 * -1: none. */
static void last_readers(const struct culm_graph *graph, int32_t operators, int32_t *ret_last) {
    for (int32_t v = 0; v < graph->value_count; v++) {
        ret_last[v] = -1;
    }
    for (int32_t i = 0; i < operators; i++) {
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            if (graph->node[i].input[k] >= 0) {
                ret_last[root_of(graph, graph->node[i].input[k])] = i;
            }
        }
    }
    for (int32_t i = 0; i < graph->output_count; i++) {
        ret_last[root_of(graph, graph->output[i].value)] = operators;
    }
}

static int32_t crossing(const struct culm_graph *graph, const int32_t *last, int32_t operators,
                        int32_t *ret_value) {
    int32_t count = 0;
    for (int32_t v = 0; v < graph->value_count; v++) {
        if (graph->value[v].kind == CULM_VALUE_FIELD && last[v] >= operators) {
            return -1;
        }
    }
    for (int32_t i = 0; i < operators; i++) {
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            int32_t value = graph->node[i].output[k];
            if (value < 0 || root_of(graph, value) != value || last[value] < operators) {
                continue;
            }
            if (count == CULM_LIVE_CROSSING_MAX) {
                return -1;
            }
            ret_value[count++] = value;
        }
    }
    return count;
}

int32_t culm_live_crossing(const struct culm_stage *stage, int32_t operators, int32_t *ret_value) {
    const struct culm_graph *graph = culm_stage_program(stage);
    int32_t *last = malloc(((size_t)graph->value_count + 1) * sizeof *last);
    if (!last) {
        return -1;
    }
    last_readers(graph, culm_stage_info_of(stage)->forward_ops, last);
    int32_t count = crossing(graph, last, operators, ret_value);
    free(last);
    return count;
}

void culm_live_crossing_keep(const struct culm_stage *stage, const struct culm_stage_run *run,
                             const int32_t *value, int32_t count, char *at) {
    for (int32_t i = 0; i < count; i++) {
        size_t bytes = value_bytes(culm_stage_program(stage), value[i]);
        memcpy(at, culm_stage_value(stage, run, value[i]), bytes);
        at += culm_live_round64(bytes);
    }
}

void culm_live_crossing_take(const struct culm_stage *stage, const struct culm_stage_run *run,
                             const int32_t *value, int32_t count, const char *at) {
    for (int32_t i = 0; i < count; i++) {
        size_t bytes = value_bytes(culm_stage_program(stage), value[i]);
        memcpy((void *)(uintptr_t)culm_stage_value(stage, run, value[i]), at, bytes);
        at += culm_live_round64(bytes);
    }
}

/* --- what is equal --- */

/* One query's model as a line of places between operators; place k is before operator k. */
struct line {
    uint64_t *id;  /* [count] a hash of what was computed up to there and crosses; 0: no cut */
    double *work;  /* [count] the share of the model's work up to there */
    int32_t *last; /* as from last_readers */
    int32_t count; /* operators */
};

static uint64_t mix_shape(uint64_t hash, const struct culm_shape *shape) {
    hash = culm_rng_mix(hash, (uint64_t)shape->rank);
    return culm_rng_mix_bytes(hash, shape->dim, (size_t)shape->rank * sizeof *shape->dim);
}

/* maker[values]: 1 + operator * CULM_NODE_OUTPUTS_MAX + output of what computes it; 0: nothing. */
static uint64_t mix_node(uint64_t hash, const struct culm_live_beginning *of,
                         const struct culm_graph *graph, const struct culm_node_desc *node,
                         const int32_t *maker) {
    hash = culm_rng_mix_bytes(hash, node->op->name, strlen(node->op->name));
    hash = culm_attributes_mix(hash, &node->attributes);
    for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
        const struct culm_value *value = node->input[k] >= 0 ? &graph->value[node->input[k]] : NULL;
        hash = culm_rng_mix(hash, value ? 2 + (uint64_t)value->kind : 1);
        if (!value) {
            continue;
        }
        hash = mix_shape(culm_rng_mix(hash, (uint64_t)value->dtype), &value->shape);
        if (value->kind == CULM_VALUE_PARAM) {
            hash = culm_rng_mix(hash, (uint64_t)of->source[value->param]);
        } else if (value->kind == CULM_VALUE_FIELD) {
            hash = culm_rng_mix(hash, (uint64_t)value->field);
        } else {
            hash = culm_rng_mix(hash, (uint64_t)maker[node->input[k]]);
        }
    }
    for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
        if (node->output[k] >= 0) {
            const struct culm_value *value = &graph->value[node->output[k]];
            hash = mix_shape(culm_rng_mix(hash, (uint64_t)value->dtype), &value->shape);
        }
    }
    return hash;
}

static enum culm_status draw_line(const struct culm_live_beginning *of, struct line *line) {
    const struct culm_graph *graph = culm_stage_program(of->stage);
    int32_t count = culm_stage_info_of(of->stage)->forward_ops;
    size_t values = (size_t)graph->value_count + 1;
    int32_t *maker = calloc(values, sizeof *maker);
    *line = (struct line){.id = calloc((size_t)count + 1, sizeof *line->id),
                          .work = calloc((size_t)count + 1, sizeof *line->work),
                          .last = malloc(values * sizeof *line->last),
                          .count = count};
    if (!maker || !line->id || !line->work || !line->last) {
        free(maker);
        return CULM_ERR_MEMORY;
    }
    const struct culm_vision_input *input = of->input;
    const float floats[] = {input->mean[0],      input->mean[1],      input->mean[2],
                            input->deviation[0], input->deviation[1], input->deviation[2]};
    uint64_t hash = culm_rng_mix((uint64_t)of->feed, (uint64_t)input->channels);
    hash = culm_rng_mix(culm_rng_mix(hash, (uint64_t)input->width), (uint64_t)input->height);
    hash = culm_rng_mix_bytes(hash, floats, sizeof floats);
    hash = culm_rng_mix(hash, (uint64_t)input->around << 2 | (uint64_t)input->letterbox << 1 |
                                  input->bgr);
    last_readers(graph, count, line->last);
    double work = 0;
    for (int32_t i = 0; i < count; i++) {
        const struct culm_node_desc *node = &graph->node[i];
        int32_t value[CULM_LIVE_CROSSING_MAX];
        int32_t crosses = i > 0 ? crossing(graph, line->last, i, value) : -1;
        line->work[i] = work;
        line->id[i] = crosses < 0 ? 0 : culm_rng_mix(hash, (uint64_t)crosses);
        for (int32_t k = 0; k < crosses; k++) {
            line->id[i] = culm_rng_mix(line->id[i], (uint64_t)maker[value[k]]);
        }
        hash = mix_node(hash, of, graph, node, maker);
        work += node->op->flops ? node->op->flops(graph, node) : 0;
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            if (node->output[k] >= 0) {
                maker[node->output[k]] = 1 + i * CULM_NODE_OUTPUTS_MAX + k;
            }
        }
    }
    for (int32_t i = 0; i < count && work > 0; i++) {
        line->work[i] /= work;
    }
    free(maker);
    return CULM_OK;
}

/* The other queries, as bits, that have computed the same when they come to place `at`; twins of
 * query q do not count. ret_work: the largest share of a model's work up to there. */
static uint64_t with(const struct culm_live_beginning *of, const struct line *line, int32_t count,
                     int32_t q, int32_t at, double *ret_work) {
    uint64_t others = 0;
    *ret_work = line[q].work[at];
    for (int32_t o = 0; o < count; o++) {
        if (o != q && at < line[o].count && line[o].id[at] == line[q].id[at] &&
            (of[o].twin == 0 || of[o].twin != of[q].twin)) {
            others |= 1ull << o;
            *ret_work = line[o].work[at] > *ret_work ? line[o].work[at] : *ret_work;
        }
    }
    return others;
}

/* Chooses, for each set of queries that have computed the same, the last place where that is so.
 * Queries that agree there agree at all earlier places as well. The id of a cut includes those of
 * the cuts before it all the same, since its place in memory depends on them. */
static void choose_cuts(const struct culm_live_beginning *of, const struct line *line,
                        int32_t count, int32_t q, struct culm_live_trunk *ret_trunk) {
    const struct culm_graph *graph = culm_stage_program(of[q].stage);
    int32_t at[CULM_EDGE_QUERIES_MAX], found = 0;
    uint64_t seen = 0, before = 0;
    for (int32_t i = line[q].count - 1; i > 0; i--) {
        double work = 0;
        uint64_t others = line[q].id[i] ? with(of, line, count, q, i, &work) : 0;
        if ((others & ~seen) && work >= WORTH) {
            seen |= others;
            at[found++] = i;
        }
    }
    for (; found > 0 && ret_trunk->cuts < CULM_LIVE_CUTS_MAX; found--) {
        int32_t value[CULM_LIVE_CROSSING_MAX], i = at[found - 1];
        struct culm_live_cut *cut = &ret_trunk->cut[ret_trunk->cuts++];
        *cut = (struct culm_live_cut){.operators = i, .work = line[q].work[i]};
        cut->id = before = culm_rng_mix(before, line[q].id[i]) | CUT_ID;
        cut->values = crossing(graph, line[q].last, i, value);
        for (int32_t k = 0; k < cut->values; k++) {
            cut->bytes[k] = value_bytes(graph, value[k]);
        }
    }
}

enum culm_status culm_live_trunks(const struct culm_live_beginning *of, int32_t count,
                                  struct culm_live_trunk *ret_trunk, struct culm_error *error) {
    struct line line[CULM_EDGE_QUERIES_MAX] = {0};
    enum culm_status status = CULM_OK;
    memset(ret_trunk, 0, (size_t)count * sizeof *ret_trunk);
    for (int32_t q = 0; q < count && status == CULM_OK; q++) {
        status = of[q].stage ? draw_line(&of[q], &line[q]) : CULM_OK;
    }
    for (int32_t q = 0; q < count && status == CULM_OK; q++) {
        if (of[q].stage) {
            choose_cuts(of, line, count, q, &ret_trunk[q]);
        }
    }
    for (int32_t q = 0; q < count; q++) {
        free(line[q].id);
        free(line[q].work);
        free(line[q].last);
    }
    return status ? culm_error_set(error, status, "out of memory for a layout") : CULM_OK;
}

size_t culm_live_kept_bytes(const struct culm_live_trunk *trunk, int32_t cuts, int32_t batch) {
    size_t bytes = 0;
    for (int32_t i = 0; i < cuts; i++) {
        for (int32_t k = 0; k < trunk->cut[i].values; k++) {
            bytes += culm_live_round64(trunk->cut[i].bytes[k] * (size_t)batch);
        }
        bytes = (bytes + CULM_LIVE_UNIT_PAGE - 1) / CULM_LIVE_UNIT_PAGE * CULM_LIVE_UNIT_PAGE;
    }
    return bytes;
}

/* --- layouts --- */

/* Whether there is room for what a query keeps without it losing a batch size. */
static bool has_room(const struct culm_edge_layout *layout, int32_t q,
                     const struct culm_edge_query *query, const struct culm_live_trunk *trunk) {
    size_t taken =
        culm_edge_need_bytes(layout, q) + culm_edge_frames_bytes(layout, CULM_EDGE_SLOTS_MIN);
    for (int32_t b = 0; b < query->batches; b++) {
        size_t alone = taken + query->activation_bytes[b];
        size_t kept = culm_live_kept_bytes(trunk, trunk->cuts, query->batch[b]);
        if (alone <= layout->limit_bytes && alone + kept > layout->limit_bytes) {
            return false;
        }
    }
    return true;
}

/* The share of a batch's time that it takes to reach the cut: as measured, else by its work. */
static double share_of(const struct culm_live_beginning *of, const struct culm_live_cut *cut,
                       int32_t b, int32_t batch) {
    double share = of->reached && of->reached[b]
                       ? (double)of->reached[b][cut->operators]
                       : culm_live_times_share(of->times, cut->operators, batch);
    return share > 0 ? share : cut->work;
}

static void put_prefixes(const struct culm_live_beginning *of, const struct culm_live_trunk *trunk,
                         struct culm_edge_query *query) {
    query->prefixes = 0;
    for (int32_t i = 0; i < trunk->cuts; i++) {
        struct culm_edge_prefix *prefix = &query->prefix[query->prefixes++];
        *prefix = (struct culm_edge_prefix){.id = trunk->cut[i].id};
        for (int32_t b = 0; b < query->batches; b++) {
            double share = share_of(of, &trunk->cut[i], b, query->batch[b]);
            uint64_t ns = (uint64_t)((double)query->run_ns[b] * share);
            prefix->run_ns[b] = ns < query->run_ns[b] ? ns : query->run_ns[b] - 1;
            prefix->keep_bytes[b] = culm_live_kept_bytes(trunk, i + 1, query->batch[b]);
        }
    }
    if (of->twin) { /* a twin skips the whole model and only decodes answers, some 5 % */
        struct culm_edge_prefix *prefix = &query->prefix[query->prefixes++];
        *prefix = (struct culm_edge_prefix){.id = of->twin};
        for (int32_t b = 0; b < query->batches; b++) {
            prefix->run_ns[b] = query->run_ns[b] - (query->run_ns[b] / 20 + 1);
        }
    }
    for (int32_t b = 0; b < query->batches; b++) {
        query->activation_bytes[b] += culm_live_kept_bytes(trunk, trunk->cuts, query->batch[b]);
    }
}

enum culm_status culm_live_prefixes_lay(struct culm_live_beginning *of,
                                        const struct culm_edge_layout *layout,
                                        struct culm_edge_query *query,
                                        struct culm_live_trunk *ret_trunk,
                                        struct culm_error *error) {
    bool again = true;
    while (again) {
        enum culm_status status = culm_live_trunks(of, layout->query_count, ret_trunk, error);
        if (status != CULM_OK) {
            return status;
        }
        again = false;
        for (int32_t q = 0; q < layout->query_count; q++) {
            if (ret_trunk[q].cuts && !has_room(layout, q, &query[q], &ret_trunk[q])) {
                of[q].stage = NULL;
                again = true;
            }
        }
    }
    for (int32_t q = 0; q < layout->query_count; q++) {
        put_prefixes(&of[q], &ret_trunk[q], &query[q]);
    }
    return CULM_OK;
}
