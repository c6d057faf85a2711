/* A small HTTP client for the Runtime API. See lambda_runtime.h. */
#include "cloud/lambda_runtime.h"

#include "base/buf.h"
#include "base/clock.h"
#include "net/socket.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define API "/2018-06-01/runtime"
#define HEAD_MAX ((size_t)64 << 10)
#define ANSWER_NS 10000000000ull /* time limit of requests that should be answered at once */
#define NEVER_NS UINT64_MAX

struct reply {
    struct culm_buf bytes; /* head and body as received */
    size_t body;           /* offset of the body */
    int code;
};

/* --- the socket --- */

static enum culm_status open_connection(const char *address, int *ret_fd,
                                        struct culm_error *error) {
    uint64_t deadline_ns = culm_clock_ns() + ANSWER_NS;
    int fd;
    enum culm_status status = culm_socket_connect(address, &fd, error);
    if (status != CULM_OK) {
        return status;
    }
    int cause = culm_socket_wait(fd, POLLOUT, deadline_ns) ? culm_socket_error(fd) : ETIMEDOUT;
    if (cause) {
        close(fd);
        return culm_error_errno(error, cause, "call");
    }
    *ret_fd = fd;
    return CULM_OK;
}

/* Receives more bytes; *ret_end: the stream has ended. */
static enum culm_status read_more(int fd, struct culm_buf *bytes, uint64_t deadline_ns,
                                  bool *ret_end, struct culm_error *error) {
    uint8_t piece[16384];
    ssize_t got;
    do {
        if (!culm_socket_wait(fd, POLLIN, deadline_ns)) {
            return culm_error_set(error, CULM_ERR_TIMEOUT, "it does not answer");
        }
        got = recv(fd, piece, sizeof piece, 0);
    } while (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
    if (got < 0) {
        return culm_error_errno(error, errno, "read its answer");
    }
    *ret_end = got == 0;
    culm_buf_bytes(bytes, piece, (size_t)got);
    return bytes->failed ? culm_error_set(error, CULM_ERR_FORMAT, "its answer is too large")
                         : CULM_OK;
}

/* --- HTTP --- */

static enum culm_status malformed(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT, "its answer is not HTTP");
}

/* The value of a header, without surrounding blanks. False: there is none, or it is too long. */
static bool header(const struct reply *reply, const char *name, char *ret_value, size_t size) {
    const char *at = (const char *)reply->bytes.data, *end = at + reply->body;
    size_t name_len = strlen(name);
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t len = line_end ? (size_t)(line_end - at) : (size_t)(end - at);
        if (len > name_len && strncasecmp(at, name, name_len) == 0 && at[name_len] == ':') {
            const char *value = at + name_len + 1;
            size_t value_len = len - name_len - 1;
            while (value_len && (*value == ' ' || *value == '\t')) {
                value++;
                value_len--;
            }
            while (value_len && (value[value_len - 1] == '\r' || value[value_len - 1] == ' ')) {
                value_len--;
            }
            snprintf(ret_value, size, "%.*s", (int)(value_len < size ? value_len : size - 1),
                     value);
            return value_len < size;
        }
        at += len + 1;
    }
    return false;
}

static enum culm_status read_head(int fd, struct reply *reply, uint64_t deadline_ns,
                                  struct culm_error *error) {
    const char *end = NULL;
    while (!end) {
        bool closed;
        enum culm_status status = read_more(fd, &reply->bytes, deadline_ns, &closed, error);
        if (status != CULM_OK) {
            return status;
        }
        end = reply->bytes.len ? memmem(reply->bytes.data, reply->bytes.len, "\r\n\r\n", 4) : NULL;
        if (!end && (closed || reply->bytes.len > HEAD_MAX)) {
            return closed && !reply->bytes.len
                       ? culm_error_set(error, CULM_ERR_CLOSED, "it ended the connection")
                       : malformed(error);
        }
    }
    reply->body = (size_t)(end - (const char *)reply->bytes.data) + 4;
    char start[32] = ""; /* a copy, because received bytes do not end with a NUL */
    memcpy(start, reply->bytes.data,
           reply->bytes.len < sizeof start ? reply->bytes.len : sizeof start - 1);
    return sscanf(start, "HTTP/1.%*1[01] %3d", &reply->code) == 1 ? CULM_OK : malformed(error);
}

/* Decodes a chunked body in place. False: it is not complete yet, or, if *ret_bad, it is
 * malformed. */
