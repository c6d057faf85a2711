/* One call to etcd: asked of one member after the other, and judged. See etcd_internal.h. */
#include "cloud/etcd_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_TEXT_MAX 300

/* Codes of gRPC, which etcd's errors have. */
enum {
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
};

struct call {
    struct etcd *etcd;
    const char *url, *body;
    struct curl_slist *headers;
    struct culm_buf answer;
    /* Of a stream: */
    bool (*hear)(void *ctx, const json_t *line);
    void *ctx;
    bool heard, enough, malformed;
    bool brief; /* it may end before anything is heard */
};

/* It is shown on terminals. */
static void plain(char *to, size_t size, const char *text) {
    size_t at = 0;
    for (; text[at] && at + 1 < size; at++) {
        to[at] = text[at] < ' ' || text[at] > '~' ? '?' : text[at];
    }
    to[at] = '\0';
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- lines of a stream --- */

static void hear_lines(struct call *call) {
    char *text = (char *)call->answer.data;
    size_t left = call->answer.len;
    for (char *end; left && !call->enough && (end = memchr(text, '\n', left));) {
        json_t *line = json_loadb(text, (size_t)(end - text), 0, NULL);
        left -= (size_t)(end + 1 - text);
        text = end + 1;
        if (!line) {
            call->malformed = true;
            return;
        }
        call->heard = true;
        call->enough = !call->hear(call->ctx, line);
        json_decref(line);
    }
    memmove(call->answer.data, text, left);
    call->answer.len = left;
}

static size_t on_data(char *data, size_t one, size_t count, void *ctx) {
    struct call *call = ctx;
    culm_buf_bytes(&call->answer, data, one * count);
    if (!call->answer.failed && call->hear) {
        hear_lines(call);
    }
    return call->answer.failed || call->enough || call->malformed ? 0 : one * count;
}

/* --- making --- */

static bool add_header(struct call *call, const char *format, const char *value) {
    char line[320];
    snprintf(line, sizeof line, format, value);
    struct curl_slist *more = call->etcd->curl->slist_append(call->headers, line);
    call->headers = more ? more : call->headers;
    return more != NULL;
}

static bool prepare(struct call *call, int64_t ms) {
    const struct etcd *e = call->etcd;
    const struct culm_curl *curl = e->curl;
    CURL *easy = e->easy;
    curl->easy_reset(easy); /* connections stay */
    return add_header(call, "Content-Type: %s", "application/json") &&
           add_header(call, "Expect:%s", "") &&
           (!e->token[0] || add_header(call, "Authorization: %s", e->token)) &&
           !curl->easy_setopt(easy, CURLOPT_URL, call->url) &&
           !curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl->easy_setopt(easy, CURLOPT_POSTFIELDS, call->body) &&
           !curl->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(call->body)) &&
           !curl->easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers) &&
           !curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data) &&
           !curl->easy_setopt(easy, CURLOPT_WRITEDATA, call) &&
           !curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) &&
           !curl->easy_setopt(easy, CURLOPT_NOPROXY, "*") &&
           !curl->easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
           !curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)e->ask_ms) &&
           !curl->easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)ms) &&
           (!e->ca || !curl->easy_setopt(easy, CURLOPT_CAINFO, e->ca)) &&
           (!e->cert || !curl->easy_setopt(easy, CURLOPT_SSLCERT, e->cert)) &&
           (!e->key || !curl->easy_setopt(easy, CURLOPT_SSLKEY, e->key)) &&
           !curl->easy_setopt(easy, CURLOPT_USERAGENT, "culm");
}

/* --- judging --- */

static enum culm_status judge_curl(const struct etcd *e, CURLcode code, const char *member,
                                   bool *ret_unsent, struct culm_error *error) {
    *ret_unsent = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
                  code == CURLE_SSL_CONNECT_ERROR;
    const bool never = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
                       code == CURLE_SSL_CERTPROBLEM || code == CURLE_URL_MALFORMAT;
    return culm_error_set(error,
                          code == CURLE_OUT_OF_MEMORY ? CULM_ERR_MEMORY
                          : never                     ? CULM_ERR_CONFIG
                                                      : CULM_ERR_AGAIN,
                          "etcd at '%s': %s", member, e->curl->easy_strerror(code));
}

