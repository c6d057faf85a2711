/* The header of a .npy file; see the header. The text is a Python literal, of which only what NumPy
 * writes is understood. */
#include "data/npy.h"

#include <stdio.h>
#include <string.h>

struct scan {
    const char *at, *end;
};

static void skip_blanks(struct scan *scan) {
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n')) {
        scan->at++;
    }
}

static bool take(struct scan *scan, char what) {
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != what) {
        return false;
    }
    scan->at++;
    return true;
}

static bool take_word(struct scan *scan, const char *word) {
    size_t len = strlen(word);
    skip_blanks(scan);
    if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, word, len) != 0) {
        return false;
    }
    scan->at += len;
    return true;
}

/* A string in single or double quotes, without escapes. */
static bool take_string(struct scan *scan, char *ret_text, size_t size) {
    size_t len = 0;
    skip_blanks(scan);
    if (scan->at == scan->end || (*scan->at != '\'' && *scan->at != '"')) {
        return false;
    }
    char quote = *scan->at++;
    while (scan->at < scan->end && *scan->at != quote) {
        if (*scan->at < ' ' || *scan->at == '\\' || len + 1 == size) {
            return false;
        }
        ret_text[len++] = *scan->at++;
    }
    ret_text[len] = '\0';
    return take(scan, quote);
}

static bool take_number(struct scan *scan, uint64_t *ret_value) {
    uint64_t value = 0;
    skip_blanks(scan);
    const char *first = scan->at;
    for (; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9'; scan->at++) {
        if (value > (UINT64_MAX - 9) / 10) {
            return false;
        }
        value = value * 10 + (uint64_t)(*scan->at - '0');
    }
    *ret_value = value;
    return scan->at > first;
}

struct header {
    char descr[32];
    bool fortran, has_descr, has_order, has_shape, descr_is_text;
    int rank;
    uint64_t dim[CULM_NPY_RANK_MAX]; /* the first ones */
    size_t offset;                   /* of what follows the header */
};

static bool take_shape(struct scan *scan, struct header *header) {
    uint64_t dim;
    header->has_shape = true;
    if (!take(scan, '(')) {
        return false;
    }
    while (!take(scan, ')')) {
        if (!take_number(scan, &dim)) {
            return false;
        }
        if (header->rank < CULM_NPY_RANK_MAX) {
            header->dim[header->rank] = dim;
        }
        header->rank++;
        if (!take(scan, ',')) {
            return take(scan, ')');
        }
    }
    return true;
}

static bool take_entry(struct scan *scan, struct header *header) {
    char key[32];
    if (!take_string(scan, key, sizeof key) || !take(scan, ':')) {
        return false;
    }
    if (!strcmp(key, "descr") && !header->has_descr) {
        header->has_descr = true;
        header->descr_is_text = take_string(scan, header->descr, sizeof header->descr);
        return header->descr_is_text; /* a list: a structured type */
    }
    if (!strcmp(key, "fortran_order") && !header->has_order) {
        header->has_order = true;
        header->fortran = take_word(scan, "True");
        return header->fortran || take_word(scan, "False");
    }
    return !strcmp(key, "shape") && !header->has_shape && take_shape(scan, header);
}

static bool take_header(struct scan *scan, struct header *header) {
    if (!take(scan, '{')) {
        return false;
    }
    while (!take(scan, '}')) {
        if (!take_entry(scan, header)) {
            return false;
        }
        if (!take(scan, ',')) {
            if (!take(scan, '}')) {
                return false;
            }
            break;
        }
    }
    skip_blanks(scan);
    return scan->at == scan->end && header->has_descr && header->has_order && header->has_shape;
}

bool culm_npy_is(const void *data, size_t len) { return len >= 6 && !memcmp(data, "\x93NUMPY", 6); }

#define REASON_SIZE 128

