/* Who may join a run, and where. See doors.h. */
#include "run/doors.h"

#include "net/socket.h"

#include <stdio.h>
#include <string.h>

/* Takes "HOST:PORT" for a TCP address, and ":PORT" for all of this machine. */
static enum culm_status full_address(const char *text, char ret_text[CULM_ADDRESS_SIZE],
                                     struct culm_error *error) {
    bool whole = strncmp(text, "tcp:", 4) == 0 || strncmp(text, "unix:", 5) == 0;
    int len = snprintf(ret_text, CULM_ADDRESS_SIZE, "%s%s",
                       whole            ? ""
                       : text[0] == ':' ? "tcp:0.0.0.0"
                                        : "tcp:",
                       text);
    return len >= 0 && len < CULM_ADDRESS_SIZE
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_ARGUMENT, "the address '%.60s...' is too long",
                                text);
}

enum culm_status culm_doors_address(const char *option, const char *text,
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

enum culm_status culm_doors_advertise(const char *text, char ret_text[CULM_ADDRESS_SIZE],
                                      struct culm_error *error) {
    struct culm_address address;
    enum culm_status status = culm_doors_address("--advertise", text, ret_text, &address, error);
    if (status == CULM_OK && culm_address_is_any(&address)) {
        status = culm_error_set(
            error, CULM_ERR_CONFIG,
            "--advertise %s is not an address to connect to; name one address of this machine",
            text);
    }
    return status;
}

static enum culm_status read_listen(const struct culm_doors_options *options,
                                    struct culm_doors *doors, struct culm_error *error) {
    struct culm_address address;
    if (!options->listen) {
        return options->advertise ? culm_error_set(error, CULM_ERR_ARGUMENT,
                                                   "--advertise needs --listen ADDR:PORT")
                                  : CULM_OK;
    }
    enum culm_status status =
        culm_doors_address("--listen", options->listen, doors->listen, &address, error);
    if (status == CULM_OK && options->advertise) {
        status = culm_doors_advertise(options->advertise, doors->advertise, error);
    }
    doors->any = culm_address_is_any(&address);
    doors->open = true;
    doors->plain = options->insecure;
    return status;
}

enum culm_status culm_doors_token(const char *file, char ret_token[CULM_TOKEN_SIZE],
                                  struct culm_error *error) {
    const enum culm_status status = culm_token_read(file, ret_token, error);
    return status == CULM_OK && strlen(ret_token) < CULM_TOKEN_LEAST
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "the token in '%s' has fewer than %d characters, and could be "
                                "guessed; make one with 'culm keys new FILE'",
                                file, CULM_TOKEN_LEAST)
               : status;
}

static enum culm_status read_token(const struct culm_doors_options *options,
                                   struct culm_launcher_options *run, struct culm_error *error) {
    if (!options->token_file) {
        return CULM_OK;
    }
    if (!options->listen) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--token-file needs --listen ADDR:PORT: it says who may join");
    }
    run->own_token = true;
    return culm_doors_token(options->token_file, run->token, error);
}

enum culm_status culm_doors_read(const struct culm_doors_options *options,
                                 struct culm_doors *ret_doors, struct culm_launcher_options *run,
                                 struct culm_error *error) {
    *ret_doors = (struct culm_doors){0};
    enum culm_status status = read_listen(options, ret_doors, error);
    return status == CULM_OK ? read_token(options, run, error) : status;
}

enum culm_status culm_doors_try(const struct culm_doors *doors, struct culm_error *error) {
    char address[CULM_ADDRESS_SIZE];
    int fd;
    if (!doors->open) {
        return CULM_OK;
    }
    enum culm_status status = culm_socket_listen(doors->listen, &fd, address, error);
    if (status == CULM_OK) {
        culm_socket_close_listener(fd);
    }
    return status;
}

void culm_doors_hang(const struct culm_doors *doors, struct culm_launcher_doors *launcher) {
    launcher->listen = doors->open ? doors->listen : NULL;
    launcher->advertise = doors->advertise[0] ? doors->advertise : NULL;
    launcher->plain = doors->plain;
    launcher->newcomers = doors->open;
}

enum culm_status culm_doors_here_most(const struct culm_doors_here *here, int32_t *ret_most,
                                      struct culm_error *error) {
    if (!here->limited) {
        *ret_most = INT32_MAX;
        return CULM_OK;
    }
    if (!here->listen) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--workers needs --listen ADDR:PORT: the others join from there");
    }
    if (here->trace) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--workers means nothing with --preempt-trace FILE, which says when "
                              "there are workers here");
    }
    if (here->workers < 0 || here->workers > here->most) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--workers %lld is not in 0..%d",
                              (long long)here->workers, (int)here->most);
    }
    *ret_most = (int32_t)here->workers;
    return CULM_OK;
}
