/*
 * GEMEL's search against a plain simulation of it, on accuracies that are drawn from digests: what is
 * tried, in which order, and what is confirmed; written down and read back between any two attempts.
 */
#include "merge/gemel.h"

#include "base/rng.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODELS 6
#define INSTANCES 24

/* --- workloads --- */

struct world {
    uint64_t seed;
    struct culm_match match;
    struct culm_match_groups groups;
    int64_t strength[MODELS]; /* bytes of shared layers that a model bears */
};

static void world_init(struct world *world, uint64_t seed, bool released) {
    uint64_t random = seed;
    memset(world, 0, sizeof *world);
    world->seed = seed;
    world->match.instance = calloc(INSTANCES, sizeof *world->match.instance);
    world->match.count = 1 + (int32_t)culm_rng_below(&random, INSTANCES);
    for (int32_t i = 0; i < world->match.count; i++) {
        struct culm_instance *instance = &world->match.instance[i];
        int64_t kind = 1 + (int64_t)culm_rng_below(&random, 4);
        instance->signature =
            (struct culm_vision_signature){.in = kind, .out = kind, .kernel = {1, 1}, .groups = 1};
        instance->bytes = kind * kind * 4;
        instance->member = calloc(MODELS, sizeof *instance->member);
        uint64_t set = 0;
        while (__builtin_popcountll(set) < 2) {
            set = culm_rng_below(&random, 1U << MODELS);
            set = culm_rng_below(&random, 3) ? set : (1U << MODELS) - 1;
        }
        for (int32_t m = 0; m < MODELS; m++) {
            if (set >> m & 1) {
                instance->member[instance->count++] = (struct culm_member){m, i};
            }
        }
    }
    for (int32_t m = 0; m < MODELS; m++) {
        world->strength[m] = (int64_t)culm_rng_below(&random, 600);
    }
    assert_int_equal(culm_match_find_groups(&world->match, released, &world->groups, NULL),
                     CULM_OK);
}

static void world_release(struct world *world) {
    culm_match_groups_release(&world->groups);
    culm_match_release(&world->match);
}

/* A model answers well enough as long as what it shares is not too much; the more share a layer, the
 * worse. */
static uint64_t met_by(const struct world *world, uint64_t pool, const uint64_t *shared) {
    uint64_t met = 0;
    for (int32_t m = 0; m < MODELS; m++) {
        int64_t load = 0;
        for (int32_t i = 0; i < world->match.count; i++) {
            int32_t owners = __builtin_popcountll(shared[i]);
            bool harms = shared[i] >> m & 1 && owners > 1 &&
                         culm_rng_mix(world->seed + (uint64_t)i, (uint64_t)m) % 3;
            load += harms ? world->match.instance[i].bytes * (owners - 1) : 0;
        }
        met |= pool >> m & 1 && load <= world->strength[m] ? (uint64_t)1 << m : 0;
    }
    return met;
}

/* --- the published loop, plainly --- */

struct plain {
    bool shares[INSTANCES][MODELS]; /* confirmed */
    int32_t trial[INSTANCES];
    bool of[INSTANCES][MODELS]; /* whom trial[t] is for */
    int32_t count, cursor;
};

static bool has(const struct world *world, int32_t instance, int32_t model) {
    const struct culm_instance *i = &world->match.instance[instance];
    for (int32_t k = 0; k < i->count; k++) {
        if (i->member[k].model == model) {
            return true;
        }
    }
    return false;
}

/* The run of one kind and one set of models from `from` on. */
static int32_t run_end(const struct world *world, int32_t from) {
    int32_t to = from;
    for (; to < world->groups.instances; to++) {
        int32_t a = world->groups.order[from], b = world->groups.order[to];
        bool same = world->match.instance[a].signature.in == world->match.instance[b].signature.in;
        for (int32_t m = 0; m < MODELS; m++) {
            same = same && has(world, a, m) == has(world, b, m);
        }
        if (!same) {
            break;
        }
    }
    return to;
}

