/* Whether weights are those of a model, and what is said of them. See weights.h. */
#include "store/weights_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED 3 /* of a list; the rest is counted */

/* A list of names that is told: the first few, and how many. */
struct told {
    size_t count;
    const char *name[NAMED];
};

static void add(struct told *told, const char *name) {
    if (told->count < NAMED) {
        told->name[told->count] = name;
    }
    told->count++;
}

/* "'a', 'b', 'c' and 9 more" */
static const char *names_of(const struct told *told, char text[256]) {
    size_t used = 0, named = told->count < NAMED ? told->count : NAMED;
    text[0] = '\0';
    for (size_t i = 0; i < named; i++) {
        used +=
            (size_t)snprintf(text + used, 256 - used, "%s'%.60s'", i ? ", " : "", told->name[i]);
    }
    if (told->count > named) {
        snprintf(text + used, 256 - used, " and %zu more", told->count - named);
    }
    return text;
}

static void use(const struct culm_weights *weights, const struct culm_weights_need *need,
                size_t count, bool *used) {
    for (size_t i = 0; i < count; i++) {
        const struct culm_safetensors_entry *entry = culm_weights_find(weights, need[i].name);
        if (entry) {
            used[weights_index(weights, entry)] = true;
        }
    }
}

struct idle {
    struct told none; /* that have no place */
    size_t beside[WEIGHTS_BESIDE_COUNT];
};

static enum culm_status find_idle(const struct culm_weights *weights, const bool *used,
                                  struct idle *ret_idle, struct culm_error *error) {
    struct idle idle = {0};
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < weights->count && status == CULM_OK; i++) {
        enum weights_beside beside = WEIGHTS_NOTHING;
        if (used[i]) {
            continue;
        }
        status = weights_find_beside(weights, used, i, &beside, error);
        idle.beside[beside]++;
        if (beside == WEIGHTS_NOTHING) {
            add(&idle.none, weights->entry[i]->name);
        }
    }
    *ret_idle = idle;
    return status;
}

static enum culm_status idle_of(const struct culm_weights *weights,
                                const struct culm_weights_need *need, size_t count,
                                const struct culm_weights_need *place, size_t place_count,
                                struct idle *ret_idle, struct culm_error *error) {
    bool *used = calloc(weights->count + 1, sizeof *used);
    if (!used) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", weights->where.path);
    }
    use(weights, need, count, used);
    use(weights, place, place_count, used);
    enum culm_status status = find_idle(weights, used, ret_idle, error);
    free(used);
    return status;
}

enum culm_status culm_weights_idle(const struct culm_weights *weights,
                                   const struct culm_weights_need *need, size_t count,
                                   size_t *ret_idle, struct culm_error *error) {
    struct idle idle;
    enum culm_status status = idle_of(weights, need, count, NULL, 0, &idle, error);
    if (status == CULM_OK) {
        *ret_idle = idle.none.count;
    }
    return status;
}

/* --- what is needed --- */

struct found {
    size_t count;
    struct told missing, unfit;
    const struct culm_safetensors_entry *first; /* and the name by which it was found */
    const char *first_name;
};

static enum culm_status refuse_shape(const struct culm_weights *weights,
                                     const struct culm_safetensors_entry *entry,
                                     const struct culm_weights_need *need,
                                     const struct culm_weights_rules *rules,
                                     struct culm_error *error) {
    char have[CULM_SHAPE_TEXT_MAX], want[CULM_SHAPE_TEXT_MAX];
    culm_shape_text(entry->rank, entry->shape, have);
    culm_shape_text(need->rank, need->shape, want);
    if (!culm_safetensors_is_real(entry)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%s: '%.160s' has '%.80s' as %s; weights are read from F32, F16, "
                              "BF16 and F64: save it as one of them",
                              rules->what, weights->where.path, entry->name, entry->dtype);
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "%s: '%.160s' has '%.80s' as %s, the model needs %s; give weights "
                          "of this model%s%s%s",
                          rules->what, weights->where.path, entry->name, have, want,
                          rules->leave ? ", or " : "", rules->leave ? rules->leave : "",
                          rules->leave ? " to leave such out" : "");
}

