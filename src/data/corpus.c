/* Folders and patterns; see the header. */
#include "data/corpus.h"

#include "base/file.h"
#include "base/grow.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 32

void culm_corpus_release(struct culm_corpus *corpus) {
    for (size_t i = 0; i < corpus->count; i++) {
        free(corpus->file[i]);
    }
    free(corpus->file);
    free(corpus->part);
    *corpus = (struct culm_corpus){0};
}

static enum culm_status add(const char *what, struct culm_corpus *corpus, const char *path,
                            struct culm_error *error) {
    if (corpus->count == CULM_CORPUS_FILES_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "%s: more than %d files; join them, as with cat", what,
                              CULM_CORPUS_FILES_MAX);
    }
    char *copy = strdup(path);
    if (!copy || !CULM_GROW(corpus->file, corpus->capacity, corpus->count + 1)) {
        free(copy);
        return culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory", what, path);
    }
    corpus->file[corpus->count++] = copy;
    return CULM_OK;
}

static enum culm_status walk(const char *what, struct culm_corpus *corpus, const char *folder,
                             int depth, struct culm_error *error);

static enum culm_status meet(const char *what, struct culm_corpus *corpus, const char *path,
                             int depth, struct culm_error *error) {
    struct stat info;
    if (stat(path, &info) != 0) {
        int reason = errno;
        bool nowhere = reason == ENOENT || reason == ELOOP;
        return nowhere
                   ? culm_error_set(error, CULM_ERR_CONFIG,
                                    "%s '%s': is a link that leads nowhere; restore what it "
                                    "leads to, or remove it",
                                    what, path)
                   : culm_error_errno(error, reason, "%s '%s': cannot be looked at", what, path);
    }
    if (S_ISDIR(info.st_mode)) {
        return walk(what, corpus, path, depth + 1, error);
    }
    if (!S_ISREG(info.st_mode)) {
        corpus->others++;
        return CULM_OK;
    }
    if (!info.st_size) {
        corpus->empty++;
        return CULM_OK;
    }
    return add(what, corpus, path, error);
}

static enum culm_status walk(const char *what, struct culm_corpus *corpus, const char *folder,
                             int depth, struct culm_error *error) {
    struct culm_names names;
    size_t len = strlen(folder);
    if (depth > DEPTH_MAX) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "%s '%s': folders are nested more than %d deep, or a link leads back; "
            "name the files by a pattern, such as '*.txt'",
            what, folder, DEPTH_MAX);
    }
    enum culm_status status = culm_dir_list(folder, &names, error);
    if (status != CULM_OK) {
        return status;
    }
    while (len > 1 && folder[len - 1] == '/') {
        len--;
    }
    char *path = malloc(CULM_PATH_MAX);
    if (!path) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory", what, folder);
    }
    for (size_t i = 0; status == CULM_OK && i < names.count; i++) {
        if (names.name[i][0] != '.' &&
            (status = culm_path_format(path, error, "%.*s%s%s", (int)len, folder,
                                       folder[len - 1] == '/' ? "" : "/", names.name[i])) ==
                CULM_OK) {
            status = meet(what, corpus, path, depth, error);
        }
    }
    free(path);
    culm_names_release(&names);
    return status;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum culm_status expand(const char *what, struct culm_corpus *corpus, const char *pattern,
                               struct culm_error *error) {
    glob_t found = {0};
    int result = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    if (result != 0 && result != GLOB_NOMATCH) {
        int reason = errno;
        globfree(&found);
        return result == GLOB_NOSPACE
                   ? culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory", what, pattern)
                   : culm_error_errno(error, reason, "%s '%s': cannot be looked through", what,
                                      pattern);
    }
    enum culm_status status = CULM_OK;
    if (found.gl_pathc) {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    }
    for (size_t i = 0; status == CULM_OK && i < found.gl_pathc; i++) {
        status = meet(what, corpus, found.gl_pathv[i], 0, error);
    }
    globfree(&found);
    return status;
}

static enum culm_status find(const char *what, struct culm_corpus *corpus, const char *path,
                             struct culm_error *error) {
    struct stat info;
    bool there = stat(path, &info) == 0;
    bool folder = there && S_ISDIR(info.st_mode), pattern = !there && strpbrk(path, "*?[");
    struct culm_corpus_part *part = &corpus->part[corpus->parts++];
    *part = (struct culm_corpus_part){
        .path = path, .listed = folder || pattern, .first = corpus->count};
    enum culm_status status = folder    ? walk(what, corpus, path, 0, error)
                              : pattern ? expand(what, corpus, path, error)
                                        : add(what, corpus, path, error);
    part->count = corpus->count - part->first;
    if (status != CULM_OK || part->count) {
        return status;
    }
    return folder
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "%s '%s': the folder has no file with anything in it", what, path)
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "%s '%s': no file with anything in it fits this pattern", what,
                                path);
}

enum culm_status culm_corpus_find(const char *what, const char *const *paths, size_t count,
                                  struct culm_corpus *ret_corpus, struct culm_error *error) {
    struct culm_corpus corpus = {.part = calloc(count + 1, sizeof *corpus.part)};
    enum culm_status status =
        corpus.part ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", what);
    for (size_t i = 0; status == CULM_OK && i < count; i++) {
        status = find(what, &corpus, paths[i], error);
    }
    if (status != CULM_OK) {
        culm_corpus_release(&corpus);
        return status;
    }
    *ret_corpus = corpus;
    return CULM_OK;
}
