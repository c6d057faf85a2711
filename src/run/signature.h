/* What besides a configuration can change the bits of a run: the build and the machine. */
#ifndef CULM_RUN_SIGNATURE_H
#define CULM_RUN_SIGNATURE_H

#include <stddef.h>

#define CULM_SIGNATURE_SIZE 256

/* Of this build and C library, with what the device calls its kernels; `more`: what the job adds behind
 * it, each with a '/' in front. */
void culm_signature_of(const char *kernels, const char *more, char ret_text[CULM_SIGNATURE_SIZE]);

#endif
