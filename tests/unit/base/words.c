/* Words of an enumeration, and the nearest to one that is not known. */
#include "base/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const commands[] = {"train", "help", "version", NULL}, *const none[] = {NULL};

static const char *nearest(const char *word, const char *const *words) {
    struct culm_nearest near = {.word = word};
    for (size_t i = 0; words[i]; i++) {
        culm_nearest_try(&near, words[i]);
    }
    return near.nearest;
}

static void nearest_words(void **state) {
    (void)state;
    char longest[70];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_string_equal(nearest("trian", commands), "train");
    assert_string_equal(nearest("hlp", commands), "help");
    assert_null(nearest("zzz", commands));
    assert_null(nearest("", commands));
    assert_null(nearest("x", none));
    assert_null(nearest(longest, commands));
    assert_null(nearest("x", (const char *const[]){longest, NULL}));
}

static void words_are_found_whole(void **state) {
    (void)state;
    assert_int_equal(culm_word_find(commands, "help"), 1);
    assert_int_equal(culm_word_find(commands, "hel"), -1);
    assert_int_equal(culm_word_find(commands, ""), -1);
    assert_int_equal(culm_word_find(none, "help"), -1);
}

static void lists_are_cut_to_what_fits(void **state) {
    (void)state;
    char whole[32], cut[9];
    culm_words_list(commands, whole, sizeof whole);
    assert_string_equal(whole, "train, help, version");
    culm_words_list(commands, cut, sizeof cut);
    assert_string_equal(cut, "train, h");
    culm_words_list(none, whole, sizeof whole);
    assert_string_equal(whole, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_words),
        cmocka_unit_test(words_are_found_whole),
        cmocka_unit_test(lists_are_cut_to_what_fits),
    };
    return cmocka_run_group_tests_name("base/words", tests, NULL, NULL);
}
