/* Data files as users have them: compressed, of another kind than was said, in folders, many, and
 * some that cannot be read. */
#include "place.h"

#include "base/pins.h"
#include "data/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#define CONTEXT 4
#define MANY 300 /* more than CULM_FILES_APART */

static char *path_in(const struct place *place, const char *name) {
    char *path;
    assert_true(asprintf(&path, "%s/%s", place->dir, name) > 0);
    return path;
}

static char *make_folder(const struct place *place, const char *name) {
    char *path = path_in(place, name);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

static char *put_gzip(const struct place *place, const char *name, const void *data, size_t len,
                      const char *mode) {
    char *path = path_in(place, name);
    gzFile file = gzopen(path, mode);
    assert_int_equal(gzwrite(file, data, (unsigned)len), (int)len);
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

static struct culm_source_options text_options(char *const *paths, size_t count) {
    return (struct culm_source_options){.kind = CULM_SOURCE_TEXT,
                                        .paths = (const char *const *)paths,
                                        .path_count = count,
                                        .context = CONTEXT,
                                        .vocab = 256};
}

/* The inputs of all samples, as text. */
static char *inputs_of(const struct culm_source *source) {
    int64_t samples = culm_source_samples(source);
    char *text = calloc((size_t)samples * CONTEXT + 1, 1);
    for (int64_t i = 0; i < samples; i++) {
        int32_t tokens[CONTEXT];
        fill(source, i, 0, (void *[]){tokens, NULL});
        for (int k = 0; k < CONTEXT; k++) {
            text[i * CONTEXT + k] = (char)tokens[k];
        }
    }
    return text;
}

static void reads(const struct culm_source_options *options, const char *expected) {
    struct culm_source *source = open_source(options);
    char *text = inputs_of(source);
    assert_string_equal(text, expected);
    free(text);
    culm_source_free(source);
}

/* --- contents --- */

static void test_gzip_is_unpacked(void **state) {
    struct place *place = *state;
    char *path = put_gzip(place, "a.txt", "the quick ", 10, "wb9"), *data;
    struct culm_source_options options = text_options(&path, 1);
    size_t len;
    reads(&options, "the quic");
    struct culm_source *source = open_source(&options);
    assert_int_equal(culm_source_resident_bytes(source), 10);
    culm_source_free(source);
    free(put_gzip(place, "a.txt", "brown fox.", 10, "ab9")); /* a second member */
    reads(&options, "the quick brown ");
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &data, &len, NULL), CULM_OK);
    for (size_t cut = 3; cut < len; cut++) { /* less is text */
        free(put(place, "a.txt", data, cut));
        if (cut != len / 2) { /* where the first member ends */
            expect_refused(&options, "its gzip data is ");
        }
    }
    data = realloc(data, len + 8);
    memset(data + len, 0, 8);
    free(put(place, "a.txt", data, len + 8)); /* filled up with zeros */
    reads(&options, "the quick brown ");
    data[len + 7] = 'x';
    free(put(place, "a.txt", data, len + 8));
    expect_refused(&options, "its gzip data is followed by something else");
    free(put_gzip(place, "a.txt", "", 0, "wb9"));
    expect_refused(&options, "there is nothing in it");
    char tar[512] = "name";
    memcpy(tar + 257, "ustar", 5);
    free(put_gzip(place, "a.txt", tar, sizeof tar, "wb9"));
    expect_refused(&options, "unpacked, is a tar archive, not text; unpack it and give the text");
    free(data);
    free(path);
}

static void test_what_is_no_text_is_refused(void **state) {
    struct place *place = *state;
    static const struct {
        const char *head, *part;
        size_t len;
    } heads[] = {
        {"PK\3\4........", "is a zip archive (as .zip, .docx, .xlsx, .epub, .npz, .pt are)", 12},
        {"\x28\xb5\x2f\xfd....", "is a zstd file, not text; unpack it with 'zstd -d'", 8},
        {"BZh91AY&SY..", "is a bzip2 file, not text; unpack it with bunzip2", 12},
        {"\xfd"
         "7zXZ\0..",
         "is an xz file, not text; unpack it with unxz", 8},
        {"\x7f"
         "ELF....",
         "is a program or library (ELF), not text; give a text file", 8},
        {"\xff\xfeh\0i\0.\0",
         "is text in UTF-16, not text; turn it into UTF-8, as with 'iconv -f UTF-16", 8},
        {"\xfe\xff\0h\0i\0.",
         "is text in UTF-16, not text; turn it into UTF-8, as with 'iconv -f UTF-16", 8},
        {"%PDF-1.7....", "is a PDF, not text; save it as text (UTF-8)", 12},
        {"\x93NUMPY....", "set data.kind to tokens if it holds token ids", 10},
        {"version https://git-lfs.github.com/spec/v1", "get the file with 'git lfs pull'", 42},
    };
    char *path = path_in(place, "a.txt");
    struct culm_source_options options = text_options(&path, 1);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        free(put(place, "a.txt", heads[i].head, heads[i].len));
        options.kind = CULM_SOURCE_TEXT;
        expect_refused(&options, heads[i].part);
        options.kind = CULM_SOURCE_PAIRS;
        expect_refused(&options, heads[i].part);
    }
    options.kind = CULM_SOURCE_TEXT;
    free(
        put(place, "a.txt", "\xef\xbb\xbfhi\0 there", 12)); /* a mark of UTF-8 and a NUL are text */
    culm_source_free(open_source(&options));
    free(path);
}

