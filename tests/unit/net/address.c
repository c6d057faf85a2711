/*
 * Addresses: every form, in one spelling; what is not one, hostile text included; names.
 */
#include "net/address.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONGEST                                                                                    \
    "abcdefghijklmnopqrstuvwxyz-0123456789-abcdefghijklmnopqrstuvwxy" /* label: 63 letters */
#define LABEL LONGEST "."
#define REST "abcdefghijklmnopqrstuvwxyz-0123456789-abcdefghijklmnopqrstuvw" /* of 61, 253 in all */

static void every_form_is_read_and_printed_in_one_spelling(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum culm_address_kind kind;
        const char *host;
        uint16_t port;
        const char *printed; /* NULL: as text */
    } rows[] = {
        {"unix:", CULM_ADDRESS_LOCAL, "", 0, NULL},
        {"unix:culm-0123", CULM_ADDRESS_LOCAL, "culm-0123", 0, NULL},
        {"unix:tcp:127.0.0.1:80", CULM_ADDRESS_LOCAL, "tcp:127.0.0.1:80", 0, NULL},
        {"unix:/run/culm/socket", CULM_ADDRESS_PATH, "/run/culm/socket", 0, NULL},
        {"tcp:127.0.0.1:80", CULM_ADDRESS_IPV4, "127.0.0.1", 80, NULL},
        {"tcp:0.0.0.0:0", CULM_ADDRESS_IPV4, "0.0.0.0", 0, NULL},
        {"tcp:255.255.255.255:65535", CULM_ADDRESS_IPV4, "255.255.255.255", 65535, NULL},
        {"tcp:127.0.0.1:00080", CULM_ADDRESS_IPV4, "127.0.0.1", 80, "tcp:127.0.0.1:80"},
        {"tcp:[::1]:80", CULM_ADDRESS_IPV6, "::1", 80, NULL},
        {"tcp:[::]:0", CULM_ADDRESS_IPV6, "::", 0, NULL},
        {"tcp:[0:0:0::1]:80", CULM_ADDRESS_IPV6, "::1", 80, "tcp:[::1]:80"},
        {"tcp:[2001:DB8::A]:7", CULM_ADDRESS_IPV6, "2001:db8::a", 7, "tcp:[2001:db8::a]:7"},
        {"tcp:localhost:80", CULM_ADDRESS_NAME, "localhost", 80, NULL},
        {"tcp:n-1.rack_2.example:5000", CULM_ADDRESS_NAME, "n-1.rack_2.example", 5000, NULL},
        {"tcp:1.2.3.4.example:80", CULM_ADDRESS_NAME, "1.2.3.4.example", 80, NULL},
        {"tcp:0x7f.example:80", CULM_ADDRESS_NAME, "0x7f.example", 80, NULL},
        {"tcp:example.0x7g:80", CULM_ADDRESS_NAME, "example.0x7g", 80, NULL},
        {"tcp:[::ffff:10.0.0.1]:80", CULM_ADDRESS_IPV4, "10.0.0.1", 80, "tcp:10.0.0.1:80"},
        {"tcp:[::FFFF:a00:1]:80", CULM_ADDRESS_IPV4, "10.0.0.1", 80, "tcp:10.0.0.1:80"},
        {"tcp:[::ffff:0:a00:1]:80", CULM_ADDRESS_IPV6, "::ffff:0:a00:1", 80, NULL},
        {"tcp:" LABEL LABEL LABEL REST ":80", CULM_ADDRESS_NAME, LABEL LABEL LABEL REST, 80, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct culm_address address;
        char text[CULM_ADDRESS_SIZE];
        assert_int_equal(culm_address_parse(rows[i].text, &address, NULL), CULM_OK);
        assert_int_equal(address.kind, rows[i].kind);
        assert_string_equal(address.host, rows[i].host);
        assert_int_equal(address.port, rows[i].port);
        assert_int_equal(culm_address_is_tcp(&address), rows[i].text[0] == 't');
        culm_address_print(&address, text);
        assert_string_equal(text, rows[i].printed ? rows[i].printed : rows[i].text);
    }
}

static void link_local_addresses_are_refused(void **state) {
    (void)state;
    static const char *const near[] = {"tcp:[fe80::1]:80",      "tcp:[FE80:0::1]:80",
                                       "tcp:[fe80::1%eth0]:80", "tcp:[fe80::1%2]:0",
                                       "tcp:[febf::1]:80",      "tcp:[fe80::1%]:80"};
    static const char *const others[] = {"tcp:[fec0::1]:80", "tcp:[fe7f::1]:80",
                                         "tcp:169.254.0.1:80"};
    struct culm_address address;
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        struct culm_error error = {0};
        assert_int_equal(culm_address_parse(near[i], &address, &error), CULM_ERR_CONFIG);
        assert_non_null(strstr(error.text, "link-local"));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(culm_address_parse(others[i], &address, NULL), CULM_OK);
    }
}

