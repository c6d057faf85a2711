/* One request Invoke. See lambda_call.h. */
#include "cloud/lambda_call.h"

#include "base/buf.h"
#include "cloud/pause.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CHECK_S 30L
#define CONNECT_S 10L
#define INVOKE_S 960L /* more than any function may take */
#define FIRST_PAUSE_MS 200u
#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

/* --- address and credentials --- */

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

/* Accepts "NAME" or "NAME:QUALIFIER" with characters that need no escapes, since URLs are signed as
 * they are, but for the '$' of $LATEST. */
static enum culm_status take_function(const struct culm_lambda_function *configured, char *ret_path,
                                      size_t size, struct culm_error *error) {
    const char *function = configured->name;
    if (!function) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "engine: lambda needs lambda.function, the name of a function made "
                              "from the package of 'culm gnn bundle'");
    }
    size_t len = strspn(function, NAME_CHARS), more = 0;
    if (function[len] == ':') {
        more = strspn(function + len + 1, NAME_CHARS "$");
    }
    if (!len || len > 64 || function[len + (more ? 1 + more : 0)]) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "lambda.function: '%.80s' is not the name of a function; allowed: NAME, "
            "NAME:VERSION, NAME:ALIAS",
            function);
    }
    int at = snprintf(ret_path, size, "/2015-03-31/functions/%.*s/invocations%s", (int)len,
                      function, more ? "?Qualifier=" : "");
    for (const char *c = function + len + 1; at > 0 && more > 0 && (size_t)at < size; c++, more--) {
        at += snprintf(ret_path + at, size - (size_t)at, *c == '$' ? "%%24" : "%c", *c);
    }
    return CULM_OK;
}

static enum culm_status take_endpoint(struct culm_lambda_target *target,
                                      const struct culm_lambda_function *configured,
                                      const char *path, struct culm_error *error) {
    const char *region = configured->region       ? configured->region
                         : variable("AWS_REGION") ? variable("AWS_REGION")
                                                  : variable("AWS_DEFAULT_REGION");
    char endpoint[512];
    if (!region || strspn(region, NAME_CHARS) != strlen(region) || strlen(region) > 60) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "engine: lambda needs the region of the function; set lambda.region or "
            "AWS_REGION");
    }
    if (configured->endpoint) {
        bool open = strncmp(configured->endpoint, "http://", 7) == 0;
        bool good = open || strncmp(configured->endpoint, "https://", 8) == 0;
        if (!good || strlen(configured->endpoint) >= sizeof endpoint ||
            strpbrk(configured->endpoint, "?#@ ")) {
            return culm_error_set(
                error, CULM_ERR_CONFIG,
                "lambda.endpoint: '%.80s' is not a URL; allowed: https://HOST[:PORT]",
                configured->endpoint);
        }
        if (open && !aws_is_here(configured->endpoint + 7)) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "lambda.endpoint: the run's token is sent there, so '%.80s' must "
                                  "begin with https:// unless it is this machine",
                                  configured->endpoint);
        }
        snprintf(endpoint, sizeof endpoint, "%s", configured->endpoint);
        for (size_t len = strlen(endpoint); len && endpoint[len - 1] == '/'; len--) {
            endpoint[len - 1] = '\0';
        }
    } else {
        snprintf(endpoint, sizeof endpoint, "https://lambda.%s.amazonaws.com%s", region,
                 strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
    }
    snprintf(target->url, sizeof target->url, "%s%s", endpoint, path);
    snprintf(target->signer, sizeof target->signer, "aws:amz:%s:lambda", region);
    snprintf(target->name, sizeof target->name, "function '%.100s' in %.60s", configured->name,
             region);
    return CULM_OK;
}