static enum culm_status find_needed(const struct culm_weights *weights,
                                    const struct culm_weights_need *need, size_t count,
                                    const struct culm_weights_rules *rules, struct found *ret_found,
                                    struct culm_error *error) {
    struct found found = {0};
    for (size_t i = 0; i < count; i++) {
        const struct culm_safetensors_entry *entry = culm_weights_find(weights, need[i].name);
        bool fits = entry && culm_safetensors_fits(entry, need[i].rank, need[i].shape);
        if (entry && !fits && !rules->ignore) {
            return refuse_shape(weights, entry, &need[i], rules, error);
        }
        if (fits) {
            found.first = found.first ? found.first : entry;
            found.first_name = found.first_name ? found.first_name : need[i].name;
            found.count++;
        } else {
            add(entry ? &found.unfit : &found.missing, need[i].name);
        }
    }
    *ret_found = found;
    return CULM_OK;
}

static enum culm_status judge(const struct culm_weights *weights, const struct found *found,
                              const struct idle *idle, const struct culm_weights_need *need,
                              size_t count, const struct culm_weights_rules *rules,
                              struct culm_error *error) {
    char names[256];
    const char *path = weights->where.path;
    if (found->count == 0 && count > 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%s: '%.200s' has no parameter of this model (the first is '%.80s'); "
                              "is it of another architecture?",
                              rules->what, path, need[0].name);
    }
    if (rules->all && found->missing.count + found->unfit.count > 0) {
        const struct told *lack = found->missing.count ? &found->missing : &found->unfit;
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%s: '%.160s' lacks %zu of %zu parameters: %s; give weights of this "
                              "model",
                              rules->what, path, found->missing.count + found->unfit.count, count,
                              names_of(lack, names));
    }
    if (idle->none.count > 0 && !rules->ignore) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%s: '%.160s' has %zu tensor%s that the model has no place for: %s; "
                              "give weights of this model%s%s%s",
                              rules->what, path, idle->none.count, idle->none.count == 1 ? "" : "s",
                              names_of(&idle->none, names), rules->leave ? ", or " : "",
                              rules->leave ? rules->leave : "",
                              rules->leave ? " to leave such out" : "");
    }
    return CULM_OK;
}

/* --- what is told --- */

struct note {
    char text[CULM_WEIGHTS_NOTE_SIZE]; /* what does not fit is cut off */
    size_t used;
};

static void say(struct note *note, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct note *note, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (note->used < sizeof note->text) {
        note->used += (size_t)vsnprintf(note->text + note->used, sizeof note->text - note->used,
                                        format, args);
    }
    va_end(args);
}

static const char *ending(size_t count) { return count == 1 ? "" : "s"; }

/* "; " before all but the first thing that is said of the path. */
static const char *begin(struct note *note, const struct culm_weights *weights,
                         const struct culm_weights_rules *rules) {
    if (note->used == 0) {
        say(note, "%s '%.160s': ", rules->what, weights->where.path);
        return "";
    }
    return "; ";
}

static void say_missing(struct note *note, const struct found *found, size_t count,
                        const struct culm_weights_rules *rules) {
    char names[256];
    size_t rest = count - found->count;
    if (rest == 0) {
        return;
    }
    say(note, "%s has %zu of %zu parameters; the other %zu start%s from %s: %s", rules->what,
        found->count, count, rest, rest == 1 ? "s" : "", rules->source,
        names_of(&found->missing, names));
    if (found->unfit.count > 0) {
        say(note, "%sof another shape %s", found->missing.count ? ", and " : "",
            names_of(&found->unfit, names));
    }
}

