/*
 * The numeric executor: keeps inputs of intervals in a file if they exceed graph.memory_mb. An
 * input is written once, when it is made, and read again when it is needed and not in memory. The
 * least recently used one is dropped from memory first. All buffers are as large as the largest
 * input, so that each can be reused for any other.
 *
 * The file has no name, so it disappears with the process, however that ends. (On file systems
 * without O_TMPFILE it has a name until it has been opened.) The table that an input is gathered
 * from is not counted here; numeric_input.c makes it only as large as the limit allows beside the
 * largest input.
 */
#include "gnn/numeric_internal.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool gnn_limited(const struct culm_gnn_numeric *x) {
    return x->o.graph && x->o.config->graph.memory_mb > 0 && !x->o.model->plan.sparse;
}

static enum culm_status open_file(struct culm_gnn_numeric *x, struct culm_error *error) {
    const char *temporary = getenv("TMPDIR");
    const char *folder = x->o.run_dir                ? x->o.run_dir
                         : temporary && temporary[0] ? temporary
                                                     : "/tmp";
    char path[CULM_PATH_MAX];
    if (x->spill >= 0) {
        return CULM_OK;
    }
    enum culm_status status = culm_path_format(path, error, "%s/features-XXXXXX", folder);
    if (status != CULM_OK) {
        return status;
    }
    x->spill = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (x->spill >= 0) {
        return CULM_OK;
    }
    x->spill = mkostemp(path, O_CLOEXEC); /* the file system has no O_TMPFILE */
    if (x->spill < 0) {
        return culm_error_errno(error, errno, "graph.memory_mb: make a file in '%s'", folder);
    }
    (void)unlink(path);
    return CULM_OK;
}

static void let_go(struct culm_gnn_numeric *x, struct gnn_input *input) {
    culm_blob_clear(&input->packed);
    input->dense = input->own_dense = NULL;
    x->resident -= x->largest;
}

static void make_room(struct culm_gnn_numeric *x) {
    size_t limit = (size_t)x->o.config->graph.memory_mb << 20;
    while (x->resident > 0 && x->resident + x->largest > limit) {
        struct gnn_input *oldest = NULL;
        for (int32_t i = 0; i < x->o.layout->intervals; i++) {
            struct gnn_input *one = &x->input[i];
            if (one->in_file && one->packed && (!oldest || one->used < oldest->used)) {
                oldest = one;
            }
        }
        if (!oldest) {
            return;
        }
        let_go(x, oldest);
    }
}

enum culm_status gnn_spill_blob(struct culm_gnn_numeric *x, size_t bytes,
                                struct culm_blob **ret_blob, struct culm_error *error) {
    size_t front;
    for (int32_t i = 0; i < x->o.layout->intervals && !x->measured; i++) {
        size_t one = gnn_input_bytes(x->o.model, x->o.structure, x->o.graph, i, &front);
        x->largest = one > x->largest ? one : x->largest;
    }
    x->measured = true;
    make_room(x);
    enum culm_status status = gnn_blob(x, x->largest, ret_blob, error);
    if (status == CULM_OK) {
        (*ret_blob)->size_bytes = bytes;
    }
    return status;
}

static enum culm_status move(struct culm_gnn_numeric *x, void *data, size_t bytes, uint64_t at,
                             bool write, struct culm_error *error) {
    for (size_t done = 0; done < bytes;) {
        char *here = (char *)data + done;
        off_t offset = (off_t)(at + done);
        ssize_t n = write ? pwrite(x->spill, here, bytes - done, offset)
                          : pread(x->spill, here, bytes - done, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return culm_error_errno(error, n < 0 ? errno : EIO,
                                    "graph.memory_mb: %s features that are not in memory",
                                    write ? "write" : "read");
        }
        done += (size_t)n;
    }
    return CULM_OK;
}

enum culm_status gnn_spill(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                           struct gnn_input *input, size_t front) {
    struct culm_error *error = &task->job.error;
    enum culm_status status = open_file(x, error);
    input->bytes = input->packed->size_bytes;
    input->file_at = (uint64_t)task->interval * x->largest; /* the same place if made again */
    if (status == CULM_OK) {
        status = move(x, input->packed->data, input->bytes, input->file_at, true, error);
    }
    if (status == CULM_OK) {
        status = gnn_blob(x, front, &input->front, error);
    }
    if (status == CULM_OK) {
        memcpy(input->front->data, input->packed->data, front);
        input->in_file = true;
        input->used = ++x->clock;
        x->resident += x->largest;
    }
    return status;
}

enum culm_status gnn_spill_load(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                struct gnn_input *input) {
    if (!input->in_file) {
        return CULM_OK;
    }
    input->used = ++x->clock;
    if (input->packed) {
        return CULM_OK;
    }
    enum culm_status status = gnn_spill_blob(x, input->bytes, &input->packed, &task->job.error);
    if (status != CULM_OK) {
        return status;
    }
    x->resident += x->largest;
    status = move(x, input->packed->data, input->bytes, input->file_at, false, &task->job.error);
    if (status == CULM_OK) {
        status = gnn_unpack(x, task, input);
    }
    if (status != CULM_OK) {
        let_go(x, input);
    }
    return status;
}

void gnn_spill_forget(struct culm_gnn_numeric *x, struct gnn_input *input) {
    if (input->in_file && input->packed) {
        x->resident -= x->largest;
    }
    culm_blob_unref(input->front);
    input->front = NULL;
    input->in_file = false;
}
