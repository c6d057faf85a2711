/* Compares what a run left with what is there now. See gnn_own.h. */
#include "run/gnn_own.h"

#include "base/json.h"

#include "report/sink.h"
#include "run/gnn_node.h"
#include "store/inputs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum culm_status culm_gnn_own_find(const char *dir, struct culm_gnn_own *own,
                                   struct culm_error *error) {
    *own = (struct culm_gnn_own){.dir = dir, .pins = culm_pins_new()};
    return own->pins ? culm_gnn_cut_path(dir, own->path, &own->cut.path, error)
                     : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

void culm_gnn_own_release(struct culm_gnn_own *own) {
    culm_pins_free(own->pins);
    own->pins = NULL;
}

/* --- the graph --- */

static bool is_open(struct culm_pins *pins, const char *path) {
    size_t i = 0;
    while (path && i < culm_pins_count(pins) && strcmp(culm_pins_at(pins, i).path, path) != 0) {
        i++;
    }
    return path && i < culm_pins_count(pins);
}

/* Leaves out the files that are not open here: model.init, and what was not reached. */
static void keep_open(json_t *inputs, struct culm_pins *pins) {
    json_t *files = json_object_get(inputs, "files");
    for (size_t i = json_array_size(files); i-- > 0;) {
        const json_t *path = json_object_get(json_array_get(files, i), "path");
        if (!is_open(pins, json_string_value(path))) {
            json_array_remove(files, i);
        }
    }
}

static enum culm_status compare_files(const struct culm_gnn_own *own, char *ret_note,
                                      struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_inputs before = {0};
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", own->dir);
    json_t *plan = status == CULM_OK ? culm_json_load(path, NULL) : NULL;
    json_t *inputs = json_object_get(plan, "inputs");
    if (inputs) {
        keep_open(inputs, own->pins);
        status = culm_inputs_read(inputs, &before, error);
    }
    if (status == CULM_OK && inputs) {
        status = culm_pins_compare(before.pins, own->pins, ret_note, error);
    }
    if (status == CULM_ERR_CHANGED) {
        culm_pins_advise(error, own->advice ? own->advice : "put it back");
        status = error->status = CULM_ERR_CONFIG;
    }
    culm_inputs_release(&before);
    json_decref(plan);
    return status;
}

enum culm_status culm_gnn_own_check(const struct culm_gnn_own *own, enum culm_status opened,
                                    const struct culm_gnn_setup *setup, char *ret_note,
                                    struct culm_error *error) {
    char sha256[65];
    struct culm_error changed = {0};
    ret_note[0] = '\0';
    if (!own->dir) {
        return opened;
    }
    enum culm_status status = compare_files(own, ret_note, &changed);
    if (status != CULM_OK) {
        if (error) {
            *error = changed;
        }
        return status;
    }
    /* The cut also where its file is lost, and the graph was cut again here. */
    status = opened == CULM_OK ? culm_gnn_cut_sha256(setup, sha256) : opened;
    return status == CULM_OK ? culm_gnn_cut_compare(own->dir, sha256, error) : status;
}

/* --- the weights --- */

/* Keeps what the last `done` says, unless the run was begun again after it. */
static enum culm_status take_hash(void *context, const json_t *event, struct culm_error *error) {
    char *sha256 = context;
    const char *name = culm_event_text(event, "event", "");
    (void)error;
    if (strcmp(name, "start") == 0) {
        sha256[0] = '\0';
    } else if (strcmp(name, "done") == 0) {
        snprintf(sha256, 65, "%s", culm_event_text(event, "weights_sha256", ""));
    }
    return CULM_OK;
}

enum culm_status culm_gnn_own_check_weights(const char *dir, const char *sha256,
                                            struct culm_error *error) {
    char path[CULM_PATH_MAX], before[65] = "";
    size_t bad = 0; /* a log with lines that are no events may have lost what counts */
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", dir);
    if (status == CULM_OK && access(path, F_OK) == 0) {
        status = culm_events_skim(path, take_hash, before, &bad, error);
    }
    if (status == CULM_OK && bad == 0 && before[0] && strcmp(before, sha256) != 0) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.300s/model.safetensors' does not have the weights that the run "
                                "ended with (weights_sha256 in its event done); put it back, or "
                                "name it as model.init in a configuration",
                                dir);
    }
    return status;
}
