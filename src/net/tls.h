/*
 * TLS 1.3 over a connected socket, with a run's token as its pre-shared key.
 *
 * There are no certificates to make, to spread or to expire: who has the token is let in, and nobody else can read, change
 * or replay a byte. Keys are fresh for each connection (psk_dhe_ke), so that a token that becomes known later does not
 * open what was recorded. Which run a connection belongs to can be seen from outside, as a keyed hash of the token; the
 * token itself is never sent.
 *
 * Reads and writes are those of a stream (stream.h); either may have to wait for the socket to become readable or
 * writable, whatever it is itself: culm_tls_waits. The handshake is part of the first of them. Over libssl. Thread: one at
 * a time for each object; any.
 */
#ifndef CULM_NET_TLS_H
#define CULM_NET_TLS_H

#include "base/status.h"

#include <sys/types.h>
#include <sys/uio.h>

struct culm_tls;

/* calls: the side that has connected; the other one has accepted. The non-blocking socket is borrowed until _free, the
 * token is not. CULM_ERR_MEMORY; CULM_ERR_UNSUPPORTED: libssl lacks what is needed. */
enum culm_status culm_tls_new(int borrow_fd, const char *token, bool calls,
                              struct culm_tls **ret_tls, struct culm_error *error);
void culm_tls_free(struct culm_tls *tls); /* NULL is fine */

/* As read and write of a stream. -EKEYREJECTED: the other side does not know the token, or does not speak TLS; -EBADMSG:
 * what came was changed on its way. What was written has been taken by the socket, but for what -EAGAIN was said of: the
 * same bytes, or more behind them, must come again. */
ssize_t culm_tls_read(struct culm_tls *tls, const struct iovec *to, int count);
ssize_t culm_tls_write(struct culm_tls *tls, const struct iovec *from, int count);
/* What -errno of these says of a connection: CULM_ERR_CONFIG for -EKEYREJECTED, else CULM_ERR_CLOSED. */
enum culm_status culm_tls_error(int cause, struct culm_error *error);
/* For which events (CULM_STREAM_READ, _WRITE) of the socket these events wait. */
int culm_tls_waits(const struct culm_tls *tls, int events);
/* Something can be read although the socket has nothing: what came with an earlier byte. */
bool culm_tls_holds(const struct culm_tls *tls);
/* Tells the other side that nothing more is written, if the socket takes it now. */
void culm_tls_finish(struct culm_tls *tls);
/* New keys after so many records; for tests. By default long before the cipher's limit. */
void culm_tls_renew_after(struct culm_tls *tls, uint64_t records);

#endif
