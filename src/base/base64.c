/* OpenSSL's. See base64.h. */
#include "base/base64.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

char *culm_base64(const void *data, size_t len) {
    char *text = len < INT_MAX / 2 ? malloc((len + 2) / 3 * 4 + 1) : NULL;
    if (text) {
        (void)EVP_EncodeBlock((unsigned char *)text, data, (int)len);
    }
    return text;
}

char *culm_base64_decode(const char *text, size_t *ret_len) {
    const size_t len = strlen(text);
    const size_t padding = len >= 2 && text[len - 1] == '=' ? 1u + (text[len - 2] == '=') : 0;
    char *data = len < INT_MAX && len % 4 == 0 ? malloc(len / 4 * 3 + 1) : NULL;
    const int got =
        data ? EVP_DecodeBlock((unsigned char *)data, (const unsigned char *)text, (int)len) : -1;
    if (got < 0 || (size_t)got < padding) {
        free(data);
        return NULL;
    }
    *ret_len = (size_t)got - padding;
    data[*ret_len] = '\0';
    return data;
}
