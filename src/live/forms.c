/* Which queries run merged and which plain. See forms.h. */
#include "live/forms.h"

#include "edge/choice.h"
#include "live/watched.h"

#include <stdlib.h>
#include <string.h>

bool culm_live_form_differs(const struct culm_live_form *form) {
    return form->count > 0 &&
           memcmp(form->merged, form->original, (size_t)form->count * sizeof *form->merged) != 0;
}

static void count_users(const struct culm_live_form *form, const int32_t *list, int32_t by,
                        int32_t *users) {
    for (int32_t p = 0; p < form->count; p++) {
        users[list[p]] += by;
    }
}

/* The bytes of sources that nobody uses but this list, each counted once. users[] is unchanged when
 * it returns. */
static int64_t bytes_alone(const struct culm_live_store *store, const struct culm_live_form *form,
                           const int32_t *list, int32_t *users) {
    int64_t bytes = 0;
    for (int32_t p = 0; p < form->count; p++) {
        bytes += users[list[p]]++ == 0 ? (int64_t)store->source[list[p]].bytes : 0;
    }
    count_users(form, list, -1, users);
    return bytes;
}

/* How many bytes it adds to run a merged query plain. users[sources]: how often each source is used
 * now; unchanged when it returns. */
static int64_t added_bytes(const struct culm_live_store *store, const struct culm_live_form *form,
                           int32_t *users) {
    count_users(form, form->merged, -1, users);
    int64_t bytes = bytes_alone(store, form, form->original, users) -
                    bytes_alone(store, form, form->merged, users);
    count_users(form, form->merged, 1, users);
    return bytes;
}

/* Sets from none to all queries: each adds the query that adds the fewest bytes. Returns how many
 * there are. */
static int32_t one_by_one(const struct culm_live_store *store, const struct culm_live_form *form,
                          int32_t queries, int32_t *users,
                          uint64_t ret_plain[CULM_EDGE_QUERIES_MAX + 1]) {
    int32_t count = 1;
    ret_plain[0] = 0;
    for (int32_t next = 0; next >= 0;) {
        int64_t fewest = 0;
        next = -1;
        for (int32_t q = 0; q < queries; q++) {
            if ((ret_plain[count - 1] >> q & 1) || !culm_live_form_differs(&form[q])) {
                continue;
            }
            int64_t bytes = added_bytes(store, &form[q], users);
            if (next < 0 || bytes < fewest) {
                next = q;
                fewest = bytes;
            }
        }
        if (next >= 0) {
            count_users(&form[next], form[next].merged, -1, users);
            count_users(&form[next], form[next].original, 1, users);
            ret_plain[count] = ret_plain[count - 1] | 1ull << next;
            count++;
        }
    }
    return count;
}

int32_t culm_live_form_sets(const struct culm_live_catalog *catalog,
                            const struct culm_live_store *store, const struct culm_live_form *form,
                            int32_t queries, uint64_t ret_plain[CULM_LIVE_FORMS_MAX]) {
    if (catalog->workload.edge.originals == CULM_EDGE_ORIGINALS_NEVER) {
        ret_plain[0] = 0;
        return 1;
    }
    uint64_t plain[CULM_EDGE_QUERIES_MAX + 1];
    int32_t *users = calloc((size_t)store->source_count + 1, sizeof *users);
    if (!users) {
        return -1;
    }
    for (int32_t q = 0; q < queries; q++) {
        count_users(&form[q], form[q].merged, 1, users);
    }
    int32_t all = one_by_one(store, form, queries, users, plain);
    free(users);
    int32_t count = all < CULM_LIVE_FORMS_MAX ? all : CULM_LIVE_FORMS_MAX;
    for (int32_t i = 0; i < count; i++) { /* evenly spaced, from all to none */
        ret_plain[i] = plain[count > 1 ? (all - 1) * (count - 1 - i) / (count - 1) : 0];
    }
    return count;
}

enum culm_status culm_live_forms_lay(const struct culm_live_catalog *catalog,
                                     enum culm_live_sharing sharing,
                                     const struct culm_package_round *round,
                                     struct culm_live_forms *forms, struct culm_error *error) {
    struct culm_live_form form[CULM_EDGE_QUERIES_MAX] = {0};
    int32_t *merged[CULM_EDGE_QUERIES_MAX] = {0}, **own = forms->own;
    int32_t queries = (int32_t)catalog->workload.query_count;
    *forms = (struct culm_live_forms){0};
    struct culm_live_store *store = &forms->store;
    enum culm_status status =
        culm_live_catalog_sources(catalog, sharing, round, 0, store, merged, error);
    status =
        status ? status
               : culm_live_catalog_sources(catalog, sharing, round, UINT64_MAX, store, own, error);
    for (int32_t q = 0; q < queries && status == CULM_OK; q++) {
        form[q] = (struct culm_live_form){merged[q], own[q], catalog->entry[q].part_count};
    }
    if (status == CULM_OK &&
        (forms->count = culm_live_form_sets(catalog, store, form, queries, forms->plain)) < 0) {
        forms->count = 0;
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a layout");
    }
    status = status ? status : culm_live_watched_units(catalog, merged, own, store, error);
    for (int32_t i = 0; i < forms->count && status == CULM_OK; i++) {
        int32_t *worn[CULM_EDGE_QUERIES_MAX];
        for (int32_t q = 0; q < queries; q++) {
            worn[q] = forms->plain[i] >> q & 1 ? own[q] : merged[q];
        }
        status = culm_live_watched_units(catalog, worn, own, store, error);
        status = status ? status
                        : culm_live_catalog_lay(catalog, sharing, round, forms->plain[i], store,
                                                &forms->laid[i], error);
    }
    for (int32_t q = 0; q < queries; q++) {
        free(merged[q]);
    }
    return status;
}

void culm_live_forms_release(struct culm_live_forms *forms) {
    for (int32_t i = 0; i < forms->count; i++) {
        culm_live_laid_free(forms->laid[i]);
    }
    for (int32_t q = 0; q < CULM_EDGE_QUERIES_MAX; q++) {
        free(forms->own[q]);
    }
    culm_live_laid_free(forms->watched);
    culm_live_store_release(&forms->store);
    *forms = (struct culm_live_forms){0};
}

struct culm_live_laid *culm_live_forms_merged(const struct culm_live_forms *forms) {
    return forms->laid[forms->count - 1];
}

enum culm_status culm_live_forms_choose(const struct culm_live_catalog *catalog,
                                        struct culm_live_forms *forms, int64_t frames,
                                        int32_t *ret_chosen, struct culm_edge_plan *ret_plan,
                                        struct culm_error *error) {
    const struct culm_edge_layout *layout[CULM_LIVE_FORMS_MAX];
    enum culm_status status = CULM_OK;
    for (int32_t i = 0; i < forms->count && status == CULM_OK; i++) {
        layout[i] = &forms->laid[i]->layout;
        status = culm_live_catalog_prefixes(catalog, forms->laid[i], true, error);
    }
    status = status ? status
                    : culm_live_catalog_choose(catalog, layout, forms->count, frames, NULL,
                                               ret_chosen, ret_plan, error);
    culm_live_laid_free(forms->watched);
    forms->watched = NULL;
    status = status ? status
                    : culm_live_watched_lay(catalog, forms->laid[*ret_chosen], forms->own,
                                            &forms->store, &forms->watched, error);
    if (status == CULM_OK && forms->watched) {
        int32_t only;
        layout[0] = &forms->watched->layout;
        status = culm_live_catalog_choose(catalog, layout, 1, frames, NULL, &only, ret_plan, error);
    }
    return status;
}
