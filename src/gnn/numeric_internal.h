/* Internals of the numeric executor, shared by numeric*.c only. See numeric.h. */
#ifndef CULM_GNN_NUMERIC_INTERNAL_H
#define CULM_GNN_NUMERIC_INTERNAL_H

#include "gnn/numeric.h"
#include "gnn/spans.h"

#include "graph/sparse.h"
#include "model/step.h"

/* The rows of an interval that make up the slice for `readers`. */
struct gnn_slice {
    struct culm_set readers;
    int64_t count;
    uint32_t *row; /* [count] */
};

/* Where the rows that one interval reads of another stand in the other's slice for `readers`. */
struct gnn_in_slice {
    struct culm_set readers;
    int64_t count; /* rows of the slice */
    uint32_t *at;  /* NULL: not computed yet */
};

/* A buffer that grows as needed. Its content is lost then. */
struct gnn_room {
    void *data;
    size_t size_bytes;
};

/* Activations of a stage, kept from the forward step to the backward step, in pieces. They belong
 * to this epoch, these weights and these rows. */
struct gnn_kept {
    struct culm_blob *weights;
    struct culm_blob *rows[CULM_GNN_BLOCKS_MAX + 1]; /* by task->block; NULL: constant input */
    int64_t epoch;
    bool whole;             /* computed by one task for all rows, not by one for each block */
    uint64_t there;         /* a bit for each piece that is kept */
    struct culm_blob *room; /* the activations; NULL: nothing is kept */
    size_t bytes;           /* counted towards options.kept_most */
};

/* The input of an interval, and what is derived from it. */
struct gnn_input {
    struct culm_blob *packed; /* the result of PACK; the arrays up to `sparse` are in it */
    int64_t n;                /* rows; 0: the interval is not here */
    const uint32_t *id;       /* [n] original numbers of vertices */
    const float *scale;       /* [n] gcn: D^-1/2; sage: 1 / neighbours, or 0 if there are none */
    const int32_t *label;
    const uint8_t *use;             /* [n] enum culm_graph_use */
    const float *dense;             /* [n,columns]; NULL: sparse */
    const float *own_dense;         /* the same of own features, if the model has them */
    struct culm_sparse_rows sparse; /* its arrays by column and for dropout are in `own` */
    struct culm_sparse_dropped holds;
    struct culm_blob *own;
    /* Dense features in a file: a copy of what precedes them in `packed`, the size and place of all
     * of it in the file, and the time of last use. `packed`, `dense` and `own_dense` are NULL while
     * they are not in memory. */
    struct culm_blob *front;
    size_t bytes;
    uint64_t file_at, used;
    bool in_file;
    int32_t *train_label; /* [n] -1: not a training vertex */
    /* [purpose][stage] The shape of the last piece; NULL: as the stage was compiled. */
    struct culm_stage_rows *rows[2][CULM_GNN_STAGES_MAX];
    /* [purpose][stage][0: of a block; 1: of the last block] The same for steps that stream. */
    struct culm_stage_rows *block_rows[2][CULM_GNN_STAGES_MAX][2];
    struct gnn_kept kept[CULM_GNN_STAGES_MAX];
    /* Only for owners; indexed by [transposed], and only [0] is used for an undirected graph. */
    struct culm_gnn_rows gather[2];
    uint32_t *table_id[2]; /* original numbers of the table's rows; NULL: not needed */
    struct gnn_slice
        *slice[2]; /* [intervals] of its own rows, for other intervals, by the least of them */
    struct gnn_in_slice *in_slice[2]; /* [intervals] in slices of other intervals */
};

/* The role of a gather in the model. */
struct gnn_flow {
    int32_t border;      /* the gather is at the border after this stage */
    bool back, evaluate; /* backward: rows are gradients; part of an evaluation */
};

struct culm_gnn_numeric {
    struct culm_gnn_exec exec;                /* first member */
    struct gnn_flow flow[CULM_GNN_STEPS_MAX]; /* [gathers] */
    struct culm_gnn_numeric_options o;
    int64_t weights;             /* floats */
    int32_t parts;               /* vectors of the state */
    struct culm_gnn_spans spans; /* optimizers by epoch; at least one */
    float *state;                /* [parts][weights]; NULL: not a holder */
    int64_t version;
    bool give_logits;
    struct gnn_input *input; /* [intervals] */
    /* The rows that the running gather reads, `pitch` elements apart: in `table`, or in the blob of
     * a single source that has them all. */
    const void *rows;
    int64_t pitch;
    struct gnn_room table, activations, scratch, made, index;
    int spill;                /* descriptor of the file for inputs; -1: none yet */
    bool measured;            /* `largest` has been computed */
    uint64_t clock;           /* counts uses of inputs */
    size_t resident, largest; /* bytes of file-backed inputs in memory; of the largest input */
    struct culm_gnn_kept_counts kept;
    struct gnn_room score[2]; /* for attention scores */
    struct gnn_room wide[3];  /* for bf16 rows as f32 */
};

