/* Keys for AWS, and where they come from. See aws_keys.h. */
#include "cloud/aws_keys.h"

#include "cloud/curl.h"

#include "base/buf.h"
#include "base/file.h"
#include "net/address.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILE_MAX ((size_t)1 << 20)
#define ANSWER_MAX 65536u
#define CONNECT_MS 1000L
#define ANSWER_MS 2000L
#define BEFORE_S 300 /* before they expire, an endpoint is asked for others */
#define NONE                                                                                       \
    "there are no keys of AWS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write "         \
    "them to ~/.aws/credentials"

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- keys --- */

static void forget(char **secret) {
    if (*secret) {
        explicit_bzero(*secret, strlen(*secret));
    }
    free(*secret);
    *secret = NULL;
}

void aws_keys_release(struct culm_aws_keys *keys) {
    forget(&keys->id);
    forget(&keys->secret);
    forget(&keys->token);
    keys->expires_s = 0;
}

/* A line of a header, or of a signature, could be ended by what is not plain. */
static bool is_plain(const char *text) {
    for (const char *c = text; *c; c++) {
        if (*c <= ' ' || *c > '~') {
            return false;
        }
    }
    return text[0] != '\0';
}

/* Copies. False: they are not whole, or there is no memory. */
static bool set(struct culm_aws_keys *keys, const char *id, const char *secret, const char *token) {
    bool has_token = token && token[0];
    if (!id || !secret || !is_plain(id) || !is_plain(secret) || (has_token && !is_plain(token))) {
        return false;
    }
    *keys = (struct culm_aws_keys){
        .id = strdup(id), .secret = strdup(secret), .token = has_token ? strdup(token) : NULL};
    if (!keys->id || !keys->secret || (has_token && !keys->token)) {
        aws_keys_release(keys);
        return false;
    }
    return true;
}

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) {
        text++;
    }
    for (size_t len = strlen(text); len && isspace((unsigned char)text[len - 1]); len--) {
        text[len - 1] = '\0';
    }
    return text;
}

bool aws_keys_of_file(char *text, const char *profile, struct culm_aws_keys *ret_keys) {
    static const char *const names[] = {"aws_access_key_id", "aws_secret_access_key",
                                        "aws_session_token"};
    const char *found[3] = {NULL};
    bool inside = false;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        line = trim(line);
        char *equals = strchr(line, '='), *end = strchr(line, ']');
        if (line[0] == '[' && end) {
            *end = '\0';
            inside = strcmp(trim(line + 1), profile) == 0;
        } else if (inside && equals && line[0] != '#' && line[0] != ';') {
            *equals = '\0';
            for (int i = 0; i < 3; i++) {
                found[i] = strcmp(trim(line), names[i]) == 0 ? trim(equals + 1) : found[i];
            }
        }
    }
    return set(ret_keys, found[0], found[1], found[2]);
}

bool aws_keys_of_answer(const char *text, struct culm_aws_keys *ret_keys) {
    json_t *json = json_loads(text, 0, NULL);
    const char *expires = json_string_value(json_object_get(json, "Expiration"));
    struct tm at = {0};
    bool whole = set(ret_keys, json_string_value(json_object_get(json, "AccessKeyId")),
                     json_string_value(json_object_get(json, "SecretAccessKey")),
                     json_string_value(json_object_get(json, "Token")));
    if (whole && expires && strptime(expires, "%Y-%m-%dT%H:%M:%S", &at)) {
        ret_keys->expires_s = timegm(&at);
    }
    json_decref(json);
    return whole;
}

/* --- endpoints --- */

static size_t on_body(char *data, size_t one, size_t count, void *ctx) {
    struct culm_buf *body = ctx;
    culm_buf_bytes(body, data, one * count);
    return body->failed ? 0 : one * count;
}

static bool prepare(const struct culm_curl *curl, CURL *easy, const char *url, bool put,
                    const struct curl_slist *headers, struct culm_buf *body) {
    return !curl->easy_setopt(easy, CURLOPT_URL, url) &&
           !curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, put ? "PUT" : "GET") &&
           !curl->easy_setopt(easy, CURLOPT_HTTPHEADER, headers) &&
           !curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) &&
           !curl->easy_setopt(easy, CURLOPT_WRITEDATA, body) &&
           !curl->easy_setopt(easy, CURLOPT_FAILONERROR, 1L) &&
           !curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) &&
           !curl->easy_setopt(easy, CURLOPT_NOPROXY, "*") &&
           !curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
           !curl->easy_setopt(easy, CURLOPT_TIMEOUT_MS, ANSWER_MS);
}

