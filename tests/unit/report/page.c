/* The page of a run: what is drawn, that hostile text stays text, and that nothing is lost on the way. */
#include "events.h"

#include "../folder.h"

#include "base/sha256.h"
#include "report/chart.h"
#include "report/page.h"

#include <string.h>
#include <sys/stat.h>

/* Writes a text with ' for ". */
static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (const char *at = text; *at; at++) {
        fputc(*at == '\'' ? '"' : *at, file);
    }
    fclose(file);
}

/* Writes these events as those of a run, and a picture. */
static void make_run(const char *events, const char *picture) {
    char path[512];
    FILE *file;
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    write_text(path, events);
    snprintf(path, sizeof path, "%s/pictures", folder);
    assert_int_equal(culm_tree_remove(NULL, path, NULL), CULM_OK);
    if (picture) {
        assert_int_equal(culm_dir_make(NULL, path, NULL), CULM_OK);
        snprintf(path, sizeof path, "%s/pictures/<b>.png", folder);
        file = fopen(path, "w");
        fputs(picture, file);
        fclose(file);
    }
}

static char *page_of(const char *events, const char *picture) {
    struct culm_error error = {0};
    struct culm_buf out;
    make_run(events, picture);
    culm_buf_init(&out, CULM_PAGE_BYTES_MAX);
    if (culm_page_write(folder, &out, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return culm_buf_take_text(&out);
}

static int times(const char *text, const char *what) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) {
        count++;
    }
    return count;
}

#define HAS(text, what)                                                                            \
    do {                                                                                           \
        if (!strstr(text, what)) {                                                                 \
            fail_msg("no '%s' in %s", what, text);                                                 \
        }                                                                                          \
    } while (0)

static void a_run_of_training(void **state) {
    (void)state;
    char *text = page_of("{'event':'start','t_ms':0}\n"
                         "{'event':'step','t_ms':10,'step':1,'loss':5,'step_ms':10}\n"
                         "{'event':'step','t_ms':20,'step':2,'loss':4,'step_ms':10}\n"
                         "{'event':'lost','t_ms':21,'node':3,'cause':'eof'}\n"
                         "{'event':'done','t_ms':30}\n",
                         NULL);
    HAS(text, "<!DOCTYPE html>");
    HAS(text, "<figcaption>Loss");
    HAS(text, "<path class=\"s0\" d=\"M64.0 12.0L708.0 206.0\"/>"); /* from the left top down */
    HAS(text, "<td>lost</td><td>node 3; cause eof; </td>");
    assert_int_equal(times(text, "<figure>"), 2); /* no pause was measured: no chart of it */
    assert_int_equal(times(text, "not finished"), 0);
    free(text);
}

static void steps_that_were_undone_are_not_drawn(void **state) {
    (void)state;
    char *text = page_of("{'event':'start','t_ms':0}\n{'event':'step','step':1,'loss':5}\n"
                         "{'event':'step','step':2,'loss':400}\n"
                         "{'event':'step','step':2,'loss':4}\n{'event':'step','step':3,'loss':3}\n",
                         NULL);
    HAS(text, "M64.0 12.0L386.0 109.0L708.0 206.0");
    HAS(text, "not finished");
    free(text);
}

static void merging(void **state) {
    (void)state;
    char *text = page_of(
        "{'event':'start','job':'merge','t_ms':0}\n"
        "{'event':'check','t_ms':500,'round':1,'query':'a','accuracy':0.9,'ok':false}\n"
        "{'event':'check','t_ms':600,'round':1,'query':'b','accuracy':0.97,'ok':true}\n"
        "{'event':'merged','t_ms':1000,'round':1,'saved_bytes':2000000}\n"
        "{'event':'merged','t_ms':2000,'round':2,'saved_bytes':3000000}\n"
        "{'event':'done','t_ms':3000,'bytes':10000000,'distinct_bytes':7000000,'saved':0.3,"
        "'queries':[{'query':'a','original':1,'merged':0.96,'target':0.95},{'query':'<i>'}]}\n",
        NULL);
    HAS(text, "30.0 % of what 2 queries take: 7.00 MB in place of 10.00 MB");
    HAS(text, "<td>a</td><td class=\"n\">100.0 %</td><td class=\"n\">96.0 %</td>");
    HAS(text, "<td>&lt;i&gt;</td><td class=\"n\">-</td>");
    HAS(text, "<figcaption>Saved");
    HAS(text, "<span class=\"key s1\"></span>b"); /* a line for each query */
    free(text);
}

