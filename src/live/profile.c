/* Profiles in JSON. See profile.h. */
#include "live/profile.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE_LEAST 0.001 /* MB/s */
#define PROFILE_BYTES_MAX (16u << 20)
#define MS_MAX 1e7
#define BYTES_MAX 1e12

void culm_live_profile_release(struct culm_live_profile *profile) {
    for (int32_t m = 0; m < profile->model_count; m++) {
        for (int32_t t = 0; t < profile->model[m].tensor_count; t++) {
            free(profile->model[m].tensor[t].name);
            free(profile->model[m].tensor[t].kind);
        }
        free(profile->model[m].tensor);
        free(profile->model[m].name);
    }
    free(profile->model);
    *profile = (struct culm_live_profile){0};
}

const struct culm_live_profile_model *
culm_live_profile_find(const struct culm_live_profile *profile, const char *model) {
    for (int32_t m = 0; m < profile->model_count; m++) {
        if (strcmp(profile->model[m].name, model) == 0) {
            return &profile->model[m];
        }
    }
    return NULL;
}

struct culm_live_profile_model *culm_live_profile_add(struct culm_live_profile *profile,
                                                      const char *model) {
    for (int32_t m = 0; m < profile->model_count; m++) {
        if (strcmp(profile->model[m].name, model) == 0) {
            return &profile->model[m];
        }
    }
    char *name = strdup(model);
    if (!name || !CULM_GROW(profile->model, profile->model_capacity, profile->model_count + 1)) {
        free(name);
        return NULL;
    }
    profile->model[profile->model_count] = (struct culm_live_profile_model){.name = name};
    return &profile->model[profile->model_count++];
}

/* Interpolates between two points, or extrapolates beyond them; never below 0. */
static double along(double at, double x0, double y0, double x1, double y1) {
    double value = x1 == x0 ? y0 : y0 + (y1 - y0) * (at - x0) / (x1 - x0);
    return value > 0 ? value : 0;
}

/* A number of a profile that is given by batch size, for a size that may not be among these. */
static double number_of(const struct culm_live_times *times, const double *number, int32_t batch) {
    int32_t i = 0, last = times->sizes - 1;
    while (i < last && times->batch[i] < batch) {
        i++;
    }
    if (times->batch[i] == batch) {
        return number[i];
    }
    if (times->sizes == 1) {
        return number[0] * (double)batch / times->batch[0];
    }
    int32_t a = i > 0 ? i - 1 : 0, b = a + 1;
    return along(batch, times->batch[a], number[a], times->batch[b], number[b]);
}

void culm_live_times_of(const struct culm_live_times *times, int32_t batch, uint64_t *ret_run_ns,
                        size_t *ret_activation_bytes) {
    double run = number_of(times, times->run_ms, batch);
    double bytes = number_of(times, times->activation_bytes, batch);
    *ret_run_ns = run * 1e6 < 1 ? 1 : (uint64_t)(run * 1e6);
    *ret_activation_bytes = (size_t)bytes;
}

double culm_live_times_share(const struct culm_live_times *times, int32_t operators,
                             int32_t batch) {
    double share = 0;
    int32_t nearest = INT32_MAX;
    for (int32_t p = 0; p < times->prefixes; p++) {
        for (int32_t b = 0; b < times->sizes; b++) {
            int32_t away = abs(times->batch[b] - batch);
            if (times->prefix[p].operators == operators && times->prefix[p].run_ms[b] > 0 &&
                times->run_ms[b] > 0 && away < nearest) {
                share = times->prefix[p].run_ms[b] / times->run_ms[b];
                nearest = away;
            }
        }
    }
    return share < 1 ? share : 1;
}

void culm_live_times_set_share(struct culm_live_times *times, int32_t operators, int32_t b,
                               double share) {
    int32_t p = 0;
    while (p < times->prefixes && times->prefix[p].operators != operators) {
        p++;
    }
    if (p == CULM_EDGE_PREFIX_MAX) {
        memmove(times->prefix, times->prefix + 1, (size_t)--p * sizeof *times->prefix);
        times->prefixes = p;
    }
    if (p == times->prefixes) {
        times->prefix[times->prefixes++] = (struct culm_live_prefix_times){.operators = operators};
    }
    times->prefix[p].run_ms[b] = share * times->run_ms[b];
}

void culm_live_times_shares(struct culm_live_times *times, int32_t b,
                            const struct culm_live_times *from) {
    for (int32_t p = 0; p < from->prefixes; p++) {
        int32_t operators = from->prefix[p].operators;
        double share = culm_live_times_share(from, operators, times->batch[b]);
        if (share > 0) {
            culm_live_times_set_share(times, operators, b, share);
        }
    }
}

/* --- reading --- */

struct parse {
    const char *name;
    struct culm_error *error;
};

static enum culm_status wrong(const struct parse *parse, const char *format, const char *what) {
    char text[200];
    snprintf(text, sizeof text, format, what);
    return culm_error_set(parse->error, CULM_ERR_FORMAT, "profile '%s': %s", parse->name, text);
}

