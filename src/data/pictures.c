/* Walking through folders of pictures; see the header. */
#include "data/pictures.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX 8
#define FOLDERS_MAX 1000000

static const char *const read_ends[] = {".jpg", ".jpeg", ".png", ".webp"};
/* Kinds of pictures that are not read; ends of one kind stand side by side. */
static const char *const other_ends[][3] = {
    {".bmp", ".dib"},
    {".tif", ".tiff"},
    {".gif"},
    {".heic", ".heif"},
    {".avif"},
    {".jp2", ".j2k", ".jpf"},
    {".jxl"},
    {".jfif", ".jpe"},
    {".pbm", ".pgm", ".ppm"},
    {".tga"},
    {".ico"},
    {".svg"},
    {".psd"},
    {".dng", ".raw", ".arw"},
    {".cr2", ".nef"},
    {".exr", ".hdr"},
};
#define OTHERS (sizeof other_ends / sizeof *other_ends)
_Static_assert(OTHERS <= sizeof((struct culm_pictures_left *)0)->of / sizeof(int64_t),
               "each has a count");

static int other_kind(const char *dot) {
    for (size_t i = 0; i < OTHERS; i++) {
        for (size_t k = 0; k < 3 && other_ends[i][k]; k++) {
            if (!strcasecmp(dot, other_ends[i][k])) {
                return (int)i;
            }
        }
    }
    return -1;
}

enum culm_picture_kind culm_picture_kind_of(const char *name) {
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof read_ends / sizeof *read_ends; i++) {
        if (!strcasecmp(dot, read_ends[i])) {
            return CULM_PICTURE_READ;
        }
    }
    return dot && other_kind(dot) >= 0 ? CULM_PICTURE_OTHER : CULM_PICTURE_NONE;
}

/* --- the walk --- */

static void keep_first(struct culm_pictures_left *left, const char *path) {
    if (!left->first[0]) {
        snprintf(left->first, sizeof left->first, "%s", path);
    }
}

static enum culm_status walk_folder(struct culm_pictures_walker *walk, const char *dir,
                                    int32_t folder, int depth, struct culm_error *error);

static enum culm_status enter(struct culm_pictures_walker *walk, const char *path, const char *name,
                              int32_t folder, int depth, struct culm_error *error) {
    if (depth > DEPTH_MAX) {
        walk->left.folders++;
        keep_first(&walk->left, path);
        return CULM_OK;
    }
    if (depth > 1) {
        return walk_folder(walk, path, folder, depth, error);
    }
    int32_t number = walk->folders++;
    if (number == FOLDERS_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%s: has more than %d folders", walk->what,
                              FOLDERS_MAX);
    }
    enum culm_status status = walk_folder(walk, path, number, depth, error);
    return status == CULM_OK && walk->folder ? walk->folder(walk->ctx, path, name, number, error)
                                             : status;
}

static enum culm_status meet(struct culm_pictures_walker *walk, const char *path, const char *name,
                             int32_t folder, int depth, struct culm_error *error) {
    enum culm_picture_kind kind = culm_picture_kind_of(name);
    bool trusted = walk->trust_names && kind == CULM_PICTURE_READ && folder >= 0;
    if (!trusted && culm_file_is_directory(path)) {
        return enter(walk, path, name, folder, depth + 1, error);
    }
    if (kind == CULM_PICTURE_READ && (folder >= 0 || !walk->classes)) {
        return walk->found(walk->ctx, path, folder, error);
    }
    if (kind == CULM_PICTURE_READ) {
        walk->left.beside++;
    } else if (kind == CULM_PICTURE_OTHER) {
        walk->left.pictures++;
        walk->left.of[other_kind(strrchr(name, '.'))]++;
    } else {
        walk->left.files++;
        keep_first(&walk->left, path);
    }
    return CULM_OK;
}

static enum culm_status walk_folder(struct culm_pictures_walker *walk, const char *dir,
                                    int32_t folder, int depth, struct culm_error *error) {
    struct culm_names names;
    enum culm_status status = culm_dir_list(dir, &names, error);
    if (status != CULM_OK) {
        return status;
    }
    char *path = malloc(CULM_PATH_MAX);
    if (!path) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", walk->what);
    }
    for (size_t i = 0; status == CULM_OK && i < names.count; i++) {
        const char *name = names.name[i];
        if (name[0] != '.' &&
            (status = culm_path_format(path, error, "%s/%s", dir, name)) == CULM_OK) {
            status = meet(walk, path, name, folder, depth, error);
        }
    }
    free(path);
    culm_names_release(&names);
    return status;
}

enum culm_status culm_pictures_walk(struct culm_pictures_walker *walk, const char *root,
                                    struct culm_error *error) {
    walk->left = (struct culm_pictures_left){0};
    walk->folders = 0;
    return walk_folder(walk, root, -1, 0, error);
}

/* --- telling --- */

static size_t add(char *text, size_t used, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static size_t add(char *text, size_t used, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text + used, CULM_PICTURES_TEXT - used, format, args);
    va_end(args);
    used += more > 0 ? (size_t)more : 0;
    return used < CULM_PICTURES_TEXT ? used : CULM_PICTURES_TEXT - 1;
}

static const char *s_of(int64_t count) { return count == 1 ? "" : "s"; }

void culm_pictures_left_text(const struct culm_pictures_left *left, const char *what,
                             const char *root, char ret_text[CULM_PICTURES_TEXT]) {
    const char *separator = "";
    size_t used = 0;
    ret_text[0] = '\0';
    if (!left->pictures && !left->files && !left->beside && !left->folders) {
        return;
    }
    used = add(ret_text, used, "%s '%.100s': left out: ", what, root);
    if (left->pictures) {
        used = add(ret_text, used, "%lld picture%s of other kinds (", (long long)left->pictures,
                   s_of(left->pictures));
        for (size_t i = 0; i < OTHERS; i++) {
            if (left->of[i]) {
                used = add(ret_text, used, "%s%lld %s", separator, (long long)left->of[i],
                           other_ends[i][0]);
                separator = ", ";
            }
        }
        used = add(ret_text, used, "; convert %s to JPEG, PNG or WebP)",
                   left->pictures == 1 ? "it" : "them");
        separator = ", ";
    }
    if (left->beside) {
        used = add(ret_text, used, "%s%lld picture%s beside the folders of classes", separator,
                   (long long)left->beside, s_of(left->beside));
        separator = ", ";
    }
    if (left->files) {
        used = add(ret_text, used, "%s%lld file%s that %s, such as '%.100s'", separator,
                   (long long)left->files, s_of(left->files),
                   left->files == 1 ? "is not a picture" : "are not pictures", left->first);
        separator = ", ";
    }
    if (left->folders) {
        used = add(ret_text, used, "%s%lld folder%s nested more than %d deep", separator,
                   (long long)left->folders, s_of(left->folders), DEPTH_MAX);
        used = left->files ? used : add(ret_text, used, ", such as '%.100s'", left->first);
    }
}