static enum culm_status status_of(json_int_t code, const char *text) {
    switch (code) {
    case GRPC_NOT_FOUND: return CULM_ERR_NOT_FOUND;
    case GRPC_INVALID_ARGUMENT:
        return strstr(text, "authentication failed") || strstr(text, "user name is empty")
                   ? CULM_ERR_CONFIG
                   : CULM_ERR_ARGUMENT;
    case GRPC_FAILED_PRECONDITION:
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED: return CULM_ERR_CONFIG;
    case GRPC_RESOURCE_EXHAUSTED:
        return strstr(text, "too many requests") ? CULM_ERR_AGAIN : CULM_ERR_IO;
    default:
        return CULM_ERR_AGAIN; /* unavailable, out of time, no leader, and what we know nothing of */
    }
}

/* An answer that is an error; of a stream, in `error`. */
static enum culm_status judge_error(const json_t *answer, const char *member, bool *ret_token,
                                    struct culm_error *error) {
    const json_t *inner = json_object_get(answer, "error");
    const json_t *of = json_is_object(inner) ? inner : answer;
    const char *said = json_string_value(json_object_get(of, "message"));
    const json_t *number = json_object_get(of, "code");
    const json_int_t code = json_integer_value(number ? number : json_object_get(of, "grpc_code"));
    char text[ERROR_TEXT_MAX];
    said = said ? said : json_string_value(inner);
    plain(text, sizeof text, said ? said : "an error without a text");
    *ret_token = code == GRPC_UNAUTHENTICATED || strstr(text, "invalid auth token");
    return culm_error_set(error, status_of(code, text), "etcd at '%s': %s", member, text);
}

static enum culm_status judge(struct call *call, CURLcode code, const char *member,
                              bool *ret_unsent, bool *ret_token, json_t **ret_answer,
                              struct culm_error *error) {
    long http = 0;
    *ret_unsent = *ret_token = false;
    if (call->answer.failed) {
        return no_memory(error);
    }
    if (call->enough) {
        return CULM_OK;
    }
    if (call->malformed) {
        return culm_error_set(error, CULM_ERR_FORMAT, "'%s' does not answer as etcd does", member);
    }
    if (code == CURLE_OPERATION_TIMEDOUT && call->brief && !call->heard) {
        return CULM_OK; /* whether it is there, longer questions tell */
    }
    if (code != CURLE_OK && !(call->hear && call->heard && code == CURLE_OPERATION_TIMEDOUT)) {
        return judge_curl(call->etcd, code, member, ret_unsent, error);
    }
    call->etcd->curl->easy_getinfo(call->etcd->easy, CURLINFO_RESPONSE_CODE, &http);
    if (call->hear && http == 200) {
        return CULM_OK;
    }
    json_t *answer = json_loadb((const char *)call->answer.data, call->answer.len, 0, NULL);
    if (!json_is_object(answer)) {
        json_decref(answer);
        return culm_error_set(error, http >= 500 ? CULM_ERR_AGAIN : CULM_ERR_FORMAT,
                              "'%s' does not answer as etcd does (HTTP %ld)", member, http);
    }
    if (http != 200 || json_object_get(answer, "error")) {
        const enum culm_status status = judge_error(answer, member, ret_token, error);
        json_decref(answer);
        return status;
    }
    *ret_answer = answer;
    return CULM_OK;
}

/* --- asking --- */

