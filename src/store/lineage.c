/* What a run has gone on with, as JSON and back. See lineage.h. */
#include "store/lineage.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for what a run has gone on with");
}

void culm_lineage_release(struct culm_lineage *lineage) {
    for (size_t i = 0; i < lineage->part_count; i++) {
        free(lineage->part[i].config);
    }
    free(lineage->part);
    free(lineage->note);
    *lineage = (struct culm_lineage){0};
}

static enum culm_status add_part(struct culm_lineage *lineage, int64_t after, const char *config,
                                 struct culm_error *error) {
    char *copy = strdup(config);
    if (!copy || !CULM_GROW(lineage->part, lineage->part_capacity, lineage->part_count + 1)) {
        free(copy);
        return no_memory(error);
    }
    lineage->part[lineage->part_count++] = (struct culm_lineage_part){after, copy};
    return CULM_OK;
}

enum culm_status culm_lineage_add_note(struct culm_lineage *lineage, int64_t after, const char *why,
                                       struct culm_error *error) {
    if (culm_lineage_noted(lineage, after, why)) {
        return CULM_OK;
    }
    if (!CULM_GROW(lineage->note, lineage->note_capacity, lineage->note_count + 1)) {
        return no_memory(error);
    }
    struct culm_lineage_note *note = &lineage->note[lineage->note_count++];
    note->after = after;
    snprintf(note->why, sizeof note->why, "%s", why);
    return CULM_OK;
}

void culm_lineage_back_to(struct culm_lineage *lineage, int64_t after) {
    size_t kept = 0;
    for (size_t i = 0; i < lineage->note_count; i++) {
        if (lineage->note[i].after <= after) {
            lineage->note[kept++] = lineage->note[i];
        }
    }
    lineage->note_count = kept;
}

/* --- JSON --- */

enum culm_status culm_lineage_json(const struct culm_lineage *lineage, json_t **ret_json,
                                   struct culm_error *error) {
    if (lineage->part_count == 0 && lineage->note_count == 0) {
        *ret_json = NULL;
        return CULM_OK;
    }
    json_t *settings = json_array(), *notes = json_array();
    bool good = settings && notes;
    for (size_t i = 0; i < lineage->part_count && good; i++) {
        good = !json_array_append_new(settings, json_pack("{s:I, s:s}", "after",
                                                          (json_int_t)lineage->part[i].after,
                                                          "config", lineage->part[i].config));
    }
    for (size_t i = 0; i < lineage->note_count && good; i++) {
        good = !json_array_append_new(notes, json_pack("{s:I, s:s}", "after",
                                                       (json_int_t)lineage->note[i].after, "why",
                                                       lineage->note[i].why));
    }
    json_t *json = good ? json_pack("{s:O, s:O}", "settings", settings, "inexact", notes) : NULL;
    json_decref(settings);
    json_decref(notes);
    if (!json) {
        return no_memory(error);
    }
    *ret_json = json;
    return CULM_OK;
}

enum culm_status culm_lineage_progress(const struct culm_lineage *lineage, json_t **progress,
                                       struct culm_error *error) {
    json_t *json = NULL;
    enum culm_status status = culm_lineage_json(lineage, &json, error);
    if (status != CULM_OK || !json) {
        return status;
    }
    json_t *made = *progress ? *progress : json_object();
    if (!made || json_object_set_new(made, "lineage", json)) {
        if (!*progress) {
            json_decref(made);
        }
        return no_memory(error);
    }
    *progress = made;
    return CULM_OK;
}

static enum culm_status malformed(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT,
                          "'lineage' is not as Culm writes it; it is damaged");
}

enum culm_status culm_lineage_read(const json_t *json, struct culm_lineage *ret_lineage,
                                   struct culm_error *error) {
    struct culm_lineage lineage = {0};
    const json_t *settings = json_object_get(json, "settings"),
                 *notes = json_object_get(json, "inexact");
    enum culm_status status =
        !json || (json_is_array(settings) && json_is_array(notes) && json_array_size(settings) != 1)
            ? CULM_OK
            : malformed(error);
    int64_t last = -1;
    for (size_t i = 0; i < json_array_size(settings) && status == CULM_OK; i++) {
        const json_t *part = json_array_get(settings, i);
        const json_t *after = json_object_get(part, "after");
        const char *config = json_string_value(json_object_get(part, "config"));
        bool good = json_is_integer(after) && config && json_integer_value(after) > last &&
                    (i > 0 || json_integer_value(after) == 0);
        last = json_integer_value(after);
        status = good ? add_part(&lineage, last, config, error) : malformed(error);
    }
    for (size_t i = 0; i < json_array_size(notes) && status == CULM_OK; i++) {
        const json_t *note = json_array_get(notes, i);
        const json_t *after = json_object_get(note, "after");
        const char *why = json_string_value(json_object_get(note, "why"));
        bool good = json_is_integer(after) && json_integer_value(after) >= 0 && why && *why &&
                    strlen(why) < CULM_LINEAGE_WHY_SIZE;
        status = good ? culm_lineage_add_note(&lineage, json_integer_value(after), why, error)
                      : malformed(error);
    }
    if (status != CULM_OK) {
        culm_lineage_release(&lineage);
        return status;
    }
    *ret_lineage = lineage;
    return CULM_OK;
}

