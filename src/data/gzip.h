/*
 * Gzip data to bytes: one member, or several one after the other, as `cat` and parallel programs
 * make them.
 *
 * Thread: a reader belongs to one thread at a time.
 */
#ifndef CULM_DATA_GZIP_H
#define CULM_DATA_GZIP_H

#include "base/status.h"

#define CULM_GZIP_RATIO_MAX 1040 /* deflate makes at most 1032 bytes of one */

bool culm_gzip_is(const void *data, size_t len);

struct culm_gunzip;

/* `packed`, `what` and `path` are borrowed; the last two begin messages: "text 'a.txt.gz'". */
enum culm_status culm_gunzip_open(const void *packed, size_t len, const char *what,
                                  const char *path, struct culm_gunzip **ret_gunzip,
                                  struct culm_error *error);
void culm_gunzip_close(struct culm_gunzip *gunzip); /* NULL is fine */
/* The next `len` bytes, or fewer where there are no more. CULM_ERR_FORMAT: it is damaged. */
enum culm_status culm_gunzip_read(struct culm_gunzip *gunzip, void *ret_data, size_t len,
                                  size_t *ret_len, struct culm_error *error);
/* Whether all was read, and nothing is missing. */
bool culm_gunzip_ended(const struct culm_gunzip *gunzip);

/* All of it, which the caller frees. CULM_ERR_FORMAT: damaged, cut short; CULM_ERR_CONFIG: more than
 * `most` bytes. */
enum culm_status culm_gunzip_all(const void *packed, size_t len, const char *what, const char *path,
                                 uint64_t most, char **ret_data, size_t *ret_len,
                                 struct culm_error *error);

#endif