/* What a packed input begins with. */
struct gnn_packed {
    uint64_t magic;
    int64_t n, columns;
    uint64_t entries; /* sparse; dense: 0 */
    uint64_t sparse, own;
};

/* Offsets of its arrays, and its size. */
struct gnn_places {
    size_t id, scale, label, use, dense, own, start, column, value, bytes;
};

/* numeric_room.c. Makes the buffer at least `bytes` large; if it grows, its content is lost.
 * CULM_ERR_MEMORY. */
enum culm_status gnn_need_room(struct culm_gnn_numeric *x, struct gnn_room *room, size_t bytes,
                               struct culm_error *error);
void gnn_room_drop(struct culm_gnn_numeric *x, struct gnn_room *room);
/* A new blob from the executor's pool. */
enum culm_status gnn_blob(struct culm_gnn_numeric *x, size_t bytes, struct culm_blob **ret_blob,
                          struct culm_error *error);
/* The input of the task's interval. CULM_ERR_INTERNAL if it is not here. */
enum culm_status gnn_find_input(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                struct gnn_input **ret_input);
/* Returns CULM_ERR_INTERNAL: a blob has the wrong size. */
enum culm_status gnn_wrong_rows(struct culm_gnn_task *task, const char *what, size_t have,
                                size_t want);

/* Where, in elements, the array begins that a gather appends to its n rows (model.h). */
static inline int64_t gnn_extra_at(const struct culm_gnn_border *border, int64_t n) {
    return (n * border->width + 15) & ~(int64_t)15;
}
/* The sizes, in elements and bytes, of what a gather makes for n rows; `keeps`: with the appended
 * array. */
static inline int64_t gnn_gathered_count(const struct culm_gnn_border *border, int64_t n,
                                         bool keeps) {
    return keeps && border->extra > 0 ? gnn_extra_at(border, n) + n * border->extra
                                      : n * border->width;
}
static inline size_t gnn_gathered_bytes(const struct culm_gnn_model *model,
                                        const struct culm_gnn_border *border, int64_t n,
                                        bool keeps) {
    return (size_t)gnn_gathered_count(border, n, keeps) * culm_dtype_bytes(model->rows);
}

/* The size of an element of rows, and rows as operands, in the run's type. */
static inline size_t gnn_element(const struct culm_gnn_numeric *x) {
    return culm_dtype_bytes(x->o.model->rows);
}
static inline struct culm_in gnn_in(const struct culm_gnn_numeric *x, const void *rows) {
    return (struct culm_in){rows, x->o.model->rows};
}
static inline struct culm_out gnn_out(const struct culm_gnn_numeric *x, void *rows) {
    return (struct culm_out){rows, x->o.model->rows};
}
/* The distance, in elements, between rows of a table whose rows have `row` elements. If it makes
 * the table at most a third larger, rows are aligned to cache lines, or evenly divide one. */
static inline int64_t gnn_table_pitch(const struct culm_gnn_numeric *x, int64_t row) {
    int64_t line = 64 / (int64_t)gnn_element(x), pitch = 1;
    while (pitch < row && pitch < line) {
        pitch *= 2;
    }
    pitch = (row + pitch - 1) / pitch * pitch;
    return 3 * (pitch - row) <= row ? pitch : row;
}
/* `count` elements of rows as f32: the rows themselves, or a copy in `room`. */
enum culm_status gnn_widen(struct culm_gnn_numeric *x, struct gnn_room *room, const void *rows,
                           int64_t count, const float **ret_rows, struct culm_error *error);
/* gnn_make returns where to compute rows in f32: in `rows` itself, or in `room` if they are to be
 * bf16; gnn_narrow then converts them into `rows`, if need be. */
enum culm_status gnn_make(struct culm_gnn_numeric *x, struct gnn_room *room, void *rows,
                          int64_t count, float **ret_rows, struct culm_error *error);
void gnn_narrow(struct culm_gnn_numeric *x, void *rows, const float *made, int64_t count);

