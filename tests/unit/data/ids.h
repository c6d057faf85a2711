/* What the tests of tokenizers share: the ids of a text, as Hugging Face's library has them. */
#ifndef CULM_TESTS_DATA_IDS_H
#define CULM_TESTS_DATA_IDS_H

#include "data/tokenizer.h"

#include "place.h"

#include <jansson.h>

/* `what` and `number` name the case. */
static inline void expect_ids(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                              const json_t *text, const json_t *ids, const char *what,
                              size_t number) {
    encoder->count = 0;
    assert_int_equal(culm_tokenizer_encode(tokenizer, encoder, json_string_value(text),
                                           json_string_length(text), NULL),
                     CULM_OK);
    bool same = encoder->count == json_array_size(ids);
    for (size_t k = 0; same && k < encoder->count; k++) {
        same = encoder->id[k] == json_integer_value(json_array_get(ids, k));
    }
    if (!same) {
        fail_msg("%s: case %zu '%s' differs: %zu ids, %zu expected", what, number,
                 json_string_value(text), encoder->count, json_array_size(ids));
    }
}

#endif
