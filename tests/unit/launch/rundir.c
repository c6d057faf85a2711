/* Run directories: refused without a trace, claimed by one at a time, freed with the process. */
#include "launch/rundir.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    char root[64], dir[128];
};

static int make_place(void **state) {
    struct place *place = calloc(1, sizeof *place);
    strcpy(place->root, "/tmp/culm-rundir-XXXXXX");
    if (!mkdtemp(place->root)) {
        return -1;
    }
    snprintf(place->dir, sizeof place->dir, "%s/runs/a", place->root);
    *state = place;
    return 0;
}

static int drop_place(void **state) {
    struct place *place = *state;
    culm_tree_remove(NULL, place->root, NULL);
    free(place);
    return 0;
}

static void refused(enum culm_status status, enum culm_status expected, const char *dir,
                    const struct culm_error *error, const char *what) {
    char text[512];
    assert_int_equal(status, expected);
    snprintf(text, sizeof text, "'%s'%s", dir, what);
    assert_string_equal(error->text, text);
}

/* Claims the directory and writes the configuration. */
static enum culm_status claim(const char *path, bool resume, const char *config_text,
                              struct culm_rundir *ret_dir, struct culm_error *error) {
    struct culm_rundir dir;
    enum culm_status status = culm_rundir_claim(path, resume, &dir, error);
    if (status == CULM_OK) {
        status = culm_rundir_begin(&dir, config_text, error);
        *ret_dir = dir;
    }
    return status;
}

/* Files of a run are known by their names, in its directory and in its folders. */
static void a_run_owns_its_files(void **state) {
    struct place *place = *state;
    static const char *const own[] = {"model.safetensors",
                                      "config.yaml",
                                      "cut.npy",
                                      "lock",
                                      "checkpoints/step-00000001/manifest.json",
                                      "logs/new"};
    struct culm_error error = {0};
    struct culm_rundir dir;
    char path[256], before[4096];
    assert_int_equal(claim(place->dir, false, "x: 1\n", &dir, &error), CULM_OK);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000001", place->dir);
    assert_int_equal(culm_dir_make(NULL, path, &error), CULM_OK);
    snprintf(path, sizeof path, "%s/logs", place->dir);
    assert_int_equal(culm_dir_make(NULL, path, &error), CULM_OK);
    snprintf(path, sizeof path, "%s/model.safetensors", place->dir);
    assert_false(culm_rundir_owns(path)); /* it has no events: anybody's folder */
    snprintf(path, sizeof path, "%s/events.jsonl", place->dir);
    assert_int_equal(culm_file_replace(NULL, path, "", 0, &error), CULM_OK);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        snprintf(path, sizeof path, "%s/%s", place->dir, own[i]);
        assert_true(culm_rundir_owns(path));
    }
    snprintf(path, sizeof path, "%s/logits.npy", place->dir);
    assert_false(culm_rundir_owns(path));
    snprintf(path, sizeof path, "%s/model.safetensors", place->root);
    assert_false(culm_rundir_owns(path));
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(place->dir), 0);
    assert_true(culm_rundir_owns("plan.json") && culm_rundir_owns("../a/plan.json"));
    assert_false(culm_rundir_owns("plan.npy") || culm_rundir_owns("nowhere/plan.json"));
    assert_int_equal(chdir(before), 0);
    culm_rundir_release(&dir);
}

static void a_graph_is_no_place_for_a_run(void **state) {
    struct place *place = *state;
    struct culm_error error = {0};
    char path[256];
    assert_int_equal(culm_dir_make(NULL, place->dir, &error), CULM_OK);
    snprintf(path, sizeof path, "%s/graph.json", place->dir);
    assert_int_equal(culm_file_replace(NULL, path, "{}", 2, &error), CULM_OK);
    refused(culm_rundir_check(place->dir, false, &error), CULM_ERR_EXISTS, place->dir, &error,
            " is the folder of a graph ('graph.json'); choose another --out");
}

static void a_fresh_run_writes_its_configuration(void **state) {
    struct place *place = *state;
    struct culm_rundir dir;
    struct culm_error error = {0};
    assert_int_equal(culm_rundir_check(place->dir, false, &error), CULM_OK);
    assert_false(culm_file_is_directory(place->dir)); /* looking wrote nothing */
    assert_int_equal(culm_rundir_claim(place->dir, false, &dir, &error), CULM_OK);
    culm_rundir_release(&dir); /* claimed, not begun: still no run */
    assert_int_equal(culm_rundir_check(place->dir, true, NULL), CULM_ERR_NOT_FOUND);
    if (claim(place->dir, false, "steps: 1\n", &dir, &error)) {
        fail_msg("%s", error.text);
    }
    char path[256], *text;
    size_t len;
    snprintf(path, sizeof path, "%s/config.yaml", place->dir);
    assert_int_equal(culm_file_read(NULL, path, 100, &text, &len, &error), CULM_OK);
    assert_string_equal(text, "steps: 1\n");
    free(text);
    culm_rundir_release(&dir);
    culm_rundir_release(&dir);
}

