/* Which settings a resumed run goes on with. See resume.h. */
#include "launch/resume.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT (CULM_CONFIG_SETTING | CULM_CONFIG_INPUT)

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- what it was given so far --- */

/* Of the checkpoint, or with NULL of the newest: nothing, if it cannot be opened. */
static enum culm_status recorded(const char *dir, const char *checkpoint, bool verify,
                                 struct culm_lineage *lineage, int64_t *ret_step,
                                 struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_checkpoint *open = NULL;
    culm_lineage_release(lineage);
    *ret_step = 0;
    if (!checkpoint && culm_checkpoint_latest(dir, verify, ret_step, path, NULL, NULL) == CULM_OK) {
        checkpoint = path;
    }
    if (!checkpoint || !*checkpoint || culm_checkpoint_open(checkpoint, false, &open, NULL)) {
        return CULM_OK;
    }
    const struct culm_checkpoint_info *info = culm_checkpoint_info_of(open);
    enum culm_status status =
        culm_lineage_read(json_object_get(info->progress, "lineage"), lineage, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "'%s'", checkpoint);
    }
    *ret_step = info->step;
    culm_checkpoint_close(open);
    return status;
}

/* What a later version has planned may mean what this one does not know. One that says no format, such as those of
 * graph networks, is of the first. */
static enum culm_status check_format(const json_t *plan, const char *path,
                                     struct culm_error *error) {
    const json_t *format = json_object_get(plan, "format");
    if (format && json_integer_value(format) != CULM_PLAN_FORMAT) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "'%s' is not of format %d, the only one known here; go on with the "
                              "version of culm that wrote it",
                              path, CULM_PLAN_FORMAT);
    }
    return CULM_OK;
}

enum culm_status culm_resume_lineage(const char *dir, const char *checkpoint,
                                     struct culm_lineage *ret_lineage, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_lineage planned = {0}, done = {0};
    int64_t step;
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", dir);
    if (status != CULM_OK) {
        return status;
    }
    json_t *plan = culm_json_load(path, NULL);
    status = check_format(plan, path, error);
    if (status != CULM_OK) {
        json_decref(plan);
        return status;
    }
    const bool known =
        plan && culm_lineage_read(json_object_get(plan, "lineage"), &planned, NULL) == CULM_OK;
    json_decref(plan);
    const char *asked = checkpoint && !*checkpoint && !known ? NULL : checkpoint;
    status = recorded(dir, asked, false, &done, &step, error);
    if (status == CULM_OK && known && !asked && !culm_lineage_covers(&planned, &done, step)) {
        /* a damaged one may be of a history that was given up: only a whole one contradicts */
        status = recorded(dir, asked, true, &done, &step, error);
    }
    const bool planned_counts = known && culm_lineage_covers(&planned, &done, step);
    if (status == CULM_OK) {
        *ret_lineage = planned_counts ? planned : done;
    }
    if (status != CULM_OK || planned_counts) {
        culm_lineage_release(&done);
    }
    if (status != CULM_OK || !planned_counts) {
        culm_lineage_release(&planned);
    }
    return status;
}

/* A configuration of the lineage; the caller's, to be given back to put. */
static enum culm_status take(const struct culm_config_table *table, const char *text,
                             void **ret_object, struct culm_error *error) {
    void *object = calloc(1, table->object_bytes);
    enum culm_status status =
        object ? culm_config_parse(table, text, strlen(text), "an earlier configuration of the run",
                                   NULL, 0, object, error)
               : no_memory(error);
    if (status != CULM_OK) {
        free(object);
        return status;
    }
    *ret_object = object;
    return CULM_OK;
}

static void put(const struct culm_config_table *table, void *object) {
    if (object) {
        culm_config_release(table, object);
    }
    free(object);
}

/* --- what goes on --- */

struct keeping {
    const struct culm_config_table *table;
    const struct culm_lineage *lineage;
    const void *last, *now;
    const char *const *given;
    size_t given_count;
    const char *steps_key;
    struct culm_resume_sets sets;
    enum culm_status status;
    struct culm_error *error;
};

/* By a set of the key, or of a section that holds it. */
static bool is_given(const struct keeping *k, const char *key) {
    for (size_t i = 0; i < k->given_count; i++) {
        size_t len = strcspn(k->given[i], "=");
        if (strncmp(k->given[i], key, len) == 0 && (!key[len] || key[len] == '.')) {
            return true;
        }
    }
    return false;
}

struct lookup {
    const char *key;
    bool differs;
};

static bool look(void *ctx, const struct culm_config_row *row,
                 const struct culm_config_difference *difference) {
    struct lookup *lookup = ctx;
    (void)row;
    lookup->differs = lookup->differs || strcmp(difference->key, lookup->key) == 0;
    return lookup->differs;
}