/* Nothing is saved until the round ships, and that to the end: a line, not a point that nobody sees. */
static void one_round(void **state) {
    (void)state;
    char *text = page_of("{'event':'start','job':'merge','t_ms':0}\n"
                         "{'event':'merged','t_ms':1000,'round':1,'saved_bytes':2000000}\n"
                         "{'event':'done','t_ms':2000,'bytes':10000000,'distinct_bytes':8000000,"
                         "'saved':0.2,'queries':[]}\n",
                         NULL);
    HAS(text, "<path class=\"s0\" d=\"M64.0 206.0H386.0L386.0 12.0H708.0L708.0 12.0\"/>");
    free(text);
}

static void an_edge_box(void **state) {
    (void)state;
    char *text =
        page_of("{'event':'start','job':'edge','t_ms':0,'limit_bytes':4000000,'round':2,"
                "'package':{'bytes':8000000,'distinct_bytes':6000000}}\n"
                "{'event':'round','t_ms':1,'kept':2,'error':'e'}\n"
                "{'event':'load','t_ms':1,'query':'a','bytes':2500000,'resident_bytes':3000000}\n"
                "{'event':'frame','t_ms':100,'query':'a','frame':0,'due_ms':9,'done_ms':8}\n"
                "{'event':'frame','t_ms':101,'query':'a','frame':1,'due_ms':9,'dropped':1}\n"
                "{'event':'frame','t_ms':5900,'query':'a','frame':2,'due_ms':9,'done_ms':8}\n"
                "{'event':'evict','t_ms':6000,'query':'a','bytes':1500000,'resident_bytes':0}\n"
                "{'event':'done','t_ms':6000,'limit_bytes':4000000,'load_share':0.25,"
                "'resident_max_bytes':3000000,'queries':[{'query':'a','frames':3,"
                "'processed':2,'dropped':1}]}\n",
                "PNG");
    HAS(text, "2 of 3 answered in time (66.7 %)");
    HAS(text, "at most 3.00 MB of 4.00 MB");
    HAS(text, "2.50 MB loaded, 1.50 MB evicted; 25.0 % of the time was spent waiting");
    HAS(text,
        "25.0 % saved of the layers of what was merged: 6.00 MB in place of 8.00 MB (round 2)");
    HAS(text, "M64.0 109.0H708.0L708.0 12.0"); /* half of the first stretch, all of the last */
    HAS(text, "<line class=\"limit\"");
    HAS(text, "<img alt=\"&lt;b&gt;.png\" src=\"data:image/png;base64,UE5H\">");
    free(text);
}

static void make_in(const char *dir, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, dir);
    assert_int_equal(culm_dir_make(NULL, path, NULL), CULM_OK);
    snprintf(path, sizeof path, "%s/%s/%s", folder, dir, name);
    write_text(path, text);
}

