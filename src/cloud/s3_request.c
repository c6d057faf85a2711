/* One request to S3: made, signed, judged, repeated. See s3_internal.h. */
#include "cloud/s3_internal.h"

#include "base/clock.h"
#include "cloud/pause.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONNECT_S 10L
#define SLOW_BYTES_S 1024L /* slower than that for so long is as good as not there */
#define SLOW_S 30L
#define ANSWER_S 900L
#define PAUSE_MS 100u
#define PAUSE_MOST_MS 5000u
#define LOOK_MS 50 /* whether somebody has called stop */
#define ERROR_TEXT_MAX 300

enum verdict { DONE, AGAIN, EXPIRED, NEVER };

struct call {
    struct s3 *s3;
    const struct s3_request *request;
    CURL *easy;
    struct curl_slist *headers;
    char url[1100], sha256[CULM_SHA256_HEX];
    char *id, *secret, *token; /* of its keys */
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

bool s3_xml_next(const char **at, const char *name, const char **ret_text, size_t *ret_len) {
    char open[64], close[64];
    snprintf(open, sizeof open, "<%s>", name);
    snprintf(close, sizeof close, "</%s>", name);
    const char *begin = strstr(*at, open), *end = begin ? strstr(begin, close) : NULL;
    if (!end) {
        return false;
    }
    *ret_text = begin + strlen(open);
    *ret_len = (size_t)(end - *ret_text);
    *at = end + strlen(close);
    return true;
}

/* --- making --- */

static size_t on_body(char *data, size_t one, size_t count, void *ctx) {
    struct culm_buf *body = ctx;
    culm_buf_bytes(body, data, one * count);
    return body->failed ? 0 : one * count;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    struct s3 *s3 = ctx;
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(&s3->storage.stopped);
}

static bool add_header(struct call *call, const char *format, const char *value) {
    struct culm_buf line;
    culm_buf_init(&line, 16384);
    culm_buf_printf(&line, format, value);
    char *text = culm_buf_take_text(&line);
    struct curl_slist *more = text ? call->s3->curl->slist_append(call->headers, text) : NULL;
    free(text);
    call->headers = more ? more : call->headers;
    return more != NULL;
}

static bool make_headers(struct call *call) {
    const struct s3_request *r = call->request;
    return add_header(call, "x-amz-content-sha256: %s", call->sha256) &&
           (!call->token || add_header(call, "X-Amz-Security-Token: %s", call->token)) &&
           (r->method != S3_PUT ||
            add_header(call, "Content-Type: %s", "application/octet-stream")) &&
           (!r->fresh || add_header(call, "If-None-Match: %s", "*"));
}

static bool prepare_method(struct call *call) {
    const struct culm_curl *curl = call->s3->curl;
    const struct s3_request *r = call->request;
    switch (r->method) {
    case S3_GET: return !curl->easy_setopt(call->easy, CURLOPT_HTTPGET, 1L);
    case S3_DELETE: return !curl->easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, "DELETE");
    case S3_PUT: break;
    }
    return !curl->easy_setopt(call->easy, CURLOPT_POST, 1L) &&
           !curl->easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, "PUT") &&
           !curl->easy_setopt(call->easy, CURLOPT_POSTFIELDS, r->data) &&
           !curl->easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->len);
}

static bool prepare(struct call *call) {
    const struct culm_curl *curl = call->s3->curl;
    struct s3 *s3 = call->s3;
    CURL *easy = call->easy;
    return prepare_method(call) && !curl->easy_setopt(easy, CURLOPT_URL, call->url) &&
           !curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl->easy_setopt(easy, CURLOPT_AWS_SIGV4, s3->signer) &&
           !curl->easy_setopt(easy, CURLOPT_USERNAME, call->id) &&
           !curl->easy_setopt(easy, CURLOPT_PASSWORD, call->secret) &&
           !curl->easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers) &&
           !curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) &&
           !curl->easy_setopt(easy, CURLOPT_WRITEDATA, call->request->body) &&
           !curl->easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress) &&
           !curl->easy_setopt(easy, CURLOPT_XFERINFODATA, s3) &&
           !curl->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) &&
           !curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) &&
           !curl->easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
           !curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S) &&
           !curl->easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES_S) &&
           !curl->easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, SLOW_S) &&
           !curl->easy_setopt(easy, CURLOPT_TIMEOUT, ANSWER_S) &&
           (!s3->open || !curl->easy_setopt(easy, CURLOPT_NOPROXY, "*")) &&
           !curl->easy_setopt(easy, CURLOPT_USERAGENT, "culm");
}