/* numeric_state.c. Allocates the state of a holder, zeroed, unless it is there. */
enum culm_status gnn_state(struct culm_gnn_numeric *x, struct culm_error *error);
void gnn_state_drop(struct culm_gnn_numeric *x);
/* The digest of a state, of this node or as it was exported. */
uint64_t gnn_state_digest(struct culm_gnn_numeric *x, const float *state, int64_t version);
enum culm_status gnn_step(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_copy_weights(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_export(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_import(struct culm_gnn_numeric *x, struct culm_gnn_task *task);

/* numeric_packed.c */
struct gnn_packed gnn_packed_of(const struct culm_gnn_model *model,
                                const struct culm_gnn_structure *structure,
                                const struct culm_graph_data *graph, int32_t interval);
struct gnn_places gnn_places_of(const struct gnn_packed *packed);
/* Lays out one array after another, each aligned to 64 bytes; returns where this one is. */
static inline size_t gnn_place(size_t *at, size_t bytes) {
    size_t here = *at;
    *at += (bytes + 63) & ~(size_t)63;
    return here;
}
/* The size of an interval's packed input; *ret_front: that of the part before dense features. */
size_t gnn_input_bytes(const struct culm_gnn_model *model,
                       const struct culm_gnn_structure *structure,
                       const struct culm_graph_data *graph, int32_t interval, size_t *ret_front);
/* Sets the pointers into input->packed, once it is in memory. CULM_ERR_FORMAT: it is damaged. */
enum culm_status gnn_unpack(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                            struct gnn_input *input);

/* numeric_input.c */
enum culm_status gnn_own(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_take(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
void gnn_drop(struct culm_gnn_numeric *x, int32_t interval);

/* numeric_spill.c. Whether dense inputs go to a file; the other functions are then to be used. */
bool gnn_limited(const struct culm_gnn_numeric *x);
/* A blob for the packed input of an interval. Drops other inputs from memory to make room. */
enum culm_status gnn_spill_blob(struct culm_gnn_numeric *x, size_t bytes,
                                struct culm_blob **ret_blob, struct culm_error *error);
/* Writes the input that was just packed to the file. */
enum culm_status gnn_spill(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                           struct gnn_input *input, size_t front);
/* Reads the input from the file unless it is in memory, or does not come from a file at all. */
enum culm_status gnn_spill_load(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                struct gnn_input *input);
void gnn_spill_forget(struct culm_gnn_numeric *x, struct gnn_input *input);

/* numeric_kept.c. Where a forward step is to put the activations of a piece, so that they are kept;
 * NULL: they will not be. gnn_keep_made: they have been computed. */
void *gnn_keep(struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
               struct gnn_input *input, const struct culm_stage_info *info, int32_t piece,
               int32_t pieces);
void gnn_keep_made(struct gnn_input *input, int32_t stage, int32_t piece);
/* Drops activations of epochs that no step can use any more once `epoch` has begun. This matters
 * because they hold references to weights, and to an owner's rows, which are not counted. */
void gnn_kept_old(struct culm_gnn_numeric *x, int64_t epoch);
/* Called before a backward step: if its rows equal those of the forward step, they count as the
 * same from now on. */
void gnn_kept_meet(struct culm_gnn_task *task, struct gnn_input *input, int32_t stage);
/* The kept activations of a piece; NULL: there are none, so forward has to be computed again.
 * gnn_kept_read: they have been used, and may be dropped. */
void *gnn_find_kept(struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
                    struct gnn_input *input, const struct culm_stage_info *info, int32_t piece);
void gnn_kept_read(struct culm_gnn_numeric *x, struct gnn_input *input, int32_t stage,
                   int32_t piece);
void gnn_kept_drop(struct culm_gnn_numeric *x, struct gnn_input *input);

/* numeric_gather.c */
enum culm_status gnn_gather(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_make_slice(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
/* numeric_attention.c. The table has been filled. `rows` receives the result of the gather; `own`
 * has the rows that the interval itself has made for it. */
enum culm_status gnn_attend(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                            struct gnn_input *input, const void *own, void *rows);
enum culm_status gnn_attend_back(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                 struct gnn_input *input, const void *own, void *rows);
/* Makes y, the rows of gradients that a backward gather reads, from d, the gradient of the result
 * of the forward gather, and from that result. */
void gnn_attention_rows(const struct culm_gnn_border *border, int64_t n, const float *d,
                        const float *gathered, float *y);
/* numeric_apply.c */
enum culm_status gnn_apply(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
/* numeric_store.c */
enum culm_status gnn_load(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_save(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_finish(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_publish(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_discard(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_find_room(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_find(struct culm_gnn_numeric *x, struct culm_gnn_task *task);

#endif
