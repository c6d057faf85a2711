/* What a model computes, apart from its numbers. See model.h. */
#include "vision/model.h"

#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

static void add_int(struct culm_sha256 *hash, int64_t value) {
    culm_sha256_update(hash, &value, sizeof value);
}

static void add_text(struct culm_sha256 *hash, const char *text) {
    culm_sha256_update(hash, text, strlen(text) + 1);
}

/* Without the first dimension, which counts pictures. */
static void add_shape(struct culm_sha256 *hash, const struct culm_shape *shape, int32_t from) {
    add_int(hash, shape->rank);
    for (int32_t d = from; d < shape->rank; d++) {
        add_int(hash, shape->dim[d]);
    }
}

static void add_input(struct culm_sha256 *hash, const struct culm_vision_input *input) {
    add_int(hash, input->width);
    add_int(hash, input->height);
    add_int(hash, input->channels);
    culm_sha256_update(hash, input->mean, sizeof input->mean);
    culm_sha256_update(hash, input->deviation, sizeof input->deviation);
    if (input->letterbox || input->bgr) { /* other models are what they were before these */
        add_int(hash, input->letterbox ? 1 + input->around : 0);
        add_int(hash, input->bgr);
    }
}

static void add_column(struct culm_sha256 *hash, const struct culm_vision_column *column) {
    add_int(hash, column->output);
    add_int(hash, column->from);
    add_int(hash, column->row);
    add_int(hash, column->each);
}

static void add_table(struct culm_sha256 *hash, const struct culm_vision_table *table) {
    add_int(hash, table->rows);
    add_column(hash, &table->box);
    add_column(hash, &table->object);
    add_column(hash, &table->score);
    add_column(hash, &table->label);
    add_int(hash, table->corners);
    add_int(hash, table->fractions);
    add_int(hash, table->end);
    add_int(hash, table->before);
    add_int(hash, table->behind);
    add_int(hash, table->chosen);
}

static void add_head(struct culm_sha256 *hash, const struct culm_yolo_head *head) {
    add_int(hash, head->output);
    add_int(hash, head->anchors);
    add_int(hash, head->classes);
    culm_sha256_update(hash, head->anchor, (size_t)head->anchors * sizeof *head->anchor);
    culm_sha256_update(hash, &head->scale_xy, sizeof head->scale_xy);
    if (head->squared || head->one) {
        add_int(hash, head->squared);
        add_int(hash, head->one);
    }
}

static void add_graph(struct culm_sha256 *hash, const struct culm_graph *graph) {
    for (int32_t p = 0; p < graph->param_count; p++) {
        add_text(hash, graph->param[p].name);
        add_shape(hash, &graph->param[p].written, 0);
    }
    for (int32_t n = 0; n < graph->node_count; n++) {
        const struct culm_node_desc *node = &graph->node[n];
        add_text(hash, node->op->name);
        add_int(hash, (int64_t)culm_attributes_mix(0, &node->attributes));
        for (int32_t i = 0; i < CULM_NODE_INPUTS_MAX; i++) {
            add_int(hash, node->input[i]);
        }
        for (int32_t i = 0; i < CULM_NODE_OUTPUTS_MAX; i++) {
            add_int(hash, node->output[i]);
            if (node->output[i] >= 0) {
                add_shape(hash, &graph->value[node->output[i]].shape, 1);
            }
        }
    }
    for (int32_t i = 0; i < graph->output_count; i++) {
        add_int(hash, graph->output[i].value);
    }
}

enum culm_status culm_vision_structure(struct culm_vision_model *model,
                                       char ret_text[CULM_VISION_STRUCTURE],
                                       struct culm_error *error) {
    struct culm_graph *graph = NULL;
    struct culm_sha256 hash;
    char digest[CULM_SHA256_HEX];
    enum culm_status status = culm_vision_model_graph(model, 1, CULM_VISION_INFER, &graph, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_sha256_init(&hash);
    if (status == CULM_OK) {
        add_int(&hash, model->kind);
        add_int(&hash, model->classes);
        add_int(&hash, model->end);
        add_input(&hash, &model->input);
        for (int32_t h = 0; h < model->head_count; h++) {
            add_head(&hash, &model->head[h]);
        }
        if (model->table.rows) {
            add_table(&hash, &model->table);
        }
        add_graph(&hash, graph);
        status = culm_sha256_final(&hash, digest);
    }
    culm_graph_free(graph);
    if (status != CULM_OK) {
        return culm_error_set(error, status, "SHA-256 failed");
    }
    snprintf(ret_text, CULM_VISION_STRUCTURE, "%d:%s", CULM_VISION_STRUCTURE_WAY, digest);
    return CULM_OK;
}

bool culm_vision_structure_differs(const char *a, const char *b) {
    const char *way = strchr(a, ':');
    return way && strncmp(a, b, (size_t)(way - a) + 1) == 0 && strcmp(a, b) != 0;
}