/* Ids may begin like anything: only a name, or many bytes, make a file something else. */
static void test_token_files(void **state) {
    struct place *place = *state;
    static const uint16_t ids[] = {0x8b1f, 0x0008, 7, 8, 9, 10, 11, 12, 13};
    static const uint16_t plain[] = {5, 6, 7, 8, 9};
    char *path = put(place, "a.u16", ids, sizeof ids);
    struct culm_source_options options = text_options(&path, 1);
    int32_t tokens[CONTEXT];
    options.kind = CULM_SOURCE_TOKENS;
    options.vocab = 50257;
    struct culm_source *source = open_source(&options);
    fill(source, 0, 0, (void *[]){tokens, NULL});
    assert_int_equal(tokens[0], 0x8b1f);
    assert_int_equal(culm_source_samples(source), 2);
    culm_source_free(source);
    free(path);
    path = put_gzip(place, "a.u16.gz", plain, sizeof plain, "wb9");
    source = open_source(&options);
    fill(source, 0, 0, (void *[]){tokens, NULL});
    assert_int_equal(tokens[3], 8);
    culm_source_free(source);
    free(path);
    path = put(place, "a.npz", "PK\3\4....", 8);
    expect_refused(&options, "is a zip archive");
    expect_refused(&options, "give token ids (.npy, .u16, .u32)");
    free(path);
    path = put(place, "a.bin", "SQLite format 3\0........", 24);
    expect_refused(&options, "is an SQLite database; give token ids");
    free(path);
}

/* --- folders and patterns --- */

static void test_folders_and_patterns(void **state) {
    struct place *place = *state;
    char *folder = make_folder(place, "c"), *pattern = path_in(place, "c/*.txt");
    free(make_folder(place, "c/b"));
    free(make_folder(place, "c/.hidden"));
    free(put_text(place, "c/a.txt", "aaaaa"));
    free(put_text(place, "c/b/1.txt", "bb"));
    free(put_text(place, "c/b/2.md", "cc"));
    free(put_text(place, "c/d.txt", "dddd"));
    free(put_text(place, "c/empty.txt", ""));
    free(put_text(place, "c/.hidden/x.txt", "x"));
    free(put_text(place, "c/.x.txt", "x"));
    struct culm_source_options options = text_options(&folder, 1);
    reads(&options, "aaaaabbccddd"); /* one id more is the last target */
    struct culm_source *source = open_source(&options);
    char note[160];
    snprintf(note, sizeof note, "text '%s': left out: 1 empty file", folder);
    assert_string_equal(culm_source_note(source), note);
    culm_source_free(source);
    options = text_options(&pattern, 1);
    reads(&options, "aaaaaddd");
    char *both[] = {pattern, folder};
    options = text_options(both, 2);
    reads(&options, "aaaaaddddaaaaabbccdd");
    options.kind = CULM_SOURCE_PAIRS;
    expect_refused(&options, "c/a.txt': line 1 has no TAB");
    char *nothing = path_in(place, "c/*.csv"), *empty = make_folder(place, "c/none");
    options = text_options(&nothing, 1);
    expect_refused(&options, "no file with anything in it fits this pattern");
    options = text_options(&empty, 1);
    expect_refused(&options, "the folder has no file with anything in it");
    char *named = put_text(place, "c/[x]*.txt", "named like a pattern");
    options = text_options(&named, 1);
    reads(&options, "named like a pat");
    free(named);
    char *link = path_in(place, "c/link");
    assert_int_equal(symlink("..", link), 0);
    options = text_options(&folder, 1);
    expect_refused(&options, "or a link leads back; name the files by a pattern");
    options = text_options(&pattern, 1); /* which is tried */
    culm_source_free(open_source(&options));
    free(link);
    free(nothing);
    free(empty);
    free(folder);
    free(pattern);
}

