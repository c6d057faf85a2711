#include "data/source_internal.h"

enum culm_status culm_source_open_pairs(const struct culm_source_options *options,
                                     struct culm_source **ret_source, struct culm_error *error) {
    (void)options;
    (void)ret_source;
    return culm_error_set(error, CULM_ERR_UNSUPPORTED, "data.kind 'pairs': not yet");
}
