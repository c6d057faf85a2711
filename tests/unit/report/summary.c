/* The summary: surviving history after roll-backs, figures, identity, and its lines. */
#include "events.h"

#include "report/gnn.h"
#include "report/merge.h"
#include "report/training.h"

#include <sys/stat.h>

static void feed(struct culm_summary *summary, const struct culm_summary_job *job,
                 const char *const *events, size_t count) {
    culm_summary_init(summary, job);
    struct culm_sink *sink = culm_sink_summary_new(summary);
    for (size_t i = 0; i < count; i++) {
        give(sink, events[i]);
    }
    culm_sink_free(sink);
}

#define FEED(summary, ...)                                                                         \
    do {                                                                                           \
        const char *const events_[] = {__VA_ARGS__};                                               \
        feed(summary, &culm_summary_training, events_, sizeof events_ / sizeof *events_);          \
    } while (0)

#define START "{'event':'start','redundancy_effective':'eager'}"
#define DONE                                                                                       \
    "{'event':'done','samples_lost':0,'samples_repeated':0,'weights_sha256':'w','state_sha256':'"  \
    "s'}"

static void the_later_line_of_a_step_wins(void **state) {
    (void)state;
    struct culm_summary s;
    FEED(&s, START, "{'event':'step','step':1,'loss':5}", "{'event':'step','step':2,'loss':4}",
         "{'event':'step','step':3,'loss':3}", "{'event':'step','step':2,'loss':4.5}");
    assert_int_equal(s.step_count, 2);
    assert_true(s.steps[1].loss == 4.5);
    assert_int_equal(s.steps_redone, 2);
    culm_summary_release(&s);

    FEED(&s, "{'event':'step','step':1}", "{'event':'step','step':2}", "{'event':'step','step':3}",
         "{'event':'rollback','from_step':3,'to_step':1}");
    assert_int_equal(s.step_count, 1);
    assert_int_equal(s.rollbacks, 1);
    culm_summary_release(&s);
}

/* Another launcher goes on with workers that have outlived the last one: what that one did counts. */
static void a_step_that_is_told_again_is_not_redone(void **state) {
    (void)state;
    struct culm_summary s;
    FEED(&s, START, "{'event':'step','step':1,'loss':5,'tokens_per_s':100}",
         "{'event':'step','step':2,'loss':4,'tokens_per_s':100}", START,
         "{'event':'step','step':1,'loss':5,'again':true}",
         "{'event':'step','step':2,'loss':4,'again':true}",
         "{'event':'step','step':3,'loss':3,'again':true}", "{'event':'step','step':4,'loss':2}");
    assert_int_equal(s.step_count, 4);
    assert_int_equal(s.steps_redone, 0);
    assert_true(s.steps[1].rate == 100);
    assert_true(s.steps[2].loss == 3); /* it was committed, and the last one could not tell of it */
    culm_summary_release(&s);
}

static void figures(void **state) {
    (void)state;
    struct culm_summary s;
    FEED(&s, START, "{'event':'step','step':1,'tokens_per_s':100}",
         "{'event':'step','step':2,'tokens_per_s':300}", "{'event':'lost'}", "{'event':'lost'}",
         "{'event':'recovered','pause_ms':40}", "{'event':'recovered','pause_ms':10.5}",
         "{'event':'recovered','pause_ms':20}", "{'event':'fenced'}", "{'event':'fault'}",
         "{'event':'checkpoint','ok':true}", "{'event':'checkpoint','ok':false}",
         "{'event':'view'}");
    assert_true(culm_summary_pause_median_ms(&s) == 20);
    assert_true(culm_summary_pause_max_ms(&s) == 40);
    assert_true(culm_summary_rate(&s) == 200);
    assert_int_equal(s.losses, 2);
    assert_int_equal(s.fenced, 1);
    assert_int_equal(s.faults, 1);
    assert_int_equal(s.checkpoints, 1);
    assert_int_equal(s.views, 1);
    assert_false(s.done);
    culm_summary_release(&s);
    culm_summary_init(&s, &culm_summary_training);
    assert_true(culm_summary_pause_median_ms(&s) == 0);
    assert_true(culm_summary_rate(&s) == 0);
}

