/* DIR/workload.yaml: the workload that is run, for whoever merges for the run (`culm merge --watch`). */
#include "live/run.h"

#include "base/url.h"

#include <stdlib.h>
#include <string.h>

/* Addresses as they may be shown, in place of others. */
struct shown {
    struct culm_feed_config *feeds;
    char (*file)[CULM_PATH_MAX], (*to)[CULM_PATH_MAX];
    char **receivers;
};

/* Its text, without passwords of feeds and receivers. NULL: out of memory. */
static char *text_of(const struct culm_workload *workload) {
    const size_t feeds = workload->feed_count, receivers = workload->answers.to_count;
    struct culm_workload copy = *workload;
    struct shown s = {calloc(feeds + 1, sizeof *s.feeds), calloc(feeds + 1, sizeof *s.file),
                      calloc(receivers + 1, sizeof *s.to),
                      calloc(receivers + 1, sizeof *s.receivers)};
    char *text = NULL;
    if (s.feeds && s.file && s.to && s.receivers) {
        for (size_t f = 0; f < feeds; f++) {
            s.feeds[f] = workload->feeds[f];
            culm_url_show(workload->feeds[f].file, s.file[f], sizeof s.file[f]);
            s.feeds[f].file = s.file[f];
            if (strstr(workload->feeds[f].file, "://")) { /* these, too, may have secrets */
                s.feeds[f].option_count = 0;
            }
        }
        for (size_t r = 0; r < receivers; r++) {
            culm_url_show(workload->answers.to[r], s.to[r], sizeof s.to[r]);
            s.receivers[r] = s.to[r];
        }
        copy.feeds = s.feeds;
        copy.answers.to = s.receivers;
        text = culm_config_dump_text(&culm_workload_table, &copy);
    }
    free(s.feeds);
    free(s.file);
    free(s.to);
    free(s.receivers);
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
