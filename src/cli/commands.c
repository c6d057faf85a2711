/* The table of commands. A new command is a file and a row here. */
#include "cli/ckpt.h"
#include "cli/command.h"

static const struct culm_command commands[] = {
    {"train", "trains a model in worker processes that may be killed at any time", culm_cli_train,
     &culm_usage_train},
    {"report", "prints the summary of a run, and whether another ended bit-equal", culm_cli_report,
     &culm_usage_report},
    {"ckpt", "lists, shows, compares, exports and removes checkpoints", culm_cli_ckpt,
     &culm_usage_ckpt},
    {"model", "lists models, shows what one costs, imports and exports ONNX files", culm_cli_model,
     &culm_usage_model},
    {"bench", "measures training steps, inference and graph kernels", culm_cli_bench,
     &culm_usage_bench},
    {"eval", "measures a model on held-out data", culm_cli_eval, &culm_usage_eval},
    {"data", "finds samples that cannot be used", culm_cli_data, &culm_usage_data},
    {"gnn", "trains graph networks; makes, imports and inspects data graphs", culm_cli_gnn,
     &culm_usage_gnn},
    {"merge", "lets several vision models share layers", culm_cli_merge, &culm_usage_merge},
    {"predict", "shows what a model finds in pictures and clips", culm_cli_predict,
     &culm_usage_predict},
    {"edge", "answers queries on live video with more models than memory holds", culm_cli_edge,
     &culm_usage_edge},
    {"generate", "writes text with a trained model", culm_cli_generate, &culm_usage_generate},
    {"node", "joins a training run on another machine with workers of this one", culm_cli_node,
     &culm_usage_node},
    {"status", "shows what a run is at", culm_cli_status, &culm_usage_status},
    {"runs", "lists the runs at a store of keys", culm_cli_runs, &culm_usage_runs},
    {"stop", "stops a run, so that --resume goes on with nothing to do again", culm_cli_stop,
     &culm_usage_stop},
    {"keys", "makes a secret for a run on several machines", culm_cli_keys, &culm_usage_keys},
    {"version", "prints the version of the program and its libraries", culm_cli_version,
     &culm_usage_version},
    {"help", "explains a command, or every configuration key", culm_cli_help, &culm_usage_help},
    {"gnn-node", NULL, culm_cli_gnn_node, NULL},
    {"worker", NULL, culm_cli_worker, NULL},
    {0},
};

const struct culm_command *culm_commands(void) { return commands; }
