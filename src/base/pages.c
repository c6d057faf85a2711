/* Memory for numbers. See pages.h. */
#include "base/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN ((size_t)64)

void *culm_pages_sparse(size_t bytes) {
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    return aligned_alloc(bytes < 2 * CULM_HUGE_PAGE ? ALIGN : CULM_HUGE_PAGE,
                         culm_pages_size(bytes));
}

void culm_pages_fill(void *data, size_t bytes) {
    if (bytes >= 2 * CULM_HUGE_PAGE) {
        /* a hint: without them it is only slower */
        (void)madvise(data, culm_pages_size(bytes), MADV_HUGEPAGE);
    }
}

void *culm_pages_alloc(size_t bytes) {
    void *data = culm_pages_sparse(bytes);
    if (data) {
        culm_pages_fill(data, bytes);
    }
    return data;
}

void *culm_pages_zeroed(size_t bytes) {
    void *data = culm_pages_alloc(bytes);
    return data ? memset(data, 0, bytes) : NULL;
}