static void say_idle(struct note *note, const struct culm_weights *weights, const struct idle *idle,
                     const struct culm_weights_rules *rules) {
    static const char *const beside[] = {[WEIGHTS_MASK] = "causal mask",
                                         [WEIGHTS_FILL] = "fill value of a mask",
                                         [WEIGHTS_NUMBERS] = "list of positions or segments",
                                         [WEIGHTS_COUNTER] = "counter of batches",
                                         [WEIGHTS_STATE] = "optimizer state",
                                         [WEIGHTS_COPY] = "copy of another tensor"};
    char names[256];
    bool first = true;
    if (idle->none.count > 0) {
        const char *join = begin(note, weights, rules);
        say(note, "%sleaves out %zu tensor%s that the model has no place for: %s", join,
            idle->none.count, ending(idle->none.count), names_of(&idle->none, names));
    }
    for (int i = WEIGHTS_NOTHING + 1; i < WEIGHTS_BESIDE_COUNT; i++) {
        if (idle->beside[i] > 0) {
            const char *join = first ? begin(note, weights, rules) : ", ";
            say(note, "%s%s%zu x %s", join, first ? "passes over " : "", idle->beside[i],
                beside[i]);
            first = false;
        }
    }
}

/* What was put in front of the model's names, or taken off: what is before the parts that both names
 * end with. */
static void say_names(struct note *note, const struct culm_weights *weights,
                      const struct found *found, const struct culm_weights_rules *rules) {
    const char *have = found->first->name, *want = found->first_name;
    size_t a = strlen(have), b = strlen(want), same = 0;
    for (size_t i = 1; i <= a && i <= b && have[a - i] == want[b - i]; i++) {
        bool begins = (i == a || have[a - i - 1] == '.') && (i == b || want[b - i - 1] == '.');
        same = begins ? i : same;
    }
    int extra = (int)(a - same), lacking = (int)(b - same);
    if (same == 0 || (extra == 0 && lacking == 0)) {
        return;
    }
    const char *join = begin(note, weights, rules);
    if (lacking == 0) {
        say(note, "%stakes '%.*s' off the names", join, extra, have);
    } else if (extra == 0) {
        say(note, "%sputs '%.*s' in front of the names", join, lacking, want);
    } else {
        say(note, "%sreads '%.*s' in front of the names as '%.*s'", join, extra, have, lacking,
            want);
    }
}

static void say_numbers(struct note *note, const struct culm_weights *weights,
                        const struct culm_weights_rules *rules) {
    static const char *const dtypes[][2] = {
        {"BF16", "exactly"}, {"F16", "exactly"}, {"F64", "rounding each number once"}};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        size_t count = 0;
        for (size_t i = 0; i < weights->count; i++) {
            count += strcmp(weights->entry[i]->dtype, dtypes[d][0]) == 0;
        }
        if (count > 0) {
            const char *join = begin(note, weights, rules);
            say(note, "%sconverts %zu tensor%s from %s to F32, %s", join, count, ending(count),
                dtypes[d][0], dtypes[d][1]);
        }
    }
}

static void describe(struct note *note, const struct culm_weights *weights, size_t count,
                     const struct found *found, const struct idle *idle,
                     const struct culm_weights_rules *rules) {
    say_missing(note, found, count, rules);
    if (weights->where.newest) {
        const char *join = begin(note, weights, rules);
        say(note, "%sis the newest checkpoint of a run that has not ended", join);
    }
    if (weights->where.warning[0]) {
        const char *join = begin(note, weights, rules);
        say(note, "%s%.200s", join, weights->where.warning);
    }
    say_idle(note, weights, idle, rules);
    if (weights->files > 1) {
        const char *join = begin(note, weights, rules);
        say(note, "%sreads %zu shards", join, weights->files);
    }
    if (found->first) {
        say_names(note, weights, found, rules);
    }
    say_numbers(note, weights, rules);
}

enum culm_status culm_weights_check(const struct culm_weights *weights,
                                    const struct culm_weights_need *need, size_t count,
                                    const struct culm_weights_need *place, size_t place_count,
                                    const struct culm_weights_rules *rules,
                                    char ret_note[CULM_WEIGHTS_NOTE_SIZE],
                                    struct culm_error *error) {
    struct found found;
    struct idle idle;
    struct note note = {.used = 0};
    enum culm_status status;
    if ((status = find_needed(weights, need, count, rules, &found, error)) ||
        (status = idle_of(weights, need, count, place, place_count, &idle, error)) ||
        (status = judge(weights, &found, &idle, need, count, rules, error))) {
        return status;
    }
    describe(&note, weights, count, &found, &idle, rules);
    memcpy(ret_note, note.text, sizeof note.text);
    return CULM_OK;
}
