/* Reading packages, which are untrusted: see package.h for what is checked when. */
#include "query/package.h"

#include "base/grow.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_BYTES_MAX ((size_t)256 << 20)
#define ELEMENTS_MAX ((int64_t)1 << 38)

static enum culm_status bad(const char *name, struct culm_error *error, const char *what) {
    return culm_error_set(error, CULM_ERR_FORMAT, "%s: %s", name, what);
}

static enum culm_status no_memory(const char *name, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", name);
}

static bool is_digest(const char *text) {
    return strlen(text) == CULM_SHA256_HEX - 1 &&
           strspn(text, "0123456789abcdef") == CULM_SHA256_HEX - 1;
}

static bool is_query_name(const char *text) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t len = strlen(text);
    return len > 0 && len <= 64 && strspn(text, letters) == len;
}

static bool is_param_name(const char *text) {
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7F) {
            return false;
        }
    }
    return len > 0 && len < CULM_PACKAGE_NAME_SIZE;
}

/* --- a round from JSON --- */

struct parsing {
    const char *name;
    struct culm_package_round *round;
    int32_t *slot; /* hash table of digests: index + 1, or 0; its size */
    size_t slots;
    struct culm_error *error;
};

static size_t hash(const char *digest) {
    char head[16];
    memcpy(head, digest, 15);
    head[15] = '\0';
    return (size_t)strtoull(head, NULL, 16);
}

/* The tensor with that digest; -1: none. */
static int32_t find_tensor(const struct parsing *p, const char *digest) {
    for (size_t at = hash(digest) % p->slots; p->slot[at]; at = (at + 1) % p->slots) {
        if (strcmp(p->round->tensor[p->slot[at] - 1].digest, digest) == 0) {
            return p->slot[at] - 1;
        }
    }
    return -1;
}

static enum culm_status parse_tensor(struct parsing *p, const char *digest, json_t *shape) {
    struct culm_package_tensor tensor = {.count = 1};
    if (!is_digest(digest)) {
        return bad(p->name, p->error, "a tensor's name is not a digest");
    }
    if (!json_is_array(shape) || json_array_size(shape) > CULM_PACKAGE_RANK_MAX) {
        return bad(p->name, p->error, "a tensor's shape is not a list of at most 8 numbers");
    }
    memcpy(tensor.digest, digest, CULM_SHA256_HEX);
    tensor.rank = (int32_t)json_array_size(shape);
    for (int32_t d = 0; d < tensor.rank; d++) {
        json_t *item = json_array_get(shape, (size_t)d);
        int64_t dim = json_is_integer(item) ? json_integer_value(item) : 0;
        if (dim < 1 || dim > ELEMENTS_MAX / tensor.count) {
            return bad(p->name, p->error, "a tensor's shape is empty or too large");
        }
        tensor.shape[d] = dim;
        tensor.count *= dim;
    }
    struct culm_package_round *round = p->round;
    if (!CULM_GROW(round->tensor, round->tensor_capacity, round->tensor_count + 1)) {
        return no_memory(p->name, p->error);
    }
    round->tensor[round->tensor_count++] = tensor;
    size_t at = hash(digest) % p->slots;
    while (p->slot[at]) {
        at = (at + 1) % p->slots;
    }
    p->slot[at] = round->tensor_count;
    return CULM_OK;
}

