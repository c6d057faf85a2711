/* Which layers to try next. See gemel.h. */
#include "merge/gemel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODELS_MAX 64
#define MANY_MODELS 4 /* from this many on, half of the models are left out if all fail */

static uint64_t bit(int32_t model) { return (uint64_t)1 << model; }
static int32_t size_of(uint64_t set) { return __builtin_popcountll(set); }
static int64_t copies(uint64_t set) { return set ? size_of(set) - 1 : 0; }

static uint64_t models_of(const struct culm_instance *instance) {
    uint64_t set = 0;
    for (int32_t i = 0; i < instance->count; i++) {
        set |= bit(instance->member[i].model);
    }
    return set;
}

/* --- the next group --- */

/* The end of the group that position `at` is in. */
static int32_t group_end(const struct culm_gemel *gemel, int32_t at) {
    for (int32_t g = 0; g < gemel->groups->count; g++) {
        const struct culm_match_group *group = &gemel->groups->group[g];
        if (at >= group->first && at < group->first + group->count) {
            return group->first + group->count;
        }
    }
    return gemel->groups->instances;
}

/* What the next group would save, ignoring what is confirmed. */
static int64_t next_promises(const struct culm_gemel *gemel) {
    int64_t bytes = 0;
    if (gemel->next < gemel->groups->instances) {
        for (int32_t at = gemel->next, end = group_end(gemel, at); at < end; at++) {
            const struct culm_instance *i = &gemel->match->instance[gemel->groups->order[at]];
            bytes += i->bytes * copies(models_of(i));
        }
    }
    return bytes;
}

static bool saves(const struct culm_gemel *gemel, int32_t instance, uint64_t models) {
    uint64_t confirmed = gemel->confirmed[instance];
    return copies(confirmed | models) > copies(confirmed);
}

static void move_on(struct culm_gemel *gemel) {
    gemel->trial_count = 0;
    while (gemel->trial_count == 0 && gemel->next < gemel->groups->instances) {
        for (int32_t end = group_end(gemel, gemel->next); gemel->next < end; gemel->next++) {
            int32_t instance = gemel->groups->order[gemel->next];
            uint64_t models = models_of(&gemel->match->instance[instance]);
            if (!gemel->fixed || saves(gemel, instance, models)) {
                gemel->trial[gemel->trial_count++] = (struct culm_gemel_item){instance, models};
            }
        }
    }
}

/* --- starting and asking --- */

enum culm_status culm_gemel_begin(struct culm_gemel *gemel, const struct culm_match *match,
                                  const struct culm_match_groups *groups, bool fixed,
                                  struct culm_error *error) {
    *gemel = (struct culm_gemel){.match = match, .groups = groups, .fixed = fixed};
    for (int32_t i = 0; i < match->count; i++) {
        for (int32_t m = 0; m < match->instance[i].count; m++) {
            if (match->instance[i].member[m].model >= MODELS_MAX) {
                return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                                      "merge: at most %d queries can be merged by this method",
                                      MODELS_MAX);
            }
        }
    }
    gemel->confirmed = calloc((size_t)match->count + 1, sizeof *gemel->confirmed);
    gemel->trial = calloc((size_t)match->count + 1, sizeof *gemel->trial);
    if (!gemel->confirmed || !gemel->trial) {
        return culm_error_set(error, CULM_ERR_MEMORY, "merge: out of memory");
    }
    move_on(gemel);
    return CULM_OK;
}

void culm_gemel_release(struct culm_gemel *gemel) {
    free(gemel->confirmed);
    free(gemel->trial);
    *gemel = (struct culm_gemel){0};
}

bool culm_gemel_over(const struct culm_gemel *gemel) { return gemel->trial_count == 0; }

uint64_t culm_gemel_shared(const struct culm_gemel *gemel, int32_t instance) {
    uint64_t set = gemel->confirmed[instance];
    for (int32_t t = 0; t < gemel->trial_count; t++) {
        set |= gemel->trial[t].instance == instance ? gemel->trial[t].models : 0;
    }
    return set;
}

/* `from`, and all models that share a layer with one of them. */
static uint64_t sharers(const struct culm_gemel *gemel, uint64_t from) {
    uint64_t set = from;
    for (int32_t i = 0; i < gemel->match->count; i++) {
        uint64_t shared = culm_gemel_shared(gemel, i);
        set |= shared & from ? shared : 0;
    }
    return set;
}

