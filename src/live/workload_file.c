/* DIR/workload.yaml: the workload that is run, for whoever merges for the run (`culm merge --watch`). */
#include "live/run.h"

#include "base/url.h"

#include <stdlib.h>
#include <string.h>

/* Its text, without passwords in addresses of feeds. NULL: out of memory. */
static char *text_of(const struct culm_workload *workload) {
    struct culm_workload shown = *workload;
    char(*file)[CULM_PATH_MAX] = calloc(workload->feed_count + 1, sizeof *file), *text = NULL;
    shown.feeds = calloc(workload->feed_count + 1, sizeof *shown.feeds);
    for (size_t f = 0; f < workload->feed_count && file && shown.feeds; f++) {
        shown.feeds[f] = workload->feeds[f];
        culm_url_show(workload->feeds[f].file, file[f], sizeof file[f]);
        shown.feeds[f].file = file[f];
    }
    if (file && shown.feeds) {
        text = culm_config_dump_text(&culm_workload_table, &shown);
    }
    free(file);
    free(shown.feeds);
    return text;
}

enum culm_status live_write_workload(struct culm_live *run, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    char *text = text_of(&run->catalog[run->catalogs - 1]->workload);
    enum culm_status status =
        text ? culm_path_format(path, error, "%s/workload.yaml", run->out)
             : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a workload");
    status = status ? status : culm_file_replace(NULL, path, text, strlen(text), error);
    free(text);
    return status;
}

const char *culm_live_out(const struct culm_live *run) { return run->out; }

bool culm_live_remerges(const struct culm_live *run) {
    return run->catalog[0]->workload.edge.remerge;
}
