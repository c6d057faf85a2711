/*
 * Drift is told from noise. Frames resemble one another here, as they do in a clip: answers that were
 * recorded, and scenes that last. CULM_TEST_SEED=N: checks begin elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "edge/drift.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drift_recorded.h"

#define FRAMES 16
#define SPREAD 6.25 /* frames at 10 a second from one of a check to the next, at a check in 10 s */
#define RECORDED (sizeof recorded / sizeof *recorded)

struct scene { /* what a merged model and its original say, frame by frame */
    double wrong[RECORDED_FRAMES];
    bool wanted[RECORDED_FRAMES];
    int64_t count;
};

static uint64_t seed(void) {
    const char *given = getenv("CULM_TEST_SEED");
    return given ? strtoull(given, NULL, 10) : 5;
}

/* vanished: the merged model says nothing any more; invented: it adds a box to every frame. */
static void replay(const struct recorded *from, bool vanished, bool invented, struct scene *scene) {
    assert_int_equal(strlen(from->frame), 3 * RECORDED_FRAMES);
    scene->count = RECORDED_FRAMES;
    for (int64_t i = 0; i < RECORDED_FRAMES; i++) {
        const char *at = &from->frame[3 * i];
        int wanted = at[0] - '0', missed = vanished ? wanted : at[1] - '0';
        int added = (vanished ? 0 : at[2] - '0') + invented;
        scene->wrong[i] = culm_edge_drift_wrong(wanted, missed, added);
        scene->wanted[i] = wanted > 0;
    }
}

static struct culm_edge_drift_seen check_at(const struct scene *scene, int64_t first, double stride,
                                            double promised, double looks) {
    struct culm_edge_drift_seen seen = {.promised = promised, .looks = looks};
    double wrong = 0;
    for (int64_t i = 0; i < FRAMES; i++) {
        int64_t at = (first + (int64_t)((double)i * stride)) % scene->count;
        wrong += scene->wrong[at];
        seen.anything |= scene->wanted[at];
    }
    seen.right = 1 - wrong / FRAMES;
    return seen;
}

static double promise(const struct culm_edge_drift_null *null, double target) {
    return null->wrong >= 0 && 1 - null->wrong < target ? 1 - null->wrong : target;
}

struct course {
    int64_t reverts, watched, returns, first; /* first: the check that reverted first; 0: none */
};

static struct course run(const struct scene *scene, const struct culm_edge_drift_null *null,
                         double target, double stride, int64_t checks, uint64_t *random) {
    struct culm_edge_drift drift = {0};
    struct course course = {0};
    int64_t at = (int64_t)(culm_rng_next(random) % (uint64_t)scene->count);
    for (int64_t i = 1; i <= checks; i++) {
        const struct culm_edge_drift_seen seen =
            check_at(scene, at, stride, promise(null, target), null->looks);
        enum culm_edge_drift_action action = culm_edge_drift_check(&drift, &seen, NULL);
        course.watched += action == CULM_EDGE_DRIFT_WATCH;
        course.returns += action == CULM_EDGE_DRIFT_RETURN;
        course.reverts += action == CULM_EDGE_DRIFT_REVERT;
        course.first = action == CULM_EDGE_DRIFT_REVERT && !course.first ? i : course.first;
        at += (int64_t)(FRAMES * stride * (drift.away ? CULM_EDGE_DRIFT_RARELY : 1)) +
              (int64_t)(culm_rng_next(random) % 3);
    }
    return course;
}

/* On the clip that they were merged with, merged detectors stay: 2,000 checks of frames that are
 * spread, and as many of frames in a row, with what merging has recorded and without. */
static void stays_on_its_clip(void **state) {
    uint64_t random = seed();
    (void)state;
    for (size_t q = 0; q < RECORDED; q++) {
        struct scene scene;
        replay(&recorded[q], false, false, &scene);
        for (int how = 0; how < 4; how++) {
            double stride = how & 1 ? 1 : SPREAD;
            const struct culm_edge_drift_null null = culm_edge_drift_measure(
                scene.wrong + RECORDED_HELD, how & 2 ? 0 : RECORDED_FRAMES - RECORDED_HELD, FRAMES,
                stride);
            struct course course = run(&scene, &null, 0.95, stride, 2000, &random);
            print_message("%s, %g apart, %.2f looks: %lld watched, %lld reverts (seed %llu)\n",
                          recorded[q].query, stride, null.looks, (long long)course.watched,
                          (long long)course.reverts, (unsigned long long)seed());
            assert_in_range(course.reverts, 0, 2);
        }
    }
}