/* A connection, and the keys as they are now. False: out of memory. */
static bool take(struct call *call) {
    struct s3 *s3 = call->s3;
    pthread_mutex_lock(&s3->lock);
    call->easy = s3->idle_count > 0 ? s3->idle[--s3->idle_count] : NULL;
    const struct culm_aws_keys *keys = &s3->aws.keys;
    call->id = strdup(keys->id);
    call->secret = strdup(keys->secret);
    call->token = keys->token ? strdup(keys->token) : NULL;
    bool whole = call->id && call->secret && (!keys->token || call->token);
    pthread_mutex_unlock(&s3->lock);
    call->easy = call->easy ? call->easy : s3->curl->easy_init();
    return whole && call->easy;
}

static void forget(char *text) {
    if (text) {
        explicit_bzero(text, strlen(text));
    }
    free(text);
}

static void give_back(struct call *call) {
    struct s3 *s3 = call->s3;
    forget(call->id);
    forget(call->secret);
    forget(call->token);
    s3->curl->slist_free_all(call->headers);
    if (!call->easy) {
        return;
    }
    s3->curl->easy_reset(call->easy); /* connections stay */
    pthread_mutex_lock(&s3->lock);
    bool kept = s3->idle_count < S3_IDLE;
    if (kept) {
        s3->idle[s3->idle_count++] = call->easy;
    }
    pthread_mutex_unlock(&s3->lock);
    if (!kept) {
        s3->curl->easy_cleanup(call->easy);
    }
}

/* --- judging --- */

/* Control characters are not shown: it is text from outside, for a terminal. */
static void copy_plain(char *to, size_t size, const char *text, size_t len) {
    size_t at = 0;
    for (; at < len && at + 1 < size; at++) {
        to[at] = text[at] < ' ' || text[at] > '~' ? '?' : text[at];
    }
    to[at] = '\0';
}

static void take_element(const char *body, const char *name, char *ret_text, size_t size) {
    const char *text = "";
    size_t len = 0;
    (void)s3_xml_next(&body, name, &text, &len);
    copy_plain(ret_text, size, text, len);
}

static const char *verb_of(enum s3_method method) {
    return method == S3_GET ? "read" : method == S3_PUT ? "write" : "remove";
}

static enum verdict refuse(const struct call *call, enum culm_status status, const char *what,
                           struct culm_error *error) {
    const struct s3_request *r = call->request;
    culm_error_set(error, status, "%s '%s%s%s': %s", verb_of(r->method), call->s3->storage.place,
                   r->name ? "/" : "", r->name ? r->name : "", what);
    return status == CULM_ERR_AGAIN ? AGAIN : NEVER;
}

static enum verdict judge_curl(const struct call *call, CURLcode code, struct culm_error *error) {
    if (atomic_load(&call->s3->storage.stopped)) {
        return refuse(call, CULM_ERR_STOPPED, "stopped", error);
    }
    if (call->request->body->failed) {
        return refuse(call, CULM_ERR_FORMAT, "it is longer than it should be", error);
    }
    char what[ERROR_TEXT_MAX];
    snprintf(what, sizeof what, "%s (%.150s)", call->s3->curl->easy_strerror(code), call->s3->base);
    enum culm_status status =
        code == CURLE_OUT_OF_MEMORY ? CULM_ERR_MEMORY
        : code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
                code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL
            ? CULM_ERR_CONFIG
            : CULM_ERR_AGAIN;
    return refuse(call, status, what, error);
}

static bool is_one_of(const char *code, const char *const *codes) {
    while (*codes && strcmp(*codes, code) != 0) {
        codes++;
    }
    return *codes;
}

/* docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html */
static enum verdict judge_http(const struct call *call, long http, struct culm_error *error) {
    static const char *const expired[] = {"ExpiredToken", "TokenRefreshRequired", "InvalidToken",
                                          NULL};
    static const char *const again[] = {"RequestTimeout", "BadDigest", "XAmzContentSHA256Mismatch",
                                        "IncompleteBody", "SlowDown",  NULL};
    struct culm_buf *body = call->request->body;
    char code[80], said[160], what[ERROR_TEXT_MAX + 60];
    culm_buf_u8(body, 0);
    const char *text = body->failed ? "" : (const char *)body->data;
    take_element(text, "Code", code, sizeof code);
    take_element(text, "Message", said, sizeof said);
    snprintf(what, sizeof what, "the server answers %ld%s%s%s%s", http, code[0] ? " " : "", code,
             said[0] ? ": " : "", said);
    if (http == 404 && strcmp(code, "NoSuchBucket") != 0) {
        return refuse(call, CULM_ERR_NOT_FOUND, "it is not there", error);
    }
    if (http == 412) {
        return refuse(call, CULM_ERR_EXISTS, "it is there", error);
    }
    if (is_one_of(code, expired)) {
        (void)refuse(call, CULM_ERR_CONFIG, what, error);
        return EXPIRED;
    }
    if (http == 501 && call->request->fresh) {
        return refuse(call, CULM_ERR_UNSUPPORTED, what, error);
    }
    if (http >= 500 || http == 429 || http == 409 || http == 408 || is_one_of(code, again)) {
        return refuse(call, CULM_ERR_AGAIN, what, error);
    }
    if (http == 301 || http == 307 || strcmp(code, "AuthorizationHeaderMalformed") == 0) {
        snprintf(what, sizeof what,
                 "the server answers %ld: the bucket is not in %.60s; set checkpoint.region or "
                 "AWS_REGION",
                 http, call->s3->region);
    }
    return refuse(call, CULM_ERR_CONFIG, what, error);
}

static enum verdict perform_once(struct s3 *s3, const struct s3_request *request,
                                 struct culm_error *error) {
    struct call call = {.s3 = s3, .request = request};
    long http = 0;
    enum verdict verdict = NEVER;
    culm_buf_clear(request->body);
    snprintf(call.url, sizeof call.url, "%s/%s%s%s%s", s3->base, request->name ? s3->prefix : "",
             request->name ? request->name : "", request->query ? "?" : "",
             request->query ? request->query : "");
    if (culm_sha256_of(request->data ? request->data : "", request->len, call.sha256) != CULM_OK) {
        culm_error_set(error, CULM_ERR_UNSUPPORTED, "libcrypto has no SHA-256");
    } else if (!take(&call) || !make_headers(&call) || !prepare(&call)) {
        (void)no_memory(error);
    } else {
        CURLcode code = s3->curl->easy_perform(call.easy);
        (void)s3->curl->easy_getinfo(call.easy, CURLINFO_RESPONSE_CODE, &http);
        verdict = code != CURLE_OK  ? judge_curl(&call, code, error)
                  : http / 100 == 2 ? DONE
                                    : judge_http(&call, http, error);
    }
    give_back(&call);
    return verdict;
}

/* --- again --- */

/* False: somebody has called stop. */
static bool pause_for(const struct s3 *s3, uint64_t ms) {
    for (uint64_t done = 0; done < ms; done += LOOK_MS) {
        const uint64_t part = ms - done < LOOK_MS ? ms - done : LOOK_MS;
        if (atomic_load(&s3->storage.stopped)) {
            return false;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)part * 1000000}, NULL);
    }
    return true;
}

static enum culm_status renew(struct s3 *s3, bool refused, struct culm_error *error) {
    pthread_mutex_lock(&s3->lock);
    enum culm_status status = aws_renew(&s3->aws, refused, error);
    pthread_mutex_unlock(&s3->lock);
    return status;
}

enum culm_status s3_perform(struct s3 *s3, const struct s3_request *request,
                            struct culm_error *error) {
    struct culm_error why = {0};
    const uint64_t begun = culm_clock_ns();
    uint32_t refused = 0;
    for (uint32_t pauses = 0;; pauses++) {
        struct culm_error own;
        enum culm_status status = renew(s3, refused > 0, &own);
        enum verdict verdict = status == CULM_OK ? perform_once(s3, request, &why) : AGAIN;
        if (status != CULM_OK) {
            why = own;
        }
        if (verdict == DONE) {
            return CULM_OK;
        }
        /* Keys that are still refused after they were taken anew are none. */
        refused += verdict == EXPIRED;
        const uint64_t waited_ms = (culm_clock_ns() - begun) / 1000000;
        if (verdict == NEVER || refused > 2 || waited_ms >= (uint64_t)s3->storage.patience_ms) {
            break;
        }
        const uint64_t ms = culm_cloud_pause_ms(PAUSE_MS, PAUSE_MOST_MS, begun, pauses);
        if (!pause_for(s3, verdict == EXPIRED ? 0 : ms)) {
            return culm_error_set(error, CULM_ERR_STOPPED, "%s", why.text);
        }
    }
    return culm_error_set(error, why.status, "%s", why.text);
}
