/* Which queries are looked at on their own weights: whoever adds fewest bytes first, whatever uses a tensor, and however often. */
#include "live/forms.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define QUERIES (CULM_LIVE_FORMS_MAX - 1) /* so that every set is told */
#define SOURCES 12
#define PARTS 4

struct world {
    struct culm_live_catalog catalog;
    struct culm_live_source source[SOURCES];
    struct culm_live_store store;
    int32_t merged[QUERIES][PARTS], original[QUERIES][PARTS];
    struct culm_live_form form[QUERIES];
    uint64_t plain[CULM_LIVE_FORMS_MAX];
};

static void begin(struct world *w) {
    memset(w, 0, sizeof *w);
    w->store = (struct culm_live_store){.source = w->source, .source_count = SOURCES};
    for (int32_t q = 0; q < QUERIES; q++) {
        w->form[q] = (struct culm_live_form){w->merged[q], w->original[q], PARTS};
    }
    for (int32_t s = 0; s < SOURCES; s++) {
        w->source[s].bytes = 100;
    }
}

static int32_t sets(struct world *w, int32_t queries) {
    return culm_live_form_sets(&w->catalog, &w->store, w->form, queries, w->plain);
}

/* Two layers of a model have one tensor of 100 bytes; another model has one of 150. */
static void used_twice(void **state) {
    struct world w;
    (void)state;
    begin(&w);
    w.form[0].count = w.form[1].count = 2;
    memcpy(w.merged, (int32_t[2][PARTS]){{0, 1}, {0, 1}}, sizeof(int32_t[2][PARTS]));
    memcpy(w.original, (int32_t[2][PARTS]){{2, 2}, {3, 1}}, sizeof(int32_t[2][PARTS]));
    w.source[3].bytes = 150;
    assert_int_equal(sets(&w, 2), 3);
    assert_int_equal(w.plain[0], 3);
    assert_int_equal(w.plain[1], 1); /* the first one: 100 more, not 200 */
    assert_int_equal(w.plain[2], 0);
    /* What goes, and has two uses as well, gives back its bytes once: 150 and 100 more, less 80. */
    memcpy(w.merged, (int32_t[2][PARTS]){{4, 4}, {0, 1}}, sizeof(int32_t[2][PARTS]));
    memcpy(w.original, (int32_t[2][PARTS]){{3, 3}, {2, 1}}, sizeof(int32_t[2][PARTS]));
    w.source[4].bytes = 80;
    w.source[0].bytes = 10;
    assert_int_equal(sets(&w, 2), 3);
    assert_int_equal(w.plain[1], 1); /* 70, and the other one 90 */
    w.source[4].bytes = 50;
    assert_int_equal(sets(&w, 2), 3);
    assert_int_equal(w.plain[1], 2); /* 100: not 50, as if both uses gave back 50 */
}

static int64_t bytes_of(const struct world *w, uint64_t plain) {
    bool used[SOURCES] = {false};
    int64_t bytes = 0;
    for (int32_t q = 0; q < QUERIES; q++) {
        for (int32_t p = 0; p < PARTS; p++) {
            used[plain >> q & 1 ? w->original[q][p] : w->merged[q][p]] = true;
        }
    }
    for (int32_t s = 0; s < SOURCES; s++) {
        bytes += used[s] ? (int64_t)w->source[s].bytes : 0;
    }
    return bytes;
}

/* Lists of whatever tensors: each set is the one before it and whoever adds fewest bytes, all counted anew. */
static void as_counted_anew(void **state) {
    uint64_t random = 3;
    (void)state;
    for (int run = 0; run < 2000; run++) {
        struct world w;
        uint64_t wanted = 0, all = 0;
        begin(&w);
        for (int32_t s = 0; s < SOURCES; s++) {
            w.source[s].bytes = 1 + culm_rng_below(&random, 1000);
        }
        for (int32_t q = 0; q < QUERIES; q++) {
            for (int32_t p = 0; p < PARTS; p++) {
                w.merged[q][p] = (int32_t)culm_rng_below(&random, SOURCES);
                w.original[q][p] = culm_rng_below(&random, 2)
                                       ? w.merged[q][p]
                                       : (int32_t)culm_rng_below(&random, SOURCES);
            }
            all |= culm_live_form_differs(&w.form[q]) ? 1ull << q : 0;
        }
        const int32_t count = sets(&w, QUERIES);
        assert_int_equal(w.plain[count - 1], 0);
        assert_int_equal(w.plain[0], all);
        for (int32_t i = count - 2; i >= 0; i--) {
            int32_t next = -1;
            for (int32_t q = 0; q < QUERIES; q++) {
                if ((all & ~wanted) >> q & 1 &&
                    (next < 0 ||
                     bytes_of(&w, wanted | 1ull << q) < bytes_of(&w, wanted | 1ull << next))) {
                    next = q;
                }
            }
            wanted |= 1ull << next;
            assert_int_equal(w.plain[i], wanted);
        }
    }
}

static void never(void **state) {
    struct world w;
    (void)state;
    begin(&w);
    w.original[0][0] = 1;
    w.catalog.workload.edge.originals = CULM_EDGE_ORIGINALS_NEVER;
    assert_int_equal(sets(&w, QUERIES), 1);
    assert_int_equal(w.plain[0], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(used_twice),
                                       cmocka_unit_test(as_counted_anew), cmocka_unit_test(never)};
    return cmocka_run_group_tests_name("live/forms", tests, NULL, NULL);
}
