/*
 * Status codes and the error record of Culm: what every other header includes, and everything inside
 * of the library too. <culm.h> says what holds for all functions.
 */
#ifndef CULM_STATUS_H
#define CULM_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CULM_API
#define CULM_API __attribute__((visibility("default")))
#endif

/* Grouped by what has failed. Later versions may add values. */
enum culm_status {
    CULM_OK = 0,
    /* The call: nothing has changed, and the caller may try again, or something else. */
    CULM_ERR_ARGUMENT,    /* an argument that is never valid */
    CULM_ERR_CONFIG,      /* a configuration or an input is wrong */
    CULM_ERR_FORMAT,      /* a file is not in the format that it should have */
    CULM_ERR_NOT_FOUND,   /* what was named does not exist */
    CULM_ERR_EXISTS,      /* it exists already, and is not overwritten */
    CULM_ERR_UNSUPPORTED, /* a valid request that this library cannot carry out */
    CULM_ERR_AGAIN,       /* it is not possible now, but may be later */
    /* The connection or the machine. */
    CULM_ERR_CLOSED,  /* the other side is gone */
    CULM_ERR_IO,      /* the system refused: the disk is full, a permission is missing, ... */
    CULM_ERR_MEMORY,  /* out of memory, or above a limit that was given */
    CULM_ERR_TIMEOUT, /* it took too long */
    CULM_ERR_MACHINE, /* this processor or build lacks something that is needed */
    /* The job. */
    CULM_ERR_CHANGED,  /* an input is no longer what it was when the run began */
    CULM_ERR_INTERNAL, /* the library broke one of its own promises: please report it */
    CULM_ERR_STOPPED,  /* the run was stopped, and can be resumed */
};

#define CULM_ERROR_MAX 512

struct culm_error {
    enum culm_status status;
    /* One line without an end of line, NUL-terminated; a longer one is cut off. */
    char text[CULM_ERROR_MAX];
};

/* "ok", "config", ...; never NULL. */
CULM_API const char *culm_status_name(enum culm_status status);
/* The exit code that the `culm` program has for this status: 0, 1, 2, 3, 4 or 75
 * (docs/commands.md). */
CULM_API int culm_status_exit_code(enum culm_status status);

/* Frees a text that a function made for the caller, as its header says. NULL is fine. */
CULM_API void culm_text_free(char *text);

#ifdef __cplusplus
}
#endif

#endif
