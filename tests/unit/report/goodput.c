/*
 * Goodput, on hand-written events whose answers are known: what is useful, redone, paused, waiting and
 * saving, over losses, roll-backs and resumes. Whatever comes, the kinds add up to the wall time.
 */
#include "events.h"

#include "../folder.h"

#include "report/gnn.h"
#include "report/merge.h"
#include "report/training.h"

#include <math.h>
#include <string.h>

#define LINES(...)                                                                                 \
    (const char *const[]) { __VA_ARGS__, NULL }

static void feed(struct culm_summary *s, const struct culm_summary_job *job,
                 const char *const *lines) {
    culm_summary_init(s, job);
    struct culm_sink *sink = culm_sink_summary_new(s);
    for (; *lines; lines++) {
        give(sink, *lines);
    }
    culm_sink_free(sink);
}

static void check_times(const struct culm_goodput *g, size_t launch,
                        const double want[CULM_GOODPUT_KINDS], const char *file, int line) {
    const struct culm_goodput_times times = culm_goodput_times_of(g, launch);
    for (int k = 0; k < CULM_GOODPUT_KINDS; k++) {
        if (times.ms[k] != want[k]) {
            fail_msg("%s:%d: %s: %g ms, not %g", file, line, culm_goodput_names[k], times.ms[k],
                     want[k]);
        }
    }
}

/* useful, redone, paused, waiting, saving; of one launch, or of all. */
#define TIMES_OF(s, launch, ...)                                                                   \
    check_times(&(s)->goodput, launch, (const double[]){__VA_ARGS__}, __FILE__, __LINE__)
#define TIMES(s, ...) TIMES_OF(s, SIZE_MAX, __VA_ARGS__)

static void check_events(const struct culm_summary_job *job, const char *const *lines,
                         const double *want, const char *file, int line) {
    struct culm_summary s;
    feed(&s, job, lines);
    check_times(&s.goodput, SIZE_MAX, want, file, line);
    culm_summary_release(&s);
}

#define EXPECT(job, lines, ...)                                                                    \
    check_events(&(job), lines, (const double[]){__VA_ARGS__}, __FILE__, __LINE__)

/* Whatever ends: 100 ms until the first step. */
#define BEGIN                                                                                      \
    "{'event':'start','t_ms':0}", "{'event':'plan','t_ms':0}",                                     \
        "{'event':'waiting','t_ms':10,'need':2,'have':0}",                                         \
        "{'event':'joined','t_ms':30,'node':0}", "{'event':'joined','t_ms':35,'node':1}",          \
        "{'event':'view','t_ms':40,'phase':'load','step':1}",                                      \
        "{'event':'view','t_ms':100,'phase':'run','step':1}"

static void an_undisturbed_run(void **state) {
    (void)state;
    struct culm_summary s;
    feed(&s, &culm_summary_training,
         LINES(BEGIN, "{'event':'step','t_ms':200,'step':1}",
               "{'event':'step','t_ms':300,'step':2}",
               "{'event':'checkpoint','t_ms':350,'step':2,'ok':true,'waited':false}",
               "{'event':'step','t_ms':400,'step':3}",
               "{'event':'checkpoint','t_ms':450,'step':3,'ok':true,'waited':true}",
               "{'event':'done','t_ms':500}"));
    TIMES(&s, 300, 0, 0, 100, 100);
    const struct culm_goodput_times times = culm_goodput_times_of(&s.goodput, SIZE_MAX);
    assert_true(culm_goodput_wall_ms(&times) == 500);
    assert_true(culm_goodput_share(&times) == 0.6);
    culm_summary_release(&s);

    /* No step was left to do: nothing was done in vain. */
    EXPECT(culm_summary_training, LINES(BEGIN, "{'event':'done','t_ms':160}"), 0, 0, 0, 100, 60);
    /* The end waited for an evaluation that ran beside the steps. */
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'step','t_ms':200,'step':1}",
                 "{'event':'eval','t_ms':200,'step':1,'ok':true}",
                 "{'event':'eval','t_ms':250,'step':1,'ok':true,'waited_ms':25}",
                 "{'event':'done','t_ms':250}"),
           100, 0, 0, 125, 50);
}

