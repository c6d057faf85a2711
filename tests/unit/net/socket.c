/*
 * Sockets of both kinds: addresses, who may call, connects that fail for a while, and what TCP is
 * told about silence.
 */
#include "net/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hold_port.h"

#define SECOND 1000000000ull
#define PATIENCE (600 * SECOND) /* only a fault meets it */
#define READABLE 1
#define NOBODY 65534

static const char *const kinds[] = {"unix:", "tcp:127.0.0.1:0"};

static void addresses_lead_back(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char address[CULM_ADDRESS_SIZE], other[CULM_ADDRESS_SIZE], byte;
        int listener, second, caller, called;
        assert_int_equal(culm_socket_listen(kinds[i], &listener, address, NULL), CULM_OK);
        assert_int_equal(culm_socket_listen(kinds[i], &second, other, NULL), CULM_OK);
        assert_string_not_equal(address, other);
        assert_int_equal(culm_socket_connect(address, &caller, NULL), CULM_OK);
        assert_true(culm_socket_wait(listener, READABLE, culm_clock_ns() + PATIENCE));
        assert_int_equal(culm_socket_accept(listener, &called, NULL), CULM_OK);
        assert_int_equal(culm_socket_accept(listener, &called, NULL), CULM_ERR_AGAIN);
        assert_int_equal(culm_socket_write(called, "x", 1, culm_clock_ns() + PATIENCE, NULL),
                         CULM_OK);
        assert_int_equal(culm_socket_read(caller, &byte, 1, culm_clock_ns() + PATIENCE, NULL),
                         CULM_OK);
        int64_t pid = culm_socket_peer_pid(called);
        assert_int_equal(pid, i == 0 ? getpid() : 0);
        assert_int_equal(culm_socket_peer_pid(caller), pid);
        close(caller);
        close(called);
        close(listener);
        close(second);
    }
}

static void what_is_no_address_is_said(void **state) {
    (void)state;
    const char *const wrong[] = {
        "",
        "127.0.0.1:80",
        "tcp:",
        "tcp:127.0.0.1",
        "tcp:127.0.0.1:",
        "tcp:127.0.0.1:80x",
        "tcp:127.0.0.1:65536",
        "tcp:127.0.0.1:-1",
        "tcp:1.2.3.4.5.6.7.8.9.10:80",
        "unix:01234567890123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct culm_error error = {0};
        char address[CULM_ADDRESS_SIZE];
        int fd;
        assert_int_equal(culm_socket_connect(wrong[i], &fd, &error), CULM_ERR_CONFIG);
        assert_non_null(strstr(error.text, "not an address; give 'unix:NAME'"));
        assert_int_equal(culm_socket_listen(wrong[i], &fd, address, NULL), CULM_ERR_CONFIG);
    }
}

/* Looking a name up takes as long as it takes, so a socket does not. */
static void names_are_not_looked_up_here(void **state) {
    (void)state;
    struct culm_error error = {0};
    int fd;
    assert_int_equal(culm_socket_connect("tcp:localhost:80", &fd, &error), CULM_ERR_CONFIG);
    assert_non_null(
        strstr(error.text, "'localhost' is the name of a host, and must be looked up first"));
}

/* Both ends of a connection to `where`; false: no such addresses on this machine. */
static bool meet(const char *where, char ret_address[CULM_ADDRESS_SIZE], int ret_fd[3]) {
    struct culm_error error = {0};
    if (culm_socket_listen(where, &ret_fd[0], ret_address, &error) != CULM_OK) {
        print_message("%s\n", error.text);
        return false;
    }
    assert_int_equal(culm_socket_connect(ret_address, &ret_fd[1], NULL), CULM_OK);
    assert_true(culm_socket_wait(ret_fd[0], READABLE, culm_clock_ns() + PATIENCE));
    assert_int_equal(culm_socket_accept(ret_fd[0], &ret_fd[2], NULL), CULM_OK);
    return true;
}

static void part(const int fd[3]) {
    for (int i = 0; i < 3; i++) {
        close(fd[i]);
    }
}

