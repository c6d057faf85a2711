/* Reading ONNX: fields of messages, texts, names, errors. See read.h. */
#include "onnx/read.h"

#include <stdio.h>

enum culm_status culm_onnx_bad(const struct culm_onnx_graph *graph, const uint8_t *at,
                               struct culm_error *error, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return culm_error_set(error, CULM_ERR_FORMAT, "onnx '%s': byte %llu: %s", graph->path,
                          (unsigned long long)(at - graph->map[0].data), text);
}

enum culm_status culm_onnx_no_memory(const struct culm_onnx_graph *graph,
                                     struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", graph->path);
}

bool culm_onnx_next(const struct culm_onnx_graph *graph, const struct culm_onnx_form *form,
                    struct culm_wire *wire, struct culm_wire_field *ret_field,
                    enum culm_status *status, struct culm_error *error) {
    const uint8_t *at = wire->at;
    if (*status != CULM_OK) {
        return false;
    }
    if (!culm_wire_next(wire, ret_field)) {
        if (wire->failed) {
            *status = culm_onnx_bad(
                graph, at, error,
                "%s is cut off or damaged; export it again or copy the file again", form->what);
        }
        return false;
    }
    uint8_t kinds = ret_field->number <= CULM_ONNX_FIELD_MAX ? form->kinds[ret_field->number] : 0;
    if (kinds && !(kinds >> ret_field->kind & 1)) {
        *status = culm_onnx_bad(graph, at, error,
                                "%s has field %u in a form that it cannot have; export it again",
                                form->what, ret_field->number);
        return false;
    }
    return true;
}

enum culm_status culm_onnx_read_text(struct culm_onnx_graph *graph,
                                     const struct culm_wire_field *field, const char **ret_text,
                                     struct culm_error *error) {
    for (size_t i = 0; i < field->len; i++) {
        if (field->data[i] < 0x20 || field->data[i] == 0x7f) {
            return culm_onnx_bad(graph, field->data + i, error, "a name has a control character");
        }
    }
    *ret_text = culm_onnx_copy_text(&graph->arena, field->data, field->len);
    return *ret_text ? CULM_OK : culm_onnx_no_memory(graph, error);
}

enum culm_status culm_onnx_read_name(struct culm_onnx_graph *graph,
                                     const struct culm_wire_field *field, int32_t *ret_value,
                                     struct culm_error *error) {
    const char *name;
    enum culm_status status = culm_onnx_read_text(graph, field, &name, error);
    if (status != CULM_OK) {
        return status;
    }
    *ret_value = -1;
    if (!name[0]) {
        return CULM_OK;
    }
    *ret_value = culm_onnx_find(graph, name);
    if (*ret_value < 0) {
        *ret_value = culm_onnx_value_new(graph, name);
    }
    return *ret_value < 0 ? culm_onnx_no_memory(graph, error) : CULM_OK;
}