static void plain_next(struct plain *plain, const struct world *world) {
    plain->count = 0;
    if (plain->cursor < world->groups.instances) {
        for (int32_t end = run_end(world, plain->cursor); plain->cursor < end; plain->cursor++) {
            int32_t instance = world->groups.order[plain->cursor];
            plain->trial[plain->count] = instance;
            for (int32_t m = 0; m < MODELS; m++) {
                plain->of[plain->count][m] = has(world, instance, m);
            }
            plain->count++;
        }
    }
}

static void plain_config(const struct plain *plain, const struct world *world, uint64_t *ret_shared,
                         uint64_t *ret_pool) {
    uint64_t trial_models = 0;
    for (int32_t i = 0; i < world->match.count; i++) {
        ret_shared[i] = 0;
        for (int32_t m = 0; m < MODELS; m++) {
            ret_shared[i] |= plain->shares[i][m] ? 1U << m : 0;
        }
    }
    for (int32_t t = 0; t < plain->count; t++) {
        for (int32_t m = 0; m < MODELS; m++) {
            ret_shared[plain->trial[t]] |= plain->of[t][m] ? 1U << m : 0;
            trial_models |= plain->of[t][m] ? 1U << m : 0;
        }
    }
    *ret_pool = trial_models;
    for (int32_t i = 0; i < world->match.count; i++) {
        if (ret_shared[i] & trial_models) {
            *ret_pool |= ret_shared[i];
        }
    }
}

static void plain_tried(struct plain *plain, const struct world *world, uint64_t met) {
    int32_t failing = 0;
    int64_t kept_bytes = 0, promised = 0;
    for (int32_t t = 0; t < plain->count; t++) {
        bool fails = false;
        for (int32_t m = 0; m < MODELS; m++) {
            if (plain->of[t][m] && met >> m & 1) {
                plain->shares[plain->trial[t]][m] |= __builtin_popcountll(met) > 1;
            }
            plain->of[failing][m] = plain->of[t][m] && !(met >> m & 1);
            fails = fails || plain->of[failing][m];
        }
        plain->trial[failing] = plain->trial[t];
        failing += fails;
    }
    int32_t keep = failing / 2;
    for (int32_t t = 0; t < keep; t++) {
        kept_bytes += world->match.instance[plain->trial[t]].bytes;
    }
    if (plain->cursor < world->groups.instances) {
        for (int32_t at = plain->cursor, end = run_end(world, at); at < end; at++) {
            const struct culm_instance *i = &world->match.instance[world->groups.order[at]];
            promised += i->bytes * (i->count - 1);
        }
    }
    if (kept_bytes < promised || keep == 0) {
        plain_next(plain, world);
    } else {
        plain->cursor -= failing - keep;
        plain->count = keep;
    }
}

static void test_as_published(void **state) {
    (void)state;
    int64_t attempts = 0, saving = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct world world;
        struct culm_gemel gemel;
        struct plain *plain = calloc(1, sizeof *plain);
        world_init(&world, seed, seed % 2);
        assert_int_equal(culm_gemel_begin(&gemel, &world.match, &world.groups, false, NULL),
                         CULM_OK);
        plain_next(plain, &world);
        while (!culm_gemel_over(&gemel)) {
            uint64_t want[INSTANCES], shared[INSTANCES], pool;
            plain_config(plain, &world, want, &pool);
            for (int32_t i = 0; i < world.match.count; i++) {
                shared[i] = culm_gemel_shared(&gemel, i);
            }
            if (memcmp(want, shared, (size_t)world.match.count * sizeof *want) ||
                pool != culm_gemel_pool(&gemel)) {
                fail_msg("seed %" PRIu64 ", attempt %d: another attempt", seed, gemel.attempts);
            }
            uint64_t met = met_by(&world, pool, shared);
            assert_int_equal(culm_gemel_sound(&gemel, met, 0), met);
            culm_gemel_tried(&gemel, met, NULL, 0);
            plain_tried(plain, &world, met);
            assert_true(gemel.attempts < 1000);
        }
        assert_int_equal(plain->count, 0);
        attempts += gemel.attempts;
        saving += culm_gemel_saved(&gemel) > 0;
        culm_gemel_release(&gemel);
        world_release(&world);
        free(plain);
    }
    assert_true(attempts > 4000 && saving > 500);
}

