/* The numeric executor's parts, shared by its files. Not for others. */
#ifndef CULM_TRAIN_NUMERIC_INTERNAL_H
#define CULM_TRAIN_NUMERIC_INTERNAL_H

#include "data/prefetch.h"
#include "train/numeric.h"

/* What a tensor was made: digests of its values, and of what the optimizer keeps of it. */
struct numeric_record {
    uint64_t value, rest;
};

/* State of one stage; vectors of info->param_floats. */
struct numeric_state {
    float *data; /* one allocation: parameters, exp_avg and, with AdamW, exp_avg_sq */
    struct numeric_record *record, *saved; /* [param_count]; saved: of the newest snapshot */
    bool whole;                            /* every tensor has been loaded or received */
};

/* The samples of the task at hand, by field of the graph. */
struct numeric_samples {
    const void **field;
    struct culm_prefetch_batch batch; /* pinned while `held` */
    bool held;
    uint64_t ids; /* of what the last task that read some was given */
};

/* Temporaries of one forward or backward. */
struct numeric_scratch {
    void *data;
    size_t size_bytes;
};

struct culm_numeric {
    struct culm_exec exec; /* first member */
    struct culm_numeric_options o;
    struct numeric_state *state;                 /* [stages] */
    struct numeric_scratch scratch, frc_scratch; /* redundant forwards may be suspended */
    struct culm_prefetch *prefetch;
    struct numeric_samples samples, frc_samples;
    int64_t ahead_iteration; /* the iteration of the last task, and its first micro-batch here */
    int32_t ahead_first;
    int32_t *source_field;         /* by field of the graph: the source's */
    float *tied;                   /* sum of the uses of a tied tensor */
    struct culm_stage_run frc_run; /* of a redundant forward that was stopped */
    uint64_t *normed;              /* [params] digests of the gradients of the last norms */
    int room_told;                 /* of the room for checkpoints (store/checkpoint_room.h) */
    int flip;                      /* atomic; enum culm_numeric_flip_kind that is due */
    struct culm_blob *flipped;     /* a gradient that reads as flip_copy; NULL */
    float *flip_copy;
};

static inline const struct culm_stage_info *numeric_info(const struct culm_numeric *x,
                                                         int32_t stage) {
    return culm_stage_info_of(x->o.plan->stage[stage]);
}

/* numeric_fields.c. The fields that the task's stage reads, by field of the graph; valid until the
 * next call (of a redundant forward: until the next one of its kind). */
enum culm_status numeric_fields_init(struct culm_numeric *x, struct culm_error *error);
void numeric_fields_release(struct culm_numeric *x);
enum culm_status numeric_fields(struct culm_numeric *x, const struct culm_task *task,
                                const void *const **ret_fields, struct culm_error *error);

/* numeric_state.c. Makes room for the state of a stage, contents undefined. */
enum culm_status numeric_state_make(struct culm_numeric *x, int32_t stage,
                                    struct culm_error *error);
void numeric_state_drop(struct culm_numeric *x, int32_t stage);
enum culm_status numeric_state_export(struct culm_numeric *x, struct culm_task *task);
enum culm_status numeric_state_import(struct culm_numeric *x, struct culm_task *task);
/* ADVANCE: from which element of the tensor on, and how many. The state is not whole any more. */
enum culm_status numeric_state_range(struct culm_numeric *x, const struct culm_task *task,
                                     int64_t *ret_first, int64_t *ret_count);
void numeric_state_snapshot(struct culm_numeric *x, struct culm_task *task);

/* numeric_digest.c: what the state was made and still has to be. `data` is a state as in
 * numeric_state; the gradient of a parameter is that of the last norms. */
uint64_t numeric_told(struct numeric_record record);
struct numeric_record numeric_look(struct culm_numeric *x, const struct culm_stage_info *info,
                                   int32_t index, const float *data, bool here);
void numeric_made(struct culm_numeric *x, struct culm_task *task); /* the whole stage */
void numeric_tell(const struct culm_numeric *x, struct culm_task *task);
enum culm_status numeric_damaged(struct culm_task *task, int32_t stage, const char *what,
                                 const char *name);
/* Values of all of these stages; a whole state, by the calling thread alone. */
enum culm_status numeric_check_values(struct culm_numeric *x, struct culm_task *task,
                                      const struct culm_stage_set *stages);
enum culm_status numeric_check_saved(struct culm_numeric *x, struct culm_task *task);
/* Carries out a flip that is due and has to do with this task; one that is due in mid-write. */
void numeric_flip_now(struct culm_numeric *x, struct culm_task *task);
void numeric_flip_saved(struct culm_numeric *x, struct culm_task *task);

/* numeric_store.c */
enum culm_status numeric_load(struct culm_numeric *x, struct culm_task *task);
enum culm_status numeric_save(struct culm_numeric *x, struct culm_task *task);
enum culm_status numeric_publish(struct culm_numeric *x, struct culm_task *task);
enum culm_status numeric_discard(struct culm_numeric *x, struct culm_task *task);
enum culm_status numeric_finish(struct culm_numeric *x, struct culm_task *task);
enum culm_status numeric_find(struct culm_numeric *x, struct culm_task *task);

/* numeric_room.c */
enum culm_status numeric_room(struct culm_numeric *x, struct culm_task *task);
/* A checkpoint was published: older ones give way to the next. Fills task->note. */
void numeric_look_ahead(struct culm_numeric *x, struct culm_task *task);

#endif
