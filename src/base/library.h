/*
 * Libraries that are loaded when they are first needed, since few programs need them, and tables of
 * their functions. They stay until the process ends. Thread: any.
 */
#ifndef CULM_BASE_LIBRARY_H
#define CULM_BASE_LIBRARY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct culm_library_function {
    const char *name;
    void *to; /* the pointer to functions that is to point to it */
};

/* A library, which is static. */
struct culm_library {
    const char *name;    /* such as "libcurl.so.4" */
    const char *package; /* that has it */
    const char *oldest;  /* version that does, and has all functions */
    const struct culm_library_function *functions;
    size_t count;
    bool (*begin)(
        void);   /* called once, with the table; false: the library is too old. NULL: nothing */
    bool loaded; /* of library.c */
};

/* Fills in the table of functions, unless that has been done. CULM_ERR_MACHINE: the library is not
 * installed, or too old, which the error advises to mend; or the program is linked statically, and has
 * no loader that could give the library the one C library that both must use. */
enum culm_status culm_library_load(struct culm_library *library, struct culm_error *error);

#endif