static void a_loss_pauses_until_its_work_goes_on(void **state) {
    (void)state;
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'step','t_ms':200,'step':1}",
                 "{'event':'lost','t_ms':230,'node':1,'cause':'eof','stages':[1]}",
                 "{'event':'view','t_ms':231,'phase':'run','step':2}",
                 "{'event':'recovered','t_ms':250,'node':1,'pause_ms':20}",
                 "{'event':'step','t_ms':330,'step':2}", "{'event':'done','t_ms':340}"),
           100 + 30 + 80, 0, 20, 100, 10);
    /* Two at once: the pause is as long as both together, and counts once. */
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'lost','t_ms':110,'node':0,'stages':[0]}",
                 "{'event':'lost','t_ms':120,'node':1,'stages':[1]}",
                 "{'event':'recovered','t_ms':130,'node':0}",
                 "{'event':'recovered','t_ms':150,'node':1}",
                 "{'event':'step','t_ms':160,'step':1}"),
           20, 0, 40, 100, 0);
    /* One that stood by: nothing pauses. */
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'lost','t_ms':110,'node':5,'stages':[]}",
                 "{'event':'step','t_ms':160,'step':1}"),
           60, 0, 0, 100, 0);
    /* Its step was done already: that was useful, and the pause goes on. */
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'lost','t_ms':110,'node':1,'stages':[1]}",
                 "{'event':'step','t_ms':120,'step':1}",
                 "{'event':'recovered','t_ms':150,'node':1}",
                 "{'event':'step','t_ms':160,'step':2}"),
           20, 0, 40, 100, 0);
}

static void what_nothing_moved_in_was_a_pause(void **state) {
    (void)state;
    EXPECT(
        culm_summary_training,
        LINES(
            BEGIN, "{'event':'step','t_ms':200,'step':1}",
            "{'event':'lost','t_ms':3300,'node':1,'cause':'heartbeat','for_ms':3000,'stages':[1]}",
            "{'event':'recovered','t_ms':3310,'node':1}", "{'event':'step','t_ms':3400,'step':2}"),
        100 + 100 + 90, 0, 3010, 100, 0);
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'stalled','t_ms':600,'for_ms':400}",
                 "{'event':'lost','t_ms':600,'node':1,'cause':'stalled','stages':[1]}",
                 "{'event':'recovered','t_ms':650,'node':1}",
                 "{'event':'step','t_ms':700,'step':1}"),
           150, 0, 450, 100, 0);
    /* No more than the step has taken. */
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'stalled','t_ms':150,'for_ms':400}",
                 "{'event':'step','t_ms':160,'step':1}"),
           10, 0, 50, 100, 0);
}

static void a_roll_back_makes_steps_redone(void **state) {
    (void)state;
    struct culm_summary s;
    feed(&s, &culm_summary_training,
         LINES(BEGIN, "{'event':'step','t_ms':200,'step':1}",
               "{'event':'checkpoint','t_ms':210,'step':1,'ok':true,'waited':false}",
               "{'event':'step','t_ms':320,'step':2}", "{'event':'step','t_ms':450,'step':3}",
               "{'event':'lost','t_ms':460,'node':1,'stages':[1]}",
               "{'event':'rollback','t_ms':460,'from_step':3,'to_step':1}",
               "{'event':'waiting','t_ms':461,'need':2,'have':1}",
               "{'event':'joined','t_ms':480,'node':2}",
               "{'event':'view','t_ms':481,'phase':'load','step':2}",
               "{'event':'view','t_ms':500,'phase':'run','step':2}",
               "{'event':'recovered','t_ms':505,'node':1}", "{'event':'step','t_ms':600,'step':2}",
               "{'event':'step','t_ms':700,'step':3}", "{'event':'done','t_ms':710}"));
    /* redone: steps 2 and 3, and 10 ms of step 4; waiting until a view was made */
    TIMES(&s, 100 + 95 + 100, 120 + 130 + 10, 1 + 19 + 5, 100 + 20, 10);
    assert_int_equal(s.steps_redone, 2);
    culm_summary_release(&s);

    /* Copies differ: nobody was lost. */
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'step','t_ms':200,'step':1}",
                 "{'event':'rollback','t_ms':230,'from_step':1,'to_step':0}",
                 "{'event':'view','t_ms':231,'phase':'load','step':1}",
                 "{'event':'view','t_ms':260,'phase':'run','step':1}",
                 "{'event':'step','t_ms':360,'step':1}"),
           100, 130, 30, 100, 0);
    /* During the last checkpoint: what was saving stays so. */
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'step','t_ms':200,'step':1}",
                 "{'event':'checkpoint','t_ms':250,'step':1,'ok':false,'waited':true}",
                 "{'event':'rollback','t_ms':260,'from_step':1,'to_step':0}",
                 "{'event':'view','t_ms':270,'phase':'run','step':1}",
                 "{'event':'step','t_ms':400,'step':1}"),
           130, 100, 10, 100, 60);
}

