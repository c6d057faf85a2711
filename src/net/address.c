/* Text to address and back; names by the system's resolver. See address.h. */
#include "net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define UNIX "unix:"
#define TCP "tcp:"
#define LABEL_MAX 63
#define NAME_BYTES_MAX 253

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool digits(const char *text, size_t len) {
    return len > 0 && strspn(text, "0123456789") >= len;
}

/* 1 to 5 digits, at most 65535. */
static bool read_port(const char *text, uint16_t *ret_port) {
    size_t len = strlen(text);
    long port = len <= 5 && digits(text, len) ? strtol(text, NULL, 10) : -1;
    if (port < 0 || port > UINT16_MAX) {
        return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

/* Of those that the resolver takes parts of an IPv4 address for: octal and hexadecimal ones too. */
static bool is_part_of_number(const char *label) {
    bool hex = label[0] == '0' && (label[1] == 'x' || label[1] == 'X');
    return hex ? label[2 + strspn(label + 2, "0123456789abcdefABCDEF")] == '\0'
               : digits(label, strlen(label));
}

/* Labels of letters, digits, '-' and '_', with dots between them. The last is not a number: what
 * looks like a wrong IPv4 address is one. */
static bool is_name(const char *text) {
    size_t len = strlen(text), label = 0;
    const char *last = strrchr(text, '.');
    for (size_t i = 0; i <= len; i++) {
        char c = text[i];
        bool end = c == '.' || c == '\0';
        if (end && (!label || label > LABEL_MAX || text[i - 1] == '-')) {
            return false;
        }
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || (c == '-' && label);
        if (!end && !word) {
            return false;
        }
        label = end ? 0 : label + 1;
    }
    last = last ? last + 1 : text;
    return len <= NAME_BYTES_MAX && !is_part_of_number(last);
}

/* In the system's spelling. An IPv4 number in IPv6's clothes is an IPv4 number: calls to it come
 * from one, where a socket that is for IPv6 alone could not listen. */
static bool set_number(int family, const void *number, struct culm_address *address) {
    if (family == AF_INET6 && IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)number)) {
        family = AF_INET;
        number = (const uint8_t *)number + sizeof(struct in6_addr) - sizeof(struct in_addr);
    }
    address->kind = family == AF_INET ? CULM_ADDRESS_IPV4 : CULM_ADDRESS_IPV6;
    return inet_ntop(family, number, address->host, sizeof address->host) != NULL;
}

/* False: not a number of this kind. */
static bool read_number(int family, const char *host, struct culm_address *address) {
    struct in6_addr number;
    return inet_pton(family, host, &number) == 1 && set_number(family, &number, address);
}

static bool parse_tcp(const char *text, struct culm_address *address) {
    char host[CULM_ADDRESS_HOST_SIZE];
    bool bracket = text[0] == '[';
    const char *end = bracket ? strstr(text, "]:") : strchr(text, ':');
    const char *start = text + bracket;
    if (!end || (size_t)(end - start) >= sizeof host) {
        return false;
    }
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    if (!read_port(end + 1 + bracket, &address->port)) {
        return false;
    }
    if (bracket) {
        return read_number(AF_INET6, host, address);
    }
    if (read_number(AF_INET, host, address)) {
        return true;
    }
    address->kind = CULM_ADDRESS_NAME;
    memcpy(address->host, host, sizeof host);
    return is_name(host);
}

/* Anything that can be seen, as long as the system has room for it. */
static bool parse_unix(const char *text, struct culm_address *address) {
    size_t len = strlen(text);
    address->kind = text[0] == '/' ? CULM_ADDRESS_PATH : CULM_ADDRESS_LOCAL;
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    if (len >= sizeof((struct sockaddr_un *)NULL)->sun_path) {
        return false;
    }
    memcpy(address->host, text, len + 1);
    return true;
}

/* tcp:[fe80::1]:80, or with an interface behind it. */
static bool is_link_local(const char *text) {
    char host[INET6_ADDRSTRLEN];
    struct in6_addr number;
    if (!begins(text, TCP "[")) {
        return false;
    }
    text += strlen(TCP "[");
    snprintf(host, sizeof host, "%.*s", (int)strcspn(text, "%]"), text);
    return inet_pton(AF_INET6, host, &number) == 1 && IN6_IS_ADDR_LINKLOCAL(&number);
}