/* --- without its defects --- */

/* What can be shipped of what was confirmed: a model that does not answer well enough goes back to its
 * own layers. */
static int64_t shipped(const struct world *world, const struct culm_gemel *gemel) {
    uint64_t shared[INSTANCES], all = (1U << MODELS) - 1, gone;
    memcpy(shared, gemel->confirmed, (size_t)world->match.count * sizeof *shared);
    while ((gone = all & ~met_by(world, all, shared)) != 0) {
        all &= ~gone;
        for (int32_t i = 0; i < world->match.count; i++) {
            shared[i] &= all;
        }
    }
    int64_t bytes = 0;
    for (int32_t i = 0; i < world->match.count; i++) {
        int32_t owners = __builtin_popcountll(shared[i]);
        bytes += owners > 1 ? world->match.instance[i].bytes * (owners - 1) : 0;
    }
    return bytes;
}

/* Those of `met` whose fellows can do with what is confirmed if these alone succeed. */
static uint64_t sound(const struct world *world, const struct culm_gemel *gemel, uint64_t met) {
    for (uint64_t before = ~met; before != met;) {
        uint64_t shared[INSTANCES];
        before = met;
        for (int32_t i = 0; i < world->match.count; i++) {
            shared[i] = gemel->confirmed[i];
        }
        for (int32_t t = 0; t < gemel->trial_count && __builtin_popcountll(met) > 1; t++) {
            shared[gemel->trial[t].instance] |= gemel->trial[t].models & met;
        }
        uint64_t held = met_by(world, culm_gemel_pool(gemel), shared) & ~met;
        met = culm_gemel_sound(gemel, met, held);
    }
    return met;
}

/* What any such search must keep to: it ends; each attempt would save something; models that share what
 * is confirmed are trained together and succeed together; what is confirmed is met by all who share it. */
static void test_fixed(void **state) {
    (void)state;
    int64_t better = 0, worse = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct world world;
        struct culm_gemel gemel, published;
        int64_t saved[2];
        world_init(&world, seed, false);
        assert_int_equal(culm_gemel_begin(&gemel, &world.match, &world.groups, true, NULL),
                         CULM_OK);
        while (!culm_gemel_over(&gemel)) {
            uint64_t shared[INSTANCES], pool = culm_gemel_pool(&gemel);
            int32_t nearest[MODELS] = {0, 1, 2, 3, 4, 5};
            assert_true(culm_gemel_worth(&gemel, ~(uint64_t)0) > 0);
            for (int32_t i = 0; i < world.match.count; i++) {
                shared[i] = culm_gemel_shared(&gemel, i);
                assert_true(!(shared[i] & pool) || !(shared[i] & ~pool));
            }
            uint64_t met = sound(&world, &gemel, met_by(&world, pool, shared));
            int64_t before = culm_gemel_saved(&gemel), worth = culm_gemel_worth(&gemel, met);
            culm_gemel_tried(&gemel, met, nearest, MODELS);
            assert_int_equal(culm_gemel_saved(&gemel),
                             before + (__builtin_popcountll(met) > 1 ? worth : 0));
            assert_true(gemel.attempts < 1000);
        }
        for (int32_t i = 0; i < world.match.count; i++) {
            assert_true(__builtin_popcountll(gemel.confirmed[i]) != 1);
        }
        assert_int_equal(shipped(&world, &gemel), culm_gemel_saved(&gemel));
        saved[1] = shipped(&world, &gemel);
        culm_gemel_release(&gemel);
        struct culm_match_groups released;
        assert_int_equal(culm_match_find_groups(&world.match, true, &released, NULL), CULM_OK);
        assert_int_equal(culm_gemel_begin(&published, &world.match, &released, false, NULL),
                         CULM_OK);
        while (!culm_gemel_over(&published)) {
            uint64_t shared[INSTANCES];
            for (int32_t i = 0; i < world.match.count; i++) {
                shared[i] = culm_gemel_shared(&published, i);
            }
            culm_gemel_tried(&published, met_by(&world, culm_gemel_pool(&published), shared), NULL,
                             0);
        }
        saved[0] = shipped(&world, &published);
        better += saved[1] > saved[0];
        worse += saved[1] < saved[0];
        culm_gemel_release(&published);
        culm_match_groups_release(&released);
        world_release(&world);
    }
    if (!(better > 2 * worse)) {
        fail_msg("it saves more than the published one %" PRId64 " times, and less %" PRId64,
                 better, worse);
    }
}