static void an_ipv6_address_leads_back(void **state) {
    (void)state;
    char address[CULM_ADDRESS_SIZE];
    struct culm_address local;
    int fd[3], v4;
    if (!meet("tcp:[::1]:0", address, fd)) {
        skip();
    }
    assert_memory_equal(address, "tcp:[::1]:", 10);
    assert_int_equal(culm_socket_local(fd[1], &local, NULL), CULM_OK);
    assert_int_equal(local.kind, CULM_ADDRESS_IPV6);
    assert_string_equal(local.host, "::1");
    assert_true(local.port != 0);
    part(fd);
    /* And [::] is not IPv4 too: at its port, where nobody else may listen meanwhile, nobody is called by IPv4. */
    int held = hold_port(address);
    char all[CULM_ADDRESS_SIZE], port[CULM_ADDRESS_SIZE];
    snprintf(port, sizeof port, "tcp:[::]:%s", strrchr(address, ':') + 1);
    assert_int_equal(culm_socket_listen(port, &fd[0], all, NULL), CULM_OK);
    enum culm_status status = culm_socket_connect(address, &v4, NULL);
    if (status == CULM_OK) {
        assert_true(culm_socket_wait(v4, 4 /* POLLOUT */, culm_clock_ns() + PATIENCE));
        assert_int_equal(culm_socket_error(v4), ECONNREFUSED);
        close(v4);
    } else {
        assert_int_equal(status, CULM_ERR_NOT_FOUND);
    }
    close(fd[0]);
    close(held);
}

static void a_socket_in_the_file_system_leads_back(void **state) {
    (void)state;
    char dir[] = "/tmp/culm-socket-XXXXXX", where[64], address[CULM_ADDRESS_SIZE];
    struct culm_address local;
    int fd[3], second;
    assert_non_null(mkdtemp(dir));
    snprintf(where, sizeof where, "unix:%s/s", dir);
    assert_true(meet(where, address, fd));
    assert_string_equal(address, where);
    assert_int_equal(culm_socket_peer_pid(fd[2]), getpid());
    assert_int_equal(culm_socket_local(fd[0], &local, NULL), CULM_OK);
    assert_int_equal(local.kind, CULM_ADDRESS_PATH);
    assert_int_equal(culm_socket_local(fd[1], &local, NULL), CULM_OK);
    assert_int_equal(local.kind, CULM_ADDRESS_LOCAL);
    assert_string_equal(local.host, "");
    /* One that is there already is not taken over. */
    assert_int_equal(culm_socket_listen(where, &second, address, NULL), CULM_ERR_IO);
    close(fd[1]);
    close(fd[2]);
    /* Its file goes with the listener, so that the next one finds room. */
    culm_socket_close_listener(fd[0]);
    assert_int_equal(culm_socket_connect(where, &second, NULL), CULM_ERR_NOT_FOUND);
    assert_int_equal(culm_socket_listen(where, &second, address, NULL), CULM_OK);
    culm_socket_close_listener(second);
    assert_int_equal(rmdir(dir), 0);
}