static enum culm_status parse_param(struct parsing *p, struct culm_package_query *query,
                                    const char *name, json_t *json) {
    const char *digest = json_string_value(json_object_get(json, "tensor"));
    const char *original = json_string_value(json_object_get(json, "original"));
    json_t *layer = json_object_get(json, "layer");
    if (!is_param_name(name) || !digest || (layer && !json_is_integer(layer)) ||
        (!original && json_object_get(json, "original"))) {
        return bad(p->name, p->error, "a parameter is not {tensor, original, layer}");
    }
    int64_t number = layer ? json_integer_value(layer) : -1;
    int32_t tensor = is_digest(digest) ? find_tensor(p, digest) : -1;
    int32_t before = !original ? tensor : is_digest(original) ? find_tensor(p, original) : -1;
    if (number < -1 || number > INT32_MAX) {
        return bad(p->name, p->error, "a parameter's layer is out of range");
    }
    if (tensor < 0 || before < 0) {
        return bad(p->name, p->error, "a parameter names a tensor that 'tensors' does not have");
    }
    const struct culm_package_tensor *a = &p->round->tensor[tensor], *b = &p->round->tensor[before];
    if (a->count != b->count) {
        return bad(p->name, p->error, "a parameter and its original differ in size");
    }
    return culm_package_add_param(query, name, tensor, before, (int32_t)number, p->error);
}

static bool read_share(json_t *json, const char *key, double low, double *ret_value) {
    json_t *item = json_object_get(json, key);
    *ret_value = json_number_value(item);
    return json_is_number(item) && *ret_value >= low && *ret_value <= 1;
}

static enum culm_status parse_options(const struct parsing *p, struct culm_package_query *query,
                                      json_t *json) {
    const char *names = json_string_value(json_object_get(json, "names"));
    json_t *normalize = json_object_get(json, "normalize");
    if (names && !(query->names = strdup(names))) {
        return no_memory(p->name, p->error);
    }
    const char *reading = json_string_value(json_object_get(json, "reading"));
    if (reading && strlen(reading) >= sizeof query->reading) {
        return bad(p->name, p->error, "a query's reading is too long");
    }
    snprintf(query->reading, sizeof query->reading, "%s", reading ? reading : "");
    query->normalized = normalize != NULL;
    for (size_t i = 0; i < 6 && normalize; i++) {
        json_t *item = json_array_get(normalize, i);
        double value = json_number_value(item);
        if (!json_is_number(item) || !(value >= -1e6 && value <= 1e6) || (i >= 3 && value == 0)) {
            return bad(p->name, p->error, "a query's normalization is not six numbers");
        }
        *(i < 3 ? &query->mean[i] : &query->deviation[i - 3]) = (float)value;
    }
    return CULM_OK;
}

/* A number of at most CULM_PACKAGE_COUNT_MAX, and what follows it. */
static const char *read_count(const char *text, char then, int32_t *ret_count) {
    int64_t count = 0;
    const char *at = text;
    while (*at >= '0' && *at <= '9' && count <= CULM_PACKAGE_COUNT_MAX) {
        count = 10 * count + (*at++ - '0');
    }
    *ret_count = (int32_t)count;
    if (at == text || count > CULM_PACKAGE_COUNT_MAX) {
        return NULL;
    }
    return *at == then ? at + (then != '\0') : then == ' ' && *at == '\0' ? at : NULL;
}

/* Samples, which older packages do not have. */
static enum culm_status parse_samples(const struct parsing *p, struct culm_package_query *query,
                                      json_t *json) {
    json_t *step = json_object_get(json, "step");
    const char *text = json_string_value(json_object_get(json, "frames"));
    query->sample_step = json_number_value(step);
    if (!json) {
        return CULM_OK;
    }
    if (!text || !*text || !read_share(json, "score", 0, &query->sample_score) ||
        !json_is_number(step) || !(query->sample_step >= 1 && query->sample_step <= 1e9)) {
        return bad(p->name, p->error, "a query's samples are not {score, step, frames}");
    }
    query->sample = calloc(CULM_PACKAGE_SAMPLES_MAX, sizeof *query->sample);
    if (!query->sample) {
        return no_memory(p->name, p->error);
    }
    for (const char *at = text; *at;) {
        struct culm_package_sample sample;
        if (query->sample_count == CULM_PACKAGE_SAMPLES_MAX ||
            !(at = read_count(at, '/', &sample.wanted)) ||
            !(at = read_count(at, '/', &sample.missed)) ||
            !(at = read_count(at, ' ', &sample.added)) || sample.missed > sample.wanted) {
            return bad(p->name, p->error, "a query's samples are not up to 512 counts a/b/c");
        }
        query->sample[query->sample_count++] = sample;
    }
    return CULM_OK;
}