enum culm_status culm_lambda_target_init(struct culm_lambda_target *target,
                                         const struct culm_lambda_function *configured,
                                         struct culm_error *error) {
    char path[256];
    *target = (struct culm_lambda_target){0};
    enum culm_status status = take_function(configured, path, sizeof path, error);
    if (status == CULM_OK) {
        status = aws_init(&target->aws, error);
    }
    if (status == CULM_OK) {
        status = take_endpoint(target, configured, path, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    target->curl = culm_curl_load(error);
    return target->curl ? CULM_OK : CULM_ERR_MACHINE;
}

enum culm_status culm_lambda_target_renew(struct culm_lambda_target *target, bool expired,
                                          struct culm_error *error) {
    return aws_renew(&target->aws, expired, error);
}

void culm_lambda_target_release(struct culm_lambda_target *target) {
    aws_release(&target->aws);
    *target = (struct culm_lambda_target){0};
}

/* --- a request --- */

static size_t on_body(char *data, size_t one, size_t count, void *ctx) {
    struct culm_lambda_reply *reply = ctx;
    size_t len = one * count, at = reply->body_bytes;
    size_t room = at < sizeof reply->body - 1 ? sizeof reply->body - 1 - at : 0;
    memcpy(reply->body + (room ? at : 0), data, len < room ? len : room);
    reply->body_bytes += len;
    return reply->body_bytes > CULM_LAMBDA_PAYLOAD_MAX + 4096 ? 0 : len;
}

/* The value in a line "NAME: VALUE"; NULL: it is another header. */
static const char *value_of(const char *line, size_t len, const char *name, size_t *ret_len) {
    size_t name_len = strlen(name);
    if (len <= name_len || strncasecmp(line, name, name_len) != 0 || line[name_len] != ':') {
        return NULL;
    }
    const char *value = line + name_len + 1, *end = line + len;
    while (value < end && isspace((unsigned char)*value)) {
        value++;
    }
    while (value < end && isspace((unsigned char)end[-1])) {
        end--;
    }
    *ret_len = (size_t)(end - value);
    return value;
}

/* Replaces control characters in text from outside, which may be shown on a terminal. */
static void make_plain(char *text) {
    for (; *text; text++) {
        *text = *text < ' ' || *text > '~' ? '?' : *text;
    }
}

static size_t on_header(char *line, size_t one, size_t count, void *ctx) {
    struct culm_lambda_reply *reply = ctx;
    size_t len = one * count, value_len;
    const char *value;
    if (value_of(line, len, "X-Amz-Function-Error", &value_len)) {
        reply->function_error = true;
    } else if ((value = value_of(line, len, "X-Amzn-ErrorType", &value_len))) {
        const char *colon = memchr(value, ':', value_len);
        snprintf(reply->kind, sizeof reply->kind, "%.*s",
                 (int)(colon ? (size_t)(colon - value) : value_len), value);
        make_plain(reply->kind);
    } else if ((value = value_of(line, len, "Retry-After", &value_len)) && value_len < 6) {
        reply->retry_after_s = atoll(value);
    }
    return len;
}

static bool add_header(const struct culm_curl *curl, struct curl_slist **list, const char *text) {
    struct curl_slist *more = curl->slist_append(*list, text);
    *list = more ? more : *list;
    return more != NULL;
}

static bool make_headers(const struct culm_lambda_target *target, bool dry,
                         struct curl_slist **headers) {
    const char *token = target->aws.keys.token;
    struct culm_buf line;
    culm_buf_init(&line, 16384);
    culm_buf_printf(&line, "X-Amz-Security-Token: %s", token ? token : "");
    char *text = culm_buf_take_text(&line);
    bool made = text && add_header(target->curl, headers, "Content-Type: application/json") &&
                add_header(target->curl, headers,
                           dry ? "X-Amz-Invocation-Type: DryRun"
                               : "X-Amz-Invocation-Type: RequestResponse") &&
                (!token || add_header(target->curl, headers, text));
    free(text);
    return made;
}

static bool prepare(const struct culm_lambda_target *target, bool dry, const char *payload,
                    size_t payload_bytes, struct culm_lambda_request *request, void *private) {
    const struct culm_curl *curl = target->curl;
    CURL *easy = request->easy;
    bool open = strncmp(target->url, "http://", 7) == 0; /* on this machine: bypass proxies */
    return !curl->easy_setopt(easy, CURLOPT_URL, target->url) &&
           !curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl->easy_setopt(easy, CURLOPT_AWS_SIGV4, target->signer) &&
           !curl->easy_setopt(easy, CURLOPT_USERNAME, target->aws.keys.id) &&
           !curl->easy_setopt(easy, CURLOPT_PASSWORD, target->aws.keys.secret) &&
           !curl->easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers) &&
           !curl->easy_setopt(easy, CURLOPT_POST, 1L) &&
           !curl->easy_setopt(easy, CURLOPT_POSTFIELDS, payload) &&
           !curl->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)payload_bytes) &&
           !curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) &&
           !curl->easy_setopt(easy, CURLOPT_WRITEDATA, &request->reply) &&
           !curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) &&
           !curl->easy_setopt(easy, CURLOPT_HEADERDATA, &request->reply) &&
           !curl->easy_setopt(easy, CURLOPT_PRIVATE, private) &&
           !curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) &&
           !curl->easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
           !curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S) &&
           !curl->easy_setopt(easy, CURLOPT_TIMEOUT, dry ? CHECK_S : INVOKE_S) &&
           !curl->easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) &&
           (!open || !curl->easy_setopt(easy, CURLOPT_NOPROXY, "*")) &&
           !curl->easy_setopt(easy, CURLOPT_USERAGENT, "culm");
}

static bool make(const struct culm_lambda_target *target, bool dry, const char *payload,
                 size_t payload_bytes, struct culm_lambda_request *request, void *private) {
    *request = (struct culm_lambda_request){.easy = target->curl->easy_init()};
    if (request->easy && make_headers(target, dry, &request->headers) &&
        prepare(target, dry, payload, payload_bytes, request, private)) {
        return true;
    }
    culm_lambda_request_release(target, request);
    return false;
}

