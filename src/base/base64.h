/* Base64 as of RFC 4648, section 4: the standard alphabet, with padding. Thread: any. */
#ifndef CULM_BASE_BASE64_H
#define CULM_BASE_BASE64_H

#include <stddef.h>

/* Text, malloc'd. NULL: out of memory, or too long. */
char *culm_base64(const void *data, size_t len);
/* Bytes, malloc'd, with a NUL behind them that does not count. NULL: it is none, or out of memory. */
char *culm_base64_decode(const char *text, size_t *ret_len);

#endif