static void what_is_no_address_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",
        "127.0.0.1:80",
        "tcp",
        "tcp:",
        "udp:127.0.0.1:80",
        "TCP:127.0.0.1:80",
        "tcp:127.0.0.1",
        "tcp:127.0.0.1:",
        "tcp:127.0.0.1:80x",
        "tcp:127.0.0.1: 80",
        "tcp:127.0.0.1:+80",
        "tcp:127.0.0.1:65536",
        "tcp:127.0.0.1:000080",
        "tcp:127.0.0.1:-1",
        "tcp:127.0.0.1:80:80",
        "tcp:1.2.3.4.5.6.7.8.9.10:80", /* a wrong number is not a name */
        "tcp:256.0.0.1:80",
        "tcp:1.2.3:80",
        "tcp:::1:80",
        "tcp:[::1]80",
        "tcp:[::1]:",
        "tcp:[::1:80",
        "tcp:[]:80",
        "tcp:[127.0.0.1]:80",
        "tcp:[::1%lo]:80",
        "tcp:[[::1]]:80",
        "tcp:[::g]:80",
        "tcp:[1:2:3:4:5:6:7:8:9]:80",
        "tcp::80",
        "tcp:.:80",
        "tcp:host.:80",
        "tcp:.host:80",
        "tcp:a..b:80",
        "tcp:-a:80",
        "tcp:a-:80",
        "tcp:a b:80",
        "tcp:a/b:80",
        "tcp:a\nb:80",
        "tcp:a%s%n:80",
        "tcp:\xc3\xa4.example:80",
        "tcp:0x7f000001:80", /* nor is one in any other spelling */
        "tcp:2130706433:80",
        "tcp:0177.0.0.01:80",
        "tcp:127.0.0.0x1:80",
        "tcp:example.0X7F:80",
        "tcp:example.0x:80",
        "tcp:" LABEL LABEL LABEL REST "x:80", /* 254 in all */
        "tcp:" LABEL LABEL LABEL LABEL "com:80",
        "tcp:" LONGEST "z:80",
        "unix:a b",
        "unix:a\n",
        "unix:\x7f",
        "unix:01234567890123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct culm_address address = {.port = 4711};
        struct culm_error error = {0};
        assert_int_equal(culm_address_parse(wrong[i], &address, &error), CULM_ERR_CONFIG);
        assert_non_null(strstr(error.text, "not an address; give 'unix:NAME'"));
        assert_int_equal(address.port, 4711); /* untouched */
    }
}

/* Whatever is believed is an address: printed it is itself, and has room. */
static void hostile_text_is_refused_or_itself(void **state) {
    (void)state;
    static const char *const good[] = {"unix:/run/culm", "tcp:127.0.0.1:80",
                                       "tcp:[fd80::1:2]:65535", "tcp:a-host.example:80"};
    static const char odd[] = "[]:./%-_0159afg \n\x01\x7f\xff";
    uint64_t seed = 20261122, state_of = seed, believed = 0;
    for (uint64_t round = 0; round < 200000; round++) {
        char text[64], printed[CULM_ADDRESS_SIZE], again[CULM_ADDRESS_SIZE];
        struct culm_address address, other;
        snprintf(text, sizeof text, "%s", good[round % 4]);
        for (uint64_t k = 0; k < 1 + round % 3; k++) {
            uint64_t r = culm_rng_next(&state_of);
            text[r % (strlen(good[round % 4]) + 1)] = odd[(r >> 32) % sizeof odd]; /* NUL too */
        }
        if (culm_address_parse(text, &address, NULL) != CULM_OK) {
            continue;
        }
        believed++;
        culm_address_print(&address, printed);
        if (culm_address_parse(printed, &other, NULL) != CULM_OK || other.kind != address.kind) {
            fail_msg("seed %llu, round %llu: '%s' became '%s'", (unsigned long long)seed,
                     (unsigned long long)round, text, printed);
        }
        culm_address_print(&other, again);
        assert_string_equal(printed, again);
    }
    assert_true(believed > 1000);
}

static void names_are_looked_up(void **state) {
    (void)state;
    struct culm_address name, number[4];
    struct culm_error error = {0};
    size_t count = 0;
    assert_int_equal(culm_address_parse("tcp:localhost:80", &name, NULL), CULM_OK);
    enum culm_status status = culm_address_resolve(&name, number, 4, &count, &error);
    if (status != CULM_OK) {
        print_message("no localhost here: %s\n", error.text);
        skip();
    }
    assert_in_range(count, 1, 4);
    for (size_t i = 0; i < count; i++) {
        char text[CULM_ADDRESS_SIZE];
        culm_address_print(&number[i], text);
        assert_true(number[i].kind == CULM_ADDRESS_IPV4 || number[i].kind == CULM_ADDRESS_IPV6);
        assert_int_equal(number[i].port, 80);
        assert_int_equal(culm_address_parse(text, &name, NULL), CULM_OK);
    }
}

