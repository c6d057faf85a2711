/*
 * Pictures in folders, and what lies there besides.
 *
 * By its name a file is a picture that is read (JPEG, PNG, WebP), a picture of another kind, or
 * something else; what is not read is counted, so that nobody uses a part for the whole without
 * being told. Names that begin with a dot are passed over and not counted.
 *
 * Thread: any; a walk belongs to one thread.
 */
#ifndef CULM_DATA_PICTURES_H
#define CULM_DATA_PICTURES_H

#include "base/status.h"

#define CULM_PICTURES_TEXT 400

enum culm_picture_kind { CULM_PICTURE_READ, CULM_PICTURE_OTHER, CULM_PICTURE_NONE };
enum culm_picture_kind culm_picture_kind_of(const char *name);

/* What was left out. */
struct culm_pictures_left {
    int64_t pictures, files; /* of kinds that are not read; that are no pictures */
    int64_t beside;          /* readable ones that lie beside the folders of classes */
    int64_t folders;         /* nested too deep */
    int64_t of[16];          /* of the kinds of pictures, in an order of this room's own */
    char first[160];         /* one of `files`, or of `folders` */
};

struct culm_pictures_walker {
    const char *what; /* begins messages: "images", "feed 'gate'" */
    bool trust_names; /* what has a picture's name is one: no look at each */
    bool classes;     /* pictures must lie in folders */
    /* Of each picture, in the order of names: `folder` is the number of the folder below the root
     * that it is in, from 0 in the order of their names; -1: it is in the root. */
    enum culm_status (*found)(void *ctx, const char *path, int32_t folder,
                              struct culm_error *error);
    /* Of each folder below the root, when all in it was found; NULL: nobody wants to know. */
    enum culm_status (*folder)(void *ctx, const char *path, const char *name, int32_t number,
                               struct culm_error *error);
    void *ctx;
    struct culm_pictures_left left; /* filled */
    int32_t folders;                /* filled: below the root */
};
/* CULM_ERR_CONFIG: a limit; what the functions return. */
enum culm_status culm_pictures_walk(struct culm_pictures_walker *walk, const char *root,
                                    struct culm_error *error);

/* One line that tells what was left out and what to do; "": nothing was. */
void culm_pictures_left_text(const struct culm_pictures_left *left, const char *what,
                             const char *root, char ret_text[CULM_PICTURES_TEXT]);

#endif
