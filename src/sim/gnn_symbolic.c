/* The symbolic executor of graph networks. See gnn_symbolic.h. */
#include "sim/gnn_symbolic.h"

#include "base/rng.h"
#include "interval/roc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_BYTES sizeof(uint64_t)
#define DENSE 128 /* of more intervals, each reads about SPARSE others */
#define SPARSE 4

/* The content of a blob of weights, and of one of the whole state. */
struct state {
    int64_t version;
    uint64_t digest;
};

struct symbolic {
    struct culm_gnn_exec exec;        /* first member */
    struct culm_gnn_disk own;         /* checkpoints that it has published itself */
    struct culm_gnn_witness *witness; /* NULL: nobody looks, and the disk is its own */
    const struct culm_gnn_layout *layout;
    const struct culm_gnn_pace *pace;
    struct culm_blob_pool *pool;
    uint64_t seed, saves;
    int64_t ages[CULM_GNN_STALENESS_MAX + 1];
    bool *here; /* [intervals] OWN or TAKE */
    struct state state;
    culm_gnn_symbolic_refuse *refuse;
    void *refuse_context;
    int32_t node;
};

/* --- the graph --- */

enum culm_status culm_gnn_symbolic_layout(uint64_t seed, int32_t intervals, int32_t stages,
                                          struct culm_gnn_layout *ret_layout,
                                          struct culm_error *error) {
    struct culm_gnn_layout *layout = ret_layout;
    uint64_t dice = culm_rng_mix(seed, 11);
    enum culm_status status = culm_gnn_layout_init(layout, intervals, error);
    if (status != CULM_OK) {
        return status;
    }
    for (int32_t i = 0; i < intervals; i++) {
        layout->first[i + 1] = layout->first[i] + 1 + (int64_t)culm_rng_below(&dice, 4);
        for (int32_t j = 0; j < intervals; j++) {
            bool reads = i == j ||
                         (intervals <= DENSE ? culm_rng_below(&dice, 3) > 0
                                             : culm_rng_below(&dice, (uint64_t)intervals) < SPARSE);
            if (reads && (culm_gnn_layout_reads(layout, false, i, j) != CULM_OK ||
                          culm_gnn_layout_reads(layout, true, j, i) != CULM_OK)) {
                culm_gnn_layout_release(layout);
                return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
            }
        }
    }
    size_t bytes[CULM_GNN_STAGES_MAX];
    for (int s = 0; s < CULM_GNN_STAGES_MAX; s++) {
        bytes[s] = ROW_BYTES;
    }
    culm_gnn_layout_steps(layout, stages, bytes, bytes, bytes);
    for (int32_t s = 0; s < layout->steps; s++) {
        enum culm_gnn_step_kind kind = layout->step[s].kind;
        layout->step[s].remote = kind != CULM_GNN_LOSS && kind != CULM_GNN_SCORE;
        layout->step[s].streams = true;
        layout->step[s].kept = kind == CULM_GNN_BACKWARD && culm_rng_mix(seed, 14) % 2;
    }
    for (int32_t g = 0; g < layout->gathers; g++) {
        layout->gather[g].edges =
            culm_rng_mix(seed, 12) % 2; /* as with attention: one more phase */
        /* as in Dorylus's order: the first stage makes the same rows in every epoch */
        layout->gather[g].constant =
            culm_rng_mix(seed, 13) % 3 == 0 && (g == 0 || g == layout->train_gathers);
    }
    layout->block_least = layout->block_unit = 1;
    layout->payload_max = 4096;
    layout->scores = seed % 2 != 0;
    return CULM_OK;
}

static int64_t rows_of(const struct culm_gnn_layout *layout, int32_t interval) {
    return layout->first[interval + 1] - layout->first[interval];
}

/* Whether a gather of `reader` reads row `row` of `interval`. It reads at least the first row of
 * each interval that it reads. */
