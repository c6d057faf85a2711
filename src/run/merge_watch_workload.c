/* What a watcher merges. See merge_watch_workload.h. */
#include "run/merge_watch_workload.h"

#include "base/words.h"
#include "query/feeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a workload");
}

static enum culm_status load(const char *dir, const char *name, struct culm_workload *ret_workload,
                             struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/%s", dir, name);
    return status ? status : culm_workload_load(path, NULL, 0, ret_workload, error);
}

static const struct culm_feed_config *feed_of(const struct culm_workload *workload, int32_t query) {
    const int32_t feed = query < 0 ? -1 : workload->queries[query].feed_index;
    return feed < 0 ? NULL : &workload->feeds[feed];
}

static const struct culm_feed_config *feed_named(const struct culm_workload *workload,
                                                 const char *name) {
    for (size_t f = 0; f < workload->feed_count; f++) {
        if (strcmp(workload->feeds[f].name, name) == 0) {
            return &workload->feeds[f];
        }
    }
    return NULL;
}

static bool is_name_free(const struct culm_feed_config *feeds, size_t count, const char *name) {
    for (size_t f = 0; f < count; f++) {
        if (strcmp(feeds[f].name, name) == 0) {
            return false;
        }
    }
    return true;
}

/* Adds a feed to a list that has room, unless it is there; its index. -1: out of memory. */
static int32_t add_feed(struct culm_feed_config *feeds, size_t *count,
                        const struct culm_feed_config *feed) {
    char name[96];
    for (size_t f = 0; f < *count; f++) {
        if (culm_feed_same_frames(&feeds[f], feed)) {
            return (int32_t)f;
        }
    }
    snprintf(name, sizeof name, "%.64s", feed->name);
    for (size_t i = 2; !is_name_free(feeds, *count, name); i++) {
        snprintf(name, sizeof name, "%.64s-%zu", feed->name, i);
    }
    struct culm_feed_config *added = &feeds[*count];
    *added = *feed;
    added->name = strdup(name);
    added->file = strdup(feed->file);
    added->options = calloc(feed->option_count + 1, sizeof *added->options);
    bool there = added->name && added->file && added->options;
    for (size_t i = 0; i < feed->option_count && there; i++) {
        there = (added->options[i] = strdup(feed->options[i])) != NULL;
    }
    if (!there) {
        for (size_t i = 0; added->options && i < feed->option_count; i++) {
            free(added->options[i]);
        }
        free(added->options);
        free(added->name);
        free(added->file);
        return -1;
    }
    return (int32_t)(*count)++;
}

static bool replace(char **text, const char *with) {
    char *copy = with ? strdup(with) : NULL;
    if (with && !copy) {
        return false;
    }
    free(*text);
    *text = copy;
    return true;
}

/* Whether merging can read a feed as often as it has to. */
static bool is_recorded(const struct culm_feed_config *feed) {
    return feed && !culm_feed_comes_once(feed->file) && !culm_feed_lasts(feed->file);
}

/* The feed of a query of the run; NULL: none that can be merged with. */
static const struct culm_feed_config *choose(const struct culm_workload *package,
                                             const struct culm_workload *run, int32_t known,
                                             size_t query) {
    const struct culm_feed_config *own = feed_of(run, (int32_t)query);
    if (known >= 0) {
        return feed_of(package, known);
    }
    return is_recorded(own) || !own ? own : feed_named(package, own->name);
}

static void warn_of_stream(const struct culm_workload *run, size_t q,
                           void (*warning)(void *context, const char *text), void *context) {
    char text[400];
    snprintf(text, sizeof text,
             "query '%s' stays unmerged: its feed '%.100s' is a stream, and the package has no "
             "recording of that name; merge once with a workload that names one",
             run->queries[q].name, run->queries[q].feed ? run->queries[q].feed : "");
    warning(context, text);
}

