/* What all commands do alike. */
#include "cli/command.h"

#include "base/buf.h"
#include "base/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int culm_cli_fail(const char *command, const struct culm_error *error) {
    fprintf(stderr, "culm %s: %s\n", command, error->text);
    return culm_status_exit_code(error->status);
}

void culm_cli_note(const char *command, const char *note) {
    if (note[0]) {
        fprintf(stderr, "culm %s: %s\n", command, note);
    }
}

bool culm_cli_is_graph(const char *path) {
    char config[CULM_PATH_MAX];
    return !culm_file_is_regular(path) &&
           (culm_path_format(config, NULL, "%s/config.yaml", path) != CULM_OK ||
            !culm_file_is_regular(config));
}

static bool unprintable; /* an answer that was to be printed */

void culm_cli_print_line(char *take_text) {
    if (take_text) {
        puts(take_text);
    }
    unprintable = unprintable || !take_text;
    free(take_text);
}

void culm_cli_print_json(json_t *take_value) {
    culm_cli_print_line(take_value ? json_dumps(take_value, JSON_COMPACT) : NULL);
    json_decref(take_value);
}

char *culm_cli_resume_remark(char *take_keys, char *take_settings) {
    struct culm_buf out;
    culm_buf_init(&out, 4096);
    culm_buf_printf(&out,
                    "--resume may change only\n"
                    "  %s\n"
                    "settings; none of them changes a bit of the result. --set may also change\n"
                    "  %s\n"
                    "settings, from the resumed step on.\n",
                    take_keys ? take_keys : "some", take_settings ? take_settings : "some");
    free(take_settings);
    free(take_keys);
    return culm_buf_take_text(&out);
}

enum culm_status culm_cli_only(bool given, const char *option, const char *command,
                               struct culm_error *error) {
    return given
               ? culm_error_set(error, CULM_ERR_ARGUMENT, "--%s is for '%s' alone", option, command)
               : CULM_OK;
}

enum culm_status culm_cli_flush(struct culm_error *error) {
    /* What was lost when a buffer was full is no error of fflush. */
    bool before = ferror(stdout) != 0;
    if (unprintable) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "the answer cannot be written as JSON: a number in it is not finite, "
                              "or memory is out");
    }
    if (fflush(stdout) != 0) {
        return culm_error_errno(error, errno, "write to standard output");
    }
    return before ? culm_error_set(error, CULM_ERR_IO,
                                   "write to standard output: part of the output was lost")
                  : CULM_OK;
}

int culm_cli_run(const struct culm_usage *usage, int argc, char **argv, void *values,
                 culm_cli_body body) {
    struct culm_arguments arguments;
    struct culm_error error = {0};
    int code = 0;
    enum culm_status status = culm_options_parse(usage, argc, argv, values, &arguments, &error);
    if (status == CULM_OK && arguments.help) {
        culm_usage_print(usage, stdout);
    } else if (status == CULM_OK) {
        status = body(&arguments, values, &code, &error);
        if (status == CULM_OK && unprintable) {
            status = culm_cli_flush(&error);
        }
    }
    culm_options_release(usage, values);
    return status == CULM_OK ? code : culm_cli_fail(usage->command, &error);
}
