/* Workloads from a seed: few families of models, whose members share much or little. See
 * edge_history.h. */
#include "base/rng.h"
#include "edge_history.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull

static uint64_t below(uint64_t *state, uint64_t n) { return culm_rng_below(state, n); }

static void fill_query(struct culm_edge_workload *workload, int32_t q, uint64_t *dice) {
    static const uint64_t deadline_ms[] = {30, 60, 100, 100, 200, 200, 400, 1000};
    static const int32_t sizes[][3] = {{1, 0, 0}, {1, 2, 4}, {1, 2, 4}, {1, 4, 8}};
    struct culm_edge_query *query = &workload->query[q];
    *query = (struct culm_edge_query){.tensor = workload->tensors[q],
                                      .deadline_ns = deadline_ms[below(dice, 8)] * MS};
    snprintf(query->name, sizeof query->name, "q%d", q);
    query->feed = (int32_t)below(dice, (uint64_t)workload->layout.feed_count);
    const int32_t *size = sizes[below(dice, 4)];
    uint64_t fixed = 200000 + below(dice, 10 * MS), each = 200000 + below(dice, 12 * MS);
    size_t activations = below(dice, 3000);
    for (int b = 0; b < 3 && size[b]; b++, query->batches++) {
        query->batch[b] = size[b];
        query->run_ns[b] = fixed + each * (uint64_t)size[b];
        query->activation_bytes[b] = activations * (size_t)size[b];
    }
}

/* Some of a family's tensors, and some of its own. */
static void fill_tensors(struct culm_edge_workload *workload, int32_t q, int32_t first,
                         int32_t family, uint64_t *dice) {
    struct culm_edge_query *query = &workload->query[q];
    uint64_t shared = below(dice, 11);
    for (int32_t t = first; t < first + family; t++) {
        if (below(dice, 10) < shared) {
            workload->tensors[q][query->tensor_count++] = t;
        }
    }
    int32_t own = 1 + (int32_t)below(dice, 6);
    for (int32_t i = 0; i < own && workload->layout.tensor_count < CULM_EDGE_HISTORY_TENSORS; i++) {
        int32_t t = workload->layout.tensor_count++;
        workload->tensor_bytes[t] = 1 + below(dice, below(dice, 2) ? 100 : 5000);
        workload->tensors[q][query->tensor_count++] = t;
    }
}

/* Of every third workload of several queries the last one only samples, in time that others have. */
static void let_one_sample(struct culm_edge_workload *workload, uint64_t dice) {
    struct culm_edge_query *last = &workload->query[workload->layout.query_count - 1];
    if (workload->layout.query_count > 1 && below(&dice, 3) == 0) {
        last->every_ns = (1 + below(&dice, 2000)) * MS;
        last->after_ns = below(&dice, 1000) * MS;
        last->burst = 1 + (int32_t)below(&dice, 16);
        last->deadline_ns *= 4;
    }
}

/* In every fourth workload some queries stay, and some are there from the start. */
static void pin_some(struct culm_edge_workload *workload, uint64_t dice) {
    if (below(&dice, 4) == 0) {
        for (int32_t q = 0; q < workload->layout.query_count; q++) {
            workload->query[q].pin = below(&dice, 3) == 0;
            workload->query[q].preload = below(&dice, 3) == 0;
        }
    }
}

void culm_edge_workload_from_seed(uint64_t seed, int32_t queries,
                                  struct culm_edge_workload *workload) {
    static const uint64_t fps[] = {2, 5, 10, 10, 15, 30, 30};
    uint64_t dice = culm_rng_mix(seed, 77);
    memset(workload, 0, sizeof *workload);
    struct culm_edge_layout *layout = &workload->layout;
    layout->query = workload->query;
    layout->feed = workload->feed;
    layout->tensor_bytes = workload->tensor_bytes;
    layout->query_count = queries            ? queries
                          : below(&dice, 20) ? 1 + (int32_t)below(&dice, 6)
                                             : 7 + (int32_t)below(&dice, 8);
    layout->feed_count = 1 + (int32_t)below(&dice, (uint64_t)layout->query_count);
    for (int32_t f = 0; f < layout->feed_count; f++) {
        workload->feed[f].period_ns = 1000 * MS / fps[below(&dice, 7)];
        workload->feed[f].frame_bytes = below(&dice, 3) ? 0 : below(&dice, 500);
    }
    int32_t families = 1 + (int32_t)below(&dice, 3), first[3], size[3];
    for (int32_t i = 0; i < families; i++) {
        first[i] = layout->tensor_count;
        size[i] = 1 + (int32_t)below(&dice, 12);
        for (int32_t t = 0; t < size[i]; t++) {
            workload->tensor_bytes[layout->tensor_count++] =
                1 + below(&dice, below(&dice, 3) ? 500 : 8000);
        }
    }
    size_t largest = 1;
    for (int32_t q = 0; q < layout->query_count; q++) {
        int32_t family = (int32_t)below(&dice, (uint64_t)families);
        fill_query(workload, q, &dice);
        fill_tensors(workload, q, first[family], size[family], &dice);
        if (below(&dice, 4) == 0 && workload->query[q].batches > 0) {
            /* Members of a family on one feed compute the same at first. */
            struct culm_edge_prefix *prefix =
                &workload->query[q].prefix[workload->query[q].prefixes++];
            prefix->id = 1 + (uint64_t)family;
            for (int32_t b = 0; b < workload->query[q].batches; b++) {
                size_t keep = 100 * (size_t)(family + 1) * (size_t)workload->query[q].batch[b];
                prefix->run_ns[b] = workload->query[q].run_ns[b] / 2;
                prefix->keep_bytes[b] = keep;
                workload->query[q].activation_bytes[b] += keep;
            }
        }
        size_t bytes = culm_edge_query_bytes(layout, q);
        largest = bytes > largest ? bytes : largest;
    }
    let_one_sample(workload, culm_rng_mix(seed, 78));
    pin_some(workload, culm_rng_mix(seed, 79));
    /* To load the largest takes from next to nothing to four times as long as a batch. */
    uint64_t load = below(&dice, 60 * MS);
    layout->load_ns = below(&dice, 3) ? 0 : below(&dice, MS);
    layout->load_ns_per_byte = below(&dice, 8) ? (double)load / (double)largest : 0;
    size_t least, most;
    culm_edge_memory_range(layout, &least, &most);
    static const uint64_t level[] = {0, 0, 0, 25, 50, 50, 75, 100, 120};
    layout->limit_bytes = least + (most - least) * level[below(&dice, 9)] / 100;
}