static enum culm_status call_member(struct call *call, int member, const char *path, int64_t ms,
                                    bool *ret_unsent, bool *ret_token, json_t **ret_answer,
                                    struct culm_error *error) {
    struct etcd *e = call->etcd;
    char url[400];
    snprintf(url, sizeof url, "%s/v3/%s", e->member[member], path);
    call->url = url;
    call->heard = call->enough = call->malformed = false;
    culm_buf_init(&call->answer, ETCD_ANSWER_MAX);
    enum culm_status status = CULM_OK;
    *ret_unsent = *ret_token = false;
    if (prepare(call, ms)) {
        const CURLcode code = e->curl->easy_perform(e->easy);
        status = judge(call, code, e->member[member], ret_unsent, ret_token, ret_answer, error);
    } else {
        status = no_memory(error);
    }
    e->curl->slist_free_all(call->headers);
    call->headers = NULL;
    culm_buf_release(&call->answer);
    return status;
}

static enum culm_status log_in(struct etcd *e, int member, struct culm_error *error);

static enum culm_status ask_all(struct call *call, const char *path, int64_t ms,
                                enum etcd_repeat repeat, bool logs_in, json_t **ret_answer,
                                struct culm_error *error) {
    struct etcd *e = call->etcd;
    enum culm_status status = CULM_ERR_AGAIN;
    bool unsent = true, token, renewed = false;
    for (int tried = 0;
         tried < e->members && status == CULM_ERR_AGAIN && (unsent || repeat == ETCD_REPEAT_ANY);
         tried++) {
        const int member = (e->first + tried) % e->members;
        if (logs_in && e->user && !e->token[0] && (status = log_in(e, member, error)) != CULM_OK) {
            continue;
        }
        status = call_member(call, member, path, ms, &unsent, &token, ret_answer, error);
        if (token && e->user && logs_in && !renewed) {
            e->token[0] = '\0'; /* it has aged; nothing was done */
            renewed = true;
            status = CULM_ERR_AGAIN;
            unsent = true;
            tried--;
        }
        if (status == CULM_OK) {
            e->first = member;
        }
    }
    return status;
}

static enum culm_status log_in(struct etcd *e, int member, struct culm_error *error) {
    json_t *question =
        json_pack("{s:s, s:s}", "name", e->user, "password", e->password ? e->password : "");
    char *body = question ? json_dumps(question, JSON_COMPACT) : NULL;
    json_t *answer = NULL;
    struct call call = {.etcd = e, .body = body};
    bool unsent, token;
    enum culm_status status = body ? call_member(&call, member, "auth/authenticate", e->ask_ms,
                                                 &unsent, &token, &answer, error)
                                   : no_memory(error);
    const char *got = json_string_value(json_object_get(answer, "token"));
    if (status == CULM_OK && (!got || strlen(got) >= sizeof e->token)) {
        status = culm_error_set(error, CULM_ERR_FORMAT, "'%s' does not answer as etcd does",
                                e->member[member]);
    } else if (status == CULM_OK) {
        snprintf(e->token, sizeof e->token, "%s", got);
    }
    if (body) {
        explicit_bzero(body, strlen(body));
    }
    free(body);
    json_decref(question);
    json_decref(answer);
    return status;
}

enum culm_status etcd_ask(struct etcd *e, const char *path, const json_t *question,
                          enum etcd_repeat repeat, json_t **ret_answer, struct culm_error *error) {
    char *body = question ? json_dumps(question, JSON_COMPACT) : NULL;
    struct call call = {.etcd = e, .body = body};
    *ret_answer = NULL;
    enum culm_status status =
        body ? ask_all(&call, path, e->ask_ms, repeat, true, ret_answer, error) : no_memory(error);
    free(body);
    return status;
}

enum culm_status etcd_follow(struct etcd *e, const char *path, const json_t *question, int64_t ms,
                             bool (*hear)(void *ctx, const json_t *line), void *ctx,
                             struct culm_error *error) {
    char *body = question ? json_dumps(question, JSON_COMPACT) : NULL;
    struct call call = {.etcd = e, .body = body, .hear = hear, .ctx = ctx, .brief = ms < e->ask_ms};
    json_t *answer = NULL;
    enum culm_status status =
        body ? ask_all(&call, path, ms, ETCD_REPEAT_ANY, true, &answer, error) : no_memory(error);
    json_decref(answer);
    free(body);
    return status;
}