/* Wherever it begins: boxes that are invented, everywhere or in an empty scene alone, and a class
 * that vanishes, revert at the second check in which they can be seen. */
static void reverts_what_drifts(void **state) {
    (void)state;
    for (size_t q = 0; q < RECORDED; q++) {
        struct scene same, vanished, invented;
        replay(&recorded[q], false, false, &same);
        replay(&recorded[q], true, false, &vanished);
        replay(&recorded[q], false, true, &invented);
        for (int how = 0; how < 2; how++) {
            const struct culm_edge_drift_null null =
                culm_edge_drift_measure(same.wrong + RECORDED_HELD,
                                        how ? 0 : RECORDED_FRAMES - RECORDED_HELD, FRAMES, SPREAD);
            int64_t tried = 0;
            for (int64_t at = 0; at < RECORDED_FRAMES; at += 7) {
                struct culm_edge_drift gone = {0}, full = {0}, empty = {0};
                double promised = promise(&null, 0.95);
                const struct culm_edge_drift_seen nothing = {
                    .right = 0, .promised = promised, .looks = null.looks};
                struct culm_edge_drift_seen a, b;
                enum culm_edge_drift_action last;
                culm_edge_drift_check(&empty, &nothing, NULL);
                assert_int_equal(culm_edge_drift_check(&empty, &nothing, NULL),
                                 CULM_EDGE_DRIFT_REVERT);
                a = check_at(&invented, at, SPREAD, promised, null.looks);
                b = check_at(&invented, at + 100, SPREAD, promised, null.looks);
                culm_edge_drift_check(&full, &a, NULL);
                last = culm_edge_drift_check(&full, &b, NULL);
                assert_int_equal(last, CULM_EDGE_DRIFT_REVERT);
                a = check_at(&vanished, at, SPREAD, promised, null.looks);
                b = check_at(&vanished, at + 100, SPREAD, promised, null.looks);
                if (a.right > 0.5 || b.right > 0.5) {
                    continue; /* there is too little to see in one of them */
                }
                tried++;
                assert_int_equal(culm_edge_drift_check(&gone, &a, NULL), CULM_EDGE_DRIFT_WATCH);
                assert_int_equal(culm_edge_drift_check(&gone, &b, NULL), CULM_EDGE_DRIFT_REVERT);
            }
            assert_true(tried > 100);
        }
    }
}

/* Scenes of some length, each wholly right or wholly wrong, as where one thing stays before the
 * camera: `wrong` of all, and one at least. */
static void make_scenes(struct scene *scene, int64_t length, double wrong, uint64_t *random) {
    double sum = 0;
    scene->count = RECORDED_FRAMES;
    while (sum == 0) {
        for (int64_t i = 0; i < scene->count; i++) {
            bool now = culm_rng_unit((uint32_t)culm_rng_next(random)) < (float)wrong;
            scene->wrong[i] = i % length ? scene->wrong[i - 1] : now;
            scene->wanted[i] = true;
            sum += scene->wrong[i];
        }
    }
}

/* The longer scenes last, the less a check is worth; and a model that does as it did stays. */
static void scenes_that_last(void **state) {
    uint64_t random = seed() + 1;
    double looks[3];
    int64_t reverts[3] = {0};
    static const int64_t length[] = {1, 20, 60};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        looks[i] = 0;
        for (int tries = 0; tries < 20; tries++) {
            struct scene scene;
            make_scenes(&scene, length[i], 0.05, &random);
            const struct culm_edge_drift_null null =
                culm_edge_drift_measure(scene.wrong, scene.count, FRAMES, SPREAD);
            struct course course = run(&scene, &null, 0.95, SPREAD, 500, &random);
            looks[i] += null.looks / 20;
            reverts[i] += course.reverts;
        }
        print_message("scenes of %lld frames: %.2f looks, %lld reverts in 10,000 checks\n",
                      (long long)length[i], looks[i], (long long)reverts[i]);
        assert_in_range(reverts[i], 0, 10);
    }
    assert_true(looks[0] > 7 && looks[1] < looks[0] && looks[2] < looks[1]);
}

