/* Option tables: what parses, and what each mistake is answered with. */
#include "cli/options.h"
#include "cli/command.h"

#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct values {
    bool loud;
    const char *out;
    double scale;
    struct culm_option_list sets;
    int64_t times;
    int voice;
};

static const char *const voices[] = {"alto", "bass", NULL};
static const struct culm_option options[] = {
    CULM_OPTION("loud", FLAG, NULL, struct values, loud, "speaks up"),
    CULM_OPTION("out", TEXT, "DIR", struct values, out, "goes there"),
    CULM_OPTION("scale", REAL, "X", struct values, scale, "grows"),
    CULM_OPTION("set", LIST, "K=V", struct values, sets, "sets"),
    CULM_OPTION("times", INT, "N", struct values, times, "repeats", .most = 5000),
    CULM_OPTION("voice", WORD, "alto|bass", struct values, voice, "with", .words = voices),
};
static const struct culm_usage usage = {
    .command = "sing",
    .arguments = "SONG",
    .min_arguments = 1,
    .max_arguments = 2,
    .summary = "Sings a song",
    .details = "More below.\n",
    .options = options,
    .option_count = 6,
};

static enum culm_status parse(const char *line, struct values *values,
                              struct culm_arguments *arguments, struct culm_error *error) {
    static char words[256];
    char *argv[16], *save = NULL;
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        argv[argc++] = word;
    }
    *values = (struct values){0};
    return culm_options_parse(&usage, argc, argv, values, arguments, error);
}

static void refused(const char *line, const char *message) {
    struct values values;
    struct culm_arguments arguments;
    struct culm_error error = {0};
    assert_int_equal(parse(line, &values, &arguments, &error), CULM_ERR_ARGUMENT);
    assert_string_equal(error.text, message);
    assert_int_equal(culm_status_exit_code(error.status), 2);
    culm_options_release(&usage, &values);
}

static void all_forms_parse(void **state) {
    (void)state;
    struct values v;
    struct culm_arguments arguments;
    assert_int_equal(parse("sing a --loud --out x --out=y --scale 2.5 --set a=b --set=c=d b", &v,
                           &arguments, NULL),
                     CULM_OK);
    assert_true(v.loud);
    assert_string_equal(v.out, "y");
    assert_true(v.scale == 2.5);
    assert_int_equal(v.sets.count, 2);
    assert_string_equal(v.sets.items[0], "a=b");
    assert_string_equal(v.sets.items[1], "c=d");
    assert_int_equal(arguments.count, 2);
    assert_string_equal(arguments.items[1], "b");
    culm_options_release(&usage, &v);
    assert_null(v.sets.items);

    assert_int_equal(parse("sing a --times 17 --voice bass", &v, &arguments, NULL), CULM_OK);
    assert_int_equal(v.times, 17);
    assert_int_equal(v.voice, 1);
    assert_int_equal(parse("sing a --times 2e3", &v, &arguments, NULL), CULM_OK);
    assert_int_equal(v.times, 2000);

    assert_int_equal(parse("sing -- --loud -", &v, &arguments, NULL), CULM_OK);
    assert_false(v.loud);
    assert_string_equal(arguments.items[0], "--loud");
    assert_string_equal(arguments.items[1], "-");

    assert_int_equal(parse("sing a b c --help", &v, &arguments, NULL), CULM_ERR_ARGUMENT);
    assert_int_equal(parse("sing a -h", &v, &arguments, NULL), CULM_OK);
    assert_true(arguments.help);
}

static void mistakes(void **state) {
    (void)state;
    refused("sing", "needs SONG; see 'culm sing --help'");
    refused("sing a b c", "one argument too many: 'c'; see 'culm sing --help'");
    refused("sing a --lod",
            "unknown option '--lod'; did you mean '--loud'; see 'culm sing --help'");
    refused("sing a --zzzzzz=1", "unknown option '--zzzzzz=1'; see 'culm sing --help'");
    refused("sing a -x", "unknown option '-x'; see 'culm sing --help'");
    refused("sing a --loud=1", "--loud takes no value");
    refused("sing a --out", "--out needs a value: --out DIR");
    refused("sing a --scale 0", "--scale: '0' is not a number above 0");
    refused("sing a --scale nan", "--scale: 'nan' is not a number above 0");
    refused("sing a --scale 1x", "--scale: '1x' is not a number above 0");
    refused("sing a --times 0", "--times: '0' is not a whole number above 0 and up to 5000");
    refused("sing a --times 5001", "--times: '5001' is not a whole number above 0 and up to 5000");
    refused("sing a --times 1.5", "--times: '1.5' is not a whole number above 0 and up to 5000");
    refused("sing a --times 1e300",
            "--times: '1e300' is not a whole number above 0 and up to 5000");
    refused("sing a --times nan", "--times: 'nan' is not a whole number above 0 and up to 5000");
    refused("sing a --voice tenor", "--voice: 'tenor' is not known; allowed: alto, bass");
    refused("sing --set a=b --out", "--out needs a value: --out DIR");
}

static void help_text(void **state) {
    (void)state;
    char text[1024] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    culm_usage_print(&usage, file);
    fclose(file);
    assert_string_equal(text, "usage: culm sing SONG [OPTION]...\n\n"
                              "Sings a song.\n\n"
                              "  --loud                   speaks up\n"
                              "  --out DIR                goes there\n"
                              "  --scale X                grows\n"
                              "  --set K=V                sets\n"
                              "  --times N                repeats\n"
                              "  --voice alto|bass        with\n\n"
                              "More below.\n");
}

/* Nothing is printed of an object that cannot be: an empty line would pass for an answer. */
static void unprintable(void **state) {
    (void)state;
    struct culm_error error = {0};
    char *printed = NULL;
    size_t len = 0;
    FILE *before = stdout;
    stdout = open_memstream(&printed, &len);
    culm_cli_print_json(json_pack("{s:f}", "loss", 0.5));
    enum culm_status good = culm_cli_flush(&error);
    culm_cli_print_json(json_pack("{s:f}", "loss", (double)NAN));
    enum culm_status bad = culm_cli_flush(&error);
    fclose(stdout);
    stdout = before;
    assert_int_equal(good, CULM_OK);
    assert_int_equal(bad, CULM_ERR_CONFIG);
    assert_string_equal(printed, "{\"loss\":0.5}\n");
    free(printed);
    assert_non_null(strstr(error.text, "a number in it is not finite"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_parse),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(help_text),
        cmocka_unit_test(unprintable),
    };
    return cmocka_run_group_tests_name("cli/options", tests, NULL, NULL);
}
