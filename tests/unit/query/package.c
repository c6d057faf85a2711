/*
 * Packages: what is written is read; every file operation of a publication fails in turn, in three ways,
 * and then the old round or the new one is there, whole; whatever is altered is refused in one line.
 */
#include "query/package.h"
#include "fault_fs.h"
#include "sample.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define IDENTITY_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define IDENTITY_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static float value_of(int tensor, int64_t i) { return (float)tensor + (float)i / 128; }

/* Puts tensor number `tensor`, of 6 elements, and returns its index in the round. */
static int32_t put(struct culm_fs *fs, const char *dir, struct culm_package_round *round,
                   int tensor, enum culm_status *status, struct culm_error *error) {
    struct culm_package_tensor t = {.rank = 2, .shape = {3, 2}, .count = 6};
    float data[6];
    for (int i = 0; i < 6; i++) {
        data[i] = value_of(tensor, i);
    }
    assert_int_equal(culm_package_digest(&t, data, error), CULM_OK);
    *status = *status == CULM_OK ? culm_package_put(fs, dir, &t, data, NULL, error) : *status;
    return culm_package_add_tensor(round, &t);
}

/* Two queries on two models, whose only layers are tensors 1 and 2 in round 0, and 3 in round 1; each
 * has a vector of its own besides; a third query is on the first model. */
static enum culm_status publish(struct culm_fs *fs, const char *dir, int64_t number,
                                struct culm_error *error) {
    struct culm_package_round round = {.number = number};
    enum culm_status status = culm_package_make(fs, dir, error);
    for (int q = 0; q < 3 && status == CULM_OK; q++) {
        static const char *const name[] = {"one", "two", "again"};
        struct culm_package_query *query = culm_package_add_query(
            &round, name[q], "m.cfg", q == 1 ? "b" : NULL, q == 1 ? IDENTITY_B : IDENTITY_A);
        query->target = 0.95;
        query->merged = number ? 0.97 : -1;
        int32_t own = put(fs, dir, &round, q == 1 ? 2 : 1, &status, error);
        int32_t now = number ? put(fs, dir, &round, 3, &status, error) : own;
        int32_t vector = put(fs, dir, &round, q == 1 ? 5 : 4, &status, error);
        assert_int_equal(culm_package_add_param(query, "w", now, own, 0, error), CULM_OK);
        assert_int_equal(culm_package_add_param(query, "v", vector, vector, -1, error), CULM_OK);
    }
    if (status == CULM_OK) {
        status = culm_package_publish(fs, dir, &round, error);
    }
    culm_package_round_release(&round);
    return status;
}

/* The round that counts, whole; its number. */
static int64_t expect_whole(const char *dir, const char *when) {
    struct culm_package_round round;
    struct culm_error error = {0};
    if (culm_package_open(dir, &round, &error) || culm_package_check(dir, &round, &error)) {
        fail_msg("%s: %s", when, error.text);
    }
    int64_t number = round.number;
    const struct culm_package_query *two = &round.query[culm_package_query_find(&round, "two")];
    const struct culm_package_param *w = &two->param[culm_package_param_find(two, "w")];
    float now[6], before[6];
    assert_int_equal(culm_package_read(dir, &round.tensor[w->tensor], now, &error), CULM_OK);
    assert_int_equal(culm_package_read(dir, &round.tensor[w->original], before, &error), CULM_OK);
    assert_true(now[5] == value_of(number ? 3 : 2, 5));
    assert_true(before[5] == value_of(2, 5));
    culm_package_round_release(&round);
    return number;
}