/* --- as text --- */

static void test_goes_on_from_text(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct world world;
        struct culm_gemel gemel, other;
        world_init(&world, seed, false);
        assert_int_equal(culm_gemel_begin(&gemel, &world.match, &world.groups, seed % 2, NULL),
                         CULM_OK);
        while (true) {
            struct culm_buf text, again;
            culm_buf_init(&text, 1 << 16);
            culm_buf_init(&again, 1 << 16);
            assert_int_equal(culm_gemel_write(&gemel, &text, NULL), CULM_OK);
            assert_int_equal(culm_gemel_begin(&other, &world.match, &world.groups, seed % 2, NULL),
                             CULM_OK);
            assert_int_equal(culm_gemel_read(&other, (const char *)text.data, text.len, NULL),
                             CULM_OK);
            assert_int_equal(culm_gemel_write(&other, &again, NULL), CULM_OK);
            assert_int_equal(text.len, again.len);
            assert_memory_equal(text.data, again.data, text.len);
            culm_buf_release(&text);
            culm_buf_release(&again);
            culm_gemel_release(&gemel);
            gemel = other; /* and on with the one that was read */
            if (culm_gemel_over(&gemel)) {
                break;
            }
            uint64_t shared[INSTANCES];
            for (int32_t i = 0; i < world.match.count; i++) {
                shared[i] = culm_gemel_shared(&gemel, i);
            }
            uint64_t met = met_by(&world, culm_gemel_pool(&gemel), shared);
            culm_gemel_tried(&gemel, culm_gemel_sound(&gemel, met, 0), NULL, 0);
        }
        culm_gemel_release(&gemel);
        world_release(&world);
    }
}

/* Cut anywhere, any byte changed: refused, or as sound as any; never read beyond its end. */
static void test_hostile_text(void **state) {
    (void)state;
    struct world world;
    struct culm_gemel gemel;
    struct culm_error error;
    struct culm_buf text;
    world_init(&world, 7, false);
    assert_int_equal(culm_gemel_begin(&gemel, &world.match, &world.groups, true, NULL), CULM_OK);
    culm_buf_init(&text, 1 << 16);
    assert_int_equal(culm_gemel_write(&gemel, &text, NULL), CULM_OK);
    int refused = 0;
    for (size_t len = 0; len < text.len; len++) {
        char *cut = malloc(len ? len : 1);
        memcpy(cut, text.data, len);
        assert_int_equal(culm_gemel_read(&gemel, cut, len, &error), CULM_ERR_FORMAT);
        free(cut);
    }
    for (size_t at = 0; at < text.len; at++) {
        for (int c = 1; c < 256; c += 13) {
            char *bad = malloc(text.len);
            memcpy(bad, text.data, text.len);
            bad[at] = (char)(bad[at] ^ c);
            refused += culm_gemel_read(&gemel, bad, text.len, &error) != CULM_OK;
            for (int32_t t = 0; t < gemel.trial_count; t++) {
                assert_in_range(gemel.trial[t].instance, 0, world.match.count - 1);
            }
            free(bad);
        }
    }
    assert_true(refused > 0);
    culm_buf_release(&text);
    culm_gemel_release(&gemel);
    world_release(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_published),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_goes_on_from_text),
        cmocka_unit_test(test_hostile_text),
    };
    return cmocka_run_group_tests_name("merge/gemel", tests, NULL, NULL);
}