/* What came to nothing takes back what is its own, and no file that had such a name before. */
static void a_run_taken_back_leaves_what_was_there(void **state) {
    static const char *const name[] = {"lock", "events.jsonl"};
    struct place *place = *state;
    struct culm_rundir dir;
    struct culm_error error = {0};
    char path[256];
    assert_int_equal(culm_dir_make(NULL, place->dir, &error), CULM_OK);
    for (int before = -1; before < 1; before++) { /* none of them; the lock */
        snprintf(path, sizeof path, "%s/%s", place->dir, name[0]);
        if (before == 0) {
            assert_int_equal(culm_file_replace(NULL, path, "mine\n", 5, &error), CULM_OK);
        }
        assert_int_equal(claim(place->dir, false, "steps: 1\n", &dir, &error), CULM_OK);
        snprintf(path, sizeof path, "%s/%s", place->dir, name[1]);
        assert_int_equal(culm_file_replace(NULL, path, "{}\n", 3, &error), CULM_OK);
        culm_rundir_take_back(&dir);
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/%s", place->dir, name[i]);
            assert_int_equal(culm_file_is_regular(path), i == before);
        }
        assert_true(culm_file_is_directory(place->dir));
    }
}

static void an_existing_run_is_refused_and_left_alone(void **state) {
    struct place *place = *state;
    const char *const names[] = {"config.yaml", "events.jsonl", "plan.json", "model.safetensors"};
    for (size_t i = 0; i < 4; i++) {
        char path[256], what[256];
        struct culm_rundir dir;
        struct culm_error error = {0};
        struct culm_names found;
        assert_int_equal(culm_dir_make(NULL, place->dir, NULL), CULM_OK);
        snprintf(path, sizeof path, "%s/%s", place->dir, names[i]);
        assert_int_equal(culm_file_replace(NULL, path, "x", 1, NULL), CULM_OK);
        snprintf(
            what, sizeof what,
            ": a run is already there ('%s'); continue it with --resume, or choose another --out",
            names[i]);
        refused(culm_rundir_check(place->dir, false, &error), CULM_ERR_EXISTS, place->dir, &error,
                what);
        refused(claim(place->dir, false, "y", &dir, &error), CULM_ERR_EXISTS, place->dir, &error,
                what);
        assert_int_equal(culm_dir_list(place->dir, &found, NULL), CULM_OK);
        assert_int_equal(found.count, 1); /* no lock, no new configuration */
        culm_names_release(&found);
        assert_int_equal(culm_tree_remove(NULL, place->dir, NULL), CULM_OK);
    }
}

/* What is there is said: it may be of another command than the one that is asked. */
static void a_run_says_whose_it_is(void **state) {
    struct place *place = *state;
    struct culm_error error = {0};
    char path[256];
    const char *start = "{\"event\":\"start\",\"job\":\"merge\"}\n";
    assert_int_equal(culm_dir_make(NULL, place->dir, NULL), CULM_OK);
    snprintf(path, sizeof path, "%s/events.jsonl", place->dir);
    assert_int_equal(culm_file_replace(NULL, path, start, strlen(start), NULL), CULM_OK);
    refused(culm_rundir_check(place->dir, false, &error), CULM_ERR_EXISTS, place->dir, &error,
            ": a run of culm merge is already there ('events.jsonl'); continue it with --resume, "
            "or choose another --out");
}

static void a_file_in_the_way_is_refused(void **state) {
    struct place *place = *state;
    struct culm_error error = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/file", place->root);
    assert_int_equal(culm_file_replace(NULL, path, "x", 1, NULL), CULM_OK);
    refused(culm_rundir_check(path, false, &error), CULM_ERR_EXISTS, path, &error,
            " is not a directory; choose another --out");
    assert_int_equal(culm_status_exit_code(error.status), 3);
}

static void other_files_do_not_matter(void **state) {
    struct place *place = *state;
    struct culm_rundir dir;
    char path[256];
    assert_int_equal(culm_dir_make(NULL, place->dir, NULL), CULM_OK);
    snprintf(path, sizeof path, "%s/notes.txt", place->dir);
    assert_int_equal(culm_file_replace(NULL, path, "x", 1, NULL), CULM_OK);
    assert_int_equal(claim(place->dir, false, "steps: 1\n", &dir, NULL), CULM_OK);
    culm_rundir_release(&dir);
}

