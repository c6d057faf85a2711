/* Bytes as text. Thread: any. */
#ifndef CULM_BASE_HEX_H
#define CULM_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* Two lower-case hexadecimal digits a byte, and a NUL: 2 * len + 1 characters. */
void culm_hex(const void *bytes, size_t len, char *ret_text);
/* The bytes of such a text, which has two digits for each of `len`. False: it has not, or others than these digits. */
bool culm_hex_read(const char *text, size_t len, void *ret_bytes);

#endif
