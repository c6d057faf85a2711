/* The numeric executor's parts, shared by its files. Not for others. */
#ifndef CULM_GNN_NUMERIC_INTERNAL_H
#define CULM_GNN_NUMERIC_INTERNAL_H

#include "gnn/numeric.h"

#include "graph/sparse.h"
#include "model/step.h"

/* Which rows of an interval a slice for some readers has. */
struct gnn_slice {
    struct culm_gnn_set readers;
    int64_t count;
    uint32_t *row;
};

/* Where the rows that one interval reads of another are in a slice for some readers. */
struct gnn_in_slice {
    struct culm_gnn_set readers;
    int64_t count; /* rows of the slice */
    uint32_t *at;  /* NULL: not looked for yet */
};

#define GNN_SLICES_KEPT 64

/* Room that grows. */
struct gnn_room {
    void *data;
    size_t size_bytes;
};

/* What a stage forward left for backward, piece by piece: of this epoch, these weights and rows. */
struct gnn_kept {
    struct culm_blob *weights;
    struct culm_blob *rows[CULM_GNN_BLOCKS_MAX + 1]; /* by task->block; NULL: constant input */
    int64_t epoch;
    bool whole;             /* of all rows at once, not of blocks that came each by itself */
    uint64_t there;         /* a bit for each piece */
    struct culm_blob *room; /* NULL: nothing is kept */
    size_t bytes;           /* that count for it */
};

/* What is kept of an interval. */
struct gnn_input {
    struct culm_blob *packed; /* what PACK gives; the arrays up to `sparse` are in it */
    int64_t n;
    const uint32_t *id; /* original numbers */
    const float *scale; /* gcn: D^-1/2; sage: 1 / neighbours, 0 of a vertex without any */
    const int32_t *label;
    const uint8_t *use;             /* enum culm_graph_use */
    const float *dense;             /* [n,columns]; NULL: sparse */
    struct culm_sparse_rows sparse; /* by columns, and what is left by dropout, in `own` */
    struct culm_sparse_dropped holds;
    struct culm_blob *own;
    /* of dense features in a file: what comes before them, where all is, and when it was used last;
     * `packed` and `dense` are NULL while it is not in memory */
    struct culm_blob *front;
    size_t bytes;
    uint64_t file_at, used;
    bool in_file;
    int32_t *train_label;                                 /* -1: does not train */
    struct culm_stage_rows *rows[2][CULM_GNN_STAGES_MAX]; /* NULL: as compiled */
    /* The same of a block, and of the last one; NULL: no step of the stage streams. */
    struct culm_stage_rows *block_rows[2][CULM_GNN_STAGES_MAX][2];
    struct gnn_kept kept[CULM_GNN_STAGES_MAX];
    /* of an owner; [transposed], one of them of an undirected graph */
    struct culm_gnn_rows gather[2];
    uint32_t *table_id[2];      /* original numbers of the table's rows; NULL: not needed */
    struct gnn_slice *slice[2]; /* [GNN_SLICES_KEPT] of its rows, for others */
    int32_t next_slice[2];
    struct gnn_in_slice *in_slice[2]; /* [intervals] of others' rows */
};

/* What a gather is to the model. */
struct gnn_flow {
    int32_t border;      /* behind this stage */
    bool back, evaluate; /* gradients; rows of an evaluation */
};

struct culm_gnn_numeric {
    struct culm_gnn_exec exec;                /* first member */
    struct gnn_flow flow[CULM_GNN_STEPS_MAX]; /* [gathers] */
    struct culm_gnn_numeric_options o;
    int64_t weights; /* floats */
    int32_t parts;   /* of the state */
    struct culm_optimizer_config optimizer;
    float *state; /* [parts][weights]; NULL: not a holder */
    int64_t version;
    bool give_logits;
    struct gnn_input *input; /* [intervals]; n 0: not here */
    const void
        *rows; /* what a gather reads, `pitch` numbers apart: in `table`, or where it was made */
    int64_t pitch;
    struct gnn_room table, activations, scratch, made, index;
    int spill; /* a file; -1: none yet */
    bool measured;
    uint64_t clock;
    size_t resident, largest; /* bytes of inputs in memory; of the largest that there is */
    struct culm_gnn_kept_counts kept;
    struct gnn_room score[2]; /* attention */
    struct gnn_room wide[3];  /* rows of bf16 as f32 */
};

/* Makes room for so many bytes; what was there is gone when it grows. */
enum culm_status gnn_room(struct culm_gnn_numeric *x, struct gnn_room *room, size_t bytes,
                          struct culm_error *error);
void gnn_room_drop(struct culm_gnn_numeric *x, struct gnn_room *room);
/* A blob of the executor's pool. */
enum culm_status gnn_blob(struct culm_gnn_numeric *x, size_t bytes, struct culm_blob **ret_blob,
                          struct culm_error *error);
/* The input of the task's interval. CULM_ERR_INTERNAL when it is not here. */
enum culm_status gnn_input(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                           struct gnn_input **ret_input);
enum culm_status gnn_wrong_rows(struct culm_gnn_task *task, const char *what, size_t have,
                                size_t want);