bool culm_lambda_request_make(const struct culm_lambda_target *target, const char *payload,
                              size_t payload_bytes, struct culm_lambda_request *request,
                              void *private) {
    return make(target, false, payload, payload_bytes, request, private);
}

void culm_lambda_request_release(const struct culm_lambda_target *target,
                                 struct culm_lambda_request *request) {
    if (request->easy) {
        target->curl->easy_cleanup(request->easy);
    }
    target->curl->slist_free_all(request->headers);
    request->easy = NULL;
    request->headers = NULL;
}

/* --- outcomes --- */

/* The error text of the service or the function, without control characters. */
static void message_of(const struct culm_lambda_reply *reply, char *ret_text, size_t size) {
    json_t *json = json_loadb(reply->body,
                              reply->body_bytes < sizeof reply->body ? reply->body_bytes
                                                                     : sizeof reply->body - 1,
                              0, NULL);
    static const char *const keys[] = {"errorMessage", "Message", "message", "why"};
    const char *said = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !said; i++) {
        said = json_string_value(json_object_get(json, keys[i]));
    }
    if (said && strncmp(said, "RequestId: ", 11) == 0) { /* useless, and different each time */
        const char *rest = strchr(said + 11, ' ');
        said = rest ? rest + 1 : said;
    }
    snprintf(ret_text, size, "%s", said ? said : "");
    make_plain(ret_text);
    json_decref(json);
}

static enum culm_lambda_verdict judge_http(const struct culm_lambda_target *target, long http,
                                           const struct culm_lambda_reply *reply,
                                           struct culm_error *ret_why) {
    char said[400];
    message_of(reply, said, sizeof said);
    if (http / 100 == 2 && !reply->function_error) {
        culm_error_set(ret_why, CULM_ERR_CLOSED, "%s", said);
        return CULM_LAMBDA_DONE;
    }
    if (http / 100 == 2) {
        culm_error_set(ret_why, CULM_ERR_IO, "%s failed: %s", target->name,
                       said[0] ? said : "it does not say why");
        return CULM_LAMBDA_DONE;
    }
    bool busy = http == 429;
    bool again = http >= 500 || http == 409 || http == 408;
    bool expired = http == 403 && strncmp(reply->kind, "ExpiredToken", 12) == 0;
    culm_error_set(ret_why, busy || again ? CULM_ERR_AGAIN : CULM_ERR_CONFIG,
                   "%s: AWS Lambda answers %ld%s%s%s%s", target->name, http,
                   reply->kind[0] ? " " : "", reply->kind, said[0] ? ": " : "", said);
    return busy      ? CULM_LAMBDA_THROTTLED
           : expired ? CULM_LAMBDA_EXPIRED
           : again   ? CULM_LAMBDA_AGAIN
                     : CULM_LAMBDA_NEVER;
}

enum culm_lambda_verdict culm_lambda_judge(const struct culm_lambda_target *target,
                                           const struct culm_lambda_request *request, CURLcode code,
                                           struct culm_error *ret_why) {
    long http = 0;
    if (code != CURLE_OK) {
        char host[200];
        snprintf(host, sizeof host, "%.*s", (int)(strstr(target->url, "/2015-") - target->url),
                 target->url);
        culm_error_set(ret_why, CULM_ERR_IO, "invoke %s at %s: %s", target->name, host,
                       target->curl->easy_strerror(code));
        return code == CURLE_OUT_OF_MEMORY || code == CURLE_PEER_FAILED_VERIFICATION
                   ? CULM_LAMBDA_NEVER
                   : CULM_LAMBDA_AGAIN;
    }
    (void)target->curl->easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &http);
    return judge_http(target, http, &request->reply, ret_why);
}

enum culm_status culm_lambda_target_check(const struct culm_lambda_target *target,
                                          struct culm_error *error) {
    struct culm_lambda_request request;
    struct culm_error why = {0};
    if (!make(target, true, "{}", 2, &request, NULL)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    CURLcode code = target->curl->easy_perform(request.easy);
    enum culm_lambda_verdict verdict = culm_lambda_judge(target, &request, code, &why);
    culm_lambda_request_release(target, &request);
    bool good = verdict == CULM_LAMBDA_DONE || verdict == CULM_LAMBDA_THROTTLED ||
                (verdict == CULM_LAMBDA_AGAIN && code == CURLE_OK);
    return good ? CULM_OK : culm_error_set(error, why.status, "%s", why.text);
}

uint64_t culm_lambda_pause_ms(const struct culm_lambda_reply *reply, uint64_t seed,
                              uint32_t pauses) {
    const uint64_t most = CULM_LAMBDA_PAUSE_MAX_MS;
    const uint64_t ms = culm_cloud_pause_ms(FIRST_PAUSE_MS, most, seed, pauses);
    int64_t asked_s = reply->retry_after_s > 0 ? reply->retry_after_s : 0;
    uint64_t asked_ms = asked_s > (int64_t)(most / 1000) ? most : (uint64_t)asked_s * 1000;
    return asked_ms > ms ? asked_ms : ms;
}