static void test_rounds(void **state) {
    (void)state;
    char dir[64];
    struct culm_error error = {0};
    struct culm_package_round round;
    struct culm_package_sums sums;
    temp_dir_make(dir);
    assert_int_equal(culm_package_open(dir, &round, &error), CULM_ERR_NOT_FOUND);
    assert_int_equal(publish(NULL, dir, 0, &error), CULM_OK);
    assert_int_equal(expect_whole(dir, "round 0"), 0);
    assert_int_equal(culm_package_open(dir, &round, &error), CULM_OK);
    assert_false(culm_package_moved(dir, 0, round.digest));
    round.digest[0] = round.digest[0] == '0' ? '1' : '0'; /* made anew under that number */
    assert_true(culm_package_moved(dir, 0, round.digest));
    round.digest[0] = round.digest[0] == '0' ? '1' : '0';
    assert_int_equal(publish(NULL, dir, 1, &error), CULM_OK);
    assert_true(culm_package_moved(dir, 0, round.digest));
    assert_true(
        culm_package_moved("nowhere", 0, round.digest)); /* whoever opens it finds out why */
    culm_package_round_release(&round);
    assert_int_equal(expect_whole(dir, "round 1"), 1);
    assert_int_equal(culm_package_open(dir, &round, &error), CULM_OK);
    assert_int_equal(round.tensor_count, 5);
    assert_int_equal(culm_package_sum(&round, &sums, &error), CULM_OK);
    assert_int_equal(sums.total_bytes, 48); /* the model of two queries counts once */
    assert_int_equal(sums.distinct_bytes, 24);
    assert_int_equal(sums.tensor_bytes, 96);
    assert_int_equal(sums.tensor_distinct, 72);
    assert_int_equal(culm_package_shared_bytes(&round, 0), 24);
    assert_true(round.query[0].weights == NULL && round.query[0].merged == 0.97);
    assert_string_equal(round.query[1].weights, "b");
    assert_true(culm_package_holds(NULL, dir, &round));
    round.query[0].merged = 0.96; /* something else under that number */
    assert_false(culm_package_holds(NULL, dir, &round));
    round.query[0].merged = 0.97;
    round.number = 2; /* which is not there */
    assert_false(culm_package_holds(NULL, dir, &round));
    culm_package_round_release(&round);
    assert_int_equal(culm_package_open_round(dir, 0, &round, &error), CULM_OK);
    assert_int_equal(culm_package_shared_bytes(&round, 0), 0);
    culm_package_round_release(&round);
    /* The same again is fine; something else under the number that counts is not. */
    assert_int_equal(publish(NULL, dir, 1, &error), CULM_OK);
    struct culm_package_round other = {.number = 1};
    assert_int_equal(culm_package_publish(NULL, dir, &other, &error), CULM_ERR_ARGUMENT);
    assert_int_equal(expect_whole(dir, "after that"), 1);
    temp_dir_drop(dir);
}

static void try_one(enum fault_mode mode, int fail_at, bool *ret_fired) {
    char dir[64], when[64];
    struct culm_error error = {0};
    struct fault_fs *fault = malloc(sizeof *fault);
    assert_non_null(fault);
    temp_dir_make(dir);
    assert_int_equal(publish(NULL, dir, 0, &error), CULM_OK);
    fault_fs_init(fault, mode, fail_at, mode == FAULT_ONCE ? ENOSPC : EIO);
    snprintf(when, sizeof when, "mode %d, operation %d", mode, fail_at);
    bool published = publish(&fault->fs, dir, 1, &error) == CULM_OK;
    *ret_fired = fault->fired;
    if ((fault->fired && mode == FAULT_POWER) || published) { /* what has been published stays */
        fault_fs_power_off(fault, dir);
    }
    if (!published && (!error.text[0] || strchr(error.text, '\n'))) {
        fail_msg("%s: error is '%s'", when, error.text);
    }
    int64_t number = expect_whole(dir, when);
    assert_true(number == 0 || number == 1);
    if (published && number != 1) {
        fail_msg("%s: published, yet round %d counts", when, (int)number);
    }
    assert_int_equal(publish(NULL, dir, 1, &error), CULM_OK); /* and it goes on */
    assert_int_equal(expect_whole(dir, when), 1);
    temp_dir_drop(dir);
    free(fault);
}

static void test_crashes(void **state) {
    (void)state;
    for (int mode = 0; mode < FAULT_MODES; mode++) {
        bool fired = true;
        int operations = 0;
        while (fired) {
            try_one((enum fault_mode)mode, ++operations, &fired);
        }
        printf("mode %d: %d operations failed in turn\n", mode, operations - 1);
        assert_true(operations > 20);
    }
}

