/* The runs of a package at the edge, for its page; for page.c alone. */
#ifndef CULM_REPORT_PAGE_RUNS_H
#define CULM_REPORT_PAGE_RUNS_H

#include "base/buf.h"

/* Appends a table of the edge runs that lie in the folder in which `dir` does and ran one of its rounds, as the digests
 * in their events say; nothing where there is none. They are an extra: one that cannot be read is left out. Of each
 * log only the beginning and the end are read, and of many runs the first fifty, by name, are listed. */
void culm_page_runs_write(struct culm_buf *out, const char *dir);

#endif
