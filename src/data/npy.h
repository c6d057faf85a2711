/*
 * The header of a NumPy .npy file.
 *
 *     \x93NUMPY  major minor  length (u16; u32 from version 2 on)  text, padded with blanks, '\n'
 *     {'descr': '<u2', 'fortran_order': False, 'shape': (1000,), }
 *
 * Reads versions 1 to 3, little-endian. Files of token ids must be 1-D arrays of u1 u2 u4 u8 i1 i2
 * i4 i8; the message for anything else says what to save instead. Other arrays may have up to four
 * dimensions in C order, and may also be f4, f8 or b1. Thread: any.
 */
#ifndef CULM_DATA_NPY_H
#define CULM_DATA_NPY_H

#include "base/status.h"

#define CULM_NPY_HEADER_MAX 65536
#define CULM_NPY_RANK_MAX 4

struct culm_npy {
    size_t offset; /* of the first element */
    uint64_t count;
    int width; /* bytes of an element: 1, 2, 4, 8 */
    bool is_signed;
};

bool culm_npy_is(const void *data, size_t len); /* whether it begins like a .npy file */
/* Parses the header of a file of token ids. data[len]: the first bytes of a file of `file_bytes`;
 * all of it, or at least CULM_NPY_HEADER_MAX. */
enum culm_status culm_npy_parse(const void *data, size_t len, uint64_t file_bytes, const char *path,
                                struct culm_npy *ret_npy, struct culm_error *error);

struct culm_npy_array {
    size_t offset; /* of the first element */
    char kind;     /* 'u', 'i', 'f' or 'b' */
    int width;     /* bytes of an element: 1, 2, 4, 8 */
    int rank;      /* 0: a single number */
    uint64_t dim[CULM_NPY_RANK_MAX];
    uint64_t count; /* of elements; may be 0. They fill the rest of the file exactly */
};

/* The same for any array. Messages begin with "WHAT 'PATH': ". */
enum culm_status culm_npy_parse_array(const void *data, size_t len, uint64_t file_bytes,
                                      const char *what, const char *path,
                                      struct culm_npy_array *ret_array, struct culm_error *error);

/* Makes the header of a version 1.0 file as NumPy does, padded to a multiple of 64 bytes. Returns
 * its length. `rank`: 1 or 2. */
#define CULM_NPY_WRITE_MAX 192
size_t culm_npy_header(char kind, int width, int rank, const uint64_t *dim,
                       char ret_header[CULM_NPY_WRITE_MAX]);

#endif
