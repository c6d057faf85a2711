/*
 * How a user says that a model of pictures is to be read where its file does not say it: what its
 * outputs are, and what it wants to be given.
 *
 * Thread: any.
 */
#ifndef CULM_QUERY_READING_H
#define CULM_QUERY_READING_H

#include "vision/model.h"

enum culm_query_decode {
    CULM_DECODE_AUTO,    /* as the file says; what cannot be told apart is refused */
    CULM_DECODE_DARKNET, /* maps of heads, with the darknet configuration beside the file */
    CULM_DECODE_YOLOV5,  /* rows of centre, size, object, classes; v7 too */
    CULM_DECODE_YOLOV8,  /* columns of centre, size, classes; v9 and v11 too */
    CULM_DECODE_SSD,     /* corners as fractions; scores, of which class 0 is the background */
    CULM_DECODE_DETR,    /* centre and size as fractions; classes */
    CULM_DECODE_BOXES,   /* corners in pixels; scores, and maybe labels */
    CULM_DECODE_CLASSES, /* one row of numbers, whatever their number */
    CULM_DECODE_POINTS,  /* one row of numbers, x and y in turn */
};
extern const char *const culm_query_decode_names[];

enum culm_query_fit {
    CULM_FIT_AUTO, /* a letterbox for yolov5 and yolov8, as they are trained; else stretched */
    CULM_FIT_STRETCH,
    CULM_FIT_LETTERBOX,
};
extern const char *const culm_query_fit_names[];

enum culm_query_colors { CULM_COLORS_RGB, CULM_COLORS_BGR };
extern const char *const culm_query_colors_names[];

/* All 0: as the file says. */
struct culm_query_reading {
    enum culm_query_decode decode;
    enum culm_query_fit fit;
    enum culm_query_colors colors;
    int32_t width, height; /* where the file leaves its size open; 0: not given */
    /* Those that answers tell of, as users write them, borrowed; not in the text for packages. */
    const char *const *classes;
    size_t class_count; /* 0: all */
};

bool culm_query_same_classes(const struct culm_query_reading *a,
                             const struct culm_query_reading *b);

/* From texts as options and configurations have them; NULL: not given. CULM_ERR_CONFIG: one of them is
 * none of what is allowed. */
enum culm_status culm_query_reading_from(const char *decode, const char *fit, const char *colors,
                                         const char *size, struct culm_query_reading *ret_reading,
                                         struct culm_error *error);

#define CULM_QUERY_SIDE_MAX 16384
/* "WIDTHxHEIGHT", or one number for both. False: it is neither, or a side is not 1 to
 * CULM_QUERY_SIDE_MAX. */
bool culm_query_size_read(const char *text, int32_t *ret_width, int32_t *ret_height);

/* As a text, for packages: "decode=yolov8 size=640x480"; "": all 0. Reading gives false for
 * anything else. */
#define CULM_QUERY_READING_TEXT 96
void culm_query_reading_text(const struct culm_query_reading *reading,
                             char ret_text[CULM_QUERY_READING_TEXT]);
bool culm_query_reading_read(const char *text, struct culm_query_reading *ret_reading);

#endif