/* --- altered --- */

static void refused(const char *dir, const char *what) {
    struct culm_package_round round;
    struct culm_error error = {0};
    enum culm_status status = culm_package_open(dir, &round, &error);
    if (status == CULM_OK) {
        status = culm_package_check(dir, &round, &error);
        culm_package_round_release(&round);
    }
    assert_int_equal(status, CULM_ERR_FORMAT);
    if (!strstr(error.text, what) || strchr(error.text, '\n')) {
        fail_msg("'%s' does not say '%s'", error.text, what);
    }
}

/* The path of the tensor that "two" has as "w". */
static void tensor_of(const char *dir, char path[CULM_PATH_MAX]) {
    struct culm_package_round round;
    struct culm_error error = {0};
    assert_int_equal(culm_package_open(dir, &round, &error), CULM_OK);
    const char *digest = round.tensor[round.query[1].param[0].tensor].digest;
    assert_int_equal(culm_package_tensor_path(dir, digest, path, &error), CULM_OK);
    culm_package_round_release(&round);
}

static size_t count_in(const char *dir, const char *folder) {
    char path[CULM_PATH_MAX];
    struct culm_names names;
    struct culm_error error = {0};
    snprintf(path, sizeof path, "%s/%s", dir, folder);
    assert_int_equal(culm_dir_list(path, &names, &error), CULM_OK);
    const size_t count = names.count;
    culm_names_release(&names);
    return count;
}

static bool is_there(const char *dir, int64_t number) {
    struct culm_package_round round;
    struct culm_error error = {0};
    const bool there = culm_package_open_round(dir, number, &round, &error) == CULM_OK &&
                       culm_package_check(dir, &round, &error) == CULM_OK;
    culm_package_round_release(&round);
    return there;
}

/* Rounds that nobody wants go, and what only they have; a kept one stays whole. */
static void test_prune(void **state) {
    (void)state;
    char dir[64], path[CULM_PATH_MAX];
    struct culm_error error = {0};
    struct culm_package_pruned pruned;
    struct culm_package_round last = {.number = 3};
    temp_dir_make(dir);
    for (int64_t number = 0; number < 3; number++) {
        assert_int_equal(publish(NULL, dir, number, &error), CULM_OK);
    }
    enum culm_status status = CULM_OK; /* the last one has nothing of those before */
    struct culm_package_query *query =
        culm_package_add_query(&last, "other", "m.cfg", NULL, IDENTITY_A);
    const int32_t tensor = put(NULL, dir, &last, 9, &status, &error);
    assert_int_equal(culm_package_add_param(query, "w", tensor, tensor, 0, &error), CULM_OK);
    assert_int_equal(culm_package_publish(NULL, dir, &last, &error), CULM_OK);
    culm_package_round_release(&last);
    assert_int_equal(count_in(dir, "tensors"), 6);
    snprintf(path, sizeof path, "%s/tensors/.x.1-2.tmp", dir); /* of a writer that was killed */
    assert_int_equal(culm_file_replace(NULL, path, "x", 1, &error), CULM_OK);
    const int64_t keep[] = {-1, 0, 77};
    assert_int_equal(culm_package_prune(NULL, dir, keep, 3, &pruned, &error), CULM_OK);
    assert_int_equal(pruned.rounds, 2);
    assert_int_equal(pruned.tensors, 2); /* number 3, and that */
    assert_true(is_there(dir, 0) && is_there(dir, 3));
    assert_false(is_there(dir, 1) || is_there(dir, 2));
    assert_int_equal(culm_package_prune(NULL, dir, NULL, 0, &pruned, &error), CULM_OK);
    assert_int_equal(pruned.rounds, 1);
    assert_int_equal(count_in(dir, "tensors"), 1);
    assert_true(is_there(dir, 3));
    assert_int_equal(culm_package_prune(NULL, dir, NULL, 0, &pruned, &error), CULM_OK);
    assert_int_equal(pruned.rounds + pruned.tensors, 0);
    temp_dir_drop(dir);
    assert_int_equal(culm_package_prune(NULL, dir, NULL, 0, &pruned, &error), CULM_ERR_NOT_FOUND);
}

