/*
 * Memory for numbers: aligned for the widest vectors and, when large, to huge pages, which the
 * kernel is asked for.
 *
 * The first touch of a page costs more than all later work on it (on virtual machines up to ten
 * times a copy), so whoever uses this keeps what it has and uses it again. Thread: any.
 */
#ifndef CULM_BASE_PAGES_H
#define CULM_BASE_PAGES_H

#include <stddef.h>

#define CULM_HUGE_PAGE ((size_t)2 << 20)

/* What culm_pages_alloc takes for these bytes. */
static inline size_t culm_pages_size(size_t bytes) {
    size_t to = bytes < 2 * CULM_HUGE_PAGE ? 64 : CULM_HUGE_PAGE;
    return bytes ? (bytes + to - 1) & ~(to - 1) : to;
}

/* 64-byte aligned; contents undefined. free() gives it back. NULL: out of memory. */
void *culm_pages_alloc(size_t bytes);
/* The same, zeroed. */
void *culm_pages_zeroed(size_t bytes);
/* The same for memory of which little may be touched: of a huge page, a byte costs all. */
void *culm_pages_sparse(size_t bytes);
/* From now on much of it will be. */
void culm_pages_fill(void *data, size_t bytes);

#endif