enum culm_status culm_address_parse(const char *text, struct culm_address *ret_address,
                                    struct culm_error *error) {
    struct culm_address address = {0};
    bool right = begins(text, UNIX)  ? parse_unix(text + strlen(UNIX), &address)
                 : begins(text, TCP) ? parse_tcp(text + strlen(TCP), &address)
                                     : false;
    if (is_link_local(text)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "'%.100s' is a link-local address, which means something else on every "
            "machine; give another address of that host",
            text);
    }
    if (!right) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.100s' is not an address; give 'unix:NAME', 'tcp:HOST:PORT' or "
                              "'tcp:[IPV6]:PORT'",
                              text);
    }
    *ret_address = address;
    return CULM_OK;
}

void culm_address_print(const struct culm_address *address, char ret_text[CULM_ADDRESS_SIZE]) {
    bool six = address->kind == CULM_ADDRESS_IPV6;
    if (culm_address_is_tcp(address)) {
        snprintf(ret_text, CULM_ADDRESS_SIZE, TCP "%s%s%s:%d", six ? "[" : "", address->host,
                 six ? "]" : "", address->port);
    } else {
        snprintf(ret_text, CULM_ADDRESS_SIZE, UNIX "%s", address->host);
    }
}

bool culm_address_is_any(const struct culm_address *address) {
    return (address->kind == CULM_ADDRESS_IPV4 && strcmp(address->host, "0.0.0.0") == 0) ||
           (address->kind == CULM_ADDRESS_IPV6 && strcmp(address->host, "::") == 0);
}

bool culm_address_is_loopback(const struct culm_address *address) {
    switch (address->kind) {
    case CULM_ADDRESS_IPV4: return begins(address->host, "127.");
    case CULM_ADDRESS_IPV6: return strcmp(address->host, "::1") == 0;
    case CULM_ADDRESS_NAME: return strcmp(address->host, "localhost") == 0;
    default: return true;
    }
}

/* --- names --- */

static enum culm_status not_resolved(const struct culm_address *address, int failed,
                                     struct culm_error *error) {
    bool later = failed == EAI_AGAIN || failed == EAI_MEMORY || failed == EAI_SYSTEM;
    return culm_error_set(error, later ? CULM_ERR_AGAIN : CULM_ERR_NOT_FOUND,
                          "look up '%.100s': %s", address->host, gai_strerror(failed));
}

enum culm_status culm_address_resolve(const struct culm_address *address,
                                      struct culm_address *ret_number, size_t max,
                                      size_t *ret_count, struct culm_error *error) {
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    size_t count = 0;
    bool near = false;
    if (address->kind != CULM_ADDRESS_NAME) {
        ret_number[0] = *address;
        *ret_count = 1;
        return CULM_OK;
    }
    int failed = getaddrinfo(address->host, NULL, &hints, &found);
    for (struct addrinfo *at = failed ? NULL : found; at && count < max; at = at->ai_next) {
        struct culm_address number = {.port = address->port};
        bool six = at->ai_family == AF_INET6;
        const void *bytes = six ? (void *)&((struct sockaddr_in6 *)at->ai_addr)->sin6_addr
                                : (void *)&((struct sockaddr_in *)at->ai_addr)->sin_addr;
        if (six && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)bytes)) {
            near = true;
        } else if ((six || at->ai_family == AF_INET) && set_number(at->ai_family, bytes, &number)) {
            ret_number[count++] = number;
        }
    }
    if (found) {
        freeaddrinfo(found);
    }
    if (!count && near) {
        return culm_error_set(
            error, CULM_ERR_NOT_FOUND,
            "look up '%.100s': it has only link-local addresses, which mean something "
            "else on every machine",
            address->host);
    }
    if (!count) {
        return not_resolved(address, failed ? failed : EAI_NONAME, error);
    }
    *ret_count = count;
    return CULM_OK;
}