static bool join_chunks(struct reply *reply, bool *ret_bad) {
    uint8_t *data = reply->bytes.data;
    size_t from = reply->body, to = reply->body, end = reply->bytes.len;
    *ret_bad = false;
    for (int pass = 0; pass < 2; pass++) { /* the first pass only checks that it is complete */
        from = to = reply->body;
        for (;;) {
            const uint8_t *here = data + from;
            const uint8_t *line = here && from < end ? memmem(here, end - from, "\r\n", 2) : NULL;
            if (!line) {
                return false;
            }
            char digits[18] = "", *rest;
            size_t len = (size_t)(line - (data + from));
            memcpy(digits, data + from, len < sizeof digits ? len : sizeof digits - 1);
            unsigned long long size = strtoull(digits, &rest, 16);
            if (rest == digits || (*rest && *rest != ';' && *rest != ' ') ||
                size > CULM_LAMBDA_EVENT_MAX) {
                *ret_bad = true;
                return false;
            }
            from += len + 2;
            if (size == 0) {
                break;
            }
            if (end - from < size + 2) {
                return false;
            }
            if (pass) {
                memmove(data + to, data + from, (size_t)size);
            }
            to += (size_t)size;
            from += (size_t)size + 2;
        }
    }
    reply->bytes.len = to;
    return true;
}

static enum culm_status read_body(int fd, struct reply *reply, uint64_t deadline_ns,
                                  struct culm_error *error) {
    char value[64], *rest;
    bool chunked = header(reply, "Transfer-Encoding", value, sizeof value) &&
                   strcasecmp(value, "chunked") == 0;
    bool counted = !chunked && header(reply, "Content-Length", value, sizeof value);
    size_t length = 0;
    if (counted) {
        unsigned long long said = strtoull(value, &rest, 10);
        if (rest == value || *rest || value[0] == '-' || said > CULM_LAMBDA_EVENT_MAX) {
            return malformed(error);
        }
        length = (size_t)said;
    }
    for (;;) {
        bool closed = false, bad = false;
        if (counted ? reply->bytes.len - reply->body >= length
                    : chunked && join_chunks(reply, &bad)) {
            break;
        }
        enum culm_status status =
            bad ? malformed(error) : read_more(fd, &reply->bytes, deadline_ns, &closed, error);
        if (status != CULM_OK) {
            return status;
        }
        if (closed) {
            if (counted || chunked) {
                return culm_error_set(error, CULM_ERR_CLOSED, "its answer ended in the middle");
            }
            break;
        }
    }
    if (counted) {
        reply->bytes.len = reply->body + length;
    }
    return CULM_OK;
}

static void reply_release(struct reply *reply) { culm_buf_release(&reply->bytes); }

/* Makes a request. The reply is to be released in any case. `body` NULL: a GET, which has no time
 * limit. */
static enum culm_status ask(const struct culm_lambda_runtime *runtime, const char *path,
                            const char *more_headers, const char *body, struct reply *ret_reply,
                            struct culm_error *error) {
    struct culm_buf request;
    int fd = -1;
    *ret_reply = (struct reply){0};
    culm_buf_init(&ret_reply->bytes, HEAD_MAX + 2 * CULM_LAMBDA_EVENT_MAX);
    culm_buf_init(&request, HEAD_MAX + CULM_LAMBDA_EVENT_MAX);
    culm_buf_printf(&request,
                    "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: culm\r\nConnection: close\r\n",
                    body ? "POST" : "GET", path, runtime->host);
    if (body) {
        culm_buf_printf(&request, "Content-Type: application/json\r\nContent-Length: %zu\r\n%s",
                        strlen(body), more_headers);
    }
    culm_buf_printf(&request, "\r\n");
    if (body) {
        culm_buf_bytes(&request, body, strlen(body));
    }
    enum culm_status status =
        request.failed ? culm_error_set(error, CULM_ERR_MEMORY, "the request is too large")
                       : open_connection(runtime->address, &fd, error);
    if (status == CULM_OK) {
        status =
            culm_socket_write(fd, request.data, request.len, culm_clock_ns() + ANSWER_NS, error);
    }
    uint64_t deadline_ns = body ? culm_clock_ns() + ANSWER_NS : NEVER_NS;
    if (status == CULM_OK) {
        status = read_head(fd, ret_reply, deadline_ns, error);
    }
    if (status == CULM_OK) {
        status = read_body(fd, ret_reply, culm_clock_ns() + ANSWER_NS, error);
    }
    if (fd >= 0) {
        close(fd);
    }
    culm_buf_release(&request);
    return status
               ? culm_error_prefix(error, "the Runtime API at '%.80s', %.200s", runtime->host, path)
               : CULM_OK;
}