static enum culm_status parse_query(struct parsing *p, json_t *json) {
    const char *name = json_string_value(json_object_get(json, "query"));
    const char *model = json_string_value(json_object_get(json, "model"));
    const char *weights = json_string_value(json_object_get(json, "weights"));
    const char *identity = json_string_value(json_object_get(json, "identity"));
    json_t *parameters = json_object_get(json, "parameters"), *item;
    const char *key;
    if (!name || !is_query_name(name) || !model || !identity || !is_digest(identity) ||
        !json_is_object(parameters)) {
        return bad(p->name, p->error, "a query is not {query, model, identity, parameters, ..}");
    }
    if (culm_package_query_find(p->round, name) >= 0) {
        return bad(p->name, p->error, "a query is listed twice");
    }
    struct culm_package_query *query =
        culm_package_add_query(p->round, name, model, weights, identity);
    if (!query) {
        return no_memory(p->name, p->error);
    }
    const char *structure = json_string_value(json_object_get(json, "structure"));
    snprintf(query->structure, sizeof query->structure, "%s", structure ? structure : "");
    if (!read_share(json, "target", 0, &query->target) ||
        !read_share(json, "original", -1, &query->original) ||
        !read_share(json, "merged", -1, &query->merged) ||
        (json_object_get(json, "agreement") && /* older packages have none */
         !read_share(json, "agreement", -1, &query->agreement)) ||
        (json_object_get(json, "overlap") && !read_share(json, "overlap", -1, &query->overlap))) {
        return bad(p->name, p->error, "a query's target or accuracy is not between 0 and 1");
    }
    enum culm_status status = parse_options(p, query, json);
    status = status ? status : parse_samples(p, query, json_object_get(json, "samples"));
    json_object_foreach(parameters, key, item) {
        if (status == CULM_OK) {
            status = parse_param(p, query, key, item);
        }
    }
    return status;
}

static enum culm_status parse_root(struct parsing *p, json_t *root) {
    const char *format = json_string_value(json_object_get(root, "format"));
    json_t *number = json_object_get(root, "round"), *tensors = json_object_get(root, "tensors");
    json_t *queries = json_object_get(root, "queries"), *item;
    const char *key;
    size_t index;
    if (!format || strcmp(format, CULM_PACKAGE_FORMAT) != 0) {
        return bad(p->name, p->error, "not of the format " CULM_PACKAGE_FORMAT);
    }
    if (!json_is_integer(number) || json_integer_value(number) < 0 || !json_is_object(tensors) ||
        !json_is_array(queries) || json_array_size(queries) > CULM_PACKAGE_QUERIES_MAX) {
        return bad(p->name, p->error, "not {round, tensors, queries}");
    }
    p->round->number = json_integer_value(number);
    p->slots = 2 * json_object_size(tensors) + 1;
    p->slot = calloc(p->slots, sizeof *p->slot);
    enum culm_status status = p->slot ? CULM_OK : no_memory(p->name, p->error);
    json_object_foreach(tensors, key, item) {
        if (status == CULM_OK) {
            status = parse_tensor(p, key, item);
        }
    }
    json_array_foreach(queries, index, item) {
        if (status == CULM_OK) {
            status = parse_query(p, item);
        }
    }
    return status;
}

/* Compares the sizes that a round states with the actual ones. */
static enum culm_status compare_sums(const struct parsing *p, json_t *root) {
    struct culm_package_sums sums;
    enum culm_status status = culm_package_sum(p->round, &sums, p->error);
    json_t *total = json_object_get(root, "total_bytes");
    json_t *distinct = json_object_get(root, "distinct_bytes");
    if (status == CULM_OK &&
        (!json_is_integer(total) || json_integer_value(total) != sums.total_bytes ||
         !json_is_integer(distinct) || json_integer_value(distinct) != sums.distinct_bytes)) {
        status = culm_error_set(p->error, CULM_ERR_FORMAT,
                                "%s: its sums do not match its tensors, which have %" PRId64
                                " bytes of layers and %" PRId64 " distinct",
                                p->name, sums.total_bytes, sums.distinct_bytes);
    }
    return status;
}

