/* What all storages share. See storage.h. */
#include "store/storage.h"

#include <stdlib.h>
#include <string.h>

#define CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

void culm_storage_stop(struct culm_storage *storage) { atomic_store(&storage->stopped, true); }

void culm_storage_free(struct culm_storage *storage) {
    if (storage) {
        storage->ops->free(storage);
    }
}

bool culm_storage_name_is(const char *name) {
    if (strlen(name) >= CULM_STORAGE_NAME_MAX) {
        return false;
    }
    for (const char *part = name;; part++) {
        size_t len = strspn(part, CHARS);
        if (!len || part[0] == '.') {
            return false;
        }
        part += len;
        if (*part != '/') {
            return !*part;
        }
    }
}

bool culm_storage_names_add(struct culm_names *names, const char *name, size_t len) {
    char *own = strndup(name, len);
    /* Room grows by doubling: there is a power of two of places. */
    bool full = (names->count & (names->count - 1)) == 0;
    char **more = own && full ? realloc(names->name,
                                        (names->count ? 2 * names->count : 1) * sizeof *names->name)
                              : names->name;
    if (!own || !more) {
        free(own);
        return false;
    }
    names->name = more;
    names->name[names->count++] = own;
    return true;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void culm_storage_names_sort(struct culm_names *names) {
    if (names->count > 1) {
        qsort(names->name, names->count, sizeof *names->name, compare);
    }
}
