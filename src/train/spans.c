/* Settings by step. See spans.h. */
#include "train/spans.h"

#include <stdlib.h>
#include <string.h>

enum culm_status culm_train_spans_read(const struct culm_lineage *lineage,
                                       struct culm_train_spans *ret_spans,
                                       struct culm_error *error) {
    struct culm_train_spans spans = {.span = calloc(lineage->part_count + 1, sizeof *spans.span)};
    enum culm_status status =
        spans.span ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    for (size_t i = 0; i < lineage->part_count && status == CULM_OK; i++) {
        const struct culm_lineage_part *part = &lineage->part[i];
        struct culm_train_config config;
        status =
            culm_train_config_parse(part->config, strlen(part->config),
                                    "an earlier configuration of the run", NULL, 0, &config, error);
        if (status == CULM_OK) {
            spans.span[spans.count++] = (struct culm_train_span){part->after, config.steps,
                                                                 config.optimizer, config.schedule};
            culm_train_config_release(&config);
        }
    }
    if (status != CULM_OK) {
        culm_train_spans_release(&spans);
        return status;
    }
    *ret_spans = spans;
    return CULM_OK;
}

void culm_train_spans_release(struct culm_train_spans *spans) {
    free(spans->span);
    *spans = (struct culm_train_spans){0};
}

struct culm_train_span culm_train_span_of(const struct culm_train_config *config, int64_t step) {
    const struct culm_train_spans *spans = config->spans;
    for (size_t i = spans ? spans->count : 0; i > 0; i--) {
        if (spans->span[i - 1].after < step) {
            return spans->span[i - 1];
        }
    }
    return (struct culm_train_span){0, config->steps, config->optimizer, config->schedule};
}

double culm_train_span_lr(const struct culm_train_span *span, int64_t step) {
    const struct culm_schedule schedule = {
        .kind = span->schedule.name,
        .lr = span->optimizer.lr,
        .min_lr = span->schedule.min_lr,
        .warmup = span->schedule.warmup,
        .steps = span->steps,
        .every = span->schedule.every,
        .gamma = span->schedule.gamma,
    };
    return culm_schedule_lr(&schedule, step);
}

/* --- whether a change has changed anything --- */

static bool same(const struct culm_config_table *table, const void *a, const void *b) {
    struct culm_config_difference difference;
    return !culm_config_differ(table, a, b, 0, &difference);
}

/* Rates that do not depend on how many steps there are, up to step `last`. */
static bool steps_matter(const struct culm_train_span *span, int64_t last) {
    bool looks =
        span->schedule.name == CULM_SCHEDULE_COSINE || span->schedule.name == CULM_SCHEDULE_LINEAR;
    return looks && last > span->schedule.warmup;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

bool culm_train_spans_exact(const struct culm_train_config *config, const char **ret_why) {
    const struct culm_train_spans *spans = config->spans;
    size_t count = spans ? spans->count : 0;
    while (count > 1 && spans->span[count - 1].after >= config->steps) { /* no step has it */
        count--;
    }
    for (size_t i = 0; i < count; i++) {
        const struct culm_train_span *span = &spans->span[i], *last = &spans->span[count - 1];
        const int64_t to =
            i + 1 < spans->count ? least(spans->span[i + 1].after, config->steps) : config->steps;
        const char *why = NULL;
        if (!same(&culm_optimizer_config_table, &span->optimizer, &last->optimizer)) {
            why = "optimizer";
        } else if (!same(&culm_schedule_config_table, &span->schedule, &last->schedule)) {
            why = "schedule";
        } else if (span->steps != config->steps && steps_matter(span, to)) {
            why = "steps";
        }
        if (why) {
            *ret_why = why;
            return false;
        }
    }
    return true;
}
