/*
 * A job that is not training: it counts epochs, knows accuracies and ghosts, and has tables of its
 * own. Nothing of it is in what shows and adds.
 */
#include "events.h"

#include "../folder.h"

#include "report/terminal_rows.h"
#include "report/training.h"

#include <string.h>

/* --- its tables --- */

static enum culm_status add_epoch(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    const struct culm_summary_step step = {
        .step = culm_event_int(event, "epoch", 0),
        .loss = culm_event_real(event, "loss", 0),
        .rate = 1000 / culm_event_real(event, "epoch_ms", 1),
        .step_ms = culm_event_real(event, "epoch_ms", 0),
    };
    snprintf(s->rate_of, sizeof s->rate_of, "epochs");
    return culm_summary_add_step(s, &step, event, error);
}

static const struct culm_summary_row rows[] = {
    {"start", .add = culm_summary_add_start},
    {"epoch", .add = add_epoch},
    {"done", .add = culm_summary_add_done},
    {"error", .add = culm_summary_add_error},
    {"lost", .count = offsetof(struct culm_summary, losses)},
    {0},
};

static bool epochs(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%zu, %.1f %s/s", s->step_count, culm_summary_rate(s), s->rate_of);
    return s->step_count > 0;
}

static bool servers_lost(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%lld", (long long)s->losses);
    return s->losses > 0;
}

static const struct culm_summary_line lines[] = {
    {"epochs", epochs}, {"servers lost", servers_lost}, {0}};

static const struct culm_summary_job graphs = {
    .step = "epoch", .rows = rows, .lines = lines, .name = "graphs"};

static void epoch_lines(struct culm_terminal *t, const json_t *event) {
    int64_t epoch = culm_event_int(event, "epoch", 0);
    snprintf(t->step_line, sizeof t->step_line, "epoch %lld  valid %.1f %%", (long long)epoch,
             100 * culm_event_real(event, "valid", 0));
    culm_terminal_step(t, event, epoch == t->options.steps);
}

static void tune_line(struct culm_terminal *t, const json_t *event) {
    culm_buf_printf(&t->out, "%lld workers: ", (long long)culm_event_int(event, "workers", 0));
    culm_terminal_member(t, event, "why", "?");
}

static const struct culm_terminal_row shown[] = {
    {"epoch", .lines = epoch_lines},
    {"tune", CULM_TERMINAL_PLAIN, .line = tune_line},
    {"done", .lines = culm_terminal_steps_end},
    {0},
};

static const char *const events[] = {
    "{'event':'start','t_ms':0}",
    "{'event':'epoch','t_ms':100,'epoch':1,'loss':2,'loss_bits':'a','valid':0.5,'epoch_ms':100}",
    "{'event':'step','t_ms':150,'step':1,'loss':7}",
    "{'event':'tune','t_ms':200,'workers':4,'why':'the queue grows'}",
    "{'event':'epoch','t_ms':300,'epoch':2,'loss':1.5,'loss_bits':'b','valid':0.75,'epoch_ms':100}",
    "{'event':'lost','t_ms':350}",
    "{'event':'epoch','t_ms':400,'epoch':2,'loss':1.5,'loss_bits':'b','valid':0.75,'epoch_ms':100}",
    "{'event':'done','t_ms':500,'weights_sha256':'w','state_sha256':'s'}",
};
#define EVENTS (sizeof events / sizeof *events)

static void read_all(struct culm_summary *summary, const char *last_bits) {
    culm_summary_init(summary, &graphs);
    struct culm_sink *sink = culm_sink_summary_new(summary);
    for (size_t i = 0; i < EVENTS; i++) {
        give(sink, events[i]);
    }
    culm_sink_free(sink);
    snprintf(summary->steps[1].loss_bits, sizeof summary->steps[1].loss_bits, "%s", last_bits);
}