/* Of the runs beside a package those are listed that ran one of its rounds. */
static void runs_of_a_package(void **state) {
    static const char round[] = "what the second round holds";
    char digest[CULM_SHA256_HEX], events[2048], dir[512];
    struct culm_error error = {0};
    struct culm_buf out;
    (void)state;
    assert_int_equal(culm_sha256_of(round, strlen(round), digest), CULM_OK);
    make_in("package", "events.jsonl", "{'event':'start','job':'merge','t_ms':0}\n");
    make_in("package/rounds", "2.json", round);
    snprintf(events, sizeof events,
             "{'event':'start','job':'edge','round':2,'package':{'bytes':8,'digest':'%s'}}\n"
             "{'event':'round','round':3,'package':{'bytes':8,'digest':'%s'}}\n"
             "{'event':'done','limit_bytes':4000000,'resident_max_bytes':3000000,'queries':["
             "{'query':'a','frames':3,'processed':2,'accuracy':0.5},"
             "{'query':'b','frames':1,'processed':1,'accuracy':1},"
             "{'query':'c','frames':0,'processed':0,'accuracy':null}]}\n",
             digest, digest);
    make_in("<b>", "events.jsonl", events);
    events[strstr(events, "{'event':'round'") - events] = '\0'; /* still at work, or killed */
    make_in("began", "events.jsonl", events);
    make_in("of another round", "events.jsonl",
            "{'event':'start','job':'edge','round':2,'package':{'bytes':8,'digest':'0'}}\n");
    make_in("of no package", "events.jsonl",
            "{'event':'start','job':'edge','round':null,'package':null}\n");
    make_in("of training", "events.jsonl", "{'event':'start','job':'gnn'}\n");
    make_in("torn", "events.jsonl", "{'event':\n{}\n");
    make_in("of a pipe", "file", "");
    snprintf(dir, sizeof dir, "%s/of a pipe/events.jsonl",
             folder); /* which nobody ever writes to */
    assert_int_equal(mkfifo(dir, 0600), 0);
    make_in("nothing", "file", "");
    snprintf(dir, sizeof dir, "%s/package", folder);
    culm_buf_init(&out, CULM_PAGE_BYTES_MAX);
    assert_int_equal(culm_page_write(dir, &out, &error), CULM_OK);
    char *text = culm_buf_take_text(&out);
    HAS(text, "<h2>Runs at the edge</h2>");
    HAS(text,
        "<td>&lt;b&gt;</td><td class=\"n\">2</td><td class=\"n\">4</td><td class=\"n\">75.0 %</td>"
        "<td class=\"n\">75.0 %</td><td class=\"n\">3.00 of 4.00 MB</td>");
    HAS(text, "<td>began</td><td class=\"n\">2</td><td colspan=\"4\">not finished</td>");
    assert_int_equal(times(text, "class=\"n\">2</td>"), 2);
    assert_null(strstr(text, "<td>of "));
    free(text);
    snprintf(dir, sizeof dir, "%s/<b>", folder); /* whose own page has no such table */
    culm_buf_init(&out, CULM_PAGE_BYTES_MAX);
    assert_int_equal(culm_page_write(dir, &out, &error), CULM_OK);
    text = culm_buf_take_text(&out);
    assert_null(strstr(text, "Runs at the edge"));
    free(text);
}

/* Only the ends of a long log are read: how the run began, and how it ended or, while it is at work, which round it
 * took up last. */
