/* `culm gnn bundle`: packs this program for a function of AWS Lambda. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/options.h"
#include "run/gnn_nodes.h"

#include <stdio.h>

struct values {
    const char *out;
    bool json;
};

static const struct culm_option option_rows[] = {
    CULM_OPTION("out", TEXT, "FILE.zip", struct values, out, "the file to write"),
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object"),
};

const struct culm_usage culm_usage_gnn_bundle = {
    .command = "gnn bundle",
    .arguments = "",
    .summary = "Writes the package of a function of AWS Lambda: this program and its libraries",
    .options = option_rows,
    .option_count = sizeof option_rows / sizeof *option_rows,
    .details = "The function's runtime is provided.al2023; its handler may have any name.\n",
};

static enum culm_status bundle(const struct culm_arguments *arguments, void *values, int *ret_code,
                               struct culm_error *error) {
    const struct values *v = values;
    struct culm_gnn_bundle made;
    (void)arguments;
    (void)ret_code;
    if (!v->out) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "name the file to write: --out FILE.zip");
    }
    enum culm_status status = culm_gnn_bundle_write(v->out, &made, error);
    if (status != CULM_OK) {
        return status;
    }
    if (v->json) {
        culm_cli_print_json(json_pack(
            "{s:o, s:I, s:I, s:I}", "out", culm_json_text(v->out), "files", (json_int_t)made.files,
            "bytes", (json_int_t)made.bytes, "zip_bytes", (json_int_t)made.zip_bytes));
    } else {
        printf("%s: %lld files, %.1f MB, %.1f MB as a zip%s\n", v->out, (long long)made.files,
               (double)made.bytes / 1e6, (double)made.zip_bytes / 1e6,
               made.too_large ? "; upload it through S3, since it is larger than 50 MB" : "");
    }
    return CULM_OK;
}

int culm_cli_gnn_bundle(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_gnn_bundle, argc, argv, &values, bundle);
}
