/*
 * The commands. Each is one file with one function of this form: argv[0] is the command's name, it
 * prints for itself and returns the exit code of docs/commands.md (0 done, 1 failed, 2 usage, 3
 * configuration or input, 4 environment, 75 stopped by a signal and resumable).
 */
#ifndef CULM_CLI_COMMAND_H
#define CULM_CLI_COMMAND_H

#include "cli/options.h"

#include <jansson.h>

struct culm_command {
    const char *name;
    const char *summary; /* for the list; NULL: not listed */
    int (*run)(int argc, char **argv);
    const struct culm_usage *usage; /* its options; NULL: not listed */
};

int culm_cli_bench(int argc, char **argv);
int culm_cli_data(int argc, char **argv);
int culm_cli_edge(int argc, char **argv);
int culm_cli_eval(int argc, char **argv);
int culm_cli_model(int argc, char **argv);
int culm_cli_generate(int argc, char **argv);
int culm_cli_gnn(int argc, char **argv);
int culm_cli_gnn_cost(int argc, char **argv);   /* argv[0] is "cost" */
int culm_cli_gnn_join(int argc, char **argv);   /* argv[0] is "server" or "worker" */
int culm_cli_gnn_bundle(int argc, char **argv); /* argv[0] is "bundle" */
int culm_cli_gnn_train(int argc, char **argv);  /* argv[0] is "train" */
int culm_cli_help(int argc, char **argv);
int culm_cli_keys(int argc, char **argv);
int culm_cli_merge(int argc, char **argv);
int culm_cli_predict(int argc, char **argv);
int culm_cli_report(int argc, char **argv);
int culm_cli_train(int argc, char **argv);
int culm_cli_version(int argc, char **argv);
int culm_cli_node(int argc, char **argv);
int culm_cli_status(int argc, char **argv);
int culm_cli_runs(int argc, char **argv);
int culm_cli_stop(int argc, char **argv);
int culm_cli_gnn_node(int argc, char **argv);
int culm_cli_worker(int argc, char **argv);

/* Their options: beside the commands, for parsing, --help, manual pages and completions. */
extern const struct culm_usage culm_usage_bench, culm_usage_ckpt, culm_usage_data, culm_usage_edge,
    culm_usage_eval, culm_usage_generate, culm_usage_gnn, culm_usage_gnn_bundle,
    culm_usage_gnn_cost, culm_usage_gnn_server, culm_usage_gnn_train, culm_usage_gnn_worker,
    culm_usage_help, culm_usage_keys, culm_usage_model, culm_usage_node, culm_usage_runs,
    culm_usage_status, culm_usage_stop, culm_usage_merge,
    culm_usage_predict, culm_usage_report, culm_usage_train, culm_usage_version;

/* The table, which ends with a row without a name. It is in commands.c. */
const struct culm_command *culm_commands(void);

/* Prints "culm COMMAND: ERROR" to standard error and returns the error's exit code. */
int culm_cli_fail(const char *command, const struct culm_error *error);
/* The same of something that is no error; "": nothing. */
void culm_cli_note(const char *command, const char *note);

/* Prints one line of JSON to standard output. NULL, which is what an object with a number that is not
 * finite comes to, prints nothing: culm_cli_flush tells of it. */
void culm_cli_print_json(json_t *take_value);
/* The same of a text that has been made. */
void culm_cli_print_line(char *take_text);
/* Whether `path` is to be taken for a data graph: it is not a file, which then is a configuration, nor
 * the folder of a run. */
bool culm_cli_is_graph(const char *path);
/* What --help says of --resume, of the keys that it may change, and of those that --set may change
 * then as well; NULL: "some". NULL: out of memory. */
char *culm_cli_resume_remark(char *take_keys, char *take_settings);
/* CULM_ERR_ARGUMENT if an option was given (`given`) that only `command` has. */
enum culm_status culm_cli_only(bool given, const char *option, const char *command,
                               struct culm_error *error);
/* Sends what was printed on its way. Fails as well where printing has failed before. */
enum culm_status culm_cli_flush(struct culm_error *error);

/* What --help says of --weights PATH of a model that was trained. */
#define CULM_CLI_WEIGHTS_DOC                                                                       \
    "a safetensors file, the index of its shards or their folder, a checkpoint, or a run; best: "  \
    "DIR/best.safetensors (default: the model's own)"

/* What a command does with its arguments and the values of its options. An error is printed by
 * whoever calls it; *ret_code, 0 before, is the exit code of what went well. */
typedef enum culm_status (*culm_cli_body)(const struct culm_arguments *arguments, void *values,
                                          int *ret_code, struct culm_error *error);
/* The frame of a command: options, --help, the body, its error. `values` has the defaults. Returns
 * the exit code. */
int culm_cli_run(const struct culm_usage *usage, int argc, char **argv, void *values,
                 culm_cli_body body);

#endif
