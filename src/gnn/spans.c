/* The optimizer by epoch. See spans.h. */
#include "gnn/spans.h"

#include <stdlib.h>
#include <string.h>

struct culm_optimizer_config culm_gnn_optimizer_of(const struct culm_gnn_config *config) {
    const struct culm_gnn_optimizer_config *optimizer = &config->optimizer;
    return (struct culm_optimizer_config){
        .name = optimizer->name == CULM_GNN_SGD ? CULM_OPTIMIZER_SGD : CULM_OPTIMIZER_ADAM,
        .lr = optimizer->lr,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .weight_decay = optimizer->weight_decay,
        .momentum = optimizer->momentum,
    };
}

enum culm_status culm_gnn_spans_read(const struct culm_lineage *lineage,
                                     const struct culm_gnn_config *config,
                                     struct culm_gnn_spans *ret_spans, struct culm_error *error) {
    struct culm_gnn_spans spans = {.span = calloc(lineage->part_count + 1, sizeof *spans.span)};
    if (!spans.span) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    if (lineage->part_count == 0) {
        spans.span[spans.count++] = (struct culm_gnn_span){0, culm_gnn_optimizer_of(config)};
    }
    for (size_t i = 0; i < lineage->part_count; i++) {
        const struct culm_lineage_part *part = &lineage->part[i];
        struct culm_gnn_config earlier;
        enum culm_status status =
            culm_gnn_config_parse(part->config, strlen(part->config),
                                  "an earlier configuration of the run", NULL, 0, &earlier, error);
        if (status != CULM_OK) {
            culm_gnn_spans_release(&spans);
            return status;
        }
        spans.span[spans.count++] =
            (struct culm_gnn_span){part->after, culm_gnn_optimizer_of(&earlier)};
        culm_gnn_config_release(&earlier);
    }
    *ret_spans = spans;
    return CULM_OK;
}

void culm_gnn_spans_release(struct culm_gnn_spans *spans) {
    free(spans->span);
    *spans = (struct culm_gnn_spans){0};
}

const struct culm_optimizer_config *culm_gnn_spans_at(const struct culm_gnn_spans *spans,
                                                      int64_t epoch) {
    size_t i = spans->count - 1;
    while (i > 0 && spans->span[i].after >= epoch) {
        i--;
    }
    return &spans->span[i].optimizer;
}

bool culm_gnn_spans_exact(const struct culm_gnn_spans *spans, int64_t epochs) {
    struct culm_config_difference difference;
    for (size_t i = 1; i < spans->count && spans->span[i].after < epochs; i++) {
        if (culm_config_differ(&culm_optimizer_config_table, &spans->span[0].optimizer,
                               &spans->span[i].optimizer, 0, &difference)) {
            return false;
        }
    }
    return true;
}