/* The caller frees *ret_text. CULM_ERR_IO: nobody answers, or not with what was asked for. */
static enum culm_status ask(const char *url, bool put, const char *header, char **ret_text,
                            struct culm_error *error) {
    const struct culm_curl *curl = culm_curl_load(error);
    if (!curl) {
        return CULM_ERR_MACHINE;
    }
    struct culm_buf body;
    culm_buf_init(&body, ANSWER_MAX);
    struct curl_slist *headers = header ? curl->slist_append(NULL, header) : NULL;
    CURL *easy = curl->easy_init();
    enum culm_status status = CULM_OK;
    if (!easy || (header && !headers) || !prepare(curl, easy, url, put, headers, &body)) {
        status = no_memory(error);
        goto out;
    }
    CURLcode code = curl->easy_perform(easy);
    if (code != CURLE_OK) {
        status = culm_error_set(error, CULM_ERR_IO, "keys of AWS from %.200s: %s", url,
                                curl->easy_strerror(code));
        goto out;
    }
    *ret_text = culm_buf_take_text(&body);
    status = *ret_text ? CULM_OK : no_memory(error);
out:
    if (easy) {
        curl->easy_cleanup(easy);
    }
    curl->slist_free_all(headers);
    culm_buf_release(&body);
    return status;
}

/* `ask`, with a header NAME: VALUE. */
static enum culm_status ask_with(const char *url, bool put, const char *name, const char *value,
                                 char **ret_text, struct culm_error *error) {
    struct culm_buf line;
    culm_buf_init(&line, ANSWER_MAX);
    culm_buf_printf(&line, "%s: %s", name, value);
    char *header = culm_buf_take_text(&line);
    enum culm_status status = header ? ask(url, put, header, ret_text, error) : no_memory(error);
    forget(&header);
    return status;
}

static enum culm_status take_answer(char *text, const char *url, struct culm_aws_keys *ret_keys,
                                    struct culm_error *error) {
    bool whole = aws_keys_of_answer(text, ret_keys);
    forget(&text);
    return whole ? CULM_OK
                 : culm_error_set(error, CULM_ERR_IO, "keys of AWS from %.200s: it answers without",
                                  url);
}

static enum culm_status ask_container(const struct culm_aws *aws, struct culm_aws_keys *ret_keys,
                                      struct culm_error *error) {
    char *own = NULL, *text;
    const char *authorization = aws->authorization;
    enum culm_status status = CULM_OK;
    if (aws->authorization_path) { /* which is renewed too */
        size_t len;
        status = culm_file_read(NULL, aws->authorization_path, ANSWER_MAX, &own, &len, error);
        authorization = status == CULM_OK ? trim(own) : NULL;
    }
    if (status == CULM_OK && authorization && strpbrk(authorization, "\r\n")) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "AWS_CONTAINER_AUTHORIZATION_TOKEN has more than a line");
    }
    if (status == CULM_OK) {
        status = authorization
                     ? ask_with(aws->place, false, "Authorization", authorization, &text, error)
                     : ask(aws->place, false, NULL, &text, error);
    }
    forget(&own);
    return status == CULM_OK ? take_answer(text, aws->place, ret_keys, error) : status;
}

#define TOKEN_TTL "X-aws-ec2-metadata-token-ttl-seconds", "300"
#define TOKEN "X-aws-ec2-metadata-token"
#define ROLES "latest/meta-data/iam/security-credentials/"