/* A person steps in, half visible, and is missed; the next check is right: no revert. Nor by one
 * that is as promised after any number that were not. */
static void one_bad_check(void **state) {
    struct culm_edge_drift drift = {0};
    struct culm_edge_drift_seen bad = {0, true, 0.95, 4}, good = {1, true, 0.95, 4};
    double chance;
    (void)state;
    assert_int_equal(culm_edge_drift_check(&drift, &bad, &chance), CULM_EDGE_DRIFT_WATCH);
    assert_true(chance < CULM_EDGE_DRIFT_REVERTED);
    assert_int_not_equal(culm_edge_drift_check(&drift, &good, &chance), CULM_EDGE_DRIFT_REVERT);
    assert_true(chance < CULM_EDGE_DRIFT_REVERTED); /* though the pool would say so */
    assert_int_equal(culm_edge_drift_check(&drift, &bad, NULL), CULM_EDGE_DRIFT_REVERT);
    drift = (struct culm_edge_drift){0};
    struct culm_edge_drift_seen little = {0.9, true, 0.95, 4};
    assert_int_equal(culm_edge_drift_check(&drift, &little, &chance), CULM_EDGE_DRIFT_NONE);
    assert_true(chance > CULM_EDGE_DRIFT_POOLED && drift.checks == 0);
}

/* What is reverted was watched before, so that frames of it have been kept: also where the first
 * check saw little of it. */
static void watched_first(void **state) {
    (void)state;
    for (double first = 0; first < 0.95; first += 0.01) {
        struct culm_edge_drift drift = {0};
        const struct culm_edge_drift_seen little = {first, true, 0.95, 8}, all = {0, true, 0.95, 8};
        enum culm_edge_drift_action last = culm_edge_drift_check(&drift, &little, NULL),
                                    next = last;
        for (int checks = 0; next != CULM_EDGE_DRIFT_REVERT; checks++) {
            assert_in_range(checks, 0, 1);
            last = next;
            next = culm_edge_drift_check(&drift, &all, NULL);
        }
        assert_int_equal(last, CULM_EDGE_DRIFT_WATCH);
    }
}

/* A shortfall that is small but lasts adds up. */
static void little_by_little(void **state) {
    struct culm_edge_drift drift = {0};
    const struct culm_edge_drift_seen seen = {0.78, true, 0.95, 6}, kept = {0.96, true, 0.95, 6};
    enum culm_edge_drift_action action = CULM_EDGE_DRIFT_NONE;
    int checks = 0;
    (void)state;
    assert_int_equal(culm_edge_drift_check(&drift, &seen, NULL), CULM_EDGE_DRIFT_NONE);
    drift = (struct culm_edge_drift){0};
    for (; action != CULM_EDGE_DRIFT_REVERT && checks < 100; checks++) {
        action = culm_edge_drift_check(&drift, &seen, NULL);
    }
    print_message("%d checks at 0.78 of 0.95\n", checks);
    assert_in_range(checks, 3, 10);
    drift = (struct culm_edge_drift){0};
    for (checks = 0; checks < 1000; checks++) {
        assert_int_equal(culm_edge_drift_check(&drift, &kept, NULL), CULM_EDGE_DRIFT_NONE);
        assert_int_equal(drift.checks, 0); /* nothing is kept of what is as promised */
    }
}

/* What has gone back comes back once checks with something in them are as promised; each time that
 * takes longer. */
