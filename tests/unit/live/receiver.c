/* A receiver that does not read: lines wait up to a limit, the oldest give way, and all are counted. */
#include "live/receiver.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#define LINES 60000
#define LINE 200

static int make_folder(void **state) {
    char path[] = "/tmp/culm-receiver-XXXXXX";
    *state = mkdtemp(path) ? strdup(path) : NULL;
    return *state ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)culm_tree_remove(NULL, *state, NULL);
    free(*state);
    return 0;
}

static int listen_at(const char *dir) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/s", dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

static struct culm_receiver *open_to(const char *dir) {
    char to[128];
    struct culm_receiver *receiver;
    struct culm_error error;
    snprintf(to, sizeof to, "unix:%s/s", dir);
    assert_int_equal(culm_receiver_check(to, &error), CULM_OK);
    assert_int_equal(culm_receiver_new(to, &receiver, &error), CULM_OK);
    return receiver;
}

static void put_lines(struct culm_receiver *receiver, int from, int to) {
    char line[LINE + 1];
    for (int i = from; i < to; i++) {
        memset(line, 'x', LINE);
        line[LINE] = '\0';
        line[snprintf(line, LINE, "%08d", i)] = 'x';
        culm_receiver_put(receiver, line);
    }
}

/* Reads whole lines until nothing comes for a while or the other side ends; each is newer than the one before.
 * Returns how many there were. */
static int read_lines(int fd, int *ret_last) {
    char *text = malloc((size_t)LINES * (LINE + 1) + 1);
    size_t len = 0;
    int lines = 0;
    assert_non_null(text);
    for (ssize_t n; (n = recv(fd, text + len, 65536, 0)) > 0;) {
        len += (size_t)n;
    }
    *ret_last = -1;
    for (size_t at = 0; at + LINE + 1 <= len; at += LINE + 1, lines++) {
        assert_int_equal(text[at + LINE], '\n');
        const int number = atoi(text + at);
        assert_true(number > *ret_last);
        *ret_last = number;
    }
    free(text);
    return lines;
}

static void nobody_reads(void **state) {
    const int server = listen_at(*state);
    struct culm_receiver *receiver = open_to(*state);
    struct culm_receiver_look look;
    int last;
    const int fd = accept(server, NULL, NULL);
    assert_true(fd >= 0);
    put_lines(receiver, 0, LINES);
    culm_receiver_look(receiver, true, &look);
    assert_true(look.waiting * (LINE + 1) <= (int64_t)CULM_RECEIVER_BYTES);
    assert_true(look.lost > 0);
    assert_int_equal(look.sent + look.lost + look.waiting, LINES);
    assert_string_equal(look.down, ""); /* it may yet read */
    culm_receiver_close(receiver);
    const int lines = read_lines(fd, &last); /* the newest are there */
    assert_int_equal(last, LINES - 1);
    culm_receiver_end(receiver, culm_clock_ns() + UINT64_C(60000000000));
    culm_receiver_look(receiver, true, &look);
    assert_int_equal(look.sent, lines);
    assert_int_equal(look.sent + look.lost, LINES);
    assert_int_equal(look.waiting, 0);
    culm_receiver_free(receiver);
    close(fd);
    close(server);
}

/* It is over soon all the same, and what has not been sent is lost. */
static void ends_before_anybody_reads(void **state) {
    const int server = listen_at(*state);
    struct culm_receiver *receiver = open_to(*state);
    struct culm_receiver_look look;
    put_lines(receiver, 0, LINES);
    const uint64_t begin = culm_clock_ns();
    culm_receiver_end(receiver, begin + UINT64_C(100000000));
    assert_true(culm_clock_ns() - begin < UINT64_C(30000000000));
    culm_receiver_look(receiver, true, &look);
    assert_int_equal(look.sent + look.lost, LINES);
    assert_true(look.lost > 0);
    put_lines(receiver, 0, 1); /* nothing comes after that, and it is counted */
    culm_receiver_look(receiver, true, &look);
    assert_int_equal(look.sent + look.lost, LINES + 1);
    culm_receiver_free(receiver);
    close(server);
}

/* Nobody is there: that is told once, and the queue keeps the newest. */
static void nobody_is_there(void **state) {
    struct culm_receiver *receiver = open_to(*state);
    struct culm_receiver_look look = {0};
    const struct timespec pause = {.tv_nsec = 1000000};
    put_lines(receiver, 0, 3);
    while (!look.down[0]) {
        culm_receiver_look(receiver, true, &look);
        (void)nanosleep(&pause, NULL);
    }
    assert_non_null(strstr(look.down, "No such file"));
    assert_string_equal(look.state, "down");
    culm_receiver_look(receiver, true, &look);
    assert_string_equal(look.down, "");
    const int server = listen_at(*state); /* it is called again by itself */
    const int fd = accept(server, NULL, NULL);
    char text[3 * (LINE + 1)];
    assert_int_equal(recv(fd, text, sizeof text, MSG_WAITALL), sizeof text);
    assert_memory_equal(text, "00000000x", 9);
    for (look.up = false; !look.up;) {
        culm_receiver_look(receiver, true, &look);
        (void)nanosleep(&pause, NULL);
    }
    culm_receiver_free(receiver);
    close(fd);
    close(server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_reads, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(ends_before_anybody_reads, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(nobody_is_there, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
