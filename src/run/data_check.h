/* Looking at samples before training does: the launcher's part of data/check.h. */
#ifndef CULM_RUN_DATA_CHECK_H
#define CULM_RUN_DATA_CHECK_H

#include "data/source.h"

#define CULM_DATA_CHECK_MOST_S 10.0 /* a run does not wait longer for it */

/* The samples of a source that have not been seen, if that is quick. CULM_ERR_FORMAT: some cannot be used; the line
 * has the first, how many, and what to do. *ret_note, of CULM_ERROR_MAX bytes: that they were not looked at, or "". */
enum culm_status culm_data_check_before(const struct culm_source *source, char *ret_note,
                                        struct culm_error *error);

#endif
