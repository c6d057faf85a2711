/* Pictures in files and folders: WebP, how pictures are turned, by the pixels of Pillow
 * (tests/golden/make_pictures.py), and what of a folder is left out. */
#include "place.h"

#include "data/content.h"
#include "data/feed.h"
#include "data/image.h"

#include <jansson.h>
#include <sys/stat.h>

static char *golden(const char *name) {
    char *path;
    assert_true(asprintf(&path, "%s/data/%s", getenv("CULM_GOLDEN"), name) > 0);
    return path;
}

static void is(const struct culm_image *image, const json_t *entry, const char *key) {
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx",
             (unsigned long long)fnv(image->data, (size_t)image->height * (size_t)image->width *
                                                      (size_t)image->channels));
    if (strcmp(hash, json_string_value(json_object_get(entry, key))) != 0) {
        fail_msg("%s: other pixels than Pillow's, %s",
                 json_string_value(json_object_get(entry, "path")), key);
    }
}

static char *read_golden(const char *name, size_t *ret_len) {
    char *path, *data, *file;
    struct culm_error error = {0};
    assert_true(asprintf(&file, "pictures/%s", name) > 0);
    path = golden(file);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &data, ret_len, &error), CULM_OK);
    free(path);
    free(file);
    return data;
}

/* As it is stored, in colour and in grey, and upright. Whatever is missing is noticed, and reading
 * how it is turned stays inside of what is there. */
static void test_pixels_are_pillows(void **state) {
    (void)state;
    struct culm_image image = {0};
    struct culm_error error = {0};
    char *path = golden("pictures.json");
    json_t *cases = json_load_file(path, 0, NULL), *entry;
    size_t i;
    assert_int_equal(json_array_size(cases), 17);
    json_array_foreach(cases, i, entry) {
        size_t len;
        const char *name = json_string_value(json_object_get(entry, "path"));
        char *data = read_golden(name, &len);
        for (int channels = 1; channels <= 3; channels += 2) {
            if (culm_image_decode(data, len, name, channels, &image, &error) != CULM_OK) {
                fail_msg("%s", error.text);
            }
            is(&image, entry, channels == 1 ? "grey" : "stored");
        }
        assert_int_equal(culm_image_turn(&image, culm_image_orientation(data, len), &error),
                         CULM_OK);
        is(&image, entry, "turned");
        assert_int_equal(image.width, json_integer_value(json_object_get(entry, "width")));
        assert_int_equal(image.height, json_integer_value(json_object_get(entry, "height")));
        for (size_t cut = 0; cut < len; cut++) {
            char *part = malloc(cut + 1);
            memcpy(part, data, cut);
            int orientation = culm_image_orientation(part, cut);
            assert_true(orientation >= 1 && orientation <= 8);
            bool webp = culm_image_is_webp(data, len) && strcmp(name, "turned.webp") != 0;
            if (webp && cut + 2 < len &&
                culm_image_decode(part, cut, name, 3, &image, &error) == CULM_OK) {
                fail_msg("%s cut at byte %zu of %zu is accepted", name, cut, len);
            }
            free(part);
        }
        free(data);
    }
    json_decref(cases);
    free(path);
    culm_image_release(&image);
}

/* What is no picture that is read is called by its name. */
static void test_other_contents_are_named(void **state) {
    (void)state;
    struct culm_image image = {0};
    struct culm_error error = {0};
    assert_int_equal(culm_image_decode("GIF89a......", 12, "x.jpg", 3, &image, &error),
                     CULM_ERR_FORMAT);
    assert_string_equal(error.text,
                        "image 'x.jpg': is a GIF picture; convert it to JPEG, PNG or WebP");
    assert_int_equal(culm_image_decode("<html>", 6, "x.jpg", 3, &image, &error), CULM_ERR_FORMAT);
    assert_string_equal(error.text, "image 'x.jpg': is neither JPEG, PNG nor WebP; replace the "
                                    "file or remove it");
    assert_null(culm_content_of("BM is how this text begins", 26));
    assert_null(culm_content_of("MZ, GGUF and PAR1 are words", 27));
    assert_null(culm_content_of("", 0));
}

static void make_folder(const struct place *place, const char *name) {
    char *path;
    assert_true(asprintf(&path, "%s/%s", place->dir, name) > 0);
    assert_int_equal(mkdir(path, 0700), 0);
    free(path);
}

/* Two classes of a picture each, and beside them what is left out. */
static void fill_folder(const struct place *place) {
    size_t len;
    char *png = read_golden("grey.png", &len), *webp;
    make_folder(place, "set");
    make_folder(place, "set/cat");
    make_folder(place, "set/cat/more");
    make_folder(place, "set/dog");
    free(put(place, "set/cat/a.png", png, len));
    free(put(place, "set/beside.png", png, len));
    free(png);
    webp = read_golden("lossy.webp", &len);
    free(put(place, "set/dog/b.WEBP", webp, len));
    free(webp);
    free(put_text(place, "set/cat/c.bmp", "BM"));
    free(put_text(place, "set/cat/more/d.BMP", "BM"));
    free(put_text(place, "set/dog/e.gif", "GIF"));
    free(put_text(place, "set/dog/Thumbs.db", "x"));
    free(put_text(place, "set/dog/.DS_Store", "x"));
}

