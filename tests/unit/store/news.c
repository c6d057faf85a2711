/* Digests that are told by messages: who looks for one may wait, until it is told, or that none will be, or that nobody says more. */
#include "store/inputs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE ((off_t)65 << 20) /* more than is known as a whole at once; holes cost no disk */

static char path[] = "/tmp/culm-news-XXXXXX";

static void touch(int64_t second) {
    const struct timespec times[2] = {{second, 0}, {second, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

struct look {
    struct culm_pins *pins;
    enum culm_status status;
    struct culm_error error;
};

static void *look(void *arg) {
    struct look *l = arg;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    l->status = culm_pins_file(l->pins, path, fd, &l->error);
    close(fd);
    return NULL;
}

enum end { TOLD, TOLD_BEFORE, NONE, NOBODY_SAYS_MORE, NOBODY_SAID_MORE };

/* A node looks at its copy, and the launcher says that. */
static enum culm_status looks(enum end end, struct culm_error *ret_error) {
    const bool stop = false;
    struct culm_digest_news *news = culm_digest_news_new();
    struct culm_inputs node = {.pins = culm_pins_new()};
    struct culm_pins *launcher = culm_pins_new();
    struct culm_buf said;
    pthread_t thread;
    touch(100 + (int64_t)end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(culm_pins_file(launcher, path, fd, ret_error), CULM_OK);
    close(fd);
    struct culm_pin pin = culm_pins_at(launcher, 0);
    assert_true(culm_pins_add(node.pins, &pin));
    culm_pins_seal(node.pins);
    culm_inputs_ask_news(&node, news);
    if (end != NONE) {
        culm_pins_complete(launcher, &stop, NULL, NULL);
    }
    touch(200);
    culm_buf_init(&said, 2048);
    pin = culm_pins_at(launcher, 0);
    culm_digest_news_encode(&pin, &said);
    if (end == TOLD_BEFORE) {
        assert_int_equal(culm_digest_news_hear(news, said.data, said.len), CULM_OK);
    } else if (end == NOBODY_SAID_MORE) { /* the launcher has gone before it looks */
        culm_digest_news_end_waits(news);
    }
    struct look l = {.pins = node.pins};
    assert_int_equal(pthread_create(&thread, NULL, look, &l), 0);

    if (end == NOBODY_SAYS_MORE) {
        culm_digest_news_end_waits(news);
    } else if (end == TOLD || end == NONE) {
        assert_int_equal(culm_digest_news_hear(news, said.data, said.len), CULM_OK);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    *ret_error = l.error;
    culm_buf_release(&said);
    culm_pins_free(launcher);
    culm_inputs_release(&node);
    culm_digest_news_free(news);
    return l.status;
}

static void a_copy_is_taken_when_it_is_told(void **state) {
    (void)state;
    struct culm_error error;
    assert_int_equal(looks(TOLD, &error), CULM_OK);
    assert_int_equal(looks(TOLD_BEFORE, &error), CULM_OK);
}

static void a_copy_is_not_waited_for_in_vain(void **state) {
    (void)state;
    struct culm_error error;
    assert_int_equal(looks(NONE, &error), CULM_ERR_CHANGED);
    assert_non_null(strstr(error.text, "cannot be compared as a whole"));
    assert_int_equal(looks(NOBODY_SAYS_MORE, &error), CULM_ERR_CHANGED);
    assert_non_null(strstr(error.text, "cannot be compared as a whole"));
    assert_int_equal(looks(NOBODY_SAID_MORE, &error), CULM_ERR_CHANGED);
    assert_non_null(strstr(error.text, "cannot be compared as a whole"));
}

int main(void) {
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, LARGE)) {
        return 1;
    }
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_taken_when_it_is_told),
        cmocka_unit_test(a_copy_is_not_waited_for_in_vain),
    };
    int failed = cmocka_run_group_tests_name("store/news", tests, NULL, NULL);
    unlink(path);
    return failed;
}
