/*
 * Feeds of pictures, IDX files and ffmpeg. What must go wrong is done by a program of our own in
 * ffmpeg's place; what ffmpeg itself gives is tried where it is installed.
 */
#include "../folder.h"

#include "base/clock.h"
#include "data/feed_internal.h"
#include "data/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <time.h>

static char real_path[4096];
static int stall_ms = 60000; /* a machine may be slow */

static void ok(enum culm_status status, const struct culm_error *error) {
    if (status != CULM_OK) {
        fail_msg("%s", error->text);
    }
}

static void write_file(const char *name, const void *data, size_t len, int mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, (mode_t)mode), 0);
}

/* A program of this text is ffmpeg from now on. */
static void be_ffmpeg(const char *text) {
    char path[16384];
    snprintf(path, sizeof path, "%s/bin", folder);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "#!/bin/sh\n%s\n", text);
    write_file("bin/ffmpeg", path, strlen(path), 0755);
    snprintf(path, sizeof path, "%s/bin:%s", folder, real_path);
    setenv("PATH", path, 1);
}

static struct culm_feed *open_feed(const char *name, bool loop) {
    char path[4096];
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const struct culm_feed_options options = {
        .name = "hall", .file = path, .loop = loop, .stall_ms = stall_ms};
    ok(culm_feed_open(&options, &feed, &error), &error);
    return feed;
}

static void refuses(struct culm_feed *feed, int wait_ms, enum culm_status want, const char *text) {
    struct culm_feed_frame frame;
    struct culm_error error = {0};
    assert_int_equal(culm_feed_next(feed, wait_ms, &frame, &error), want);
    if (!strstr(error.text, text) || strchr(error.text, '\n')) {
        fail_msg("'%s' says nothing of '%s'", error.text, text);
    }
}

static void takes(struct culm_feed *feed, int64_t number, int64_t source, int first) {
    struct culm_feed_frame frame;
    struct culm_error error = {0};
    ok(culm_feed_next(feed, -1, &frame, &error), &error);
    assert_int_equal(frame.number, number);
    assert_int_equal(frame.source, source);
    assert_int_equal(frame.data[0], first);
}

/* --- a program in ffmpeg's place --- */

#define FRAME(letter) "printf 'P6\\n2 1\\n255\\n" letter "bcdef'; "

static void test_child(void **state) {
    (void)state;
    write_file("clip.mp4", "x", 1, 0644);
    be_ffmpeg(FRAME("a") FRAME("g") "exit 0");
    struct culm_feed *feed = open_feed("clip.mp4", false);
    assert_int_equal(culm_feed_count(feed), -1);
    assert_true(culm_feed_fd(feed) >= 0);
    takes(feed, 0, 0, 'a');
    takes(feed, 1, 1, 'g');
    refuses(feed, -1, CULM_ERR_CLOSED, "feed 'hall': it ended after 2 frames");
    refuses(feed, -1, CULM_ERR_CLOSED, "2 frames");
    struct culm_error error = {0};
    ok(culm_feed_rewind(feed, &error), &error);
    takes(feed, 2, 0, 'a');
    culm_feed_close(feed);
    feed = open_feed("clip.mp4", true);
    for (int i = 0; i < 7; i++) {
        takes(feed, i, i % 2, i % 2 ? 'g' : 'a');
    }
    culm_feed_close(feed);
}

/* ffmpeg takes the name of a file for that, whatever is in it; what is no file is left to ffmpeg. */
static void test_child_names(void **state) {
    (void)state;
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    const struct culm_feed_options none = {.name = "hall", .file = "rtsp://hall/7"};
    write_file("12:30.mp4", "x", 1, 0644);
    be_ffmpeg("while [ $1 != -i ]; do shift; done; case $2 in file:*30.mp4) " FRAME(
        "f") ";; rtsp:*) " FRAME("r") ";; esac");
    feed = open_feed("12:30.mp4", false);
    takes(feed, 0, 0, 'f');
    culm_feed_close(feed);
    ok(culm_feed_open(&none, &feed, &error), &error);
    takes(feed, 0, 0, 'r');
    culm_feed_close(feed);
}

