/* See hex.h. */
#include "base/hex.h"

void culm_hex(const void *bytes, size_t len, char *ret_text) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++) {
        *ret_text++ = digits[at[i] >> 4];
        *ret_text++ = digits[at[i] & 15];
    }
    *ret_text = '\0';
}
