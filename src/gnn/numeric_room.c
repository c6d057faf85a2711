/*
 * The numeric executor: what all its files use. Buffers that grow, blobs, the input of a task's
 * interval, and rows of the run's type as f32.
 */
#include "gnn/numeric_internal.h"

#include "base/pages.h"

#include <stdlib.h>

enum culm_status gnn_need_room(struct culm_gnn_numeric *x, struct gnn_room *room, size_t bytes,
                               struct culm_error *error) {
    if (room->data && bytes <= room->size_bytes) {
        return CULM_OK;
    }
    if (room->data) {
        culm_blob_pool_return(x->o.pool, culm_pages_size(room->size_bytes));
        free(room->data);
        room->data = NULL;
    }
    if (culm_blob_pool_charge(x->o.pool, culm_pages_size(bytes)) == CULM_OK) {
        room->data = culm_pages_alloc(bytes);
        room->size_bytes = bytes;
        if (!room->data) {
            culm_blob_pool_return(x->o.pool, culm_pages_size(bytes));
        }
    }
    return room->data
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %zu bytes", bytes);
}

void gnn_room_drop(struct culm_gnn_numeric *x, struct gnn_room *room) {
    if (room->data) {
        culm_blob_pool_return(x->o.pool, culm_pages_size(room->size_bytes));
        free(room->data);
        room->data = NULL;
    }
}

enum culm_status gnn_blob(struct culm_gnn_numeric *x, size_t bytes, struct culm_blob **ret_blob,
                          struct culm_error *error) {
    enum culm_status status = culm_blob_pool_get(x->o.pool, bytes, ret_blob);
    return status == CULM_OK ? CULM_OK
                             : culm_error_set(error, status, "out of memory for %zu bytes", bytes);
}

enum culm_status gnn_find_input(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                struct gnn_input **ret_input) {
    *ret_input = &x->input[task->interval];
    return (*ret_input)->n > 0
               ? CULM_OK
               : culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                                "interval %d was requested, but is not here", task->interval);
}

enum culm_status gnn_wrong_rows(struct culm_gnn_task *task, const char *what, size_t have,
                                size_t want) {
    return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                          "interval %d, epoch %lld: %s of %zu bytes, %zu are needed",
                          task->interval, (long long)task->epoch, what, have, want);
}

enum culm_status gnn_make(struct culm_gnn_numeric *x, struct gnn_room *room, void *rows,
                          int64_t count, float **ret_rows, struct culm_error *error) {
    if (x->o.model->rows == CULM_F32) {
        *ret_rows = rows;
        return CULM_OK;
    }
    enum culm_status status = gnn_need_room(x, room, (size_t)(count + 16) * sizeof(float), error);
    *ret_rows = room->data;
    return status;
}

enum culm_status gnn_widen(struct culm_gnn_numeric *x, struct gnn_room *room, const void *rows,
                           int64_t count, const float **ret_rows, struct culm_error *error) {
    float *wide;
    enum culm_status status = gnn_make(x, room, (void *)rows, count, &wide, error);
    if (status == CULM_OK && wide != rows) {
        CULM_RUN(x->o.device, affine, .y = culm_out_f32(wide), .x = gnn_in(x, rows), .count = count,
                 .scale = 1);
    }
    *ret_rows = wide;
    return status;
}

void gnn_narrow(struct culm_gnn_numeric *x, void *rows, const float *made, int64_t count) {
    if (made != rows) {
        CULM_RUN(x->o.device, affine, .y = gnn_out(x, rows), .x = culm_in_f32(made), .count = count,
                 .scale = 1);
    }
}