static void test_child_goes_wrong(void **state) {
    (void)state;
    write_file("clip.mp4", "x", 1, 0644);
    be_ffmpeg(FRAME("a") "kill -9 $$");
    struct culm_feed *feed = open_feed("clip.mp4", true);
    takes(feed, 0, 0, 'a');
    refuses(feed, -1, CULM_ERR_IO, "ffmpeg was killed by signal 9 after 1 frames");
    culm_feed_close(feed);
    be_ffmpeg(FRAME("a") "printf 'P6\\n2 1\\n255\\nab'; exit 0");
    feed = open_feed("clip.mp4", false);
    takes(feed, 0, 0, 'a');
    refuses(feed, -1, CULM_ERR_IO, "in the middle of frame 1");
    culm_feed_close(feed);
    be_ffmpeg("echo '[mov @ 0x55d1e2] first' >&2; echo '[mov @ 0x55d1e2] second' >&2; echo "
              "'clip.mp4: Invalid data found' >&2; exit 1");
    feed = open_feed("clip.mp4", true);
    refuses(feed, -1, CULM_ERR_CONFIG, "after 0 frames: first; clip.mp4: Invalid data found");
    culm_feed_close(feed);
    be_ffmpeg("printf 'no picture at all, but a lot of text in its place, longer than a header'");
    feed = open_feed("clip.mp4", false);
    refuses(feed, -1, CULM_ERR_IO, "gives no pictures");
    culm_feed_close(feed);
    be_ffmpeg("printf 'P6\\n65500 65500\\n255\\nabc'");
    feed = open_feed("clip.mp4", false);
    refuses(feed, -1, CULM_ERR_CONFIG, "a picture of 65500 x 65500 is too large");
    culm_feed_close(feed);
    be_ffmpeg("exit 0"); /* loops for good if nobody looks */
    feed = open_feed("clip.mp4", true);
    refuses(feed, -1, CULM_ERR_CLOSED, "after 0 frames");
    culm_feed_close(feed);
    /* a lot of complaints beside the pictures block nothing */
    be_ffmpeg("i=0; while [ $i -lt 3000 ]; do echo 'a complaint of some length, again and again'; "
              "i=$((i+1)); done >&2; " FRAME("a") "exit 0");
    feed = open_feed("clip.mp4", false);
    struct culm_feed_frame frame;
    struct culm_error error = {0};
    enum culm_status status;
    do { /* a busy machine takes long for so many words */
        status = culm_feed_next(feed, 1000, &frame, &error);
    } while (status == CULM_ERR_TIMEOUT || status == CULM_ERR_AGAIN);
    ok(status, &error);
    culm_feed_close(feed);
}

/* A feed that has given its first frame. The machine may take longer for that: it has stalled then, too. */
static struct culm_feed *open_impatiently(int after_ms) {
    stall_ms = after_ms;
    struct culm_feed *feed = open_feed("clip.mp4", false);
    stall_ms = 60000;
    struct culm_feed_frame frame;
    struct culm_error error = {0};
    enum culm_status status;
    while ((status = culm_feed_next(feed, -1, &frame, &error)) == CULM_ERR_TIMEOUT) {
    }
    ok(status, &error);
    return feed;
}

static void test_child_stalls(void **state) {
    (void)state;
    write_file("clip.mp4", "x", 1, 0644);
    char text[8192];
    snprintf(text, sizeof text, FRAME("a") "echo $$ > %s/pid; exec sleep 1000", folder);
    be_ffmpeg(text);
    struct culm_feed *feed = open_feed("clip.mp4", false);
    takes(feed, 0, 0, 'a');
    refuses(feed, 0, CULM_ERR_AGAIN, "no frame so far");
    culm_feed_close(feed);
    feed = open_impatiently(300);
    refuses(feed, -1, CULM_ERR_TIMEOUT, "stalled: nothing for 0.3 s after 1 frames");
    refuses(feed, 60000, CULM_ERR_TIMEOUT, "stalled"); /* it goes on waiting */
    culm_feed_close(feed);                             /* and is gone */
    char path[4096], gone[64];
    int pid = 0;
    snprintf(path, sizeof path, "%s/pid", folder);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    snprintf(gone, sizeof gone, "/proc/%d", pid);
    assert_int_not_equal(access(gone, F_OK), 0);
}

