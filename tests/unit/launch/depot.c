/*
 * The two sides of a depot over pairs of sockets: what a visitor may ask, in what ways it may fail, and that many of them, or
 * silent ones, keep nobody from ending. (Calls over real addresses: tests/system/train_hosts.py.)
 */
#include "launch/depot.h"

#include "base/file.h"
#include "launch/depot_wire.h"
#include "net/socket.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PIECE "stage-0.node-3.safetensors"

struct fixture {
    char dir[64];
    struct culm_depot_keeper *keeper;
};

static void begin(struct fixture *f) {
    snprintf(f->dir, sizeof f->dir, "/tmp/culm-depot-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->keeper = culm_depot_keeper_new(f->dir, NULL);
    assert_non_null(f->keeper);
}

static void end(struct fixture *f) {
    culm_depot_keeper_free(f->keeper);
    assert_int_equal(culm_tree_remove(NULL, f->dir, NULL), CULM_OK);
}

/* The visitor's end. */
static struct culm_channel call(struct fixture *f) {
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
    culm_depot_keeper_visit(f->keeper, &(struct culm_channel){.fd = fd[0]});
    return (struct culm_channel){.fd = fd[1]};
}

static void say(struct culm_channel *channel, const struct culm_depot_request *request) {
    struct culm_buf message;
    culm_buf_init(&message, CULM_DEPOT_MESSAGE_MAX);
    culm_depot_request_encode(request, &message);
    assert_int_equal(culm_depot_say(channel, &message, NULL), CULM_OK);
    culm_buf_release(&message);
}

static struct culm_depot_answer hear(struct culm_channel *channel) {
    uint8_t data[CULM_DEPOT_MESSAGE_MAX];
    struct culm_depot_answer said = {0};
    size_t len;
    assert_int_equal(culm_depot_hear(channel, data, &len, NULL), CULM_OK);
    assert_true(culm_depot_answer_decode(data, len, &said));
    return said;
}

static uint64_t soon(void) { return culm_clock_ns() + 60000000000ull; }

/* Nothing more comes. */
static void assert_ended(struct culm_channel *channel) {
    uint8_t byte;
    assert_int_equal(culm_channel_read(channel, &byte, 1, soon(), NULL), CULM_ERR_CLOSED);
    culm_channel_close(channel);
}

static void path_of(const struct fixture *f, const char *rest, char ret_path[256]) {
    snprintf(ret_path, 256, "%s/%s", f->dir, rest);
}

static void put(struct fixture *f, const char *bytes) {
    struct culm_channel channel = call(f);
    say(&channel, &(struct culm_depot_request){
                      .verb = CULM_DEPOT_PUT, .step = 4, .file = PIECE, .bytes = strlen(bytes)});
    assert_int_equal(hear(&channel).status, CULM_OK);
    assert_int_equal(culm_channel_write(&channel, bytes, strlen(bytes), soon(), NULL), CULM_OK);
    assert_int_equal(hear(&channel).status, CULM_OK);
    assert_ended(&channel);
}

static void assert_holds(const struct fixture *f, const char *name, const char *bytes) {
    char path[256], *data;
    size_t len;
    path_of(f, name, path);
    assert_int_equal(culm_file_read(NULL, path, 1000, &data, &len, NULL), CULM_OK);
    assert_string_equal(data, bytes);
    free(data);
}

static void test_a_piece_is_written_where_a_worker_here_writes_it(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    put(&f, "first");
    assert_holds(&f, "checkpoints/.tmp-step-00000004/" PIECE, "first");
    put(&f, "again"); /* an attempt that was given up, and made anew */
    assert_holds(&f, "checkpoints/.tmp-step-00000004/" PIECE, "again");
    end(&f);
}

static void test_a_file_of_a_checkpoint_is_fetched(void **state) {
    (void)state;
    struct fixture f;
    char path[256], data[5];
    begin(&f);
    path_of(&f, "checkpoints/step-00000004", path);
    assert_int_equal(culm_dir_make(NULL, path, NULL), CULM_OK);
    path_of(&f, "checkpoints/step-00000004/manifest.json", path);
    assert_int_equal(culm_file_replace(NULL, path, "hello", 5, NULL), CULM_OK);
    struct culm_channel channel = call(&f);
    struct culm_depot_request get = {.verb = CULM_DEPOT_GET, .step = 4, .file = "manifest.json"};
    say(&channel, &get);
    const struct culm_depot_answer said = hear(&channel);
    assert_int_equal(said.status, CULM_OK);
    assert_int_equal(said.bytes, 5);
    assert_int_equal(culm_channel_read(&channel, data, 5, soon(), NULL), CULM_OK);
    assert_memory_equal(data, "hello", 5);
    assert_ended(&channel);

    channel = call(&f);
    get.step = 5;
    say(&channel, &get);
    assert_int_equal(hear(&channel).status, CULM_ERR_NOT_FOUND);
    assert_ended(&channel);
    end(&f);
}

/* The token lets somebody in, but not everywhere. */
static void test_names_lead_nowhere_else(void **state) {
    (void)state;
    static const char *const bad[] = {"",        "..",         ".hidden",       "../manifest.json",
                                      "a/b",     "/etc/hosts", "manifest json", "x\ny",
                                      "\xc3\xa4"};
    struct fixture f;
    begin(&f);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int verb = CULM_DEPOT_PUT; verb <= CULM_DEPOT_GET; verb++) {
            struct culm_channel channel = call(&f);
            struct culm_depot_request request = {.verb = (enum culm_depot_verb)verb, .step = 4};
            snprintf(request.file, sizeof request.file, "%s", bad[i]);
            say(&channel, &request);
            assert_int_equal(hear(&channel).status, CULM_ERR_FORMAT);
            assert_ended(&channel);
        }
    }
    /* a folder that nobody has named to the run; a link in the place of a file */
    char path[256];
    struct culm_channel channel = call(&f);
    say(&channel, &(struct culm_depot_request){
                      .verb = CULM_DEPOT_PUT, .step = 4, .file = PIECE, .to = "/tmp", .bytes = 1});
    assert_int_equal(hear(&channel).status, CULM_ERR_ARGUMENT);
    assert_ended(&channel);
    path_of(&f, "checkpoints/step-00000004", path);
    assert_int_equal(culm_dir_make(NULL, path, NULL), CULM_OK);
    path_of(&f, "checkpoints/step-00000004/manifest.json", path);
    assert_int_equal(symlink("/etc/hosts", path), 0);
    channel = call(&f);
    say(&channel,
        &(struct culm_depot_request){.verb = CULM_DEPOT_GET, .step = 4, .file = "manifest.json"});
    assert_int_not_equal(hear(&channel).status, CULM_OK);
    assert_ended(&channel);
    end(&f);
}

