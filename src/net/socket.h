/*
 * TCP sockets by number: non-blocking, closed on exec, without Nagle's delay. Addresses are numeric
 * IPv4 ("127.0.0.1"). Thread: any.
 */
#ifndef CULM_NET_SOCKET_H
#define CULM_NET_SOCKET_H

#include "base/status.h"

/* Listens on host and an ephemeral port. */
enum culm_status culm_socket_listen(const char *host, int *ret_fd, int *ret_port,
                                    struct culm_error *error);
/* CULM_ERR_AGAIN when nobody waits (or the one who did is gone). */
enum culm_status culm_socket_accept(int listen_fd, int *ret_fd, struct culm_error *error);
/* Starts to connect; the socket is writable when it is done. */
enum culm_status culm_socket_connect(const char *host, int port, int *ret_fd,
                                     struct culm_error *error);
/* What became of a connect: 0 or an errno. */
int culm_socket_error(int fd);
/* Waits for poll(2) events until deadline_ns (CLOCK_MONOTONIC); false when it has passed. */
bool culm_socket_wait(int fd, short events, uint64_t deadline_ns);
/* Exactly len bytes out of, or into, `data`. CULM_ERR_CLOSED, CULM_ERR_TIMEOUT, CULM_ERR_IO. */
enum culm_status culm_socket_read(int fd, void *data, size_t len, uint64_t deadline_ns,
                                  struct culm_error *error);
enum culm_status culm_socket_write(int fd, const void *data, size_t len, uint64_t deadline_ns,
                                   struct culm_error *error);

uint64_t culm_clock_ns(void); /* CLOCK_MONOTONIC */

#endif
