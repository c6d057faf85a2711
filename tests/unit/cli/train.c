/*
 * The front of `culm train`, with a launcher of the test's own: what reaches it, and that every
 * mistake is answered with the right exit code and leaves nothing behind.
 */
#include "cli/command.h"
#include "launch/rundir.h"
#include "run/train_launch.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What the launcher saw; strings copied, since they are borrowed for the call. */
static struct {
    int calls;
    int64_t steps, lanes;
    char out_dir[256], run[CULM_RUN_ID_SIZE], token[CULM_TOKEN_SIZE], plan[64], trace[64];
    char config_sha256[CULM_SHA256_HEX];
    bool resume, dry_run, json;
    size_t fault_count;
    struct culm_fault_spec fault;
    double time_scale;
    bool accept_inputs, from_start;
} seen;

static void see(const struct culm_train_launch_options *options) {
    seen.calls++;
    seen.steps = options->config->steps;
    seen.lanes = options->config->batch.lanes;
    snprintf(seen.out_dir, sizeof seen.out_dir, "%s", options->run.dir);
    snprintf(seen.run, sizeof seen.run, "%s", options->run.run);
    snprintf(seen.token, sizeof seen.token, "%s", options->run.token);
    snprintf(seen.plan, sizeof seen.plan, "%s", options->plan_path ? options->plan_path : "");
    snprintf(seen.trace, sizeof seen.trace, "%s",
             options->run.trace_path ? options->run.trace_path : "");
    snprintf(seen.config_sha256, sizeof seen.config_sha256, "%s", options->config_sha256);
    seen.resume = options->run.resume;
    seen.accept_inputs = options->run.accept_inputs;
    seen.from_start = options->run.from_start;
    seen.json = options->run.log != NULL;
    seen.dry_run = false;
    seen.fault_count = options->run.fault_count;
    seen.fault = options->run.fault_count ? options->faults[0] : (struct culm_fault_spec){0};
    seen.time_scale = options->run.time_scale;
}

enum culm_status culm_train_launch_plan(const struct culm_train_launch_options *options,
                                        json_t **ret_plan, struct culm_error *error) {
    (void)error;
    see(options);
    seen.dry_run = true;
    *ret_plan = NULL;
    return CULM_OK;
}

enum culm_status culm_train_launch_text(const struct culm_train_launch_options *options,
                                        char **ret_plan, char ret_signature[CULM_SIGNATURE_SIZE],
                                        struct culm_error *error) {
    (void)ret_plan;
    (void)ret_signature;
    see(options);
    return culm_error_set(error, CULM_ERR_UNSUPPORTED, "not here");
}

int culm_train_launch_run(const struct culm_train_launch_options *options,
                          struct culm_launcher_result *ret_result, struct culm_error *ret_error) {
    struct culm_rundir dir;
    see(options);
    assert_true((options->run.log == NULL) != (options->run.screen == NULL));
    memset(ret_result, 0, sizeof *ret_result);
    if (culm_rundir_claim(options->run.dir, options->run.resume, &dir, ret_error) ||
        culm_rundir_begin(&dir, options->config_text, ret_error)) {
        return culm_status_exit_code(ret_error->status);
    }
    culm_rundir_release(&dir);
    return 75;
}

const struct culm_command *culm_commands(void) {
    static const struct culm_command none = {0};
    return &none;
}

static int make_place(void **state) {
    char *root = strdup("/tmp/culm-train-XXXXXX");
    *state = root;
    if (!mkdtemp(root) || chdir(root)) {
        return -1;
    }
    const char text[] = "steps: 5\ndata: {path: a.txt}\n";
    memset(&seen, 0, sizeof seen);
    return culm_file_replace(NULL, "main.yaml", text, strlen(text), NULL) ? -1 : 0;
}

static int drop_place(void **state) {
    int failed = chdir("/tmp");
    culm_tree_remove(NULL, *state, NULL);
    free(*state);
    return failed;
}

/* Runs `culm LINE`; *ret_errors is its standard error. */
static int run(const char *line, char *ret_errors, size_t size) {
    char words[512], *argv[24], *save = NULL;
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        argv[argc++] = word;
    }
    FILE *capture = tmpfile();
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(capture), STDERR_FILENO);
    int code = culm_cli_train(argc, argv);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(capture);
    size_t len = fread(ret_errors, 1, size - 1, capture);
    ret_errors[len] = '\0';
    fclose(capture);
    return code;
}

static void refused(const char *line, int code, const char *message) {
    char errors[1024], expected[1024];
    struct culm_names before, after;
    assert_int_equal(culm_dir_list(".", &before, NULL), CULM_OK);
    int calls = seen.calls;
    assert_int_equal(run(line, errors, sizeof errors), code);
    snprintf(expected, sizeof expected, "culm train: %s\n", message);
    assert_string_equal(errors, expected);
    assert_int_equal(seen.calls, calls);
    assert_int_equal(culm_dir_list(".", &after, NULL), CULM_OK);
    assert_int_equal(before.count, after.count);
    culm_names_release(&before);
    culm_names_release(&after);
}