static bool reads_row(const struct symbolic *s, bool transposed, int32_t reader, int32_t interval,
                      int64_t row) {
    if (!culm_set_has(&s->layout->reads[transposed][reader], interval)) {
        return false;
    }
    uint64_t key = culm_rng_mix(s->seed, (uint64_t)reader << 20 | (uint64_t)interval << 8 |
                                             (uint64_t)row << 1 | transposed);
    return row == 0 || key % 3 > 0;
}

static bool in_slice(const struct symbolic *s, bool transposed, const struct culm_set *readers,
                     int32_t interval, int64_t row) {
    for (int32_t r = culm_set_next(readers, 0); r >= 0; r = culm_set_next(readers, r + 1)) {
        if (reads_row(s, transposed, r, interval, row)) {
            return true;
        }
    }
    return false;
}

/* --- tasks --- */

static void note_made(struct symbolic *s, const struct culm_blob *blob, uint32_t attempt) {
    for (size_t w = 0; s->witness && blob && w < blob->size_bytes / sizeof(uint64_t); w++) {
        culm_gnn_witness_made(s->witness, ((const uint64_t *)blob->data)[w], attempt);
    }
}

static void note_read(struct symbolic *s, const struct culm_blob *blob, uint32_t attempt,
                      const char *what) {
    for (size_t w = 0; s->witness && blob && w < blob->size_bytes / sizeof(uint64_t); w++) {
        culm_gnn_witness_read(s->witness, ((const uint64_t *)blob->data)[w], attempt, what);
    }
}

/* A row: the epoch in which it was made, and a digest. */
static uint64_t row_of(int64_t epoch, uint64_t digest) {
    return (uint64_t)epoch << 48 | digest >> 16;
}

static enum culm_status get(struct symbolic *s, size_t bytes, struct culm_blob **ret_blob,
                            struct culm_error *error) {
    return culm_blob_pool_get(s->pool, bytes, ret_blob) == CULM_OK
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

static enum culm_status slice(struct symbolic *s, struct culm_gnn_task *task) {
    bool transposed = s->layout->gather[task->gather].transposed;
    int64_t rows = rows_of(s->layout, task->interval), count = 0;
    for (int64_t r = 0; r < rows; r++) {
        count += in_slice(s, transposed, &task->readers, task->interval, r);
    }
    enum culm_status status = get(s, (size_t)count * ROW_BYTES, &task->output, &task->job.error);
    if (status != CULM_OK) {
        return status;
    }
    const uint64_t *from = task->input->data;
    uint64_t *to = task->output->data;
    for (int64_t r = 0; r < rows; r++) {
        if (in_slice(s, transposed, &task->readers, task->interval, r)) {
            *to++ = from[r];
        }
    }
    return CULM_OK;
}

/* Mixes in the rows of a source that the interval reads. False: the source has the wrong size. */
static bool mix_source(struct symbolic *s, const struct culm_gnn_task *task,
                       const struct culm_gnn_source *source, uint64_t *digest) {
    bool transposed = s->layout->gather[task->gather].transposed;
    const uint64_t *word = source->blob->data;
    int32_t old =
        task->gather < s->layout->train_gathers ? culm_gnn_pace_staleness(s->pace, task->epoch) : 0;
    size_t at = 0, words = source->blob->size_bytes / ROW_BYTES;
    for (int64_t r = 0; r < rows_of(s->layout, source->interval); r++) {
        bool there =
            !source->readers || in_slice(s, transposed, source->readers, source->interval, r);
        bool read = reads_row(s, transposed, task->interval, source->interval, r);
        if ((read && !there) || (there && at == words)) {
            return false;
        }
        bool dated = read && !s->layout->gather[task->gather].constant;
        int64_t age = dated ? task->epoch - (int64_t)(word[at] >> 48) : 0;
        if (age < 0 || age > old) {
            return false;
        }
        s->ages[age] += dated;
        if (dated && s->witness) {
            culm_gnn_witness_read(s->witness, word[at], task->attempt, "a row");
        }
        if (read) {
            *digest = culm_rng_mix(*digest, word[at]);
        }
        at += there;
    }
    return at == words;
}

static enum culm_status gather(struct symbolic *s, struct culm_gnn_task *task) {
    const struct culm_set *reads =
        &s->layout->reads[s->layout->gather[task->gather].transposed][task->interval];
    uint64_t digest = culm_rng_mix(s->seed, (uint64_t)task->gather);
    int32_t at = 0;
    for (int32_t j = culm_set_next(reads, 0); j >= 0; j = culm_set_next(reads, j + 1)) {
        if (at == task->source_count || task->source[at].interval != j ||
            !mix_source(s, task, &task->source[at], &digest)) {
            return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                                  "gather %d of interval %d lacks rows of %d, or they are too old",
                                  task->gather, task->interval, j);
        }
        at++;
    }
    size_t rows = (size_t)rows_of(s->layout, task->interval);
    enum culm_status status = get(s, rows * ROW_BYTES, &task->output, &task->job.error);
    for (size_t r = 0; r < rows && status == CULM_OK; r++) {
        ((uint64_t *)task->output->data)[r] = culm_rng_mix(digest, r);
    }
    if (status == CULM_OK) {
        note_made(s, task->output, task->attempt);
    }
    return status;
}

