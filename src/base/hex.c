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

static int value_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool culm_hex_read(const char *text, size_t len, void *ret_bytes) {
    unsigned char *at = ret_bytes;
    for (size_t i = 0; i < len; i++) {
        const int high = value_of(text[2 * i]);
        const int low = high < 0 ? -1 : value_of(text[2 * i + 1]); /* there may be none */
        if (low < 0) {
            return false;
        }
        at[i] = (unsigned char)(high << 4 | low);
    }
    return text[2 * len] == '\0';
}
