/* A detector of red and green in each of 2 x 2 cells of a picture, as darknet's files two.cfg and
 * two.weights, and pictures for it. */
#ifndef CULM_TESTS_API_DETECTOR_H
#define CULM_TESTS_API_DETECTOR_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline void put_file(const char *path, const void *data, size_t len) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static inline void make_detector(void) {
    static const char cfg[] = "[net]\nwidth=4\nheight=4\nchannels=3\n"
                              "[maxpool]\nsize=2\nstride=2\n"
                              "[convolutional]\nfilters=7\nsize=1\nactivation=linear\n"
                              "[yolo]\nanchors=2,2\nclasses=2\n";
    float w[5 + 7 + 21] = {0}; /* header, biases, [7,3] */
    const int32_t header[] = {0, 2, 0};
    memcpy(w, header, sizeof header);
    float *bias = w + 5, *weight = w + 12;
    bias[4] = -4;
    weight[4 * 3 + 0] = weight[4 * 3 + 1] = 12; /* an object where there is red or green */
    bias[5] = bias[6] = -6;
    weight[5 * 3 + 0] = weight[6 * 3 + 1] = 12;
    put_file("two.cfg", cfg, sizeof cfg - 1);
    put_file("two.weights", w, sizeof w);
    put_file("colours", "red\ngreen\n", 10);
}

#define SIDE 8

/* A red square in cell `number` modulo 4 of a black picture [SIDE, SIDE, 3]. */
static inline void paint_square(uint8_t *pixels, int64_t number) {
    const int64_t x = number % 2 * (SIDE / 2), y = number / 2 % 2 * (SIDE / 2);
    memset(pixels, 0, (size_t)SIDE * SIDE * 3);
    for (int i = 0; i < SIDE / 2 * SIDE / 2; i++) {
        pixels[3 * ((y + i / (SIDE / 2)) * SIDE + x + i % (SIDE / 2))] = 255;
    }
}

#endif