static bool is_number(const json_t *value, double least, double most) {
    return json_is_number(value) && json_number_value(value) >= least &&
           json_number_value(value) <= most;
}

static enum culm_status parse_times(const struct parse *parse, const char *model, json_t *json,
                                    struct culm_live_times *times) {
    json_t *run = json_object_get(json, "run_ms");
    json_t *bytes = json_object_get(json, "activation_bytes"), *value;
    const char *key;
    if (!json_is_object(run) || json_object_size(run) == 0) {
        return wrong(parse, "model '%.100s' has no \"run_ms\": {\"1\": MS, ...}", model);
    }
    json_object_foreach(run, key, value) {
        char *end;
        long size = strtol(key, &end, 10);
        int32_t at = times->sizes;
        json_t *needs = bytes ? json_object_get(bytes, key) : NULL;
        if (*end || size < 1 || size > CULM_EDGE_VISIT_MAX || !is_number(value, 1e-6, MS_MAX) ||
            (needs && !is_number(needs, 0, BYTES_MAX)) || at == CULM_EDGE_SIZES_MAX) {
            return wrong(parse,
                         "model '%.100s': batch sizes must be 1 to 16, at most 8 of them, with "
                         "times above 0",
                         model);
        }
        while (at > 0 && times->batch[at - 1] > size) {
            times->batch[at] = times->batch[at - 1];
            times->run_ms[at] = times->run_ms[at - 1];
            times->activation_bytes[at] = times->activation_bytes[at - 1];
            at--;
        }
        times->batch[at] = (int32_t)size;
        times->run_ms[at] = json_number_value(value);
        times->activation_bytes[at] = needs ? json_number_value(needs) : 0;
        times->sizes++;
    }
    return CULM_OK;
}

/* To be called after parse_times, since it refers to the sizes read there. */
static enum culm_status parse_prefixes(const struct parse *parse, const char *model, json_t *json,
                                       struct culm_live_times *times) {
    const char *key, *size;
    json_t *prefix, *ms;
    bool sound = !json || json_is_object(json);
    json_object_foreach(json, key, prefix) {
        char *end;
        long operators = strtol(key, &end, 10);
        sound = sound && !*end && operators > 0 && operators <= INT32_MAX &&
                json_is_object(prefix) && times->prefixes < CULM_EDGE_PREFIX_MAX;
        if (!sound) {
            break;
        }
        struct culm_live_prefix_times *of = &times->prefix[times->prefixes++];
        *of = (struct culm_live_prefix_times){.operators = (int32_t)operators};
        json_object_foreach(prefix, size, ms) {
            int32_t b = 0;
            while (b < times->sizes && times->batch[b] != strtol(size, &end, 10)) {
                b++;
            }
            sound = sound && b < times->sizes && !*end && is_number(ms, 1e-6, MS_MAX);
            if (sound) {
                of->run_ms[b] = json_number_value(ms);
            }
        }
    }
    return sound ? CULM_OK
                 : wrong(parse,
                         "model '%.100s': \"prefix_ms\" must be {\"OPERATORS\": {\"1\": MS}, ...}, "
                         "at most 4 of them, for sizes in run_ms",
                         model);
}

static enum culm_status parse_tensors(const struct parse *parse, json_t *json,
                                      struct culm_live_profile_model *model) {
    const char *key;
    json_t *value;
    int32_t capacity = 0;
    if (json && !json_is_object(json)) {
        return wrong(parse, "model '%.100s': \"tensors\" must be {\"NAME\": BYTES, ...}",
                     model->name);
    }
    json_object_foreach(json, key, value) {
        json_t *bytes = json_is_object(value) ? json_object_get(value, "bytes") : value;
        const char *said = json_string_value(json_object_get(value, "kind"));
        if (!is_number(bytes, 1, BYTES_MAX)) {
            return wrong(parse, "model '%.100s': a tensor must have 1 byte or more", model->name);
        }
        if (!CULM_GROW(model->tensor, capacity, model->tensor_count + 1)) {
            return culm_error_set(parse->error, CULM_ERR_MEMORY, "out of memory for a profile");
        }
        struct culm_live_profile_tensor *tensor = &model->tensor[model->tensor_count++];
        *tensor = (struct culm_live_profile_tensor){strdup(key), (int64_t)json_number_value(bytes),
                                                    said ? strdup(said) : NULL};
        if (!tensor->name || (said && !tensor->kind)) {
            return culm_error_set(parse->error, CULM_ERR_MEMORY, "out of memory for a profile");
        }
    }
    return CULM_OK;
}

