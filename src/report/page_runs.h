/* The edge runs of a package, as a table on its page. For page.c alone. */
#ifndef CULM_REPORT_PAGE_RUNS_H
#define CULM_REPORT_PAGE_RUNS_H

#include "base/buf.h"

/* Appends a table of the edge runs that lie in the same folder as the package `dir` and ran one of
 * its rounds, which the digests in their events tell; nothing if there are none. The table is an
 * extra, so a run that cannot be read is left out. Only the beginning and the end of each log are
 * read, and at most fifty runs are listed, the first by name. */
void culm_page_runs_write(struct culm_buf *out, const char *dir);

#endif
