/*
 * What a configuration says of samples: the section `data`.
 *
 * Texts are owned: culm_config_release of the table that holds the section. Thread: constant after
 * loading.
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
    enum culm_source_crop crop;
    int64_t padding, resize;
    bool flip;
    enum culm_normalize normalize;
    double mean, std;
};
extern const struct culm_config_table culm_data_config_table;

/* Fills in what the section says; the sizes that the model asks for, pins, split and seed are left
 * to the caller. The paths are borrowed. */
void culm_data_config_source(const struct culm_data_config *config,
                             struct culm_source_options *options);

#endif