static void long_logs(void **state) {
    static const char round[] = "what a round holds", blank[] = "{'event':'frame','query':'a'}\n";
    const struct {
        const char *name, *between, *end;
        bool shown, done;
    } of[] = {
        {"ended", "", "'event':'done','round':3,'package':{'digest':'%s'},'queries':[]", true,
         true},
        {"ended as of old", "",
         "'event':'round','round':3,'package':{'digest':'%s'}}\n{'event':'done'", true, true},
        {"ended on another", "",
         "'event':'round','round':3,'package':{'digest':'%s'}}\n{'event':'done','package':null",
         false, true},
        {"at work", "", "'event':'round','round':3,'package':{'digest':'%s'}", true, false},
        {"wrong between", "}\n", "'event':'round','round':3,'package':{'digest':'%s'}", true,
         false},
        {"of another", "", "'event':'round','round':3,'package':{'digest':'0'}", false, false},
        {"nothing more", "", "'event':'frame'", false, false}};
    char digest[CULM_SHA256_HEX], line[512], dir[512], cells[128];
    struct culm_error error = {0};
    struct culm_buf out;
    (void)state;
    assert_int_equal(culm_sha256_of(round, strlen(round), digest), CULM_OK);
    make_in("long", "file", "");
    make_in("long/package", "events.jsonl", "{'event':'start','job':'merge','t_ms':0}\n");
    make_in("long/package/rounds", "3.json", round);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct culm_buf log;
        culm_buf_init(&log, 16 << 20);
        culm_buf_printf(&log, "{'event':'start','job':'edge','round':null,'package':null}\n");
        for (int n = 0; n < 40000; n++) {
            culm_buf_printf(&log, "%s", n == 20000 ? of[i].between : blank);
        }
        snprintf(line, sizeof line, of[i].end, digest);
        culm_buf_printf(&log, "{%s}\n{'event':", line); /* a torn line, even */
        char *text = culm_buf_take_text(&log);
        snprintf(dir, sizeof dir, "long/%s", of[i].name);
        make_in(dir, "events.jsonl", text);
        free(text);
    }
    snprintf(dir, sizeof dir, "%s/long/package", folder);
    culm_buf_init(&out, CULM_PAGE_BYTES_MAX);
    assert_int_equal(culm_page_write(dir, &out, &error), CULM_OK);
    char *text = culm_buf_take_text(&out);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        snprintf(cells, sizeof cells, "<td>%s</td><td class=\"n\">3</td>%s", of[i].name,
                 of[i].done ? "<td class=\"n\">0</td>" : "<td colspan=\"4\">not finished</td>");
        assert_int_equal(times(text, cells), of[i].shown);
    }
    assert_int_equal(times(text, "<tr><td>"), 4);
    free(text);
}

/* A table has an end, and says that there are more. */
static void many_runs(void **state) {
    static const char round[] = "what a round holds";
    char digest[CULM_SHA256_HEX], events[512], dir[512];
    struct culm_error error = {0};
    (void)state;
    assert_int_equal(culm_sha256_of(round, strlen(round), digest), CULM_OK);
    make_in("many", "file", "");
    make_in("many/package", "events.jsonl", "{'event':'start','job':'merge','t_ms':0}\n");
    make_in("many/package/rounds", "3.json", round);
    snprintf(events, sizeof events,
             "{'event':'start','job':'edge','round':3,'package':{'digest':'%s'}}\n", digest);
    for (int run = 0; run < 51; run++) {
        struct culm_buf out;
        snprintf(dir, sizeof dir, "many/%02d", run);
        make_in(dir, "events.jsonl", events);
        if (run < 49) {
            continue;
        }
        snprintf(dir, sizeof dir, "%s/many/package", folder);
        culm_buf_init(&out, CULM_PAGE_BYTES_MAX);
        assert_int_equal(culm_page_write(dir, &out, &error), CULM_OK);
        char *text = culm_buf_take_text(&out);
        assert_int_equal(times(text, "\"4\">not finished"), 50);
        assert_int_equal(times(text, "and more"), run == 50);
        free(text);
    }
}

static void base64_of_any_length(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"f", "base64,Zg==\""},
                                           {"fo", "base64,Zm8=\""},
                                           {"foo", "base64,Zm9v\""},
                                           {"foob", "base64,Zm9vYg==\""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *text = page_of("{'event':'start','job':'edge'}\n", pairs[i][0]);
        HAS(text, pairs[i][1]);
        free(text);
    }
}