static void identity_is_of_hashes_and_losses(void **state) {
    (void)state;
    struct culm_summary a, b;
    char difference[256] = "";
    FEED(&a, START, "{'event':'step','step':1,'loss':5,'loss_bits':'aa'}",
         "{'event':'step','step':2,'loss':4,'loss_bits':'bb'}", DONE);
    FEED(&b, START, "{'event':'step','step':2,'loss':4,'loss_bits':'bb'}", DONE);
    assert_true(culm_summary_identical(&a, &b, difference, sizeof difference));
    culm_summary_release(&b);

    FEED(&b, START, "{'event':'step','step':2,'loss':4.5,'loss_bits':'bc'}", DONE);
    assert_false(culm_summary_identical(&a, &b, difference, sizeof difference));
    assert_string_equal(difference, "first at the loss of step 2: 4 and 4.5");
    culm_summary_release(&b);

    FEED(&b, START, "{'event':'done','weights_sha256':'w','state_sha256':'t'}");
    assert_false(culm_summary_identical(&a, &b, difference, sizeof difference));
    assert_string_equal(difference, "the optimizer state differs");
    culm_summary_release(&b);

    FEED(&b, START, DONE, START);
    assert_false(culm_summary_identical(&a, &b, difference, sizeof difference));
    assert_string_equal(difference, "the other run did not finish");
    culm_summary_release(&a);
    FEED(&a, START, "{'event':'done'}");
    culm_summary_release(&b);
    FEED(&b, START, "{'event':'done'}");
    assert_false(culm_summary_identical(&a, &b, difference, sizeof difference));
    assert_string_equal(difference, "the runs recorded no hashes");
    culm_summary_release(&b);
    FEED(&b, START, DONE);
    assert_false(culm_summary_identical(&a, &b, difference, sizeof difference));
    assert_string_equal(difference, "this run recorded no hashes");
    assert_false(culm_summary_identical(&b, &a, difference, sizeof difference));
    assert_string_equal(difference, "the other run recorded no hashes");
    culm_summary_release(&a);
    culm_summary_release(&b);
}

/* Nobody says that runs differ of which nothing is known. */
static void runs_without_hashes_may_be_identical(void **state) {
    (void)state;
    struct culm_summary s;
    FEED(&s, START, "{'event':'done'}");
    FILE *file = tmpfile();
    culm_summary_print(&s, "runs/x", &s, file);
    char *text = slurp(file);
    assert_non_null(strstr(text, "  identical          unknown: the runs recorded no hashes\n"));
    free(text);
    fclose(file);
    culm_summary_release(&s);
}

static void closing_lines(void **state) {
    (void)state;
    struct culm_summary s;
    FEED(&s, START, "{'event':'step','step':1,'loss':5,'tokens_per_s':100}",
         "{'event':'step','step':2,'loss':4,'tokens_per_s':100}", "{'event':'lost'}",
         "{'event':'recovered','pause_ms':40}", DONE);
    FILE *file = tmpfile();
    culm_summary_print(&s, "runs/x", &s, file);
    char *text = slurp(file);
    assert_string_equal(text, "  loss               5.0000 (step 1) -> 4.0000 (step 2)\n"
                              "  speed              100 tokens/s (median over 2 steps)\n"
                              "  redundancy         eager\n"
                              "  workers lost       1, all survived\n"
                              "  pause per loss     median 40 ms, longest 40 ms\n"
                              "  samples            0 lost, 0 repeated\n"
                              "  roll-backs         0\n"
                              "  identical          yes: weights, optimizer state and every loss\n"
                              "  files              runs/x\n");
    free(text);
    fclose(file);
    culm_summary_release(&s);

    FEED(&s, START, "{'event':'error','message':'no worker came'}");
    file = tmpfile();
    culm_summary_print(&s, "runs/x", NULL, file);
    text = slurp(file);
    assert_string_equal(text, "  loss               no step was done\n"
                              "  redundancy         eager\n"
                              "  workers lost       0\n"
                              "  roll-backs         0\n"
                              "  finished           no: no worker came\n"
                              "  files              runs/x\n");
    free(text);
    fclose(file);
    culm_summary_release(&s);
}

