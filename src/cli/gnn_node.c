/* The hidden command `culm gnn-node`: what the launcher of a run on a graph starts. Its output is the
 * node's log. */
#include "cli/command.h"
#include "run/gnn_nodes.h"

int culm_cli_gnn_node(int argc, char **argv) { return culm_gnn_node_main(argc, argv); }