/* One of these programs, which gives a frame, and how that ends. A machine may be so busy that it does not exit within the
 * five seconds that it is given: then it is tried again. */
static void ends_with(const char *program, enum culm_status want, const char *text) {
    struct culm_error error = {0};
    enum culm_status status = CULM_OK;
    bool late = true;
    be_ffmpeg(program);
    for (int i = 0; i < 20 && late; i++) {
        struct culm_feed *feed = open_feed("clip.mp4", false);
        struct culm_feed_frame frame;
        takes(feed, 0, 0, 'a');
        status = culm_feed_next(feed, -1, &frame, &error);
        late = status == CULM_ERR_IO && strstr(error.text, "but did not exit");
        culm_feed_close(feed);
    }
    assert_int_equal(status, want);
    if (!strstr(error.text, text) || strchr(error.text, '\n')) {
        fail_msg("'%s' says nothing of '%s'", error.text, text);
    }
}

/* It closes its output: is that the end? Not before it has exited; what it says until then is read. */
static void test_child_that_stays(void **state) {
    (void)state;
    write_file("clip.mp4", "x", 1, 0644);
    be_ffmpeg(FRAME("a") "exec >&-; exec sleep 1000");
    struct culm_feed *feed = open_feed("clip.mp4", false);
    takes(feed, 0, 0, 'a');
    refuses(feed, -1, CULM_ERR_IO, "stopped giving frames after 1, but did not exit");
    culm_feed_close(feed);
    ends_with(FRAME("a") "exec >&-; head -c 300000 /dev/zero >&2; echo broken >&2; exit 3",
              CULM_ERR_IO, "failed after 1 frames: ");
    ends_with(FRAME("a") "exec 2>&-; sleep 0.2; exit 0", CULM_ERR_CLOSED,
              "it ended after 1 frames");
}

/* Time in which this process was stopped, as by Ctrl-Z, is not the child's silence. */
static void test_child_after_a_stop(void **state) {
    (void)state;
    struct feed_child child = {0};
    struct culm_error error = {0};
    write_file("clip.mp4", "x", 1, 0644);
    be_ffmpeg(FRAME("a") "exec sleep 1000");
    const struct feed_child_how how = {.name = "hall", .file = "clip.mp4"};
    ok(feed_child_start(&child, &how, &error), &error);
    ok(feed_child_read(&child, "hall", 0, -1, 60000, &error), &error);
    feed_child_take(&child);
    child.heard_ns -= 2000000000; /* nobody has looked for two seconds */
    child.looked_ns -= 2000000000;
    assert_int_equal(feed_child_read(&child, "hall", 1, 0, 1000, &error), CULM_ERR_AGAIN);
    assert_int_equal(feed_child_read(&child, "hall", 1, -1, 1000, &error), CULM_ERR_TIMEOUT);
    feed_child_release(&child);
}

static void test_not_installed(void **state) {
    (void)state;
    char path[4096];
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    write_file("clip.mp4", "x", 1, 0644);
    snprintf(path, sizeof path, "%s/nothing", folder);
    setenv("PATH", path, 1);
    snprintf(path, sizeof path, "%s/clip.mp4", folder);
    const struct culm_feed_options options = {.name = "hall", .file = path};
    assert_int_equal(culm_feed_open(&options, &feed, &error), CULM_ERR_MACHINE);
    assert_non_null(strstr(error.text, "feed 'hall': ffmpeg is not installed"));
    setenv("PATH", real_path, 1);
    const struct culm_feed_options missing = {.name = "hall", .file = "/nowhere/at/all.mp4"};
    assert_int_equal(culm_feed_open(&missing, &feed, &error), CULM_ERR_CONFIG);
    const struct culm_feed_options crop = {.name = "hall", .file = path, .crop = {0, 0, 4, -1}};
    assert_int_equal(culm_feed_open(&crop, &feed, &error), CULM_ERR_CONFIG);
}