static enum culm_status ask_instance(const struct culm_aws *aws, struct culm_aws_keys *ret_keys,
                                     struct culm_error *error) {
    char url[1024], *token = NULL, *roles = NULL, *text;
    snprintf(url, sizeof url, "%.500s/latest/api/token", aws->place);
    enum culm_status status = ask_with(url, true, TOKEN_TTL, &token, error);
    if (status == CULM_OK && !is_plain(token)) {
        status =
            culm_error_set(error, CULM_ERR_IO, "keys of AWS from %.200s: it gives no token", url);
    }
    if (status == CULM_OK) {
        snprintf(url, sizeof url, "%.500s/" ROLES, aws->place);
        status = ask_with(url, false, TOKEN, token, &roles, error);
    }
    if (status == CULM_OK) {
        roles[strcspn(roles, "\r\n")] = '\0';
        if (!is_plain(roles) || strpbrk(roles, "/?#")) {
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "keys of AWS from %.200s: this instance has no role", url);
        }
    }
    if (status == CULM_OK) {
        snprintf(url, sizeof url, "%.500s/" ROLES "%.200s", aws->place, roles);
        status = ask_with(url, false, TOKEN, token, &text, error);
    }
    forget(&token);
    free(roles);
    return status == CULM_OK ? take_answer(text, url, ret_keys, error) : status;
}

/* --- sources --- */

static enum culm_status read_file(const struct culm_aws *aws, struct culm_aws_keys *ret_keys,
                                  struct culm_error *error) {
    char *text;
    size_t len;
    enum culm_status status = culm_file_read(NULL, aws->place, FILE_MAX, &text, &len, error);
    if (status != CULM_OK) {
        return culm_error_prefix(error, "keys of AWS");
    }
    bool whole = aws_keys_of_file(text, aws->profile, ret_keys);
    explicit_bzero(text, len);
    free(text);
    return whole ? CULM_OK
                 : culm_error_set(error, CULM_ERR_CONFIG,
                                  "keys of AWS: '%.200s' has no aws_access_key_id and "
                                  "aws_secret_access_key in [%.80s]",
                                  aws->place, aws->profile);
}

static enum culm_status take(const struct culm_aws *aws, struct culm_aws_keys *ret_keys,
                             struct culm_error *error) {
    switch (aws->source) {
    case CULM_AWS_FILE: return read_file(aws, ret_keys, error);
    case CULM_AWS_CONTAINER: return ask_container(aws, ret_keys, error);
    case CULM_AWS_INSTANCE: return ask_instance(aws, ret_keys, error);
    case CULM_AWS_ENVIRONMENT: break;
    }
    const char *id = variable("AWS_ACCESS_KEY_ID"), *secret = variable("AWS_SECRET_ACCESS_KEY");
    if (!id || !secret) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "keys of AWS: %s is not set in the environment",
                              id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    }
    return set(ret_keys, id, secret, variable("AWS_SESSION_TOKEN"))
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "keys of AWS in the environment have characters that none has");
}

/* False: out of memory. */
static bool keep(const char *text, char **ret_own) {
    *ret_own = text ? strdup(text) : NULL;
    return !text || *ret_own;
}

/* The file, if it is named or has what is looked for. */
static enum culm_status find_file(struct culm_aws *aws, bool *ret_found, struct culm_error *error) {
    const char *named = variable("AWS_SHARED_CREDENTIALS_FILE"), *home = variable("HOME");
    const char *profile = variable("AWS_PROFILE");
    char path[CULM_PATH_MAX];
    *ret_found = named || profile;
    if (!named && !home) {
        *ret_found = false;
        return CULM_OK;
    }
    enum culm_status status = named ? culm_path_format(path, error, "%s", named)
                                    : culm_path_format(path, error, "%s/.aws/credentials", home);
    if (status != CULM_OK) {
        return status;
    }
    aws->source = CULM_AWS_FILE;
    if (!keep(path, &aws->place) || !keep(profile ? profile : "default", &aws->profile)) {
        return no_memory(error);
    }
    struct culm_aws_keys keys = {0};
    if (!*ret_found && read_file(aws, &keys, NULL) == CULM_OK) {
        *ret_found = true;
        aws_keys_release(&keys);
    }
    return CULM_OK;
}

bool aws_is_here(const char *host) {
    char text[CULM_ADDRESS_SIZE];
    struct culm_address address;
    size_t len = strcspn(host, "/");
    const char *colon = memrchr(host, ':', len);
    bool has_port = colon && !memchr(colon, ']', (size_t)(host + len - colon));
    int written = snprintf(text, sizeof text, "tcp:%.*s%s", (int)len, host, has_port ? "" : ":80");
    return written < (int)sizeof text && culm_address_parse(text, &address, NULL) == CULM_OK &&
           culm_address_is_loopback(&address);
}

