/*
 * The files that paths name: a file, all files of a folder, or those that fit a pattern ("*.txt").
 *
 * A folder is walked through with the folders in it, in the order of names (bytewise); names that
 * begin with a dot are passed over, empty files are counted. A path that exists is no pattern.
 *
 * Thread: any; a corpus is constant once it was found.
 */
#ifndef CULM_DATA_CORPUS_H
#define CULM_DATA_CORPUS_H

#include "base/status.h"

#define CULM_CORPUS_FILES_MAX (1 << 24)

struct culm_corpus_part { /* what one path has named */
    const char *path;     /* as it was given; borrowed */
    bool listed;          /* it is a folder or a pattern */
    size_t first, count;  /* of the files */
};

struct culm_corpus {
    char **file;
    size_t count, capacity;
    struct culm_corpus_part *part;
    size_t parts;
    int64_t empty, others; /* left out: empty files; what is no plain file */
};

/* `what` begins messages: "text". CULM_ERR_CONFIG: nothing is there, a link leads nowhere, a limit;
 * CULM_ERR_IO: what is there cannot be looked at. A path that is neither folder nor pattern is taken
 * as it is. */
enum culm_status culm_corpus_find(const char *what, const char *const *paths, size_t count,
                                  struct culm_corpus *ret_corpus, struct culm_error *error);
void culm_corpus_release(struct culm_corpus *corpus); /* fine on a zeroed struct */

#endif
