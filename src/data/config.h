/*
 * The section `data` of a configuration.
 *
 * The struct owns its strings; culm_config_release of the table that has the section frees them.
 * Thread: constant after loading.
 */
#ifndef CULM_DATA_CONFIG_H
#define CULM_DATA_CONFIG_H

#include "base/config.h"
#include "data/source.h"

enum culm_normalize { CULM_NORMALIZE_NONE, CULM_NORMALIZE_IMAGENET, CULM_NORMALIZE_CUSTOM };

struct culm_data_config {
    enum culm_source_kind kind;
    char **paths;
    size_t path_count;
    char **tokenizer;
    size_t tokenizer_count;
    enum culm_source_kind masked_of; /* TEXT or TOKENS */
    double held_out;
    char *skip;
    double check_s;
    enum culm_source_crop crop;
    int64_t padding, resize;
    bool flip, orient;
    enum culm_normalize normalize;
    double mean, std;
};
extern const struct culm_config_table culm_data_config_table;

/* Fills in the options of a source that follow from the section. The caller sets pins, split, seed,
 * and the sizes that the model requires. Paths are borrowed. */
void culm_data_config_source(const struct culm_data_config *config,
                             struct culm_source_options *options);

#endif