/* --- changes --- */

static void drop(struct culm_lineage *lineage, size_t index) {
    free(lineage->part[index].config);
    lineage->part_count--;
    memmove(&lineage->part[index], &lineage->part[index + 1],
            (lineage->part_count - index) * sizeof *lineage->part);
}

/* Makes a part begin after that step, with the configuration that is in force there. */
static enum culm_status split(struct culm_lineage *lineage, int64_t after, size_t *ret_index,
                              struct culm_error *error) {
    size_t i = 0;
    while (i < lineage->part_count && lineage->part[i].after < after) {
        i++;
    }
    if (i == lineage->part_count || lineage->part[i].after > after) {
        enum culm_status status = add_part(lineage, after, lineage->part[i - 1].config, error);
        if (status != CULM_OK) {
            return status;
        }
        const struct culm_lineage_part made = lineage->part[lineage->part_count - 1];
        memmove(&lineage->part[i + 1], &lineage->part[i],
                (lineage->part_count - 1 - i) * sizeof *lineage->part);
        lineage->part[i] = made;
    }
    *ret_index = i;
    return CULM_OK;
}

enum culm_status culm_lineage_go_on(struct culm_lineage *lineage, int64_t after, const char *was,
                                    const struct culm_lineage_change *change,
                                    struct culm_error *error) {
    size_t first;
    enum culm_status status = lineage->part_count == 0 ? add_part(lineage, 0, was, error) : CULM_OK;
    if (status != CULM_OK || (status = split(lineage, after, &first, error))) {
        return status;
    }
    for (size_t i = first; i < lineage->part_count; i++) {
        char *now;
        status = change->apply(change->ctx, lineage->part[i].config, &now, error);
        if (status != CULM_OK) {
            return status;
        }
        free(lineage->part[i].config);
        lineage->part[i].config = now;
    }
    for (size_t i = lineage->part_count - 1; i > 0; i--) {
        if (strcmp(lineage->part[i].config, lineage->part[i - 1].config) == 0) {
            drop(lineage, i);
        }
    }
    if (lineage->part_count == 1) { /* all of it is as the one configuration says */
        drop(lineage, 0);
    }
    return CULM_OK;
}

static bool has_part(const struct culm_lineage *lineage, const struct culm_lineage_part *part) {
    for (size_t i = 0; i < lineage->part_count; i++) {
        if (lineage->part[i].after == part->after &&
            strcmp(lineage->part[i].config, part->config) == 0) {
            return true;
        }
    }
    return false;
}

bool culm_lineage_noted(const struct culm_lineage *lineage, int64_t after, const char *why) {
    for (size_t i = 0; i < lineage->note_count; i++) {
        if (lineage->note[i].after == after && strcmp(lineage->note[i].why, why) == 0) {
            return true;
        }
    }
    return false;
}

void culm_lineage_forget(struct culm_lineage *lineage, int64_t after, const char *why) {
    size_t kept = 0;
    for (size_t i = 0; i < lineage->note_count; i++) {
        if (lineage->note[i].after != after || strcmp(lineage->note[i].why, why) != 0) {
            lineage->note[kept++] = lineage->note[i];
        }
    }
    lineage->note_count = kept;
}

bool culm_lineage_covers(const struct culm_lineage *lineage, const struct culm_lineage *done,
                         int64_t step) {
    bool all = true;
    for (size_t i = 0; i < done->part_count && all; i++) {
        all = done->part[i].after >= step || has_part(lineage, &done->part[i]);
    }
    for (size_t i = 0; i < done->note_count && all; i++) {
        all = done->note[i].after >= step ||
              culm_lineage_noted(lineage, done->note[i].after, done->note[i].why);
    }
    return all;
}
