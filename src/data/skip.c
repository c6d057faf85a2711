/* The list of what is left out; see the header. */
#include "data/skip.h"

#include "base/grow.h"
#include "data/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX (256u << 20)

struct group { /* entries of one file */
    size_t first, count;
};

struct culm_skip {
    char *path;
    char *text, *lines;            /* the file, cut by NULs; as it is */
    size_t len, mark;              /* mark: of the byte order mark that it begins with */
    struct culm_skip_entry *entry; /* by file, unit and number */
    size_t count, capacity;
    struct culm_strings name; /* of the files, as canonical() writes them, with their NULs */
    struct group *group;      /* [name.count] */
    size_t group_capacity;
    char *folder, *real; /* that was asked for last, and what realpath makes of it */
};

/* --- a line --- */

static const char *const unit_words[] = {
    [CULM_DATA_FILE] = "", [CULM_DATA_LINE] = "line ", [CULM_DATA_INDEX] = "index "};

enum culm_status culm_data_place_write(const struct culm_data_place *place, const char *why,
                                       struct culm_buf *buf, struct culm_error *error) {
    if (strpbrk(place->file, "\t\n\r") || place->file[0] == '#' || !place->file[0]) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s': a list for data.skip cannot name it; rename it", place->file);
    }
    culm_buf_printf(buf, "%s", place->file);
    if (place->unit != CULM_DATA_FILE) {
        culm_buf_printf(buf, "\t%s%" PRId64, unit_words[place->unit], place->number);
    } else if (why) {
        culm_buf_printf(buf, "\t");
    }
    if (why) {
        culm_buf_printf(buf, "\t");
        for (; *why; why++) {
            culm_buf_bytes(buf, *why == '\n' || *why == '\t' ? " " : why, 1);
        }
    }
    culm_buf_printf(buf, "\n");
    return CULM_OK;
}

static bool parse_number(const char *text, int64_t *ret_number) {
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *ret_number = number;
    return errno == 0 && !*end;
}

static bool parse_unit(const char *text, struct culm_data_place *place) {
    for (int unit = CULM_DATA_LINE; unit <= CULM_DATA_INDEX; unit++) {
        size_t len = strlen(unit_words[unit]);
        if (!strncmp(text, unit_words[unit], len)) {
            place->unit = (enum culm_data_unit)unit;
            return parse_number(text + len, &place->number) &&
                   place->number >= (unit == CULM_DATA_LINE);
        }
    }
    return !*text;
}

/* The line is cut at its TABs. */
static enum culm_status add_line(struct culm_skip *skip, char *line, size_t number,
                                 struct culm_error *error) {
    struct culm_data_place place = {.file = line};
    char *tab = strchr(line, '\t'), *second = tab ? strchr(tab + 1, '\t') : NULL;
    if (tab) {
        *tab = '\0';
    }
    if (second) {
        *second = '\0';
    }
    if (!line[0] || (tab && !parse_unit(tab + 1, &place))) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "data.skip '%s': line %zu: '%.100s' is not what is left out; write a "
                              "file, or a file, a TAB and 'line N' or 'index N'",
                              skip->path, number, tab ? tab + 1 : line);
    }
    if (!CULM_GROW(skip->entry, skip->capacity, skip->count + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "data.skip '%s': out of memory", skip->path);
    }
    skip->entry[skip->count++] = (struct culm_skip_entry){.place = place, .line = number};
    return CULM_OK;
}

static enum culm_status add_lines(struct culm_skip *skip, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    size_t number = 0;
    skip->mark = skip->len >= 3 && !memcmp(skip->text, "\xEF\xBB\xBF", 3) ? 3 : 0;
    for (char *line = skip->text + skip->mark;
         status == CULM_OK && line < skip->text + skip->len;) {
        size_t len = strcspn(line, "\n");
        char *next = line + len + 1;
        line[len] = '\0';
        number++;
        if (len && line[len - 1] == '\r') {
            line[len - 1] = '\0';
        }
        if (line[0] && line[0] != '#') {
            status = add_line(skip, line, number, error);
        }
        line = next;
    }
    return status;
}

/* --- by files --- */

static int compare_number(const struct culm_data_place *a, const struct culm_data_place *b) {
    return a->unit != b->unit       ? (a->unit < b->unit ? -1 : 1)
           : a->number != b->number ? (a->number < b->number ? -1 : 1)
                                    : 0;
}

static int compare(const void *a, const void *b) {
    const struct culm_skip_entry *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : compare_number(&x->place, &y->place);
}

/* One name a file, however its folder is spelled; the caller frees it. NULL: out of memory. What is
 * not there keeps its name. */
static char *canonical(struct culm_skip *skip, const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash == path ? strdup("/")
                   : slash       ? strndup(path, (size_t)(slash - path))
                                 : strdup("."),
         *name = NULL;
    if (folder && skip->folder && !strcmp(folder, skip->folder)) {
        free(folder);
    } else if (folder) {
        free(skip->folder);
        free(skip->real);
        skip->folder = folder;
        skip->real = realpath(folder, NULL);
    } else {
        return NULL;
    }
    const char *last = slash ? slash + 1 : path;
    if (asprintf(&name, "%s/%s", skip->real ? skip->real : skip->folder, last) < 0) {
        return NULL;
    }
    return name;
}

/* The file that an entry names: it may be named from one of the paths on. */
static char *find_file(struct culm_skip *skip, const char *file, const char *const *paths,
                       size_t path_count) {
    struct stat there;
    for (size_t i = 0; i < path_count && lstat(file, &there) != 0; i++) {
        char *joined;
        if (asprintf(&joined, "%s/%s", paths[i], file) < 0) {
            return NULL;
        }
        if (lstat(joined, &there) == 0) {
            char *found = canonical(skip, joined);
            free(joined);
            return found;
        }
        free(joined);
    }
    return canonical(skip, file);
}

