/* Choices: as JSON, and in a graph. See choices.h. */
#include "train/choices.h"

#include "base/json.h"

#include "graph/ops/conv.h"

#include <stdlib.h>
#include <string.h>

void culm_choices_release(struct culm_choices *choices) {
    free(choices->convolution);
    *choices = (struct culm_choices){0};
}

json_t *culm_choices_json(const struct culm_choices *choices) {
    json_t *cuts = json_array(), *algorithms = json_array();
    for (int32_t s = 0; s < choices->stages; s++) {
        json_array_append_new(cuts, json_integer(choices->first_block[s]));
    }
    for (int32_t i = 0; i < choices->convolutions; i++) {
        const struct culm_algorithms *c = &choices->convolution[i];
        json_array_append_new(algorithms, json_pack("[i, i, i, i]", c->operator_id, c->algorithm[0],
                                                    c->algorithm[1], c->algorithm[2]));
    }
    return json_pack("{s:o, s:o}", "cuts", cuts, "algorithms", algorithms);
}

bool culm_choices_same_algorithms(const struct culm_choices *a, const struct culm_choices *b) {
    return a->convolutions == b->convolutions &&
           (a->convolutions == 0 || memcmp(a->convolution, b->convolution,
                                           (size_t)a->convolutions * sizeof *a->convolution) == 0);
}

/* A whole number in [low, high]. */
static bool number(const json_t *value, json_int_t low, json_int_t high, int32_t *ret_number) {
    if (!json_is_integer(value) || json_integer_value(value) < low ||
        json_integer_value(value) > high) {
        return false;
    }
    *ret_number = (int32_t)json_integer_value(value);
    return true;
}

static bool read_cuts(const json_t *cuts, struct culm_choices *choices) {
    size_t count = json_array_size(cuts);
    if (count > sizeof choices->first_block / sizeof *choices->first_block) {
        return false;
    }
    for (size_t s = 0; s < count; s++) {
        int32_t least = s ? choices->first_block[s - 1] + 1 : 0, most = s ? INT32_MAX - 1 : 0;
        if (!number(json_array_get(cuts, s), least, most, &choices->first_block[s])) {
            return false;
        }
    }
    choices->stages = (int32_t)count;
    return true;
}

static bool read_algorithms(const json_t *list, struct culm_choices *choices) {
    size_t count = json_array_size(list);
    choices->convolution = calloc(count + 1, sizeof *choices->convolution);
    for (size_t i = 0; choices->convolution && i < count; i++) {
        const json_t *row = json_array_get(list, i);
        struct culm_algorithms *c = &choices->convolution[i];
        if (json_array_size(row) != 4 ||
            !number(json_array_get(row, 0), 0, INT32_MAX, &c->operator_id)) {
            return false;
        }
        for (size_t pass = 0; pass < 3; pass++) {
            if (!number(json_array_get(row, pass + 1), 0, CULM_CONV_ALGORITHMS - 1,
                        &c->algorithm[pass])) {
                return false;
            }
        }
        choices->convolutions++;
    }
    return choices->convolution != NULL;
}

enum culm_status culm_choices_read(const json_t *plan, struct culm_choices *ret_choices,
                                   struct culm_error *error) {
    const json_t *object = json_object_get(plan, "choices");
    struct culm_choices choices = {0};
    if (object && (!read_cuts(json_object_get(object, "cuts"), &choices) ||
                   !read_algorithms(json_object_get(object, "algorithms"), &choices))) {
        culm_choices_release(&choices);
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "'choices' is not as 'culm train' writes it; make the plan again");
    }
    *ret_choices = choices;
    return CULM_OK;
}

enum culm_status culm_choices_load(const char *path, struct culm_choices *ret_choices,
                                   struct culm_error *error) {
    json_error_t parse;
    json_t *plan = culm_json_load(path, &parse);
    if (!plan) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%s:%d: not a plan: %s", path, parse.line,
                              parse.text);
    }
    enum culm_status status = culm_choices_read(plan, ret_choices, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "%s", path);
    }
    json_decref(plan);
    return status;
}

enum culm_status culm_choices_apply(const struct culm_choices *choices, struct culm_graph *graph,
                                    struct culm_error *error) {
    for (int32_t i = 0; i < choices->convolutions; i++) {
        const struct culm_algorithms *c = &choices->convolution[i];
        struct culm_node_desc *node =
            c->operator_id < graph->node_count ? &graph->node[c->operator_id] : NULL;
        bool fits = node && node->op == &culm_op_conv;
        for (int pass = 0; pass < 3 && fits; pass++) {
            struct culm_conv conv = culm_conv_of(graph, node);
            fits = culm_conv_algorithm_possible(&conv, (enum culm_conv_pass)pass,
                                                (enum culm_conv_algorithm)c->algorithm[pass]);
            node->attributes.algorithm[pass] = c->algorithm[pass];
        }
        if (!fits) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "the plan's choice for operator %d does not fit this model; use "
                                  "the plan of a run of the same model",
                                  c->operator_id);
        }
    }
    return CULM_OK;
}
