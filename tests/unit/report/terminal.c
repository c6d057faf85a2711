/* The terminal: plain lines word for word, and the redrawn block byte for byte. */
#include "events.h"

#include "report/gnn.h"
#include "report/training.h"

static const char MAP[] =
    "'map':[{'pipeline':0,'stage':0,'owner':0,'shadow':1},{'pipeline':0,'stage':1,'owner':1,"
    "'shadow':0},{'pipeline':1,'stage':0,'owner':2,'shadow':null},{'pipeline':1,'stage':1,"
    "'owner':null}]";

static void expect(const struct culm_terminal_options *given, const char *const *events,
                   size_t count, const char *expected) {
    FILE *file = tmpfile();
    struct culm_terminal_options options = *given;
    options.rows = options.rows ? options.rows : culm_terminal_training;
    options.fd = fileno(file);
    struct culm_sink *sink = culm_sink_terminal_new(&options);
    for (size_t i = 0; i < count; i++) {
        give(sink, events[i]);
    }
    culm_sink_free(sink);
    char *text = slurp(file);
    assert_string_equal(text, expected);
    free(text);
    fclose(file);
}

#define PLAIN(expected, ...)                                                                       \
    do {                                                                                           \
        const char *const events_[] = {__VA_ARGS__};                                               \
        const struct culm_terminal_options options_ = {.steps = 20, .columns = 80};                \
        expect(&options_, events_, sizeof events_ / sizeof *events_, expected);                    \
    } while (0)

static void every_event_is_one_sentence(void **state) {
    (void)state;
    PLAIN("[    0.0 s] run ab12 starts; redundancy: eager\n",
          "{'event':'start','t_ms':0,'run':'ab12','redundancy_effective':'eager'}");
    PLAIN("[    0.1 s] stage 0: blocks 0 to 2, 1.50 M parameters, 64 MiB a worker\n",
          "{'event':'plan','t_ms':100,'stages':[{'first':0,'last':2,'params':1500000,"
          "'memory_bytes':67108864}]}");
    PLAIN("[    0.2 s] node 3 (pid 77) joined for pipeline 1, stage 0\n",
          "{'event':'joined','t_ms':200,'node':3,'pid':77,'pipeline':1,'stage':0}");
    PLAIN("[    0.2 s] node 6 (pid 78) joined\n",
          "{'event':'joined','t_ms':200,'node':6,'pid':78,'pipeline':null,'stage':null}");
    PLAIN("[    1.0 s] fault injected into node 2 at step 4, phase forward\n",
          "{'event':'fault','t_ms':1000,'node':2,'step':4,'phase':'forward'}");
    PLAIN("[    1.0 s] lost node 4 at step 12: its connection closed; it held stage 1 of pipeline "
          "1, stage 2\n",
          "{'event':'lost','t_ms':1000,'node':4,'step':12,'cause':'eof','stages':[{'pipeline':1,"
          "'stage':1},2]}");
    PLAIN("[    1.0 s] lost node 4 at step 12: it gave no sign of life\n",
          "{'event':'lost','t_ms':1000,'node':4,'step':12,'cause':'heartbeat','stages':[]}");
    PLAIN("[    1.0 s] node 3's work continues on its shadow after 42 ms, 5 tasks repeated\n",
          "{'event':'recovered','t_ms':1000,'node':3,'source':'shadow','pause_ms':42,"
          "'redone_tasks':5}");
    PLAIN("[    1.0 s] node 4 came back, found its place taken and ended\n",
          "{'event':'fenced','t_ms':1000,'node':4}");
    PLAIN("[    1.0 s] checkpoint of step 20 written: c/20\n",
          "{'event':'checkpoint','t_ms':1000,'step':20,'path':'c/20','ok':true}");
    PLAIN("[    1.0 s] checkpoint of step 20 given up, the one before stays: disk full\n",
          "{'event':'checkpoint','t_ms':1000,'step':20,'path':'','ok':false,'message':'disk "
          "full'}");
    PLAIN("[    1.0 s] waiting for workers: 5 of 6 are there\n",
          "{'event':'waiting','t_ms':1000,'have':5,'need':6}");
    PLAIN("[    1.0 s] rolled back from step 9 to step 5: no copy of stage 1 lives\n",
          "{'event':'rollback','t_ms':1000,'from_step':9,'to_step':5,'reason':'no copy of stage 1 "
          "lives'}");
    PLAIN("[    1.0 s] leads in term 2: the process that led is gone\n",
          "{'event':'leader','t_ms':1000,'term':2,'reason':'the process that led is gone'}");
    PLAIN("", "{'event':'step','t_ms':1000,'step':3,'loss':1.5,'again':true}");
    PLAIN("[    1.0 s] error: two\?lines\n",
          "{'event':'error','t_ms':1000,'message':'two\\nlines'}");
    PLAIN("[    1.0 s] done: 20 steps, loss 1.5000\n",
          "{'event':'done','t_ms':1000,'steps':20,'loss':1.5}");
    PLAIN("[    1.0 s] done: 20 steps\n", "{'event':'done','t_ms':1000,'steps':20,'loss':0.0}");
    PLAIN("[   61.3 s] node 4 came back, found its place taken and ended\n",
          "{'event':'fenced','t_ms':61250.75,'node':4}");
    PLAIN("", "{'event':'news','t_ms':1000}");
    PLAIN("[    0.0 s] run ? starts; redundancy: ?\n", "{'event':'start','run':3}");
}

