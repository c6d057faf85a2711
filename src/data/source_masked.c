/*
 * Masked language modelling and next-sentence prediction (Devlin et al., "BERT", 2018) over text or
 * token files.
 *
 *     tokens     [CLS] a a a a [SEP] b b b [SEP]      T in all: always full, no padding
 *     types        0   0 0 0 0   0   1 1 1   1
 *     mask         1   1 1 1 1   1   1 1 1   1
 *
 * Sample i is the T - 3 tokens from i * (T - 3) on, the first half (rounded up) as A, the rest as
 * B. In half of the samples, drawn by position, B is that of another sample of the same split
 * instead: nsp is 0 where B follows A, 1 where it is random.
 *
 * K tokens of A and B (the options say how many; by default 15 % of T, rounded up) are chosen, all
 * sets being equally likely; their places, rising, are `positions`, the tokens that were there
 * `mlm_targets`. Of each, 80 % become [MASK], 10 % a random token, 10 % stay.
 */
#include "data/source_internal.h"
#include "data/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS, TYPES, MASK, POSITIONS, TARGETS, NEXT };
enum { PAD, CLS, SEP, HIDE, SPECIALS };

/* Draws of one position. */
#define DRAW_PAIR 0  /* is B random, and whose is it */
#define DRAW_PLACE 1 /* + 2 * k: which token is chosen, what it becomes */

struct masked {
    struct culm_source source;
    struct culm_stream *stream;
    int64_t context, first_len, second_len, chosen;
    int32_t special[SPECIALS];
    int32_t sorted[SPECIALS]; /* rising */
    int64_t vocab;            /* of random tokens: special ones among them are stepped over */
};

static void masked_free(struct culm_source *source) {
    struct masked *m = (struct masked *)source;
    culm_stream_free(m->stream);
    free(m);
}

static uint64_t below(uint64_t random, uint64_t bound) {
    return (uint64_t)((unsigned __int128)random * bound >> 64);
}

/* A token that is none of the special ones. */
static int32_t random_token(const struct masked *m, uint64_t random) {
    int32_t id = (int32_t)below(random, (uint64_t)m->vocab);
    for (int i = 0; i < SPECIALS; i++) {
        id += id >= m->sorted[i];
    }
    return id;
}

/* Replaces the chosen tokens and reports them: of the places left, each is taken with the chance
 * that is left (Knuth's algorithm S). */
static void hide(const struct masked *m, uint64_t position, int32_t *tokens, void *const *fields) {
    int32_t *positions = fields[POSITIONS], *targets = fields[TARGETS];
    int64_t places = m->first_len + m->second_len, wanted = m->chosen, k = 0;
    for (int64_t i = 0; i < places && k < wanted; i++) {
        int64_t at = i < m->first_len ? 1 + i : 2 + i;
        uint64_t draw = DRAW_PLACE + 2 * (uint64_t)i;
        if (below(source_draw(&m->source, position, draw), (uint64_t)(places - i)) >=
            (uint64_t)(wanted - k)) {
            continue;
        }
        if (positions) {
            positions[k] = (int32_t)at;
        }
        if (targets) {
            targets[k] = tokens[at];
        }
        k++;
        struct culm_rng_block block = culm_rng(m->source.key, position, draw + 1);
        uint32_t what = (uint32_t)below((uint64_t)block.word[0] << 32, 10);
        if (what < 8) {
            tokens[at] = m->special[HIDE];
        } else if (what == 8) {
            tokens[at] = random_token(m, (uint64_t)block.word[1] << 32 | block.word[2]);
        }
    }
}

static enum culm_status read_tokens(const struct masked *m, struct culm_source_item item,
                                    bool random, int64_t other, int32_t *tokens,
                                    struct culm_error *error) {
    uint64_t length = (uint64_t)(m->first_len + m->second_len);
    uint64_t first = (uint64_t)item.sample * length;
    uint64_t second = (random ? (uint64_t)other : (uint64_t)item.sample) * length;
    tokens[0] = m->special[CLS];
    tokens[1 + m->first_len] = m->special[SEP];
    tokens[m->context - 1] = m->special[SEP];
    enum culm_status status =
        culm_stream_read(m->stream, first, tokens + 1, (size_t)m->first_len, error);
    if (status != CULM_OK) {
        return status;
    }
    return culm_stream_read(m->stream, second + (uint64_t)m->first_len, tokens + 2 + m->first_len,
                            (size_t)m->second_len, error);
}

