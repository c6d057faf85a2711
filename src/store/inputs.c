/* The list of inputs as JSON; see the header. */
#include "store/inputs.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static json_t *pin_json(const struct culm_pin *pin) {
    json_t *file =
        json_pack("{s:s, s:I, s:I, s:I, s:I}", "path", pin->path, "bytes", (json_int_t)pin->bytes,
                  "inode", (json_int_t)pin->stamp.inode, "mtime_ns",
                  (json_int_t)pin->stamp.mtime_ns, "ctime_ns", (json_int_t)pin->stamp.ctime_ns);
    bool good = file;
    if (good && pin->files) {
        good = !json_object_set_new(file, "files", json_integer((json_int_t)pin->files));
    }
    if (good && pin->whole[0]) {
        good = !json_object_set_new(file, "sha256", json_string(pin->whole));
    }
    if (good && pin->part[0]) {
        good = !json_object_set_new(file, "part_sha256", json_string(pin->part));
    }
    if (!good) {
        json_decref(file);
    }
    return good ? file : NULL;
}

json_t *culm_inputs_json(const struct culm_inputs *inputs) {
    json_t *files = json_array();
    bool good = files;
    for (size_t i = 0; good && i < culm_pins_count(inputs->pins); i++) {
        struct culm_pin pin = culm_pins_at(inputs->pins, i);
        good = !json_array_append_new(files, pin_json(&pin));
    }
    if (!good) {
        json_decref(files);
        return NULL;
    }
    json_t *json = json_pack("{s:I, s:o}", "samples", (json_int_t)inputs->samples, "files", files);
    json_t *classes = inputs->classes.count ? json_array() : NULL;
    for (size_t i = 0; classes && i < inputs->classes.count; i++) {
        json_array_append_new(classes, culm_json_text(inputs->classes.name[i]));
    }
    if (json && classes) {
        json_object_set_new(json, "classes", classes);
    } else {
        json_decref(classes);
    }
    return json;
}

static bool add_name(struct culm_names *names, const char *name) {
    size_t count = names->count;
    if (!(count & (count + 1))) { /* one less than a power of two: full */
        char **larger = realloc(names->name, 2 * (count + 1) * sizeof *larger);
        if (!larger) {
            return false;
        }
        names->name = larger;
    }
    names->name[count] = strdup(name);
    names->count += names->name[count] != NULL;
    return names->count > count;
}

bool culm_inputs_add_class(struct culm_inputs *inputs, const char *name) {
    return add_name(&inputs->classes, name);
}

enum culm_status culm_inputs_read_classes(const json_t *json, struct culm_names *ret_names,
                                          struct culm_error *error) {
    struct culm_names names = {0};
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(json, "classes"), i, entry) {
        const char *name = json_string_value(entry);
        if (!name) { /* not as it is written: as if there were none */
            culm_names_release(&names);
            break;
        }
        if (!add_name(&names, name)) {
            culm_names_release(&names);
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        }
    }
    *ret_names = names;
    return CULM_OK;
}

/* Absent: "". */
static bool read_digest(const json_t *file, const char *key, char ret_hex[CULM_SHA256_HEX]) {
    const json_t *value = json_object_get(file, key);
    const char *text = json_string_value(value);
    ret_hex[0] = '\0';
    if (!value) {
        return true;
    }
    if (!text || strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64) {
        return false;
    }
    strcpy(ret_hex, text);
    return true;
}

static bool read_pin(json_t *file, struct culm_pin *ret_pin) {
    json_int_t bytes, inode, mtime, ctime, files = 0;
    const char *path;
    struct culm_pin pin = {0};
    if (json_unpack(file, "{s:s, s:I, s:I, s:I, s:I, s?I}", "path", &path, "bytes", &bytes, "inode",
                    &inode, "mtime_ns", &mtime, "ctime_ns", &ctime, "files", &files) != 0 ||
        bytes < 0 || files < 0 || !read_digest(file, "sha256", pin.whole) ||
        !read_digest(file, "part_sha256", pin.part)) {
        return false;
    }
    bool small = (uint64_t)bytes <= CULM_PINS_WHOLE;
    if (small ? !pin.whole[0] || pin.part[0] : !pin.part[0]) {
        return false;
    }
    pin.path = (char *)(uintptr_t)path;
    pin.files = (uint64_t)files;
    pin.bytes = (uint64_t)bytes;
    pin.stamp = (struct culm_stamp){.inode = (uint64_t)inode,
                                    .bytes = (uint64_t)bytes,
                                    .mtime_ns = (int64_t)mtime,
                                    .ctime_ns = (int64_t)ctime};
    *ret_pin = pin;
    return true;
}

enum culm_status culm_inputs_read(const json_t *json, struct culm_inputs *ret_inputs,
                                  struct culm_error *error) {
    const json_t *samples = json_object_get(json, "samples"),
                 *files = json_object_get(json, "files");
    struct culm_inputs inputs = {.pins = culm_pins_new(), .samples = json_integer_value(samples)};
    if (!inputs.pins) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    bool good = json_is_integer(samples) && inputs.samples >= 1 && json_is_array(files);
    for (size_t i = 0; good && i < json_array_size(files); i++) {
        struct culm_pin pin;
        good = read_pin(json_array_get(files, i), &pin);
        if (good && !culm_pins_add(inputs.pins, &pin)) {
            culm_inputs_release(&inputs);
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        }
    }
    if (!good) {
        culm_inputs_release(&inputs);
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "'inputs' is not as 'culm train' writes it; it is damaged");
    }
    culm_pins_seal(inputs.pins);
    *ret_inputs = inputs;
    return CULM_OK;
}

/* A plan.json of another run, or of before the file was pinned, tells nothing. */
static bool find_in_plan(void *ctx, const struct culm_pin *pin, bool wait, char *ret_hex) {
    struct culm_inputs inputs = {0};
    (void)wait;
    json_t *plan = culm_json_load(ctx, NULL);
    if (culm_inputs_read(json_object_get(plan, "inputs"), &inputs, NULL) == CULM_OK) {
        for (size_t i = 0; i < culm_pins_count(inputs.pins); i++) {
            struct culm_pin told = culm_pins_at(inputs.pins, i);
            if (strcmp(told.path, pin->path) == 0 && strcmp(told.part, pin->part) == 0 &&
                culm_stamp_same(&told.stamp, &pin->stamp)) {
                strcpy(ret_hex, told.whole);
            }
        }
    }
    culm_inputs_release(&inputs);
    json_decref(plan);
    return false;
}

void culm_inputs_ask_plan(struct culm_inputs *inputs, const char *path) {
    culm_pins_ask(inputs->pins, find_in_plan, (void *)(uintptr_t)path);
}

void culm_inputs_release(struct culm_inputs *inputs) {
    culm_pins_free(inputs->pins);
    culm_names_release(&inputs->classes);
    *inputs = (struct culm_inputs){0};
}

enum culm_status culm_inputs_check_samples(const struct culm_inputs *inputs, int64_t samples,
                                           struct culm_error *error) {
    return samples == inputs->samples
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CHANGED,
                                "the data has %lld samples, and had %lld when the run began; %s",
                                (long long)samples, (long long)inputs->samples, culm_pins_back);
}
