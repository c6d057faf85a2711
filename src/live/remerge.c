/* Who merges for a run (`culm merge --watch`): DIR/workload.yaml, the workload that is run, and what becomes of the process. */
#include "live/run.h"

#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
    struct stat own, there;
    enum culm_status status = culm_path_format(path, error, "%s/workload.yaml", run->out);
    if (status == CULM_OK && stat(run->o->workload, &own) == 0 && stat(path, &there) == 0 &&
        own.st_dev == there.st_dev && own.st_ino == there.st_ino) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s' is the workload itself, and a run keeps one of that name in "
                              "its folder; name another folder with --out, or the file otherwise",
                              path);
    }
    char *text = text_of(&run->catalog[run->catalogs - 1]->workload);
    if (status == CULM_OK && !text) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a workload");
    }
    status = status ? status : culm_file_replace(NULL, path, text, strlen(text), error);
    free(text);
    return status;
}

const char *culm_live_out(const struct culm_live *run) { return run->out; }

void culm_live_beside(struct culm_live *run, pid_t pid) { run->beside = pid; }

pid_t culm_live_is_beside(const struct culm_live *run) { return run->beside; }

void live_look_beside(struct culm_live *run) {
    int how;
    if (run->beside > 0 && waitpid(run->beside, &how, WNOHANG) == run->beside) {
        char text[CULM_PATH_MAX + 160], by[40];
        if (WIFEXITED(how)) {
            snprintf(by, sizeof by, "code %d", WEXITSTATUS(how));
        } else {
            snprintf(by, sizeof by, "signal %d", WTERMSIG(how));
        }
        snprintf(text, sizeof text,
                 "the process that merges beside this run has ended with %s, and does not begin "
                 "again: see "
                 "%s/remerge.log",
                 by, run->out);
        run->beside = 0;
        live_warn(run, text);
    }
}

bool culm_live_remerges(const struct culm_live *run) {
    return run->catalog[0]->workload.edge.remerge;
}
