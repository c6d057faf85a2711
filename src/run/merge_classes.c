/* What merging takes away of a detector, class by class, on frames that it has not seen. */
#include "run/merge_internal.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum culm_status merging_tally_take(const struct culm_judge *judge, struct merging_tally *tally,
                                    struct culm_error *error) {
    const int32_t count = culm_accuracy_classes(judge->accuracy);
    struct culm_accuracy_count *of = calloc((size_t)count + 1, sizeof *of);
    if (!of) {
        return merging_no_memory(error);
    }
    for (int32_t c = 0; c < count; c++) {
        of[c] = culm_accuracy_count(judge->accuracy, c);
    }
    free(tally->of);
    *tally = (struct merging_tally){of, count};
    return CULM_OK;
}

static struct culm_accuracy_count of_class(const struct merging_tally *tally, int32_t c) {
    return c < tally->count ? tally->of[c] : (struct culm_accuracy_count){0};
}

/* Adds the class to the list of those that are lost, as far as there is room. */
static void add_lost(char *text, size_t size, const char *name, int64_t wanted) {
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s'%.60s' (wanted %lld times)", used ? ", " : "", name,
             (long long)wanted);
}

void merging_tally_tell(struct culm_merging *m, size_t q, const struct merging_tally *was,
                        const struct merging_tally *is) {
    const struct culm_vision_model *model = m->models[m->in.model_of[q]]->vision;
    const int32_t classes = was->count > is->count ? was->count : is->count;
    const char *query = m->workload.queries[q].name;
    char lost[CULM_ERROR_MAX - 160] = "", text[CULM_ERROR_MAX + 64], own[32];
    json_t *list = json_array();
    struct culm_accuracy_count all = {0}, before = {0};
    for (int32_t c = 0; c < classes; c++) {
        const struct culm_accuracy_count a = of_class(was, c), b = of_class(is, c);
        const char *name = culm_vision_class_name(model, c, own);
        all = (struct culm_accuracy_count){all.wanted + b.wanted, all.told + b.told,
                                           all.right + b.right};
        before = (struct culm_accuracy_count){0, before.told + a.told, before.right + a.right};
        if (b.wanted + a.told + b.told == 0) {
            continue;
        }
        json_array_append_new(
            list, json_pack("{s:i, s:o, s:I, s:I, s:I, s:I, s:I, s:b}", "class", (int)c, "name",
                            culm_json_text(name), "wanted", (json_int_t)b.wanted, "right",
                            (json_int_t)b.right, "told", (json_int_t)b.told, "original_right",
                            (json_int_t)a.right, "original_told", (json_int_t)a.told, "judged",
                            b.wanted >= CULM_ACCURACY_JUDGED));
        if (a.right > 0 && b.right == 0) {
            add_lost(lost, sizeof lost, name, b.wanted);
        }
    }
    merging_event(m, "classes",
                  json_pack("{s:o, s:f, s:I, s:I, s:I, s:I, s:I, s:o}", "query",
                            culm_json_text(query), "score", m->workload.queries[q].score, "wanted",
                            (json_int_t)all.wanted, "right", (json_int_t)all.right, "told",
                            (json_int_t)all.told, "original_right", (json_int_t)before.right,
                            "original_told", (json_int_t)before.told, "classes", list));
    if (lost[0]) {
        snprintf(text, sizeof text,
                 "query '%.100s': after merging it finds none of these classes any more, in frames "
                 "that merging has not seen: %s",
                 query, lost);
        merging_warn(m, text);
    }
}
