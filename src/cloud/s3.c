/* Buckets as a storage: where they are, and what is asked of them. See s3.h. */
#include "cloud/s3_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "s3://"
#define PATIENCE_MS 60000
#define ERROR_MAX ((size_t)64 << 10)
#define LIST_MAX ((size_t)4 << 20)
#define TOKEN_MAX 2048
#define BUCKET_CHARS "abcdefghijklmnopqrstuvwxyz0123456789.-"
#define REGION_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-"

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

bool culm_s3_is_place(const char *place) { return strncmp(place, SCHEME, strlen(SCHEME)) == 0; }

/* --- what is asked --- */

static enum culm_status put_once(struct s3 *s3, const char *name, const void *data, size_t len,
                                 bool fresh, struct culm_error *error) {
    struct culm_buf body;
    culm_buf_init(&body, ERROR_MAX);
    const struct s3_request request = {
        .method = S3_PUT, .name = name, .data = data, .len = len, .fresh = fresh, .body = &body};
    enum culm_status status = s3_perform(s3, &request, error);
    culm_buf_release(&body);
    return status;
}

static enum culm_status s3_get(struct culm_storage *storage, const char *name, size_t max_bytes,
                               char **ret_data, size_t *ret_len, struct culm_error *error) {
    struct s3 *s3 = (struct s3 *)storage;
    struct culm_buf body;
    culm_buf_init(&body, max_bytes + ERROR_MAX);
    const struct s3_request request = {.method = S3_GET, .name = name, .body = &body};
    enum culm_status status = s3_perform(s3, &request, error);
    const size_t len = body.len;
    if (status == CULM_OK && len > max_bytes) {
        status = culm_error_set(error, CULM_ERR_FORMAT, "'%s/%s' is longer than %zu bytes",
                                storage->place, name, max_bytes);
    }
    char *data = status == CULM_OK ? culm_buf_take_text(&body) : NULL;
    if (status == CULM_OK && !data) {
        status = no_memory(error);
    }
    culm_buf_release(&body);
    if (status == CULM_OK) {
        *ret_data = data;
        *ret_len = len;
    }
    return status;
}

/* Where the server does not know If-None-Match, it is looked for. */
static enum culm_status put_if_none(struct s3 *s3, const char *name, const void *data, size_t len,
                                    struct culm_error *error) {
    char *there;
    size_t there_len;
    struct culm_error problem;
    enum culm_status status =
        s3_get(&s3->storage, name, SIZE_MAX / 2, &there, &there_len, &problem);
    if (status == CULM_OK) {
        free(there);
        return culm_error_set(error, CULM_ERR_EXISTS, "'%s/%s' is there", s3->storage.place, name);
    }
    return status == CULM_ERR_NOT_FOUND ? put_once(s3, name, data, len, false, error)
                                        : culm_error_set(error, status, "%s", problem.text);
}

static enum culm_status s3_put(struct culm_storage *storage, const char *name, const void *data,
                               size_t len, bool fresh, struct culm_error *error) {
    struct s3 *s3 = (struct s3 *)storage;
    if (!fresh || atomic_load(&s3->conditions)) {
        enum culm_status status = put_once(s3, name, data, len, fresh, error);
        if (status != CULM_ERR_UNSUPPORTED) {
            return status;
        }
        atomic_store(&s3->conditions, false);
    }
    return put_if_none(s3, name, data, len, error);
}

static enum culm_status s3_remove(struct culm_storage *storage, const char *name,
                                  struct culm_error *error) {
    struct culm_buf body;
    culm_buf_init(&body, ERROR_MAX);
    const struct s3_request request = {.method = S3_DELETE, .name = name, .body = &body};
    enum culm_status status = s3_perform((struct s3 *)storage, &request, error);
    culm_buf_release(&body);
    if (status == CULM_ERR_NOT_FOUND) {
        culm_error_clear(error);
        status = CULM_OK;
    }
    return status;
}

/* --- listing --- */

/* Escapes all but what needs none. */
static void add_escaped(struct culm_buf *query, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_' || c == '.' || c == '~';
        culm_buf_printf(query, plain ? "%c" : "%%%02X", c);
    }
}

/* Sorted by name, as they are signed. */
static char *list_query(const struct s3 *s3, const char *prefix, const char *token) {
    struct culm_buf query;
    culm_buf_init(&query, 16384);
    if (token[0]) {
        culm_buf_printf(&query, "continuation-token=");
        add_escaped(&query, token, strlen(token));
        culm_buf_printf(&query, "&");
    }
    culm_buf_printf(&query, "list-type=2&max-keys=1000&prefix=");
    add_escaped(&query, s3->prefix, strlen(s3->prefix));
    add_escaped(&query, prefix, strlen(prefix));
    return culm_buf_take_text(&query);
}