static uint64_t digest_of(const struct culm_blob *blob, uint64_t digest) {
    for (size_t w = 0; blob && w < blob->size_bytes / sizeof(uint64_t); w++) {
        digest = culm_rng_mix(digest, ((const uint64_t *)blob->data)[w]);
    }
    return digest;
}

/* What a stage makes of a row. */
static uint64_t apply_row(const struct culm_gnn_task *task, const struct state *weights,
                          int64_t row, int64_t at) {
    uint64_t digest =
        culm_rng_mix(weights->digest, (uint64_t)task->step << 32 | (uint64_t)task->interval);
    const struct culm_blob *const rows[] = {task->rows, task->d_rows};
    for (int r = 0; r < 2; r++) {
        if (rows[r]) {
            digest = culm_rng_mix(digest, ((const uint64_t *)rows[r]->data)[at]);
        }
    }
    return culm_rng_mix(digest, (uint64_t)row);
}

static bool has_rows(const struct culm_blob *rows, int32_t gather, int64_t count) {
    return gather < 0 ? !rows : rows && rows->size_bytes == (size_t)count * ROW_BYTES;
}

static enum culm_status apply(struct symbolic *s, struct culm_gnn_task *task) {
    const struct culm_gnn_step *step = &s->layout->step[task->step];
    const struct state *weights = task->weights->data;
    int64_t rows = rows_of(s->layout, task->interval), first = 0, count = rows;
    int32_t blocks = culm_gnn_layout_blocks(s->layout, task->step, rows);
    if (task->block > 0) {
        count = culm_gnn_layout_block(s->layout, rows, blocks, task->block - 1, &first);
    }
    note_read(s, task->rows, task->attempt, "a gathered row");
    note_read(s, task->d_rows, task->attempt, "a gathered row");
    bool begins = task->block <= 1;
    bool scores = step->kind == CULM_GNN_SCORE && s->layout->scores;
    if (weights->version >= task->epoch ||
        weights->version < culm_gnn_pace_version(s->pace, task->epoch) ||
        !has_rows(task->rows, step->rows, count) || !has_rows(task->d_rows, step->d_rows, count) ||
        !s->here[task->interval] ||
        (task->output != NULL) != (!begins && (step->makes >= 0 || scores)) ||
        (task->gradient != NULL) != (!begins && step->gradient)) {
        return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                              "step %d of interval %d in epoch %" PRId64 " with version %" PRId64
                              " of the weights, or without what it reads",
                              task->step, task->interval, task->epoch, weights->version);
    }
    enum culm_status status = CULM_OK;
    if (begins && step->makes >= 0) {
        status = get(s, (size_t)rows * ROW_BYTES, &task->output, &task->job.error);
    }
    if (begins && scores) {
        status =
            get(s, (size_t)rows * sizeof(struct culm_gnn_scored), &task->output, &task->job.error);
    }
    if (begins && step->gradient && status == CULM_OK) {
        status = get(s, sizeof(uint64_t), &task->gradient, &task->job.error);
    }
    if (status != CULM_OK) {
        return status;
    }
    uint64_t *gradient = step->gradient ? task->gradient->data : NULL;
    if (begins && gradient) {
        *gradient = 77;
    }
    for (int64_t r = first; r < first + count; r++) {
        uint64_t digest = apply_row(task, weights, r, r - first);
        if (step->makes >= 0) {
            bool constant = s->layout->gather[step->makes].constant;
            uint64_t same = culm_rng_mix(s->seed, (uint64_t)task->interval << 8 | (uint64_t)r);
            ((uint64_t *)task->output->data)[r] =
                constant ? row_of(0, same) : row_of(task->epoch, digest);
        }
        if (scores) {
            ((struct culm_gnn_scored *)task->output->data)[r] = (struct culm_gnn_scored){
                .score = (float)(digest % 8),
                .what = culm_gnn_scored_what((uint32_t)(r % 3), digest >> 8 & 1)};
        }
        if (gradient) { /* in the order of rows */
            *gradient = culm_rng_mix(*gradient * 3, digest);
        }
        task->totals.loss += step->kind == CULM_GNN_LOSS ? (double)(digest % 1000) : 0;
        task->totals.correct[CULM_GNN_VALID] += step->kind == CULM_GNN_SCORE && digest % 2;
    }
    note_made(s, step->makes >= 0 ? task->output : NULL, task->attempt);
    note_made(s, task->gradient, task->attempt);
    return CULM_OK;
}

