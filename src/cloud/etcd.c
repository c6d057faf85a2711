/* The operations of net/keys.h, as calls to etcd. See etcd.h. */
#include "base/base64.h"
#include "cloud/etcd_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_MS 1000
#define PREFIX "culm"

static struct etcd *self(struct culm_keys *keys) { return (struct etcd *)keys; }

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

static enum culm_status no_etcd(const struct etcd *e, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT, "'%s' does not answer as etcd does",
                          e->member[e->first]);
}

/* --- as etcd writes things --- */

static json_t *bytes(const void *data, size_t len) {
    char *text = culm_base64(data, len);
    json_t *json = text ? json_string(text) : NULL;
    free(text);
    return json;
}

/* Numbers of 64 bits are texts there. */
static json_t *number(int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return json_string(text);
}

/* What is 0 is left out. */
static bool read_number(const json_t *object, const char *key, int64_t *ret_value) {
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    char *end = NULL;
    errno = 0;
    *ret_value = text ? strtoll(text, &end, 10) : json_integer_value(value);
    return !value || json_is_integer(value) || (text && *text && !*end && !errno);
}

static json_t *key_of(const struct etcd *e, const char *key) {
    char whole[sizeof e->prefix + CULM_KEYS_KEY_MAX + 1];
    snprintf(whole, sizeof whole, "%s%s", e->prefix, key);
    return bytes(whole, strlen(whole));
}

/* The first key behind all that begin so. */
static json_t *end_of(const struct etcd *e, const char *prefix) {
    char whole[sizeof e->prefix + CULM_KEYS_KEY_MAX + 1];
    snprintf(whole, sizeof whole, "%s%s", e->prefix, prefix);
    whole[strlen(whole) - 1]++; /* no key ends with the last of all bytes */
    return bytes(whole, strlen(whole));
}

/* All that begin so, in their order. */
static json_t *range_of(const struct etcd *e, const char *prefix, const char *rest) {
    char key[CULM_KEYS_KEY_MAX];
    snprintf(key, sizeof key, "%s%s", prefix, rest);
    return json_pack("{s:{s:o, s:o, s:s, s:s}}", "request_range", "key", key_of(e, key),
                     "range_end", end_of(e, key), "sort_order", "ASCEND", "sort_target", "KEY");
}

static bool revision_of(const json_t *answer, int64_t *ret_revision) {
    return read_number(json_object_get(answer, "header"), "revision", ret_revision) &&
           *ret_revision > 0;
}

/* --- transactions --- */

static bool add_conditions(const struct etcd *e, const struct culm_keys_transaction *what,
                           json_t *list) {
    bool room = true;
    for (size_t i = 0; i < what->condition_count; i++) {
        const struct culm_keys_condition *c = &what->condition[i];
        room = room && !json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:o}", "key",
                                                              key_of(e, c->key), "target", "CREATE",
                                                              "result", "EQUAL", "create_revision",
                                                              number(c->created)));
        if (c->changed) {
            room = room && !json_array_append_new(
                               list, json_pack("{s:o, s:s, s:s, s:o}", "key", key_of(e, c->key),
                                               "target", "MOD", "result", "EQUAL", "mod_revision",
                                               number(c->changed)));
        }
    }
    return room;
}

static bool add_changes(const struct etcd *e, const struct culm_keys_transaction *what,
                        json_t *list) {
    bool room = true;
    for (size_t i = 0; i < what->change_count && room; i++) {
        const struct culm_keys_change *c = &what->change[i];
        json_t *of = c->value ? json_pack("{s:o, s:o, s:o}", "key", key_of(e, c->key), "value",
                                          bytes(c->value, c->len), "lease", number(c->lease))
                              : json_pack("{s:o}", "key", key_of(e, c->key));
        const char *kind = c->value ? "request_put" : "request_delete_range";
        room = of && !json_array_append_new(list, json_pack("{s:o}", kind, of));
    }
    return room;
}