static void overwrite(const char *path, const char *data, size_t len) {
    struct culm_error error = {0};
    assert_int_equal(culm_file_replace(NULL, path, data, len, &error), CULM_OK);
}

static void test_altered_files(void **state) {
    (void)state;
    char dir[64], path[CULM_PATH_MAX], *data;
    size_t len;
    struct culm_error error = {0};
    temp_dir_make(dir);
    assert_int_equal(publish(NULL, dir, 0, &error), CULM_OK);
    tensor_of(dir, path);
    assert_int_equal(culm_file_read(NULL, path, 100, &data, &len, &error), CULM_OK);
    data[7] ^= 1;
    overwrite(path, data, len);
    refused(dir, "does not match its digest");
    overwrite(path, data, len - 4);
    refused(dir, "has 20 bytes instead of 24");
    assert_int_equal(culm_file_remove(NULL, path, &error), CULM_OK);
    refused(dir, "is missing");
    data[7] ^= 1;
    overwrite(path, data, len);
    free(data);
    expect_whole(dir, "put right");

    snprintf(path, sizeof path, "%s/rounds/0.json", dir);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &data, &len, &error), CULM_OK);
    data[len - 3] ^= 1;
    overwrite(path, data, len);
    refused(dir, "does not match 'current'");
    free(data);
    snprintf(path, sizeof path, "%s/current", dir);
    overwrite(path, "0\n", 2);
    refused(dir, "not a round and a digest");
    temp_dir_drop(dir);
}

static void bad(const char *text, const char *want) {
    struct culm_package_round round;
    struct culm_error error = {0};
    assert_int_equal(culm_package_parse(text, strlen(text), "p", &round, &error), CULM_ERR_FORMAT);
    assert_string_equal(error.text, want);
}

#define D1 "1111111111111111111111111111111111111111111111111111111111111111"
#define HEAD "{\"format\":\"culm-package-1\",\"round\":3,\"total_bytes\":8,\"distinct_bytes\":8,"
#define TENSORS "\"tensors\":{\"" D1 "\":[2]},"
#define QUERY(rest)                                                                                \
    "{\"query\":\"q\",\"model\":\"m\",\"identity\":\"" D1                                          \
    "\",\"target\":1,\"original\":-1,\"merged\":-1" rest "}"
#define PARAM ",\"parameters\":{\"w\":{\"tensor\":\"" D1 "\",\"layer\":0}}"

static void test_lying_rounds(void **state) {
    (void)state;
    struct culm_package_round round;
    struct culm_error error = {0};
    const char *good = HEAD TENSORS "\"queries\":[" QUERY(PARAM) "]}";
    if (culm_package_parse(good, strlen(good), "p", &round, &error)) {
        fail_msg("%s", error.text);
    }
    culm_package_round_release(&round);
    bad("{", "p: not JSON at line 1");
    bad("{}", "p: not of the format culm-package-1");
    bad(HEAD "\"tensors\":{\"../../etc/passwd\":[2]},\"queries\":[]}",
        "p: a tensor's name is not a digest");
    bad(HEAD "\"tensors\":{\"" D1 "\":[0]},\"queries\":[]}",
        "p: a tensor's shape is empty or too large");
    bad(HEAD "\"tensors\":{\"" D1 "\":[1000000000000,1000000000000]},\"queries\":[]}",
        "p: a tensor's shape is empty or too large");
    bad(HEAD TENSORS "\"queries\":[]}",
        "p: its sums do not match its tensors, which have 0 bytes of layers and 0 distinct");
    bad(HEAD TENSORS "\"queries\":[" QUERY(PARAM) "," QUERY(PARAM) "]}",
        "p: a query is listed twice");
    bad(HEAD "\"tensors\":{},\"queries\":[" QUERY(PARAM) "]}",
        "p: a parameter names a tensor that 'tensors' does not have");
    bad(HEAD TENSORS "\"queries\":[" QUERY("") "]}",
        "p: a query is not {query, model, identity, parameters, ..}");
    bad(HEAD TENSORS
        "\"queries\":[" QUERY(",\"parameters\":{\"a\\nb\":{\"tensor\":\"" D1 "\"}}") "]}",
        "p: a parameter is not {tensor, original, layer}");
}