static void test_garbage(void **state) {
    (void)state;
    static const uint8_t huge[] = {255, 255, 255, 255, 1}, none[] = {0, 0, 0, 0},
                         cut[] = {3, 0, 0, 0, 1, 2, 3};
    struct fixture f;
    begin(&f);
    struct culm_channel channel = call(&f);
    assert_int_equal(culm_channel_write(&channel, huge, sizeof huge, soon(), NULL), CULM_OK);
    assert_ended(&channel);
    channel = call(&f);
    assert_int_equal(culm_channel_write(&channel, none, sizeof none, soon(), NULL), CULM_OK);
    assert_ended(&channel);
    channel = call(&f);
    assert_int_equal(culm_channel_write(&channel, cut, sizeof cut, soon(), NULL), CULM_OK);
    assert_int_equal(hear(&channel).status, CULM_ERR_FORMAT);
    assert_ended(&channel);
    end(&f);
}

/* What is left of a piece that did not come whole is nothing. */
static void test_a_piece_that_stops_in_the_middle(void **state) {
    (void)state;
    struct fixture f;
    char path[256];
    begin(&f);
    struct culm_channel channel = call(&f);
    say(&channel, &(struct culm_depot_request){
                      .verb = CULM_DEPOT_PUT, .step = 4, .file = PIECE, .bytes = 1000000});
    assert_int_equal(hear(&channel).status, CULM_OK);
    assert_int_equal(culm_channel_write(&channel, "some", 4, soon(), NULL), CULM_OK);
    assert_int_equal(shutdown(channel.fd, SHUT_WR), 0);
    assert_int_equal(hear(&channel).status, CULM_ERR_CLOSED);
    assert_ended(&channel);
    path_of(&f, "checkpoints/.tmp-step-00000004/" PIECE, path);
    assert_false(culm_file_exists(path));
    end(&f);
}

static void test_what_cannot_be_written_is_told(void **state) {
    (void)state;
    struct fixture f;
    char path[256];
    begin(&f);
    path_of(&f, "checkpoints", path);
    assert_int_equal(culm_file_replace(NULL, path, "in the way", 10, NULL), CULM_OK);
    struct culm_channel channel = call(&f);
    say(&channel,
        &(struct culm_depot_request){.verb = CULM_DEPOT_PUT, .step = 4, .file = PIECE, .bytes = 1});
    const struct culm_depot_answer said = hear(&channel);
    assert_int_not_equal(said.status, CULM_OK);
    assert_non_null(strstr(said.text, "checkpoints"));
    assert_ended(&channel);
    end(&f);
}

/* So many at a time; others are shown out and may come again. Silent ones do not hold up the end of the run. */
static void test_many_visitors(void **state) {
    (void)state;
    enum { MANY = 200 };
    struct fixture f;
    static struct culm_channel channel[MANY];
    int32_t shown_out = 0;
    begin(&f);
    for (int32_t i = 0; i < MANY; i++) {
        uint8_t byte;
        channel[i] = call(&f);
        shown_out += recv(channel[i].fd, &byte, 1, MSG_DONTWAIT) == 0;
    }
    assert_in_range(MANY - shown_out, 1, 64);
    for (int32_t i = 0; i < MANY; i++) {
        culm_channel_close(&channel[i]);
    }
    bool served = false;
    while (!served) { /* once those who have gone are noticed */
        struct culm_channel one = call(&f);
        struct culm_buf message;
        uint8_t data[CULM_DEPOT_MESSAGE_MAX];
        size_t len;
        culm_buf_init(&message, CULM_DEPOT_MESSAGE_MAX);
        culm_depot_request_encode(&(struct culm_depot_request){.verb = CULM_DEPOT_GET,
                                                               .step = 1,
                                                               .file = "manifest.json"},
                                  &message);
        served = culm_depot_say(&one, &message, NULL) == CULM_OK &&
                 culm_depot_hear(&one, data, &len, NULL) == CULM_OK;
        culm_buf_release(&message);
        culm_channel_close(&one);
    }
    struct culm_channel silent = call(&f);
    culm_depot_keeper_free(f.keeper);
    f.keeper = NULL;
    assert_ended(&silent);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_piece_is_written_where_a_worker_here_writes_it),
        cmocka_unit_test(test_a_file_of_a_checkpoint_is_fetched),
        cmocka_unit_test(test_names_lead_nowhere_else),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_a_piece_that_stops_in_the_middle),
        cmocka_unit_test(test_what_cannot_be_written_is_told),
        cmocka_unit_test(test_many_visitors),
    };
    return cmocka_run_group_tests_name("launch/depot", tests, NULL, NULL);
}
