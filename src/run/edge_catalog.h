/*
 * A workload as the scheduler sees it: its models opened, what each is made of, and layouts in
 * which queries share nothing, what a package says, or every equal layer.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_EDGE_CATALOG_H
#define CULM_RUN_EDGE_CATALOG_H

#include "edge/plan.h"
#include "edge/profile.h"
#include "merge/package.h"
#include "merge/workload.h"
#include "run/edge_prefix.h"
#include "run/edge_store.h"
#include "vision/model.h"

#define CULM_EDGE_OWN_FPS 25 /* of a feed whose file says how fast it is, until its frames come */

struct culm_edge_part { /* of a model: a parameter */
    char name[96];
    size_t bytes;
    int32_t layer; /* whose weights or bias it is; -1: of none */
    bool bias;     /* of the layer */
    bool turned;   /* is run on in another order than files have (graph.h) */
    /* Equal in two models where both could have the same numbers; "": nowhere. */
    char alike[CULM_VISION_SIGNATURE_TEXT + 32];
    bool shared; /* by SHARE_EQUAL, where `alike` is equal */
};

struct culm_edge_entry { /* a query of the workload */
    struct culm_query_config *config;
    char model_name[64];             /* as profiles have it */
    char identity[CULM_SHA256_HEX];  /* equal where two queries use the same files */
    struct culm_vision_model *model; /* NULL: the profile says all that is asked for */
    bool bare;                       /* the model was opened without weights */
    struct culm_error why;           /* if it is bare: what is wrong with its weights */
    struct culm_graph *graph;        /* of one picture; NULL likewise */
    struct culm_stage *stage;        /* the same, for inference; NULL likewise */
    struct culm_vision_layers layers;
    struct culm_edge_part *part; /* in the order of the graph's parameters */
    int32_t part_count;
    struct culm_edge_times times;        /* sizes 0: not known yet */
    float *reached[CULM_EDGE_SIZES_MAX]; /* as edge_prefix.h has it; NULL: not measured here */
};

struct culm_edge_catalog {
    struct culm_workload workload;
    struct culm_edge_profile profile; /* empty: none was given */
    struct culm_edge_entry *entry;    /* [workload.query_count] */
};

struct culm_edge_catalog_options {
    const char *const *sets;
    size_t set_count;
    const char *profile; /* NULL: none */
    bool structure; /* models may lack their weights, or, if the profile tells their tensors, be
                            missing */
};

/* Release it after a failure too. */
enum culm_status culm_edge_catalog_open(const char *path,
                                        const struct culm_edge_catalog_options *options,
                                        struct culm_edge_catalog *catalog,
                                        struct culm_error *error);
void culm_edge_catalog_release(struct culm_edge_catalog *catalog);

/* Runs what has no times yet on a grey picture, a few times; needs weights: CULM_ERR_CONFIG for a
 * model that has none. */
enum culm_status culm_edge_catalog_measure(struct culm_edge_catalog *catalog,
                                           struct culm_error *error);

/* What a package's query `of` has for a part of the entry; CULM_ERR_CONFIG where it has nothing of that
 * shape. dir: the package's, for the error. Where a profile alone says what parts there are, shapes are
 * not known: NULL if it has none of that name. */
enum culm_status culm_edge_entry_find(const struct culm_edge_entry *entry, int32_t part,
                                      const struct culm_package_round *round, int32_t of,
                                      const char *dir, const struct culm_package_param **ret_param,
                                      struct culm_error *error);
/* Whether a package is of this workload: CULM_ERR_CONFIG where it has none of its queries, or has one of
 * another model. */
enum culm_status culm_edge_catalog_goes_with(const struct culm_edge_catalog *catalog,
                                             const struct culm_package_round *round,
                                             const char *dir, struct culm_error *error);

enum culm_edge_sharing {
    CULM_EDGE_SHARE_FILES, /* a file that is used twice counts once */
    CULM_EDGE_SHARE_PACKAGE,
    CULM_EDGE_SHARE_EQUAL /* every equal layer, whatever becomes of accuracy, but for _share */
};
/* SHARE_EQUAL shares as many equal layers, the largest first, as save this share of the bytes of
 * all layers at most; 1: all of them, as after opening. Returns the share that is saved. */
enum culm_status culm_edge_catalog_share(struct culm_edge_catalog *catalog, double most,
                                         double *ret_saved, struct culm_error *error);

/* A layout with all that it points to. */
struct culm_edge_laid {
    struct culm_edge_layout layout;
    struct culm_edge_query query[CULM_EDGE_QUERIES_MAX];
    struct culm_edge_feed feed[CULM_EDGE_FEEDS_MAX];
    size_t *bytes;                          /* owned */
    int32_t *list[CULM_EDGE_QUERIES_MAX];   /* owned */
    int32_t *source[CULM_EDGE_QUERIES_MAX]; /* of each part; owned; NULL: not from the catalog */
    struct culm_edge_trunk trunk[CULM_EDGE_QUERIES_MAX]; /* what queries have in common */
};
/* Whether two queries, each with the sources of its parts, compute the same on a frame, to the last
 * bit. */
bool culm_edge_entries_agree(const struct culm_edge_entry *a, const int32_t *source_a,
                             const struct culm_edge_entry *b, const int32_t *source_b);

void culm_edge_laid_free(struct culm_edge_laid *laid); /* NULL is fine */

/* The choice and the plan that every command makes of layouts [edge/choice.h]: as the workload
 * wants it, near plans tried too. `frames`, `stop`: as of culm_edge_plan_options. */
enum culm_status culm_edge_catalog_choose(const struct culm_edge_catalog *catalog,
                                          const struct culm_edge_layout *const *layout,
                                          int32_t count, int64_t frames,
                                          const struct culm_edge_stop *stop, int32_t *ret_chosen,
                                          struct culm_edge_plan *ret_plan,
                                          struct culm_error *error);

/* For one way of sharing. Queries and feeds have the numbers of the workload; limit_bytes is not
 * set. `round`: of SHARE_PACKAGE; a query that is not in it has its own tensors, and so has each
 * whose bit is in `plain`. */
enum culm_status culm_edge_catalog_lay(const struct culm_edge_catalog *catalog,
                                       enum culm_edge_sharing sharing,
                                       const struct culm_package_round *round, uint64_t plain,
                                       struct culm_edge_store *store,
                                       struct culm_edge_laid **ret_laid, struct culm_error *error);
/* Of a layout that was laid for a way of sharing, once its limit is set: what queries have in
 * common at their beginning is run once from now on, or, without `on`, not any more. */
enum culm_status culm_edge_catalog_prefixes(const struct culm_edge_catalog *catalog,
                                            struct culm_edge_laid *laid, bool on,
                                            struct culm_error *error);
/* The same, of parameters whose sources the caller knows. */
enum culm_status culm_edge_catalog_lay_needs(const struct culm_edge_catalog *catalog,
                                             const struct culm_edge_needs *needs,
                                             struct culm_edge_store *store,
                                             struct culm_edge_laid **ret_laid,
                                             struct culm_error *error);
/* What a query's layout says apart from its tensors; the sizes of its batches alone. */
void culm_edge_catalog_fill(const struct culm_edge_catalog *catalog,
                            const struct culm_edge_entry *entry, struct culm_edge_query *query);
void culm_edge_catalog_sizes(const struct culm_edge_catalog *catalog,
                             struct culm_edge_query *query);
/* What the workload's edge.memory comes to when nothing is shared. */
size_t culm_edge_catalog_limit(const struct culm_edge_catalog *catalog,
                               const struct culm_edge_layout *unshared);

#endif