static void a_number_is_its_own_answer(void **state) {
    (void)state;
    static const char *const numbers[] = {"unix:here", "unix:/here", "tcp:1.2.3.4:5",
                                          "tcp:[::1]:5"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct culm_address address, number;
        size_t count = 0;
        char text[CULM_ADDRESS_SIZE];
        assert_int_equal(culm_address_parse(numbers[i], &address, NULL), CULM_OK);
        assert_int_equal(culm_address_resolve(&address, &number, 1, &count, NULL), CULM_OK);
        assert_int_equal(count, 1);
        culm_address_print(&number, text);
        assert_string_equal(text, numbers[i]);
    }
}

/* Numbers that the resolver gives, by a name that looks like one to it. */
static void an_odd_number_is_the_answer(void **state) {
    (void)state;
    const struct culm_address mapped = {CULM_ADDRESS_NAME, 80, "::ffff:127.0.0.1"};
    const struct culm_address near = {CULM_ADDRESS_NAME, 80, "fe80::1"};
    struct culm_address number;
    struct culm_error error = {0};
    char text[CULM_ADDRESS_SIZE];
    size_t count = 0;
    assert_int_equal(culm_address_resolve(&mapped, &number, 1, &count, NULL), CULM_OK);
    assert_int_equal(count, 1);
    culm_address_print(&number, text);
    assert_string_equal(text, "tcp:127.0.0.1:80");
    assert_int_equal(culm_address_resolve(&near, &number, 1, &count, &error), CULM_ERR_NOT_FOUND);
    assert_string_equal(error.text, "look up 'fe80::1': it has only link-local addresses, which "
                                    "mean something else on every machine");
}

static void a_name_that_nobody_has_is_said(void **state) {
    (void)state;
    struct culm_address name, number;
    struct culm_error error = {0};
    size_t count = 7;
    assert_int_equal(culm_address_parse("tcp:nobody.invalid:80", &name, NULL), CULM_OK);
    enum culm_status status = culm_address_resolve(&name, &number, 1, &count, &error);
    assert_true(status == CULM_ERR_NOT_FOUND || status == CULM_ERR_AGAIN);
    assert_non_null(strstr(error.text, "look up 'nobody.invalid': "));
    assert_int_equal(count, 7);
}

static void everywhere_is_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool any;
    } rows[] = {{"tcp:0.0.0.0:1", true},    {"tcp:[::]:1", true},   {"tcp:[0::0]:1", true},
                {"tcp:127.0.0.1:1", false}, {"tcp:[::1]:1", false}, {"unix:0.0.0.0", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct culm_address address;
        assert_int_equal(culm_address_parse(rows[i].text, &address, NULL), CULM_OK);
        assert_int_equal(culm_address_is_any(&address), rows[i].any);
    }
}

static void this_machine_is_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool here;
    } rows[] = {{"tcp:127.0.0.1:1", true},
                {"tcp:127.9.8.7:1", true},
                {"tcp:[::1]:1", true},
                {"tcp:[0::0:1]:1", true},
                {"tcp:[::ffff:127.0.0.1]:1", true},
                {"tcp:localhost:1", true},
                {"unix:name", true},
                {"unix:/run/socket", true},
                {"tcp:127.some.name:1", false},
                {"tcp:127.0.0.1.example.com:1", false},
                {"tcp:localhost.example.com:1", false},
                {"tcp:0.0.0.0:1", false},
                {"tcp:[::]:1", false},
                {"tcp:12.7.0.1:1", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct culm_address address;
        assert_int_equal(culm_address_parse(rows[i].text, &address, NULL), CULM_OK);
        assert_int_equal(culm_address_is_loopback(&address), rows[i].here);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_read_and_printed_in_one_spelling),
        cmocka_unit_test(link_local_addresses_are_refused),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(hostile_text_is_refused_or_itself),
        cmocka_unit_test(names_are_looked_up),
        cmocka_unit_test(a_number_is_its_own_answer),
        cmocka_unit_test(an_odd_number_is_the_answer),
        cmocka_unit_test(a_name_that_nobody_has_is_said),
        cmocka_unit_test(everywhere_is_told_apart),
        cmocka_unit_test(this_machine_is_told_apart),
    };
    return cmocka_run_group_tests_name("net/address", tests, NULL, NULL);
}
