/* The numeric executor: gathers, from whole intervals or from slices; and slices. See numeric.h. */
#include "gnn/numeric_internal.h"

#include <stdlib.h>
#include <string.h>

static int direction(const struct culm_gnn_numeric *x, bool transposed) {
    return transposed && x->o.structure->directed;
}

static enum culm_status no_memory(struct culm_gnn_task *task) {
    return culm_error_set(&task->job.error, CULM_ERR_MEMORY, "out of memory");
}

/* --- slices --- */

/* No two servers own the same interval, so that the slices for all of them have places of their own. */
static enum culm_status rows_of_slice(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                      struct gnn_input *input, bool transposed,
                                      const struct gnn_slice **ret_slice) {
    const int32_t least = culm_set_next(&task->readers, 0);
    struct gnn_slice *slice = &input->slice[direction(x, transposed)][least < 0 ? 0 : least];
    *ret_slice = slice;
    if (slice->row && culm_set_same(&slice->readers, &task->readers)) {
        return CULM_OK;
    }
    uint32_t *row = malloc(((size_t)input->n + 1) * sizeof *row);
    if (!row || !culm_set_copy(&slice->readers, &task->readers)) {
        free(row);
        return no_memory(task);
    }
    free(slice->row);
    slice->count =
        culm_gnn_structure_slice(x->o.structure, transposed, task->interval, &task->readers, row);
    uint32_t *fits = realloc(row, ((size_t)slice->count + 1) * sizeof *row);
    slice->row = fits ? fits : row;
    return CULM_OK;
}

/* Finds where in the source, which is a slice, the rows are that the task's interval reads. */
static enum culm_status find_in_slice(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                      struct gnn_input *input, bool transposed,
                                      const struct culm_gnn_source *source,
                                      const struct gnn_in_slice **ret_found) {
    const struct culm_gnn_structure *s = x->o.structure;
    struct gnn_in_slice *in = &input->in_slice[direction(x, transposed)][source->interval];
    *ret_found = in;
    if (in->at && culm_set_same(&in->readers, source->readers)) {
        return CULM_OK;
    }
    const struct culm_gnn_need *need = culm_gnn_structure_need(s, transposed, task->interval);
    size_t wanted = need->start[source->interval + 1] - need->start[source->interval];
    uint32_t *slice =
        malloc(((size_t)culm_gnn_structure_rows(s, source->interval) + 1) * sizeof *slice);
    uint32_t *at = malloc((wanted + 1) * sizeof *at);
    if (!slice || !at || !culm_set_copy(&in->readers, source->readers)) {
        free(slice);
        free(at);
        return no_memory(task);
    }
    free(in->at);
    in->at = at;
    in->count = culm_gnn_structure_slice(s, transposed, source->interval, &in->readers, slice);
    culm_gnn_structure_in_slice(s, transposed, source->interval, task->interval, slice, in->count,
                                at);
    free(slice);
    return CULM_OK;
}

/* --- gathers --- */

/* Copies the first `width` bytes of the rows row[count] from `from`, where rows are `stride` bytes
 * apart, to `to`, where they are `pitch` bytes apart. */
static void copy_rows(char *to, size_t pitch, const char *from, const uint32_t *row, int64_t count,
                      size_t width, size_t stride) {
    bool dense = width == stride && width == pitch;
    if (dense && count > 0 && row[count - 1] - row[0] + 1 == count) {
        memcpy(to, from + row[0] * width, (size_t)count * width); /* ascending without gaps */
        return;
    }
    for (int64_t r = 0; r < count; r++, to += pitch) {
        memcpy(to, from + row[r] * stride, width);
    }
}

/* The width of a row as it was made, and how much of it neighbours read. */
static void widths(const struct culm_gnn_numeric *x, int32_t gather, int64_t *ret_width,
                   int64_t *ret_sent) {
    const struct gnn_flow *flow = &x->flow[gather];
    const struct culm_gnn_border *border = &x->o.model->border[flow->border];
    *ret_width = flow->back ? border->d_width : border->width;
    *ret_sent = flow->back ? border->d_sent : border->sent;
}

