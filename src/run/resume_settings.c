/* Which settings a resumed run goes on with. See resume.h. */
#include "run/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- what it was given so far --- */

enum culm_status culm_resume_lineage(const char *dir, struct culm_lineage *ret_lineage,
                                     struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_lineage lineage = {0};
    enum culm_status status = culm_path_format(path, error, "%s/plan.json", dir);
    if (status != CULM_OK) {
        return status;
    }
    json_t *plan = json_load_file(path, 0, NULL);
    bool known = plan && culm_lineage_read(json_object_get(plan, "lineage"), &lineage, NULL) == 0;
    json_decref(plan);
    struct culm_checkpoint *checkpoint = NULL;
    int64_t step;
    if (!known && culm_checkpoint_latest(dir, false, &step, path, NULL, NULL) == CULM_OK &&
        culm_checkpoint_open(path, false, &checkpoint, NULL) == CULM_OK) {
        const json_t *progress = culm_checkpoint_info(checkpoint)->progress;
        status = culm_lineage_read(json_object_get(progress, "lineage"), &lineage, error);
        if (status != CULM_OK) {
            culm_error_prefix(error, "'%s'", path);
        }
        culm_checkpoint_close(checkpoint);
    }
    if (status == CULM_OK) {
        *ret_lineage = lineage;
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
    const void *now;
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

static bool keep(void *ctx, const struct culm_config_row *row,
                 const struct culm_config_difference *d) {
    struct keeping *k = ctx;
    if (!(row->flags & CULM_CONFIG_SETTING) || is_given(k, d->key)) {
        return false;
    }
    if (had(k, d->key) && k->sets.count < CULM_RESUME_SETS) {
        char *set = NULL;
        if (asprintf(&set, "%s=%s", d->key, d->a) < 0) {
            k->status = no_memory(k->error);
            return true;
        }
        k->sets.set[k->sets.count++] = set;
        return false;
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
        culm_config_differences(table, last ? last : before, now, 0, keep, &k);
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

static bool add_change(void *ctx, const struct culm_config_row *row,
                       const struct culm_config_difference *d) {
    if (row->flags & CULM_CONFIG_SETTING) {
        json_array_append_new(
            ctx, json_pack("{s:s, s:s, s:s}", "key", d->key, "was", d->a, "now", d->b));
    }
    return false;
}

enum culm_status culm_resume_go_on(const struct culm_config_table *table,
                                   struct culm_resume *resume, const char *before_text,
                                   const char *now_text, struct culm_error *error) {
    struct culm_lineage *lineage = &resume->lineage;
    const char *text =
        lineage->part_count > 0 ? lineage->part[lineage->part_count - 1].config : before_text;
    void *last = NULL, *now = NULL;
    json_t *changed = json_array();
    enum culm_status status;
    if (!changed) {
        return no_memory(error);
    }
    if (!(status = take(table, text, &last, error)) &&
        !(status = take(table, now_text, &now, error))) {
        culm_config_differences(table, last, now, 0, add_change, changed);
    }
    put(table, last);
    put(table, now);
    if (status == CULM_OK && json_array_size(changed) > 0) {
        status = culm_lineage_go_on(lineage, resume->step, before_text, now_text, error);
        if (status == CULM_OK) {
            resume->settings = json_incref(changed);
        }
    }
    json_decref(changed);
    return status;
}
