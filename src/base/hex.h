/* Bytes as text. Thread: any. */
#ifndef CULM_BASE_HEX_H
#define CULM_BASE_HEX_H

#include <stddef.h>

/* Two lower-case hexadecimal digits a byte, and a NUL: 2 * len + 1 characters. */
void culm_hex(const void *bytes, size_t len, char *ret_text);

#endif