static bool name_files(struct culm_skip *skip, const char *const *paths, size_t path_count) {
    bool good = true;
    for (size_t i = 0; i < skip->count && good; i++) {
        skip->entry[i].name = find_file(skip, skip->entry[i].place.file, paths, path_count);
        good = skip->entry[i].name;
    }
    return good;
}

static enum culm_status group_files(struct culm_skip *skip, const char *const *paths,
                                    size_t path_count, struct culm_error *error) {
    bool good = name_files(skip, paths, path_count);
    if (skip->count && good) {
        qsort(skip->entry, skip->count, sizeof *skip->entry, compare);
    }
    for (size_t first = 0, end; first < skip->count && good; first = end) {
        const char *name = skip->entry[first].name;
        for (end = first + 1; end < skip->count && !strcmp(name, skip->entry[end].name);) {
            end++;
        }
        int32_t number = culm_strings_add(&skip->name, name, strlen(name) + 1);
        good = number >= 0 && CULM_GROW(skip->group, skip->group_capacity, (size_t)number + 1);
        if (good) {
            skip->group[number] = (struct group){first, end - first};
        }
    }
    return good ? CULM_OK
                : culm_error_set(error, CULM_ERR_MEMORY, "data.skip '%s': out of memory",
                                 skip->path);
}

enum culm_status culm_skip_read(const char *path, const char *const *paths, size_t path_count,
                                struct culm_pins *pins, struct culm_skip **ret_skip,
                                struct culm_error *error) {
    struct culm_files *files = NULL;
    struct culm_skip *skip = calloc(1, sizeof *skip);
    enum culm_status status = skip ? CULM_OK : CULM_ERR_MEMORY;
    if (status == CULM_OK) {
        skip->path = strdup(path);
        status = skip->path ? culm_files_open("data.skip", &path, 1, pins, &files, error)
                            : CULM_ERR_MEMORY;
    }
    if (status == CULM_OK) {
        status = culm_files_slurp(files, 0, FILE_BYTES_MAX, &skip->text, &skip->len, error);
        culm_files_free(files);
    }
    if (status == CULM_OK && !(skip->lines = malloc(skip->len + 1))) {
        status = CULM_ERR_MEMORY;
    }
    if (status == CULM_OK) {
        memcpy(skip->lines, skip->text, skip->len + 1);
        if ((status = add_lines(skip, error)) == CULM_OK) {
            status = group_files(skip, paths, path_count, error);
        }
    }
    if (status == CULM_ERR_MEMORY) {
        (void)culm_error_set(error, status, "data.skip '%s': out of memory", path);
    }
    if (status != CULM_OK) {
        culm_skip_free(skip);
        return status;
    }
    *ret_skip = skip;
    return CULM_OK;
}

void culm_skip_free(struct culm_skip *skip) {
    if (skip) {
        culm_strings_release(&skip->name);
        free(skip->path);
        free(skip->text);
        free(skip->lines);
        for (size_t i = 0; i < skip->count; i++) {
            free(skip->entry[i].name);
        }
        free(skip->folder);
        free(skip->real);
        free(skip->entry);
        free(skip->group);
        free(skip);
    }
}

/* --- asking --- */

size_t culm_skip_of(struct culm_skip *skip, const char *file, struct culm_skip_entry **ret_entry) {
    char *name = skip && skip->count ? canonical(skip, file) : NULL;
    int32_t number = name ? culm_strings_find(&skip->name, name, strlen(name) + 1) : -1;
    free(name);
    if (number < 0) {
        return 0;
    }
    *ret_entry = skip->entry + skip->group[number].first;
    return skip->group[number].count;
}

bool culm_skip_has(struct culm_skip *skip, const struct culm_data_place *place) {
    struct culm_skip_entry *entry = NULL;
    size_t low = 0, count = culm_skip_of(skip, place->file, &entry), high = count;
    bool found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_number(&entry[middle].place, place) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < count && compare_number(&entry[low].place, place) == 0; low++) {
        entry[low].found = found = true;
    }
    if (count && entry[0].place.unit == CULM_DATA_FILE) { /* all that it has */
        entry[0].found = found = true;
    }
    return found;
}

enum culm_status culm_skip_check_found(const struct culm_skip *skip, struct culm_error *error) {
    const struct culm_skip_entry *first = NULL;
    for (size_t i = 0; skip && i < skip->count; i++) {
        const struct culm_skip_entry *entry = &skip->entry[i];
        first = !entry->found && (!first || entry->line < first->line) ? entry : first;
    }
    if (!first) {
        return CULM_OK;
    }
    char number[40] = "";
    if (first->place.unit != CULM_DATA_FILE) {
        snprintf(number, sizeof number, " %s%" PRId64, unit_words[first->place.unit],
                 first->place.number);
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "data.skip '%.300s': line %zu: '%.300s'%s is not among the samples of "
                          "data.path; correct the line or remove it",
                          skip->path, first->line, first->place.file, number);
}

void culm_skip_copy(const struct culm_skip *skip, struct culm_buf *buf) {
    for (const char *line = skip->lines + skip->mark; line < skip->lines + skip->len;) {
        size_t len = strcspn(line, "\n");
        if (len && line[0] != '#' && line[0] != '\r') {
            culm_buf_bytes(buf, line, len);
            culm_buf_bytes(buf, "\n", 1);
        }
        line += len + 1;
    }
}
