/* Memory for numbers. See pages.h. */
#include "base/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN ((size_t)64)

void *culm_pages_alloc(size_t bytes) {
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    if (bytes < 2 * CULM_HUGE_PAGE) {
        return aligned_alloc(ALIGN, culm_pages_size(bytes));
    }
    size_t size = culm_pages_size(bytes);
    void *data = aligned_alloc(CULM_HUGE_PAGE, size);
    if (data) {
        (void)madvise(data, size, MADV_HUGEPAGE); /* a hint: without them it is only slower */
    }
    return data;
}

void *culm_pages_zeroed(size_t bytes) {
    void *data = culm_pages_alloc(bytes);
    return data ? memset(data, 0, bytes) : NULL;
}
