/*
 * A workload: which models answer what about which feeds, how they are merged and how they are run.
 *
 *     feeds:
 *       hall: {file: hall.mp4, fps: 10, loop: true, crop: []}
 *     queries:
 *       - {name: people, model: body.cfg, feed: hall, target: 0.95, deadline_ms: 200}
 *     merge: {method: culm, steps: 2000, held_out: 0.3, seed: 1}
 *     edge: {memory: 50%, batch: [1, 2, 4], threads: 1}
 *
 * Plain data with every default filled in and every value checked, but for files: nothing is opened.
 * Messages are those of configuration tables, `FILE:LINE: key: what is wrong; what is allowed`.
 * Texts are owned by the struct. Thread: constant after loading.
 */
#ifndef CULM_MERGE_WORKLOAD_H
#define CULM_MERGE_WORKLOAD_H

#include "base/config.h"

struct culm_feed_config {
    char *name;
    char *file;      /* what ffmpeg opens; a folder of pictures; IDX images with labels */
    double fps;      /* frames a second; 0: as the file says */
    bool loop;       /* begin again at the end */
    int64_t crop[4]; /* x, y, width, height in pixels of the source; width 0: all of it */
};

struct culm_query_config {
    char *name;
    char *model;
    char *weights; /* NULL: the model's own */
    char *names;   /* of classes, a line each; NULL: those that the model brings */
    char *feed;    /* NULL: none */
    char *labels;  /* of the feed's frames; NULL: the original's own answers */
    double target; /* share of the original's accuracy */
    double deadline_ms;
    double score; /* boxes below it are none */
    char **normalize;
    size_t normalize_count;
    /* What `normalize` says; `normalized` false: as the model says. */
    bool normalized;
    float mean[3], deviation[3]; /* value = (x / 255 - mean) / deviation */
    int32_t feed_index;          /* in feeds; -1: none */
};

enum culm_merge_method {
    CULM_MERGE_CULM,
    CULM_MERGE_GEMEL,       /* as published */
    CULM_MERGE_GEMEL_FIXED, /* without its defects */
    CULM_MERGE_STEM,        /* longest common prefix, the first model's weights */
    CULM_MERGE_MAX,         /* every equal layer, whatever becomes of accuracy */
    CULM_MERGE_NONE
};
extern const char *const culm_merge_method_names[];

struct culm_merge_config {
    enum culm_merge_method method;
    int64_t steps;  /* of a model alone, and of a joint attempt, at most; 0: nothing is trained */
    double minutes; /* after which no new attempt begins; 0: any number */
    double cpu_minutes; /* the same, of processor time of the process */
    double held_out;    /* last part of each feed, which merging never sees */
    int64_t frames;     /* of each feed, that merging fits to; 0: all that it may see */
    double lr;          /* of gemel's joint training */
    int64_t threads;
    uint64_t seed;
};

enum culm_edge_originals { CULM_EDGE_ORIGINALS_AUTO, CULM_EDGE_ORIGINALS_NEVER };
extern const char *const culm_edge_originals_names[];
enum culm_edge_order { CULM_EDGE_ORDER_AUTO, CULM_EDGE_ORDER_GIVEN };
extern const char *const culm_edge_order_names[];

#define CULM_EDGE_BATCHES_MAX 8

struct culm_drift_config {
    double every_s; /* 0: never */
    int64_t frames;
};

struct culm_edge_config {
    char *memory;
    /* What `memory` says: a number of bytes, or, if that is 0, this share of the way from the least that
     * runs the largest model (0) to all models at once (1). */
    double memory_share;
    uint64_t memory_bytes;
    double load_mb_per_s;                 /* 0: as fast as files are read */
    int64_t batch[CULM_EDGE_BATCHES_MAX]; /* rising; 0 behind the last */
    int64_t threads;
    enum culm_edge_order order;
    enum culm_edge_originals originals;
    struct culm_drift_config drift;
};

struct culm_workload {
    struct culm_feed_config *feeds;
    size_t feed_count;
    struct culm_query_config *queries;
    size_t query_count;
    struct culm_merge_config merge;
    struct culm_edge_config edge;
};
extern const struct culm_config_table culm_workload_table;

/* Whether each query, of two workloads with the same queries, is merged by frames of the same file, with the
 * same labels. */
bool culm_workload_same_frames(const struct culm_workload *a, const struct culm_workload *b);
/* As culm_config_load and culm_config_parse. */
enum culm_status culm_workload_load(const char *path, const char *const *sets, size_t set_count,
                                    struct culm_workload *ret_workload, struct culm_error *error);
enum culm_status culm_workload_parse(const char *text, size_t len, const char *name,
                                     const char *const *sets, size_t set_count,
                                     struct culm_workload *ret_workload, struct culm_error *error);
/* Every key, as a text or a table in Markdown. NULL: out of memory; the caller frees it. */
char *culm_workload_reference(bool markdown);
void culm_workload_release(struct culm_workload *workload);

/* The query of that name, or -1. */
int32_t culm_workload_find(const struct culm_workload *workload, const char *query);
/* CULM_ERR_CONFIG, with `name` (the file) in front, for a query that has no feed. */
enum culm_status culm_workload_need_feeds(const struct culm_workload *workload, const char *name,
                                          struct culm_error *error);

#endif
