/*
 * A workload prepared for the scheduler: its models opened, the parts they are made of, and layouts
 * in which queries share nothing, what a package says, or every equal layer.
 *
 * Thread: the caller's.
 */
#ifndef CULM_LIVE_CATALOG_H
#define CULM_LIVE_CATALOG_H

#include "base/stop.h"
#include "edge/plan.h"
#include "live/prefix.h"
#include "live/profile.h"
#include "live/store.h"
#include "query/package.h"
#include "query/workload.h"
#include "vision/model.h"

/* The frame rate assumed for a feed at its own pace (fps 0) until its frames have been seen. */
#define CULM_LIVE_OWN_FPS 25

struct culm_live_part { /* a parameter of a model */
    char name[96];
    size_t bytes;
    int32_t layer; /* the layer whose weights or bias it is; -1: none */
    bool bias;     /* it is that layer's bias */
    bool turned;   /* in memory its numbers have another order than in files (graph.h) */
    /* Two parts with the same text could have the same numbers; "": no other part could. */
    char alike[CULM_VISION_SIGNATURE_TEXT + 32];
    bool shared; /* CULM_LIVE_SHARE_EQUAL shares it with parts that have the same `alike` */
};

struct culm_live_entry { /* a query of the workload */
    struct culm_query_config *config;
    char model_name[64];            /* the model's name in profiles */
    char identity[CULM_SHA256_HEX]; /* equal for queries that use the same files, as they are now */
    char structure[CULM_VISION_STRUCTURE]; /* of the model; "": there is none */
    struct culm_vision_model *model; /* NULL: there is none, and the profile stands in for it */
    bool bare;                       /* the model was opened without weights */
    struct culm_error why;           /* if bare: what is wrong with the weights */
    struct culm_graph *graph;        /* for one picture; NULL if model is */
    struct culm_stage *stage;        /* the same, compiled for inference; NULL if model is */
    struct culm_vision_layers layers;
    struct culm_live_part *part; /* in the order of the graph's parameters */
    int32_t part_count;
    /* [part_count] of its own numbers, as files of a package are named; NULL: not worked out. */
    char (*digest)[CULM_SHA256_HEX];
    struct culm_live_times times;        /* sizes 0: not known yet */
    float *reached[CULM_EDGE_SIZES_MAX]; /* see culm_live_beginning; NULL: not measured here */
};

struct culm_live_catalog {
    struct culm_workload workload;
    struct culm_live_profile profile; /* empty: none was given */
    struct culm_live_entry *entry;    /* [workload.query_count] */
};

struct culm_live_catalog_options {
    const char *text; /* [len] what the file holds; NULL: it is read */
    size_t len;
    const char *const *sets;
    size_t set_count;
    const char *profile; /* NULL: none */
    /* Accept models whose weights are missing, and models that are missing themselves if the
     * profile lists their tensors. */
    bool structure;
};

/* Reads a workload and opens its models. Must be released after a failure too. */
enum culm_status culm_live_catalog_open(const char *path,
                                        const struct culm_live_catalog_options *options,
                                        struct culm_live_catalog *catalog,
                                        struct culm_error *error);
void culm_live_catalog_release(struct culm_live_catalog *catalog);

/* Measures models whose run times are not known, by running them a few times on a grey picture.
 * CULM_ERR_CONFIG for a model without weights. */
enum culm_status culm_live_catalog_measure(struct culm_live_catalog *catalog,
                                           struct culm_error *error);

/* Finds what query number `of` of a package has for a part of the entry. CULM_ERR_CONFIG: it has no
 * parameter of that name and shape. If the entry has no model but only a profile, shapes are not
 * known, and *ret_param is NULL if there is no parameter of that name. dir: the package, for the
 * error. */
enum culm_status culm_live_entry_find(const struct culm_live_entry *entry, int32_t part,
                                      const struct culm_package_round *round, int32_t of,
                                      const char *dir, const struct culm_package_param **ret_param,
                                      struct culm_error *error);
/* Checks that a package belongs to this workload. CULM_ERR_CONFIG: it has none of the workload's
 * queries, or one of them was merged from another model. */
enum culm_status culm_live_catalog_goes_with(const struct culm_live_catalog *catalog,
                                             const struct culm_package_round *round,
                                             const char *dir, struct culm_error *error);
/* Reads the numbers of a part from the model, which must have weights, and works out their digest. The caller frees them. */
enum culm_status culm_live_entry_tensor(const struct culm_live_entry *entry, int32_t part,
                                        float **ret_data, struct culm_package_tensor *ret_tensor,
                                        struct culm_error *error);
/* Works out the digests of all parts, unless they are known; nothing if it has no weights. */
enum culm_status culm_live_entry_sum(struct culm_live_entry *entry, struct culm_error *error);
/* Whether the digests, if they have been worked out, are not those of the originals that query number
 * `of` of a package was merged from. */
bool culm_live_entry_is_retrained(const struct culm_live_entry *entry,
                                  const struct culm_package_round *round, int32_t of);