/* --- ffmpeg --- */

/* A part of a clip of ten frames a second: the same pixels as of the whole. */
static void test_part(void) {
    struct culm_feed *feed;
    char path[4096];
    uint8_t *whole = malloc((size_t)10 * 64 * 48 * 3);
    struct culm_feed_frame frame;
    struct culm_error error = {0};
    assert_non_null(whole);
    feed = open_feed("test.gif", false);
    for (int i = 0; i < 10; i++) {
        ok(culm_feed_next(feed, -1, &frame, &error), &error);
        memcpy(whole + (size_t)i * 64 * 48 * 3, frame.data, 64 * 48 * 3);
    }
    culm_feed_close(feed);
    snprintf(path, sizeof path, "%s/test.gif", folder);
    const struct culm_feed_options options = {
        .name = "hall", .file = path, .from_s = 0.2, .to_s = 0.8, .every = 2};
    ok(culm_feed_open(&options, &feed, &error), &error);
    for (int i = 0; i < 3; i++) {
        ok(culm_feed_next(feed, -1, &frame, &error), &error);
        assert_int_equal(frame.source, i);
        assert_memory_equal(frame.data, whole + (size_t)(2 + 2 * i) * 64 * 48 * 3, 64 * 48 * 3);
    }
    refuses(feed, -1, CULM_ERR_CLOSED, "it ended after 3 frames");
    culm_feed_close(feed);
    free(whole);
}

static void test_ffmpeg(void **state) {
    (void)state;
    setenv("PATH", real_path, 1);
    if (system("ffmpeg -version >/dev/null 2>&1") != 0) {
        print_message("ffmpeg is not installed\n");
        skip();
    }
    char command[8192];
    snprintf(command, sizeof command,
             "ffmpeg -nostdin -v error -f lavfi -i testsrc=size=64x48:rate=10:duration=1 "
             "-pix_fmt rgb24 %s/test.gif",
             folder);
    assert_int_equal(system(command), 0);
    struct culm_feed *feed = open_feed("test.gif", true);
    struct culm_feed_frame frame;
    struct culm_error error = {0};
    for (int i = 0; i < 23; i++) {
        enum culm_status status;
        while ((status = culm_feed_next(feed, -1, &frame, &error)) == CULM_ERR_TIMEOUT) {
        }
        ok(status, &error);
        assert_int_equal(frame.width, 64);
        assert_int_equal(frame.height, 48);
        assert_int_equal(frame.number, i);
        assert_int_equal(frame.source, i % 10);
    }
    culm_feed_close(feed);
    test_part();
    write_file("broken.mp4", "this is no clip", 15, 0644);
    feed = open_feed("broken.mp4", false);
    enum culm_status status;
    while ((status = culm_feed_next(feed, -1, &frame, &error)) == CULM_ERR_TIMEOUT) {
    }
    assert_int_equal(status, CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "feed 'hall': ffmpeg failed after 0 frames: "));
    culm_feed_close(feed);
}

/* --- IDX and folders --- */