/* The next sample, from `other` on, that is neither left out nor this one; false: there is none. */
static bool find_other(const struct culm_source *source, int64_t sample, int64_t *other) {
    for (int64_t i = 0; i < source->samples; i++) {
        int64_t next = (*other - source->first + i) % source->samples;
        if (next + source->first != sample && !culm_order_left_out_has(source->left_out, next)) {
            *other = next + source->first;
            return true;
        }
    }
    return false;
}

static enum culm_status masked_fill(const struct culm_source *source, struct culm_source_item item,
                                    void *const *fields, struct culm_error *error) {
    const struct masked *m = (const struct masked *)source;
    struct culm_rng_block pair = culm_rng(source->key, item.position, DRAW_PAIR);
    bool random = (pair.word[0] & 1) && source->samples > 1;
    int64_t other = (int64_t)below((uint64_t)pair.word[1] << 32 | pair.word[2],
                                   (uint64_t)source->samples - random) +
                    source->first;
    other += other >= item.sample; /* any but this one */
    if (random && source->left_out) {
        random = find_other(source, item.sample, &other);
    }
    if (fields[TOKENS] || fields[TARGETS] || fields[POSITIONS]) {
        int32_t local[1024], *tokens = fields[TOKENS] ? fields[TOKENS] : local;
        if (!fields[TOKENS] && m->context > (int64_t)(sizeof local / sizeof local[0]) &&
            !(tokens = malloc((size_t)m->context * sizeof *tokens))) {
            return culm_error_set(error, CULM_ERR_MEMORY, "data: out of memory");
        }
        enum culm_status status = read_tokens(m, item, random, other, tokens, error);
        if (status == CULM_OK) {
            hide(m, item.position, tokens, fields);
        }
        if (tokens != local && tokens != fields[TOKENS]) {
            free(tokens);
        }
        if (status != CULM_OK) {
            return status;
        }
    }
    for (int64_t i = 0; fields[TYPES] && i < m->context; i++) {
        ((int32_t *)fields[TYPES])[i] = i > m->first_len + 1;
    }
    for (int64_t i = 0; fields[MASK] && i < m->context; i++) {
        ((int32_t *)fields[MASK])[i] = 1;
    }
    if (fields[NEXT]) {
        *(int32_t *)fields[NEXT] = random;
    }
    return CULM_OK;
}

static struct culm_data_place masked_place(const struct culm_source *source, int64_t sample) {
    const struct masked *m = (const struct masked *)source;
    uint64_t length = (uint64_t)(m->first_len + m->second_len);
    return culm_stream_place(m->stream, (uint64_t)sample * length, length);
}

static const struct culm_source_ops masked_ops = {masked_fill, masked_free, masked_place};

/* --- opening --- */

static void sort_specials(struct masked *m) {
    memcpy(m->sorted, m->special, sizeof m->sorted);
    for (int i = 1; i < SPECIALS; i++) {
        for (int k = i; k > 0 && m->sorted[k] < m->sorted[k - 1]; k--) {
            int32_t swap = m->sorted[k];
            m->sorted[k] = m->sorted[k - 1];
            m->sorted[k - 1] = swap;
        }
    }
}

/* The special tokens and the vocabulary of the data. */
static enum culm_status choose_specials(struct masked *m, const struct culm_source_options *o,
                                        const struct culm_tokenizer *tokenizer,
                                        struct culm_error *error) {
    static const enum culm_tokenizer_role role[SPECIALS] = {CULM_TOKEN_PAD, CULM_TOKEN_CLS,
                                                            CULM_TOKEN_SEP, CULM_TOKEN_MASK};
    int32_t next = tokenizer                            ? culm_tokenizer_vocab(tokenizer)
                   : o->masked_of == CULM_SOURCE_TOKENS ? (int32_t)o->vocab - SPECIALS
                                                        : 256;
    bool given = o->special[0] || o->special[1] || o->special[2] || o->special[3];
    int32_t known = next;
    for (int i = 0; i < SPECIALS; i++) {
        int32_t id = tokenizer ? culm_tokenizer_role_id(tokenizer, role[i]) : -1;
        m->special[i] = given ? o->special[i] : id >= 0 ? id : next++;
    }
    known = given && !tokenizer && o->masked_of == CULM_SOURCE_TOKENS ? (int32_t)o->vocab : known;
    for (int i = 0; i < SPECIALS; i++) {
        if (m->special[i] < 0 || m->special[i] >= o->vocab) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "data.kind 'masked': needs the tokens [PAD] [CLS] [SEP] [MASK], "
                                  "the last of them %d, outside of the vocabulary of %lld; set "
                                  "model.vocab to %d or more",
                                  m->special[i], (long long)o->vocab, m->special[i] + 1);
        }
        for (int k = 0; k < i; k++) {
            if (m->special[i] == m->special[k]) {
                return culm_error_set(error, CULM_ERR_CONFIG,
                                      "data.kind 'masked': %d stands for two special tokens",
                                      m->special[i]);
            }
        }
    }
    sort_specials(m);
    m->vocab = known;
    for (int i = 0; i < SPECIALS; i++) {
        m->vocab -= m->special[i] < known;
    }
    return m->vocab >= 1
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "data.kind 'masked': a vocabulary of %lld has no room for "
                                "more than special tokens; set model.vocab",
                                (long long)o->vocab);
}