/* CULM_ERR_CONFIG: a query is retrained. Works out digests. */
enum culm_status culm_live_catalog_has_originals(struct culm_live_catalog *catalog,
                                                 const struct culm_package_round *round,
                                                 const char *dir, struct culm_error *error);

/* What a query of a package runs on for this workload: what it was merged into or, until that has been measured on frames that merging had
 * not seen, what it was merged from (edge.rounds). */
int32_t culm_live_tensor_of(const struct culm_workload *workload,
                            const struct culm_package_query *query,
                            const struct culm_package_param *param);

enum culm_live_sharing {
    CULM_LIVE_SHARE_FILES,   /* only what queries of the same files have in common */
    CULM_LIVE_SHARE_PACKAGE, /* what a package shares */
    CULM_LIVE_SHARE_EQUAL    /* equal layers, whatever that does to accuracy */
};
/* Limits CULM_LIVE_SHARE_EQUAL to equal layers, those that save most first, that together save at
 * most the share `most` of the bytes of all layers; 1, as after opening: no limit. ret_saved: the
 * share that is saved. CULM_ERR_MEMORY. */
enum culm_status culm_live_catalog_share(struct culm_live_catalog *catalog, double most,
                                         double *ret_saved, struct culm_error *error);

/* A layout together with everything it points to. */
struct culm_live_laid {
    struct culm_edge_layout layout;
    struct culm_edge_query query[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_feed feed[CULM_EDGE_FEEDS_MAX];
    size_t *bytes;                          /* owned */
    int32_t *list[CULM_EDGE_QUERIES_MAX];   /* owned */
    int32_t *source[CULM_EDGE_QUERIES_MAX]; /* by part; owned; NULL: the caller knows them */
    struct culm_live_trunk trunk[CULM_EDGE_QUERIES_MAX]; /* the beginnings that queries share */
};
/* Whether two queries, whose parts have these sources, compute the same on a frame, bit for bit. */
bool culm_live_entries_agree(const struct culm_live_entry *a, const int32_t *source_a,
                             const struct culm_live_entry *b, const int32_t *source_b);

void culm_live_laid_free(struct culm_live_laid *laid); /* NULL is fine */

/* Chooses among layouts and plans the one chosen [edge/choice.h], in the same way for all commands:
 * with the order that the workload asks for, and with a search near the best plan. frames, stop:
 * see culm_edge_plan_options. */
enum culm_status culm_live_catalog_choose(const struct culm_live_catalog *catalog,
                                          const struct culm_edge_layout *const *layout,
                                          int32_t count, int64_t frames,
                                          const struct culm_stop *stop, int32_t *ret_chosen,
                                          struct culm_edge_plan *ret_plan,
                                          struct culm_error *error);

/* The sources of all parts for one way of sharing, which are added to the store: ret_list[query][part],
 * zeroed before and freed by the caller, also after a failure. Otherwise as culm_live_catalog_lay. */
enum culm_status culm_live_catalog_sources(const struct culm_live_catalog *catalog,
                                           enum culm_live_sharing sharing,
                                           const struct culm_package_round *round, uint64_t plain,
                                           struct culm_live_store *store,
                                           int32_t *ret_list[CULM_EDGE_QUERIES_MAX],
                                           struct culm_error *error);
/* Makes the layout for one way of sharing; culm_live_laid_free frees it. Queries and feeds have the
 * same numbers as in the workload; limit_bytes is not set. round: for CULM_LIVE_SHARE_PACKAGE only;
 * a query that it lacks keeps its own tensors, and so does each whose bit is set in `plain`. */
enum culm_status culm_live_catalog_lay(const struct culm_live_catalog *catalog,
                                       enum culm_live_sharing sharing,
                                       const struct culm_package_round *round, uint64_t plain,
                                       struct culm_live_store *store,
                                       struct culm_live_laid **ret_laid, struct culm_error *error);
/* For a layout made by culm_live_catalog_lay, once its limit is set: lets queries that begin alike
 * share that beginning [prefix.h] or, with `on` false, no longer share it. */
enum culm_status culm_live_catalog_prefixes(const struct culm_live_catalog *catalog,
                                            struct culm_live_laid *laid, bool on,
                                            struct culm_error *error);
/* As culm_live_catalog_lay, with sources of parameters that the caller has worked out. */
enum culm_status culm_live_catalog_lay_needs(const struct culm_live_catalog *catalog,
                                             const struct culm_live_needs *needs,
                                             struct culm_live_store *store,
                                             struct culm_live_laid **ret_laid,
                                             struct culm_error *error);
/* Fills in all of a query but its tensors and prefixes; or its batch sizes alone. */
void culm_live_catalog_fill(const struct culm_live_catalog *catalog,
                            const struct culm_live_entry *entry, struct culm_edge_query *query);
void culm_live_catalog_sizes(const struct culm_live_catalog *catalog,
                             struct culm_edge_query *query);
/* What the workload's edge.memory means in bytes, given the layout that shares nothing. */
size_t culm_live_catalog_limit(const struct culm_live_catalog *catalog,
                               const struct culm_edge_layout *unshared);

#endif