/* --- many files --- */

static char *many(const struct place *place, char *expected) {
    char *folder = make_folder(place, "many"), name[32], text[16];
    expected[0] = '\0';
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "many/%03d.txt", i);
        snprintf(text, sizeof text, "<%d>", i);
        free(put_text(place, name, text));
        strcat(expected, text);
    }
    expected[(strlen(expected) - 1) / CONTEXT * CONTEXT] = '\0';
    return folder;
}

/* With fewer descriptors than files, whichever way the files are named. */
static void test_descriptors_follow_use(void **state) {
    struct place *place = *state;
    char expected[8 * MANY], *pattern = path_in(place, "many/*"), *folder = many(place, expected);
    char *list[MANY], name[32];
    struct rlimit before, fewer = {.rlim_cur = 40};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    fewer.rlim_max = before.rlim_max;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "many/%03d.txt", i);
        list[i] = path_in(place, name);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &fewer), 0);
    struct culm_pins *pins = culm_pins_new();
    for (int how = 0; how < 3; how++) {
        struct culm_source_options options =
            how == 0 ? text_options(list, MANY) : text_options(how == 1 ? &folder : &pattern, 1);
        options.pins = pins;
        reads(&options, expected);
    }
    culm_pins_free(pins);
    /* The limit itself is named, and how to raise it. */
    fewer.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &fewer), 0);
    struct culm_files *files = NULL;
    struct culm_error error = {0};
    enum culm_status status =
        culm_files_open("text", (const char *const *)list, 1, NULL, &files, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, CULM_ERR_IO);
    expect_message(&error, "of which a process may have 3; raise that, as with 'ulimit -n 12'");
    for (int i = 0; i < MANY; i++) {
        free(list[i]);
    }
    free(folder);
    free(pattern);
}

static void let_a_tick_pass(const struct place *place, const char *path) {
    struct stat info, later;
    assert_int_equal(stat(path, &info), 0);
    do {
        char *other = put_text(place, "other", "x");
        assert_int_equal(stat(other, &later), 0);
        free(other);
    } while (memcmp(&info.st_ctim, &later.st_ctim, sizeof info.st_ctim) == 0);
}

static enum culm_status opens(const struct culm_source_options *options, struct culm_error *error) {
    struct culm_source *source = NULL;
    enum culm_status status = culm_source_open(options, &source, error);
    culm_source_free(source);
    return status;
}

/* Of a file in mid-run, by a source that is open and by one that is opened anew. */
static void expect_changed(const struct culm_source_options *options,
                           const struct culm_source *source, int64_t sample, const char *file) {
    struct culm_error error = {0};
    int32_t tokens[CONTEXT];
    void *const fields[] = {tokens, NULL};
    const struct culm_source_item item = {sample, 0};
    assert_int_equal(culm_source_fill(source, item, fields, &error), CULM_ERR_CHANGED);
    expect_message(&error, file);
    expect_message(&error, "--resume");
    assert_int_equal(opens(options, &error), CULM_ERR_CHANGED);
    expect_message(&error, "is not what it was when the run began");
}

static void test_pins_of_many_files(void **state) {
    struct place *place = *state;
    char expected[8 * MANY], *pattern = path_in(place, "many/*.txt"),
                             *folder = many(place, expected);
    struct culm_error error = {0};
    for (int how = 0; how < 2; how++) {
        struct culm_source_options options = text_options(how ? &pattern : &folder, 1);
        options.pins = culm_pins_new();
        culm_source_free(open_source(&options));
        assert_int_equal(culm_pins_count(options.pins), 1);
        assert_int_equal(culm_pins_at(options.pins, 0).files, MANY);
        culm_pins_seal(options.pins);
        assert_int_equal(culm_pins_look(options.pins, &error), CULM_OK);
        struct culm_source *source = open_source(&options);
        char *text = inputs_of(source), *file = path_in(place, "many/200.txt");
        assert_string_equal(text, expected);
        int64_t sample = (strstr(text, "<200>") + 2 - text) / CONTEXT;
        free(text);
        let_a_tick_pass(place, file);
        free(put_text(place, "many/200.txt", "<2x0>"));
        expect_changed(&options, source, sample, file);
        free(put_text(place, "many/200.txt", "<200>"));
        text = inputs_of(source); /* the same again, though written to */
        assert_string_equal(text, expected);
        free(text);
        reads(&options, expected);
        remove(file);
        expect_changed(&options, source, sample, file);
        free(put_text(place, "many/200.txt", "<200>"));
        free(put_text(place, "many/zzz.txt", "more"));
        assert_int_equal(opens(&options, &error), CULM_ERR_CHANGED);
        expect_message(&error, "it has 301 files, had 300");
        char *more = path_in(place, "many/zzz.txt");
        remove(more);
        free(more);
        reads(&options, expected);
        culm_source_free(source);
        culm_pins_free(options.pins);
        free(file);
    }
    free(folder);
    free(pattern);
}

