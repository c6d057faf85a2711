/*
 * Internal to src/data: the pictures of a folder, or a single one, in the order of their turns.
 *
 * At first they are in the order of their names. Those that are found later come behind the known
 * ones, in the order of time. A picture that was found to be gone has no turn any more.
 */
#ifndef CULM_DATA_FEED_FOLDER_H
#define CULM_DATA_FEED_FOLDER_H

#include "data/pictures.h"
#include "data/string_set.h"

#define FEED_FOLDER_QUIET_NS                                                                       \
    UINT64_C(500000000) /* a picture counts when nothing has been written to it for so long */

struct feed_folder {
    struct culm_strings path; /* of each picture */
    int32_t *number;          /* of each: that of its folder; -1: none; or that it is gone */
    int64_t first;            /* the turn of the first of them */
    int32_t folders;          /* when it was opened */
    uint64_t look_ns;         /* when to look for more */
    char note[CULM_PICTURES_TEXT];
};

/* Lists what is there. may_be_empty: more will come. CULM_ERR_CONFIG: there are no pictures. */
enum culm_status feed_folder_open(struct feed_folder *folder, const char *feed, const char *file,
                                  bool may_be_empty, struct culm_error *error);
void feed_folder_release(struct feed_folder *folder);
/* Looks for more. What cannot be listed now is tried again the next time. One that is being written is
 * taken all the same: if it is damaged now, it is whole when its turn comes again. */
void feed_folder_grow(struct feed_folder *folder, const char *feed, const char *file);
/* Looks for more unless that was done a moment ago; what is being written is left for later. As pictures of before `turn` will not be asked for
 * again, those that are gone are forgotten, so that a folder may be followed for ever. */
void feed_folder_follow(struct feed_folder *folder, const char *feed, const char *file,
                        int64_t turn);
bool feed_folder_is_known_gone(const struct feed_folder *folder, int64_t turn);
int64_t feed_folder_end(const struct feed_folder *folder);
const char *feed_folder_path(const struct feed_folder *folder, int64_t turn);
/* The number of its folder; -1: none. */
int32_t feed_folder_number(const struct feed_folder *folder, int64_t turn);
void feed_folder_is_gone(struct feed_folder *folder, int64_t turn);

#endif
