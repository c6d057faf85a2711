/*
 * The doors of a run: where nodes from elsewhere may join it, with which token, as people write it; for all jobs.
 *
 * Thread: any.
 */
#ifndef CULM_RUN_DOORS_H
#define CULM_RUN_DOORS_H

#include "launch/launcher.h"
#include "net/address.h"

struct culm_doors {
    bool open; /* else nobody from elsewhere may join */
    bool any;  /* at all addresses of this machine */
    char listen[CULM_ADDRESS_SIZE], advertise[CULM_ADDRESS_SIZE]; /* advertise "": it is listen */
    bool plain; /* nothing is encrypted between machines */
};

/* As in struct culm_training_options; NULL: not given. */
struct culm_doors_options {
    const char *listen, *advertise, *token_file;
    bool insecure;
};

/* "HOST:PORT", ":PORT" (all addresses of this machine), or as in net/address.h. ret_text has it in the latter form. CULM_ERR_ARGUMENT, with the
 * name of the option in front. */
enum culm_status culm_doors_address(const char *option, const char *text,
                                    char ret_text[CULM_ADDRESS_SIZE],
                                    struct culm_address *ret_address, struct culm_error *error);
/* --advertise. CULM_ERR_CONFIG: nobody can connect to it. */
enum culm_status culm_doors_advertise(const char *text, char ret_text[CULM_ADDRESS_SIZE],
                                      struct culm_error *error);
/* Reads all of it; a token goes into `run`. CULM_ERR_ARGUMENT, CULM_ERR_CONFIG. */
enum culm_status culm_doors_read(const struct culm_doors_options *options,
                                 struct culm_doors *ret_doors, struct culm_launcher_options *run,
                                 struct culm_error *error);
/* The token of a file, which nobody could guess: CULM_ERR_CONFIG. */
enum culm_status culm_doors_token(const char *file, char ret_token[CULM_TOKEN_SIZE],
                                  struct culm_error *error);
/* An address where nobody can listen is told of before the run directory is written. */
enum culm_status culm_doors_try(const struct culm_doors *doors, struct culm_error *error);
/* For the launcher, which borrows. */
void culm_doors_hang(const struct culm_doors *doors, struct culm_launcher_doors *launcher);

/* How many processes there may be on this machine (of a role, where there are several): `workers`, of `most` that there can be, if
 * `limited`, else INT32_MAX. CULM_ERR_ARGUMENT: there is no `listen`, and so nobody else; a trace says when there are some; or it is out of range. */
struct culm_doors_here {
    const char *listen, *trace; /* NULL: none */
    bool limited;
    int64_t workers;
    int32_t most;
};
enum culm_status culm_doors_here_most(const struct culm_doors_here *here, int32_t *ret_most,
                                      struct culm_error *error);

#endif
