/* Draws boxes and points, with a small built-in font. See picture.h. */
#include "vision/picture.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct canvas {
    uint8_t *data;
    int32_t width, height;
    uint8_t colour[3];
};

/* A colour for each class, distinct from those of neighbouring classes. */
static void choose(struct canvas *canvas, int32_t class_index) {
    static const uint8_t colours[][3] = {{230, 60, 60},  {60, 180, 75},  {255, 200, 25},
                                         {65, 100, 225}, {245, 130, 50}, {150, 60, 180},
                                         {70, 230, 230}, {240, 50, 230}, {190, 240, 70},
                                         {0, 140, 140},  {170, 110, 40}, {128, 128, 255}};
    memcpy(canvas->colour, colours[(uint32_t)class_index % (sizeof colours / sizeof *colours)], 3);
}

static void put(const struct canvas *canvas, int64_t x, int64_t y) {
    if (x >= 0 && y >= 0 && x < canvas->width && y < canvas->height) {
        memcpy(canvas->data + 3 * (y * canvas->width + x), canvas->colour, 3);
    }
}

static void fill(const struct canvas *canvas, int64_t x, int64_t y, int64_t width, int64_t height) {
    int64_t right = x + width < canvas->width ? x + width : canvas->width;
    int64_t bottom = y + height < canvas->height ? y + height : canvas->height;
    for (int64_t i = y > 0 ? y : 0; i < bottom; i++) {
        for (int64_t j = x > 0 ? x : 0; j < right; j++) {
            put(canvas, j, i);
        }
    }
}

/* --- text --- */

#define GLYPH_WIDTH 5
#define GLYPH_HEIGHT 7

/* Columns from left to right, lowest bit at the top: digits, letters, then a few other
 * characters. */
static const uint8_t digits[10][GLYPH_WIDTH] = {
    {0x3E, 0x51, 0x49, 0x45, 0x3E}, {0x00, 0x42, 0x7F, 0x40, 0x00}, {0x42, 0x61, 0x51, 0x49, 0x46},
    {0x21, 0x41, 0x45, 0x4B, 0x31}, {0x18, 0x14, 0x12, 0x7F, 0x10}, {0x27, 0x45, 0x45, 0x45, 0x39},
    {0x3C, 0x4A, 0x49, 0x49, 0x30}, {0x01, 0x71, 0x09, 0x05, 0x03}, {0x36, 0x49, 0x49, 0x49, 0x36},
    {0x06, 0x49, 0x49, 0x29, 0x1E}};
static const uint8_t letters[26][GLYPH_WIDTH] = {
    {0x7E, 0x11, 0x11, 0x11, 0x7E}, {0x7F, 0x49, 0x49, 0x49, 0x36}, {0x3E, 0x41, 0x41, 0x41, 0x22},
    {0x7F, 0x41, 0x41, 0x22, 0x1C}, {0x7F, 0x49, 0x49, 0x49, 0x41}, {0x7F, 0x09, 0x09, 0x09, 0x01},
    {0x3E, 0x41, 0x49, 0x49, 0x7A}, {0x7F, 0x08, 0x08, 0x08, 0x7F}, {0x00, 0x41, 0x7F, 0x41, 0x00},
    {0x20, 0x40, 0x41, 0x3F, 0x01}, {0x7F, 0x08, 0x14, 0x22, 0x41}, {0x7F, 0x40, 0x40, 0x40, 0x40},
    {0x7F, 0x02, 0x0C, 0x02, 0x7F}, {0x7F, 0x04, 0x08, 0x10, 0x7F}, {0x3E, 0x41, 0x41, 0x41, 0x3E},
    {0x7F, 0x09, 0x09, 0x09, 0x06}, {0x3E, 0x41, 0x51, 0x21, 0x5E}, {0x7F, 0x09, 0x19, 0x29, 0x46},
    {0x46, 0x49, 0x49, 0x49, 0x31}, {0x01, 0x01, 0x7F, 0x01, 0x01}, {0x3F, 0x40, 0x40, 0x40, 0x3F},
    {0x1F, 0x20, 0x40, 0x20, 0x1F}, {0x3F, 0x40, 0x38, 0x40, 0x3F}, {0x63, 0x14, 0x08, 0x14, 0x63},
    {0x07, 0x08, 0x70, 0x08, 0x07}, {0x61, 0x51, 0x49, 0x45, 0x43}};
static const uint8_t point[GLYPH_WIDTH] = {0x00, 0x60, 0x60, 0x00, 0x00};
static const uint8_t dash[GLYPH_WIDTH] = {0x08, 0x08, 0x08, 0x08, 0x08};
static const uint8_t blank[GLYPH_WIDTH];

static const uint8_t *glyph(char c) {
    unsigned char u = (unsigned char)toupper((unsigned char)c);
    return u >= '0' && u <= '9'   ? digits[u - '0']
           : u >= 'A' && u <= 'Z' ? letters[u - 'A']
           : u == '.'             ? point
           : u == '-' || u == '_' ? dash
                                  : blank;
}

/* Dark text on a ground in the canvas's colour, whose lower left corner is (x, y). */
static void write_text(const struct canvas *canvas, int64_t x, int64_t y, const char *text) {
    struct canvas dark = *canvas;
    memset(dark.colour, 0, sizeof dark.colour);
    int64_t width = (int64_t)strlen(text) * (GLYPH_WIDTH + 1) + 1, top = y - GLYPH_HEIGHT - 2;
    top = top < 0 ? 0 : top;
    fill(canvas, x, top, width, GLYPH_HEIGHT + 2);
    for (size_t i = 0; text[i]; i++) {
        const uint8_t *columns = glyph(text[i]);
        for (int c = 0; c < GLYPH_WIDTH; c++) {
            for (int r = 0; r < GLYPH_HEIGHT; r++) {
                if (columns[c] >> r & 1) {
                    put(&dark, x + 1 + (int64_t)i * (GLYPH_WIDTH + 1) + c, top + 1 + r);
                }
            }
        }
    }
}

/* --- boxes and points --- */

void culm_vision_draw(uint8_t *data, int32_t width, int32_t height,
                      const struct culm_vision_model *model, const struct culm_box *box,
                      int32_t count) {
    struct canvas canvas = {.data = data, .width = width, .height = height};
    int64_t line = 1 + (width < height ? width : height) / 240;
    for (int32_t i = count - 1; i >= 0; i--) { /* so that the best one is on top */
        int64_t x = llroundf(box[i].x), y = llroundf(box[i].y);
        int64_t w = llroundf(box[i].x + box[i].width) - x;
        int64_t h = llroundf(box[i].y + box[i].height) - y;
        choose(&canvas, box[i].class_index);
        fill(&canvas, x, y, w, line);
        fill(&canvas, x, y + h - line, w, line);
        fill(&canvas, x, y, line, h);
        fill(&canvas, x + w - line, y, line, h);
        if (model) {
            char none[24], text[64];
            snprintf(text, sizeof text, "%.40s %.2f",
                     culm_vision_class_name(model, box[i].class_index, none), (double)box[i].score);
            write_text(&canvas, x, y, text);
        }
    }
}

void culm_vision_draw_points(uint8_t *data, int32_t width, int32_t height,
                             const struct culm_point *at, int32_t count) {
    struct canvas canvas = {.data = data, .width = width, .height = height};
    choose(&canvas, 1);
    for (int32_t i = 0; i < count; i++) {
        int64_t x = llroundf(at[i].x), y = llroundf(at[i].y);
        fill(&canvas, x - 1, y, 3, 1);
        fill(&canvas, x, y - 1, 1, 3);
    }
}