static enum culm_status etcd_transact(struct culm_keys *keys,
                                      const struct culm_keys_transaction *what, bool *ret_happened,
                                      int64_t *ret_revision, struct culm_error *error) {
    struct etcd *e = self(keys);
    json_t *compare = json_array(), *success = json_array(), *answer = NULL;
    json_t *question = json_pack("{s:O, s:O}", "compare", compare, "success", success);
    enum culm_status status = culm_keys_check(what, error);
    if (status == CULM_OK) {
        status = question && add_conditions(e, what, compare) && add_changes(e, what, success)
                     ? etcd_ask(e, "kv/txn", question, ETCD_REPEAT_UNSENT, &answer, error)
                     : no_memory(error);
    }
    if (status == CULM_OK && !revision_of(answer, ret_revision)) {
        status = no_etcd(e, error);
    }
    *ret_happened = status == CULM_OK && json_is_true(json_object_get(answer, "succeeded"));
    json_decref(compare);
    json_decref(success);
    json_decref(question);
    json_decref(answer);
    return status;
}

/* --- reading --- */

/* False: it is none of etcd's, or (*ret_room false) out of memory. */
static bool read_pair(const struct etcd *e, const char *prefix, const json_t *kv,
                      struct culm_keys_list *list, bool *ret_room) {
    const char *key_text = json_string_value(json_object_get(kv, "key"));
    const char *value_text = json_string_value(json_object_get(kv, "value"));
    size_t key_len = 0, len = 0;
    char *key = key_text ? culm_base64_decode(key_text, &key_len) : NULL;
    char *value = culm_base64_decode(value_text ? value_text : "", &len);
    const size_t before = strlen(e->prefix);
    struct culm_keys_pair pair = {.value = value, .len = len};
    bool right = key && value && strncmp(key, e->prefix, before) == 0 &&
                 strncmp(key + before, prefix, strlen(prefix)) == 0 && strlen(key) == key_len &&
                 read_number(kv, "create_revision", &pair.created) &&
                 read_number(kv, "mod_revision", &pair.changed) &&
                 read_number(kv, "lease", &pair.lease) && pair.created > 0 &&
                 pair.created <= pair.changed && pair.changed <= list->revision;
    if (right) {
        pair.key = key + before;
        *ret_room = culm_keys_list_add(list, &pair);
    }
    free(key);
    free(value);
    return right && *ret_room;
}

/* Of one range. */
static enum culm_status read_pairs(const struct etcd *e, const char *prefix, const json_t *range,
                                   struct culm_keys_list *list, struct culm_error *error) {
    bool room = true;
    const json_t *kv;
    size_t i;
    if (!json_is_object(range)) {
        return no_etcd(e, error);
    }
    json_array_foreach(json_object_get(range, "kvs"), i, kv) {
        if (!read_pair(e, prefix, kv, list, &room)) {
            return room ? no_etcd(e, error) : no_memory(error);
        }
    }
    return CULM_OK;
}

/* A transaction of nothing but ranges, so that all is of one revision. */
static enum culm_status etcd_list(struct culm_keys *keys, const char *prefix,
                                  const char *const *rest, struct culm_keys_list *ret_list,
                                  struct culm_error *error) {
    static const char *const any[] = {"", NULL};
    struct etcd *e = self(keys);
    json_t *answer = NULL, *ranges = json_array();
    json_t *question = json_pack("{s:O}", "success", ranges);
    bool room = question != NULL;
    rest = rest ? rest : any;
    for (size_t i = 0; rest[i] && room; i++) {
        room = !json_array_append_new(ranges, range_of(e, prefix, rest[i]));
    }
    *ret_list = (struct culm_keys_list){0};
    enum culm_status status =
        room ? etcd_ask(e, "kv/txn", question, ETCD_REPEAT_ANY, &answer, error) : no_memory(error);
    if (status == CULM_OK && !revision_of(answer, &ret_list->revision)) {
        status = no_etcd(e, error);
    }
    const json_t *responses = json_object_get(answer, "responses");
    for (size_t i = 0; rest[i] && status == CULM_OK; i++) {
        status =
            read_pairs(e, prefix, json_object_get(json_array_get(responses, i), "response_range"),
                       ret_list, error);
    }
    json_decref(ranges);
    if (status != CULM_OK) {
        culm_keys_list_release(ret_list);
    }
    json_decref(question);
    json_decref(answer);
    return status;
}