#define SAMPLES(frames) ",\"samples\":{\"score\":0.25,\"step\":1.5,\"frames\":\"" frames "\"}"

/* How answers differ from the original's is read as it was written; packages without it are fine. */
static void test_samples(void **state) {
    (void)state;
    const char *text =
        HEAD TENSORS "\"queries\":[" QUERY(PARAM SAMPLES("2/1/0 0/0/3 1000000/0/0")) "]}";
    const char *not = "p: a query's samples are not up to 512 counts a/b/c";
    char dir[64];
    struct culm_error error = {0};
    struct culm_package_round round, again;
    assert_int_equal(culm_package_parse(text, strlen(text), "p", &round, &error), CULM_OK);
    assert_int_equal(round.query[0].sample_count, 3);
    assert_true(round.query[0].sample_step == 1.5 && round.query[0].sample_score == 0.25);
    assert_int_equal(round.query[0].sample[0].missed, 1);
    assert_int_equal(round.query[0].sample[1].added, 3);
    assert_int_equal(round.query[0].sample[2].wanted, 1000000);
    temp_dir_make(dir);
    assert_int_equal(culm_package_make(NULL, dir, &error), CULM_OK);
    assert_int_equal(culm_package_publish(NULL, dir, &round, &error), CULM_OK);
    assert_true(culm_package_holds(NULL, dir, &round));
    round.query[0].sample[1].added = 2;
    assert_false(culm_package_holds(NULL, dir, &round));
    culm_package_round_release(&round);
    char path[CULM_PATH_MAX], *written;
    size_t len;
    snprintf(path, sizeof path, "%s/rounds/3.json", dir);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &written, &len, &error), CULM_OK);
    assert_int_equal(culm_package_parse(written, len, "p", &again, &error), CULM_OK);
    assert_int_equal(again.query[0].sample_count, 3);
    assert_int_equal(again.query[0].sample[1].added, 3);
    culm_package_round_release(&again);
    free(written);
    temp_dir_drop(dir);
    bad(HEAD TENSORS "\"queries\":[" QUERY(PARAM ",\"samples\":{}") "]}",
        "p: a query's samples are not {score, step, frames}");
    bad(HEAD TENSORS "\"queries\":[" QUERY(PARAM SAMPLES("1/2/0")) "]}", not );
    bad(HEAD TENSORS "\"queries\":[" QUERY(PARAM SAMPLES("1/1")) "]}", not );
    bad(HEAD TENSORS "\"queries\":[" QUERY(PARAM SAMPLES("1/-1/0")) "]}", not );
    bad(HEAD TENSORS "\"queries\":[" QUERY(PARAM SAMPLES("1/1/0,2/1/0")) "]}", not );
    bad(HEAD TENSORS "\"queries\":[" QUERY(PARAM SAMPLES("1000001/0/0")) "]}", not );
}

/* The right digest, and numbers that are none. */
static void test_not_finite(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    char dir[64];
    struct culm_error error = {0};
    temp_dir_make(dir);
    assert_int_equal(culm_package_make(NULL, dir, &error), CULM_OK);
    for (int i = 0; i < 3; i++) {
        float data[4] = {1, 2, bad[i], 4}, got[4];
        struct culm_package_tensor t = {.rank = 1, .shape = {4}, .count = 4};
        assert_int_equal(culm_package_digest(&t, data, &error), CULM_OK);
        assert_int_equal(culm_package_put(NULL, dir, &t, data, NULL, &error), CULM_OK);
        assert_int_equal(culm_package_read(dir, &t, got, &error), CULM_ERR_FORMAT);
        assert_non_null(strstr(error.text, "number 2 of tensor"));
    }
    temp_dir_drop(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),       cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_prune),        cmocka_unit_test(test_altered_files),
        cmocka_unit_test(test_lying_rounds), cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_samples),
    };
    return cmocka_run_group_tests_name("query/package", tests, NULL, NULL);
}