/* What goes there and comes from there is secret: it must be encrypted, or not leave the machine. */
static bool may_ask(const char *url) {
    static const char *const hosts[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    if (strncmp(url, "http://", 7) != 0) {
        return strncmp(url, "https://", 8) == 0;
    }
    const char *host = url + 7;
    const size_t len = strcspn(host, "/");
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (strlen(hosts[i]) == len && strncmp(host, hosts[i], len) == 0) {
            return true;
        }
    }
    return aws_is_here(host);
}

static enum culm_status find_container(struct culm_aws *aws, bool *ret_found,
                                       struct culm_error *error) {
    const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    char url[512];
    *ret_found = relative || full;
    if (!*ret_found) {
        return CULM_OK;
    }
    int len = relative ? snprintf(url, sizeof url, "http://169.254.170.2%s", relative)
                       : snprintf(url, sizeof url, "%s", full);
    if (len >= (int)sizeof url || (relative && relative[0] != '/') || !may_ask(url)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "AWS_CONTAINER_CREDENTIALS_%s_URI: '%.200s' is not a place to ask for "
            "keys; allowed: %s",
            relative ? "RELATIVE" : "FULL", relative ? relative : full,
            relative ? "/PATH" : "https://HOST/PATH, or http:// to this machine");
    }
    aws->source = CULM_AWS_CONTAINER;
    return keep(url, &aws->place) &&
                   keep(variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"), &aws->authorization) &&
                   keep(variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
                        &aws->authorization_path)
               ? CULM_OK
               : no_memory(error);
}

static enum culm_status find_instance(struct culm_aws *aws, bool *ret_found,
                                      struct culm_error *error) {
    const char *disabled = variable("AWS_EC2_METADATA_DISABLED");
    const char *other = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    *ret_found = !disabled || strcasecmp(disabled, "true") != 0;
    aws->source = CULM_AWS_INSTANCE;
    if (!keep(other ? other : "http://169.254.169.254", &aws->place)) {
        return no_memory(error);
    }
    for (size_t len = strlen(aws->place); len && aws->place[len - 1] == '/'; len--) {
        aws->place[len - 1] = '\0';
    }
    return CULM_OK;
}

enum culm_status aws_init(struct culm_aws *aws, struct culm_error *error) {
    enum culm_status (*const find[])(struct culm_aws *, bool *, struct culm_error *) = {
        find_file, find_container, find_instance};
    enum culm_status status = CULM_OK;
    bool found = variable("AWS_ACCESS_KEY_ID") || variable("AWS_SECRET_ACCESS_KEY");
    *aws = (struct culm_aws){.source = CULM_AWS_ENVIRONMENT};
    for (size_t i = 0; i < sizeof find / sizeof *find && !found && status == CULM_OK; i++) {
        aws_release(aws);
        status = find[i](aws, &found, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (!found) {
        return culm_error_set(error, CULM_ERR_CONFIG, NONE);
    }
    status = take(aws, &aws->keys, error);
    /* Where nobody has said that there are keys, there may be no such service. */
    return status == CULM_ERR_IO && aws->source == CULM_AWS_INSTANCE &&
                   !variable("AWS_EC2_METADATA_SERVICE_ENDPOINT")
               ? culm_error_set(error, CULM_ERR_CONFIG, NONE)
               : status;
}

enum culm_status aws_renew(struct culm_aws *aws, bool refused, struct culm_error *error) {
    struct culm_aws_keys keys;
    bool asked = aws->source == CULM_AWS_CONTAINER || aws->source == CULM_AWS_INSTANCE;
    bool old = aws->keys.expires_s && time(NULL) + BEFORE_S >= aws->keys.expires_s;
    if (aws->source == CULM_AWS_ENVIRONMENT || (asked && !refused && !old)) {
        return CULM_OK;
    }
    enum culm_status status = take(aws, &keys, error);
    if (status == CULM_OK) {
        aws_keys_release(&aws->keys);
        aws->keys = keys;
    }
    return status;
}

void aws_release(struct culm_aws *aws) {
    aws_keys_release(&aws->keys);
    free(aws->place);
    free(aws->profile);
    forget(&aws->authorization);
    free(aws->authorization_path);
    *aws = (struct culm_aws){0};
}
