/*
 * Samples that are left out: the file that data.skip names. 'culm data check --out' writes one.
 *
 *     # whatever stands behind a hash at the beginning of a line
 *     cat/351.jpg                              a picture, or all that a file has
 *     pairs.tsv     TAB  line 17               a line of text, from 1
 *     ids.u16       TAB  index 40960  TAB  why   a token, an image of an IDX file, its label: from 0
 *
 * A file is named by any path that leads to its folder, or from a folder on that data.path names.
 * What stands behind a second TAB is for people. A sample is left out if it has anything of what is
 * named: a window of text that has a token of the line.
 * Thread: one at a time.
 */
#ifndef CULM_DATA_SKIP_H
#define CULM_DATA_SKIP_H

#include "base/buf.h"
#include "base/pins.h"
#include "data/string_set.h"

/* Ends a message on something of a sample that is wrong in its file. */
#define CULM_SKIP_ADVICE                                                                           \
    "; 'culm data check CONFIG --out FILE' lists all such samples, and data.skip: FILE leaves "    \
    "them out"

/* Of a file: all of it, a line, or one of what it has. */
enum culm_data_unit { CULM_DATA_FILE, CULM_DATA_LINE, CULM_DATA_INDEX };
struct culm_data_place {
    const char *file;
    enum culm_data_unit unit;
    int64_t number; /* lines from 1, indexes from 0 */
};
/* Writes it as a line of such a file has it; behind it, if `why` is not NULL, a TAB and why.
 * CULM_ERR_CONFIG: its name cannot stand there. */
enum culm_status culm_data_place_write(const struct culm_data_place *place, const char *why,
                                       struct culm_buf *buf, struct culm_error *error);

struct culm_skip_entry {
    struct culm_data_place place;
    size_t line; /* of the list, from 1 */
    char *name;  /* of the file, in one spelling */
    bool found;  /* set by who has found what it names */
};
struct culm_skip;

/* `paths`: those of data.path. CULM_ERR_CONFIG: it cannot be read; CULM_ERR_FORMAT: a line is none;
 * CULM_ERR_CHANGED: it is not as it was pinned. */
enum culm_status culm_skip_read(const char *path, const char *const *paths, size_t path_count,
                                struct culm_pins *pins, struct culm_skip **ret_skip,
                                struct culm_error *error);
void culm_skip_free(struct culm_skip *skip); /* NULL is fine */
/* The entries of a file, by unit, then by number; none: 0. A skip that is NULL has none. */
size_t culm_skip_of(struct culm_skip *skip, const char *file, struct culm_skip_entry **ret_entry);
/* Whether this is named; then it has been found. */
bool culm_skip_has(struct culm_skip *skip, const struct culm_data_place *place);
/* CULM_ERR_CONFIG: an entry has not been found; the message names it. */
enum culm_status culm_skip_check_found(const struct culm_skip *skip, struct culm_error *error);
/* Appends the lines of the entries as they are in the file. */
void culm_skip_copy(const struct culm_skip *skip, struct culm_buf *buf);

#endif