static void a_summary_has_the_lines_of_its_job(void **state) {
    (void)state;
    struct culm_summary summary, other;
    read_all(&summary, "b");
    read_all(&other, "c");
    assert_int_equal(summary.step_count, 2); /* an event "step" is not its own */
    assert_int_equal(summary.steps_redone, 1);
    FILE *file = tmpfile();
    culm_summary_print(&summary, "runs/g", &other, file);
    char *text = slurp(file);
    assert_string_equal(text, "  epochs             2, 10.0 epochs/s\n"
                              "  servers lost       1\n"
                              "  identical          no: first at the loss of epoch 2: 1.5 and 1.5\n"
                              "  files              runs/g\n");
    free(text);
    fclose(file);
    culm_summary_release(&summary);
    culm_summary_release(&other);
}

static void write_events(const char *text) {
    char path[64], json[512];
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    snprintf(json, sizeof json, "%s", text);
    for (char *at = json; *at; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    assert_int_equal(culm_file_replace(NULL, path, json, strlen(json), NULL), CULM_OK);
}

static void a_run_says_of_which_job_it_is(void **state) {
    (void)state;
    static const struct culm_summary_job *const jobs[] = {&culm_summary_training, &graphs, NULL};
    const struct culm_summary_job *job = NULL;
    struct culm_error error = {0};
    char text[256];
    assert_int_equal(culm_summary_job_of(folder, jobs, &job, &error), CULM_ERR_NOT_FOUND);
    snprintf(text, sizeof text, "'%s' is not a run: it has no events.jsonl", folder);
    assert_string_equal(error.text, text);
    assert_int_equal(culm_summary_job_of("/dev/null", jobs, &job, &error), CULM_ERR_IO);
    assert_string_equal(error.text, "'/dev/null' is not a run: it has no events.jsonl");
    write_events("{'event':'start','t_ms':0,'job':'graphs'}\n{'event':'start','t_ms':0}\n");
    assert_int_equal(culm_summary_job_of(folder, jobs, &job, &error), CULM_OK);
    assert_ptr_equal(job, &graphs);
    write_events("{'event':'start','t_ms':0}\n");
    assert_int_equal(culm_summary_job_of(folder, jobs, &job, &error), CULM_OK);
    assert_ptr_equal(job, &culm_summary_training);
    write_events("");
    assert_int_equal(culm_summary_job_of(folder, culm_summary_jobs, &job, &error), CULM_OK);
    assert_ptr_equal(job, &culm_summary_training);
    write_events("nonsense\n{'event':'step','t_ms':0}\n");
    assert_int_equal(culm_summary_job_of(folder, jobs, &job, &error), CULM_ERR_FORMAT);
    write_events("{'event':'start','t_ms':0,'job':'weather'}\n");
    assert_int_equal(culm_summary_job_of(folder, jobs, &job, &error), CULM_ERR_CONFIG);
    snprintf(text, sizeof text,
             "'%s' is a run of the job 'weather', which this version does not know", folder);
    assert_string_equal(error.text, text);
}

static void a_terminal_shows_the_rows_of_its_job(void **state) {
    (void)state;
    FILE *file = tmpfile();
    const struct culm_terminal_options options = culm_terminal_options_of(fileno(file), shown, 10);
    struct culm_sink *sink = culm_sink_terminal_new(&options);
    for (size_t i = 0; i < EVENTS; i++) {
        give(sink, events[i]);
    }
    culm_sink_free(sink);
    char *text = slurp(file);
    assert_string_equal(text, "[    0.1 s] epoch 1  valid 50.0 %\n"
                              "[    0.2 s] 4 workers: the queue grows\n"
                              "[    0.5 s] epoch 2  valid 75.0 %\n");
    free(text);
    fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_summary_has_the_lines_of_its_job),
        cmocka_unit_test(a_run_says_of_which_job_it_is),
        cmocka_unit_test(a_terminal_shows_the_rows_of_its_job),
    };
    return cmocka_run_group_tests_name("report/job", tests, make_folder, drop_folder);
}
