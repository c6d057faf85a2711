/* Images as samples: the bytes of Pillow and torchvision, augmentation as a function of the
 * position, Fashion-MNIST, and every way in which files can be wrong. The golden data is made by
 * tests/golden/make_data.py. */
#include "place.h"

#include "data/image.h"

#include <jansson.h>
#include <math.h>
#include <png.h>
#include <sys/stat.h>
#include <webp/decode.h>
#include <zlib.h>

#define FASHION "/usr/share/datasets/fashion-mnist/"

static char *golden(const char *name) {
    char *path;
    assert_true(asprintf(&path, "%s/data/%s", getenv("CULM_GOLDEN"), name) > 0);
    return path;
}

static struct culm_source_options image_options(char *const *paths, size_t count, int64_t height,
                                                int64_t width, int64_t channels) {
    return (struct culm_source_options){.kind = CULM_SOURCE_IMAGES,
                                        .paths = (const char *const *)paths,
                                        .path_count = count,
                                        .height = height,
                                        .width = width,
                                        .channels = channels};
}

static json_t *golden_cases(void) {
    char *path = golden("images.json");
    json_t *cases = json_load_file(path, 0, NULL);
    assert_true(json_array_size(cases) > 12);
    free(path);
    return cases;
}

/* What a run's signature says of them. */
static void test_libraries_are_named(void **state) {
    (void)state;
    char text[96], png[96], webp[32];
    int version = WebPGetDecoderVersion();
    culm_image_libraries(text, sizeof text);
    snprintf(png, sizeof png, "libpng-%s/libjpeg-", png_get_libpng_ver(NULL));
    assert_memory_equal(text, png, strlen(png));
    const char *id = text + strlen(png);
    assert_int_equal(strspn(id, "0123456789abcdef"), 16);
    snprintf(webp, sizeof webp, "/libwebp-%d.%d.%d", version >> 16, version >> 8 & 255,
             version & 255);
    assert_string_equal(id + 16, webp);
}

static void test_decoded_bytes_are_pillows(void **state) {
    (void)state;
    struct culm_image image = {0};
    json_t *cases = golden_cases(), *entry;
    size_t i;
    json_array_foreach(cases, i, entry) {
        char *path, *data, *folder = golden("images"), hash[17];
        size_t len;
        struct culm_error error = {0};
        const char *name = json_string_value(json_object_get(entry, "path"));
        assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
        assert_int_equal(culm_file_read(NULL, path, 1 << 20, &data, &len, &error), CULM_OK);
        for (int channels = 1; channels <= 3; channels += 2) {
            if (culm_image_decode(data, len, name, channels, &image, &error) != CULM_OK) {
                fail_msg("%s", error.text);
            }
            snprintf(hash, sizeof hash, "%016llx",
                     (unsigned long long)fnv(image.data,
                                             (size_t)(image.height * image.width * channels)));
            const char *expected =
                json_string_value(json_object_get(entry, channels == 1 ? "decoded1" : "decoded3"));
            if (strcmp(hash, expected) != 0) {
                fail_msg("%s, %d channels: other pixels than Pillow's", name, channels);
            }
        }
        for (size_t cut = 0; cut < len; cut += 1 + len / 50) { /* whatever is missing is noticed */
            if (culm_image_decode(data, cut, name, 3, &image, &error) == CULM_OK &&
                cut + 20 < len) {
                fail_msg("%s cut at byte %zu of %zu is accepted", name, cut, len);
            }
        }
        free(data);
        free(path);
        free(folder);
    }
    json_decref(cases);
    culm_image_release(&image);
}

