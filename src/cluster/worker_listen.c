/* A worker's world: the address it listens at, and the one it advertises. See worker.h. */
#include "cluster/advertise.h"
#include "cluster/worker_internal.h"

#include <stdio.h>

/* The local address of the connection to the leader, with any port (or name). Of all addresses
 * of this machine, peers are most likely to reach it by this one. */
static enum culm_status own_side(const struct culm_worker *worker,
                                 char ret_address[CULM_ADDRESS_SIZE], struct culm_error *error) {
    struct culm_address address;
    enum culm_status status = culm_socket_local(worker->leader.fd, &address, error);
    if (status != CULM_OK) {
        return status;
    }
    if (culm_address_is_tcp(&address)) {
        address.port = 0;
    } else {
        address = (struct culm_address){.kind = CULM_ADDRESS_LOCAL};
    }
    culm_address_print(&address, ret_address);
    return CULM_OK;
}

/* Replaces a name by a numeric address, because peers connect from their loops, which must not wait
 * for a resolver. */
static enum culm_status to_number(char address[CULM_ADDRESS_SIZE], struct culm_error *error) {
    struct culm_address parsed, number;
    size_t count;
    enum culm_status status = culm_address_parse(address, &parsed, error);
    if (status == CULM_OK) {
        status = culm_address_resolve(&parsed, &number, 1, &count, error);
    }
    if (status == CULM_OK) {
        culm_address_print(&number, address);
    }
    return status;
}

static enum culm_status advertise(struct culm_worker *worker, const char *listening,
                                  const char *own, struct culm_error *error) {
    struct culm_address at;
    const char *told = worker->o.advertise;
    enum culm_status status = culm_address_parse(listening, &at, error);
    if (status == CULM_OK && !told && culm_address_is_any(&at)) {
        told = own;
    }
    if (status == CULM_OK) {
        status = culm_advertise(told, listening, worker->address, error);
    }
    return status == CULM_OK ? to_number(worker->address, error) : status;
}

enum culm_status worker_listen(struct culm_worker *worker, struct culm_error *error) {
    char own[CULM_ADDRESS_SIZE], where[CULM_ADDRESS_SIZE], listening[CULM_ADDRESS_SIZE];
    if (worker->listen_fd >= 0 || worker->o.calls_only) {
        return CULM_OK;
    }
    enum culm_status status = own_side(worker, own, error);
    if (status == CULM_OK) {
        snprintf(where, sizeof where, "%s", worker->o.listen ? worker->o.listen : own);
        status = to_number(where, error);
    }
    if (status == CULM_OK) {
        status = culm_socket_listen(where, &worker->listen_fd, listening, error);
    }
    return status == CULM_OK ? advertise(worker, listening, own, error) : status;
}

void worker_listen_stop(struct culm_worker *worker) {
    if (worker->listen_fd >= 0) {
        culm_socket_close_listener(worker->listen_fd);
        worker->listen_fd = -1;
    }
}
