/*
 * Stream sockets by number: non-blocking, closed on exec. Thread: any.
 *
 * Through "unix:" only processes of the same user come, and it is known which process calls. Over
 * TCP anybody may call; there Nagle's delay is off, an idle link is probed after 15 s and given up
 * after another 15 s without an answer, and one whose bytes nobody acknowledges after 60 s.
 * Addresses are text (address.h), of numbers: names of hosts are looked up before. A listener on
 * "unix:" gets a random name; of port 0 the system takes one that is free.
 */
#ifndef CULM_NET_SOCKET_H
#define CULM_NET_SOCKET_H

#include "base/clock.h" /* of all deadlines */
#include "net/address.h"

/* At unix:/DIR/FILE, takes the place of a listener that was killed, but not of one that lives, or of any
 * other file. CULM_ERR_CONFIG: not an address. */
enum culm_status culm_socket_listen(const char *where, int *ret_fd,
                                    char ret_address[CULM_ADDRESS_SIZE], struct culm_error *error);
/* The same, but nobody who calls is let in before culm_socket_listen_there: its machine refuses. Over TCP only. */
enum culm_status culm_socket_reserve(const char *where, int *ret_fd,
                                     char ret_address[CULM_ADDRESS_SIZE], struct culm_error *error);
enum culm_status culm_socket_listen_there(int fd, struct culm_error *error);
/* Closes one that culm_socket_listen gave, and removes its file if it is unix:/DIR/FILE, unless
 * somebody else listens there by now. */
void culm_socket_close_listener(int take_fd);
/* Where a connected or listening socket is on this side; of "unix:" host "" when it has no name. */
enum culm_status culm_socket_local(int fd, struct culm_address *ret_address,
                                   struct culm_error *error);
/* CULM_ERR_AGAIN when nobody waits (or the one who did is gone); CULM_ERR_CLOSED when the one who
 * did was of another user and was shown out, unheard. */
enum culm_status culm_socket_accept(int listen_fd, int *ret_fd, struct culm_error *error);
/* Starts to connect; the socket is writable when it is done. CULM_ERR_AGAIN: not now (descriptors,
 * ports, memory or the other side's queue are used up), another attempt may succeed;
 * CULM_ERR_NOT_FOUND: nobody listens there, or another user does. */
enum culm_status culm_socket_connect(const char *address, int *ret_fd, struct culm_error *error);
/* The number of the host, this machine's, from which that address of TCP would be called. Names are looked up. */
enum culm_status culm_socket_toward(const char *address, char ret_host[CULM_ADDRESS_HOST_SIZE],
                                    struct culm_error *error);
/* What became of a connect: 0 or an errno; and that errno as a status, as above. */
int culm_socket_error(int fd);
enum culm_status culm_socket_connect_status(int cause);
/* The process at the other end when it connected or began to listen; 0 when that is not known. */
int64_t culm_socket_peer_pid(int fd);
/* The number of the host at the other end; "": this machine, or it is not known. */
void culm_socket_peer_host(int fd, char ret_host[CULM_ADDRESS_HOST_SIZE]);
/* Whether all between the two ends stays on this machine. peer: where the other one is, if it may not be connected yet;
 * NULL: as the socket says. */
bool culm_socket_stays(int fd, const struct culm_address *peer_or_null);
/* Waits for poll(2) events until deadline_ns (CLOCK_MONOTONIC); false when it has passed. */
bool culm_socket_wait(int fd, short events, uint64_t deadline_ns);
/* Exactly len bytes out of, or into, `data`. CULM_ERR_CLOSED, CULM_ERR_TIMEOUT, CULM_ERR_IO. */
enum culm_status culm_socket_read(int fd, void *data, size_t len, uint64_t deadline_ns,
                                  struct culm_error *error);
enum culm_status culm_socket_write(int fd, const void *data, size_t len, uint64_t deadline_ns,
                                   struct culm_error *error);

/* As many descriptors as this user may have, for processes with many connections. */
void culm_socket_raise_limit(void);

#endif