static void views_give_a_cause_and_the_map_when_it_changes(void **state) {
    (void)state;
    char one[512], two[512];
    snprintf(one, sizeof one, "{'event':'view','t_ms':5,'view':1,'reason':'all are there',%s}",
             MAP);
    snprintf(two, sizeof two, "{'event':'view','t_ms':6,'view':2,'reason':'a spare joined',%s}",
             MAP);
    PLAIN("[    0.0 s] view 1: all are there\n"
          "  pipeline 0: stage 0 on node 0 (shadow 1), stage 1 on node 1 (shadow 0)\n"
          "  pipeline 1: stage 0 on node 2, stage 1 on nobody\n"
          "[    0.0 s] view 2: a spare joined\n",
          one, two);
}

static void plain_step_lines_are_thinned(void **state) {
    (void)state;
    PLAIN("[    0.1 s] step 1/20  loss 5.5000  900 tokens/s  200 ms  lr 1.00e-03  grad norm 1.250\n"
          "[    1.2 s] step 3/20  loss 5.3000  0 tokens/s  0 ms  lr 0.00e+00  grad norm 0.000\n"
          "[    1.3 s] step 4/20  loss 5.2000  0 tokens/s  0 ms  lr 0.00e+00  grad norm 0.000\n"
          "[    1.3 s] done: 4 steps, loss 5.2000\n",
          "{'event':'step','t_ms':100,'step':1,'loss':5.5,'tokens_per_s':900,'step_ms':200,"
          "'lr':0.001,'grad_norm':1.25}",
          "{'event':'step','t_ms':700,'step':2,'loss':5.4}",
          "{'event':'step','t_ms':1200,'step':3,'loss':5.3}",
          "{'event':'step','t_ms':1250,'step':4,'loss':5.2}",
          "{'event':'done','t_ms':1300,'steps':4,'loss':5.2}");
}

static void a_live_block_is_redrawn_and_cut(void **state) {
    (void)state;
    const char *const events[] = {
        "{'event':'step','t_ms':100,'step':10,'loss':5.5}",
        "{'event':'waiting','t_ms':1000,'have':5,'need':6}",
        "{'event':'step','t_ms':1100,'step':20,'loss':5.25}",
    };
    const struct culm_terminal_options narrow = {.live = true, .columns = 40, .steps = 20};
    expect(&narrow, events, 3,
           "step 10/20 [############............]  \n"
           "\r\x1b[1A\x1b[J[    1.0 s] waiting for workers: 5 of 6 are there\n"
           "step 10/20 [############............]  \n"
           "\r\x1b[1A\x1b[Jstep 20/20 [########################]  \n");

    const char *const view[] = {
        "{'event':'view','t_ms':5,'view':1,'reason':'go','map':[{'pipeline':0,'stage':0,"
        "'owner':0},{'pipeline':1,'stage':0,'owner':1}]}",
        "{'event':'lost','t_ms':6,'node':1,'step':1,'cause':'eof'}",
    };
    const struct culm_terminal_options color = {
        .live = true, .color = true, .columns = 80, .steps = 20};
    expect(&color, view, 2,
           "[    0.0 s] view 1: go\x1b[0m\n"
           "  pipeline 0: stage 0 on node 0\n"
           "  pipeline 1: stage 0 on node 1\n"
           "\r\x1b[2A\x1b[J[    0.0 s] \x1b[31mlost node 1 at step 1: its connection "
           "closed\x1b[0m\n"
           "  pipeline 0: stage 0 on node 0\n"
           "  pipeline 1: stage 0 on node 1\n");
}

static void a_file_is_no_terminal(void **state) {
    (void)state;
    FILE *file = tmpfile();
    struct culm_terminal_options options =
        culm_terminal_options_of(fileno(file), culm_terminal_training, 7);
    assert_false(options.live);
    assert_false(options.color);
    assert_int_equal(options.steps, 7);
    fclose(file);
}

static void a_run_on_a_graph_says_what_it_waits_for_and_saves(void **state) {
    (void)state;
    const struct culm_terminal_options options = {.rows = culm_terminal_gnn, .columns = 80};
    const char *const events[] = {
        "{'event':'waiting','t_ms':1000,'role':'server','need':2,'have':1}",
        "{'event':'waiting','t_ms':1000,'role':'parameter','need':1,'have':0}",
        "{'event':'checkpoint','t_ms':1000,'epoch':20,'path':'c/20','ok':true}",
        "{'event':'checkpoint','t_ms':1000,'epoch':20,'path':'','ok':false,'message':'disk full'}"};
    expect(&options, events, 4,
           "[    1.0 s] waiting for servers: 1 of 2 are there\n"
           "[    1.0 s] waiting for parameter servers: 0 of 1 is there\n"
           "[    1.0 s] checkpoint of epoch 20 written: c/20\n"
           "[    1.0 s] checkpoint of epoch 20 given up, the one before stays: disk full\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_is_one_sentence),
        cmocka_unit_test(a_run_on_a_graph_says_what_it_waits_for_and_saves),
        cmocka_unit_test(views_give_a_cause_and_the_map_when_it_changes),
        cmocka_unit_test(plain_step_lines_are_thinned),
        cmocka_unit_test(a_live_block_is_redrawn_and_cut),
        cmocka_unit_test(a_file_is_no_terminal),
    };
    return cmocka_run_group_tests_name("report/terminal", tests, NULL, NULL);
}