static void comes_back(void **state) {
    const struct culm_edge_drift_seen bad = {0, true, 0.95, 4}, good = {1, true, 0.95, 4},
                                      empty = {1, false, 0.95, 4};
    struct culm_edge_drift drift = {0};
    (void)state;
    culm_edge_drift_check(&drift, &bad, NULL);
    culm_edge_drift_check(&drift, &bad, NULL);
    for (int i = 0; i < 30; i++) { /* not while one of three is wrong */
        assert_int_equal(culm_edge_drift_check(&drift, i % 3 ? &good : &bad, NULL),
                         CULM_EDGE_DRIFT_NONE);
    }
    drift = (struct culm_edge_drift){0};
    for (int32_t reverts = 1; reverts <= 8; reverts++) {
        int32_t needed = CULM_EDGE_DRIFT_BACK << (reverts - 1);
        needed = needed < CULM_EDGE_DRIFT_BACK_MAX ? needed : CULM_EDGE_DRIFT_BACK_MAX;
        culm_edge_drift_check(&drift, &bad, NULL);
        assert_int_equal(culm_edge_drift_check(&drift, &bad, NULL), CULM_EDGE_DRIFT_REVERT);
        assert_true(drift.away && drift.reverts == reverts);
        for (int i = 0; i < 200; i++) { /* an empty scene speaks for nothing */
            assert_int_equal(culm_edge_drift_check(&drift, &empty, NULL), CULM_EDGE_DRIFT_NONE);
        }
        for (int32_t i = 1; i < needed; i++) {
            assert_int_equal(culm_edge_drift_check(&drift, &good, NULL), CULM_EDGE_DRIFT_NONE);
            assert_true(drift.away);
        }
        assert_int_equal(culm_edge_drift_check(&drift, &good, NULL), CULM_EDGE_DRIFT_RETURN);
        assert_true(!drift.away && drift.checks == 0);
    }
}

static void chances(void **state) {
    (void)state;
    assert_true(fabs(culm_edge_drift_chance(16, 0, 0.05) - 1) < 1e-12);
    assert_true(fabs(culm_edge_drift_chance(16, 1, 0.05) - (1 - pow(0.95, 16))) < 1e-9);
    assert_true(fabs(culm_edge_drift_chance(2, 2, 0.5) - 0.25) < 1e-12);
    assert_true(fabs(culm_edge_drift_chance(2, 1.5, 0.5) - 0.5) < 1e-12); /* 0.75 and 0.25 */
    assert_true(culm_edge_drift_chance(16, 1, 0) < 1e-12);
    assert_true(fabs(culm_edge_drift_chance(16, 3, 1) - 1) < 1e-12);
    /* All of two and a half: between all of two and all of three. */
    assert_true(fabs(culm_edge_drift_chance(2.5, 2.5, 0.5) - (0.25 + 0.125) / 2) < 1e-12);
}

static void shares(void **state) {
    (void)state;
    assert_true(culm_edge_drift_wrong(0, 0, 0) == 0);
    assert_true(culm_edge_drift_wrong(0, 0, 3) == 1); /* invented */
    assert_true(culm_edge_drift_wrong(2, 2, 0) == 1); /* missed */
    assert_true(culm_edge_drift_wrong(2, 1, 0) == 0.5);
    assert_true(culm_edge_drift_wrong(2, 1, 1) == 2.0 / 3);
    /* Whatever is given, a check is worth something, and not more than half of its frames. */
    const double right[3] = {0}, wrong[1] = {1}, mixed[2] = {0, 1};
    assert_true(culm_edge_drift_measure(right, 3, 16, 6).looks == 4);
    assert_true(culm_edge_drift_measure(wrong, 1, 16, 1).looks == 4);
    assert_true(culm_edge_drift_measure(mixed, 2, 16, 1).looks >= 2);
    assert_true(culm_edge_drift_measure(NULL, 0, 16, 1).looks == 4);
    assert_true(culm_edge_drift_measure(NULL, 0, 1, 1).looks == 2);
    assert_true(culm_edge_drift_measure(mixed, 2, 1000000, 1).looks >= 2);
}

static void promises(void **state) {
    (void)state;
    /* By the original's answers: nothing but the target. */
    assert_true(fabs(culm_edge_drift_promise(0.95, 1, 0.97, 0.97) - 0.95) < 1e-12);
    /* By labels: 0.86 of 0.9 are right, 0.855 must be, and 0.88 of the answers are the original's. */
    assert_true(fabs(culm_edge_drift_promise(0.95, 0.9, 0.86, 0.88) - 0.875) < 1e-12);
    assert_true(culm_edge_drift_promise(0.95, -1, -1, -1) == 0.95);
    assert_true(culm_edge_drift_promise(0.95, 0.9, 0.86, -1) == 0.95);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chances),          cmocka_unit_test(shares),
        cmocka_unit_test(promises),         cmocka_unit_test(stays_on_its_clip),
        cmocka_unit_test(scenes_that_last), cmocka_unit_test(reverts_what_drifts),
        cmocka_unit_test(one_bad_check),    cmocka_unit_test(comes_back),
        cmocka_unit_test(little_by_little), cmocka_unit_test(watched_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
