/* Looking at file systems. See room.h. */
#include "base/room.h"

#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BLOCK ((uint64_t)4096)
#define KB ((uint64_t)1000)
#define MB ((uint64_t)1000000)

enum culm_status culm_room_free(const char *path, uint64_t *ret_bytes, struct culm_error *error) {
    char at[CULM_PATH_MAX], above[CULM_PATH_MAX];
    struct statvfs found;
    enum culm_status status = culm_path_format(at, error, "%s", path);
    while (status == CULM_OK && statvfs(at, &found) != 0) {
        const int reason = errno;
        if (reason != ENOENT || culm_path_parent(at, above, NULL) != CULM_OK ||
            strcmp(above, at) == 0) {
            return culm_error_errno(error, reason, "look for room in '%s'", path);
        }
        memcpy(at, above, sizeof at);
    }
    if (status == CULM_OK) {
        /* What is kept back for root is root's to use. */
        *ret_bytes = (uint64_t)(geteuid() == 0 ? found.f_bfree : found.f_bavail) *
                     (found.f_frsize ? found.f_frsize : found.f_bsize);
    }
    return status;
}

uint64_t culm_room_of_file(uint64_t bytes) { return (bytes + BLOCK - 1) / BLOCK * BLOCK + BLOCK; }

static void write_size(uint64_t bytes, bool up, char ret_text[CULM_ROOM_TEXT]) {
    if (bytes < MB) {
        snprintf(ret_text, CULM_ROOM_TEXT, "%llu kB",
                 (unsigned long long)((bytes + (up ? KB - 1 : 0)) / KB));
    } else {
        const uint64_t tenths = (bytes + (up ? MB / 10 - 1 : 0)) / (MB / 10);
        snprintf(ret_text, CULM_ROOM_TEXT, "%llu.%llu MB", (unsigned long long)(tenths / 10),
                 (unsigned long long)(tenths % 10));
    }
}

void culm_room_text(uint64_t bytes, char ret_text[CULM_ROOM_TEXT]) {
    write_size(bytes, true, ret_text);
}

void culm_room_text_of_free(uint64_t bytes, char ret_text[CULM_ROOM_TEXT]) {
    write_size(bytes, false, ret_text);
}

enum culm_status culm_room_check(const char *path, uint64_t bytes, const char *what,
                                 struct culm_error *error) {
    char need[CULM_ROOM_TEXT], have[CULM_ROOM_TEXT], lack[CULM_ROOM_TEXT];
    uint64_t there;
    if (culm_room_free(path, &there, NULL) != CULM_OK || there >= bytes) {
        return CULM_OK;
    }
    culm_room_text(bytes, need);
    culm_room_text_of_free(there, have);
    culm_room_text(bytes - there, lack);
    return culm_error_set(error, CULM_ERR_IO,
                          "%s takes %s and %s are free where '%.200s' is; free %s there", what,
                          need, have, path, lack);
}