/* Whether the run once had what the configuration says of the key. */
static bool had(struct keeping *k, const char *key) {
    for (size_t i = 0; i < k->lineage->part_count && k->status == CULM_OK; i++) {
        struct lookup lookup = {key, false};
        void *earlier = NULL;
        k->status = take(k->table, k->lineage->part[i].config, &earlier, k->error);
        if (k->status == CULM_OK) {
            culm_config_differences(k->table, earlier, k->now, 0, look, &lookup);
            put(k->table, earlier);
        }
        if (k->status == CULM_OK && !lookup.differs) {
            return true;
        }
    }
    return false;
}

/* Adds "key=value", with the value that the object has, whole. */
static enum culm_status add_set(const struct culm_config_table *table, const void *object,
                                const char *key, struct culm_resume_sets *sets,
                                struct culm_error *error) {
    struct culm_buf value;
    char *set = NULL;
    culm_buf_init(&value, 4 * CULM_YAML_MAX_BYTES);
    bool there = sets->count < CULM_RESUME_SETS && culm_config_value(table, object, key, &value) &&
                 !value.failed &&
                 asprintf(&set, "%s=%.*s", key, (int)value.len, (const char *)value.data) >= 0;
    culm_buf_release(&value);
    if (!there) {
        return no_memory(error);
    }
    sets->set[sets->count++] = set;
    return CULM_OK;
}

/* What the run was given once, or was begun with, is kept in the place of what it had before that. */
static bool keep(void *ctx, const struct culm_config_row *row,
                 const struct culm_config_difference *d) {
    struct keeping *k = ctx;
    if (!(row->flags & KEPT) || is_given(k, d->key)) {
        return false;
    }
    if (had(k, d->key)) {
        k->status = k->status ? k->status : add_set(k->table, k->last, d->key, &k->sets, k->error);
        return k->status != CULM_OK;
    }
    if (k->status == CULM_OK && (row->flags & CULM_CONFIG_INPUT)) {
        return false; /* culm_resume_compare says whether it may */
    }
    if (k->status == CULM_OK && strcmp(d->key, k->steps_key) == 0) { /* it may be past that */
        k->status =
            culm_error_set(k->error, CULM_ERR_CONFIG,
                           "%s: the run has %s, this configuration %s; put it back, or give "
                           "--set %s=N, which may be more, and no less than are done",
                           d->key, d->a, d->b, d->key);
    } else if (k->status == CULM_OK) {
        k->status = culm_error_set(k->error, CULM_ERR_CONFIG,
                                   "%s: the run has %s, this configuration %s; give --set %s=%s to "
                                   "go on with that, or put it back",
                                   d->key, d->a, d->b, d->key, d->b);
    }
    return true;
}

enum culm_status culm_resume_settings(const struct culm_config_table *table,
                                      const struct culm_lineage *lineage, const void *before,
                                      const void *now, const char *const *given, size_t given_count,
                                      const char *steps_key, struct culm_resume_sets *ret_sets,
                                      struct culm_error *error) {
    struct keeping k = {.table = table,
                        .lineage = lineage,
                        .now = now,
                        .given = given,
                        .given_count = given_count,
                        .steps_key = steps_key,
                        .error = error};
    void *last = NULL;
    if (lineage->part_count > 0) {
        k.status = take(table, lineage->part[lineage->part_count - 1].config, &last, error);
    }
    if (k.status == CULM_OK) {
        k.last = last ? last : before;
        culm_config_differences(table, k.last, now, 0, keep, &k);
    }
    put(table, last);
    if (k.status != CULM_OK) {
        culm_resume_sets_release(&k.sets);
        return k.status;
    }
    *ret_sets = k.sets;
    return CULM_OK;
}

void culm_resume_sets_release(struct culm_resume_sets *sets) {
    for (size_t i = 0; i < sets->count; i++) {
        free(sets->set[i]);
    }
    *sets = (struct culm_resume_sets){0};
}

void culm_resume_sets_list(const struct culm_resume_sets *sets, char *ret_text, size_t size) {
    size_t len = 0;
    ret_text[0] = '\0';
    for (size_t i = 0; i < sets->count && len < size; i++) {
        int added = snprintf(ret_text + len, size - len, "%s%s", i ? ", " : "", sets->set[i]);
        len += added > 0 ? (size_t)added : 0;
    }
}