enum culm_status culm_package_parse(const char *text, size_t len, const char *name,
                                    struct culm_package_round *ret_round,
                                    struct culm_error *error) {
    *ret_round = (struct culm_package_round){0};
    struct parsing p = {.name = name, .round = ret_round, .error = error};
    json_error_t why;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    enum culm_status status = CULM_OK;
    if (!root) {
        status = culm_error_set(error, CULM_ERR_FORMAT, "%s: not JSON at line %d", name, why.line);
    }
    if (status == CULM_OK) {
        status = parse_root(&p, root);
    }
    if (status == CULM_OK) {
        status = compare_sums(&p, root);
    }
    if (status != CULM_OK) {
        culm_package_round_release(ret_round);
    }
    free(p.slot);
    json_decref(root);
    return status;
}

/* --- files --- */

/* The number of the current round, and the digest of its file. */
static enum culm_status read_current(const char *dir, int64_t *ret_number,
                                     char ret_digest[CULM_SHA256_HEX], struct culm_error *error) {
    char path[CULM_PATH_MAX], *text = NULL, *end;
    size_t len;
    enum culm_status status = culm_path_format(path, error, "%s/current", dir);
    if (status == CULM_OK) {
        status = culm_file_read(NULL, path, 256, &text, &len, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    size_t digits = strspn(text, "0123456789");
    *ret_number = strtoll(text, &end, 10);
    if (digits == 0 || digits > 18 || *end != ' ' || strlen(text) != len ||
        len != digits + 1 + CULM_SHA256_HEX || text[len - 1] != '\n') {
        status = culm_error_set(error, CULM_ERR_FORMAT,
                                "package '%s': current: not a round and a digest", dir);
    } else {
        text[len - 1] = '\0';
        memcpy(ret_digest, end + 1, CULM_SHA256_HEX);
    }
    free(text);
    return status;
}

static enum culm_status compare_sizes(const char *dir, const struct culm_package_round *round,
                                      struct culm_error *error) {
    for (int32_t t = 0; t < round->tensor_count; t++) {
        const struct culm_package_tensor *tensor = &round->tensor[t];
        char path[CULM_PATH_MAX];
        uint64_t bytes = 0;
        enum culm_status status = culm_package_tensor_path(dir, tensor->digest, path, error);
        if (status == CULM_OK) {
            status = culm_file_size(path, &bytes, error);
        }
        if (status == CULM_ERR_NOT_FOUND) {
            return culm_error_set(error, CULM_ERR_FORMAT,
                                  "package '%s': tensor %s is missing; copy the package again", dir,
                                  tensor->digest);
        }
        if (status != CULM_OK) {
            return status;
        }
        if (bytes != 4 * (uint64_t)tensor->count) {
            return culm_error_set(error, CULM_ERR_FORMAT,
                                  "package '%s': tensor %s has %" PRIu64
                                  " bytes instead of %" PRIu64,
                                  dir, tensor->digest, bytes, 4 * (uint64_t)tensor->count);
        }
    }
    return CULM_OK;
}

/* digest NULL: do not compare. */
static enum culm_status read_round(const char *dir, int64_t number, const char *digest,
                                   struct culm_package_round *ret_round, struct culm_error *error) {
    char path[CULM_PATH_MAX], name[CULM_PATH_MAX + 64], found[CULM_SHA256_HEX], *text = NULL;
    size_t len = 0;
    enum culm_status status =
        culm_path_format(path, error, "%s/rounds/%" PRId64 ".json", dir, number);
    snprintf(name, sizeof name, "package '%s': rounds/%" PRId64 ".json", dir, number);
    if (status == CULM_OK) {
        status = culm_file_read(NULL, path, ROUND_BYTES_MAX, &text, &len, error);
    }
    if (status == CULM_ERR_NOT_FOUND) {
        status = bad(name, error, "it is missing; copy the package again");
    }
    if (status != CULM_OK) {
        goto out;
    }
    status = culm_sha256_of(text, len, found);
    if (status != CULM_OK) {
        culm_error_set(error, status, "SHA-256 failed");
        goto out;
    }
    if (digest && strcmp(found, digest) != 0) {
        status = bad(name, error, "it does not match 'current'; copy the package again");
        goto out;
    }
    status = culm_package_parse(text, len, name, ret_round, error);
    if (status == CULM_OK && ret_round->number != number) {
        status = bad(name, error, "the file of another round");
    }
    if (status == CULM_OK) {
        memcpy(ret_round->digest, found, sizeof found);
        status = compare_sizes(dir, ret_round, error);
    }
out:
    free(text);
    if (status != CULM_OK) {
        culm_package_round_release(ret_round);
    }
    return status;
}

enum culm_status culm_package_open(const char *dir, struct culm_package_round *ret_round,
                                   struct culm_error *error) {
    *ret_round = (struct culm_package_round){0};
    char digest[CULM_SHA256_HEX];
    int64_t number;
    if (!culm_file_is_directory(dir)) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND, "package '%s': no such folder", dir);
    }
    enum culm_status status = read_current(dir, &number, digest, error);
    if (status == CULM_ERR_NOT_FOUND) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND,
                              "'%s' is not a package, or has no finished round ('current' is "
                              "missing)",
                              dir);
    }
    return status == CULM_OK ? read_round(dir, number, digest, ret_round, error) : status;
}