static void fold_copy(void *self, void *out, const void *a, size_t bytes) {
    (void)self;
    memcpy(out, a, bytes);
}

/* Stands for addition; neither commutative nor associative, so the order shows. */
static void fold_add(void *self, void *out, const void *a, const void *b, size_t bytes) {
    (void)self;
    (void)bytes;
    *(uint64_t *)out = culm_rng_mix(*(const uint64_t *)a * 3, *(const uint64_t *)b);
}

static enum culm_status fold(struct symbolic *s, struct culm_gnn_task *task) {
    static const struct culm_fold_ops ops = {fold_copy, fold_add};
    enum culm_status status = get(s, sizeof(uint64_t), &task->output, &task->job.error);
    if (status != CULM_OK) {
        return status;
    }
    for (int32_t n = task->root;
         n < task->tree->count && culm_fold_tree_covers(task->tree, task->root, n); n++) {
        note_read(s, task->slice[n].blob, task->attempt, "a part of a sum");
    }
    const struct culm_fold sum = {.tree = task->tree,
                                  .slice = task->slice,
                                  .size_bytes = sizeof(uint64_t),
                                  .pool = s->pool,
                                  .ops = &ops};
    status = culm_fold_sum(&sum, task->root, task->output->data, &task->job.error);
    if (status == CULM_OK) {
        note_made(s, task->output, task->attempt);
    }
    return status;
}

/* --- holders --- */

static enum culm_status check_state(const struct symbolic *s, struct culm_gnn_task *task) {
    return s->state.digest == task->digest ? CULM_OK
                                           : culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                                                            "memory of the state was damaged");
}

static enum culm_status load(struct symbolic *s, struct culm_gnn_task *task) {
    int64_t version = 0;
    uint64_t digest = culm_gnn_symbolic_initial(s->seed);
    if (task->source_path[0] &&
        sscanf(task->source_path, "file-%" SCNd64 "-%" SCNx64, &version, &digest) != 2) {
        return culm_error_set(&task->job.error, CULM_ERR_FORMAT, "'%s'", task->source_path);
    }
    if (version != task->version) {
        return culm_error_set(&task->job.error, CULM_ERR_INTERNAL, "version %" PRId64 " of '%s'",
                              task->version, task->source_path);
    }
    if (s->witness) {
        culm_gnn_witness_loads(s->witness, version, digest);
    }
    s->state = (struct state){version, digest};
    task->digest = digest;
    return CULM_OK;
}

