/* A worker's call that ends with the welcome. See visit.h. */
#include "cluster/visit.h"

#include "cluster/worker_internal.h"

enum culm_status culm_visit(const char *address, const char *token,
                            struct culm_channel *ret_channel, struct culm_error *error) {
    struct culm_worker visitor = {
        .o = {.address = address, .token = token, .node = CULM_VISITOR, .calls_only = true},
        .leader = {.fd = -1},
        .listen_fd = -1,
    };
    int64_t pid = 0;
    enum culm_status status = worker_call(&visitor, &pid, error);
    if (status != CULM_OK) {
        culm_channel_close(&visitor.leader);
        return culm_error_prefix(error, "call '%s'", address);
    }
    *ret_channel = visitor.leader;
    return CULM_OK;
}
