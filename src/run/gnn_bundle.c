/*
 * Writes the package of a function of AWS Lambda: this program, its dynamic loader and the
 * libraries that are loaded now, as a zip.
 *
 * A function may run on a system with another C library, on which results depend. So `bootstrap`,
 * which AWS Lambda starts, is a short shell script that starts the program through the packaged
 * loader, whatever LD_LIBRARY_PATH is. Libraries that the program loads at run time (libcurl,
 * libgearman) are not included, since a function does not need them.
 *
 * The same program and libraries give the same bytes: entries are sorted by name, and all have the
 * same date.
 */
#include "run/gnn_nodes.h"

#include "run/gnn_output.h"

#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#define LIBRARIES_MAX 64
#define FILE_MAX ((size_t)250 << 20) /* AWS's limit of all files together */
#define ZIP_MAX ((size_t)50 << 20)   /* AWS's limit of an archive that is uploaded directly */
#define FIRST_OF_1980 33             /* 1 January 1980, the earliest date in a zip */

struct library {
    char path[PATH_MAX], entry[300];
};

/* The files that this process has loaded. */
struct loaded {
    struct library library[LIBRARIES_MAX];
    size_t count;
    const char *loader; /* its entry in `library`; NULL: not found yet */
    bool overflow;
};

static int on_object(struct dl_phdr_info *info, size_t size, void *ctx) {
    struct loaded *loaded = ctx;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size;
    if (!slash) {
        return 0; /* the program itself, or the kernel's vDSO */
    }
    if (loaded->count == LIBRARIES_MAX || strlen(slash + 1) > 255) {
        loaded->overflow = true;
        return 1;
    }
    struct library *library = &loaded->library[loaded->count++];
    snprintf(library->path, sizeof library->path, "%s", info->dlpi_name);
    snprintf(library->entry, sizeof library->entry, "own/%s", slash + 1);
    return 0;
}

static int by_entry(const void *a, const void *b) {
    return strcmp(((const struct library *)a)->entry, ((const struct library *)b)->entry);
}

static enum culm_status look(struct loaded *loaded, struct culm_error *error) {
    *loaded = (struct loaded){0};
    dl_iterate_phdr(on_object, loaded);
    qsort(loaded->library, loaded->count, sizeof *loaded->library, by_entry);
    for (size_t i = 0; i < loaded->count && !loaded->loader; i++) {
        const char *name = loaded->library[i].entry + strlen("own/");
        loaded->loader = strncmp(name, "ld-", 3) == 0 ? loaded->library[i].entry : NULL;
    }
    return loaded->loader && !loaded->overflow
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_MACHINE,
                                "cannot tell which libraries this program has loaded");
}

/* --- the archive --- */

static enum culm_status zip_failed(zip_t *zip, const char *entry, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_IO, "add '%.100s': %.200s", entry, zip_strerror(zip));
}

/* Takes ownership of the bytes, which are malloc'd. */
static enum culm_status add(zip_t *zip, const char *entry, char *take_bytes, size_t len,
                            struct culm_error *error) {
    zip_source_t *source = zip_source_buffer(zip, take_bytes, len, 1);
    if (!source) {
        free(take_bytes);
        return zip_failed(zip, entry, error);
    }
    zip_int64_t index = zip_file_add(zip, entry, source, 0);
    if (index < 0) {
        zip_source_free(source);
        return zip_failed(zip, entry, error);
    }
    zip_uint64_t at = (zip_uint64_t)index;
    zip_uint32_t mode = (zip_uint32_t)(S_IFREG | 0755) << 16;
    bool set = !zip_set_file_compression(zip, at, ZIP_CM_DEFLATE, 9) &&
               !zip_file_set_dostime(zip, at, 0, FIRST_OF_1980, 0) &&
               !zip_file_set_external_attributes(zip, at, 0, ZIP_OPSYS_UNIX, mode);
    return set ? CULM_OK : zip_failed(zip, entry, error);
}

static enum culm_status add_file(zip_t *zip, const char *entry, const char *path,
                                 struct culm_gnn_bundle *bundle, struct culm_error *error) {
    char *bytes = NULL;
    size_t len;
    enum culm_status status = culm_file_read(NULL, path, FILE_MAX, &bytes, &len, error);
    if (status != CULM_OK) {
        return status;
    }
    bundle->files++;
    bundle->bytes += (int64_t)len;
    return add(zip, entry, bytes, len, error);
}

static enum culm_status add_bootstrap(zip_t *zip, const struct loaded *loaded,
                                      struct culm_gnn_bundle *bundle, struct culm_error *error) {
    char *text = NULL;
    int len =
        asprintf(&text,
                 "#!/bin/sh\n"
                 "here=${0%%/*}\n"
                 "exec \"$here/%s\" --library-path \"$here/own\" \"$here/culm\" gnn function\n",
                 loaded->loader);
    if (len < 0) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    bundle->files++;
    bundle->bytes += len;
    return add(zip, "bootstrap", text, (size_t)len, error);
}

static enum culm_status fill(zip_t *zip, const struct loaded *loaded,
                             struct culm_gnn_bundle *bundle, struct culm_error *error) {
    enum culm_status status;
    if ((status = add_bootstrap(zip, loaded, bundle, error)) ||
        (status = add_file(zip, "culm", "/proc/self/exe", bundle, error))) {
        return status;
    }
    for (size_t i = 0; i < loaded->count && status == CULM_OK; i++) {
        status = add_file(zip, loaded->library[i].entry, loaded->library[i].path, bundle, error);
    }
    if (status == CULM_OK && bundle->bytes > (int64_t)FILE_MAX) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                              "program and libraries take %lld MB; a function may have 250 MB",
                              (long long)(bundle->bytes >> 20));
    }
    return status;
}

enum culm_status culm_gnn_bundle_write(const char *out, struct culm_gnn_bundle *ret_bundle,
                                       struct culm_error *error) {
    struct culm_gnn_bundle bundle = {0};
    struct loaded *loaded = malloc(sizeof *loaded);
    char path[PATH_MAX] = "";
    int code = 0;
    struct stat stat_out;
    if (!loaded) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    enum culm_status status = culm_gnn_output_check(out, error);
    if (status == CULM_OK) {
        status = look(loaded, error);
    }
    if (status == CULM_OK) {
        status = culm_path_format(path, error, "%s.part-%ld", out, (long)getpid());
    }
    zip_t *zip = status == CULM_OK ? zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code) : NULL;
    if (status == CULM_OK && !zip) {
        status = culm_error_set(error, CULM_ERR_IO, "cannot write '%.400s'", out);
    }
    if (status == CULM_OK) {
        status = fill(zip, loaded, &bundle, error);
    }
    if (zip && status != CULM_OK) {
        zip_discard(zip);
    } else if (zip && zip_close(zip)) {
        status =
            culm_error_set(error, CULM_ERR_IO, "write '%.300s': %.200s", out, zip_strerror(zip));
        zip_discard(zip);
    }
    if (status == CULM_OK) {
        status = stat(path, &stat_out) ? culm_error_errno(error, errno, "write '%.400s'", out)
                                       : culm_file_rename(NULL, path, out, error);
    }
    if (status != CULM_OK) {
        (void)unlink(path);
    }
    free(loaded);
    if (status == CULM_OK) {
        bundle.zip_bytes = (int64_t)stat_out.st_size;
        bundle.too_large = (size_t)stat_out.st_size > ZIP_MAX;
        *ret_bundle = bundle;
    }
    return status;
}
