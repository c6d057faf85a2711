/* Loads libgearman, and checks that a job server answers. See gearman_library.h. */
#include "cloud/gearman_library.h"

#include "base/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 5000

const struct culm_gearman *culm_gearman_load(struct culm_error *error) {
    static struct culm_gearman gearman;
#define ROW(name) {"gearman_" #name, &gearman.name},
    static const struct culm_library_function functions[] = {CULM_GEARMAN_FUNCTIONS(ROW)};
#undef ROW
    static struct culm_library library = {.name = "libgearman.so.8",
                                          .package = "libgearman8",
                                          .oldest = "1.1",
                                          .functions = functions,
                                          .count = sizeof functions / sizeof *functions};
    return culm_library_load(&library, error) == CULM_OK ? &gearman : NULL;
}

enum culm_status culm_gearman_server_read(const char *text, const char *what,
                                          struct culm_gearman_server *ret_server,
                                          struct culm_error *error) {
    const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    const char *colon = end ? (end[1] == ':' ? end + 1 : NULL) : strrchr(text, ':');
    const char *host = end ? text + 1 : text;
    size_t len = end ? (size_t)(end - host) : colon ? (size_t)(colon - text) : strlen(text);
    const char *digits = colon ? colon + 1 : "4730";
    size_t count = strspn(digits, "0123456789");
    long port = count > 0 && count <= 5 && !digits[count] ? atol(digits) : 0;
    bool rest = end && !colon && end[1];
    if (len == 0 || len >= sizeof ret_server->host || port < 1 || port > 65535 || rest ||
        (text[0] == '[' && !end)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%s: '%.60s' is not the address of a job server; allowed: HOST:PORT",
                              what, text);
    }
    memcpy(ret_server->host, host, len);
    ret_server->host[len] = '\0';
    ret_server->port = (uint16_t)port;
    return CULM_OK;
}

enum culm_status culm_gearman_server_check(const struct culm_gearman *gearman,
                                           const struct culm_gearman_server *server,
                                           const char *what, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    gearman_client_st *client = gearman->client_create(NULL);
    if (!client) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    gearman->client_set_timeout(client, ANSWER_MS);
    if (gearman->client_add_server(client, server->host, server->port) != GEARMAN_SUCCESS ||
        gearman->client_echo(client, "culm", 4) != GEARMAN_SUCCESS) {
        status = culm_error_set(error, CULM_ERR_IO,
                                "%s: no job server answers at %s port %d; start gearmand there",
                                what, server->host, server->port);
    }
    gearman->client_free(client);
    return status;
}
