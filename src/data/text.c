/* Text as bytes; see the header. Files are kept open, one descriptor each. */
#include "data/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct segment {
    char *path;
    int fd;
    uint64_t first, bytes; /* where it starts in the joined text, how long it is */
};

struct culm_text {
    int64_t context, samples;
    uint64_t bytes;
    size_t segment_count;
    struct segment segment[]; /* in order; none is empty */
};

void culm_text_free(struct culm_text *text) {
    if (!text) {
        return;
    }
    for (size_t i = 0; i < text->segment_count; i++) {
        close(text->segment[i].fd);
        free(text->segment[i].path);
    }
    free(text);
}

int64_t culm_text_samples(const struct culm_text *text) { return text->samples; }
uint64_t culm_text_size_bytes(const struct culm_text *text) { return text->bytes; }

/* Opens one file as the next segment of `text`. */
static enum culm_status add_segment(struct culm_text *text, const char *path,
                                    struct culm_error *error) {
    struct stat info;
    /* O_NONBLOCK: a FIFO must give an error, not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        int reason = errno;
        if (fd >= 0) {
            close(fd);
        }
        return culm_error_set(error, CULM_ERR_CONFIG, "text '%s': %s; give a file that can be read",
                              path, strerror(reason));
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return culm_error_set(error, CULM_ERR_CONFIG, "text '%s': is %s; give a plain file", path,
                              S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
    }
    if (info.st_size == 0) {
        close(fd);
        return culm_error_set(error, CULM_ERR_CONFIG, "text '%s': is empty; give a file with text",
                              path);
    }
    char *copy = strdup(path);
    if (!copy) {
        close(fd);
        return culm_error_set(error, CULM_ERR_MEMORY, "text '%s': out of memory", path);
    }
    text->segment[text->segment_count++] = (struct segment){
        .path = copy, .fd = fd, .first = text->bytes, .bytes = (uint64_t)info.st_size};
    text->bytes += (uint64_t)info.st_size;
    return CULM_OK;
}

/* Reads [at, at + len) of one segment. */
static enum culm_status read_segment(const struct segment *segment, uint64_t at, uint8_t *ret_data,
                                     size_t len, struct culm_error *error) {
    while (len) {
        ssize_t got = pread(segment->fd, ret_data, len, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return culm_error_errno(error, errno, "text '%s': read at byte %llu", segment->path,
                                    (unsigned long long)at);
        }
        if (got == 0) {
            return culm_error_set(error, CULM_ERR_IO,
                                  "text '%s': ends at byte %llu, had %llu when opened; restore it",
                                  segment->path, (unsigned long long)at,
                                  (unsigned long long)segment->bytes);
        }
        ret_data += got;
        at += (uint64_t)got;
        len -= (size_t)got;
    }
    return CULM_OK;
}

/* Reads [at, at + len) of the joined text; the caller keeps it inside. */
static enum culm_status read_joined(const struct culm_text *text, uint64_t at, uint8_t *ret_data,
                                    size_t len, struct culm_error *error) {
    size_t low = 0, high = text->segment_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (text->segment[middle].first <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    while (len) {
        const struct segment *segment = &text->segment[low++];
        uint64_t inside = at - segment->first;
        size_t part = len;
        if (part > segment->bytes - inside) {
            part = (size_t)(segment->bytes - inside);
        }
        enum culm_status status = read_segment(segment, inside, ret_data, part, error);
        if (status != CULM_OK) {
            return status;
        }
        ret_data += part;
        at += part;
        len -= part;
    }
    return CULM_OK;
}

static enum culm_status check_vocab(const struct segment *segment, int64_t vocab,
                                    struct culm_error *error) {
    enum culm_status status = CULM_OK;
    size_t capacity = 1 << 16;
    uint8_t *data = malloc(capacity);
    if (!data) {
        return culm_error_set(error, CULM_ERR_MEMORY, "text '%s': out of memory", segment->path);
    }
    for (uint64_t at = 0; status == CULM_OK && at < segment->bytes;) {
        size_t part = segment->bytes - at < capacity ? (size_t)(segment->bytes - at) : capacity;
        status = read_segment(segment, at, data, part, error);
        for (size_t i = 0; status == CULM_OK && i < part; i++) {
            if (data[i] >= vocab) {
                status = culm_error_set(error, CULM_ERR_CONFIG,
                                        "text '%s': byte %llu is %d, outside of the vocabulary of "
                                        "%lld; set model.vocab to 256",
                                        segment->path, (unsigned long long)(at + i), data[i],
                                        (long long)vocab);
            }
        }
        at += part;
    }
    free(data);
    return status;
}

enum culm_status culm_text_open(const char *const *paths, size_t path_count, int64_t context,
                                int64_t vocab, struct culm_text **ret_text,
                                struct culm_error *error) {
    if (path_count == 0 || context < 1 || vocab < 1) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "text: %zu files, context %lld, vocab %lld; each must be 1 or more",
                              path_count, (long long)context, (long long)vocab);
    }
    enum culm_status status = CULM_OK;
    struct culm_text *text = calloc(1, sizeof *text + path_count * sizeof text->segment[0]);
    if (!text) {
        return culm_error_set(error, CULM_ERR_MEMORY, "text '%s': out of memory", paths[0]);
    }
    text->context = context;
    for (size_t i = 0; status == CULM_OK && i < path_count; i++) {
        status = add_segment(text, paths[i], error);
        if (status == CULM_OK && vocab < 256) {
            status = check_vocab(&text->segment[i], vocab, error);
        }
    }
    if (status == CULM_OK) {
        text->samples = (int64_t)((text->bytes - 1) / (uint64_t)context);
        if (text->samples == 0) {
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "text '%s'%s: has %llu bytes, one sample needs %lld; give more "
                                    "text or lower model.context",
                                    paths[0], path_count > 1 ? " and the other files" : "",
                                    (unsigned long long)text->bytes, (long long)context + 1);
        }
    }
    if (status != CULM_OK) {
        culm_text_free(text);
        return status;
    }
    *ret_text = text;
    return CULM_OK;
}

enum culm_status culm_text_fill(const struct culm_text *text, int64_t sample, int32_t *ret_tokens,
                                int32_t *ret_targets, struct culm_error *error) {
    if (sample < 0 || sample >= text->samples) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "text: sample %lld of %lld",
                              (long long)sample, (long long)text->samples);
    }
    uint8_t bytes[4096];
    uint64_t first = (uint64_t)sample * (uint64_t)text->context;
    int64_t total = text->context + 1;
    for (int64_t done = 0; done < total;) {
        int64_t part = total - done < (int64_t)sizeof bytes ? total - done : (int64_t)sizeof bytes;
        enum culm_status status =
            read_joined(text, first + (uint64_t)done, bytes, (size_t)part, error);
        if (status != CULM_OK) {
            return status;
        }
        for (int64_t i = 0; i < part; i++) {
            int64_t at = done + i;
            if (at < text->context) {
                ret_tokens[at] = bytes[i];
            }
            if (at > 0) {
                ret_targets[at - 1] = bytes[i];
            }
        }
        done += part;
    }
    return CULM_OK;
}
