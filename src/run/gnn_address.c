/* Addresses of a run on a graph. See gnn_address.h. */
#include "run/gnn_address.h"

#include <stdio.h>
#include <string.h>

/* Takes "HOST:PORT" for a TCP address. */
static enum culm_status full_address(const char *text, char ret_text[CULM_ADDRESS_SIZE],
                                     struct culm_error *error) {
    bool whole = strncmp(text, "tcp:", 4) == 0 || strncmp(text, "unix:", 5) == 0;
    int len = snprintf(ret_text, CULM_ADDRESS_SIZE, "%s%s", whole ? "" : "tcp:", text);
    return len >= 0 && len < CULM_ADDRESS_SIZE
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_ARGUMENT, "the address '%.60s...' is too long",
                                text);
}

enum culm_status culm_gnn_address_read(const char *option, const char *text,
                                       char ret_text[CULM_ADDRESS_SIZE],
                                       struct culm_address *ret_address, struct culm_error *error) {
    enum culm_status status = full_address(text, ret_text, error);
    if (status == CULM_OK) {
        status = culm_address_parse(ret_text, ret_address, error);
    }
    if (status != CULM_OK) {
        culm_error_prefix(error, "%s", option);
        status = CULM_ERR_ARGUMENT;
        if (error) {
            error->status = status;
        }
    }
    return status;
}

enum culm_status culm_gnn_address_advertise(const char *text, char ret_text[CULM_ADDRESS_SIZE],
                                            struct culm_error *error) {
    struct culm_address address;
    enum culm_status status = culm_gnn_address_read("--advertise", text, ret_text, &address, error);
    if (status == CULM_OK && culm_address_is_any(&address)) {
        status = culm_error_set(
            error, CULM_ERR_CONFIG,
            "--advertise %s is not an address to connect to; name one address of this machine",
            text);
    }
    return status;
}
