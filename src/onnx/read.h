/* Private to the reader: file.c reads the model and its graph, read_node.c nodes and tensors,
 * read.c fields, read_bytes.c the file and its side files as bytes. */
#ifndef CULM_ONNX_READ_H
#define CULM_ONNX_READ_H

#include "onnx/graph.h"
#include "onnx/wire.h"

#define CULM_ONNX_FIELD_MAX 20

/* The fields of a message: for each number, the kinds it may have on the wire. Fields without any
 * are skipped. */
enum {
    CULM_ONNX_VARINT = 1 << CULM_WIRE_VARINT,
    CULM_ONNX_FIXED32 = 1 << CULM_WIRE_FIXED32,
    CULM_ONNX_FIXED64 = 1 << CULM_WIRE_FIXED64,
    CULM_ONNX_BYTES = 1 << CULM_WIRE_BYTES
};
struct culm_onnx_form {
    const char *what; /* "a node" */
    uint8_t kinds[CULM_ONNX_FIELD_MAX + 1];
};
/* Reads the next field; its kind must be one that the form allows. False at the end, or with
 * *status set if the message cannot be read; does nothing if *status is set already. */
bool culm_onnx_next(const struct culm_onnx_graph *graph, const struct culm_onnx_form *form,
                    struct culm_wire *wire, struct culm_wire_field *ret_field,
                    enum culm_status *status, struct culm_error *error);

/* `onnx 'PATH': byte N: ...`, for an error at `at` in the file itself. */
enum culm_status culm_onnx_bad(const struct culm_onnx_graph *graph, const uint8_t *at,
                               struct culm_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
enum culm_status culm_onnx_no_memory(const struct culm_onnx_graph *graph, struct culm_error *error);
/* The value of this name, added if there is none yet. */
enum culm_status culm_onnx_read_name(struct culm_onnx_graph *graph,
                                     const struct culm_wire_field *field, int32_t *ret_value,
                                     struct culm_error *error);
/* A copy of a string; control characters are refused. */
enum culm_status culm_onnx_read_text(struct culm_onnx_graph *graph,
                                     const struct culm_wire_field *field, const char **ret_text,
                                     struct culm_error *error);

enum culm_status culm_onnx_read_tensor(struct culm_onnx_graph *graph,
                                       const struct culm_wire_field *field,
                                       struct culm_onnx_tensor *ret_tensor,
                                       struct culm_error *error);
enum culm_status culm_onnx_read_node(struct culm_onnx_graph *graph,
                                     const struct culm_wire_field *field,
                                     struct culm_onnx_node *ret_node, struct culm_error *error);
/* Reads a file into memory. It is not mapped, since a file that is truncated while mapped would end
 * the process. CULM_ERR_CHANGED: it is not the pinned one. */
enum culm_status culm_onnx_load(const char *path, struct culm_pins *pins,
                                struct culm_onnx_map *ret_map, struct culm_error *error);
/* Bytes [offset, offset + length) of a side file in or below the model's folder. Each file is read
 * into memory once. `tensor` is for messages. */
enum culm_status culm_onnx_side_file(struct culm_onnx_graph *graph, const char *location,
                                     uint64_t offset, uint64_t length, const char *tensor,
                                     const void **ret_data, struct culm_error *error);

#endif