static void a_place_that_nobody_fills_is_waited_for(void **state) {
    (void)state;
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'lost','t_ms':110,'node':1,'stages':[1]}",
                 "{'event':'view','t_ms':111,'phase':'run','step':1,'lanes':[0,-1]}",
                 "{'event':'waiting','t_ms':112,'need':2,'have':1}",
                 "{'event':'view','t_ms':200,'phase':'run','step':1,'lanes':[0,-1]}",
                 "{'event':'view','t_ms':300,'phase':'run','step':1,'lanes':[0,0]}",
                 "{'event':'recovered','t_ms':320,'node':1}",
                 "{'event':'step','t_ms':400,'step':1}"),
           10 + 80, 0, 2 + 20, 100 + 188, 0);
}

/* A launcher that is killed leaves half a line, and what it had not committed. */
static void a_resumed_run_counts_each_launch(void **state) {
    (void)state;
    static const char *const lines[] = {
        BEGIN,
        "{'event':'step','t_ms':200,'step':1}",
        "{'event':'step','t_ms':300,'step':2}",
        "{'event':'step','t_ms':410,'step':3}",
        "{'event':'checkpoint','t_ms':430,'step':2,'ok':true,'waited':false}",
        "{'event':'step','t_ms':5",
        "{'event':'start','t_ms':0}",
        "{'event':'view','t_ms':50,'phase':'load','step':3}",
        "{'event':'view','t_ms':80,'phase':'run','step':3}",
        "{'event':'step','t_ms':180,'step':3}",
        "{'event':'checkpoint','t_ms':200,'step':3,'ok':true,'waited':true}",
        "{'event':'start','t_ms':5}",
        "{'event':'view','t_ms':20,'phase':'load','step':4}",
        "{'event':'view','t_ms':30,'phase':'run','step':4}",
        "{'event':'step','t_ms':130,'step':4}",
        "{'event':'done','t_ms':140}",
    };
    char path[128];
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        for (const char *at = lines[i]; *at; at++) {
            fputc(*at == '\'' ? '"' : *at, file);
        }
        fputc('\n', file);
    }
    fclose(file);
    struct culm_summary s;
    struct culm_error error = {0};
    culm_summary_init(&s, &culm_summary_training);
    assert_int_equal(culm_summary_read(&s, folder, &error), CULM_OK);
    assert_int_equal(s.goodput.launches, 3);
    TIMES_OF(&s, 0, 200, 110 + 20, 0, 100, 0);
    TIMES_OF(&s, 1, 100, 0, 0, 80, 20);
    TIMES_OF(&s, 2, 100, 0, 0, 30, 10);
    TIMES(&s, 400, 130, 0, 210, 30);
    assert_int_equal(s.steps_redone, 1);

    file = tmpfile();
    culm_summary_print(&s, "runs/x", NULL, file);
    char *text = slurp(file);
    assert_non_null(strstr(
        text,
        "  goodput            51.9 %: useful 0.400 s | redone 0.130 s | paused 0.000 s | waiting "
        "0.210 s | saving 0.030 s\n"
        "    launch 1         46.5 %: useful 0.200 s | redone 0.130 s | paused 0.000 s | waiting "
        "0.100 s | saving 0.000 s\n"
        "    launch 2         50.0 %: useful 0.100 s | redone 0.000 s | paused 0.000 s | waiting "
        "0.080 s | saving 0.020 s\n"
        "    launch 3         71.4 %: useful 0.100 s | redone 0.000 s | paused 0.000 s | waiting "
        "0.030 s | saving 0.010 s\n"));
    free(text);
    fclose(file);

    json_t *json = culm_summary_json(&s, "runs/x", NULL);
    const json_t *goodput = json_object_get(json, "goodput");
    assert_true(culm_event_real(goodput, "wall_ms", 0) == 770);
    assert_true(culm_event_real(goodput, "useful_ms", 0) == 400);
    assert_true(culm_event_real(goodput, "share", 0) == 400.0 / 770);
    const json_t *launches = json_object_get(goodput, "launches");
    assert_int_equal(json_array_size(launches), 3);
    assert_true(culm_event_real(json_array_get(launches, 0), "redone_ms", 0) == 130);
    json_decref(json);
    culm_summary_release(&s);
}

