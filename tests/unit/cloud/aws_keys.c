/* Keys for AWS as files and endpoints write them. */
#include "cloud/aws_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Keys of a part of a file. "": they are not there. */
static void expect(const char *file, const char *profile, const char *id, const char *secret,
                   const char *token) {
    struct culm_aws_keys keys = {0};
    char *text = strdup(file);
    bool whole = aws_keys_of_file(text, profile, &keys);
    assert_int_equal(whole, id[0] != '\0');
    if (whole) {
        assert_string_equal(keys.id, id);
        assert_string_equal(keys.secret, secret);
        assert_string_equal(keys.token ? keys.token : "", token);
        assert_int_equal(keys.expires_s, 0);
    }
    aws_keys_release(&keys);
    free(text);
}

static void files(void **state) {
    (void)state;
    static const char two[] =
        "# keys\n[default]\naws_access_key_id = A\n"
        "aws_secret_access_key = s=/+\n\n[role]\r\n; aws_access_key_id = no\r\n"
        "aws_access_key_id=B\r\naws_secret_access_key\t=\tt\r\n"
        "aws_session_token = token==\r\nregion = eu-test-1\r\n";
    expect(two, "default", "A", "s=/+", "");
    expect(two, "role", "B", "t", "token==");
    expect(two, "rol", "", "", "");
    expect(two, "", "", "", "");
    expect("[default]\naws_access_key_id = A\n", "default", "", "", "");
    expect("[default]\naws_secret_access_key = s", "default", "", "", "");
    expect("aws_access_key_id = A\naws_secret_access_key = s", "default", "", "", "");
    expect("[default\naws_access_key_id = A\naws_secret_access_key = s", "default", "", "", "");
    expect("[default]\naws_access_key_id = A\naws_secret_access_key = s\naws_session_token =\n",
           "default", "A", "s", "");
    /* what would end a line of a request, or is no key at all */
    expect("[default]\naws_access_key_id = A B\naws_secret_access_key = s", "default", "", "", "");
    expect("[default]\naws_access_key_id = A\naws_secret_access_key = s\naws_session_token = a\rb",
           "default", "", "", "");
    expect("", "default", "", "", "");
}

static void answers(void **state) {
    (void)state;
    struct culm_aws_keys keys = {0};
    static const char *const wrong[] = {
        "",
        "{}",
        "[]",
        "{\"Code\": \"Failed\", \"Message\": \"no role\"}",
        "{\"AccessKeyId\": \"A\"}",
        "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": 3}",
        "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"s\", \"Token\": \"a\\nb: c\"}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(aws_keys_of_answer(wrong[i], &keys));
        assert_null(keys.id);
    }
    assert_true(aws_keys_of_answer(
        "{\"Code\": \"Success\", \"AccessKeyId\": \"A\", \"SecretAccessKey\": \"s\", \"Token\": "
        "\"t\", \"Expiration\": \"2026-03-01T01:00:02Z\"}",
        &keys));
    assert_string_equal(keys.id, "A");
    assert_string_equal(keys.secret, "s");
    assert_string_equal(keys.token, "t");
    assert_int_equal(keys.expires_s, 1772326802);
    aws_keys_release(&keys);
    assert_true(aws_keys_of_answer("{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"s\", "
                                   "\"Expiration\": \"soon\"}",
                                   &keys));
    assert_null(keys.token);
    assert_int_equal(keys.expires_s, 0);
    aws_keys_release(&keys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files),
        cmocka_unit_test(answers),
    };
    return cmocka_run_group_tests_name("cloud/aws_keys", tests, NULL, NULL);
}