/* A listener at `where` that was killed. */
static void leave_one_behind(const char *where) {
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char address[CULM_ADDRESS_SIZE];
        int fd;
        if (culm_socket_listen(where, &fd, address, NULL) == CULM_OK) {
            raise(SIGKILL);
        }
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static void the_file_of_one_that_was_killed_is_in_nobodys_way(void **state) {
    (void)state;
    char dir[] = "/tmp/culm-socket-XXXXXX", where[64], address[CULM_ADDRESS_SIZE];
    int fd[3];
    assert_non_null(mkdtemp(dir));
    snprintf(where, sizeof where, "unix:%s/s", dir);
    leave_one_behind(where);
    assert_int_equal(access(where + 5, F_OK), 0);
    assert_true(meet(where, address, fd));
    close(fd[1]);
    close(fd[2]);
    culm_socket_close_listener(fd[0]);
    assert_int_equal(rmdir(dir), 0);
}

/* Whoever puts a socket there after ours was removed keeps it. */
static void a_successor_keeps_its_file(void **state) {
    (void)state;
    char dir[] = "/tmp/culm-socket-XXXXXX", where[64], address[CULM_ADDRESS_SIZE];
    int first, second, caller;
    assert_non_null(mkdtemp(dir));
    snprintf(where, sizeof where, "unix:%s/s", dir);
    assert_int_equal(culm_socket_listen(where, &first, address, NULL), CULM_OK);
    assert_int_equal(unlink(where + 5), 0);
    assert_int_equal(culm_socket_listen(where, &second, address, NULL), CULM_OK);
    culm_socket_close_listener(first);
    assert_int_equal(culm_socket_connect(where, &caller, NULL), CULM_OK);
    close(caller);
    culm_socket_close_listener(second);
    assert_int_equal(rmdir(dir), 0);
}

static void other_files_are_not_removed(void **state) {
    (void)state;
    char dir[] = "/tmp/culm-socket-XXXXXX", where[64], address[CULM_ADDRESS_SIZE], link[64];
    int fd;
    assert_non_null(mkdtemp(dir));
    snprintf(where, sizeof where, "unix:%s/s", dir);
    snprintf(link, sizeof link, "%s/l", dir);
    int file = open(where + 5, O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(culm_socket_listen(where, &fd, address, NULL), CULM_ERR_IO);
    assert_int_equal(unlink(where + 5), 0); /* it was there */
    leave_one_behind(where);
    assert_int_equal(rename(where + 5, link), 0);
    assert_int_equal(symlink(link, where + 5), 0);
    assert_int_equal(culm_socket_listen(where, &fd, address, NULL), CULM_ERR_IO);
    assert_int_equal(unlink(where + 5) | unlink(link), 0);
    assert_int_equal(rmdir(dir), 0);
}

#define RACERS 8

/* Of many that find one left over, one gets the place and keeps it. */
static void one_takes_the_place(void **state) {
    (void)state;
    char dir[] = "/tmp/culm-socket-XXXXXX", where[64], address[CULM_ADDRESS_SIZE];
    assert_non_null(mkdtemp(dir));
    snprintf(where, sizeof where, "unix:%s/s", dir);
    for (int round = 0; round < 20; round++) {
        int go[2], told[2], stay[2], fd, won = 0;
        char byte;
        leave_one_behind(where);
        assert_int_equal(pipe(go) | pipe(told) | pipe(stay), 0);
        for (int i = 0; i < RACERS; i++) {
            if (fork() == 0) {
                close(go[1]);
                close(stay[1]);
                (void)!read(go[0], &byte, 1);
                byte = culm_socket_listen(where, &fd, address, NULL) == CULM_OK;
                (void)!write(told[1], &byte, 1);
                (void)!read(stay[0], &byte, 1);
                _exit(0);
            }
        }
        close(go[1]);
        for (int i = 0; i < RACERS; i++) {
            assert_int_equal(read(told[0], &byte, 1), 1);
            won += byte;
        }
        assert_int_equal(won, 1);
        assert_int_equal(culm_socket_connect(where, &fd, NULL), CULM_OK);
        close(fd);
        close(stay[1]);
        while (wait(NULL) > 0) {
        }
        close(go[0]);
        close(stay[0]);
        close(told[0]);
        close(told[1]);
        assert_int_equal(unlink(where + 5), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void a_caller_is_told_why(void **state) {
    (void)state;
    char address[CULM_ADDRESS_SIZE];
    struct rlimit before, limit;
    int listener, fd;
    assert_int_equal(culm_socket_listen("unix:", &listener, address, NULL), CULM_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)listener;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(culm_socket_connect(address, &fd, NULL), CULM_ERR_AGAIN);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);

    int queue[8], count = 0;
    assert_int_equal(listen(listener, 1), 0);
    enum culm_status status;
    while ((status = culm_socket_connect(address, &queue[count], NULL)) == CULM_OK) {
        assert_true(++count < 8);
    }
    assert_int_equal(status, CULM_ERR_AGAIN);
    while (count) {
        close(queue[--count]);
    }
    close(listener);
    assert_int_equal(culm_socket_connect(address, &fd, NULL), CULM_ERR_NOT_FOUND);
}

static void errors_of_a_connect(void **state) {
    (void)state;
    assert_int_equal(culm_socket_connect_status(0), CULM_OK);
    assert_int_equal(culm_socket_connect_status(ECONNREFUSED), CULM_ERR_NOT_FOUND);
    assert_int_equal(culm_socket_connect_status(ENOENT), CULM_ERR_NOT_FOUND);
    const int passing[] = {EAGAIN, EMFILE, ENFILE, ENOBUFS, EADDRNOTAVAIL, ETIMEDOUT, EHOSTUNREACH};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        assert_int_equal(culm_socket_connect_status(passing[i]), CULM_ERR_AGAIN);
    }
    assert_int_equal(culm_socket_connect_status(EACCES), CULM_ERR_IO);
}

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void tcp_does_not_wait_for_ever(void **state) {
    (void)state;
    char address[CULM_ADDRESS_SIZE];
    int listener, fd[2];
    assert_int_equal(culm_socket_listen(kinds[1], &listener, address, NULL), CULM_OK);
    assert_int_equal(culm_socket_connect(address, &fd[0], NULL), CULM_OK);
    assert_true(culm_socket_wait(listener, READABLE, culm_clock_ns() + PATIENCE));
    assert_int_equal(culm_socket_accept(listener, &fd[1], NULL), CULM_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(option(fd[i], SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option(fd[i], IPPROTO_TCP, TCP_NODELAY), 1);
        assert_in_range(option(fd[i], IPPROTO_TCP, TCP_KEEPIDLE) +
                            option(fd[i], IPPROTO_TCP, TCP_KEEPINTVL) *
                                option(fd[i], IPPROTO_TCP, TCP_KEEPCNT),
                        1, 60);
        assert_in_range(option(fd[i], IPPROTO_TCP, TCP_USER_TIMEOUT), 1000, 60000);
        close(fd[i]);
    }
    close(listener);
}

/* What `as_another` gives in a process of another user, or 77 where that cannot be had. */
static int in_another_user(int (*as_another)(const char *address, int fd), const char *address,
                           int fd) {
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(setresuid(NOBODY, NOBODY, NOBODY) ? 77 : as_another(address, fd));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* 3: it sees that another user listens, and leaves. */
static int knock(const char *address, int fd) {
    return culm_socket_connect(address, &fd, NULL) == CULM_ERR_NOT_FOUND ? 3 : 0;
}

static void another_user_stays_outside(void **state) {
    (void)state;
    char address[CULM_ADDRESS_SIZE];
    int listener, fd;
    assert_int_equal(culm_socket_listen("unix:", &listener, address, NULL), CULM_OK);
    int code = in_another_user(knock, address, -1);
    if (code == 77) {
        print_message("not root: another user cannot be had here\n");
        close(listener);
        skip();
    }
    assert_int_equal(code, 3);
    /* It was in the queue all the same, as any other program of that user would be. */
    assert_true(culm_socket_wait(listener, READABLE, culm_clock_ns() + PATIENCE));
    assert_int_equal(culm_socket_accept(listener, &fd, NULL), CULM_ERR_CLOSED);
    assert_int_equal(culm_socket_accept(listener, &fd, NULL), CULM_ERR_AGAIN);
    close(listener);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_lead_back),
        cmocka_unit_test(what_is_no_address_is_said),
        cmocka_unit_test(names_are_not_looked_up_here),
        cmocka_unit_test(an_ipv6_address_leads_back),
        cmocka_unit_test(a_socket_in_the_file_system_leads_back),
        cmocka_unit_test(the_file_of_one_that_was_killed_is_in_nobodys_way),
        cmocka_unit_test(a_successor_keeps_its_file),
        cmocka_unit_test(other_files_are_not_removed),
        cmocka_unit_test(one_takes_the_place),
        cmocka_unit_test(a_caller_is_told_why),
        cmocka_unit_test(errors_of_a_connect),
        cmocka_unit_test(tcp_does_not_wait_for_ever),
        cmocka_unit_test(another_user_stays_outside),
    };
    return cmocka_run_group_tests_name("net/socket", tests, NULL, NULL);
}