/* Killed again before a step: what it was to do again is told by its first view. */
static void steps_to_be_done_again_are_redone(void **state) {
    (void)state;
    EXPECT(culm_summary_training,
           LINES(BEGIN, "{'event':'step','t_ms':200,'step':1}",
                 "{'event':'step','t_ms':300,'step':2}", "{'event':'start','t_ms':0}",
                 "{'event':'view','t_ms':40,'phase':'load','step':2}"),
           100, 100, 0, 140, 0);
    /* Events of versions that did not tell so: when the step comes again. */
    EXPECT(culm_summary_training,
           LINES("{'event':'start','t_ms':0}", "{'event':'view','t_ms':40}",
                 "{'event':'step','t_ms':200,'step':1}", "{'event':'step','t_ms':300,'step':2}",
                 "{'event':'start','t_ms':0}", "{'event':'view','t_ms':40}",
                 "{'event':'step','t_ms':100,'step':2}"),
           160 + 60, 100, 0, 80, 0);
}

static void graph_networks(void **state) {
    (void)state;
#define GRAPH                                                                                      \
    "{'event':'start','t_ms':0,'job':'gnn'}", "{'event':'view','t_ms':50,'owners':[0,1],'epoch':"  \
                                              "1}"
    EXPECT(culm_summary_gnn,
           LINES(GRAPH, "{'event':'epoch','t_ms':100,'epoch':1}",
                 "{'event':'lost','t_ms':120,'node':4,'role':'worker','pauses':false}",
                 "{'event':'lost','t_ms':130,'node':1,'role':'server','pauses':true}",
                 "{'event':'view','t_ms':131,'owners':[0,0],'epoch':2}",
                 "{'event':'recovered','t_ms':180,'node':1,'role':'server'}",
                 "{'event':'epoch','t_ms':190,'epoch':2}",
                 "{'event':'checkpoint','t_ms':220,'epoch':2,'ok':true,'waited':true}",
                 "{'event':'done','t_ms':300,'eval_ms':60}"),
           50 + 30 + 10, 0, 50, 50 + 60, 110 - 60);
    EXPECT(culm_summary_gnn,
           LINES(GRAPH, "{'event':'epoch','t_ms':100,'epoch':1}",
                 "{'event':'epoch','t_ms':150,'epoch':2}",
                 "{'event':'lost','t_ms':160,'node':1,'role':'server','pauses':true}",
                 "{'event':'rollback','t_ms':161,'from_epoch':2,'to_epoch':0}",
                 "{'event':'waiting','t_ms':161,'role':'server','need':1,'have':0}",
                 "{'event':'view','t_ms':200,'owners':[2,2],'epoch':1}",
                 "{'event':'recovered','t_ms':210,'node':1}",
                 "{'event':'epoch','t_ms':260,'epoch':1}"),
           50, 100 + 10, 1 + 10, 50 + 39, 0);
}