/* Every sample of the folder is one of the golden ones of its class, each once. */
static void compare_center(const char *key, int64_t resize, int64_t height, int64_t width,
                           int64_t channels) {
    char *folder = golden("images"), name[32];
    struct culm_source_options options = image_options(&folder, 1, height, width, channels);
    const double colour[2][3] = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
    for (int c = 0; c < 3; c++) {
        options.mean[c] = channels == 3 ? colour[0][c] : 0.5;
        options.std[c] = channels == 3 ? colour[1][c] : 0.25;
    }
    options.resize = resize;
    options.classes = 3;
    options.crop = CULM_CROP_RESIZED; /* not without augment */
    options.flip = true;
    struct culm_source *source = open_source(&options);
    json_t *cases = golden_cases(), *entry;
    snprintf(name, sizeof name, "%s%d", key, (int)channels);
    size_t len = (size_t)(height * width * channels) * sizeof(float), i;
    float *image = malloc(len);
    int64_t count = culm_source_samples(source), order = 0;
    assert_int_equal(count, json_array_size(cases));
    for (int64_t sample = 0; sample < count; sample++) {
        int32_t label;
        char hash[17];
        bool found = false;
        fill(source, sample, (uint64_t)sample * 7, (void *[]){image, &label});
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)fnv(image, len));
        json_array_foreach(cases, i, entry) {
            const char *path = json_string_value(json_object_get(entry, "path"));
            if (!found && path && path[0] - '0' == label &&
                !strcmp(hash, json_string_value(json_object_get(entry, name)))) {
                found = true;
                order += (int64_t)i == sample;
                json_object_set_new(entry, "path", json_string("taken"));
            }
        }
        if (!found) {
            fail_msg("%s: sample %lld of class %d is none of torchvision's", name,
                     (long long)sample, label);
        }
    }
    assert_true(order < count / 2); /* shuffled */
    json_decref(cases);
    culm_source_free(source);
    free(image);
    free(folder);
}

static void test_samples_are_torchvisions(void **state) {
    (void)state;
    for (int64_t channels = 1; channels <= 3; channels += 2) {
        compare_center("same", 0, 32, 28, channels);
        compare_center("larger", 50, 32, 32, channels);
        compare_center("up", 0, 224, 224, channels);
    }
}

/* --- augmentation --- */

/* An IDX file of `count` images of height x width, whose pixel is 1 + (row * width + column). */
static void put_idx(const struct place *place, char *paths[2], uint32_t count, uint32_t height,
                    uint32_t width) {
    size_t len = 16 + (size_t)count * height * width;
    uint8_t *data = calloc(1, len);
    const uint32_t dim[] = {count, height, width};
    data[2] = 8;
    data[3] = 3;
    for (int i = 0; i < 3; i++) {
        data[4 + 4 * i + 2] = (uint8_t)(dim[i] >> 8);
        data[4 + 4 * i + 3] = (uint8_t)dim[i];
    }
    for (size_t i = 16; i < len; i++) {
        data[i] = (uint8_t)(1 + (i - 16) % (height * width));
    }
    paths[0] = put(place, "images.idx", data, len);
    uint8_t labels[8 + 256] = {0, 0, 8, 1, 0, 0, (uint8_t)(count >> 8), (uint8_t)count};
    for (uint32_t i = 0; i < count; i++) {
        labels[8 + i] = (uint8_t)(i % 10);
    }
    paths[1] = put(place, "labels.idx", labels, 8 + count);
    free(data);
}

static void test_padded_crops_and_flips(void **state) {
    enum { SIDE = 12, PAD = 2, PLACES = 2 * PAD + 1, TRIALS = 5000 };
    char *paths[2];
    put_idx(*state, paths, 3, SIDE, SIDE);
    struct culm_source_options options = image_options(paths, 2, SIDE, SIDE, 1);
    options.augment = options.flip = true;
    options.crop = CULM_CROP_PADDED;
    options.padding = PAD;
    struct culm_source *source = open_source(&options), *again = open_source(&options);
    int seen[PLACES][PLACES][2] = {0};
    for (uint64_t position = 0; position < TRIALS; position++) {
        float image[SIDE * SIDE], twice[SIDE * SIDE];
        int32_t label;
        fill(source, 1, position, (void *[]){image, &label});
        fill(again, 1, position, (void *[]){twice, NULL});
        assert_memory_equal(image, twice, sizeof image);
        assert_int_equal(label, 1);
        /* the middle pixels say where the window is and whether it is mirrored */
        int here = (int)rintf(image[SIDE * (SIDE / 2) + SIDE / 2] * 255) - 1;
        int right = (int)rintf(image[SIDE * (SIDE / 2) + SIDE / 2 + 1] * 255) - 1;
        int mirror = right < here;
        int down = here / SIDE - SIDE / 2;
        int across = here % SIDE - (mirror ? SIDE - 1 - SIDE / 2 : SIDE / 2);
        assert_true(abs(right - here) == 1 && abs(down) <= PAD && abs(across) <= PAD);
        seen[down + PAD][across + PAD][mirror]++;
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                int row = y + down, column = (mirror ? SIDE - 1 - x : x) + across;
                bool in = row >= 0 && row < SIDE && column >= 0 && column < SIDE;
                float expected = in ? (float)(1 + row * SIDE + column) / 255.0f : 0;
                assert_true(image[y * SIDE + x] == expected);
            }
        }
    }
    for (int i = 0; i < PLACES * PLACES * 2; i++) { /* 100 expected of each, deviation 10 */
        assert_in_range((&seen[0][0][0])[i], 50, 150);
    }
    culm_source_free(source);
    culm_source_free(again);
    free(paths[0]);
    free(paths[1]);
}

