/* A run on a graph as counts and sizes. See layout.h. */
#include "interval/layout.h"

#include <stdlib.h>
#include <string.h>

enum culm_status culm_gnn_layout_init(struct culm_gnn_layout *layout, int32_t intervals,
                                      struct culm_error *error) {
    size_t count = (size_t)intervals;
    *layout = (struct culm_gnn_layout){.intervals = intervals};
    layout->first = calloc(count + 1, sizeof *layout->first);
    bool failed = !layout->first;
    for (int t = 0; t < 2; t++) {
        layout->reads[t] = calloc(count, sizeof *layout->reads[t]);
        layout->read_by[t] = calloc(count, sizeof *layout->read_by[t]);
        layout->edges[t] = calloc(count, sizeof *layout->edges[t]);
        failed = failed || !layout->reads[t] || !layout->read_by[t] || !layout->edges[t];
    }
    if (failed) {
        culm_gnn_layout_release(layout);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    return CULM_OK;
}

static void free_sets(struct culm_set *set, int32_t count) {
    for (int32_t i = 0; set && i < count; i++) {
        culm_set_release(&set[i]);
    }
    free(set);
}

void culm_gnn_layout_release(struct culm_gnn_layout *layout) {
    free(layout->first);
    for (int t = 0; t < 2; t++) {
        free_sets(layout->reads[t], layout->intervals);
        free_sets(layout->read_by[t], layout->intervals);
        free(layout->edges[t]);
    }
    *layout = (struct culm_gnn_layout){0};
}

enum culm_status culm_gnn_layout_reads(struct culm_gnn_layout *layout, bool transposed,
                                       int32_t interval, int32_t other) {
    return culm_set_add(&layout->reads[transposed][interval], other) &&
                   culm_set_add(&layout->read_by[transposed][other], interval)
               ? CULM_OK
               : CULM_ERR_MEMORY;
}

static int64_t block_rows(const struct culm_gnn_layout *layout, int64_t rows) {
    int64_t unit = layout->block_unit;
    int64_t each = (rows + CULM_GNN_BLOCKS_MAX - 1) / CULM_GNN_BLOCKS_MAX;
    each = each > layout->block_least ? each : layout->block_least;
    return (each + unit - 1) / unit * unit;
}

int32_t culm_gnn_layout_blocks(const struct culm_gnn_layout *layout, int32_t step, int64_t rows) {
    if (!layout->step[step].streams || layout->block_unit == 0) {
        return 1;
    }
    int64_t each = block_rows(layout, rows), blocks = (rows + each - 1) / each;
    return blocks > 1 ? (int32_t)blocks : 1;
}

int64_t culm_gnn_layout_block(const struct culm_gnn_layout *layout, int64_t rows, int32_t blocks,
                              int32_t block, int64_t *ret_first) {
    int64_t each = blocks > 1 ? block_rows(layout, rows) : rows;
    *ret_first = block * each;
    return rows - *ret_first < each ? rows - *ret_first : each;
}

static int32_t add_gather(struct culm_gnn_layout *layout, bool transposed, size_t row_bytes) {
    layout->gather[layout->gathers] =
        (struct culm_gnn_gather){.transposed = transposed,
                                 .row_bytes = row_bytes,
                                 .sent_bytes = row_bytes,
                                 .sent_floats = (int32_t)(row_bytes / sizeof(float))};
    return layout->gathers++;
}

static void add_step(struct culm_gnn_layout *layout, struct culm_gnn_step step) {
    layout->step[layout->steps++] = step;
}

/* Adds the steps of kind `other` of a forward pass, up to the last stage, whose step the caller
 * adds. Returns the gather that the last stage reads; -1: none. */
static int32_t add_forward(struct culm_gnn_layout *layout, int32_t stages, const size_t *row_bytes,
                           enum culm_gnn_step_kind other) {
    int32_t rows = -1;
    for (int32_t s = 0; s + 1 < stages; s++) {
        int32_t makes = add_gather(layout, false, row_bytes[s]);
        layout->gather[makes].constant = s == 0 && layout->gradient_bytes[0] == 0;
        add_step(layout,
                 (struct culm_gnn_step){
                     .kind = other, .stage = s, .rows = rows, .d_rows = -1, .makes = makes});
        rows = makes;
    }
    return rows;
}

void culm_gnn_layout_steps(struct culm_gnn_layout *layout, int32_t stages, const size_t *row_bytes,
                           const size_t *d_row_bytes, const size_t *gradient_bytes) {
    layout->steps = layout->gathers = 0;
    layout->stages = stages;
    memcpy(layout->gradient_bytes, gradient_bytes, (size_t)stages * sizeof *gradient_bytes);
    int32_t rows = add_forward(layout, stages, row_bytes, CULM_GNN_FORWARD);
    /* A first stage without weights needs no backward step: nothing depends on its gradient. */
    int32_t first = gradient_bytes[0] > 0 ? 0 : 1;
    int32_t makes = stages - 1 > first ? add_gather(layout, true, d_row_bytes[stages - 2]) : -1;
    add_step(layout, (struct culm_gnn_step){.kind = CULM_GNN_LOSS,
                                            .stage = stages - 1,
                                            .rows = rows,
                                            .d_rows = -1,
                                            .makes = makes,
                                            .gradient = gradient_bytes[stages - 1] > 0});
    for (int32_t s = stages - 2; s >= first; s--) {
        int32_t d_rows = makes;
        makes = s > first ? add_gather(layout, true, d_row_bytes[s - 1]) : -1;
        /* Gathers 0 .. stages - 2 are those of the forward pass, so stage s reads gather s - 1, and
         * stage 0 reads -1, its constant input. */
        add_step(layout, (struct culm_gnn_step){.kind = CULM_GNN_BACKWARD,
                                                .stage = s,
                                                .rows = s - 1,
                                                .d_rows = d_rows,
                                                .makes = makes,
                                                .gradient = gradient_bytes[s] > 0});
    }
    layout->train_steps = layout->steps;
    layout->train_gathers = layout->gathers;
    rows = add_forward(layout, stages, row_bytes, CULM_GNN_EVALUATE);
    add_step(
        layout,
        (struct culm_gnn_step){
            .kind = CULM_GNN_SCORE, .stage = stages - 1, .rows = rows, .d_rows = -1, .makes = -1});
}
