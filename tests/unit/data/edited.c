/*
 * A file that is edited while it is read, and put back at once: what was read is what was pinned.
 *
 * This program has a pread64 of its own, so that the edit falls between the reader's look at the
 * file and its reading.
 */
#include "data/files.h"
#include "place.h"
#include "store/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const char *victim; /* NULL: nothing happens */
static char good[4096], bad[4096];
static int times;            /* how often still */
static struct culm_pins *by; /* of another thread that compares right afterwards; or NULL */
static bool cut;             /* cut short, not edited */

static void overwrite(const char *content) {
    int fd = open(victim, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(cut && content == bad ? ftruncate(fd, 0) : 0, 0);
    if (!cut || content == good) {
        assert_int_equal(pwrite(fd, content, sizeof good, 0), sizeof good);
    }
    close(fd);
}

ssize_t pread64(int fd, void *data, size_t len, off64_t at);
ssize_t pread64(int fd, void *data, size_t len, off64_t at) {
    bool edit = victim && times > 0;
    times -= edit;
    if (edit) {
        overwrite(bad);
    }
    ssize_t got = syscall(SYS_pread64, fd, data, len, at);
    if (edit) {
        overwrite(good);
    }
    if (edit && by) {
        const char *path = victim;
        int other = open(path, O_RDONLY | O_CLOEXEC);
        victim = NULL;
        assert_int_equal(culm_pins_file(by, path, other, NULL), CULM_OK);
        victim = path;
        close(other);
    }
    return got;
}

/* Until the file system's clock has moved on since `path` was written. */
static void let_a_tick_pass(const struct place *place, const char *path) {
    struct stat info, later;
    assert_int_equal(stat(path, &info), 0);
    do {
        char *other = put_text(place, "clock", "x");
        assert_int_equal(stat(other, &later), 0);
        free(other);
    } while (memcmp(&info.st_ctim, &later.st_ctim, sizeof info.st_ctim) == 0);
}

/* What a file holds and what it holds meanwhile; pinned as it is. */
static char *prepare(const struct place *place, const char *name, struct culm_pins **ret_pins) {
    char *path = put(place, name, good, sizeof good);
    *ret_pins = culm_pins_new();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(culm_pins_file(*ret_pins, path, fd, NULL), CULM_OK);
    close(fd);
    culm_pins_seal(*ret_pins);
    let_a_tick_pass(place, path);
    return path;
}

static void edited_file(void **state, bool compared, bool shortened) {
    struct culm_error error = {0};
    struct culm_pins *pins;
    struct culm_files *files = NULL;
    char read[sizeof good];
    memset(good, 'g', sizeof good);
    memset(bad, 'b', sizeof bad);
    char *path = prepare(*state, "text", &pins);
    assert_int_equal(culm_files_open("text", (const char *const *)&path, 1, pins, &files, &error),
                     CULM_OK);
    victim = path;
    times = 1;
    by = compared ? pins : NULL;
    cut = shortened;
    enum culm_status status = culm_files_read(files, 0, 0, read, sizeof read, &error);
    victim = NULL;
    assert_int_equal(times, 0);
    assert_string_equal(error.text, "");
    assert_int_equal(status, CULM_OK);
    assert_memory_equal(read, good, sizeof good);
    assert_int_equal(culm_files_read(files, 0, 0, read, sizeof read, &error), CULM_OK);
    culm_files_free(files);
    culm_pins_free(pins);
    free(path);
}

static void a_file(void **state) { edited_file(state, false, false); }
static void a_file_that_another_thread_compares(void **state) { edited_file(state, true, false); }
static void a_file_that_is_cut(void **state) { edited_file(state, false, true); }

/* Edited at each reading: no end in sight, hence an error with its name. */
static void a_file_again_and_again(void **state) {
    struct culm_error error = {0};
    struct culm_pins *pins;
    struct culm_files *files = NULL;
    char read[sizeof good];
    memset(good, 'g', sizeof good);
    memset(bad, 'b', sizeof bad);
    char *path = prepare(*state, "text", &pins);
    assert_int_equal(culm_files_open("text", (const char *const *)&path, 1, pins, &files, &error),
                     CULM_OK);
    victim = path;
    times = 1000;
    by = NULL;
    cut = false;
    enum culm_status status = culm_files_read(files, 0, 0, read, sizeof read, &error);
    victim = NULL;
    assert_int_equal(status, CULM_ERR_CHANGED);
    expect_message(&error, path);
    assert_true(times > 900);
    culm_files_free(files);
    culm_pins_free(pins);
    free(path);
}

static void first_weights(void **state) {
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[900],\"data_offsets\":[0,"
                                 "3600]}}";
    struct culm_error error = {0};
    struct culm_pins *pins;
    struct culm_safetensors *file = NULL;
    const uint64_t header_len = sizeof good - 8 - 3600;
    memset(good, ' ', sizeof good);
    memcpy(good, &header_len, sizeof header_len);
    memcpy(good + 8, header, strlen(header));
    memset(good + 8 + header_len, 1, 3600);
    memcpy(bad, good, sizeof bad);
    memset(bad + 8 + header_len, 2, 3600);
    char *path = prepare(*state, "weights", &pins);
    assert_int_equal(culm_safetensors_open_pinned(path, pins, &file, &error), CULM_OK);
    const int64_t shape[] = {900};
    float weights[900];
    victim = path;
    times = 1;
    by = NULL;
    cut = false;
    enum culm_status status = culm_safetensors_read(file, "w", 1, shape, weights, &error);
    victim = NULL;
    assert_int_equal(times, 0);
    assert_string_equal(error.text, "");
    assert_int_equal(status, CULM_OK);
    assert_memory_equal(weights, good + 8 + header_len, sizeof weights);
    culm_safetensors_close(file);
    culm_pins_free(pins);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file),
        cmocka_unit_test(a_file_that_another_thread_compares),
        cmocka_unit_test(a_file_that_is_cut),
        cmocka_unit_test(a_file_again_and_again),
        cmocka_unit_test(first_weights),
    };
    return cmocka_run_group_tests_name("data/edited", tests, make_place, drop_place);
}