/* What a resized crop shows of a picture whose pixel is its place: area and ratio are as asked. */
static void test_resized_crops(void **state) {
    enum { SIDE = 200, OUT = 50, TRIALS = 400 };
    struct place *place = *state;
    uint8_t *data = calloc(1, 16 + 2 * SIDE * SIDE);
    const uint8_t head[16] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    memcpy(data, head, 16);
    for (int i = 0; i < SIDE * SIDE; i++) {
        data[16 + i] = (uint8_t)(i % SIDE);               /* image 0: the column */
        data[16 + SIDE * SIDE + i] = (uint8_t)(i / SIDE); /* image 1: the row */
    }
    char *paths[2] = {put(place, "places.idx", data, 16 + 2 * SIDE * SIDE),
                      put(place, "two.idx", "\0\0\x08\1\0\0\0\2\0\1", 10)};
    free(data);
    struct culm_source_options options = image_options(paths, 2, OUT, OUT, 1);
    options.augment = true;
    options.crop = CULM_CROP_RESIZED;
    options.seed = 3;
    struct culm_source *source = open_source(&options);
    double least = 1, most = 0, narrow = 9, wide = 0, sum = 0;
    float x[OUT * OUT], y[OUT * OUT];
    for (uint64_t position = 0; position < TRIALS; position++) {
        fill(source, 0, position, (void *[]){x, NULL});
        fill(source, 1, position, (void *[]){y, NULL});
        double width = (x[OUT * 25 + 45] - x[OUT * 25 + 5]) * 255 * OUT / 40;
        double height = (y[OUT * 45 + 25] - y[OUT * 5 + 25]) * 255 * OUT / 40;
        double area = width * height / (SIDE * SIDE), ratio = width / height;
        least = fmin(least, area), most = fmax(most, area);
        narrow = fmin(narrow, ratio), wide = fmax(wide, ratio);
        sum += area;
    }
    assert_true(least > 0.07 && least < 0.12 && most > 0.85 && most < 1.02);
    assert_true(narrow > 0.70 && narrow < 0.80 && wide > 1.25 && wide < 1.40);
    assert_true(sum / TRIALS > 0.45 && sum / TRIALS < 0.60);
    culm_source_free(source);
    free(paths[0]);
    free(paths[1]);
}

static void test_small_idx_becomes_larger_and_colour(void **state) {
    char *paths[2];
    put_idx(*state, paths, 5, 10, 10);
    struct culm_source_options options = image_options(paths, 2, 20, 20, 3);
    options.held_out = 0.4;
    options.split = CULM_SPLIT_HELD_OUT;
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_source_samples(source), 2);
    float image[20 * 20 * 3];
    int32_t label;
    fill(source, 1, 0, (void *[]){image, &label});
    assert_int_equal(label, 4);
    assert_true(image[0] == 1 / 255.0f && image[1] == image[0] && image[2] == image[0]);
    assert_true(image[20 * 20 * 3 - 1] == 100 / 255.0f);
    culm_source_free(source);
    free(paths[0]);
    free(paths[1]);
}

/* --- Fashion-MNIST --- */