/* Gives the queries of `workload`, which are the run's, their feeds; leaves out those without. */
static enum culm_status take_feeds(struct culm_workload *workload,
                                   const struct culm_workload *package,
                                   const struct culm_workload *run,
                                   void (*warning)(void *context, const char *text), void *context,
                                   struct culm_error *error) {
    struct culm_workload rest = {0}; /* what is left out */
    struct culm_feed_config *feeds = calloc(workload->query_count + 1, sizeof *feeds);
    size_t count = 0, kept = 0;
    enum culm_status status = CULM_OK;
    rest.queries = calloc(workload->query_count + 1, sizeof *rest.queries);
    if (!feeds || !rest.queries) {
        free(feeds);
        free(rest.queries);
        return no_memory(error);
    }
    for (size_t q = 0; q < workload->query_count; q++) {
        struct culm_query_config query = workload->queries[q];
        const int32_t known = culm_workload_find(package, query.name);
        const struct culm_feed_config *feed = choose(package, run, known, q);
        if (!feed) {
            warn_of_stream(run, q, warning, context);
            rest.queries[rest.query_count++] = query;
            continue;
        }
        query.feed_index = status == CULM_OK ? add_feed(feeds, &count, feed) : -1;
        if (query.feed_index < 0 || !replace(&query.feed, feeds[query.feed_index].name) ||
            !replace(&query.labels,
                     known >= 0 ? package->queries[known].labels : run->queries[q].labels)) {
            status = no_memory(error);
        }
        workload->queries[kept++] = query;
    }
    workload->query_count = kept;
    rest.feeds = workload->feeds;
    rest.feed_count = workload->feed_count;
    workload->feeds = feeds;
    workload->feed_count = count;
    culm_workload_release(&rest);
    return status;
}

enum culm_status merge_watch_workload(const char *package, const char *run,
                                      void (*warning)(void *context, const char *text),
                                      void *context, struct culm_workload *ret_workload,
                                      struct culm_error *error) {
    struct culm_workload of_package = {0}, of_run = {0}, workload = {0};
    enum culm_status status = load(package, "config.yaml", &of_package, error);
    status = status ? status : load(run, "workload.yaml", &of_run, error);
    status = status ? status : load(run, "workload.yaml", &workload, error);
    status = status ? status : take_feeds(&workload, &of_package, &of_run, warning, context, error);
    if (status == CULM_OK && workload.query_count == 0) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "run '%s': none of its queries has frames to merge with", run);
    }
    if (status == CULM_OK) {
        const struct culm_merge_config own = workload.merge;
        workload.merge = of_package.merge;
        of_package.merge = own; /* each has its texts */
        *ret_workload = workload;
        workload = (struct culm_workload){0};
    }
    culm_workload_release(&workload);
    culm_workload_release(&of_package);
    culm_workload_release(&of_run);
    return status;
}

enum culm_status merge_watch_set_feed(struct culm_workload *workload, size_t q, const char *file,
                                      struct culm_error *error) {
    struct culm_query_config *query = &workload->queries[q];
    struct culm_feed_config own = workload->feeds[query->feed_index];
    struct culm_feed_config *feeds =
        realloc(workload->feeds, (workload->feed_count + 1) * sizeof *feeds);
    if (!feeds) {
        return no_memory(error);
    }
    workload->feeds = feeds;
    own.file = (char *)(uintptr_t)file;
    own.name = query->name;
    memset(own.crop, 0, sizeof own.crop);
    own.from = own.to = own.for_s = 0; /* what is in it has been chosen */
    own.every = 1;
    own.options = NULL;
    own.option_count = 0;
    const int32_t feed = add_feed(feeds, &workload->feed_count, &own);
    if (feed < 0 || !replace(&query->feed, feeds[feed].name) || !replace(&query->labels, NULL)) {
        return no_memory(error);
    }
    query->feed_index = feed;
    return CULM_OK;
}

enum culm_status merge_watch_frames_path(const char *folder, const char *query, const char *now,
                                         char ret_path[CULM_PATH_MAX], struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int number = 1; status == CULM_OK; number++) {
        status = culm_path_format(ret_path, error, "%s/%s-%d.idx", folder, query, number);
        if (status == CULM_OK && strcmp(ret_path, now) != 0 && !culm_file_exists(ret_path)) {
            return CULM_OK;
        }
    }
    return status;
}

enum culm_status merge_watch_prune_frames(const char *package, const char *folder,
                                          struct culm_error *error) {
    struct culm_workload workload;
    struct culm_names names = {0};
    enum culm_status status = load(package, "config.yaml", &workload, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_dir_list(folder, &names, error);
    for (size_t i = 0; i < names.count && status == CULM_OK; i++) {
        char path[CULM_PATH_MAX];
        const char *end = strrchr(names.name[i], '.');
        bool named = !end || (strcmp(end, ".idx") != 0 && strcmp(end, ".tmp") != 0);
        status = culm_path_format(path, error, "%s/%s", folder, names.name[i]);
        for (size_t f = 0; f < workload.feed_count && status == CULM_OK; f++) {
            /* By their last part: the package may have had another path then. */
            const char *file = workload.feeds[f].file, *slash = strrchr(file, '/');
            named = named || strcmp(slash ? slash + 1 : file, names.name[i]) == 0;
        }
        if (status == CULM_OK && !named) {
            status = culm_file_remove(NULL, path, error);
        }
    }
    culm_names_release(&names);
    culm_workload_release(&workload);
    return status;
}
