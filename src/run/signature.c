/* One line; see signature.h. */
#include "run/signature.h"

#include "run/version.h"

#include <gnu/libc-version.h>
#include <stdio.h>

void culm_signature_of(const char *kernels, const char *more, char ret_text[CULM_SIGNATURE_SIZE]) {
    snprintf(ret_text, CULM_SIGNATURE_SIZE, "culm-%s+%s/%s/glibc-%s/gcc-%s%s", CULM_VERSION,
             CULM_GIT, kernels, gnu_get_libc_version(), __VERSION__, more);
}
