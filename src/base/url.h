/*
 * Addresses as they may be shown: without the secrets that people write into them.
 *
 * Thread: any.
 */
#ifndef CULM_BASE_URL_H
#define CULM_BASE_URL_H

#include <stddef.h>

/* Copies a text, which may hold any number of URLs. Of each, `user:password@` becomes `***@`, and
 * what follows a `?` becomes `***`, since cameras take passwords there, too. What does not fit is
 * cut off; size is at least 1. */
void culm_url_show(const char *text, char *ret_text, size_t size);

#endif