/* The header as a whole, whatever its type and shape. False: ret_reason says what is wrong. */
static bool read_header(const void *data, size_t len, uint64_t file_bytes,
                        struct header *ret_header, char ret_reason[REASON_SIZE]) {
    const uint8_t *byte = data;
    if (!culm_npy_is(data, len)) {
        snprintf(ret_reason, REASON_SIZE, "does not begin as a .npy file");
        return false;
    }
    size_t fixed = len > 6 && byte[6] == 1 ? 10 : 12;
    if (len < fixed) {
        snprintf(ret_reason, REASON_SIZE, "ends inside of its header");
        return false;
    }
    if (byte[6] < 1 || byte[6] > 3) {
        snprintf(ret_reason, REASON_SIZE, "has .npy version %d.%d, 1 to 3 are known", byte[6],
                 byte[7]);
        return false;
    }
    uint32_t text = (uint32_t)byte[8] | (uint32_t)byte[9] << 8;
    if (fixed == 12) {
        text |= (uint32_t)byte[10] << 16 | (uint32_t)byte[11] << 24;
    }
    if (text > len - fixed) {
        snprintf(ret_reason, REASON_SIZE,
                 len < file_bytes ? "has a header of more than 64 KiB"
                                  : "ends inside of its header");
        return false;
    }
    struct scan scan = {(const char *)data + fixed, (const char *)data + fixed + text};
    struct header header = {.offset = fixed + text};
    bool good = take_header(&scan, &header);
    if (!good && !(header.has_descr && !header.descr_is_text)) {
        snprintf(ret_reason, REASON_SIZE, "has a header that cannot be read");
        return false;
    }
    *ret_header = header;
    return true;
}

static bool is_type(const char *descr, const char *kinds, const char *widths) {
    return strlen(descr) == 3 && strchr("<>|=", descr[0]) && strchr(kinds, descr[1]) &&
           strchr(widths, descr[2]);
}

/* --- tokens --- */

static enum culm_status refuse(struct culm_error *error, const char *path, const char *what) {
    return culm_error_set(error, CULM_ERR_FORMAT,
                          "token file '%s': %s; save it with numpy.save(path, "
                          "ids.astype('<u2')) or '<u4'",
                          path, what);
}

enum culm_status culm_npy_parse(const void *data, size_t len, uint64_t file_bytes, const char *path,
                                struct culm_npy *ret_npy, struct culm_error *error) {
    char what[REASON_SIZE];
    struct header header;
    if (!read_header(data, len, file_bytes, &header, what)) {
        return refuse(error, path, what);
    }
    if (!header.descr_is_text) {
        return refuse(error, path, "has a structured element type, not integers");
    }
    const char *d = header.descr;
    if (!is_type(d, "ui", "1248")) {
        snprintf(what, sizeof what, "has elements of type '%s', not integers", d);
        return refuse(error, path, what);
    }
    if (d[2] != '1' && d[0] != '<') {
        snprintf(what, sizeof what, "has elements of type '%s', not little-endian", d);
        return refuse(error, path, what);
    }
    if (header.fortran) {
        return refuse(error, path, "is in Fortran order");
    }
    if (header.rank != 1) {
        snprintf(what, sizeof what, "has %d dimensions, not 1", header.rank);
        return refuse(error, path, what);
    }
    struct culm_npy npy = {.offset = header.offset,
                           .count = header.dim[0],
                           .width = d[2] - '0',
                           .is_signed = d[1] == 'i'};
    uint64_t space = file_bytes < npy.offset ? 0 : file_bytes - npy.offset;
    if (npy.count == 0) {
        return refuse(error, path, "has no elements");
    }
    if (npy.count > UINT64_MAX / 8 || npy.count * (uint64_t)npy.width != space) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "token file '%s': its header says %llu elements of %d bytes, %llu "
                              "bytes follow; the file is damaged, write it again",
                              path, (unsigned long long)npy.count, npy.width,
                              (unsigned long long)space);
    }
    *ret_npy = npy;
    return CULM_OK;
}