static void reads_a_run_directory(void **state) {
    (void)state;
    char dir[] = "/tmp/culm-summary-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/events.jsonl", dir);
    struct culm_sink *sink;
    struct culm_error error = {0};
    assert_int_equal(culm_sink_jsonl_open(path, &sink, &error), CULM_OK);
    give(sink, START);
    give(sink, "{'event':'step','step':1,'loss':0.1}");
    give(sink, DONE);
    culm_sink_free(sink);
    struct culm_summary s;
    culm_summary_init(&s, &culm_summary_training);
    assert_int_equal(culm_summary_read(&s, dir, &error), CULM_OK);
    assert_true(s.done);
    assert_true(s.steps[0].loss == 0.1);
    culm_summary_release(&s);
    unlink(path);
    assert_int_equal(culm_summary_read(&s, dir, &error), CULM_ERR_NOT_FOUND);
    rmdir(dir);
}

static void printed(const struct culm_summary_job *job, const char *const *events, size_t count,
                    const char *wanted) {
    struct culm_summary summary;
    feed(&summary, job, events, count);
    FILE *file = tmpfile();
    culm_summary_print(&summary, "runs/x", NULL, file);
    char *text = slurp(file);
    if (!strstr(text, wanted)) {
        fail_msg("no '%s' in\n%s", wanted, text);
    }
    free(text);
    fclose(file);
    culm_summary_release(&summary);
}

/* A check that finds nothing is not counted as drift, and one server is not "1 servers". */
static void jobs_count_what_was(void **state) {
    (void)state;
    const char *checks[] = {"{'event':'drift','query':'a','action':'none'}",
                            "{'event':'drift','query':'a','action':'watched'}",
                            "{'event':'drift','query':'b','action':'none'}",
                            "{'event':'drift','query':'a','action':'reverted'}"};
    printed(&culm_summary_edge, checks, 4,
            "  drift              4 checks: 2 without drift, 1 watched, 1 reverted\n");
    printed(&culm_summary_edge, checks, 1,
            "  drift              1 check: 1 without drift, 0 watched, 0 reverted\n");
    const char *back[] = {
        "{'event':'start','round':3,'package':{'bytes':200,'distinct_bytes':100}}",
        "{'event':'drift','query':'a','action':'reverted'}",
        "{'event':'drift','query':'a','action':'returned'}",
        "{'event':'done','saved':0.125,'queries':[]}"};
    printed(&culm_summary_edge, back, 3,
            "  drift              2 checks: 0 without drift, 0 watched, 1 reverted, 1 returned\n");
    printed(&culm_summary_edge, back, 4,
            "  saved              12.5 % of the weights that queries ran on, on average over the "
            "run\n");
    const char *lost[] = {"{'event':'lost','role':'server','node':0}",
                          "{'event':'lost','role':'worker','node':3}",
                          "{'event':'lost','role':'worker','node':4}"};
    printed(&culm_summary_gnn, lost, 3,
            "  nodes lost         1 server, 0 parameter servers, 2 workers\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_later_line_of_a_step_wins),
        cmocka_unit_test(a_step_that_is_told_again_is_not_redone),
        cmocka_unit_test(figures),
        cmocka_unit_test(identity_is_of_hashes_and_losses),
        cmocka_unit_test(runs_without_hashes_may_be_identical),
        cmocka_unit_test(jobs_count_what_was),
        cmocka_unit_test(closing_lines),
        cmocka_unit_test(reads_a_run_directory),
    };
    return cmocka_run_group_tests_name("report/summary", tests, NULL, NULL);
}