/* --- leases --- */

static enum culm_status etcd_grant(struct culm_keys *keys, int64_t ms, int64_t *ret_lease,
                                   int64_t *ret_ms, struct culm_error *error) {
    struct etcd *e = self(keys);
    json_t *answer = NULL, *question = json_pack("{s:o}", "TTL", number((ms + 999) / 1000));
    int64_t ttl;
    enum culm_status status =
        question ? etcd_ask(e, "lease/grant", question, ETCD_REPEAT_ANY, &answer, error)
                 : no_memory(error);
    if (status == CULM_OK &&
        (!read_number(answer, "ID", ret_lease) || !read_number(answer, "TTL", &ttl) ||
         *ret_lease == 0 || ttl <= 0 || ttl > INT64_MAX / 1000)) {
        status = no_etcd(e, error);
    }
    if (status == CULM_OK) {
        *ret_ms = ttl * 1000;
    }
    json_decref(question);
    json_decref(answer);
    return status;
}

/* Of a lease that has ended the answer is fine, and has no TTL. */
static enum culm_status etcd_keep(struct culm_keys *keys, int64_t lease, struct culm_error *error) {
    struct etcd *e = self(keys);
    json_t *answer = NULL, *question = json_pack("{s:o}", "ID", number(lease));
    int64_t ttl = 0;
    enum culm_status status =
        question ? etcd_ask(e, "lease/keepalive", question, ETCD_REPEAT_ANY, &answer, error)
                 : no_memory(error);
    const json_t *result = json_object_get(answer, "result");
    if (status == CULM_OK && (!json_is_object(result) || !read_number(result, "TTL", &ttl))) {
        status = no_etcd(e, error);
    } else if (status == CULM_OK && ttl <= 0) {
        status =
            culm_error_set(error, CULM_ERR_NOT_FOUND, "lease %lld has ended", (long long)lease);
    }
    json_decref(question);
    json_decref(answer);
    return status;
}

static enum culm_status etcd_revoke(struct culm_keys *keys, int64_t lease,
                                    struct culm_error *error) {
    struct etcd *e = self(keys);
    json_t *answer = NULL, *question = json_pack("{s:o}", "ID", number(lease));
    enum culm_status status =
        question ? etcd_ask(e, "lease/revoke", question, ETCD_REPEAT_ANY, &answer, error)
                 : no_memory(error);
    json_decref(question);
    json_decref(answer);
    return status == CULM_ERR_NOT_FOUND ? CULM_OK : status;
}

/* --- watching --- */

/* What was watched from has been compacted away: it may have changed. */
static bool hear(void *ctx, const json_t *line) {
    bool *changed = ctx;
    const json_t *result = json_object_get(line, "result");
    *changed = json_object_get(line, "error") ||
               json_is_true(json_object_get(result, "canceled")) ||
               json_array_size(json_object_get(result, "events")) > 0;
    return !*changed;
}

static enum culm_status etcd_wait(struct culm_keys *keys, const char *prefix, int64_t revision,
                                  int64_t ms, bool *ret_changed, struct culm_error *error) {
    struct etcd *e = self(keys);
    json_t *question =
        json_pack("{s:{s:o, s:o, s:o}}", "create_request", "key", key_of(e, prefix), "range_end",
                  end_of(e, prefix), "start_revision", number(revision + 1));
    *ret_changed = false;
    enum culm_status status = question
                                  ? etcd_follow(e, "watch", question, ms, hear, ret_changed, error)
                                  : no_memory(error);
    json_decref(question);
    return status;
}

/* --- life --- */

static void etcd_close(struct culm_keys *keys) {
    struct etcd *e = self(keys);
    if (e->easy) {
        e->curl->easy_cleanup(e->easy);
    }
    explicit_bzero(e->token, sizeof e->token);
    free(e);
}

