/*
 * Views: numbered maps from (pipeline, stage) to owner and shadow, and who holds what.
 *
 * The leader alone makes views; nodes obey the newest. A view is a pure function of the slots
 * (which node sits where), of what every node holds, of the view before it, and of whether an
 * iteration boundary has been reached:
 *
 *   owner(p, s)    Inside an iteration the owner stays while it lives. Else, and at a boundary, it
 *                  is the first live holder of s going back around the ring of p's slots from s:
 *                  the node of the slot itself, its shadow, ...
 *   shadow(p, s)   The first live holder of s, other than the owner, going back from the owner's
 *                  slot.
 *   lanes          A pipeline with an owner for every stage is *whole*. Lanes of one that is not
 *                  go whole to others.
 *
 *   slot    0    1    2    3      Back from slot 1 are 0, 3 and 2. While all live b owns stage 1
 *   node    a    b    c    d      and a is its shadow; when b is lost a owns it, and its shadow is
 *                                 d as soon as d has a copy.
 *
 * What a node *should* hold follows in the same way from the slots alone; what it should hold and
 * does not is a transfer (docs/internals/loss.md).
 *
 * Thread: none of its own.
 */
#ifndef CULM_PIPELINE_VIEW_H
#define CULM_PIPELINE_VIEW_H

#include "crew/term.h"
#include "pipeline/layout.h"

enum culm_view_phase {
    CULM_VIEW_LOAD, /* every node loads what it holds at `iteration - 1`, from `source` */
    CULM_VIEW_RUN,
};

/* Of the run so far: they go on when another one leads. */
struct culm_totals {
    int64_t losses, rollbacks, steps_redone, recovered;
    int64_t copied; /* bytes of state, to those who were to hold it */
};
void culm_totals_write(struct culm_buf *buf, const struct culm_totals *totals);
struct culm_totals culm_totals_read(struct culm_reader *in);

/* What was committed: a pure function of the iteration. */
struct culm_content {
    int64_t iteration; /* 0: nothing was, since all loaded */
    double clip, loss, norm;
};

void culm_content_write(struct culm_buf *buf, const struct culm_content *content);
struct culm_content culm_content_read(struct culm_reader *in);

struct culm_role {
    int32_t owner, shadow; /* node ids; -1: none */
};

struct culm_view_node {
    int32_t id;
    int32_t pipeline, stage;     /* its slot; -1: standing by */
    struct culm_stage_set holds; /* the stages whose state it has at the committed version */
};

struct culm_transfer {
    uint32_t id; /* unique in the run */
    int32_t source, destination, stage;
};

#define CULM_MAX_TRANSFERS (2 * CULM_MAX_NODES)
#define CULM_REASON_MAX 192
#define CULM_SOURCE_MAX 512

struct culm_view {
    uint64_t number; /* crew/term.h; 0: no view yet */
    enum culm_view_phase phase;
    int64_t iteration; /* in progress */
    /* Changes when an iteration is begun afresh because what a damaged copy had made of it was on its
     * way: whoever sees it change forgets what it has of the iteration, and data frames of another
     * attempt do not count. */
    uint64_t attempt; /* 0, or the number of the view in which it was begun */
    int32_t pipelines, stages, lanes;
    struct culm_role **role; /* [pipelines][stages] */
    int32_t *lane_pipeline;  /* [lanes] -1: no pipeline can run it now */
    int32_t node_count, node_capacity;
    struct culm_view_node *node;    /* [node_count] with rising ids */
    struct culm_stage_set *refused; /* [node_count] scratch of memory.c */
    /* The place in `node` of who sits there; -1: nobody. Not sent; see culm_view_seat. */
    int32_t **seat; /* [pipelines][stages] */
    int32_t *load;  /* [pipelines] scratch */
    int32_t transfer_count, transfer_capacity;
    struct culm_transfer *transfer;
    struct culm_content last; /* commit: for those who were not there, or whom it did not reach */
    struct culm_totals totals;
    bool frc;                     /* eager redundancy is on */
    char reason[CULM_REASON_MAX]; /* one sentence */
    char source[CULM_SOURCE_MAX]; /* LOAD: checkpoint directory; empty: from the seed */
};

/* An empty view of a run: nobody is in it, number 0. False: out of memory, and there is nothing to release. */
bool culm_view_init(struct culm_view *view, const struct culm_run_shape *shape);
void culm_view_release(struct culm_view *view); /* fine on a zeroed one */
/* As after init; keeps the memory. */
void culm_view_clear(struct culm_view *view);
/* Room for so many nodes. False: out of memory. */
bool culm_view_reserve(struct culm_view *view, int32_t nodes);
/* At the end. False: out of memory. */
bool culm_view_add_node(struct culm_view *view, const struct culm_view_node *node);
bool culm_view_add_transfer(struct culm_view *view, const struct culm_transfer *transfer);

/* NULL: it is not in the view. */
const struct culm_view_node *culm_view_find(const struct culm_view *view, int32_t node);
/* Is there a lane that no pipeline can run? */
bool culm_view_lanes_wait(const struct culm_view *view);
/* Does every stage of the pipeline have an owner? */
bool culm_view_whole(const struct culm_view *view, int32_t pipeline);
/* The reducer of `grad`: owners of its stage in the first whole pipelines take turns, as many as
 * culm_layout_reducers says. -1 when there is none. */
int32_t culm_view_reducer(const struct culm_view *view, const struct culm_layout *layout,
                          int32_t grad);
/* How many live copies stage s has. */
int32_t culm_view_copies(const struct culm_view *view, int32_t stage);

/* Fills `seat`. */
void culm_view_seat(struct culm_view *view);
/* What node `id` should hold by the slots: own stages and, with redundancy, the shadowed ones. `seat`
 * is filled. */
struct culm_stage_set culm_view_desired(const struct culm_view *view,
                                        const struct culm_run_shape *shape, int32_t id);
/* Fills seat, role, lane_pipeline, load and frc of `view` from its nodes and their `holds`. `before` is the
 * previous view when inside an iteration (its living owners stay), or NULL at a boundary. */
void culm_view_assign(struct culm_view *view, const struct culm_run_shape *shape,
                      const struct culm_view *before);
/* The part of culm_view_assign that deals lanes and sets frc, for roles that have changed. */
void culm_view_deal(struct culm_view *view, const struct culm_run_shape *shape,
                    const struct culm_view *before);

#endif