/* Nothing in an event or a name becomes markup. */
static void text_stays_text(void **state) {
    (void)state;
    char *text = page_of(
        "{'event':'start','job':'merge'}\n"
        "{'event':'check','t_ms':1,'query':'</p><script>alert(1)</script>','accuracy':1}\n"
        "{'event':'check','t_ms':2,'query':'x\\u0007y&z','accuracy':1}\n"
        "{'event':'warning','t_ms':3,'<script>':'<script>','message':'<img src=x>'}\n"
        "{'event':'done','queries':[{'query':'<script>','merged':'<script>','frames':{}}]}\n",
        NULL);
    assert_int_equal(times(text, "<script"), 0);
    assert_int_equal(times(text, "<img"), 0);
    HAS(text, "&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
    HAS(text, "x\xef\xbf\xbdy&amp;z");
    free(text);
}

static void bytes_that_are_no_text(void **state) {
    (void)state;
    struct culm_buf out;
    culm_buf_init(&out, 1000);
    culm_html_text(&out, "\xc3\xa9 \xff \xc0\x80 \xed\xa0\x80 \xf0\x9f\x98\x80 \xe2\x82");
    char *text = culm_buf_take_text(&out);
    const char *bad = "\xef\xbf\xbd";
    char want[128];
    snprintf(want, sizeof want, "\xc3\xa9 %s %s%s %s%s%s \xf0\x9f\x98\x80 %s%s", bad, bad, bad, bad,
             bad, bad, bad, bad);
    assert_string_equal(text, want);
    free(text);
}

/* Numbers of any size, none at all, and members of the wrong type. */
static void strange_numbers(void **state) {
    (void)state;
    char *text = page_of("{'event':'start'}\n{'event':'step','step':1,'loss':1e308}\n"
                         "{'event':'step','step':2,'loss':-1e308}\n{'event':'step','step':'x'}\n"
                         "{'event':'step','step':9223372036854775807,'loss':null,'step_ms':0}\n",
                         NULL);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    free(text);
    struct culm_error error;
    struct culm_buf out;
    make_run("{'event':'start','job':'gnn'}\n", NULL);
    culm_buf_init(&out, 100);
    assert_int_equal(culm_page_write(folder, &out, &error), CULM_ERR_MEMORY);
    culm_buf_release(&out);
    make_run("{'event':'start','job':'other'}\n", NULL);
    culm_buf_init(&out, CULM_PAGE_BYTES_MAX);
    assert_int_equal(culm_page_write(folder, &out, &error), CULM_ERR_CONFIG);
    assert_int_equal(out.len, 0);
    culm_buf_release(&out);
}

/* However many points: the greatest and the least are drawn, and the path stays short. */
static void peaks_are_kept(void **state) {
    (void)state;
    enum { POINTS = 100000 };
    struct culm_chart_point *point = calloc(POINTS, sizeof *point);
    for (int i = 0; i < POINTS; i++) {
        point[i] = (struct culm_chart_point){i, i == 54321 ? 10 : i == 54322 ? -10 : 0};
    }
    struct culm_chart_series series = {"x", point, POINTS, POINTS};
    const struct culm_chart chart = {
        .title = "t", .x_label = "", .y_label = "", .series = &series, .series_count = 1};
    struct culm_buf out;
    culm_buf_init(&out, 1 << 20);
    culm_chart_write(&out, &chart);
    char *text = culm_buf_take_text(&out);
    assert_non_null(text);
    HAS(text, " 12.0L");
    HAS(text, " 206.0L");
    assert_true(strlen(text) < 100000);
    free(text);
    free(point);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_of_training),
        cmocka_unit_test(steps_that_were_undone_are_not_drawn),
        cmocka_unit_test(merging),
        cmocka_unit_test(one_round),
        cmocka_unit_test(an_edge_box),
        cmocka_unit_test(runs_of_a_package),
        cmocka_unit_test(long_logs),
        cmocka_unit_test(many_runs),
        cmocka_unit_test(base64_of_any_length),
        cmocka_unit_test(text_stays_text),
        cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(strange_numbers),
        cmocka_unit_test(peaks_are_kept),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