/* The published loop stops after one step: a model that shares only with models that were
 * themselves added is not trained with them. */
uint64_t culm_gemel_pool(const struct culm_gemel *gemel) {
    uint64_t set = 0;
    for (int32_t t = 0; t < gemel->trial_count; t++) {
        set |= gemel->trial[t].models;
    }
    uint64_t more = sharers(gemel, set);
    while (gemel->fixed && more != set) {
        set = more;
        more = sharers(gemel, set);
    }
    return more;
}

int64_t culm_gemel_worth(const struct culm_gemel *gemel, uint64_t set) {
    int64_t bytes = 0;
    for (int32_t t = 0; t < gemel->trial_count; t++) {
        const struct culm_gemel_item *item = &gemel->trial[t];
        uint64_t confirmed = gemel->confirmed[item->instance];
        int64_t more = copies(confirmed | (item->models & set)) - copies(confirmed);
        bytes += more * gemel->match->instance[item->instance].bytes;
    }
    return bytes;
}

uint64_t culm_gemel_sound(const struct culm_gemel *gemel, uint64_t met, uint64_t held) {
    const uint64_t pool = culm_gemel_pool(gemel) & ~held;
    for (uint64_t before = 0; gemel->fixed && before != met;) {
        before = met;
        for (int32_t i = 0; i < gemel->match->count; i++) {
            uint64_t confirmed = gemel->confirmed[i] & pool;
            met &= confirmed & ~met ? ~confirmed : ~(uint64_t)0;
        }
    }
    return met;
}

int64_t culm_gemel_saved(const struct culm_gemel *gemel) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < gemel->match->count; i++) {
        bytes += gemel->match->instance[i].bytes * copies(gemel->confirmed[i]);
    }
    return bytes;
}

/* --- results --- */

static void confirm(struct culm_gemel *gemel, uint64_t met) {
    for (int32_t t = 0; t < gemel->trial_count && size_of(met) > 1; t++) {
        const struct culm_gemel_item *item = &gemel->trial[t];
        if (!gemel->fixed || saves(gemel, item->instance, item->models & met)) {
            gemel->confirmed[item->instance] |= item->models & met;
        }
    }
}

/* Narrows the trial to the models that failed; returns how many items are left. */
static int32_t keep_failures(struct culm_gemel *gemel, uint64_t met) {
    int32_t count = 0;
    for (int32_t t = 0; t < gemel->trial_count; t++) {
        struct culm_gemel_item item = gemel->trial[t];
        item.models &= ~met;
        if (gemel->fixed ? saves(gemel, item.instance, item.models) : item.models != 0) {
            gemel->trial[count++] = item;
        }
    }
    return count;
}

/* The half of the models nearest to their targets; 0: too few models. */
static uint64_t nearer_half(const struct culm_gemel *gemel, const int32_t *nearest,
                            int32_t nearest_count) {
    uint64_t all = 0, half = 0;
    for (int32_t t = 0; t < gemel->trial_count; t++) {
        all |= gemel->trial[t].models;
    }
    if (size_of(all) < MANY_MODELS) {
        return 0;
    }
    for (int32_t i = 0; i < nearest_count && 2 * size_of(half) < size_of(all); i++) {
        half |= bit(nearest[i]) & all;
    }
    return half;
}

static int64_t single_bytes(const struct culm_gemel *gemel, int32_t count) {
    int64_t bytes = 0;
    for (int32_t t = 0; t < count; t++) {
        bytes += gemel->match->instance[gemel->trial[t].instance].bytes;
    }
    return bytes;
}

void culm_gemel_tried(struct culm_gemel *gemel, uint64_t met, const int32_t *nearest,
                      int32_t nearest_count) {
    gemel->attempts++;
    confirm(gemel, met);
    int32_t failures = keep_failures(gemel, met), keep = failures / 2;
    gemel->trial_count = failures;
    uint64_t half =
        gemel->fixed && !met && nearest ? nearer_half(gemel, nearest, nearest_count) : 0;
    if (half && culm_gemel_worth(gemel, half) >= next_promises(gemel)) {
        for (int32_t t = 0; t < failures; t++) {
            gemel->trial[t].models &= half;
        }
        gemel->trial_count = keep_failures(gemel, 0);
        return;
    }
    if (keep > 0 && single_bytes(gemel, keep) >= next_promises(gemel)) {
        gemel->trial_count = keep;
        gemel->next -= failures - keep;
    } else {
        move_on(gemel);
    }
}

