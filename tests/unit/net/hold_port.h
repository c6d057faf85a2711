/* A port for tests. Needs cmocka. */
#ifndef CULM_TESTS_UNIT_NET_HOLD_PORT_H
#define CULM_TESTS_UNIT_NET_HOLD_PORT_H

#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

/* A port of 127.0.0.1 that is ours until the returned descriptor is closed, and at which nobody listens. */
static inline int hold_port(char ret_address[CULM_ADDRESS_SIZE]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(ret_address, CULM_ADDRESS_SIZE, "tcp:127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

#endif
