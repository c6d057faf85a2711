/*
 * IDX files, the format of MNIST and its relatives: an array of bytes, optionally gzipped.
 *
 *     0 0  8 (bytes)  rank  dim[0] .. dim[rank - 1] (u32, big-endian)  elements
 *
 * Labels, of one dimension, may also be whole numbers of two bytes (0x0B) or four (0x0C).
 * A plain file is read on demand; a compressed one is unpacked into memory when it is opened.
 * Thread: constant after opening.
 */
#ifndef CULM_DATA_IDX_H
#define CULM_DATA_IDX_H

#include "base/pins.h"

#define CULM_IDX_BYTES_MAX (UINT64_C(1) << 36) /* of elements */

struct culm_idx {
    int rank; /* 1 to 4 */
    int64_t dim[4];
    int64_t item_bytes; /* of one entry of dimension 0 */
    int width;          /* bytes of an element: 1; of culm_idx_labels 1, 2 or 4 */
    /* internal */
    bool labels;
    struct culm_files *files;
    uint8_t *data; /* compressed: the elements */
    size_t offset;
};

/* `pins`: see files.h. */
enum culm_status culm_idx_open(const char *path, struct culm_pins *pins, struct culm_idx *ret_idx,
                               struct culm_error *error);
void culm_idx_release(struct culm_idx *idx); /* fine on a zeroed struct */
/* The same, of labels: whatever their width. */
enum culm_status culm_idx_open_labels(const char *path, struct culm_idx *ret_idx,
                                      struct culm_error *error);
/* All elements of those, ret_label[dim[0]]. CULM_ERR_FORMAT: one is negative. */
enum culm_status culm_idx_labels(const struct culm_idx *idx, const char *path, int32_t *ret_label,
                                 struct culm_error *error);
/* Entries [first, first + count) of dimension 0. */
enum culm_status culm_idx_read(const struct culm_idx *idx, int64_t first, int64_t count,
                               uint8_t *ret_data, struct culm_error *error);

#endif
