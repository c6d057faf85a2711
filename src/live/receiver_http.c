/*
 * Lines to an HTTP server: POST with as many as wait, one JSON object a line (application/x-ndjson). They have
 * arrived when it says 2xx; it does not want them if it says 400, 413, 415 or 422. The library is loaded
 * when an address asks for it. See receiver_way.h.
 */
#include "live/receiver_way.h"

#include "base/clock.h"
#include "cloud/curl.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct to_http {
    struct culm_way way;
    const struct culm_curl *curl;
    CURL *easy;
    struct curl_slist *headers;
    const int *stop;
    char *body;
    size_t capacity;
};

static struct to_http *self(struct culm_way *way) { return (struct to_http *)way; }

static size_t forget(char *data, size_t size, size_t count, void *ctx) {
    (void)data, (void)ctx;
    return size * count;
}

static int is_over(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)a, (void)b, (void)c, (void)d;
    return __atomic_load_n(((struct to_http *)ctx)->stop, __ATOMIC_ACQUIRE);
}

static bool make_body(struct to_http *to, const struct culm_line *lines, size_t count,
                      size_t *ret_len) {
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        len += lines[i].len;
    }
    if (len > to->capacity) {
        char *body = realloc(to->body, len);
        if (!body) {
            return false;
        }
        to->body = body;
        to->capacity = len;
    }
    *ret_len = len;
    for (size_t i = 0, at = 0; i < count; at += lines[i++].len) {
        memcpy(to->body + at, lines[i].text, lines[i].len);
    }
    return true;
}

static bool is_unwanted(long code) {
    return code == 400 || code == 413 || code == 415 || code == 422;
}

static enum culm_status send_lines(struct culm_way *way, const struct culm_line *lines,
                                   size_t count, uint64_t until_ns, size_t *ret_taken,
                                   struct culm_error *error) {
    struct to_http *to = self(way);
    const uint64_t now = culm_clock_ns();
    const long left_ms = until_ns > now ? (long)((until_ns - now) / 1000000) + 1 : 1;
    size_t len;
    long code = 0;
    *ret_taken = 0;
    if (!make_body(to, lines, count, &len)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for answers");
    }
    if (to->curl->easy_setopt(to->easy, CURLOPT_POSTFIELDS, to->body) ||
        to->curl->easy_setopt(to->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len) ||
        to->curl->easy_setopt(to->easy, CURLOPT_TIMEOUT_MS, left_ms)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a request");
    }
    const CURLcode failed = to->curl->easy_perform(to->easy);
    (void)to->curl->easy_getinfo(to->easy, CURLINFO_RESPONSE_CODE, &code);
    if (failed) {
        return culm_error_set(error, CULM_ERR_IO, "%s", to->curl->easy_strerror(failed));
    }
    if (code / 100 != 2) {
        return culm_error_set(error, is_unwanted(code) ? CULM_ERR_FORMAT : CULM_ERR_IO,
                              "the server says %ld%s", code,
                              is_unwanted(code) ? ": it does not want these answers" : "");
    }
    *ret_taken = count;
    return CULM_OK;
}

static void free_way(struct culm_way *way) {
    struct to_http *to = self(way);
    if (to->easy) {
        to->curl->easy_cleanup(to->easy);
    }
    if (to->headers) {
        to->curl->slist_free_all(to->headers);
    }
    free(to->body);
    free(to);
}

static bool set_up(struct to_http *to, const char *url) {
    const struct culm_curl *curl = to->curl;
    CURL *easy = to->easy;
    to->headers = curl->slist_append(NULL, "Content-Type: application/x-ndjson");
    struct curl_slist *more = curl->slist_append(to->headers, "Expect:");
    return to->headers && more && !curl->easy_setopt(easy, CURLOPT_URL, url) &&
           !curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl->easy_setopt(easy, CURLOPT_HTTPHEADER, to->headers) &&
           !curl->easy_setopt(easy, CURLOPT_POST, 1L) &&
           !curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) &&
           !curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 5000L) &&
           !curl->easy_setopt(easy, CURLOPT_USERAGENT, "culm") &&
           !curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, forget) &&
           !curl->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) &&
           !curl->easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, is_over) &&
           !curl->easy_setopt(easy, CURLOPT_XFERINFODATA, to);
}

enum culm_status culm_way_http(const char *url, const int *stop, struct culm_way **ret_way,
                               struct culm_error *error) {
    static const struct culm_way_ops ops = {sizeof ops, NULL, send_lines, NULL, NULL, free_way};
    const struct culm_curl *curl = culm_curl_load(error);
    if (!curl) {
        return CULM_ERR_MACHINE;
    }
    struct to_http *to = calloc(1, sizeof *to);
    if (to) {
        *to = (struct to_http){.way.ops = &ops, .curl = curl, .stop = stop};
        to->easy = curl->easy_init();
    }
    if (!to || !to->easy || !set_up(to, url)) {
        if (to) {
            free_way(&to->way);
        }
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a request");
    }
    *ret_way = &to->way;
    return CULM_OK;
}
