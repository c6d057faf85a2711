/* Structures of <culm.h>. See public.h. */
#include "run/public.h"

#include <string.h>

static enum culm_status size_of(const void *structure, const char *name, size_t *ret_size,
                                struct culm_error *error) {
    if (!structure) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "struct %s: NULL", name);
    }
    memcpy(ret_size, structure, sizeof *ret_size);
    if (*ret_size <= sizeof *ret_size || *ret_size > 1u << 16) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "struct %s: size is %zu; set it to sizeof(struct %s)", name,
                              *ret_size, name);
    }
    return CULM_OK;
}

enum culm_status culm_public_room(const void *ret_to, const char *name, struct culm_error *error) {
    size_t room = 0;
    return size_of(ret_to, name, &room, error);
}

enum culm_status culm_public_fill(void *ret_to, const void *from, size_t size, const char *name,
                                  struct culm_error *error) {
    size_t room = 0;
    enum culm_status status = size_of(ret_to, name, &room, error);
    if (status == CULM_OK) {
        size_t common = room < size ? room : size;
        memcpy((char *)ret_to + sizeof room, (const char *)from + sizeof room,
               common - sizeof room);
    }
    return status;
}

enum culm_status culm_public_take(void *ret_to, size_t size, const void *from, const char *name,
                                  struct culm_error *error) {
    size_t given = 0;
    enum culm_status status = size_of(from, name, &given, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = size; i < given; i++) {
        if (((const char *)from)[i]) {
            return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                                  "struct %s: byte %zu is set, which this version of the library "
                                  "does not know",
                                  name, i);
        }
    }
    memset(ret_to, 0, size);
    memcpy(ret_to, from, given < size ? given : size);
    return CULM_OK;
}

enum culm_status culm_public_check(int64_t number, int64_t most, const char *name,
                                   struct culm_error *error) {
    if (number >= 0 && number <= most) {
        return CULM_OK;
    }
    return most == INT64_MAX
               ? culm_error_set(error, CULM_ERR_ARGUMENT, "%s: %lld is negative", name,
                                (long long)number)
               : culm_error_set(error, CULM_ERR_ARGUMENT, "%s: %lld is not in 0..%lld", name,
                                (long long)number, (long long)most);
}

enum culm_status culm_public_ended(int code, const struct culm_error *own,
                                   struct culm_error *error) {
    if (code == 0) {
        return CULM_OK;
    }
    enum culm_status status = code == culm_status_exit_code(CULM_ERR_STOPPED) ? CULM_ERR_STOPPED
                              : own->status                                   ? own->status
                                                                              : CULM_ERR_INTERNAL;
    const char *text = own->text[0]                 ? own->text
                       : status == CULM_ERR_STOPPED ? "the run was stopped; it can be resumed"
                                                    : "the run failed; its events say why";
    return culm_error_set(error, status, "%s", text);
}

enum culm_status culm_public_return(enum culm_status status, struct culm_error *error) {
    if (error) {
        error->status = status;
    }
    return status;
}

enum culm_status culm_public_check_dir(const char *dir, const char *function,
                                       struct culm_error *error) {
    return dir && *dir ? CULM_OK
                       : culm_error_set(error, CULM_ERR_ARGUMENT, "%s: dir is %s", function,
                                        dir ? "empty" : "NULL");
}

enum culm_status culm_public_check_path(const char *path, const char *function,
                                        struct culm_error *error) {
    return path ? CULM_OK
                : culm_error_set(error, CULM_ERR_ARGUMENT, "%s: the path is NULL", function);
}