/* An evaluation at the end takes no time from what was saved before a roll-back. */
static void what_was_saved_before_stays_saved(void **state) {
    (void)state;
    EXPECT(culm_summary_gnn,
           LINES(GRAPH, "{'event':'epoch','t_ms':100,'epoch':1}",
                 "{'event':'checkpoint','t_ms':160,'epoch':1,'ok':false,'waited':true}",
                 "{'event':'rollback','t_ms':160,'from_epoch':1,'to_epoch':0}",
                 "{'event':'view','t_ms':170,'owners':[0,1],'epoch':1}",
                 "{'event':'epoch','t_ms':200,'epoch':1}",
                 "{'event':'done','t_ms':210,'eval_ms':1000}"),
           30, 50, 10, 50 + 10, 60);
}

static void rounds_ship_or_are_given_up(void **state) {
    (void)state;
    EXPECT(culm_summary_merge,
           LINES("{'event':'start','t_ms':10,'job':'merge'}", "{'event':'query','t_ms':100}",
                 "{'event':'try','t_ms':200,'round':1}", "{'event':'step','t_ms':300}",
                 "{'event':'check','t_ms':310,'ok':false}", "{'event':'try','t_ms':320,'round':1}",
                 "{'event':'check','t_ms':350,'ok':true}",
                 "{'event':'merged','t_ms':400,'round':1}", "{'event':'try','t_ms':450,'round':2}",
                 "{'event':'check','t_ms':500,'ok':false}", "{'event':'done','t_ms':600}"),
           80, 120 + 100, 0, 200 + 100, 0);
    /* Stopped in an attempt. */
    EXPECT(culm_summary_merge,
           LINES("{'event':'start','t_ms':0,'job':'merge'}", "{'event':'try','t_ms':200,'round':1}",
                 "{'event':'step','t_ms':300}", "{'event':'stopped','t_ms':350}"),
           0, 150, 0, 200, 0);
    /* The search for an attempt is part of it, also of one that comes to nothing. */
    EXPECT(culm_summary_merge,
           LINES("{'event':'start','t_ms':0,'job':'merge'}", "{'event':'try','t_ms':200,'round':1}",
                 "{'event':'merged','t_ms':300}", "{'event':'try','t_ms':350,'round':2}",
                 "{'event':'merged','t_ms':400}", "{'event':'try','t_ms':440,'round':3}",
                 "{'event':'done','t_ms':470}"),
           200, 40, 0, 230, 0);
    /* What has shipped is measured at the end. */
    EXPECT(culm_summary_merge,
           LINES("{'event':'start','t_ms':0,'job':'merge'}", "{'event':'try','t_ms':200,'round':1}",
                 "{'event':'merged','t_ms':300}", "{'event':'done','t_ms':350}"),
           100, 0, 0, 250, 0);
}

static void events_without_times_have_no_goodput(void **state) {
    (void)state;
    struct culm_summary s;
    feed(&s, &culm_summary_training,
         LINES("{'event':'start'}", "{'event':'step','step':1}", "{'event':'done'}"));
    assert_int_equal(culm_goodput_lines(&s.goodput), 0);
    culm_summary_release(&s);
    feed(&s, &culm_summary_edge, LINES("{'event':'start','t_ms':0}", "{'event':'done','t_ms':10}"));
    assert_int_equal(culm_goodput_lines(&s.goodput), 0);
    json_t *json = culm_summary_json(&s, "x", NULL);
    assert_true(json_is_null(json_object_get(json, "goodput")));
    json_decref(json);
    culm_summary_release(&s);
}

