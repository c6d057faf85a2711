/* Nodes that join a run on a graph, and the mains of those that are started. See gnn_nodes.h. */
#include "run/gnn_nodes.h"

#include "run/doors.h"
#include "run/gearman_worker.h"
#include "run/gnn_function.h"
#include "run/gnn_node.h"

#include <string.h>

int culm_gnn_join(const struct culm_gnn_join_options *options, struct culm_error *ret_error) {
    char token[CULM_TOKEN_SIZE], join[CULM_ADDRESS_SIZE], listen[CULM_ADDRESS_SIZE],
        advertise[CULM_ADDRESS_SIZE];
    struct culm_address address;
    enum culm_status status =
        culm_doors_address("--join", options->address, join, &address, ret_error);
    uint32_t role = strcmp(options->role, "server") == 0 ? CULM_GNN_SERVER : CULM_GNN_WORKER;
    if (status == CULM_OK && options->listen) {
        status = culm_doors_address("--listen", options->listen, listen, &address, ret_error);
    }
    if (status == CULM_OK && options->advertise) {
        status = culm_doors_advertise(options->advertise, advertise, ret_error);
    }
    if (status == CULM_OK) {
        status = culm_token_read(options->token_file, token, ret_error);
    }
    if (status != CULM_OK) {
        return culm_status_exit_code(status);
    }
    const struct culm_participant_call call = {.address = join,
                                               .token = token,
                                               .role = role,
                                               .plain = options->insecure,
                                               .name = "newcomer",
                                               .listen = options->listen ? listen : NULL,
                                               .advertise = options->advertise ? advertise : NULL};
    return culm_run_gnn_newcomer(&call, NULL, ret_error);
}

enum culm_status culm_gnn_work_for(const char *server, struct culm_error *error) {
    return culm_gearman_work(server, error);
}

int culm_gnn_function_main(void) { return culm_gnn_function_run(); }

int culm_gnn_node_main(int argc, char **argv) {
    return culm_participant_main("node", argc, argv, culm_run_gnn_node);
}
