/* HMAC-SHA256 against the vectors of RFC 4231; comparing; random bytes. */
#include "base/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LONG_KEY 131

struct vector {
    uint8_t key_byte; /* repeated; 0: `key` */
    size_t key_len;
    const char *key;
    uint8_t data_byte; /* repeated 50 times; 0: `data` */
    const char *data;
    const char *mac;
};

/* Cases 1 to 4, 6 and 7; the fifth is about cutting, which nobody does here. */
static const struct vector vectors[] = {
    {0x0b, 20, NULL, 0, "Hi There",
     "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
    {0, 4, "Jefe", 0, "what do ya want for nothing?",
     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    {0xaa, 20, NULL, 0xdd, NULL,
     "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
    {0, 25,
     "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16"
     "\x17\x18\x19",
     0xcd, NULL, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
    {0xaa, LONG_KEY, NULL, 0, "Test Using Larger Than Block-Size Key - Hash Key First",
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    {0xaa, LONG_KEY, NULL, 0,
     "This is a test using a larger than block-size key and a larger than block-size data. The key "
     "needs to be hashed before being used by the HMAC algorithm.",
     "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
};

static void the_vectors_of_rfc_4231(void **state) {
    (void)state;
    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
        uint8_t key[LONG_KEY], data[256], mac[CULM_MAC_BYTES];
        size_t len = vectors[v].data ? strlen(vectors[v].data) : 50;
        if (vectors[v].key) {
            memcpy(key, vectors[v].key, vectors[v].key_len);
        } else {
            memset(key, vectors[v].key_byte, vectors[v].key_len);
        }
        if (vectors[v].data) {
            memcpy(data, vectors[v].data, len);
        } else {
            memset(data, vectors[v].data_byte, len);
        }
        char hex[2 * CULM_MAC_BYTES + 1];
        assert_int_equal(culm_secret_mac(key, vectors[v].key_len, data, len, mac), CULM_OK);
        for (size_t i = 0; i < CULM_MAC_BYTES; i++) {
            snprintf(hex + 2 * i, 3, "%02x", mac[i]);
        }
        assert_string_equal(hex, vectors[v].mac);
    }
}

static void one_bit_is_a_difference(void **state) {
    (void)state;
    uint8_t a[CULM_MAC_BYTES], b[CULM_MAC_BYTES];
    assert_int_equal(culm_secret_random(a, sizeof a, NULL), CULM_OK);
    memcpy(b, a, sizeof b);
    assert_true(culm_secret_equal(a, b));
    for (size_t bit = 0; bit < 8 * sizeof b; bit++) {
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(culm_secret_equal(a, b));
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void random_bytes_are_new_each_time(void **state) {
    (void)state;
    uint8_t a[256], b[256];
    assert_int_equal(culm_secret_random(a, sizeof a, NULL), CULM_OK);
    assert_int_equal(culm_secret_random(b, sizeof b, NULL), CULM_OK);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_rfc_4231),
        cmocka_unit_test(one_bit_is_a_difference),
        cmocka_unit_test(random_bytes_are_new_each_time),
    };
    return cmocka_run_group_tests_name("base/secret", tests, NULL, NULL);
}
