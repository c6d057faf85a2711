/* A run's newest checkpoint out of a storage: into a new folder, and one with an older state, whichever call fails on the way. */
#include "launch/bring.h"

#include "launch/uploads.h"
#include "sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OLD "{\"event\":\"start\",\"run\":\"r1\"}\n{\"event\":\"step\",\"step\":10}\n"
#define NEW OLD "{\"event\":\"step\",\"step\":20}\n"

/* A folder, of which one call fails. */
struct unruly {
    struct culm_storage storage;
    struct culm_storage *inner;
    atomic_int calls;
    int fails; /* < 0: none */
};

static bool fails(struct unruly *u) { return atomic_fetch_add(&u->calls, 1) == u->fails; }

static enum culm_status get(struct culm_storage *storage, const char *name, size_t max_bytes,
                            char **ret_data, size_t *ret_len, struct culm_error *error) {
    struct unruly *u = (struct unruly *)storage;
    return fails(u) ? culm_error_set(error, CULM_ERR_AGAIN, "away")
                    : u->inner->ops->get(u->inner, name, max_bytes, ret_data, ret_len, error);
}

static enum culm_status list(struct culm_storage *storage, const char *prefix,
                             struct culm_names *ret_names, struct culm_error *error) {
    struct unruly *u = (struct unruly *)storage;
    return fails(u) ? culm_error_set(error, CULM_ERR_AGAIN, "away")
                    : u->inner->ops->list(u->inner, prefix, ret_names, error);
}

static const struct culm_storage_ops ops = {
    .size = sizeof(struct culm_storage_ops), .get = get, .list = list};

static void write_text(const char *dir, const char *name, const char *text) {
    char path[CULM_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(culm_file_replace(NULL, path, text, strlen(text), NULL), CULM_OK);
}

static void expect_text(const char *dir, const char *name, const char *text) {
    char path[CULM_PATH_MAX], *data;
    size_t len;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &data, &len, NULL), CULM_OK);
    assert_string_equal(data, text);
    free(data);
}

/* A run in that state. */
static void make_run(const char *dir, int64_t step, const char *events) {
    static struct sample sample;
    sample_init(&sample, step);
    assert_int_equal(culm_dir_make(NULL, dir, NULL), CULM_OK);
    assert_int_equal(sample_publish(NULL, dir, &sample, NULL), CULM_OK);
    write_text(dir, "events.jsonl", events);
    write_text(dir, "config.yaml", "seed: 1\n");
}

static void keep(struct culm_storage *storage, const char *dir, int64_t step) {
    struct culm_archive_source *source;
    struct culm_archive_saved saved;
    char path[CULM_PATH_MAX];
    assert_int_equal(culm_checkpoint_path(dir, step, path, NULL), CULM_OK);
    assert_int_equal(culm_archive_source_open(dir, path, "r1", culm_uploads_beside, &source, NULL),
                     CULM_OK);
    assert_int_equal(culm_archive_save(storage, source, &saved, NULL), CULM_OK);
    culm_archive_source_free(source);
}

struct world {
    char dir[64], there[128], here[128], place[128];
    struct unruly unruly;
};

static void begin(struct world *w) {
    *w = (struct world){0};
    temp_dir_make(w->dir);
    snprintf(w->there, sizeof w->there, "%s/there", w->dir);
    snprintf(w->here, sizeof w->here, "%s/here", w->dir);
    snprintf(w->place, sizeof w->place, "%s/place", w->dir);
    assert_int_equal(culm_storage_open_folder(w->place, &w->unruly.inner, NULL), CULM_OK);
    w->unruly.storage.ops = &ops;
    strcpy(w->unruly.storage.place, w->place);
    w->unruly.fails = -1;
    make_run(w->there, 20, NEW);
    keep(w->unruly.inner, w->there, 20);
}

static void end(struct world *w) {
    culm_storage_free(w->unruly.inner);
    temp_dir_drop(w->dir);
}

static void expect_here(const struct world *w) {
    char path[CULM_PATH_MAX];
    struct sample sample;
    sample_init(&sample, 20);
    assert_int_equal(culm_checkpoint_path(w->here, 20, path, NULL), CULM_OK);
    sample_expect(path, &sample);
    expect_text(w->here, "events.jsonl", NEW);
    expect_text(w->here, "config.yaml", "seed: 1\n");
}

/* Brings it, after a call that fails at `at`. False: there was no such call. */
static bool bring(struct world *w, int at) {
    struct culm_brought brought;
    struct culm_error error = {0};
    w->unruly.fails = at;
    enum culm_status status = culm_bring(&w->unruly.storage, w->here, &brought, &error);
    bool reached = atomic_load(&w->unruly.calls) > at;
    assert_true(reached ? status == CULM_ERR_AGAIN : status == CULM_OK);
    w->unruly.fails = -1;
    if (reached) {
        if (culm_bring(&w->unruly.storage, w->here, &brought, &error) != CULM_OK) {
            fail_msg("after call %d: %s", at, error.text);
        }
    }
    assert_int_equal(brought.stored, 20);
    assert_int_equal(brought.step, 20);
    expect_here(w);
    assert_int_equal(culm_bring(&w->unruly.storage, w->here, &brought, &error), CULM_OK);
    assert_int_equal(brought.step, -1); /* it is there */
    return reached;
}

static void test_into_a_new_folder(void **state) {
    (void)state;
    bool reached = true;
    for (int at = 0; reached; at++) {
        struct world w;
        begin(&w);
        reached = bring(&w, at);
        end(&w);
        assert_true(reached || at > 6);
    }
}

/* Its events stay, under another name, also if an earlier call has put the new ones in their place. */
static void test_over_an_older_state(void **state) {
    (void)state;
    bool reached = true;
    for (int at = 0; reached; at++) {
        struct world w;
        begin(&w);
        make_run(w.here, 10, OLD);
        reached = bring(&w, at);
        expect_text(w.here, "events-before-20.jsonl", OLD);
        end(&w);
        assert_true(reached || at > 6);
    }
}

static void test_another_run_stays(void **state) {
    (void)state;
    struct world w;
    struct culm_brought brought;
    struct culm_error error = {0};
    char path[CULM_PATH_MAX];
    begin(&w);
    make_run(w.here, 10, "{\"event\":\"start\",\"run\":\"r2\"}\n");
    assert_int_equal(culm_bring(&w.unruly.storage, w.here, &brought, &error), CULM_ERR_EXISTS);
    assert_non_null(strstr(error.text, "has a run (r2)"));
    assert_int_equal(culm_checkpoint_path(w.here, 20, path, NULL), CULM_OK);
    assert_false(culm_file_exists(path));
    expect_text(w.here, "events.jsonl", "{\"event\":\"start\",\"run\":\"r2\"}\n");
    end(&w);
}

static void test_what_is_there_is_as_new(void **state) {
    (void)state;
    struct world w;
    struct culm_brought brought;
    begin(&w);
    make_run(w.here, 30, OLD);
    assert_int_equal(culm_bring(&w.unruly.storage, w.here, &brought, NULL), CULM_OK);
    assert_int_equal(brought.step, -1);
    assert_int_equal(brought.stored, 20);
    expect_text(w.here, "events.jsonl", OLD);
    end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_into_a_new_folder),
        cmocka_unit_test(test_over_an_older_state),
        cmocka_unit_test(test_another_run_stays),
        cmocka_unit_test(test_what_is_there_is_as_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