/* A part of ten pictures, of which three are a second, and what is not in it. */
static void test_part_of_pictures(void **state) {
    (void)state;
    uint8_t images[16 + 10] = {0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 1};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 4, 7, 8, 9, 10};
    char path[4096], other[4096];
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    for (int i = 0; i < 10; i++) {
        images[16 + i] = (uint8_t)i;
    }
    write_file("ten", images, sizeof images, 0644);
    write_file("four", labels, sizeof labels, 0644);
    snprintf(path, sizeof path, "%s/ten", folder);
    snprintf(other, sizeof other, "%s/four", folder);
    struct culm_feed_options options = {.name = "hall",
                                        .file = path,
                                        .loop = true,
                                        .fps = 3,
                                        .from_s = 1,
                                        .to_s = 8.0 / 3,
                                        .every = 1};
    ok(culm_feed_open(&options, &feed, &error), &error);
    assert_int_equal(culm_feed_count(feed), 5); /* 3, 4, 5, 6, 7 */
    for (int i = 0; i < 12; i++) {
        takes(feed, i, i % 5, 3 + i % 5);
    }
    culm_feed_close(feed);
    options.to_s = 0;
    options.every = 2;
    options.labels = other;
    ok(culm_feed_open(&options, &feed, &error), &error);
    assert_int_equal(culm_feed_count(feed), 4); /* 3, 5, 7, 9 */
    for (int i = 0; i < 9; i++) {
        struct culm_feed_frame frame;
        ok(culm_feed_next(feed, -1, &frame, &error), &error);
        assert_int_equal(frame.data[0], 3 + 2 * (i % 4));
        assert_int_equal(frame.label, 7 + i % 4);
    }
    culm_feed_close(feed);
    options.from_s = 3.5;
    assert_int_equal(culm_feed_open(&options, &feed, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "there is nothing from second 3.5 on"));
    options = (struct culm_feed_options){.name = "hall", .file = "rtsp://hall/7", .to_s = 4};
    assert_int_equal(culm_feed_open(&options, &feed, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "leave out 'from' and 'to'"));
}

static void test_idx(void **state) {
    (void)state;
    static const uint8_t images[] = {0,  0,  8,  4,  0,  0,  0,  3,  0,  0,  0,  1, 0,
                                     0,  0,  2,  0,  0,  0,  3,  1,  2,  3,  4,  5, 6,
                                     11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9};
    static const uint8_t huge[] = {0, 0, 8, 4, 0, 0, 0, 1, 0, 4, 0, 0, 0, 4, 0, 0, 16, 0, 0, 0};
    static const uint8_t few[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 8};
    write_file("images", images, sizeof images, 0644);
    write_file("labels", labels, sizeof labels, 0644);
    write_file("few", few, sizeof few, 0644);
    char path[4096], other[4096];
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    struct culm_feed_frame frame;
    snprintf(path, sizeof path, "%s/images", folder);
    snprintf(other, sizeof other, "%s/labels", folder);
    struct culm_feed_options options = {
        .name = "hall", .file = path, .labels = other, .crop = {1, 0, 1, 1}};
    ok(culm_feed_open(&options, &feed, &error), &error);
    assert_int_equal(culm_feed_count(feed), 3);
    assert_int_equal(culm_feed_fd(feed), -1);
    for (int i = 0; i < 3; i++) {
        ok(culm_feed_next(feed, -1, &frame, &error), &error);
        assert_int_equal(frame.label, 7 + i);
        assert_int_equal(frame.width, 1);
        assert_int_equal(frame.channels, 3);
        assert_int_equal(frame.data[0], 10 * i + 4);
    }
    refuses(feed, -1, CULM_ERR_CLOSED, "it ended after 3 frames");
    culm_feed_close(feed);
    options.crop[0] = 2;
    ok(culm_feed_open(&options, &feed, &error), &error);
    refuses(feed, -1, CULM_ERR_CONFIG, "frame 0 is 2 x 1, and the crop reaches to 3 x 1");
    culm_feed_close(feed);
    snprintf(other, sizeof other, "%s/few", folder);
    assert_int_equal(culm_feed_open(&options, &feed, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "has 2 labels, but the feed has 3 frames"));
    options.file = other; /* labels are no pictures */
    assert_int_equal(culm_feed_open(&options, &feed, &error), CULM_ERR_CONFIG);
    write_file("huge", huge, sizeof huge, 0644); /* 2^64 bytes */
    snprintf(other, sizeof other, "%s/huge", folder);
    assert_int_equal(culm_feed_open(&options, &feed, &error), CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "asks for more than 64 GB"));
}