static enum culm_status open_stream(struct masked *m, const struct culm_source_options *o,
                                    const struct culm_leaving *leaving, struct culm_error *error) {
    struct culm_tokenizer *tokenizer = NULL;
    enum culm_status status = CULM_OK;
    bool tokens = o->masked_of == CULM_SOURCE_TOKENS;
    if (!tokens) {
        status = source_tokenizer(o, &tokenizer, error);
    }
    if (status == CULM_OK) {
        status = choose_specials(m, o, tokenizer, error);
    }
    if (status == CULM_OK) {
        const struct culm_stream_options how = source_stream(o, leaving, tokenizer);
        status = tokens ? culm_stream_open_tokens(&how, &m->stream, error)
                        : culm_stream_open_text(&how, &m->stream, error);
    }
    culm_tokenizer_free(tokenizer);
    return status;
}

static void add_fields(struct masked *m, int64_t vocab) {
    source_add_numbers(&m->source, "tokens", m->context, vocab);
    source_add_numbers(&m->source, "types", m->context, 2);
    source_add_numbers(&m->source, "mask", m->context, 2);
    source_add_numbers(&m->source, "positions", m->chosen, m->context);
    source_add_numbers(&m->source, "mlm_targets", m->chosen, vocab);
    source_add_numbers(&m->source, "nsp", 1, 2);
}

static void leave_out(const struct masked *m, int64_t samples, struct culm_leaving *leaving) {
    uint64_t length = (uint64_t)(m->first_len + m->second_len);
    for (size_t i = 0; i < culm_stream_left_count(m->stream); i++) {
        const struct culm_stream_range range = culm_stream_left(m->stream, i);
        for (uint64_t s = range.begin / length; s < (uint64_t)samples && s * length < range.end;
             s++) {
            leaving_add(leaving, (int64_t)s);
        }
    }
}

enum culm_status source_open_masked(const struct culm_source_options *options,
                                    struct culm_leaving *leaving, struct culm_source **ret_source,
                                    struct culm_error *error) {
    if (options->context < 5) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "model.context: %lld is too short for two sentences and three special "
            "tokens; allowed: 5 or more",
            (long long)options->context);
    }
    if (options->masked < 0 || options->masked > options->context - 3) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "model.masked: %lld of %lld tokens; allowed: up to all but three",
                              (long long)options->masked, (long long)options->context);
    }
    struct masked *m = calloc(1, sizeof *m);
    if (!m) {
        return culm_error_set(error, CULM_ERR_MEMORY, "data: out of memory");
    }
    m->source.ops = &masked_ops;
    m->context = options->context;
    m->second_len = (m->context - 3) / 2;
    m->first_len = m->context - 3 - m->second_len;
    m->chosen = options->masked ? options->masked : (15 * m->context + 99) / 100;
    enum culm_status status = open_stream(m, options, leaving, error);
    if (status == CULM_OK) {
        snprintf(m->source.note, sizeof m->source.note, "%s", culm_stream_note(m->stream));
        m->source.resident_bytes = culm_stream_resident_bytes(m->stream);
        m->source.opening_bytes = culm_stream_opening_bytes(m->stream);
        m->source.unseen = culm_stream_is_unseen(m->stream);
        uint64_t count = culm_stream_count(m->stream), length = (uint64_t)m->context - 3;
        const char *name = culm_stream_name(m->stream);
        leave_out(m, (int64_t)(count / length), leaving);
        status =
            count >= length
                ? source_set_samples(&m->source, options, (int64_t)(count / length), name, error)
                : culm_error_set(error, CULM_ERR_CONFIG,
                                 "%s%s: has %llu tokens, one sample needs %llu; give more or "
                                 "lower model.context",
                                 name, options->path_count > 1 ? " and the other files" : "",
                                 (unsigned long long)count, (unsigned long long)length);
    }
    if (status != CULM_OK) {
        masked_free(&m->source);
        return status;
    }
    add_fields(m, options->vocab);
    *ret_source = &m->source;
    return CULM_OK;
}
