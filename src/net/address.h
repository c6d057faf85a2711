/*
 * Addresses of streams: where somebody listens.
 *
 *     unix:NAME         a name of this machine that no file system knows
 *     unix:/DIR/FILE    a socket in the file system
 *     tcp:1.2.3.4:80    TCP over IPv4
 *     tcp:[::1]:80      TCP over IPv6
 *     tcp:HOST:80       a host by its name, which has to be looked up before anybody can call it
 *
 * As text an address travels and is told to people; parsed, it is what a socket is made of. Text may
 * come from others: what is not exactly of one of these forms is refused, and what was parsed is
 * printed in one way, so that two spellings of one number are one text; tcp:[::ffff:1.2.3.4]:80 is
 * tcp:1.2.3.4:80. Link-local addresses (fe80::1, fe80::1%eth0) are refused: an address is told to
 * others, and on another machine the same link has another name. Thread: any.
 */
#ifndef CULM_NET_ADDRESS_H
#define CULM_NET_ADDRESS_H

#include "base/status.h"

#define CULM_ADDRESS_SIZE 272 /* of any address as text, its NUL included */
#define CULM_ADDRESS_HOST_SIZE 256

enum culm_address_kind {
    CULM_ADDRESS_LOCAL, /* unix:NAME */
    CULM_ADDRESS_PATH,
    CULM_ADDRESS_IPV4,
    CULM_ADDRESS_IPV6,
    CULM_ADDRESS_NAME,
};

struct culm_address {
    enum culm_address_kind kind;
    uint16_t port; /* of TCP; 0: for a listener to choose */
    /* Name, path, number (an IPv6 one without its brackets), or name of a host. LOCAL and "": a name
     * for a listener to choose. */
    char host[CULM_ADDRESS_HOST_SIZE];
};

/* CULM_ERR_CONFIG: not an address. */
enum culm_status culm_address_parse(const char *text, struct culm_address *ret_address,
                                    struct culm_error *error);
void culm_address_print(const struct culm_address *address, char ret_text[CULM_ADDRESS_SIZE]);

/* TCP, over whatever. */
static inline bool culm_address_is_tcp(const struct culm_address *address) {
    return address->kind >= CULM_ADDRESS_IPV4;
}
/* 0.0.0.0 or [::]: where to listen for everyone, but nowhere to call. */
bool culm_address_is_any(const struct culm_address *address);
/* Unix sockets, 127.0.0.0/8, [::1] and the name localhost: only this machine can call there. A name
 * that begins like such a number is the name of any machine. */
bool culm_address_is_loopback(const struct culm_address *address);

/* The numbers of a name, those to be tried first in front and link-local ones left out; anything else
 * is its own answer. At most `max` (>= 1). May block for as long as the system's resolver does: never
 * on a loop. CULM_ERR_AGAIN: not now; CULM_ERR_NOT_FOUND: nobody has that name. */
enum culm_status culm_address_resolve(const struct culm_address *address,
                                      struct culm_address *ret_number, size_t max,
                                      size_t *ret_count, struct culm_error *error);

#endif