enum culm_status culm_package_open_round(const char *dir, int64_t number,
                                         struct culm_package_round *ret_round,
                                         struct culm_error *error) {
    *ret_round = (struct culm_package_round){0};
    return read_round(dir, number, NULL, ret_round, error);
}

bool culm_package_moved(const char *dir, int64_t number, const char *digest) {
    struct culm_error ignored = {0};
    char digest_now[CULM_SHA256_HEX];
    int64_t now;
    return read_current(dir, &now, digest_now, &ignored) != CULM_OK || now != number ||
           strcmp(digest_now, digest) != 0;
}

enum culm_status culm_package_read(const char *dir, const struct culm_package_tensor *tensor,
                                   float *ret_data, struct culm_error *error) {
    char path[CULM_PATH_MAX], *data = NULL;
    struct culm_package_tensor found = *tensor;
    size_t len = 0, bytes = 4 * (size_t)tensor->count;
    enum culm_status status = culm_package_tensor_path(dir, tensor->digest, path, error);
    if (status == CULM_OK) {
        status = culm_file_read(NULL, path, bytes, &data, &len, error);
    }
    if (status == CULM_OK && len == bytes) {
        memcpy(ret_data, data, bytes);
        status = culm_package_digest(&found, ret_data, error);
    }
    free(data);
    if (status == CULM_OK && (len != bytes || strcmp(found.digest, tensor->digest) != 0)) {
        status = culm_error_set(
            error, CULM_ERR_FORMAT,
            "package '%s': tensor %s does not match its digest; copy the package again", dir,
            tensor->digest);
    }
    for (size_t i = 0; i < (size_t)tensor->count && status == CULM_OK; i++) {
        if (!isfinite(ret_data[i])) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "package '%s': number %zu of tensor %s is not finite; merge "
                                    "again, or copy the package again",
                                    dir, i, tensor->digest);
        }
    }
    return status;
}

enum culm_status culm_package_check(const char *dir, const struct culm_package_round *round,
                                    struct culm_error *error) {
    enum culm_status status = compare_sizes(dir, round, error);
    for (int32_t t = 0; t < round->tensor_count && status == CULM_OK; t++) {
        float *data = malloc(4 * (size_t)round->tensor[t].count);
        status =
            data ? culm_package_read(dir, &round->tensor[t], data, error) : no_memory(dir, error);
        free(data);
    }
    return status;
}