/* --- as text --- */

#define FORMAT "culm-gemel-1"

enum culm_status culm_gemel_write(const struct culm_gemel *gemel, struct culm_buf *out,
                                  struct culm_error *error) {
    culm_buf_printf(out, FORMAT " %d %" PRId32 " %" PRId32 " %" PRId32 " %" PRId32 "\n",
                    gemel->fixed, gemel->match->count, gemel->next, gemel->attempts,
                    gemel->trial_count);
    for (int32_t i = 0; i < gemel->match->count; i++) {
        culm_buf_printf(out, "%" PRIx64 "\n", gemel->confirmed[i]);
    }
    for (int32_t t = 0; t < gemel->trial_count; t++) {
        culm_buf_printf(out, "%" PRId32 " %" PRIx64 "\n", gemel->trial[t].instance,
                        gemel->trial[t].models);
    }
    return out->failed ? culm_error_set(error, CULM_ERR_MEMORY, "merge: out of memory") : CULM_OK;
}

/* Parses the next line as `count` numbers: decimal, but hexadecimal from index `hex_from` on.
 * False: the line is not that. */
static bool numbers(const char **text, const char *end, int32_t count, int hex_from,
                    uint64_t *ret) {
    const char *line = *text, *stop = memchr(line, '\n', (size_t)(end - line));
    char copy[128];
    if (!stop || (size_t)(stop - line) >= sizeof copy) {
        return false;
    }
    memcpy(copy, line, (size_t)(stop - line));
    copy[stop - line] = '\0';
    *text = stop + 1;
    char *at = copy;
    for (int32_t i = 0; i < count; i++) {
        char *after;
        at += i > 0 && *at == ' ';
        if (!*at || *at == ' ' || *at == '-' || *at == '+') {
            return false;
        }
        ret[i] = strtoull(at, &after, i >= hex_from ? 16 : 10);
        if (after == at) {
            return false;
        }
        at = after;
    }
    return *at == '\0';
}

static enum culm_status altered(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT,
                          "merge: the saved state of the search belongs to another workload, or "
                          "was altered; merge into another folder");
}

/* Masks may only name models that have a layer in the instance. */
static bool read_items(struct culm_gemel *gemel, const char *text, const char *end) {
    uint64_t number[5];
    for (int32_t i = 0; i < gemel->match->count; i++) {
        if (!numbers(&text, end, 1, 0, number) ||
            number[0] & ~models_of(&gemel->match->instance[i])) {
            return false;
        }
        gemel->confirmed[i] = number[0];
    }
    for (int32_t t = 0; t < gemel->trial_count; t++) {
        if (!numbers(&text, end, 2, 1, number) || number[0] >= (uint64_t)gemel->match->count ||
            !number[1] || number[1] & ~models_of(&gemel->match->instance[number[0]])) {
            return false;
        }
        gemel->trial[t] = (struct culm_gemel_item){(int32_t)number[0], number[1]};
    }
    return text == end;
}

enum culm_status culm_gemel_read(struct culm_gemel *gemel, const char *text, size_t len,
                                 struct culm_error *error) {
    const size_t prefix = sizeof FORMAT; /* counts the space in place of the NUL */
    const char *at = text + prefix, *end = text + len;
    uint64_t number[5];
    const uint64_t instances = (uint64_t)gemel->groups->instances;
    if (len <= prefix || memcmp(text, FORMAT " ", prefix) != 0 ||
        !numbers(&at, end, 5, 5, number) || number[0] != (uint64_t)gemel->fixed ||
        number[1] != (uint64_t)gemel->match->count || number[2] > instances ||
        number[3] > INT32_MAX / 2 || number[4] > instances) {
        return altered(error);
    }
    gemel->next = (int32_t)number[2];
    gemel->attempts = (int32_t)number[3];
    gemel->trial_count = (int32_t)number[4];
    if (!read_items(gemel, at, end)) {
        memset(gemel->confirmed, 0, (size_t)gemel->match->count * sizeof *gemel->confirmed);
        gemel->next = gemel->attempts = 0;
        move_on(gemel);
        return altered(error);
    }
    return CULM_OK;
}