/* The next picture of a folder that is followed, which has this name. */
static void takes_file(struct culm_feed *feed, int64_t number, const char *name) {
    struct culm_feed_frame frame;
    struct culm_error error = {0};
    ok(culm_feed_next(feed, -1, &frame, &error), &error);
    assert_int_equal(frame.number, number);
    assert_int_equal(frame.source, number);
    assert_string_equal(strrchr(frame.file, '/') + 1, name);
}

static void write_at(const char *name, const void *png, size_t len, time_t when) {
    char path[4096];
    const struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    write_file(name, png, len, 0644);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* A picture of which half is there is left alone until it is whole. */
static void half(struct culm_feed *feed, const void *png, size_t len) {
    const struct timespec pause = {0, 260000000}; /* after which the folder is looked at again */
    enum culm_status status;
    uint64_t took_ms;
    struct culm_feed_frame frame;
    struct culm_error error = {0};
    char name[64];
    int times = 0;
    do { /* again, if this program was stopped for so long that it may count as written */
        const uint64_t began = culm_clock_ns();
        snprintf(name, sizeof name, "grow/half-%d.png", times++);
        write_file(name, png, len / 2, 0644);
        nanosleep(&pause, NULL);
        status = culm_feed_next(feed, 0, &frame, &error);
        took_ms = (culm_clock_ns() - began) / 1000000;
    } while (took_ms >= 450);
    assert_int_equal(status, CULM_ERR_AGAIN);
    write_file(name, png, len, 0644);
    ok(culm_feed_next(feed, -1, &frame, &error), &error);
    assert_string_equal(strrchr(frame.file, '/') + 1, name + 5);
}

/* One that is followed, empty at first: in the order of time, not before it is whole, and for ever, though what it
 * has had is removed. */
static void follows(const void *png, size_t len) {
    char path[4096], name[64];
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    const time_t now = time(NULL);
    snprintf(path, sizeof path, "%s/grow", folder);
    mkdir(path, 0755);
    const struct culm_feed_options options = {.name = "hall", .file = path, .follow = true};
    ok(culm_feed_open(&options, &feed, &error), &error);
    assert_int_equal(culm_feed_count(feed), -1);
    refuses(feed, 0, CULM_ERR_AGAIN, "no picture so far");
    write_at("grow/b.png", png, len, now - 60);
    write_at("grow/c.png", png, len, now - 120);
    write_at("grow/a.png", png, len, now + 3600); /* of a camera whose clock is wrong */
    takes_file(feed, 0, "c.png");
    takes_file(feed, 1, "b.png");
    takes_file(feed, 2, "a.png");
    refuses(feed, 0, CULM_ERR_AGAIN, "no picture so far");
    for (int64_t i = 3; i < 10; i++) { /* a camera that keeps the last two */
        snprintf(name, sizeof name, "grow/%d.png", (int)(10 - i));
        write_at(name, png, len, now - 60);
        takes_file(feed, i, name + 5);
        refuses(feed, 0, CULM_ERR_AGAIN, "no picture so far");
        snprintf(path, sizeof path, "%s/grow/%d.png", folder, (int)(10 - i + 1));
        assert_int_equal(unlink(path) == 0, i > 3);
    }
    half(feed, png, len);
    culm_feed_close(feed);
}

static void test_folder(void **state) {
    (void)state;
    /* 2 x 1 pixels: red, then blue */
    static const uint8_t png[] = {
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
        0x44, 0x52, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00,
        0x00, 0x7b, 0x40, 0xe8, 0xdd, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78,
        0x9c, 0x63, 0xf8, 0xcf, 0x00, 0x04, 0xff, 0x01, 0x07, 0x00, 0x01, 0xff, 0xe2, 0x23,
        0x9e, 0x59, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
    char path[4096];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/set%s", folder, i ? "/cat" : "");
        mkdir(path, 0755);
    }
    snprintf(path, sizeof path, "%s/set/dog", folder);
    mkdir(path, 0755);
    write_file("set/cat/1.png", png, sizeof png, 0644);
    write_file("set/cat/2.jpg", "no jpeg", 7, 0644);
    write_file("set/dog/1.PNG", png, sizeof png, 0644);
    write_file("set/dog/notes.txt", "x", 1, 0644);
    struct culm_feed *feed = open_feed("set", false);
    struct culm_feed_frame frame;
    struct culm_error error = {0};
    assert_int_equal(culm_feed_count(feed), 3);
    ok(culm_feed_next(feed, -1, &frame, &error), &error);
    assert_int_equal(frame.label, 0);
    assert_int_equal(frame.width, 2);
    assert_int_equal(frame.data[0], 255);
    assert_int_equal(frame.data[5], 255);
    refuses(feed, -1, CULM_ERR_FORMAT, "2.jpg");
    ok(culm_feed_next(feed, -1, &frame, &error), &error);
    assert_int_equal(frame.label, 1);
    assert_int_equal(frame.number, 2);
    assert_non_null(strstr(frame.file, "dog/1.PNG"));
    refuses(feed, -1, CULM_ERR_CLOSED, "ended");
    culm_feed_close(feed);
    /* One that grows, and loses a picture, while it loops. */
    feed = open_feed("set/dog", true);
    takes(feed, 0, 0, 255);
    write_file("set/dog/0.png", png, sizeof png, 0644);
    takes(feed, 1, 0, 255);
    takes(feed, 2, 1, 255);
    snprintf(path, sizeof path, "%s/set/dog/1.PNG", folder);
    assert_int_equal(unlink(path), 0);
    refuses(feed, -1, CULM_ERR_FORMAT, "1.PNG");
    takes(feed, 4, 1, 255);
    takes(feed, 5, 1, 255);
    write_file("set/dog/1.PNG", png, sizeof png, 0644);
    takes(feed, 6, 0, 255);
    takes(feed, 7, 1, 255);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/set/dog/%s", folder, i ? "1.PNG" : "0.png");
        assert_int_equal(unlink(path), 0);
    }
    refuses(feed, -1, CULM_ERR_FORMAT, "1.PNG");
    refuses(feed, -1, CULM_ERR_FORMAT, "0.png");
    refuses(feed, -1, CULM_ERR_AGAIN, "no picture is left");
    write_file("set/dog/0.png", png, sizeof png, 0644);
    takes(feed, 10, 1, 255);
    write_file("set/dog/1.PNG", png, sizeof png, 0644);
    culm_feed_close(feed);
    follows(png, sizeof png);
    feed = open_feed("set/cat/1.png", true);
    for (int i = 0; i < 3; i++) {
        takes(feed, i, 0, 255);
    }
    culm_feed_close(feed);
    snprintf(path, sizeof path, "%s/empty", folder);
    mkdir(path, 0755);
    const struct culm_feed_options options = {.file = path};
    assert_int_equal(culm_feed_open(&options, &feed, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "has no .jpg, .png or .webp"));
}

/* A pipe has no beginning to go back to: at its end a feed that loops would wait for another writer. */
static void test_pipe_that_loops(void **state) {
    char path[4096];
    struct culm_error error = {0};
    struct culm_feed *feed = NULL;
    (void)state;
    be_ffmpeg("exit 0");
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    const struct culm_feed_options options = {.name = "hall", .file = path, .loop = true};
    assert_int_equal(culm_feed_open(&options, &feed, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "feed 'hall'"));
    assert_non_null(strstr(error.text, "is a pipe"));
    feed = open_feed("pipe", false);
    culm_feed_close(feed);
}

int main(void) {
    snprintf(real_path, sizeof real_path, "%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child),
        cmocka_unit_test(test_child_names),
        cmocka_unit_test(test_child_goes_wrong),
        cmocka_unit_test(test_child_stalls),
        cmocka_unit_test(test_child_that_stays),
        cmocka_unit_test(test_child_after_a_stop),
        cmocka_unit_test(test_not_installed),
        cmocka_unit_test(test_ffmpeg),
        cmocka_unit_test(test_idx),
        cmocka_unit_test(test_part_of_pictures),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_pipe_that_loops),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
