/*
 * A small HTTP server for monitors: it answers GET and HEAD with a text that is at hand, and closes.
 *
 * Whoever calls may be slow or hostile, and costs a place, a few kilobytes and some seconds at most: there are so many
 * places for each address, and who came first makes way for who comes; a request has a size and a time, from
 * the first byte to the last of the answer. One thread of low priority does all that.
 *
 * It is written by hand because of what its clients may do: libmicrohttpd counts time from the last byte,
 * so that a byte now and then holds a place for ever, and refuses who comes when all are taken.
 *
 * Thread: the caller's, one at a time; `answer` is called by the server's.
 */
#ifndef CULM_LIVE_HTTP_H
#define CULM_LIVE_HTTP_H

#include "base/buf.h"

#define CULM_HTTP_PLACES 32 /* connections at a time, for each address */
#define CULM_HTTP_REQUEST_MAX 4096
#define CULM_HTTP_LISTENERS 2
#define CULM_HTTP_LIMIT_MS 5000 /* for a request and its answer */

struct culm_http;

struct culm_http_options {
    int listener[CULM_HTTP_LISTENERS]; /* taken, also after a failure; -1: none */
    /* The answer to a request for `path`, which begins with '/' and has no '?': its status, such as 200, its
     * type, which is static, and its body. 404: there is no such thing. */
    int (*answer)(void *ctx, const char *path, const char **ret_type, struct culm_buf *body);
    void *ctx;
    uint64_t limit_ms; /* 0: CULM_HTTP_LIMIT_MS */
};

enum culm_status culm_http_new(const struct culm_http_options *options, struct culm_http **ret_http,
                               struct culm_error *error);
/* Ends all connections, and soon. NULL is fine. */
void culm_http_free(struct culm_http *http);

#endif