/* Few files are pinned one by one, as if they were listed. */
static void test_pins_of_few_files(void **state) {
    struct place *place = *state;
    struct culm_error error = {0};
    char *folder = make_folder(place, "few");
    free(put_text(place, "few/a.txt", "aaaaaaaa"));
    free(put_text(place, "few/b.txt", "bbbbbbbb"));
    struct culm_source_options options = text_options(&folder, 1);
    options.pins = culm_pins_new();
    culm_source_free(open_source(&options));
    assert_int_equal(culm_pins_count(options.pins), 2);
    culm_pins_seal(options.pins);
    free(put_text(place, "few/c.txt", "cccccccc"));
    assert_int_equal(opens(&options, &error), CULM_ERR_CHANGED);
    expect_message(&error, "few/c.txt' is not what it was when the run began: it did not exist");
    culm_pins_free(options.pins);
    free(folder);
}

/* --- files that cannot be read --- */

static void expect_never_read(const struct culm_source_options *options, int code,
                              const char *part) {
    struct culm_error error = {0};
    enum culm_status status = opens(options, &error);
    assert_int_equal(culm_status_exit_code(status), code);
    expect_message(&error, part);
    assert_null(strstr(error.text, "is not what it was"));
}

static void test_links_that_lead_nowhere(void **state) {
    struct place *place = *state;
    char *folder = make_folder(place, "set"), *link = path_in(place, "set/cat/a.png");
    free(make_folder(place, "set/cat"));
    assert_int_equal(symlink("/nowhere/at/all", link), 0);
    struct culm_source_options options = {.kind = CULM_SOURCE_IMAGES,
                                          .paths = (const char *const *)&folder,
                                          .path_count = 1,
                                          .height = 8,
                                          .width = 8,
                                          .channels = 3};
    options.pins = culm_pins_new();
    expect_never_read(&options, 3,
                      "cat/a.png' cannot be read: it is a link that leads nowhere; "
                      "restore it, or remove it before a run begins");
    remove(link);
    assert_int_equal(mkdir(link, 0700), 0);
    expect_never_read(&options, 3, "cat/a.png' is not a file but a folder; give it another name");
    culm_pins_free(options.pins);
    options = text_options(&folder, 1);
    assert_int_equal(rmdir(link), 0);
    assert_int_equal(symlink("/nowhere/at/all", link), 0);
    expect_never_read(&options, 3, "cat/a.png': is a link that leads nowhere; restore");
    free(link);
    free(folder);
}

static void test_files_without_permission(void **state) {
    struct place *place = *state;
    char *folder = make_folder(place, "set"), *file;
    bool root = geteuid() == 0;
    free(make_folder(place, "set/cat"));
    file = put_text(place, "set/cat/a.png", "x");
    struct culm_source_options options = {.kind = CULM_SOURCE_IMAGES,
                                          .paths = (const char *const *)&folder,
                                          .path_count = 1,
                                          .height = 8,
                                          .width = 8,
                                          .channels = 3,
                                          .pins = culm_pins_new()};
    assert_int_equal(chmod(file, 0), 0);
    if (root) { /* who may read everything */
        char *parent = path_in(place, "set/cat");
        assert_int_equal(chmod(place->dir, 0755) | chmod(folder, 0755) | chmod(parent, 0755), 0);
        assert_int_equal(seteuid(65534), 0);
        free(parent);
    }
    struct culm_error error = {0};
    enum culm_status status = opens(&options, &error);
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(culm_status_exit_code(status), 4);
    expect_message(&error, "cat/a.png' cannot be read: Permission denied");
    assert_int_equal(chmod(file, 0600), 0);
    culm_source_free(open_source(&options));
    culm_pins_free((struct culm_pins *)options.pins);
    free(file);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gzip_is_unpacked, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_what_is_no_text_is_refused, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_token_files, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_folders_and_patterns, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_descriptors_follow_use, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_pins_of_many_files, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_pins_of_few_files, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_links_that_lead_nowhere, make_place, drop_place),
        cmocka_unit_test_setup_teardown(test_files_without_permission, make_place, drop_place),
    };
    return cmocka_run_group_tests_name("data/corpus", tests, NULL, NULL);
}