static void test_fashion_mnist(void **state) {
    (void)state;
    char *paths[2] = {FASHION "t10k-images-idx3-ubyte.gz", FASHION "t10k-labels-idx1-ubyte.gz"};
    if (access(paths[0], R_OK) != 0) {
        print_message("skipped: no package dataset-fashion-mnist\n");
        skip();
    }
    struct culm_source_options options = image_options(paths, 2, 28, 28, 1);
    options.classes = 10;
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_source_samples(source), 10000);
    int classes[10] = {0};
    double sum = 0;
    for (int64_t i = 0; i < 10000; i++) {
        float image[28 * 28];
        int32_t label;
        fill(source, i, 0, (void *[]){i < 1000 ? image : NULL, &label});
        classes[label]++;
        for (int k = 0; i < 1000 && k < 28 * 28; k++) {
            sum += image[k];
        }
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(classes[i], 1000);
    }
    assert_true(fabs(sum / (1000 * 28 * 28) - 0.2868) < 0.01); /* the mean of the test set */
    culm_source_free(source);
    options.classes = 9;
    expect_refused(&options, "is 9, the model has 9 classes");
    char *swapped[2] = {paths[1], paths[0]};
    options.paths = (const char *const *)swapped;
    expect_refused(&options, "(labels?)");
    char *mixed[2] = {paths[0], FASHION "train-labels-idx1-ubyte.gz"};
    options.paths = (const char *const *)mixed;
    expect_refused(&options, "has 60000 labels for 10000 images");
}

/* --- what can be wrong --- */

static void gzip(const char *path, const void *data, size_t len) {
    gzFile file = gzopen(path, "wb9");
    assert_int_equal(gzwrite(file, data, (unsigned)len), (int)len);
    assert_int_equal(gzclose(file), Z_OK);
}

