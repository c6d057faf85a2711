/*
 * The configuration of a workload: which models answer for which feeds, how they are merged, and
 * how they are run.
 *
 *     feeds:
 *       hall: {file: hall.mp4, fps: 10, loop: true, crop: []}
 *     queries:
 *       - {name: people, model: body.cfg, feed: hall, target: 0.95, deadline_ms: 200}
 *     merge: {method: culm, steps: 2000, held_out: 0.3, seed: 1}
 *     edge: {memory: 50%, batch: [1, 2, 4], threads: 1}
 *
 * Plain data, with all defaults filled in and all values checked; no file that it names is opened.
 * Errors are those of configuration tables: `FILE:LINE: key: what is wrong; what is allowed`. The
 * struct owns its texts.
 *
 * Thread: constant after loading.
 */
#ifndef CULM_QUERY_WORKLOAD_H
#define CULM_QUERY_WORKLOAD_H

#include "base/config.h"
#include "query/reading.h"
#include "vision/boxes.h"

struct culm_feed_config {
    char *name;
    char *file;       /* what ffmpeg opens, a folder of pictures, or IDX images */
    double fps;       /* frames a second; 0: as the file says */
    bool loop;        /* start over at the end */
    bool ends;        /* a stream is not connected again at its end, and a folder is not followed */
    int64_t stall_ms; /* it counts as stalled after so long without a byte */
    double from, to;  /* seconds of the recording: the part to take; to 0: until its end */
    double for_s;     /* seconds after its first frame at which the feed is over; 0: never */
    int64_t every;    /* one in so many frames is taken */
    char **options;   /* of ffmpeg, to open and to decode the file */
    size_t option_count;
    int64_t crop[4]; /* x, y, width, height in pixels of the source; width 0: the whole picture */
};

struct culm_query_config {
    char *name;
    char *model;
    char *weights; /* NULL: the model's own */
    char *names;   /* file with the names of classes, one a line; NULL: the model's own */
    char *feed;    /* NULL: none */
    char *labels;  /* for the feed's frames; NULL: the original's answers are right */
    double target; /* share of the original's accuracy to keep */
    double deadline_ms;
    double score; /* boxes below it are not reported */
    bool pin;     /* its weights stay in memory */
    bool preload; /* they are loaded at the start */
    char **normalize;
    size_t normalize_count;
    /* `normalize`, parsed; `normalized` false: as the model says */
    bool normalized;
    float mean[3], deviation[3]; /* value = (x / 255 - mean) / deviation */
    enum culm_query_decode decode;
    enum culm_query_fit fit;
    enum culm_query_colors colors;
    char *size; /* WIDTHxHEIGHT; NULL: as the file says */
    char **classes;
    size_t class_count;
    struct culm_query_reading reading; /* these five */
    int32_t feed_index;                /* index in feeds; -1: none */
};

enum culm_merge_method {
    CULM_MERGE_CULM,
    CULM_MERGE_GEMEL,       /* as published */
    CULM_MERGE_GEMEL_FIXED, /* with its defects repaired */
    CULM_MERGE_STEM,        /* longest common prefix, with the first model's weights */
    CULM_MERGE_MAX,         /* every equal layer, whatever the accuracy */
    CULM_MERGE_NONE
};
extern const char *const culm_merge_method_names[];
extern const char *const culm_merge_accuracy_names[]; /* of enum culm_accuracy_by */

struct culm_merge_config {
    enum culm_merge_method method;
    enum culm_accuracy_by accuracy; /* of detectors */
    double iou;                     /* overlap from which on a box is right */
    int64_t steps;  /* of training, for a model on its own and for each joint attempt; 0: none */
    double minutes; /* after which no attempt begins; 0: no limit */
    double cpu_minutes; /* the same in processor time */
    double held_out;    /* share of each feed, at its end, that merging never sees */
    int64_t frames;     /* of each feed to fit to; 0: as many as fit into memory */
    char *pictures;     /* more to fit to; NULL: none */
    double lr;          /* learning rate of gemel */
    int64_t threads;
    uint64_t seed;
};

enum culm_edge_originals { CULM_EDGE_ORIGINALS_AUTO, CULM_EDGE_ORIGINALS_NEVER };
extern const char *const culm_edge_originals_names[];
enum culm_edge_rounds { CULM_EDGE_ROUNDS_MEASURED, CULM_EDGE_ROUNDS_ALL };
extern const char *const culm_edge_rounds_names[];
enum culm_edge_order { CULM_EDGE_ORDER_AUTO, CULM_EDGE_ORDER_GIVEN };
extern const char *const culm_edge_order_names[];

#define CULM_EDGE_BATCHES_MAX 8

struct culm_drift_config {
    double every_s; /* 0: never */
    int64_t frames;
};

struct culm_edge_config {
    char *memory;
    /* `memory`, parsed: bytes; or, if these are 0, the share of the way from what the largest model
     * needs (0) to what all models need (1). */
    double memory_share;
    uint64_t memory_bytes;
    double load_mb_per_s;                 /* 0: as fast as files can be read */
    int64_t batch[CULM_EDGE_BATCHES_MAX]; /* ascending; 0 after the last */
    int64_t threads;
    enum culm_edge_order order;
    enum culm_edge_originals originals;
    enum culm_edge_rounds rounds;
    bool remerge; /* the package is merged on while it runs */
    struct culm_drift_config drift;
    char *health; /* where monitors may ask; NULL: nowhere */
};

/* Where answers go, and what their files may take. */
#define CULM_RECEIVERS_MAX 8
struct culm_answers_config {
    char **to; /* "file", or the address of a receiver */
    size_t to_count;
    int64_t rotate_mb, keep_mb;
};

struct culm_workload {
    struct culm_feed_config *feeds;
    size_t feed_count;
    struct culm_query_config *queries;
    size_t query_count;
    struct culm_merge_config merge;
    struct culm_edge_config edge;
    struct culm_answers_config answers;
};
extern const struct culm_config_table culm_workload_table;

/* Whether two feeds give the same frames of the same file. */
bool culm_feed_same_frames(const struct culm_feed_config *a, const struct culm_feed_config *b);
bool culm_feed_same_options(const struct culm_feed_config *a, const struct culm_feed_config *b);
/* Whether query number p of one workload has frames from the same file, and the same labels, as
 * query number q of another. */
bool culm_workload_same_frames(const struct culm_workload *a, size_t p,
                               const struct culm_workload *b, size_t q);
/* As culm_config_load and culm_config_parse. */
enum culm_status culm_workload_load(const char *path, const char *const *sets, size_t set_count,
                                    struct culm_workload *ret_workload, struct culm_error *error);
enum culm_status culm_workload_parse(const char *text, size_t len, const char *name,
                                     const char *const *sets, size_t set_count,
                                     struct culm_workload *ret_workload, struct culm_error *error);
/* A reference of all keys, as plain text or as a Markdown table. NULL: out of memory; the caller
 * frees it. */
char *culm_workload_reference(bool markdown);
void culm_workload_release(struct culm_workload *workload);

/* The index of the query; -1: none. */
int32_t culm_workload_find(const struct culm_workload *workload, const char *query);
/* CULM_ERR_CONFIG, with `name` (the file) in front, if a query has no feed. */
enum culm_status culm_workload_need_feeds(const struct culm_workload *workload, const char *name,
                                          struct culm_error *error);

#endif