enum culm_status gnn_make_slice(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    const struct culm_gnn_gather *gather = &x->o.layout->gather[task->gather];
    const struct gnn_slice *slice = NULL;
    struct gnn_input *input;
    int64_t width, sent;
    enum culm_status status = gnn_find_input(x, task, &input);
    widths(x, task->gather, &width, &sent);
    if (status == CULM_OK && task->input->size_bytes != (size_t)input->n * gather->row_bytes) {
        return gnn_wrong_rows(task, "rows", task->input->size_bytes,
                              (size_t)input->n * gather->row_bytes);
    }
    if (status == CULM_OK) {
        status = rows_of_slice(x, task, input, gather->transposed, &slice);
    }
    if (status == CULM_OK) {
        status = gnn_blob(x, (size_t)(slice->count * sent) * gnn_element(x), &task->output,
                          &task->job.error);
    }
    if (status == CULM_OK) {
        copy_rows(task->output->data, (size_t)sent * gnn_element(x), task->input->data, slice->row,
                  slice->count, (size_t)sent * gnn_element(x), (size_t)width * gnn_element(x));
    }
    return status;
}

static enum culm_status fill(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                             struct gnn_input *input, const struct culm_gnn_source *source) {
    const struct culm_gnn_gather *gather = &x->o.layout->gather[task->gather];
    const struct culm_gnn_structure *s = x->o.structure;
    const struct culm_gnn_need *need =
        culm_gnn_structure_need(s, gather->transposed, task->interval);
    uint32_t first = need->start[source->interval];
    int64_t count = need->start[source->interval + 1] - first;
    int64_t rows = culm_gnn_structure_rows(s, source->interval), stride, sent;
    const uint32_t *row = need->row + first;
    widths(x, task->gather, &stride, &sent);
    if (source->readers) {
        const struct gnn_in_slice *in;
        enum culm_status status = find_in_slice(x, task, input, gather->transposed, source, &in);
        if (status != CULM_OK) {
            return status;
        }
        rows = in->count;
        row = in->at;
        stride = sent;
    }
    size_t width = (size_t)sent * gnn_element(x), apart = (size_t)stride * gnn_element(x);
    if (source->blob->size_bytes != (size_t)rows * apart) {
        return gnn_wrong_rows(task, "rows", source->blob->size_bytes, (size_t)rows * apart);
    }
    size_t pitch = (size_t)x->pitch * gnn_element(x);
    copy_rows((char *)x->table.data + first * pitch, pitch, source->blob->data, row, count, width,
              apart);
    return CULM_OK;
}

/* Sums over neighbours, and copies the part of rows that bypasses the gather. */
static void add_up(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                   const struct gnn_input *input, const char *own, char *y) {
    const struct culm_gnn_gather *gather = &x->o.layout->gather[task->gather];
    const struct culm_gnn_structure *s = x->o.structure;
    const struct culm_gnn_rows *rows = &input->gather[direction(x, gather->transposed)];
    const struct culm_gnn_need *need =
        culm_gnn_structure_need(s, gather->transposed, task->interval);
    bool mean = x->o.config->model.arch == CULM_GNN_SAGE;
    int64_t width, sent;
    widths(x, task->gather, &width, &sent);
    CULM_RUN(x->o.device, spmm, .y = gnn_out(x, y), .x = gnn_in(x, x->rows), .start = rows->start,
             .column = rows->column,
             .scale = mean && x->flow[task->gather].back ? NULL : input->scale, .n = input->n,
             .f = sent, .ldx = x->pitch, .ldy = width, .rows = need->start[s->intervals]);
    size_t element = gnn_element(x), from = (size_t)sent * element, all = (size_t)width * element;
    for (size_t r = 0; r < (size_t)input->n && width > sent; r++) {
        memcpy(y + r * all + from, own + r * all + from, all - from);
    }
}