static enum culm_status parse_profile(const struct parse *parse, json_t *json,
                                      struct culm_live_profile *profile) {
    json_t *load = json_object_get(json, "load"), *models = json_object_get(json, "models"), *value;
    const char *key, *device = json_string_value(json_object_get(json, "device"));
    if (json_integer_value(json_object_get(json, "format")) != CULM_LIVE_PROFILE_FORMAT ||
        !json_is_object(models)) {
        return wrong(parse, "it has no %s", "\"format\": 1 and \"models\"");
    }
    snprintf(profile->device, sizeof profile->device, "%s", device ? device : "");
    profile->threads = json_integer_value(json_object_get(json, "threads"));
    if (load) {
        json_t *rate = json_object_get(load, "mb_per_s"), *ms = json_object_get(load, "ms");
        bool none = rate && json_is_number(rate) && json_number_value(rate) == 0;
        if ((rate && !none && !is_number(rate, RATE_LEAST, 1e9)) ||
            (ms && !is_number(ms, 0, MS_MAX))) {
            return wrong(parse, "\"load\" must be %s", "{\"mb_per_s\": RATE, \"ms\": MS}");
        }
        profile->mb_per_s = json_number_value(rate);
        profile->load_ms = json_number_value(ms);
    }
    json_object_foreach(models, key, value) {
        struct culm_live_profile_model *model = culm_live_profile_add(profile, key);
        if (!model) {
            return culm_error_set(parse->error, CULM_ERR_MEMORY, "out of memory for a profile");
        }
        enum culm_status status = parse_times(parse, key, value, &model->times);
        status =
            status ? status
                   : parse_prefixes(parse, key, json_object_get(value, "prefix_ms"), &model->times);
        status = status ? status : parse_tensors(parse, json_object_get(value, "tensors"), model);
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

enum culm_status culm_live_profile_parse(const char *text, size_t len, const char *name,
                                         struct culm_live_profile *ret_profile,
                                         struct culm_error *error) {
    const struct parse parse = {name, error};
    struct culm_live_profile profile = {0};
    json_error_t why;
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!json) {
        return culm_error_set(error, CULM_ERR_FORMAT, "profile '%s': line %d: %s", name, why.line,
                              why.text);
    }
    enum culm_status status = json_is_object(json) ? parse_profile(&parse, json, &profile)
                                                   : wrong(&parse, "it is not %s", "a JSON object");
    json_decref(json);
    if (status == CULM_OK) {
        *ret_profile = profile;
    } else {
        culm_live_profile_release(&profile);
    }
    return status;
}

enum culm_status culm_live_profile_read(const char *path, struct culm_live_profile *ret_profile,
                                        struct culm_error *error) {
    char *text = NULL;
    size_t len = 0;
    enum culm_status status = culm_file_read(NULL, path, PROFILE_BYTES_MAX, &text, &len, error);
    if (status == CULM_OK) {
        status = culm_live_profile_parse(text, len, path, ret_profile, error);
    }
    free(text);
    return status;
}

/* --- writing --- */

static json_t *model_json(const struct culm_live_profile_model *model) {
    json_t *run = json_object(), *bytes = json_object(), *tensors = json_object(),
           *prefixes = json_object();
    for (int32_t b = 0; b < model->times.sizes; b++) {
        char size[16];
        snprintf(size, sizeof size, "%d", model->times.batch[b]);
        json_object_set_new(run, size, json_real(round(model->times.run_ms[b] * 1e4) / 1e4));
        json_object_set_new(bytes, size,
                            json_integer((json_int_t)model->times.activation_bytes[b]));
    }
    for (int32_t p = 0; p < model->times.prefixes; p++) {
        const struct culm_live_prefix_times *of = &model->times.prefix[p];
        json_t *ms = json_object();
        char name[16];
        for (int32_t b = 0; b < model->times.sizes; b++) {
            double known = round(of->run_ms[b] * 1e4) / 1e4;
            snprintf(name, sizeof name, "%d", model->times.batch[b]);
            if (known > 0) {
                json_object_set_new(ms, name, json_real(known));
            }
        }
        snprintf(name, sizeof name, "%d", of->operators);
        json_object_set_new(prefixes, name, ms);
    }
    for (int32_t t = 0; t < model->tensor_count; t++) {
        const struct culm_live_profile_tensor *tensor = &model->tensor[t];
        json_object_set_new(
            tensors, tensor->name,
            tensor->kind
                ? json_pack("{s:I, s:s}", "bytes", (json_int_t)tensor->bytes, "kind", tensor->kind)
                : json_integer(tensor->bytes));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "run_ms", run, "activation_bytes", bytes, "prefix_ms",
                     prefixes, "tensors", tensors);
}

enum culm_status culm_live_profile_write(const struct culm_live_profile *profile, const char *path,
                                         struct culm_error *error) {
    json_t *models = json_object();
    for (int32_t m = 0; m < profile->model_count; m++) {
        json_object_set_new(models, profile->model[m].name, model_json(&profile->model[m]));
    }
    json_t *json = json_pack("{s:i, s:o, s:I, s:{s:f, s:f}, s:o}", "format",
                             CULM_LIVE_PROFILE_FORMAT, "device", culm_json_text(profile->device),
                             "threads", (json_int_t)profile->threads, "load", "mb_per_s",
                             profile->mb_per_s, "ms", profile->load_ms, "models", models);
    char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    json_decref(json);
    enum culm_status status =
        text ? culm_file_replace(NULL, path, text, strlen(text), error)
             : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a profile");
    free(text);
    return status;
}