static enum culm_status step(struct symbolic *s, struct culm_gnn_task *task) {
    if (s->state.version != task->epoch - 1) {
        return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                              "a step of epoch %" PRId64 " from version %" PRId64, task->epoch,
                              s->state.version);
    }
    if (check_state(s, task) != CULM_OK) {
        return CULM_ERR_INTERNAL;
    }
    uint64_t digest = s->state.digest;
    for (int32_t g = 0; g < s->layout->stages; g++) {
        digest = digest_of(task->whole[g], digest);
    }
    const bool anew = s->witness && !culm_gnn_witness_knows_step(s->witness, digest);
    for (int32_t g = 0; g < s->layout->stages && anew; g++) {
        note_read(s, task->whole[g], task->attempt, "a sum");
    }
    if (s->witness) {
        culm_gnn_witness_stepped(s->witness, task->epoch, s->state.digest, digest);
    }
    s->state = (struct state){task->epoch, digest};
    task->digest = digest;
    return CULM_OK;
}

static enum culm_status put_state(struct symbolic *s, struct culm_gnn_task *task) {
    enum culm_status status = get(s, sizeof s->state, &task->output, &task->job.error);
    if (status == CULM_OK) {
        memcpy(task->output->data, &s->state, sizeof s->state);
        task->digest = s->state.digest;
    }
    if (status == CULM_OK && task->version != s->state.version) {
        return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                              "the state is of another version");
    }
    return status;
}

static enum culm_status import(struct symbolic *s, struct culm_gnn_task *task) {
    memcpy(&s->state, task->input->data, sizeof s->state);
    return s->state.version == task->version && s->state.digest == task->digest
               ? CULM_OK
               : culm_error_set(&task->job.error, CULM_ERR_FORMAT, "a copy differs");
}

/* --- files --- */

/* One in four times: of whatever kind, as the protocol treats them alike. */
static bool disk_is_full(struct symbolic *s, const struct culm_gnn_task *task) {
    return culm_rng_mix(s->seed, 7000 + (uint64_t)task->version + 100 * s->saves++) % 4 == 0;
}

/* A piece is "VERSION NODE DIGEST". */
static enum culm_status save(struct symbolic *s, struct culm_gnn_task *task) {
    const struct state *input = task->input->data;
    if (disk_is_full(s, task)) {
        return culm_error_set(&task->job.error, CULM_ERR_IO, "the disk is full");
    }
    if (input->version != task->version) {
        return culm_error_set(&task->job.error, CULM_ERR_INTERNAL, "a piece of another version");
    }
    snprintf(task->text, sizeof task->text, "%" PRId64 " %d %" PRIx64, input->version, task->node,
             input->digest);
    return CULM_OK;
}

static struct culm_gnn_disk *disk_of(struct symbolic *s) {
    return s->witness ? culm_gnn_witness_disk(s->witness) : &s->own;
}

/* In the run's own folder, what is newer is of a history that was rolled back, and gives way. */
static bool put_file(struct symbolic *s, const struct culm_gnn_task *task, int64_t version,
                     uint64_t digest) {
    const struct culm_gnn_disk_file file = {
        .version = version, .digest = digest, .verdict = task->verdict, .branch = task->branch};
    while (!s->witness && s->own.count > 0 && s->own.file[s->own.count - 1].version >= version) {
        s->own.count--;
    }
    struct culm_gnn_disk *disk = disk_of(s);
    for (int32_t f = 0; f < disk->count; f++) {
        disk->file[f].damaged |= disk->file[f].version == version &&
                                 !culm_gnn_past_names(&task->past, version, disk->file[f].branch);
    }
    return culm_gnn_disk_put(disk, &file);
}

