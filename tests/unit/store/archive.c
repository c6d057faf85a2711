/*
 * Checkpoints in a storage: what is saved comes back, nothing is sent twice, whatever fails; and two that save and remove at
 * once, at every point of each other, never break what has been said to be saved.
 */
#include "store/archive.h"

#include "sample.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* --- a storage that can fail, and during whose calls somebody else can act --- */

struct unruly {
    struct culm_storage storage;
    struct culm_storage *inner;
    atomic_int calls;
    int at;                                /* the call that something befalls; < 0: none */
    enum { NOTHING, BEFORE, AFTER } fails; /* it is not done; it is, and the answer is lost */
    void (*act)(void *ctx);                /* somebody else, before that call */
    void *ctx;
    atomic_ullong put_bytes;
};

static bool befalls(struct unruly *u) {
    bool now = atomic_fetch_add(&u->calls, 1) == u->at;
    if (now && u->act) {
        u->act(u->ctx);
    }
    return now && u->fails != NOTHING;
}

static enum culm_status lose(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_AGAIN, "the storage is away");
}

#define BEFALL(call_)                                                                              \
    struct unruly *u = (struct unruly *)storage;                                                   \
    bool fails = befalls(u);                                                                       \
    if (fails && u->fails == BEFORE) {                                                             \
        return lose(error);                                                                        \
    }                                                                                              \
    enum culm_status status = (call_);                                                             \
    return fails ? lose(error) : status

static enum culm_status put(struct culm_storage *storage, const char *name, const void *data,
                            size_t len, bool fresh, struct culm_error *error) {
    atomic_fetch_add(&((struct unruly *)storage)->put_bytes, len);
    BEFALL(u->inner->ops->put(u->inner, name, data, len, fresh, error));
}

static enum culm_status get(struct culm_storage *storage, const char *name, size_t max_bytes,
                            char **ret_data, size_t *ret_len, struct culm_error *error) {
    struct unruly *u = (struct unruly *)storage;
    return befalls(u) ? lose(error)
                      : u->inner->ops->get(u->inner, name, max_bytes, ret_data, ret_len, error);
}

static enum culm_status list(struct culm_storage *storage, const char *prefix,
                             struct culm_names *ret_names, struct culm_error *error) {
    struct unruly *u = (struct unruly *)storage;
    return befalls(u) ? lose(error) : u->inner->ops->list(u->inner, prefix, ret_names, error);
}

static enum culm_status take_away(struct culm_storage *storage, const char *name,
                                  struct culm_error *error) {
    BEFALL(u->inner->ops->remove(u->inner, name, error));
}

static const struct culm_storage_ops unruly_ops = {.size = sizeof(struct culm_storage_ops),
                                                   .put = put,
                                                   .get = get,
                                                   .list = list,
                                                   .remove = take_away};

/* --- a run, and its storage --- */

struct world {
    char dir[64], run[128], place[128];
    struct culm_storage *folder;
    struct unruly unruly;
    struct sample sample;
};

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

static void begin(struct world *w) {
    *w = (struct world){0};
    temp_dir_make(w->dir);
    snprintf(w->run, sizeof w->run, "%s/run", w->dir);
    snprintf(w->place, sizeof w->place, "%s/place", w->dir);
    assert_int_equal(culm_dir_make(NULL, w->run, NULL), CULM_OK);
    assert_int_equal(culm_storage_open_folder(w->place, &w->folder, NULL), CULM_OK);
    w->unruly = (struct unruly){
        .storage = {.ops = &unruly_ops}, .inner = w->folder, .at = -1, .fails = NOTHING};
    strcpy(w->unruly.storage.place, w->place);
    write_text(w->run, "events.jsonl", "{\"event\":\"start\"}\n");
}

static void end(struct world *w) {
    culm_storage_free(w->folder);
    temp_dir_drop(w->dir);
}

/* The first stage has the same weights at each step; what is beside 30 only 30 has. */
static void init_sample(struct sample *sample, int64_t step) {
    struct sample frozen;
    sample_init(&frozen, 1);
    sample_init(sample, step);
    memcpy(sample->data[0], frozen.data[0], sizeof sample->data[0]);
}