static void test_what_is_left_out_is_counted(void **state) {
    struct place *place = *state;
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    char *root, expected[400];
    fill_folder(place);
    assert_true(asprintf(&root, "%s/set", place->dir) > 0);
    const struct culm_source_options options = {.kind = CULM_SOURCE_IMAGES,
                                                .paths = (const char *const *)&root,
                                                .path_count = 1,
                                                .height = 8,
                                                .width = 8,
                                                .channels = 3};
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_source_samples(source), 2); /* the WebP is one of them */
    snprintf(expected, sizeof expected,
             "images '%s': left out: 3 pictures of other kinds (2 .bmp, 1 .gif; convert them to "
             "JPEG, PNG or WebP), 1 picture beside the folders of classes, 1 file that is not a "
             "picture, such as '%s/dog/Thumbs.db'",
             root, root);
    assert_string_equal(culm_source_note(source), expected);
    culm_source_free(source);
    const struct culm_feed_options of_feed = {.name = "gate", .file = root};
    assert_int_equal(culm_feed_open(&of_feed, &feed, &error), CULM_OK);
    assert_int_equal(culm_feed_count(feed), 3);
    snprintf(expected, sizeof expected,
             "folder '%s': left out: 3 pictures of other kinds (2 .bmp, 1 .gif; convert them to "
             "JPEG, PNG or WebP), 1 file that is not a picture, such as '%s/dog/Thumbs.db'",
             root, root);
    assert_string_equal(culm_feed_note(feed), expected);
    culm_feed_close(feed);
    free(root);
}

/* Nothing is said of a folder of which everything is read. */
static void test_nothing_is_left_out(void **state) {
    (void)state;
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    char *root = golden("pictures");
    const struct culm_feed_options options = {.file = root};
    assert_int_equal(culm_feed_open(&options, &feed, &error), CULM_OK);
    assert_string_equal(culm_feed_note(feed), "");
    assert_int_equal(culm_feed_count(feed), 17);
    culm_feed_close(feed);
    free(root);
}

/* Feeds turn pictures; samples only if they are told to. */
static void test_who_turns_pictures(void **state) {
    struct place *place = *state;
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    float image[2][9 * 13 * 3];
    size_t len;
    char *data = read_golden("turned6.jpg", &len), *path, *root = place->dir;
    struct culm_image stored = {0}, upright = {0};
    assert_int_equal(culm_image_decode(data, len, "x", 3, &stored, &error), CULM_OK);
    assert_int_equal(culm_image_decode(data, len, "x", 3, &upright, &error), CULM_OK);
    assert_int_equal(culm_image_turn(&upright, 6, &error), CULM_OK);
    assert_int_equal(stored.height, 13);
    assert_int_equal(upright.width, 13);
    make_folder(place, "a");
    path = put(place, "a/x.jpg", data, len);
    const struct culm_feed_options of_feed = {.file = path};
    assert_int_equal(culm_feed_open(&of_feed, &feed, &error), CULM_OK);
    assert_int_equal(culm_feed_next(feed, -1, &frame, &error), CULM_OK);
    assert_int_equal(frame.width, 13);
    assert_int_equal(frame.height, 9);
    assert_memory_equal(frame.data, upright.data, (size_t)9 * 13 * 3);
    culm_feed_close(feed);
    for (int orient = 0; orient < 2; orient++) {
        const struct culm_image *as = orient ? &upright : &stored;
        const struct culm_source_options options = {.kind = CULM_SOURCE_IMAGES,
                                                    .paths = (const char *const *)&root,
                                                    .path_count = 1,
                                                    .height = 9,
                                                    .width = 9,
                                                    .channels = 3,
                                                    .orient = orient};
        struct culm_source *source = open_source(&options);
        fill(source, 0, 0, (void *[]){image[orient], NULL});
        /* The middle of the longer side: rows 2 to 10, or columns 2 to 10. */
        for (int y = 0; y < 9; y++) {
            for (int x = 0; x < 9; x++) {
                int at = orient ? y * 13 + x + 2 : (y + 2) * 9 + x;
                assert_true(image[orient][(y * 9 + x) * 3] == (float)as->data[at * 3] / 255.0f);
            }
        }
        culm_source_free(source);
    }
    culm_image_release(&stored);
    culm_image_release(&upright);
    free(data);
    free(path);
}

/* Of a folder, a picture that is gone, leads nowhere or may not be read costs itself alone. */
static void test_unreadable_pictures_pass(void **state) {
    struct place *place = *state;
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    bool root = geteuid() == 0;
    size_t len;
    char *png = read_golden("grey.png", &len), *link, *secret;
    assert_true(asprintf(&link, "%s/b.png", place->dir) > 0);
    assert_int_equal(symlink("/nowhere/at/all", link), 0);
    free(put(place, "a.png", png, len));
    secret = put(place, "c.png", png, len);
    free(put(place, "d.png", png, len));
    assert_int_equal(chmod(secret, 0) | chmod(place->dir, 0755), 0);
    assert_true(!root || seteuid(65534) == 0);
    const struct culm_feed_options options = {.file = place->dir};
    enum culm_status status[5] = {culm_feed_open(&options, &feed, &error)};
    for (int i = 1; i < 5 && feed; i++) {
        status[i] = culm_feed_next(feed, -1, &frame, &error);
    }
    assert_true(!root || seteuid(0) == 0);
    const enum culm_status expected[5] = {CULM_OK, CULM_OK, CULM_ERR_FORMAT, CULM_ERR_FORMAT,
                                          CULM_OK};
    assert_memory_equal(status, expected, sizeof status);
    assert_int_equal(frame.number, 3);
    culm_feed_close(feed);
    free(png);
    free(link);
    free(secret);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pixels_are_pillows),
        cmocka_unit_test(test_other_contents_are_named),
        cmocka_unit_test_setup_teardown(test_what_is_left_out_is_counted, make_place, drop_place),
        cmocka_unit_test(test_nothing_is_left_out),
        cmocka_unit_test_setup_teardown(test_who_turns_pictures, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_unreadable_pictures_pass, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/pictures", tests, NULL, NULL);
}