static void options_reach_the_launcher(void **state) {
    (void)state;
    char errors[1024];
    assert_int_equal(run("train main.yaml --set steps=9 --set batch.lanes=8 --plan p.json "
                         "--preempt-trace t.csv --time-scale 4 --json --fault "
                         "worker=2,step=9,phase=backward --out here/run",
                         errors, sizeof errors),
                     75);
    assert_string_equal(errors, "");
    assert_int_equal(seen.steps, 9);
    assert_int_equal(seen.lanes, 8);
    assert_string_equal(seen.out_dir, "here/run");
    assert_string_equal(seen.plan, "p.json");
    assert_string_equal(seen.trace, "t.csv");
    assert_true(seen.time_scale == 4);
    assert_true(seen.json);
    assert_false(seen.dry_run);
    assert_false(seen.resume);
    assert_int_equal(seen.fault_count, 1);
    assert_int_equal(seen.fault.worker, 2);
    assert_int_equal(strlen(seen.run), 16);
    assert_int_equal(strlen(seen.token), 64);
    assert_int_equal(strlen(seen.config_sha256), 64);

    char run_before[CULM_RUN_ID_SIZE], token_before[CULM_TOKEN_SIZE];
    strcpy(run_before, seen.run);
    strcpy(token_before, seen.token);
    assert_int_equal(run("train main.yaml", errors, sizeof errors), 75);
    assert_string_equal(seen.out_dir, "runs/main");
    assert_true(seen.time_scale == 1);
    assert_string_not_equal(seen.run, run_before);
    assert_string_not_equal(seen.token, token_before);
}

static void an_existing_run_is_resumed_or_refused(void **state) {
    (void)state;
    char errors[1024];
    refused("train main.yaml --resume", 3,
            "'runs/main': no run to resume (no config.yaml); leave out --resume to start one");
    assert_int_equal(run("train main.yaml", errors, sizeof errors), 75);
    refused(
        "train main.yaml", 3,
        "'runs/main': a run is already there ('config.yaml'); continue it with --resume, or choose "
        "another --out");
    assert_int_equal(run("train main.yaml --resume --set pipelines=1 --set cluster.join_ms=9",
                         errors, sizeof errors),
                     75);
    assert_true(seen.resume);
    refused("train main.yaml --resume --set seed=2", 3,
            "seed: the run has 1, this configuration 2; --resume may change only data.check_s, "
            "pipelines, stages, redundancy, cuts, recompute, memory_mb, threads, checkpoint, eval "
            "and cluster "
            "settings; another run can begin with its weights: --out NEW --set "
            "model.init=runs/main");
    refused("train main.yaml --resume --set model.layers=7", 3,
            "model.layers: the run has 6, this configuration 7; --resume may change only "
            "data.check_s, pipelines, stages, redundancy, cuts, recompute, memory_mb, threads, "
            "checkpoint, eval and cluster settings");
    refused("train main.yaml --resume --set data.path=b.txt", 3,
            "data.path: the run has a.txt, this configuration b.txt; put it back, or take it up "
            "with --resume --accept-inputs");
    assert_false(seen.accept_inputs);
    assert_int_equal(run("train main.yaml --resume --accept-inputs --set data.path=b.txt "
                         "--set optimizer.lr=0.5 --set steps=9",
                         errors, sizeof errors),
                     75);
    assert_string_equal(errors, "culm train: stopped; continue with --resume\n");
    assert_true(seen.accept_inputs && !seen.from_start);
    assert_int_equal(seen.steps, 9);
    assert_int_equal(run("train runs/main/config.yaml --resume --from-start --out runs/main",
                         errors, sizeof errors),
                     75);
    assert_true(seen.from_start && !seen.accept_inputs);
}

static void a_dry_run_writes_nothing(void **state) {
    (void)state;
    char errors[1024];
    assert_int_equal(run("train main.yaml --dry-run", errors, sizeof errors), 0);
    assert_true(seen.dry_run);
    assert_false(culm_file_is_directory("runs"));
}

static void mistakes(void **state) {
    (void)state;
    refused("train", 2, "needs CONFIG.yaml; see 'culm train --help'");
    refused("train main.yaml other.yaml", 2,
            "one argument too many: 'other.yaml'; see 'culm train --help'");
    refused("train main.yaml --resum", 2,
            "unknown option '--resum'; did you mean '--resume'; see 'culm train --help'");
    refused("train main.yaml --time-scale 2", 2,
            "--time-scale means nothing without --preempt-trace FILE");
    refused("train main.yaml --from-start", 2, "--from-start means nothing without --resume");
    refused("train main.yaml --accept-inputs", 2, "--accept-inputs means nothing without --resume");
    refused("train main.yaml --set steps", 2,
            "--set: 'steps': no key and value; write --set key.sub=value");
    refused("train none.yaml", 3, "read 'none.yaml': No such file or directory");
    refused("train main.yaml --set pipelines=0", 3,
            "--set: pipelines: 0 is out of range; allowed: 1 to 4096");
    refused("train main.yaml --set stages=7 --set pipelines=1", 3,
            "--set: stages: 7 stages for 6 layers, and each needs one; allowed: 1 to 6");
    refused("train main.yaml --fault worker=1", 3,
            "--fault 'worker=1': step is missing; required: a step, from 1");
    refused("train main.yaml --fault worker=1,step=6", 3,
            "--fault 'worker=1,step=6': step 6 never comes; the run has 5");
    refused("train main.yaml --set cluster.replace_ms=-1 --fault worker=6,step=1", 3,
            "--fault 'worker=6,step=1': no worker 6, since none is replaced; allowed: 0 to 5");
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, drop_place)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(options_reach_the_launcher),
        IN_PLACE(an_existing_run_is_resumed_or_refused),
        IN_PLACE(a_dry_run_writes_nothing),
        IN_PLACE(mistakes),
    };
    return cmocka_run_group_tests_name("cli/train", tests, NULL, NULL);
}