/* --- arrays --- */

static enum culm_status refuse_array(struct culm_error *error, const char *what, const char *path,
                                     const char *reason) {
    return culm_error_set(error, CULM_ERR_FORMAT, "%s '%s': %s", what, path, reason);
}

enum culm_status culm_npy_parse_array(const void *data, size_t len, uint64_t file_bytes,
                                      const char *what, const char *path,
                                      struct culm_npy_array *ret_array, struct culm_error *error) {
    char reason[REASON_SIZE];
    struct header header;
    if (!read_header(data, len, file_bytes, &header, reason)) {
        return refuse_array(error, what, path, reason);
    }
    const char *d = header.descr;
    if (!header.descr_is_text) {
        return refuse_array(error, what, path, "has a structured element type, not numbers");
    }
    if (!is_type(d, "ui", "1248") && !is_type(d, "f", "48") && !is_type(d, "b", "1")) {
        snprintf(reason, sizeof reason, "has elements of type '%s', not numbers", d);
        return refuse_array(error, what, path, reason);
    }
    if (d[2] != '1' && d[0] != '<') {
        snprintf(reason, sizeof reason, "has elements of type '%s', not little-endian", d);
        return refuse_array(error, what, path, reason);
    }
    if (header.rank > CULM_NPY_RANK_MAX) {
        snprintf(reason, sizeof reason, "has %d dimensions; at most %d are read", header.rank,
                 CULM_NPY_RANK_MAX);
        return refuse_array(error, what, path, reason);
    }
    if (header.fortran && header.rank > 1) {
        return refuse_array(error, what, path, "is in Fortran order; save it in C order");
    }
    struct culm_npy_array array = {.offset = header.offset,
                                   .kind = d[1],
                                   .width = d[2] - '0',
                                   .rank = header.rank,
                                   .count = 1};
    uint64_t space = file_bytes < array.offset ? 0 : file_bytes - array.offset;
    bool fits = true;
    for (int i = 0; i < array.rank; i++) {
        array.dim[i] = header.dim[i];
        fits = fits && !__builtin_mul_overflow(array.count, array.dim[i], &array.count);
    }
    fits = fits && array.count <= UINT64_MAX / 8;
    if (!fits || array.count * (uint64_t)array.width != space) {
        char count[32] = "more";
        if (fits) {
            snprintf(count, sizeof count, "%llu", (unsigned long long)array.count);
        }
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "%s '%s': its header says %s elements of %d bytes, %llu bytes "
                              "follow; the file is damaged, write it again",
                              what, path, count, array.width, (unsigned long long)space);
    }
    *ret_array = array;
    return CULM_OK;
}

size_t culm_npy_header(char kind, int width, int rank, const uint64_t *dim,
                       char ret_header[CULM_NPY_WRITE_MAX]) {
    char first[24];
    int digits = snprintf(first, sizeof first, "%llu", (unsigned long long)dim[0]);
    int at = 10;
    at += snprintf(ret_header + at, CULM_NPY_WRITE_MAX - 10,
                   "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s,",
                   width == 1 ? '|' : '<', kind, width, first);
    if (rank == 2) {
        at += snprintf(ret_header + at, CULM_NPY_WRITE_MAX - (size_t)at, " %llu",
                       (unsigned long long)dim[1]);
    }
    /* NumPy leaves room for a first dimension of 21 digits. */
    at += snprintf(ret_header + at, CULM_NPY_WRITE_MAX - (size_t)at, "), }%*s", 21 - digits, "");
    size_t len = ((size_t)at + 1 + 63) / 64 * 64;
    memset(ret_header + at, ' ', len - (size_t)at - 1);
    ret_header[len - 1] = '\n';
    memcpy(ret_header, "\x93NUMPY\x01\x00", 8);
    ret_header[8] = (char)(uint8_t)(len - 10);
    ret_header[9] = (char)((len - 10) >> 8);
    return len;
}
