/* A storage that is a folder. See storage.h. An object is written beside its place and renamed; a fresh one is linked, which
 * fails if there is one. */
#include "store/storage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES 8 /* while somebody removes folders that are empty */

static enum culm_status path_of(const struct culm_storage *storage, const char *name,
                                char ret_path[CULM_PATH_MAX], struct culm_error *error) {
    return culm_path_format(ret_path, error, "%s/%s", storage->place, name);
}

static enum culm_status write_beside(const char *path, const void *data, size_t len,
                                     struct culm_file *file, struct culm_error *error) {
    char parent[CULM_PATH_MAX];
    enum culm_status status = culm_path_parent(path, parent, error);
    if (status == CULM_OK) {
        status = culm_dir_make(NULL, parent, error);
    }
    if (status == CULM_OK) {
        status = culm_file_create_beside(NULL, path, file, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    status = culm_file_append(file, data, len, error);
    if (status != CULM_OK) {
        culm_file_abandon(file);
        return status;
    }
    return culm_file_finish(file, error);
}

static enum culm_status link_fresh(const char *from, const char *path, struct culm_error *error) {
    char parent[CULM_PATH_MAX];
    enum culm_status status = CULM_OK;
    if (link(from, path) < 0) {
        status = errno == EEXIST ? culm_error_set(error, CULM_ERR_EXISTS, "'%s' is there", path)
                                 : culm_error_errno(error, errno, "link '%s'", path);
    }
    (void)unlink(from);
    if (status == CULM_OK) {
        status = culm_path_parent(path, parent, error);
    }
    return status == CULM_OK ? culm_file_sync(NULL, parent, error) : status;
}

static enum culm_status folder_put(struct culm_storage *storage, const char *name, const void *data,
                                   size_t len, bool fresh, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_file file;
    enum culm_status status = path_of(storage, name, path, error);
    if (status == CULM_OK && fresh && culm_file_exists(path)) {
        status = culm_error_set(error, CULM_ERR_EXISTS, "'%s' is there", path);
    }
    if (status != CULM_OK) {
        return status;
    }
    for (int tries = 0;; tries++) {
        status = write_beside(path, data, len, &file, error);
        if (status != CULM_ERR_NOT_FOUND || tries == TRIES) {
            break;
        }
    }
    if (status != CULM_OK) {
        return status;
    }
    if (fresh) {
        return link_fresh(file.path, path, error);
    }
    status = culm_file_rename(NULL, file.path, path, error);
    if (status != CULM_OK) {
        (void)unlink(file.path);
    }
    return status;
}

static enum culm_status folder_get(struct culm_storage *storage, const char *name, size_t max_bytes,
                                   char **ret_data, size_t *ret_len, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = path_of(storage, name, path, error);
    return status == CULM_OK ? culm_file_read(NULL, path, max_bytes, ret_data, ret_len, error)
                             : status;
}

/* Of the folder `prefix`, which ends with a '/', and all in it. */
static enum culm_status add_all(const struct culm_storage *storage, const char *prefix,
                                struct culm_names *names, struct culm_error *error) {
    char path[CULM_PATH_MAX], name[CULM_STORAGE_NAME_MAX];
    struct culm_names found = {0};
    enum culm_status status = path_of(storage, prefix, path, error);
    if (status == CULM_OK) {
        status = culm_dir_list(path, &found, error);
    }
    for (size_t i = 0; i < found.count && status == CULM_OK; i++) {
        int len = snprintf(name, sizeof name, "%s%s", prefix, found.name[i]);
        if (len + 1 >= (int)sizeof name || !culm_storage_name_is(name)) {
            continue; /* is no object */
        }
        status = path_of(storage, name, path, error);
        if (status == CULM_OK && culm_file_is_directory(path)) {
            name[len] = '/';
            name[len + 1] = '\0';
            status = add_all(storage, name, names, error);
        } else if (status == CULM_OK && culm_file_is_regular(path) &&
                   !culm_storage_names_add(names, name, (size_t)len)) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "list '%s': out of memory", path);
        }
    }
    culm_names_release(&found);
    if (status == CULM_ERR_NOT_FOUND) {
        culm_error_clear(error);
        status = CULM_OK;
    }
    return status;
}

static enum culm_status folder_list(struct culm_storage *storage, const char *prefix,
                                    struct culm_names *ret_names, struct culm_error *error) {
    struct culm_names names = {0};
    enum culm_status status = add_all(storage, prefix, &names, error);
    if (status != CULM_OK) {
        culm_names_release(&names);
        return status;
    }
    culm_storage_names_sort(&names);
    *ret_names = names;
    return CULM_OK;
}

static enum culm_status folder_remove(struct culm_storage *storage, const char *name,
                                      struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = path_of(storage, name, path, error);
    if (status != CULM_OK) {
        return status;
    }
    if (unlink(path) < 0 && errno != ENOENT) {
        return culm_error_errno(error, errno, "remove '%s'", path);
    }
    char *slash = strrchr(path, '/');
    if (slash && strchr(name, '/')) {
        *slash = '\0';
        (void)rmdir(path); /* of what was there last */
    }
    return CULM_OK;
}

static void folder_free(struct culm_storage *storage) { free(storage); }

static const struct culm_storage_ops folder_ops = {
    .size = sizeof(struct culm_storage_ops),
    .put = folder_put,
    .get = folder_get,
    .list = folder_list,
    .remove = folder_remove,
    .free = folder_free,
};

enum culm_status culm_storage_open_folder(const char *path, struct culm_storage **ret_storage,
                                          struct culm_error *error) {
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    if (!len || len >= CULM_STORAGE_PLACE_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG, "'%.80s' is not the path of a folder", path);
    }
    struct culm_storage *storage = calloc(1, sizeof *storage);
    if (!storage) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    storage->ops = &folder_ops;
    memcpy(storage->place, path, len);
    *ret_storage = storage;
    return CULM_OK;
}
