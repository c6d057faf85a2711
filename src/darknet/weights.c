/* Weights files. See net.h. */
#include "darknet/net.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_OLD 16
#define HEADER_NEW 20

static enum culm_status read_at(const struct culm_darknet_weights *weights, uint64_t at, void *data,
                                size_t len, struct culm_error *error) {
    for (size_t done = 0; done < len;) {
        ssize_t got = pread(weights->fd, (char *)data + done, len - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return culm_error_errno(error, errno, "read '%s'", weights->path);
        }
        if (got == 0) {
            return culm_error_set(error, CULM_ERR_IO, "read '%s': the file was truncated meanwhile",
                                  weights->path);
        }
        done += (size_t)got;
    }
    return CULM_OK;
}

static enum culm_status check(struct culm_darknet_weights *weights, uint64_t bytes, int64_t numbers,
                              struct culm_error *error) {
    uint8_t head[HEADER_OLD];
    if (bytes < HEADER_OLD) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "weights '%s': truncated inside its header; download it again",
                              weights->path);
    }
    enum culm_status status = read_at(weights, 0, head, sizeof head, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_reader reader = culm_reader_of(head, sizeof head);
    int64_t major = culm_read_i32(&reader), minor = culm_read_i32(&reader);
    if (major < 0 || minor < 0 || major > 1000 || minor > 1000) {
        return culm_error_set(
            error, CULM_ERR_FORMAT,
            "weights '%s': it does not begin like a darknet file; is it of another kind?",
            weights->path);
    }
    weights->begin = major * 10 + minor >= 2 ? HEADER_NEW : HEADER_OLD;
    uint64_t needed = weights->begin + 4 * (uint64_t)numbers;
    if (bytes != needed) {
        return culm_error_set(
            error, CULM_ERR_FORMAT,
            "weights '%s': it has %llu bytes, but the configuration needs %llu; %s", weights->path,
            (unsigned long long)bytes, (unsigned long long)needed,
            bytes < needed ? "is it truncated, or for another model?" : "is it for another model?");
    }
    return CULM_OK;
}

enum culm_status culm_darknet_weights_open(const char *path, const struct culm_darknet_net *net,
                                           struct culm_darknet_weights *ret_weights,
                                           struct culm_error *error) {
    struct culm_darknet_weights weights = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK),
                                           .path = strdup(path)};
    struct stat about;
    enum culm_status status;
    if (weights.fd < 0) {
        status = culm_error_errno(error, errno, "weights '%s'", path);
        if (error) {
            error->status = CULM_ERR_CONFIG;
        }
        status = CULM_ERR_CONFIG;
    } else if (!weights.path) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "weights '%s': out of memory", path);
    } else if (fstat(weights.fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        status = culm_error_set(error, CULM_ERR_CONFIG, "weights '%s': not a regular file", path);
    } else {
        status = check(&weights, (uint64_t)about.st_size, net->numbers, error);
    }
    if (status != CULM_OK) {
        culm_darknet_weights_close(&weights);
        return status;
    }
    *ret_weights = weights;
    return CULM_OK;
}

void culm_darknet_weights_close(struct culm_darknet_weights *weights) {
    if (weights->fd >= 0) {
        close(weights->fd);
    }
    free(weights->path);
    *weights = (struct culm_darknet_weights){.fd = -1};
}

/* --- parameters --- */

/* Where a convolution's parameter begins among all numbers, and how many it has. */
static bool place(const struct culm_darknet_net *net, int32_t i, const char *what,
                  int64_t *ret_first, int64_t *ret_count) {
    static const char *const vectors[] = {"bias", "scale", "mean", "variance"};
    const struct culm_darknet_section *s = &net->section[i];
    int count = s->batch_norm ? 4 : 1;
    for (int k = 0; k < count; k++) {
        if (strcmp(vectors[k], what) == 0) {
            *ret_first = s->first + k * s->c;
            *ret_count = s->c;
            return true;
        }
    }
    *ret_first = s->first + count * s->c;
    *ret_count = s->c * (culm_darknet_channels_before(net, i) / s->groups) * s->size * s->size;
    return strcmp(what, "weight") == 0;
}

static bool find(const struct culm_darknet_net *net, const char *name, int64_t *ret_first,
                 int64_t *ret_count) {
    int32_t conv;
    int used = 0;
    if (sscanf(name, "conv%d.%n", &conv, &used) != 1 || !used) {
        return false;
    }
    for (int32_t i = 0; i < net->count; i++) {
        if (net->section[i].kind == CULM_DARKNET_CONV && net->section[i].conv == conv) {
            return place(net, i, name + used, ret_first, ret_count);
        }
    }
    return false;
}

enum culm_status culm_darknet_weights_read(const struct culm_darknet_weights *weights,
                                           const struct culm_darknet_net *net, const char *name,
                                           int64_t count, float *ret_data,
                                           struct culm_error *error) {
    int64_t first, have;
    if (!find(net, name, &first, &have) || have != count) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND,
                              "weights '%s': the model has no parameter '%s' of %lld numbers",
                              weights->path, name, (long long)count);
    }
    enum culm_status status =
        read_at(weights, weights->begin + 4 * (uint64_t)first, ret_data, 4 * (size_t)count, error);
    size_t len = strlen(name);
    bool variance = len > 9 && strcmp(name + len - 9, ".variance") == 0;
    for (int64_t i = 0; i < count && status == CULM_OK; i++) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        uint32_t bits;
        memcpy(&bits, &ret_data[i], 4);
        bits = __builtin_bswap32(bits);
        memcpy(&ret_data[i], &bits, 4);
#endif
        if (!isfinite(ret_data[i]) || (variance && ret_data[i] < -1e-6F)) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "weights '%s': '%s' has %g at index %lld; the file is damaged, "
                                    "or for another model",
                                    weights->path, name, (double)ret_data[i], (long long)i);
        }
    }
    return status;
}
