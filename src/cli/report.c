/* `culm report DIR [--against DIR]`: the closing summary, from events alone. */
#include "cli/command.h"
#include "cli/options.h"

#include "report/summary.h"

struct values {
    const char *against;
};

static const struct culm_option options[] = {
    {"against", CULM_OPTION_TEXT, "DIR", offsetof(struct values, against),
     "another run; exit 1 unless both ended bit-equal"},
};

static const struct culm_usage usage = {
    .command = "report",
    .arguments = "DIR",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Prints the summary of the run in DIR, and whether another ended bit-equal",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

static int report(const char *dir, const char *against) {
    struct culm_summary summary, other;
    struct culm_error error = {0};
    char difference[256];
    int code = 0;
    culm_summary_init(&summary);
    culm_summary_init(&other);
    if (culm_summary_read(&summary, dir, &error) ||
        (against && culm_summary_read(&other, against, &error))) {
        code = culm_cli_fail("report", &error);
    } else {
        culm_summary_print(&summary, dir, against ? &other : NULL, stdout);
        code = against && !culm_summary_identical(&summary, &other, difference, sizeof difference);
    }
    culm_summary_release(&other);
    culm_summary_release(&summary);
    return code;
}

int culm_cli_report(int argc, char **argv) {
    struct values values = {0};
    struct culm_arguments arguments;
    struct culm_error error = {0};
    if (culm_options_parse(&usage, argc, argv, &values, &arguments, &error)) {
        return culm_cli_fail("report", &error);
    }
    if (arguments.help) {
        culm_usage_print(&usage, stdout);
        return 0;
    }
    return report(arguments.items[0], values.against);
}