static void resuming_needs_a_run(void **state) {
    struct place *place = *state;
    struct culm_rundir dir;
    struct culm_error error = {0};
    const char *what = ": no run to resume (no config.yaml); leave out --resume to start one";
    refused(culm_rundir_check(place->dir, true, &error), CULM_ERR_NOT_FOUND, place->dir, &error,
            what);
    refused(claim(place->dir, true, "x", &dir, &error), CULM_ERR_NOT_FOUND, place->dir, &error,
            what);
    assert_false(culm_file_is_directory(place->dir));
    assert_int_equal(culm_status_exit_code(error.status), 3);

    assert_int_equal(claim(place->dir, false, "steps: 1\n", &dir, &error), CULM_OK);
    culm_rundir_release(&dir);
    assert_int_equal(claim(place->dir, true, "steps: 1\n", &dir, &error), CULM_OK);
    culm_rundir_release(&dir);
}

static void two_launchers_do_not_share_a_directory(void **state) {
    struct place *place = *state;
    struct culm_rundir dir, second;
    struct culm_error error = {0};
    char what[256];
    assert_int_equal(claim(place->dir, false, "steps: 1\n", &dir, &error), CULM_OK);
    snprintf(what, sizeof what,
             ": another launcher (pid %d) is at work there; wait for it or choose another --out",
             (int)getpid());
    refused(claim(place->dir, true, "steps: 2\n", &second, &error), CULM_ERR_EXISTS, place->dir,
            &error, what);
    culm_rundir_release(&dir);
    assert_int_equal(claim(place->dir, true, "steps: 1\n", &second, &error), CULM_OK);
    culm_rundir_release(&second);
}

static pid_t holder;

static void kill_holder(int number) {
    (void)number;
    kill(holder, SIGKILL);
}

static void a_killed_launcher_leaves_no_lock(void **state) {
    struct place *place = *state;
    struct culm_rundir dir;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        bool ok = claim(place->dir, false, "steps: 1\n", &dir, NULL) == CULM_OK;
        ok = write(ready[1], ok ? "y" : "n", 1) == 1;
        for (;;) {
            pause();
        }
    }
    char answer = 0;
    assert_int_equal(read(ready[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    assert_int_equal(claim(place->dir, true, "x", &dir, NULL), CULM_ERR_EXISTS);
    /* It is still ending when the next one comes, which waits for that. */
    holder = child;
    signal(SIGALRM, kill_holder);
    const struct itimerval soon = {.it_value = {.tv_usec = 50000}};
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    assert_int_equal(claim(place->dir, true, "steps: 1\n", &dir, NULL), CULM_OK);
    signal(SIGALRM, SIG_DFL);
    culm_rundir_release(&dir);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
}

static void a_directory_that_went_is_missed(void **state) {
    struct place *place = *state;
    struct culm_rundir dir, another;
    char name[256];
    assert_int_equal(claim(place->dir, false, "steps: 1\n", &dir, NULL), CULM_OK);
    assert_true(culm_rundir_is_there(&dir));
    snprintf(name, sizeof name, "%s.moved", place->dir);
    assert_int_equal(rename(place->dir, name), 0);
    assert_false(culm_rundir_is_there(&dir));
    assert_int_equal(claim(place->dir, false, "steps: 1\n", &another, NULL), CULM_OK);
    assert_false(culm_rundir_is_there(&dir)); /* the name is somebody else's now */
    assert_true(culm_rundir_is_there(&another));
    culm_rundir_release(&another);
    culm_rundir_release(&dir);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, drop_place)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(a_run_owns_its_files),
        IN_PLACE(a_graph_is_no_place_for_a_run),
        IN_PLACE(a_fresh_run_writes_its_configuration),
        IN_PLACE(an_existing_run_is_refused_and_left_alone),
        IN_PLACE(a_run_taken_back_leaves_what_was_there),
        IN_PLACE(a_run_says_whose_it_is),
        IN_PLACE(a_file_in_the_way_is_refused),
        IN_PLACE(other_files_do_not_matter),
        IN_PLACE(resuming_needs_a_run),
        IN_PLACE(two_launchers_do_not_share_a_directory),
        IN_PLACE(a_killed_launcher_leaves_no_lock),
        IN_PLACE(a_directory_that_went_is_missed),
    };
    return cmocka_run_group_tests_name("launch/rundir", tests, NULL, NULL);
}