/* The entities of XML, in place: in a token there may be some. */
static void unescape(char *text) {
    static const struct {
        const char *entity;
        char is;
    } entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    char *to = text;
    while (*text) {
        size_t len = 1;
        char is = *text;
        for (size_t i = 0; i < sizeof entities / sizeof *entities && *text == '&'; i++) {
            if (strncmp(text, entities[i].entity, strlen(entities[i].entity)) == 0) {
                len = strlen(entities[i].entity);
                is = entities[i].is;
                break;
            }
        }
        *to++ = is;
        text += len;
    }
    *to = '\0';
}

/* Names that are no object's, of whoever else uses the bucket, are left out. */
static enum culm_status add_names(const struct s3 *s3, const char *body, struct culm_names *names,
                                  struct culm_error *error) {
    const size_t skip = strlen(s3->prefix);
    const char *at = body, *text;
    char name[CULM_STORAGE_NAME_MAX];
    size_t len;
    while (s3_xml_next(&at, "Key", &text, &len)) {
        if (len <= skip || len - skip >= sizeof name || strncmp(text, s3->prefix, skip) != 0) {
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)(len - skip), text + skip);
        if (culm_storage_name_is(name) && !culm_storage_names_add(names, name, len - skip)) {
            return no_memory(error);
        }
    }
    return CULM_OK;
}

static enum culm_status list_page(struct s3 *s3, const char *prefix, char token[TOKEN_MAX],
                                  struct culm_names *names, struct culm_error *error) {
    struct culm_buf body;
    char *query = list_query(s3, prefix, token);
    culm_buf_init(&body, LIST_MAX);
    const struct s3_request request = {.method = S3_GET, .query = query, .body = &body};
    enum culm_status status = query ? s3_perform(s3, &request, error) : no_memory(error);
    char *text = status == CULM_OK ? culm_buf_take_text(&body) : NULL;
    if (status == CULM_OK) {
        status = text ? add_names(s3, text, names, error) : no_memory(error);
    }
    if (status == CULM_OK) {
        const char *at = text, *found;
        size_t len;
        bool more = s3_xml_next(&at, "NextContinuationToken", &found, &len);
        if (!strstr(text, "ListBucketResult") || (more && len >= TOKEN_MAX)) {
            status = culm_error_set(error, CULM_ERR_CONFIG,
                                    "list '%s': what answers at %.150s is no server of S3",
                                    s3->storage.place, s3->base);
        } else {
            snprintf(token, TOKEN_MAX, "%.*s", more ? (int)len : 0, more ? found : "");
            unescape(token);
        }
    }
    free(text);
    free(query);
    culm_buf_release(&body);
    return status;
}

static enum culm_status s3_list(struct culm_storage *storage, const char *prefix,
                                struct culm_names *ret_names, struct culm_error *error) {
    struct culm_names names = {0};
    char token[TOKEN_MAX] = "";
    enum culm_status status;
    do {
        status = list_page((struct s3 *)storage, prefix, token, &names, error);
    } while (status == CULM_OK && token[0]);
    if (status != CULM_OK) {
        culm_names_release(&names);
        return status;
    }
    culm_storage_names_sort(&names);
    *ret_names = names;
    return CULM_OK;
}

/* --- opening --- */

static void s3_free(struct culm_storage *storage) {
    struct s3 *s3 = (struct s3 *)storage;
    for (size_t i = 0; i < s3->idle_count; i++) {
        s3->curl->easy_cleanup(s3->idle[i]);
    }
    aws_release(&s3->aws);
    pthread_mutex_destroy(&s3->lock);
    free(s3);
}

