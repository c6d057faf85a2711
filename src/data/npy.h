/*
 * The header of a NumPy .npy file that holds token ids: a 1-D array of integers.
 *
 *     \x93NUMPY  major minor  length (u16; u32 from version 2 on)  text, padded with blanks, '\n'
 *     {'descr': '<u2', 'fortran_order': False, 'shape': (1000,), }
 *
 * Read: versions 1 to 3; u1 u2 u4 u8 i1 i2 i4 i8, little-endian. Everything else is refused with
 * what to save instead. Thread: any.
 */
#ifndef CULM_DATA_NPY_H
#define CULM_DATA_NPY_H

#include "base/status.h"

#define CULM_NPY_HEADER_MAX 65536

struct culm_npy {
    size_t offset; /* of the first element */
    uint64_t count;
    int width; /* bytes of an element: 1, 2, 4, 8 */
    bool is_signed;
};

bool culm_npy_is(const void *data, size_t len); /* it begins as such a file does */
/* `data`: the first `len` bytes, the whole or CULM_NPY_HEADER_MAX, of a file of `file_bytes`. */
enum culm_status culm_npy_parse(const void *data, size_t len, uint64_t file_bytes, const char *path,
                                struct culm_npy *ret_npy, struct culm_error *error);

#endif
