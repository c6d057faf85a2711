/*
 * Fuzz target: answers of etcd, and of whatever stands at its address. Each question has an answer with all that net/keys.h
 * promises of it, or there is one line that says what is wrong.
 *
 * The first byte says what is asked, the second one the HTTP status, the third one in how many pieces the answer comes; all behind
 * them is the answer. It comes by a curl of our own: no sockets.
 */
#include "fuzz.h"

#include "cloud/etcd_internal.h"

#include <stdarg.h>
#include <string.h>

static struct {
    const uint8_t *data;
    size_t size, piece;
    long http;
    size_t (*write)(char *data, size_t one, size_t count, void *ctx);
    void *ctx;
} service;

static CURLcode set_option(CURL *easy, CURLoption option, ...) {
    va_list args;
    (void)easy;
    va_start(args, option);
    if (option == CURLOPT_WRITEFUNCTION) {
        service.write = va_arg(args, size_t(*)(char *, size_t, size_t, void *));
    } else if (option == CURLOPT_WRITEDATA) {
        service.ctx = va_arg(args, void *);
    }
    va_end(args);
    return CURLE_OK;
}

static CURLcode perform(CURL *easy) {
    (void)easy;
    for (size_t at = 0; at < service.size;) {
        const size_t left = service.size - at;
        const size_t now = left < service.piece ? left : service.piece;
        char *piece = malloc(now);
        FUZZ_REQUIRE(piece, "no memory");
        memcpy(piece, service.data + at, now);
        const size_t taken = service.write(piece, 1, now, service.ctx);
        free(piece);
        if (taken != now) {
            return CURLE_WRITE_ERROR;
        }
        at += now;
    }
    return CURLE_OK;
}

static CURLcode get_info(CURL *easy, CURLINFO info, ...) {
    va_list args;
    (void)easy;
    va_start(args, info);
    if (info == CURLINFO_RESPONSE_CODE) {
        *va_arg(args, long *) = service.http;
    }
    va_end(args);
    return CURLE_OK;
}

static void ask(struct culm_keys *keys, uint8_t what) {
    struct culm_error error = {0};
    struct culm_keys_list list = {0};
    static const char *const rest[] = {"leader", "term", NULL};
    const struct culm_keys_condition condition = {"leader", 0, 0};
    const struct culm_keys_change change = {"leader", "{}", 2, 7};
    const struct culm_keys_transaction transaction = {&condition, 1, &change, 1};
    enum culm_status status = CULM_OK;
    int64_t number = 0, ms = 0;
    bool yes = false;
    switch (what % 6) {
    case 0: status = keys->ops->transact(keys, &transaction, &yes, &number, &error); break;
    case 1: status = keys->ops->list(keys, "run/", what & 0x80 ? rest : NULL, &list, &error); break;
    case 2: status = keys->ops->grant(keys, 10000, &number, &ms, &error); break;
    case 3: status = keys->ops->keep(keys, 7, &error); break;
    case 4: status = keys->ops->revoke(keys, 7, &error); break;
    default: status = keys->ops->wait(keys, "run/", 5, 10, &yes, &error); break;
    }
    FUZZ_REQUIRE(status == CULM_OK || (error.text[0] && !strchr(error.text, '\n')), "message: '%s'",
                 error.text);
    FUZZ_REQUIRE(status == CULM_OK || (what % 6 != 0) || !yes, "it has happened, and failed");
    FUZZ_REQUIRE(status != CULM_OK || what % 6 != 2 || (number != 0 && ms > 0),
                 "lease %lld for %lld ms", (long long)number, (long long)ms);
    for (size_t i = 0; i < list.count; i++) {
        const struct culm_keys_pair *pair = &list.pair[i];
        FUZZ_REQUIRE(status == CULM_OK, "a list, and failed");
        FUZZ_REQUIRE(strncmp(pair->key, "run/", 4) == 0, "key '%s' was not asked for", pair->key);
        FUZZ_REQUIRE(pair->value[pair->len] == '\0', "value of '%s'", pair->key);
        FUZZ_REQUIRE(pair->created > 0 && pair->created <= pair->changed &&
                         pair->changed <= list.revision,
                     "revisions of '%s'", pair->key);
    }
    culm_keys_list_release(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const long http[] = {200, 200, 400, 401, 404, 500, 503};
    const struct culm_etcd_options options = {.place = "etcd://fuzz:1/culm"};
    struct culm_keys *keys;
    struct culm_error error = {0};
    if (size < 3) {
        return 0;
    }
    service.data = data + 3;
    service.size = size - 3;
    service.http = http[data[1] % (sizeof http / sizeof *http)];
    service.piece = data[2] ? data[2] : service.size + 1;
    FUZZ_REQUIRE(culm_etcd_open(&options, &keys, &error) == CULM_OK, "%s", error.text);
    struct etcd *etcd = (struct etcd *)keys;
    struct culm_curl curl = *etcd->curl;
    curl.easy_setopt = set_option;
    curl.easy_perform = perform;
    curl.easy_getinfo = get_info;
    etcd->curl = &curl;
    ask(keys, data[0]);
    culm_keys_close(keys);
    return 0;
}
