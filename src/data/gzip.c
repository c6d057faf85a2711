/* Gzip through zlib; see the header. */
#include "data/gzip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define PART (1u << 30)
#define FIRST_ROOM ((size_t)1 << 20)

struct culm_gunzip {
    z_stream stream;
    const char *what, *path;
    const uint8_t *next; /* packed bytes that zlib was not given yet */
    size_t left;
    bool ended;
};

bool culm_gzip_is(const void *data, size_t len) {
    return len >= 3 && !memcmp(data, "\x1f\x8b\x08", 3);
}

static enum culm_status damaged(const struct culm_gunzip *gunzip, const char *how,
                                struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT, "%s '%s': its gzip data is %s; get it again",
                          gunzip->what, gunzip->path, how);
}

static enum culm_status no_memory(const char *what, const char *path, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory to unpack it", what,
                          path);
}

enum culm_status culm_gunzip_open(const void *packed, size_t len, const char *what,
                                  const char *path, struct culm_gunzip **ret_gunzip,
                                  struct culm_error *error) {
    struct culm_gunzip *gunzip = calloc(1, sizeof *gunzip);
    if (!gunzip || inflateInit2(&gunzip->stream, 15 + 16) != Z_OK) {
        free(gunzip);
        return no_memory(what, path, error);
    }
    gunzip->what = what;
    gunzip->path = path;
    gunzip->next = packed;
    gunzip->left = len;
    *ret_gunzip = gunzip;
    return CULM_OK;
}

void culm_gunzip_close(struct culm_gunzip *gunzip) {
    if (gunzip) {
        inflateEnd(&gunzip->stream);
        free(gunzip);
    }
}

bool culm_gunzip_ended(const struct culm_gunzip *gunzip) { return gunzip->ended; }

static void feed(struct culm_gunzip *gunzip) {
    if (!gunzip->stream.avail_in) {
        uInt part = gunzip->left < PART ? (uInt)gunzip->left : PART;
        gunzip->stream.next_in = (Bytef *)(uintptr_t)gunzip->next;
        gunzip->stream.avail_in = part;
        gunzip->next += part;
        gunzip->left -= part;
    }
}

/* Behind a member: another one, or nothing but zeros, with which tapes are filled up. */
static enum culm_status go_on(struct culm_gunzip *gunzip, struct culm_error *error) {
    for (feed(gunzip); gunzip->stream.avail_in && !*gunzip->stream.next_in; feed(gunzip)) {
        gunzip->stream.next_in++;
        gunzip->stream.avail_in--;
    }
    if (!gunzip->stream.avail_in) {
        gunzip->ended = true;
        return CULM_OK;
    }
    if (*gunzip->stream.next_in != 0x1f || inflateReset(&gunzip->stream) != Z_OK) {
        return damaged(gunzip, "followed by something else", error);
    }
    return CULM_OK;
}

enum culm_status culm_gunzip_read(struct culm_gunzip *gunzip, void *ret_data, size_t len,
                                  size_t *ret_len, struct culm_error *error) {
    size_t done = 0;
    while (done < len && !gunzip->ended) {
        uInt part = len - done < PART ? (uInt)(len - done) : PART;
        feed(gunzip);
        gunzip->stream.next_out = (Bytef *)ret_data + done;
        gunzip->stream.avail_out = part;
        int result = inflate(&gunzip->stream, Z_NO_FLUSH);
        done += part - gunzip->stream.avail_out;
        if (result == Z_STREAM_END) {
            enum culm_status status = go_on(gunzip, error);
            if (status != CULM_OK) {
                return status;
            }
        } else if (result == Z_BUF_ERROR && !gunzip->stream.avail_in && !gunzip->left) {
            break;
        } else if (result != Z_OK) {
            return result == Z_MEM_ERROR ? no_memory(gunzip->what, gunzip->path, error)
                                         : damaged(gunzip, "damaged", error);
        }
    }
    *ret_len = done;
    return CULM_OK;
}

static enum culm_status read_all(struct culm_gunzip *gunzip, uint64_t most, char **data,
                                 size_t *ret_len, struct culm_error *error) {
    size_t room = 0, len = 0, got;
    for (;;) {
        if (len == room) {
            room = room ? 2 * room : FIRST_ROOM;
            room = room > most ? (size_t)most + 1 : room; /* one byte more is too many */
            char *larger = realloc(*data, room + 1);
            if (!larger) {
                return no_memory(gunzip->what, gunzip->path, error);
            }
            *data = larger;
        }
        enum culm_status status = culm_gunzip_read(gunzip, *data + len, room - len, &got, error);
        if (status != CULM_OK) {
            return status;
        }
        len += got;
        if (len > most) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "%s '%s': its gzip data is more than %.1f GB, which are kept in "
                                  "the memory of every worker; unpack it with gunzip, and name "
                                  "what comes out",
                                  gunzip->what, gunzip->path, (double)most / 1e9);
        }
        if (culm_gunzip_ended(gunzip)) {
            *ret_len = len;
            return CULM_OK;
        }
        if (len < room) {
            return damaged(gunzip, "cut short", error);
        }
    }
}

enum culm_status culm_gunzip_all(const void *packed, size_t len, const char *what, const char *path,
                                 uint64_t most, char **ret_data, size_t *ret_len,
                                 struct culm_error *error) {
    struct culm_gunzip *gunzip = NULL;
    char *data = NULL;
    enum culm_status status = culm_gunzip_open(packed, len, what, path, &gunzip, error);
    if (status == CULM_OK) {
        status = read_all(gunzip, most, &data, ret_len, error);
    }
    culm_gunzip_close(gunzip);
    if (status != CULM_OK) {
        free(data);
        return status;
    }
    char *smaller = realloc(data, *ret_len + 1);
    *ret_data = smaller ? smaller : data;
    return CULM_OK;
}