/* numeric.c: makes room for the state of a holder; zeroed when it is new. */
enum culm_status gnn_state(struct culm_gnn_numeric *x, struct culm_error *error);
/* Where, in floats, what a gather keeps beside its n rows begins. */
static inline int64_t gnn_extra_at(const struct culm_gnn_border *border, int64_t n) {
    return (n * border->width + 15) & ~(int64_t)15;
}
/* Numbers of what a gather makes of n rows, and bytes. */
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

/* Rows of the run's type. */
static inline size_t gnn_element(const struct culm_gnn_numeric *x) {
    return culm_dtype_bytes(x->o.model->rows);
}
static inline struct culm_in gnn_in(const struct culm_gnn_numeric *x, const void *rows) {
    return (struct culm_in){rows, x->o.model->rows};
}
static inline struct culm_out gnn_out(const struct culm_gnn_numeric *x, void *rows) {
    return (struct culm_out){rows, x->o.model->rows};
}
/* Numbers between the beginnings of two rows of a table, of rows of so many: rows begin on a cache line,
 * or divide one, where that makes the table at most a third larger. */
static inline int64_t gnn_table_pitch(const struct culm_gnn_numeric *x, int64_t row) {
    int64_t line = 64 / (int64_t)gnn_element(x), pitch = 1;
    while (pitch < row && pitch < line) {
        pitch *= 2;
    }
    pitch = (row + pitch - 1) / pitch * pitch;
    return 3 * (pitch - row) <= row ? pitch : row;
}
/* numeric.c: `count` numbers of rows as f32: themselves, or a copy in the room. */
enum culm_status gnn_widen(struct culm_gnn_numeric *x, struct gnn_room *room, const void *rows,
                           int64_t count, const float **ret_rows, struct culm_error *error);
/* Where f32 rows are to be made that become these: there, or in the room; and makes them so. */
enum culm_status gnn_make(struct culm_gnn_numeric *x, struct gnn_room *room, void *rows,
                          int64_t count, float **ret_rows, struct culm_error *error);
void gnn_narrow(struct culm_gnn_numeric *x, void *rows, const float *made, int64_t count);

/* numeric_input.c */
enum culm_status gnn_own(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_take(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
void gnn_drop(struct culm_gnn_numeric *x, int32_t interval);
/* Bytes of the packed input of an interval, and of what comes before its features. */
size_t gnn_input_bytes(const struct culm_gnn_plan *plan, const struct culm_gnn_structure *structure,
                       const struct culm_graph_data *graph, int32_t interval, size_t *ret_front);
/* The arrays of what is packed, once it is in memory. */
enum culm_status gnn_unpack(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                            struct gnn_input *input);

/* numeric_spill.c: nothing of it happens without a limit */
bool gnn_limited(const struct culm_gnn_numeric *x);
/* Room for the packed input of an interval, when others have been let go of. */
enum culm_status gnn_spill_blob(struct culm_gnn_numeric *x, size_t bytes,
                                struct culm_blob **ret_blob, struct culm_error *error);
/* What was just packed, into the file. */
enum culm_status gnn_spill(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                           struct gnn_input *input, size_t front);
/* It is in memory, all of it. */
enum culm_status gnn_spill_load(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                struct gnn_input *input);
void gnn_spill_forget(struct culm_gnn_numeric *x, struct gnn_input *input);

/* numeric_kept.c: where a stage forward leaves what backward needs of a piece; NULL: nowhere. It counts
 * once it was made. */
void *gnn_keep(struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
               struct gnn_input *input, const struct culm_stage_info *info, int32_t piece,
               int32_t pieces);
void gnn_keep_made(struct gnn_input *input, int32_t stage, int32_t piece);
/* Lets go of what is kept of epochs that no step of `epoch` goes with: its weights, and an owner's rows, are
 * not counted, and nobody else has them for longer. */
void gnn_kept_old(struct culm_gnn_numeric *x, int64_t epoch);
/* Before a task backward begins: whether it has the rows that forward had. */
void gnn_kept_meet(struct culm_gnn_task *task, struct gnn_input *input, int32_t stage);
/* Where that is; NULL: forward is computed again. It is read once. */
void *gnn_kept(struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
               struct gnn_input *input, const struct culm_stage_info *info, int32_t piece);
void gnn_kept_read(struct culm_gnn_numeric *x, struct gnn_input *input, int32_t stage,
                   int32_t piece);
void gnn_kept_drop(struct culm_gnn_numeric *x, struct gnn_input *input);

/* numeric_gather.c */
enum culm_status gnn_gather(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_slice(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
/* numeric_attention.c. The table has been filled; y is what the gather makes, `own` what the interval
 * itself gave to it. */
enum culm_status gnn_attend(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                            struct gnn_input *input, const void *own, void *rows);
enum culm_status gnn_attend_back(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                 struct gnn_input *input, const void *own, void *rows);
/* Rows of gradients for the gather, of the gradient of what the gather in front made. */
void gnn_attention_rows(const struct culm_gnn_border *border, int64_t n, const float *d,
                        const float *gathered, float *y);
/* numeric_apply.c */
enum culm_status gnn_apply(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
/* numeric_store.c */
enum culm_status gnn_load(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_save(struct culm_gnn_numeric *x, struct culm_gnn_task *task);
enum culm_status gnn_finish(struct culm_gnn_numeric *x, struct culm_gnn_task *task);

#endif
