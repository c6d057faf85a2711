/* Looking at samples before training does: the launcher's part of data/check.h. */
#ifndef CULM_RUN_DATA_CHECK_H
#define CULM_RUN_DATA_CHECK_H

#include "data/source.h"

/* The samples of a source that have not been seen, if that takes no more than `most_s`; 0: none.
 * CULM_ERR_FORMAT: some cannot be used; the line has the first, how many, and what to do.
 * *ret_note, of CULM_ERROR_MAX bytes: that they were not looked at, or "". */
enum culm_status culm_data_check_before(const struct culm_source *source, double most_s,
                                        char *ret_note, struct culm_error *error);

#endif