static enum culm_status publish(struct symbolic *s, struct culm_gnn_task *task) {
    int64_t version = -1;
    int node = -1;
    uint64_t digest = 0;
    if (disk_is_full(s, task)) {
        return culm_error_set(&task->job.error, CULM_ERR_IO, "cannot rename on the simulated disk");
    }
    if (sscanf(task->piece, "%" SCNd64 " %d %" SCNx64, &version, &node, &digest) != 3 ||
        version != task->version) {
        return culm_error_set(&task->job.error, CULM_ERR_INTERNAL, "a piece of another version");
    }
    if (!task->weights_only && s->witness) {
        culm_gnn_witness_saves(s->witness, version, digest);
    }
    if (!task->weights_only && !put_file(s, task, version, digest)) {
        return culm_error_set(
            &task->job.error, CULM_ERR_IO,
            "the simulated disk has another checkpoint of epoch %" PRId64 ", which stays", version);
    }
    snprintf(task->text, sizeof task->text,
             task->weights_only ? "weights-%" PRId64 "-%" PRIx64 : "file-%" PRId64 "-%" PRIx64,
             version, digest);
    return CULM_OK;
}

/* A disk that fails may seem to have room, or to have none. */
static enum culm_status room(struct symbolic *s, struct culm_gnn_task *task) {
    static const enum culm_room_for rooms[] = {CULM_ROOM_NOTHING, CULM_ROOM_WEIGHTS, CULM_ROOM_ALL};
    uint64_t dice = culm_rng_mix(s->seed, 8000 + (uint64_t)task->version + 100 * s->saves++);
    const uint64_t drawn = culm_rng_below(&dice, 6);
    task->room =
        rooms[drawn < 2 ? drawn : 2]; /* often enough for what is held to be saved in time */
    snprintf(task->text, sizeof task->text, "%s",
             task->held && culm_rng_below(&dice, 2) ? "/elsewhere" : "");
    snprintf(task->note, sizeof task->note, "the simulated disk is full");
    return CULM_OK;
}

static void name_file(const struct culm_gnn_disk_file *file, char *ret_path, size_t size) {
    snprintf(ret_path, size, "file-%" PRId64 "-%" PRIx64, file->version, file->digest);
}

/* One in four is damaged; so is one that could not be loaded. */
static bool is_damaged(struct symbolic *s, const struct culm_gnn_disk_file *file) {
    char path[64];
    name_file(file, path, sizeof path);
    const struct culm_gnn_task load = {
        .kind = CULM_GNN_TASK_LOAD, .version = file->version, .source_path = path};
    return culm_rng_mix(s->seed, 9000 + 100 * s->saves++) % 4 == 0 ||
           (s->refuse && s->refuse(s->refuse_context, s->node, &load) == CULM_ERR_FORMAT);
}

/* Apart from the run it stays damaged, and one of any version is found. */
static bool is_found(struct symbolic *s, const struct culm_gnn_task *task,
                     struct culm_gnn_disk_file *file) {
    if (file->damaged || (!s->witness && file->version > task->version) ||
        !culm_gnn_past_names(&task->past, file->version, file->branch)) {
        return false;
    }
    const bool damaged = is_damaged(s, file);
    file->damaged = damaged && s->witness;
    return !damaged;
}

static enum culm_status find(struct symbolic *s, struct culm_gnn_task *task) {
    struct culm_gnn_disk *disk = disk_of(s);
    int32_t at = disk->count - 1;
    while (at >= 0 && !is_found(s, task, &disk->file[at])) {
        at--;
    }
    task->version = 0;
    task->verdict = (struct culm_gnn_verdict){0};
    task->text[0] = '\0';
    if (at >= 0) {
        const struct culm_gnn_disk_file *found = &disk->file[at];
        task->version = found->version;
        task->verdict = found->verdict;
        name_file(found, task->text, sizeof task->text);
    }
    return CULM_OK;
}