/* Of a run that was launched often, the last launches are shown. */
static void of_many_launches_the_last_are_shown(void **state) {
    (void)state;
    struct culm_summary s;
    char name[20], text[256], start[64];
    culm_summary_init(&s, &culm_summary_training);
    struct culm_sink *sink = culm_sink_summary_new(&s);
    for (int i = 1; i <= 40; i++) {
        give(sink, "{'event':'start','t_ms':0}");
        snprintf(start, sizeof start, "{'event':'waiting','t_ms':%d}", i * 60000);
        give(sink, start);
    }
    culm_sink_free(sink);
    size_t lines = culm_goodput_lines(&s.goodput);
    assert_int_equal(lines, 6);
    culm_goodput_line(&s.goodput, lines - 1, name, text, sizeof text);
    assert_string_equal(name, "  launch 40");
    assert_string_equal(text,
                        "0.0 %: useful 0.0 s | redone 0.0 s | paused 0.0 s | waiting 2400.0 s | "
                        "saving 0.0 s");
    culm_summary_release(&s);
}

/* Whatever comes in whatever order, every moment is of one kind and no kind is negative. */
static void the_kinds_add_up(void **state) {
    (void)state;
    static const char *const events[] = {
        "{'event':'start','t_ms':%.9f}",
        "{'event':'waiting','t_ms':%.9f}",
        "{'event':'view','t_ms':%.9f,'phase':'load','step':2}",
        "{'event':'view','t_ms':%.9f,'phase':'run','step':3}",
        "{'event':'step','t_ms':%.9f,'step':1}",
        "{'event':'step','t_ms':%.9f,'step':2}",
        "{'event':'step','t_ms':%.9f,'step':3}",
        "{'event':'lost','t_ms':%.9f,'node':1,'stages':[0],'for_ms':30}",
        "{'event':'lost','t_ms':%.9f,'node':2,'stages':[0]}",
        "{'event':'recovered','t_ms':%.9f,'node':1}",
        "{'event':'recovered','t_ms':%.9f,'node':2}",
        "{'event':'stalled','t_ms':%.9f,'for_ms':50}",
        "{'event':'rollback','t_ms':%.9f,'to_step':1}",
        "{'event':'checkpoint','t_ms':%.9f,'waited':true}",
        "{'event':'done','t_ms':%.9f,'eval_ms':20}",
    };
    const char *given = getenv("CULM_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1, dice = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 300; round++) {
        struct culm_summary s;
        culm_summary_init(&s, &culm_summary_training);
        struct culm_sink *sink = culm_sink_summary_new(&s);
        int now = 0, wall = 0;
        for (int i = 0; i < 30; i++) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            size_t pick = i == 0 ? 0 : (size_t)(dice >> 33) % (sizeof events / sizeof *events);
            int passed = (int)(dice >> 50) % 100;
            char text[128];
            now = pick == 0 ? passed : now + passed;
            wall += passed;
            snprintf(text, sizeof text, events[pick], now / 3.0);
            give(sink, text);
        }
        culm_sink_free(sink);
        const struct culm_goodput_times times = culm_goodput_times_of(&s.goodput, SIZE_MAX);
        assert_true(fabs(culm_goodput_wall_ms(&times) - wall / 3.0) < 0.02);
        for (size_t l = 0; l < s.goodput.launches; l++) {
            for (int k = 0; k < CULM_GOODPUT_KINDS; k++) {
                assert_true(culm_goodput_times_of(&s.goodput, l).ms[k] >= 0);
            }
        }
        culm_summary_release(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_undisturbed_run),
        cmocka_unit_test(a_loss_pauses_until_its_work_goes_on),
        cmocka_unit_test(what_nothing_moved_in_was_a_pause),
        cmocka_unit_test(a_roll_back_makes_steps_redone),
        cmocka_unit_test(a_place_that_nobody_fills_is_waited_for),
        cmocka_unit_test(a_resumed_run_counts_each_launch),
        cmocka_unit_test(steps_to_be_done_again_are_redone),
        cmocka_unit_test(graph_networks),
        cmocka_unit_test(what_was_saved_before_stays_saved),
        cmocka_unit_test(rounds_ship_or_are_given_up),
        cmocka_unit_test(events_without_times_have_no_goodput),
        cmocka_unit_test(of_many_launches_the_last_are_shown),
        cmocka_unit_test(the_kinds_add_up),
    };
    return cmocka_run_group_tests_name("report/goodput", tests, make_folder, drop_folder);
}
