/* `culm report DIR [--against DIR] [--html FILE] [--json]`: the closing summary, from events alone. */
#include "base/file.h"
#include "cli/command.h"
#include "cli/options.h"

#include "report/page.h"
#include "report/summary.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct values {
    const char *against, *html;
    bool json;
};

static const struct culm_option options[] = {
    CULM_OPTION("against", TEXT, "DIR", struct values, against,
                "another run to compare with; exit code 1 unless both ended bit-equal"),
    CULM_OPTION("html", TEXT, "FILE", struct values, html,
                "writes a page with charts, tables and pictures to FILE"),
    CULM_OPTION("json", FLAG, NULL, struct values, json,
                "prints one JSON object in place of the lines"),
};

const struct culm_usage culm_usage_report = {
    .command = "report",
    .arguments = "DIR",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Prints the summary of the run in DIR, and whether another ended bit-equal",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

/* Whether a file lies in a folder, or in a subfolder of it. */
static bool is_within(const char *path, const char *dir) {
    char parent[CULM_PATH_MAX], above[PATH_MAX], below[PATH_MAX];
    if (culm_path_format(parent, NULL, "%s", path) != CULM_OK || !realpath(dir, above) ||
        !realpath(dirname(parent), below)) {
        return false;
    }
    size_t len = strlen(above);
    return strncmp(above, below, len) == 0 && (below[len] == '\0' || below[len] == '/');
}

/* Whether there is a file that is not a page. */
static bool is_other_file(const char *path) {
    char head[sizeof CULM_PAGE_HEAD - 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool page = fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head &&
                memcmp(head, CULM_PAGE_HEAD, sizeof head) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return !page && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Replaces a page that is there already, whole or not at all, but no other file. against: may be
 * NULL. */
static enum culm_status write_html(const char *dir, const char *against, const char *path,
                                   struct culm_error *error) {
    struct culm_buf page;
    const char *of = is_within(path, dir)                  ? dir
                     : against && is_within(path, against) ? against
                                                           : NULL;
    if (is_other_file(path)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "--html: '%s' is a file%s%s%s; give another one", path,
                              of ? " of the run in '" : " that is there already and not a page",
                              of ? of : "", of ? "'" : "");
    }
    culm_buf_init(&page, CULM_PAGE_BYTES_MAX);
    enum culm_status status = culm_page_write(dir, &page, error);
    if (status == CULM_OK) {
        status = culm_file_replace(NULL, path, page.data, page.len, error);
    }
    culm_buf_release(&page);
    return status;
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *given = values;
    const char *dir = arguments->items[0], *against = given->against;
    const struct culm_summary_job *job, *other_job = NULL;
    struct culm_summary summary, other;
    char difference[256];
    enum culm_status status = given->html ? culm_file_may_write(given->html, error) : CULM_OK;
    if (status == CULM_OK) {
        status = culm_summary_job_of(dir, culm_summary_jobs, &job, error);
    }
    if (status == CULM_OK && against) {
        status = culm_summary_job_of(against, culm_summary_jobs, &other_job, error);
    }
    if (status == CULM_OK && against && job != other_job) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "'%s' and '%s' are runs of different jobs; give two of the same",
                                dir, against);
    }
    if (status != CULM_OK) {
        return status;
    }
    culm_summary_init(&summary, job);
    culm_summary_init(&other, job);
    status = culm_summary_read(&summary, dir, error);
    if (status == CULM_OK && against) {
        status = culm_summary_read(&other, against, error);
    }
    if (status == CULM_OK && given->html) {
        status = write_html(dir, against, given->html, error);
    }
    if (status == CULM_OK) {
        if (given->json) {
            culm_cli_print_json(culm_summary_json(&summary, dir, against ? &other : NULL));
        } else {
            culm_summary_print(&summary, dir, against ? &other : NULL, stdout);
        }
        *ret_code =
            against && !culm_summary_identical(&summary, &other, difference, sizeof difference);
    }
    culm_summary_release(&other);
    culm_summary_release(&summary);
    return status;
}

int culm_cli_report(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_report, argc, argv, &values, run);
}