static void test_wrong_idx_is_one_line(void **state) {
    struct place *place = *state;
    char *paths[2];
    put_idx(place, paths, 3, 4, 4);
    struct culm_source_options options = image_options(paths, 2, 4, 4, 1);
    static const struct {
        const char *data;
        size_t len;
        const char *part;
    } cases[] = {
        {"abc", 3, "does not begin as an IDX file"},
        {"\0\0\x08", 3, "does not begin"},
        {"\0\0\x0d\3\0\0\0\1\0\0\0\1\0\0\0\1\1", 17, "type 0x0d"},
        {"\0\0\x08\5\0\0\0\1\0\0\0\1\0\0\0\1\1", 17, "5 dimensions"},
        {"\0\0\x08\2\0\0\0\1\0\0\0\1\1", 13, "images are [count, height, width]"},
        {"\0\0\x08\4\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\2\1\1", 22, "other channels"},
        {"\0\0\x08\3\0\0\0\1\0\0", 10, "ends inside of its header"},
        {"\0\0\x08\3\0\0\0\1\0\0\0\0\0\0\0\1\1", 17, "its dimension 1 is 0"},
        {"\0\0\x08\3\0\0\0\1\0\0\0\2\0\0\0\1\1", 17, "asks for 2 bytes, it has 1"},
        {"\0\0\x08\3\0\0\0\1\0\0\0\1\0\0\0\1\1\1", 18, "asks for 1 bytes, it has 2"},
        {"\0\0\x08\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16, "more than 64 GB"},
        /* 2^31 times 2^18 times 2^17: 0 in 64 bits */
        {"\0\0\x08\3\x80\0\0\0\0\4\0\0\0\2\0\0", 16, "more than 64 GB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        free(put(place, "images.idx", cases[i].data, cases[i].len));
        expect_refused(&options, cases[i].part);
        if (cases[i].len > 3 && i != 8 && i != 9 && i != 10) { /* the same, compressed */
            gzip(paths[0], cases[i].data, cases[i].len);
            expect_refused(&options, cases[i].part);
        }
    }
    gzip(paths[0], "\0\0\x08\3\0\0\0\1\0\0\0\2\0\0\0\1\1", 17);
    expect_refused(&options, "asks for 2 bytes, it has only 1");
    gzip(paths[0], "\0\0\x08\3\0\0\0\1\0\0\0\1\0\0\0\1\1\1", 18);
    expect_refused(&options, "it has more than 1");
    gzip(paths[0], "\0\0\x08\3\0\0\xff\xff\0\0\0\xff\0\0\0\xff\1", 17);
    expect_refused(&options, "compressed bytes cannot hold");
    free(paths[0]);
    free(paths[1]);
    put_idx(place, paths, 3, 4, 4);
    free(put(place, "labels.idx", "\0\0\x08\1\0\0\0\2\0\1", 10));
    expect_refused(&options, "has 2 labels for 3 images");
    options.path_count = 1;
    expect_refused(&options, "1 files; give a folder of folders, or two IDX files");
    free(paths[0]);
    free(paths[1]);
}

static void test_damaged_gzip_is_one_line(void **state) {
    struct place *place = *state;
    char *paths[2], *data;
    size_t len;
    uint8_t idx[16 + 300] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 10, 0, 0, 0, 10};
    for (int i = 0; i < 300; i++) {
        idx[16 + i] = (uint8_t)(i * i >> 3);
    }
    put_idx(place, paths, 3, 10, 10);
    gzip(paths[0], idx, sizeof idx);
    struct culm_source_options options = image_options(paths, 2, 10, 10, 1);
    culm_source_free(open_source(&options));
    assert_int_equal(culm_file_read(NULL, paths[0], 1 << 20, &data, &len, NULL), CULM_OK);
    for (size_t cut = 1; cut < len; cut++) {
        free(put(place, "images.idx", data, cut));
        expect_refused(&options, "images.idx");
    }
    for (size_t at = 15; at < len; at++) { /* behind the header; a checksum is at the end */
        data[at] ^= 0x10;
        free(put(place, "images.idx", data, len));
        expect_refused(&options, "images.idx");
        data[at] ^= 0x10;
    }
    free(data);
    free(paths[0]);
    free(paths[1]);
}

static void test_wrong_folders_are_one_line(void **state) {
    struct place *place = *state;
    struct culm_error error = {0};
    char *root = place->dir, name[128];
    struct culm_source_options options = image_options(&root, 1, 8, 8, 3);
    expect_refused(&options, "has no folders");
    snprintf(name, sizeof name, "%s/cats", place->dir);
    assert_int_equal(mkdir(name, 0700), 0);
    expect_refused(&options, "has no JPEG, PNG or WebP file; each folder in '");
    free(put_text(place, "cats/a.jpg", "no image"));
    struct culm_source *source = open_source(&options);
    float image[8 * 8 * 3];
    void *const fields[] = {image, NULL};
    const struct culm_source_item item = {0, 0};
    assert_int_equal(culm_source_fill(source, item, fields, &error), CULM_ERR_FORMAT);
    expect_message(&error, "a.jpg': is neither JPEG, PNG nor WebP; replace the file or remove it");
    free(put_text(place, "cats/a.jpg", ""));
    assert_int_equal(culm_source_fill(source, item, fields, &error), CULM_ERR_FORMAT);
    expect_message(&error, "has 0 bytes");
    free(put(place, "cats/a.jpg", "\x89PNG\r\n\x1a\n\0\0\0\1", 12));
    assert_int_equal(culm_source_fill(source, item, fields, &error), CULM_ERR_FORMAT);
    expect_message(&error, "is damaged");
    free(put(place, "cats/a.jpg", "\xff\xd8\xff\xd9", 4));
    assert_int_equal(culm_source_fill(source, item, fields, &error), CULM_ERR_FORMAT);
    expect_message(&error, "is damaged");
    snprintf(name, sizeof name, "%s/cats/a.jpg", place->dir);
    remove(name);
    assert_int_equal(culm_source_fill(source, item, fields, &error), CULM_ERR_IO);
    expect_message(&error, "a.jpg': cannot be read");
    int32_t label = -1;
    fill(source, 0, 0, (void *[]){NULL, &label}); /* the label needs no image */
    assert_int_equal(label, 0);
    culm_source_free(source);
    free(put_text(place, "cats/a.jpg", "x"));
    snprintf(name, sizeof name, "%s/dogs", place->dir);
    assert_int_equal(mkdir(name, 0700), 0);
    free(put_text(place, "dogs/b.PNG", "x"));
    options.classes = 1;
    expect_refused(&options, "has 2 classes (folders), the model 1; set model.classes to 2");
    options.classes = 0;
    options.resize = 4;
    expect_refused(&options, "data.resize: 4 pixels cannot hold a window of 8");
    char *nowhere = "/nowhere/at/all";
    options.paths = (const char *const *)&nowhere;
    options.resize = 0;
    expect_refused(&options, "No such file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libraries_are_named),
        cmocka_unit_test(test_decoded_bytes_are_pillows),
        cmocka_unit_test(test_samples_are_torchvisions),
        cmocka_unit_test_setup_teardown(test_padded_crops_and_flips, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_resized_crops, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_small_idx_becomes_larger_and_colour, make_place,
                                        drop_place),
        cmocka_unit_test(test_fashion_mnist),
        cmocka_unit_test_setup_teardown(test_wrong_idx_is_one_line, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_damaged_gzip_is_one_line, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_wrong_folders_are_one_line, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/source_images", tests, NULL, NULL);
}