void culm_resume_sets_warning(const struct culm_resume_sets *sets, const char *dir,
                              const char *config, char ret_text[CULM_ERROR_MAX]) {
    char list[160];
    culm_resume_sets_list(sets, list, sizeof list);
    snprintf(ret_text, CULM_ERROR_MAX,
             "'%.120s' goes on with %s, as it was given before on --resume, whatever %.80s says; "
             "--set changes it",
             dir, list, config);
}

enum culm_status culm_resume_compare(const struct culm_config_table *table,
                                     const struct culm_lineage *lineage, const void *before,
                                     const void *now, bool accept_inputs,
                                     struct culm_error *error) {
    void *last = NULL;
    enum culm_status status = culm_config_resumable(table, before, now, KEPT, error);
    if (status != CULM_OK || accept_inputs) {
        return status;
    }
    if (lineage->part_count > 0) {
        status = take(table, lineage->part[lineage->part_count - 1].config, &last, error);
    }
    if (status == CULM_OK) {
        status =
            culm_config_resumable(table, last ? last : before, now, CULM_CONFIG_SETTING, error);
    }
    put(table, last);
    return status;
}

enum culm_status culm_resume_way_out(const struct culm_config_table *table, const void *before,
                                     const void *now, const char *dir, struct culm_error *error) {
    unsigned flags = CULM_CONFIG_RESUMABLE | CULM_CONFIG_SETTING | CULM_CONFIG_INPUT;
    struct culm_config_difference d;
    if (error && culm_config_differ(table, before, now, flags, &d) &&
        strncmp(d.key, "model.", 6) != 0) {
        const struct culm_error reason = *error;
        culm_error_set(error, reason.status,
                       "%.330s; another run can begin with its weights: --out NEW --set "
                       "model.init=%.100s",
                       reason.text, dir);
    }
    return error ? error->status : CULM_ERR_CONFIG;
}

/* --- what is new --- */

struct changes {
    const struct culm_config_table *table;
    const void *now;
    json_t *told; /* of settings */
    struct culm_resume_sets sets;
    int64_t after;
    enum culm_status status;
    struct culm_error *error;
};

static bool add_change(void *ctx, const struct culm_config_row *row,
                       const struct culm_config_difference *d) {
    struct changes *changes = ctx;
    if (row->flags & CULM_CONFIG_SETTING) {
        json_array_append_new(
            changes->told, json_pack("{s:s, s:s, s:s}", "key", d->key, "was", d->a, "now", d->b));
    }
    if (row->flags & KEPT) {
        changes->status =
            add_set(changes->table, changes->now, d->key, &changes->sets, changes->error);
    }
    return changes->status != CULM_OK;
}

/* A configuration of the run with the changes. */
static enum culm_status apply(void *ctx, const char *config, char **ret_config,
                              struct culm_error *error) {
    const struct changes *changes = ctx;
    void *object = calloc(1, changes->table->object_bytes);
    if (!object) {
        return no_memory(error);
    }
    enum culm_status status = culm_config_parse(
        changes->table, config, strlen(config), "an earlier configuration of the run",
        (const char *const *)changes->sets.set, changes->sets.count, object, error);
    if (status != CULM_OK) {
        free(object);
        culm_error_prefix(error, "what is set anew does not go with what is done again after %lld",
                          (long long)changes->after);
        return status;
    }
    char *text = culm_config_dump_text(changes->table, object);
    put(changes->table, object);
    if (!text) {
        return no_memory(error);
    }
    *ret_config = text;
    return CULM_OK;
}

enum culm_status culm_resume_go_on(const struct culm_config_table *table,
                                   struct culm_resume *resume, const char *before_text,
                                   const char *now_text, struct culm_error *error) {
    struct culm_lineage *lineage = &resume->lineage;
    const char *text =
        lineage->part_count > 0 ? lineage->part[lineage->part_count - 1].config : before_text;
    struct changes changes = {
        .table = table, .told = json_array(), .after = resume->step, .error = error};
    void *last = NULL, *now = NULL;
    enum culm_status status = changes.told ? CULM_OK : no_memory(error);
    if (status == CULM_OK) {
        status = take(table, text, &last, error);
    }
    if (status == CULM_OK) {
        status = take(table, now_text, &now, error);
    }
    if (status == CULM_OK) {
        changes.now = now;
        culm_config_differences(table, last, now, 0, add_change, &changes);
        status = changes.status;
    }
    put(table, last);
    put(table, now);
    if (status == CULM_OK && changes.sets.count > 0) {
        const struct culm_lineage_change change = {apply, &changes};
        status = culm_lineage_go_on(lineage, resume->step, before_text, &change, error);
    }
    if (status == CULM_OK && json_array_size(changes.told) > 0) {
        resume->settings = json_incref(changes.told);
    }
    culm_resume_sets_release(&changes.sets);
    json_decref(changes.told);
    return status;
}