static const struct culm_keys_ops etcd_ops = {
    .size = sizeof etcd_ops,
    .transact = etcd_transact,
    .list = etcd_list,
    .grant = etcd_grant,
    .keep = etcd_keep,
    .revoke = etcd_revoke,
    .wait = etcd_wait,
    .close = etcd_close,
};

bool culm_etcd_is_place(const char *text) {
    return strncmp(text, "etcd://", 7) == 0 || strncmp(text, "etcds://", 8) == 0;
}

static bool is_member(const char *text, size_t len) {
    const char *colon = memrchr(text, ':', len);
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    return colon > text && digits > 0 && colon + 1 + digits == text + len && len < 280 &&
           !memchr(text, '@', len) && !memchr(text, ' ', len);
}

static enum culm_status read_place(struct etcd *e, struct culm_error *error) {
    const char *at = strstr(e->place, "://") + 3;
    const size_t members = strcspn(at, "/");
    const char *prefix = at[members] && at[members + 1] ? at + members + 1 : PREFIX;
    e->secure = strncmp(e->place, "etcds", 5) == 0;
    for (const char *end = at + members; at < end;) {
        const size_t len = strcspn(at, ",/");
        if (!is_member(at, len) || e->members == ETCD_MEMBERS) {
            break;
        }
        snprintf(e->member[e->members++], sizeof e->member[0], "%s://%.*s",
                 e->secure ? "https" : "http", (int)len, at);
        const bool last = at + len == end;
        at += len + !last;
        if (last) {
            const size_t rest = strcspn(prefix, "/");
            const bool plain = prefix[rest] == '\0' || prefix[rest + 1] == '\0';
            if (plain && rest > 0 && rest < sizeof e->prefix - 1) {
                snprintf(e->prefix, sizeof e->prefix, "%.*s/", (int)rest, prefix);
                return CULM_OK;
            }
        }
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "'%s' is not etcd://HOST:PORT[,HOST:PORT]...[/PREFIX]", e->place);
}

static const char *env(const char *own, const char *theirs) {
    const char *value = getenv(own);
    value = value && value[0] ? value : getenv(theirs);
    return value && value[0] ? value : NULL;
}

enum culm_status culm_etcd_open(const struct culm_etcd_options *options,
                                struct culm_keys **ret_keys, struct culm_error *error) {
    struct etcd *e = calloc(1, sizeof *e);
    if (!e) {
        return no_memory(error);
    }
    e->keys.ops = &etcd_ops;
    e->ask_ms = options->ask_ms ? options->ask_ms : ASK_MS;
    e->user = env("CULM_ETCD_USER", "ETCDCTL_USER");
    e->password = env("CULM_ETCD_PASSWORD", "ETCDCTL_PASSWORD");
    e->ca = env("CULM_ETCD_CACERT", "ETCDCTL_CACERT");
    e->cert = env("CULM_ETCD_CERT", "ETCDCTL_CERT");
    e->key = env("CULM_ETCD_KEY", "ETCDCTL_KEY");
    enum culm_status status = CULM_OK;
    if ((size_t)snprintf(e->place, sizeof e->place, "%s", options->place) >= sizeof e->place ||
        !culm_etcd_is_place(options->place)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.100s' is not etcd://HOST:PORT[,HOST:PORT]...[/PREFIX]",
                                options->place);
    }
    status = status ? status : read_place(e, error);
    e->curl = status == CULM_OK ? culm_curl_load(error) : NULL;
    if (status == CULM_OK && !e->curl) {
        status = error ? error->status : CULM_ERR_MACHINE;
    }
    e->easy = status == CULM_OK ? e->curl->easy_init() : NULL;
    if (status == CULM_OK && !e->easy) {
        status = no_memory(error);
    }
    if (status != CULM_OK) {
        etcd_close(&e->keys);
        return status;
    }
    *ret_keys = &e->keys;
    return CULM_OK;
}