static const struct culm_storage_ops s3_ops = {
    .size = sizeof(struct culm_storage_ops),
    .put = s3_put,
    .get = s3_get,
    .list = s3_list,
    .remove = s3_remove,
    .free = s3_free,
};

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static enum culm_status take_place(struct s3 *s3, const char *place, struct culm_error *error) {
    const char *bucket = place + strlen(SCHEME);
    const size_t len = strcspn(bucket, "/");
    const char *prefix = bucket + len + (bucket[len] == '/');
    size_t prefix_len = strlen(prefix);
    while (prefix_len > 0 && prefix[prefix_len - 1] == '/') {
        prefix_len--;
    }
    snprintf(s3->prefix, sizeof s3->prefix, "%.*s", (int)prefix_len, prefix);
    if (len < 3 || len > 63 || strspn(bucket, BUCKET_CHARS) != len || bucket[0] == '.' ||
        bucket[0] == '-' || prefix_len >= CULM_STORAGE_NAME_MAX ||
        (prefix_len > 0 && !culm_storage_name_is(s3->prefix))) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.80s' is no place in S3; allowed: s3://BUCKET/PREFIX of letters, "
                              "digits, '.', '-', '_' and '/'",
                              place);
    }
    snprintf(s3->bucket, sizeof s3->bucket, "%.*s", (int)len, bucket);
    snprintf(s3->storage.place, sizeof s3->storage.place, SCHEME "%s%s%s", s3->bucket,
             s3->prefix[0] ? "/" : "", s3->prefix);
    if (s3->prefix[0]) {
        strcat(s3->prefix, "/");
    }
    return CULM_OK;
}

/* A bucket is part of the host's name at Amazon's, as long as it has no '.', which certificates do not cover; else of the path. */
static enum culm_status take_endpoint(struct s3 *s3, const char *endpoint,
                                      struct culm_error *error) {
    if (!endpoint) {
        const char *end = strncmp(s3->region, "cn-", 3) == 0 ? ".cn" : "";
        if (strchr(s3->bucket, '.')) {
            snprintf(s3->base, sizeof s3->base, "https://s3.%s.amazonaws.com%s/%s", s3->region, end,
                     s3->bucket);
        } else {
            snprintf(s3->base, sizeof s3->base, "https://%s.s3.%s.amazonaws.com%s", s3->bucket,
                     s3->region, end);
        }
        return CULM_OK;
    }
    bool open = strncmp(endpoint, "http://", 7) == 0;
    size_t len = strlen(endpoint);
    while (len > 0 && endpoint[len - 1] == '/') {
        len--;
    }
    if ((!open && strncmp(endpoint, "https://", 8) != 0) || len > 400 ||
        strpbrk(endpoint, "?#@ ")) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "checkpoint.endpoint: '%.80s' is not a URL; allowed: "
                              "https://HOST[:PORT]",
                              endpoint);
    }
    s3->open = open && aws_is_here(endpoint + 7);
    snprintf(s3->base, sizeof s3->base, "%.*s/%s", (int)len, endpoint, s3->bucket);
    return CULM_OK;
}

static enum culm_status take(struct s3 *s3, const struct culm_s3_options *o,
                             struct culm_error *error) {
    const char *region = o->region                        ? o->region
                         : variable("AWS_REGION")         ? variable("AWS_REGION")
                         : variable("AWS_DEFAULT_REGION") ? variable("AWS_DEFAULT_REGION")
                                                          : "us-east-1";
    const char *endpoint = o->endpoint                       ? o->endpoint
                           : variable("AWS_ENDPOINT_URL_S3") ? variable("AWS_ENDPOINT_URL_S3")
                                                             : variable("AWS_ENDPOINT_URL");
    if (!region[0] || strspn(region, REGION_CHARS) != strlen(region) ||
        strlen(region) >= sizeof s3->region) {
        return culm_error_set(error, CULM_ERR_CONFIG, "checkpoint.region: '%.80s' is not a region",
                              region);
    }
    strcpy(s3->region, region);
    snprintf(s3->signer, sizeof s3->signer, "aws:amz:%s:s3", region);
    enum culm_status status = take_place(s3, o->place, error);
    if (status == CULM_OK) {
        status = take_endpoint(s3, endpoint, error);
    }
    if (status == CULM_OK) {
        s3->curl = culm_curl_load(error);
        status = s3->curl ? CULM_OK : CULM_ERR_MACHINE;
    }
    return status == CULM_OK ? aws_init(&s3->aws, error) : status;
}

enum culm_status culm_s3_open(const struct culm_s3_options *options,
                              struct culm_storage **ret_storage, struct culm_error *error) {
    struct s3 *s3 = calloc(1, sizeof *s3);
    if (!s3) {
        return no_memory(error);
    }
    s3->storage.ops = &s3_ops;
    s3->storage.patience_ms = PATIENCE_MS;
    atomic_store(&s3->conditions, true);
    pthread_mutex_init(&s3->lock, NULL);
    enum culm_status status = take(s3, options, error);
    if (status != CULM_OK) {
        s3_free(&s3->storage);
        return status;
    }
    *ret_storage = &s3->storage;
    return CULM_OK;
}