static const char *const beside[] = {"events.jsonl", "cut.npy", NULL};

static struct culm_archive_source *open_source(struct world *w, int64_t step, const char *run) {
    struct culm_archive_source *source = NULL;
    struct culm_error error = {0};
    char path[CULM_PATH_MAX];
    write_text(w->run, "cut.npy", step == 30 ? "30" : "the others");
    init_sample(&w->sample, step);
    assert_int_equal(culm_checkpoint_path(w->run, step, path, NULL), CULM_OK);
    if (!culm_file_exists(path) && sample_publish(NULL, w->run, &w->sample, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    if (culm_archive_source_open(w->run, path, run, beside, &source, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(culm_archive_source_step(source), step);
    return source;
}

static enum culm_status save_to(struct world *w, struct culm_storage *storage, int64_t step,
                                struct culm_archive_saved *ret_saved, struct culm_error *error) {
    struct culm_archive_source *source = open_source(w, step, "r1");
    enum culm_status status = culm_archive_save(storage, source, ret_saved, error);
    culm_archive_source_free(source);
    return status;
}

static struct culm_archive_saved save(struct world *w, int64_t step) {
    struct culm_archive_saved saved;
    struct culm_error error = {0};
    if (save_to(w, w->folder, step, &saved, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return saved;
}

static int64_t latest(struct world *w, char ret_warning[CULM_ERROR_MAX]) {
    struct culm_archive_about about;
    struct culm_error error = {0};
    enum culm_status status =
        culm_archive_latest(w->folder, INT64_MAX, &about, ret_warning, &error);
    if (status != CULM_OK) {
        assert_true(status == CULM_ERR_NOT_FOUND || status == CULM_ERR_FORMAT);
        return -1;
    }
    assert_true(about.whole);
    return about.step;
}

/* What is fetched into a new folder is what was saved. */
static void expect_fetched(struct world *w, int64_t step) {
    char other[160], path[CULM_PATH_MAX];
    struct culm_error error = {0};
    struct sample sample;
    snprintf(other, sizeof other, "%s/other-%d", w->dir, (int)step);
    assert_int_equal(culm_dir_make(NULL, other, NULL), CULM_OK);
    if (culm_archive_fetch(w->folder, step, other, beside, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    init_sample(&sample, step);
    assert_int_equal(culm_checkpoint_path(other, step, path, NULL), CULM_OK);
    sample_expect(path, &sample);
    expect_text(other, "events.jsonl", "{\"event\":\"start\"}\n");
    expect_text(other, "cut.npy", step == 30 ? "30" : "the others");
    assert_int_equal(culm_tree_remove(NULL, other, NULL), CULM_OK);
}

static size_t objects(struct world *w) {
    struct culm_names names = {0};
    assert_int_equal(w->folder->ops->list(w->folder, "objects/", &names, NULL), CULM_OK);
    size_t count = names.count;
    culm_names_release(&names);
    return count;
}

/* --- the tests --- */

static void test_what_is_saved_comes_back(void **state) {
    (void)state;
    struct world w;
    char warning[CULM_ERROR_MAX];
    begin(&w);
    assert_int_equal(latest(&w, warning), -1);
    struct culm_archive_saved saved = save(&w, 10);
    assert_true(saved.sent == saved.bytes && !saved.found);
    saved = save(&w, 20);
    assert_true(saved.sent < saved.bytes); /* a stage, and the events, have not changed */
    assert_int_equal(latest(&w, warning), 20);
    assert_string_equal(warning, "");
    expect_fetched(&w, 10);
    expect_fetched(&w, 20);
    saved = save(&w, 20);
    assert_true(saved.found && saved.sent == 0);
    end(&w);
}

static void test_files_may_go_while_they_are_saved(void **state) {
    (void)state;
    struct world w;
    struct culm_archive_saved saved;
    struct culm_error error = {0};
    begin(&w);
    struct culm_archive_source *source = open_source(&w, 10, "r1");
    char path[CULM_PATH_MAX];
    snprintf(path, sizeof path, "%s/checkpoints", w.run);
    assert_int_equal(culm_tree_remove(NULL, path, NULL), CULM_OK);
    write_text(w.run, "events.jsonl", "another file\n");
    if (culm_archive_save(w.folder, source, &saved, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    culm_archive_source_free(source);
    expect_fetched(&w, 10);
    end(&w);
}

/* At every call, done or not: called again it succeeds, and no part that has arrived is sent twice. */
static void test_it_goes_on_after_any_failure(void **state) {
    (void)state;
    int failed = 0;
    for (int fails = BEFORE; fails <= AFTER; fails++) {
        for (int at = 0;; at++) {
            struct world w;
            struct culm_archive_saved saved;
            struct culm_error error = {0};
            begin(&w);
            save(&w, 10);
            w.unruly.at = at;
            w.unruly.fails = fails;
            struct culm_archive_source *source = open_source(&w, 20, "r1");
            enum culm_status status = culm_archive_save(&w.unruly.storage, source, &saved, &error);
            bool reached = atomic_load(&w.unruly.calls) > at;
            if (status != CULM_OK) {
                assert_int_equal(status, CULM_ERR_AGAIN);
                assert_non_null(strstr(error.text, "the storage is away"));
                status = culm_archive_save(&w.unruly.storage, source, &saved, &error);
            }
            failed += reached;
            if (status != CULM_OK) {
                fail_msg("call %d: %s", at, error.text);
            }
            culm_archive_source_free(source);
            char warning[CULM_ERROR_MAX];
            assert_int_equal(latest(&w, warning), 20);
            expect_fetched(&w, 20);
            expect_fetched(&w, 10);
            end(&w);
            if (!reached) {
                break;
            }
        }
    }
    assert_true(failed > 20);
}

static void test_older_ones_go_and_what_stays_is_whole(void **state) {
    (void)state;
    struct world w;
    size_t removed;
    char warning[CULM_ERROR_MAX];
    begin(&w);
    for (int64_t step = 10; step <= 40; step += 10) {
        save(&w, step);
    }
    size_t before = objects(&w);
    assert_int_equal(culm_archive_prune(w.folder, 30, 2, &removed, NULL), CULM_OK);
    assert_int_equal(removed, 1); /* 20, 30; a later one stays */
    assert_true(objects(&w) < before);
    expect_fetched(&w, 20); /* with objects that 10 had stored */
    expect_fetched(&w, 30);
    expect_fetched(&w, 40);
    before = objects(&w);
    assert_int_equal(culm_archive_prune(w.folder, 30, 2, &removed, NULL), CULM_OK);
    assert_true(removed == 0 && objects(&w) == before);
    assert_int_equal(culm_archive_prune(w.folder, 40, 1, &removed, NULL), CULM_OK);
    assert_int_equal(removed, 2);
    expect_fetched(&w, 40);
    assert_int_equal(latest(&w, warning), 40);
    end(&w);
}

static void test_a_removal_that_fails_is_made_up_for(void **state) {
    (void)state;
    for (int at = 0;; at++) {
        struct world w;
        size_t removed, least;
        begin(&w);
        save(&w, 10);
        save(&w, 20);
        save(&w, 30);
        w.unruly.at = at;
        w.unruly.fails = at % 2 ? AFTER : BEFORE;
        bool failed = culm_archive_prune(&w.unruly.storage, 30, 1, &removed, NULL) != CULM_OK;
        expect_fetched(&w, 30);
        assert_int_equal(culm_archive_prune(w.folder, 30, 1, &removed, NULL), CULM_OK);
        least = objects(&w);
        assert_int_equal(least, 6); /* three stages, the manifest, the events, the cut */
        expect_fetched(&w, 30);
        end(&w);
        if (!failed) {
            assert_true(at > 8);
            break;
        }
    }
}

static void test_what_is_damaged_is_passed_over_and_saved_again(void **state) {
    (void)state;
    struct world w;
    struct culm_names names = {0};
    char warning[CULM_ERROR_MAX];
    begin(&w);
    save(&w, 10);
    save(&w, 20);
    assert_int_equal(w.folder->ops->list(w.folder, "objects/00000020-", &names, NULL), CULM_OK);
    culm_names_release(&names);
    assert_int_equal(w.folder->ops->list(w.folder, "objects/", &names, NULL), CULM_OK);
    assert_int_equal(w.folder->ops->remove(w.folder, names.name[names.count - 1], NULL), CULM_OK);
    assert_int_equal(latest(&w, warning), 10);
    assert_non_null(strstr(warning, "step 20"));
    assert_non_null(strstr(warning, "is not there"));
    struct culm_archive_saved saved = save(&w, 20);
    assert_true(!saved.found && saved.sent > 0);
    assert_int_equal(latest(&w, warning), 20);
    assert_int_equal(
        w.folder->ops->put(w.folder, "manifests/step-00000020.json", "{}", 2, false, NULL),
        CULM_OK);
    assert_int_equal(latest(&w, warning), 10);
    assert_false(save(&w, 20).found);
    expect_fetched(&w, 20);
    culm_names_release(&names);
    end(&w);
}

static void test_a_changed_byte_is_not_fetched(void **state) {
    (void)state;
    struct world w;
    struct culm_names names = {0};
    struct culm_error error = {0};
    char other[160], path[CULM_PATH_MAX];
    begin(&w);
    save(&w, 10);
    assert_int_equal(w.folder->ops->list(w.folder, "objects/", &names, NULL), CULM_OK);
    for (size_t i = 0; i < names.count; i++) {
        char *data;
        size_t len;
        assert_int_equal(w.folder->ops->get(w.folder, names.name[i], 1 << 20, &data, &len, NULL),
                         CULM_OK);
        data[len / 2] ^= 1;
        assert_int_equal(w.folder->ops->put(w.folder, names.name[i], data, len, false, NULL),
                         CULM_OK);
        snprintf(other, sizeof other, "%s/other", w.dir);
        assert_int_equal(culm_dir_make(NULL, other, NULL), CULM_OK);
        assert_int_equal(culm_archive_fetch(w.folder, 10, other, beside, &error), CULM_ERR_FORMAT);
        assert_non_null(strstr(error.text, "is damaged"));
        data[len / 2] ^= 1;
        assert_int_equal(w.folder->ops->put(w.folder, names.name[i], data, len, false, NULL),
                         CULM_OK);
        free(data);
    }
    assert_int_equal(culm_archive_fetch(w.folder, 10, other, beside, &error), CULM_OK);
    assert_int_equal(culm_checkpoint_path(other, 10, path, NULL), CULM_OK);
    culm_names_release(&names);
    end(&w);
}

/* A manifest that names files which nobody asks for, such as a run's lock: they are not written. */
static void test_no_other_files_are_written(void **state) {
    (void)state;
    struct world w;
    char other[160], path[CULM_PATH_MAX];
    static const char *const more[] = {"events.jsonl", "lock", NULL};
    struct culm_archive_source *source;
    struct culm_archive_saved saved;
    begin(&w);
    culm_archive_source_free(open_source(&w, 10, "r1"));
    write_text(w.run, "lock", "theirs");
    assert_int_equal(culm_checkpoint_path(w.run, 10, path, NULL), CULM_OK);
    assert_int_equal(culm_archive_source_open(w.run, path, "r1", more, &source, NULL), CULM_OK);
    assert_int_equal(culm_archive_save(w.folder, source, &saved, NULL), CULM_OK);
    culm_archive_source_free(source);
    snprintf(other, sizeof other, "%s/other", w.dir);
    assert_int_equal(culm_dir_make(NULL, other, NULL), CULM_OK);
    write_text(other, "lock", "ours");
    assert_int_equal(culm_archive_fetch(w.folder, 10, other, beside, NULL), CULM_OK);
    expect_text(other, "lock", "ours");
    expect_text(other, "events.jsonl", "{\"event\":\"start\"}\n");
    end(&w);
}

static void test_another_run_is_not_written_over(void **state) {
    (void)state;
    struct world w;
    struct culm_archive_saved saved;
    struct culm_error error = {0};
    begin(&w);
    save(&w, 10);
    struct culm_archive_source *source = open_source(&w, 10, "r2");
    assert_int_equal(culm_archive_save(w.folder, source, &saved, &error), CULM_ERR_EXISTS);
    assert_non_null(strstr(error.text, "of another run (r1)"));
    culm_archive_source_free(source);
    /* Other weights, by the same run. */
    char path[CULM_PATH_MAX];
    assert_int_equal(culm_checkpoint_path(w.run, 10, path, NULL), CULM_OK);
    assert_int_equal(culm_tree_remove(NULL, path, NULL), CULM_OK);
    init_sample(&w.sample, 10);
    w.sample.data[1][0][0] += 1;
    assert_int_equal(sample_publish(NULL, w.run, &w.sample, NULL), CULM_OK);
    assert_int_equal(culm_archive_source_open(w.run, path, "r1", beside, &source, &error), CULM_OK);
    assert_int_equal(culm_archive_save(w.folder, source, &saved, &error), CULM_ERR_EXISTS);
    assert_non_null(strstr(error.text, "another checkpoint of step 10"));
    expect_fetched(&w, 10);
    /* It was of what the run has gone back from. */
    assert_int_equal(culm_archive_forget(w.folder, 10, &error), CULM_OK);
    assert_int_equal(culm_archive_forget(w.folder, 10, &error), CULM_OK);
    assert_int_equal(culm_archive_save(w.folder, source, &saved, &error), CULM_OK);
    assert_false(saved.found);
    culm_archive_source_free(source);
    end(&w);
}

/* --- two at once --- */

struct other {
    struct world *w;
    int64_t step, keep;
    bool saved;
};

/* Another leader saves and removes. */
static void save_and_prune(void *ctx) {
    struct other *other = ctx;
    struct culm_archive_saved saved;
    size_t removed;
    other->saved = save_to(other->w, other->w->folder, other->step, &saved, NULL) == CULM_OK;
    assert_true(other->saved);
    assert_int_equal(culm_archive_prune(other->w->folder, other->step, other->keep, &removed, NULL),
                     CULM_OK);
}

/* One saves `step`, which uses again what 10 has; at any of its calls another one saves 30 and removes all before. */
static void save_beside(int64_t step) {
    int broken = 0;
    for (int at = 0;; at++) {
        struct world w;
        struct culm_archive_saved saved;
        struct culm_error error = {0};
        char warning[CULM_ERROR_MAX];
        begin(&w);
        save(&w, 10);
        struct other other = {.w = &w, .step = 30, .keep = 1};
        w.unruly.at = at;
        w.unruly.act = save_and_prune;
        w.unruly.ctx = &other;
        enum culm_status status = save_to(&w, &w.unruly.storage, step, &saved, &error);
        if (!other.saved) {
            end(&w);
            assert_true(at > 8);
            break;
        }
        broken += status != CULM_OK;
        const int64_t newest = status == CULM_OK && step > 30 ? step : 30;
        assert_int_equal(latest(&w, warning), newest);
        if (newest == step) {
            assert_string_equal(warning, "");
        }
        expect_fetched(&w, newest);
        expect_fetched(&w, 30);
        end(&w);
    }
    assert_true(step < 30 || broken == 0);
}

static void test_one_saves_while_another_saves_and_removes(void **state) {
    (void)state;
    save_beside(20); /* who is behind has no harm done to others */
    save_beside(40);
}

/* The other way round: at any call of one that removes all before 30, another one saves 40, which uses again what is there. */
static void test_one_removes_while_another_saves(void **state) {
    (void)state;
    for (int at = 0;; at++) {
        struct world w;
        size_t removed;
        char warning[CULM_ERROR_MAX];
        begin(&w);
        save(&w, 10);
        save(&w, 20);
        save(&w, 30);
        struct other other = {.w = &w, .step = 40, .keep = 9};
        w.unruly.at = at;
        w.unruly.act = save_and_prune;
        w.unruly.ctx = &other;
        assert_int_equal(culm_archive_prune(&w.unruly.storage, 30, 1, &removed, NULL), CULM_OK);
        if (!other.saved) {
            end(&w);
            assert_true(at > 8);
            break;
        }
        assert_int_equal(latest(&w, warning), 40);
        assert_string_equal(warning, "");
        expect_fetched(&w, 40);
        expect_fetched(&w, 30);
        end(&w);
    }
}

/* --- two whose calls come in any order --- */

struct stage {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int turn;
    bool live[2];
    unsigned seed;
};

struct player {
    struct culm_storage storage;
    struct culm_storage *inner;
    struct stage *stage;
    int number;
    struct culm_archive_source *source; /* NULL: it removes what is before 30 */
    enum culm_status status;
};

static struct player *enter(struct culm_storage *storage) {
    struct player *player = (struct player *)storage;
    struct stage *stage = player->stage;
    pthread_mutex_lock(&stage->lock);
    while (stage->turn != player->number && stage->live[1 - player->number]) {
        pthread_cond_wait(&stage->turned, &stage->lock);
    }
    return player;
}

static void leave(const struct player *player) {
    player->stage->turn = rand_r(&player->stage->seed) / 7 % 2;
    pthread_cond_broadcast(&player->stage->turned);
    pthread_mutex_unlock(&player->stage->lock);
}

#define TURN(call_)                                                                                \
    const struct player *player = enter(storage);                                                  \
    struct culm_storage *inner = player->inner;                                                    \
    enum culm_status status = inner->ops->call_;                                                   \
    leave(player);                                                                                 \
    return status

static enum culm_status turn_put(struct culm_storage *storage, const char *name, const void *data,
                                 size_t len, bool fresh, struct culm_error *error) {
    TURN(put(inner, name, data, len, fresh, error));
}

static enum culm_status turn_get(struct culm_storage *storage, const char *name, size_t max_bytes,
                                 char **ret_data, size_t *ret_len, struct culm_error *error) {
    TURN(get(inner, name, max_bytes, ret_data, ret_len, error));
}

static enum culm_status turn_list(struct culm_storage *storage, const char *prefix,
                                  struct culm_names *ret_names, struct culm_error *error) {
    TURN(list(inner, prefix, ret_names, error));
}

static enum culm_status turn_remove(struct culm_storage *storage, const char *name,
                                    struct culm_error *error) {
    TURN(remove(inner, name, error));
}

static const struct culm_storage_ops turn_ops = {.size = sizeof(struct culm_storage_ops),
                                                 .put = turn_put,
                                                 .get = turn_get,
                                                 .list = turn_list,
                                                 .remove = turn_remove};

static void *play(void *ctx) {
    struct player *player = ctx;
    struct culm_archive_saved saved;
    size_t removed;
    player->status = player->source
                         ? culm_archive_save(&player->storage, player->source, &saved, NULL)
                         : culm_archive_prune(&player->storage, 30, 1, &removed, NULL);
    pthread_mutex_lock(&player->stage->lock);
    player->stage->live[player->number] = false;
    pthread_cond_broadcast(&player->stage->turned);
    pthread_mutex_unlock(&player->stage->lock);
    return NULL;
}

/* 40 uses again what of those that are removed only 20 has. */
static void test_calls_of_two_in_any_order(void **state) {
    (void)state;
    for (unsigned seed = 1; seed <= 300; seed++) {
        struct world w;
        char warning[CULM_ERROR_MAX];
        pthread_t thread[2];
        begin(&w);
        save(&w, 20);
        save(&w, 30);
        struct stage stage = {
            PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, {true, true}, seed};
        struct player player[2] = {{.number = 0, .source = open_source(&w, 40, "r1")},
                                   {.number = 1}};
        for (int i = 0; i < 2; i++) {
            player[i].storage.ops = &turn_ops;
            player[i].inner = w.folder;
            player[i].stage = &stage;
            assert_int_equal(pthread_create(&thread[i], NULL, play, &player[i]), 0);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(player[i].status, CULM_OK);
        }
        culm_archive_source_free(player[0].source);
        if (latest(&w, warning) != 40 || warning[0]) {
            fail_msg("seed %u: %s", seed, warning);
        }
        expect_fetched(&w, 40);
        end(&w);
    }
}

static void expect_no_text(struct world *w, const char *sha256, size_t len, const char *part) {
    struct culm_error error = {0};
    char *text = NULL;
    assert_int_equal(culm_archive_text_get(w->folder, sha256, len, &text, &error), CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, part));
    assert_null(text);
}

/* It outlives all pruning; what is put again is whole again. */
static void test_a_text_stays_and_is_compared(void **state) {
    (void)state;
    static const char plan[] = "{\"plan\": 1}";
    const size_t len = sizeof plan - 1;
    struct world w;
    size_t removed;
    char sha256[CULM_SHA256_HEX], name[CULM_STORAGE_NAME_MAX], *text;
    begin(&w);
    assert_int_equal(culm_archive_text_put(w.folder, plan, len, sha256, NULL), CULM_OK);
    for (int64_t step = 10; step <= 30; step += 10) {
        save(&w, step);
    }
    assert_int_equal(culm_archive_prune(w.folder, 30, 1, &removed, NULL), CULM_OK);
    assert_int_equal(removed, 2);
    assert_int_equal(culm_archive_text_get(w.folder, sha256, len, &text, NULL), CULM_OK);
    assert_string_equal(text, plan);
    free(text);
    expect_no_text(&w, sha256, len + 1, "cut short");
    expect_no_text(&w, sha256, len - 1, "too long");
    snprintf(name, sizeof name, "texts/%s", sha256);
    write_text(w.place, name, "{\"plan\": 2}");
    expect_no_text(&w, sha256, len, "other bytes");
    assert_int_equal(culm_archive_text_put(w.folder, plan, len, sha256, NULL), CULM_OK);
    assert_int_equal(culm_archive_text_get(w.folder, sha256, len, &text, NULL), CULM_OK);
    free(text);
    assert_int_equal(w.folder->ops->remove(w.folder, name, NULL), CULM_OK);
    expect_no_text(&w, sha256, len, "is gone");
    end(&w);
}

/* What cannot be reached is not said to be damaged. */
static void test_a_text_in_a_storage_that_is_away(void **state) {
    (void)state;
    struct world w;
    char sha256[CULM_SHA256_HEX], *text;
    begin(&w);
    w.unruly.at = 0;
    w.unruly.fails = BEFORE;
    assert_int_equal(culm_archive_text_put(&w.unruly.storage, "a", 1, sha256, NULL),
                     CULM_ERR_AGAIN);
    assert_int_equal(culm_archive_text_put(&w.unruly.storage, "a", 1, sha256, NULL), CULM_OK);
    w.unruly.at = 2;
    assert_int_equal(culm_archive_text_get(&w.unruly.storage, sha256, 1, &text, NULL),
                     CULM_ERR_AGAIN);
    end(&w);
}

static void test_names_of_objects(void **state) {
    (void)state;
    assert_true(culm_storage_name_is("objects/00000020-0123456789abcdef/aA09._-"));
    assert_true(culm_storage_name_is("keep.json"));
    static const char *const bad[] = {"",    "/a",  "a/",  "a//b", ".a", "a/.b",  "..", "a/..",
                                      "a b", "a?b", "a%b", "a\nb", "/",  "a/./b", "ä"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(culm_storage_name_is(bad[i]));
    }
    char longest[CULM_STORAGE_NAME_MAX + 1];
    memset(longest, 'a', sizeof longest);
    longest[CULM_STORAGE_NAME_MAX] = '\0';
    assert_false(culm_storage_name_is(longest));
    longest[CULM_STORAGE_NAME_MAX - 1] = '\0';
    assert_true(culm_storage_name_is(longest));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_saved_comes_back),
        cmocka_unit_test(test_files_may_go_while_they_are_saved),
        cmocka_unit_test(test_it_goes_on_after_any_failure),
        cmocka_unit_test(test_older_ones_go_and_what_stays_is_whole),
        cmocka_unit_test(test_a_removal_that_fails_is_made_up_for),
        cmocka_unit_test(test_what_is_damaged_is_passed_over_and_saved_again),
        cmocka_unit_test(test_a_changed_byte_is_not_fetched),
        cmocka_unit_test(test_no_other_files_are_written),
        cmocka_unit_test(test_another_run_is_not_written_over),
        cmocka_unit_test(test_one_saves_while_another_saves_and_removes),
        cmocka_unit_test(test_one_removes_while_another_saves),
        cmocka_unit_test(test_calls_of_two_in_any_order),
        cmocka_unit_test(test_a_text_stays_and_is_compared),
        cmocka_unit_test(test_a_text_in_a_storage_that_is_away),
        cmocka_unit_test(test_names_of_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