/* --- the API --- */

enum culm_status culm_lambda_runtime_init(struct culm_lambda_runtime *runtime, const char *api,
                                          struct culm_error *error) {
    char text[CULM_ADDRESS_SIZE];
    struct culm_address address, number;
    size_t count;
    if (snprintf(text, sizeof text, "tcp:%s", api) >= (int)sizeof text) {
        return culm_error_set(error, CULM_ERR_CONFIG, "AWS_LAMBDA_RUNTIME_API is too long");
    }
    enum culm_status status = culm_address_parse(text, &address, error);
    if (status == CULM_OK) {
        status = culm_address_resolve(&address, &number, 1, &count, error);
    }
    if (status != CULM_OK) {
        return culm_error_prefix(error, "AWS_LAMBDA_RUNTIME_API");
    }
    culm_address_print(&number, runtime->address);
    snprintf(runtime->host, sizeof runtime->host, "%s", text + 4);
    return CULM_OK;
}

enum culm_status culm_lambda_next(const struct culm_lambda_runtime *runtime,
                                  struct culm_lambda_invocation *ret_invocation,
                                  struct culm_error *error) {
    struct reply reply;
    struct culm_lambda_invocation next = {0};
    char deadline[32];
    enum culm_status status = ask(runtime, API "/invocation/next", "", NULL, &reply, error);
    if (status == CULM_OK && reply.code != 200) {
        status =
            culm_error_set(error, CULM_ERR_IO, "the Runtime API answered %d to 'next'", reply.code);
    }
    if (status == CULM_OK) {
        bool whole = header(&reply, "Lambda-Runtime-Aws-Request-Id", next.id, sizeof next.id) &&
                     next.id[0] && strspn(next.id, "0123456789abcdefABCDEF-") == strlen(next.id) &&
                     header(&reply, "Lambda-Runtime-Deadline-Ms", deadline, sizeof deadline) &&
                     (next.deadline_ms = strtoll(deadline, NULL, 10)) > 0;
        next.event_bytes = reply.bytes.len - reply.body;
        next.event = whole ? malloc(next.event_bytes + 1) : NULL;
        if (!next.event) {
            status = whole ? culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an event")
                           : culm_error_set(error, CULM_ERR_FORMAT,
                                            "the Runtime API gave an invocation without id or "
                                            "deadline");
        } else {
            memcpy(next.event, reply.bytes.data + reply.body, next.event_bytes);
            next.event[next.event_bytes] = '\0';
            *ret_invocation = next;
        }
    }
    reply_release(&reply);
    return status;
}

void culm_lambda_invocation_release(struct culm_lambda_invocation *invocation) {
    free(invocation->event);
    invocation->event = NULL;
}

static enum culm_status post(const struct culm_lambda_runtime *runtime, const char *path,
                             const char *more_headers, const char *body, struct culm_error *error) {
    struct reply reply;
    enum culm_status status = ask(runtime, path, more_headers, body, &reply, error);
    if (status == CULM_OK && reply.code / 100 != 2) {
        status = culm_error_set(error, CULM_ERR_IO, "the Runtime API answered %d to '%.200s'",
                                reply.code, path);
    }
    reply_release(&reply);
    return status;
}

enum culm_status culm_lambda_answer(const struct culm_lambda_runtime *runtime, const char *id,
                                    const char *json, struct culm_error *error) {
    char path[CULM_LAMBDA_ID_SIZE + 64];
    snprintf(path, sizeof path, API "/invocation/%s/response", id);
    return post(runtime, path, "", json, error);
}

enum culm_status culm_lambda_fail(const struct culm_lambda_runtime *runtime, const char *id,
                                  const char *type, const char *message, struct culm_error *error) {
    char path[CULM_LAMBDA_ID_SIZE + 64], more[160];
    if (id) {
        snprintf(path, sizeof path, API "/invocation/%s/error", id);
    } else {
        snprintf(path, sizeof path, API "/init/error");
    }
    snprintf(more, sizeof more, "Lambda-Runtime-Function-Error-Type: %.100s\r\n", type);
    json_t *json =
        json_pack("{s:s, s:s, s:[]}", "errorMessage", message, "errorType", type, "stackTrace");
    char *body = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    enum culm_status status =
        body ? post(runtime, path, more, body, error)
             : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an error");
    free(body);
    return status;
}