static enum culm_status execute(struct culm_gnn_exec *exec, struct culm_gnn_task *task) {
    struct symbolic *s = (struct symbolic *)exec;
    enum culm_status refused = s->refuse ? s->refuse(s->refuse_context, s->node, task) : CULM_OK;
    if (refused != CULM_OK) {
        return culm_error_set(&task->job.error, refused, "as it was drawn");
    }
    switch (task->kind) {
    case CULM_GNN_TASK_OWN:
    case CULM_GNN_TASK_TAKE: s->here[task->interval] = true; return CULM_OK;
    case CULM_GNN_TASK_DROP: s->here[task->interval] = false; return CULM_OK;
    case CULM_GNN_TASK_GATHER: return gather(s, task);
    case CULM_GNN_TASK_SLICE: return slice(s, task);
    case CULM_GNN_TASK_FOLD: return fold(s, task);
    case CULM_GNN_TASK_PACK: return get(s, ROW_BYTES, &task->output, &task->job.error);
    case CULM_GNN_TASK_APPLY: return apply(s, task);
    case CULM_GNN_TASK_LOAD: return load(s, task);
    case CULM_GNN_TASK_STEP: return step(s, task);
    case CULM_GNN_TASK_WEIGHTS:
    case CULM_GNN_TASK_EXPORT:
        if (check_state(s, task) != CULM_OK) {
            return CULM_ERR_INTERNAL;
        }
        return put_state(s, task);
    case CULM_GNN_TASK_IMPORT: return import(s, task);
    case CULM_GNN_TASK_SAVE: return save(s, task);
    case CULM_GNN_TASK_PUBLISH: return publish(s, task);
    case CULM_GNN_TASK_DISCARD: return CULM_OK;
    case CULM_GNN_TASK_ROOM: return room(s, task);
    case CULM_GNN_TASK_FIND: return find(s, task);
    case CULM_GNN_TASK_FINISH:
        snprintf(task->weights_sha256, sizeof task->weights_sha256, "%.64s", task->text);
        snprintf(task->state_sha256, sizeof task->state_sha256, "%.64s", task->text);
        return CULM_OK;
    }
    return CULM_ERR_INTERNAL;
}

struct culm_gnn_exec *culm_gnn_symbolic_new(const struct culm_gnn_layout *layout,
                                            const struct culm_gnn_pace *pace, uint64_t seed,
                                            struct culm_blob_pool *pool) {
    static const struct culm_gnn_exec_ops ops = {sizeof ops, execute};
    struct symbolic *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    *s = (struct symbolic){.exec = {&ops},
                           .layout = layout,
                           .pace = pace,
                           .pool = pool,
                           .seed = seed,
                           .state = {-1, 0}};
    s->here = calloc((size_t)layout->intervals, sizeof *s->here);
    if (!s->here) {
        free(s);
        return NULL;
    }
    return &s->exec;
}

void culm_gnn_symbolic_free(struct culm_gnn_exec *exec) {
    struct symbolic *s = (struct symbolic *)exec;
    if (s) {
        free(s->here);
        free(s);
    }
}

bool culm_gnn_symbolic_resume(struct culm_gnn_exec *exec, const char *path, uint32_t branch,
                              const struct culm_gnn_verdict *verdict) {
    struct symbolic *s = (struct symbolic *)exec;
    struct culm_gnn_disk_file file = {.verdict = *verdict, .branch = branch};
    return sscanf(path, "file-%" SCNd64 "-%" SCNx64, &file.version, &file.digest) == 2 &&
           culm_gnn_disk_put(&s->own, &file);
}

void culm_gnn_symbolic_witness(struct culm_gnn_exec *exec, struct culm_gnn_witness *witness) {
    ((struct symbolic *)exec)->witness = witness;
}

uint64_t culm_gnn_symbolic_initial(uint64_t seed) { return culm_rng_mix(seed, 1); }

void culm_gnn_symbolic_trouble(struct culm_gnn_exec *exec, culm_gnn_symbolic_refuse *refuse,
                               void *context, int32_t node) {
    struct symbolic *s = (struct symbolic *)exec;
    s->refuse = refuse;
    s->refuse_context = context;
    s->node = node;
}

void culm_gnn_symbolic_flip(struct culm_gnn_exec *exec) {
    ((struct symbolic *)exec)->state.digest ^= 1;
}

const int64_t *culm_gnn_symbolic_ages(const struct culm_gnn_exec *exec) {
    return ((const struct symbolic *)exec)->ages;
}