/* The rows that the interval itself has made; NULL if no part of them bypasses the gather. */
static enum culm_status own_rows(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                 const struct gnn_input *input, const void **ret_own) {
    size_t bytes = (size_t)input->n * x->o.layout->gather[task->gather].row_bytes;
    int64_t width, sent;
    widths(x, task->gather, &width, &sent);
    *ret_own = NULL;
    if (width == sent) {
        return CULM_OK;
    }
    const struct culm_blob *made = task->made ? task->made[task->gather] : NULL;
    if (!made || made->size_bytes != bytes) {
        return gnn_wrong_rows(task, "rows of its own", made ? made->size_bytes : 0, bytes);
    }
    *ret_own = made->data;
    return CULM_OK;
}

/* If a single source has all rows of the table, in order and well enough aligned, returns it, so
 * that it can be read in place; else NULL. */
static const struct culm_gnn_source *whole_table(const struct culm_gnn_numeric *x,
                                                 const struct culm_gnn_task *task,
                                                 int64_t table_rows, int64_t width, int64_t sent) {
    const struct culm_gnn_source *source = task->source;
    int64_t line = 64 / (int64_t)gnn_element(x);
    return task->source_count == 1 && !source->readers &&
                   culm_gnn_structure_rows(x->o.structure, source->interval) == table_rows &&
                   source->blob->size_bytes == (size_t)(table_rows * width) * gnn_element(x) &&
                   (width == gnn_table_pitch(x, sent) || width % line == 0)
               ? source
               : NULL;
}

enum culm_status gnn_gather(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    const struct culm_gnn_gather *gather = &x->o.layout->gather[task->gather];
    const struct gnn_flow *flow = &x->flow[task->gather];
    const struct culm_gnn_border *border = &x->o.model->border[flow->border];
    const struct culm_gnn_structure *s = x->o.structure;
    const struct culm_gnn_need *need =
        culm_gnn_structure_need(s, gather->transposed, task->interval);
    int64_t table_rows = need->start[s->intervals], filled = 0, width, sent;
    const void *own = NULL;
    struct gnn_input *input;
    enum culm_status status = gnn_find_input(x, task, &input);
    widths(x, task->gather, &width, &sent);
    const struct culm_gnn_source *whole = whole_table(x, task, table_rows, width, sent);
    x->pitch = whole ? width : gnn_table_pitch(x, sent);
    if (status == CULM_OK && !whole) {
        size_t bytes = (size_t)(table_rows * x->pitch) * gnn_element(x);
        status = gnn_need_room(x, &x->table, bytes + 64, &task->job.error);
    }
    x->rows = whole ? whole->blob->data : x->table.data;
    for (int32_t i = 0; i < task->source_count && status == CULM_OK; i++) {
        const struct culm_gnn_source *source = &task->source[i];
        filled += need->start[source->interval + 1] - need->start[source->interval];
        status = whole ? CULM_OK : fill(x, task, input, source);
    }
    if (status == CULM_OK && filled != table_rows) {
        return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                              "interval %d gathers %lld rows and was given %lld", task->interval,
                              (long long)table_rows, (long long)filled);
    }
    if (status == CULM_OK) {
        status = own_rows(x, task, input, &own);
    }
    if (status == CULM_OK) {
        bool keeps = !flow->back && !flow->evaluate;
        status = gnn_blob(x, gnn_gathered_bytes(x->o.model, border, input->n, keeps), &task->output,
                          &task->job.error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (border->heads == 0) {
        add_up(x, task, input, own, task->output->data);
        return CULM_OK;
    }
    return flow->back ? gnn_attend_back(x, task, input, own, task->output->data)
                      : gnn_attend(x, task, input, own, task->output->data);
}
