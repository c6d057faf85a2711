/*
 * Dropout of the entries of sparse matrices: of edges, and of sparse features.
 *
 * A draw gives the bits of eight elements to each of 16 lanes. Where entries are few, each takes a lane
 * of its own, whatever rows they are in. Where a row has many of the 128 elements of a group
 * (drop.h), one draw serves the whole group. Where bits of all elements are wanted, every group is drawn.
 */
#include "device/cpu/drop.h"
#include "device/cpu/edges.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define GROUPS_MOST 64 /* of a row that is drawn by groups */
#define GROUP_WORDS (DROP_GROUP / 32)
#define WORTH 24 /* entries to a group, from which on it is drawn whole */
#define BAND 64  /* rows whose bits are turned together */

struct edge_drop {
    const struct culm_sparse_dropout_args *sparse;
    const struct culm_edge_dropout_args *edge;
    const struct culm_dropout *dropout;
    struct chunks chunks;
    uint32_t threshold;
    float scale;
};

static struct edge_drop edge_drop_of(const struct culm_cpu *cpu, const uint64_t *start, int64_t n,
                                     const struct culm_dropout *dropout) {
    assert(dropout->p > 0 && dropout->p < 1 && dropout->samples == n);
    return (struct edge_drop){.dropout = dropout,
                              .chunks = chunks_of(cpu, start, n),
                              .threshold = drop_threshold(dropout->p),
                              .scale = (float)(1.0 / (1.0 - dropout->p))};
}

/* The ids of the samples that entries e .. e + n - 1 belong to, from row *row on, as halves. */
SIMD void ids_of(const struct edge_drop *s, const uint64_t *start, uint64_t e, int n, int64_t *row,
                 uvec *ret_low, uvec *ret_high) {
    uint32_t low[LANES] = {0}, high[LANES] = {0};
    while (start[*row + 1] <= e) {
        ++*row;
    }
    if (start[*row + 1] >= e + (uint64_t)n) { /* all of one row */
        uint64_t id = culm_dropout_sample(s->dropout, *row);
        *ret_low = uset((uint32_t)id);
        *ret_high = uset((uint32_t)(id >> 32));
        return;
    }
    for (int i = 0; i < n; i++) {
        while (start[*row + 1] <= e + (uint64_t)i) {
            ++*row;
        }
        uint64_t id = culm_dropout_sample(s->dropout, *row);
        low[i] = (uint32_t)id;
        high[i] = (uint32_t)(id >> 32);
    }
    memcpy(ret_low, low, sizeof low);
    memcpy(ret_high, high, sizeof high);
}

/* ---- of sparse features ---- */

SIMD uvec uselect(mask m, uvec yes, uvec no) {
    return ubits(vselect(m, ufloat_bits(yes), ufloat_bits(no)));
}

/* The random bits of element `column` of each lane, which has drawn its block. */
SIMD uvec bits_of_columns(const struct drop_bits *bits, uvec column) {
    uvec slot = uand(ushift_right(column, 4), uset(7));
    uvec low = uselect(uless(slot, uset(2)), bits->word[0], bits->word[1]);
    uvec high = uselect(uless(slot, uset(6)), bits->word[2], bits->word[3]);
    uvec word = uselect(uless(slot, uset(4)), low, high);
    return uselect(uless(uand(slot, uset(1)), uset(1)), uand(word, uset(0xFFFF)),
                   ushift_right(word, 16));
}

/* Bits that are appended, from bit `at` on; bits of its word before that are 0. */
struct writer {
    uint32_t *word;
    uint64_t at, bits; /* `bits`: what is not stored yet, from the word's begin on */
};

SIMD void append(struct writer *w, uint32_t bits, int n) {
    w->bits |= (uint64_t)(bits & (0xFFFFu >> (LANES - n))) << w->at % 32;
    if (w->at % 32 + (uint64_t)n >= 32) {
        w->word[w->at / 32] = (uint32_t)w->bits;
        w->bits >>= 32;
    }
    w->at += (uint64_t)n;
}

/* Entries of any rows, from row `row` on, sixteen at a time. */
static void draw_entries(const struct edge_drop *s, int64_t row, uint64_t to, struct writer *w) {
    const struct culm_sparse_dropout_args *a = s->sparse;
    uvec threshold = uset(s->threshold);
    while (w->at < to) {
        int n = to - w->at < LANES ? (int)(to - w->at) : LANES;
        uint32_t part[LANES] = {0};
        uvec column, low, high;
        memcpy(part, a->column + w->at, (size_t)n * sizeof *part);
        memcpy(&column, part, sizeof column);
        ids_of(s, a->start, w->at, n, &row, &low, &high);
        uvec counter = uadd(ushift_left(ushift_right(column, 7), 4), uand(column, uset(15)));
        struct drop_bits bits = drop_draw_lanes(s->dropout->key, counter, uset(0), low, high);
        append(w, ~bits_of_mask(uless(bits_of_columns(&bits, column), threshold)), n);
    }
}

/* The bits of sixteen columns, of which the table has those from `base` on. */
SIMD uint32_t look_up(const uint32_t *table, uint32_t base, const uint32_t *column, int n) {
    uint32_t bits = 0;
#if SIMD_WIDE
    if (n == LANES && column[LANES - 1] / 32 - column[0] / 32 < LANES) { /* 16 words of the table */
        __m512i c = _mm512_loadu_si512(column);
        __m512i words = _mm512_loadu_si512(table + (column[0] - base) / 32);
        __m512i at = _mm512_sub_epi32(_mm512_srli_epi32(c, 5), uset(column[0] / 32));
        __m512i word = _mm512_permutexvar_epi32(at, words);
        __m512i bit = _mm512_srlv_epi32(word, _mm512_and_si512(c, uset(31)));
        return _mm512_test_epi32_mask(bit, uset(1));
    }
#endif
    for (int i = 0; i < n; i++) {
        uint32_t c = column[i] - base;
        bits |= (table[c / 32] >> c % 32 & 1) << i;
    }
    return bits;
}

/* What dropout leaves of a group of a sample's elements, a bit each. */
SIMD void draw_group(const struct edge_drop *s, uint64_t id, uint64_t group,
                     uint32_t word[GROUP_WORDS]) {
    uvec threshold = uset(s->threshold);
    struct drop_bits bits = drop_draw(s->dropout->key, id, group);
    for (int i = 0; i < GROUP_WORDS; i++) {
        uvec even = uand(bits.word[i], uset(0xFFFF)), odd = ushift_right(bits.word[i], 16);
        uint32_t low = bits_of_mask(uless(even, threshold));
        uint32_t high = bits_of_mask(uless(odd, threshold));
        word[i] = ~(low | high << 16);
    }
}

/* Appends bits of entries, which a table has from column `base` on. */
SIMD void append_from(const uint32_t *table, uint32_t base, const uint32_t *column, uint64_t to,
                      struct writer *w) {
    while (w->at < to) {
        int n = to - w->at < LANES ? (int)(to - w->at) : LANES;
        append(w, look_up(table, base, column + w->at, n), n);
    }
}

/* Entries of one row, in these groups. */
static void draw_groups(const struct edge_drop *s, int64_t row, uint32_t group, uint32_t groups,
                        uint64_t to, struct writer *w) {
    uint32_t table[GROUPS_MOST * GROUP_WORDS + LANES];
    uint64_t id = culm_dropout_sample(s->dropout, row);
    for (uint32_t g = 0; g < groups; g++) {
        draw_group(s, id, group + g, table + g * GROUP_WORDS);
    }
    append_from(table, group * DROP_GROUP, s->sparse->column, to, w);
}

/* Whether groups are worth it for entries from .. to - 1 of a row, and which ones they are in. */
static bool by_groups(const uint32_t *column, uint64_t from, uint64_t to, uint32_t *ret_group,
                      uint32_t *ret_groups) {
    *ret_group = column[from] / DROP_GROUP;
    *ret_groups = column[to - 1] / DROP_GROUP - *ret_group + 1;
    return *ret_groups <= GROUPS_MOST && to - from >= WORTH * (uint64_t)*ret_groups;
}

/* Where the words of a tile begin: tiles share none. */
static uint64_t tile_entry(const struct edge_drop *s, int64_t tile) {
    const uint64_t *start = s->chunks.start;
    uint64_t entry = start[chunk_row(&s->chunks, tile)];
    return tile == s->chunks.count      ? entry
           : entry / 32 * 32 < start[0] ? start[0]
                                        : entry / 32 * 32;
}

/* Where a tile begins to write, in which row, and where it ends. */
static struct writer tile_writer(const struct edge_drop *s, int64_t tile, uint32_t *word,
                                 int64_t *ret_row, uint64_t *ret_end) {
    struct writer w = {.word = word, .at = tile_entry(s, tile)};
    *ret_end = tile_entry(s, tile + 1);
    *ret_row = chunk_row(&s->chunks, tile);
    while (*ret_row > 0 && s->chunks.start[*ret_row] > w.at) {
        --*ret_row;
    }
    return w;
}

static void finish(struct writer *w, uint64_t begin) {
    if (w->at % 32 && w->at > begin) {
        w->word[w->at / 32] = (uint32_t)w->bits;
    }
}

static void sparse_dropout_tile(void *context, int64_t tile, int thread) {
    const struct edge_drop *s = context;
    const struct culm_sparse_dropout_args *a = s->sparse;
    int64_t row;
    uint64_t end;
    struct writer w = tile_writer(s, tile, a->kept, &row, &end);
    uint64_t begin = w.at;
    (void)thread;
    while (w.at < end) {
        uint32_t group, groups;
        while (a->start[row + 1] <= w.at) {
            row++;
        }
        uint64_t to = a->start[row + 1] < end ? a->start[row + 1] : end;
        if (by_groups(a->column, w.at, to, &group, &groups)) {
            draw_groups(s, row, group, groups, to, &w);
            continue;
        }
        for (int64_t next = row + 1; to < end; next++) { /* and of rows after it */
            uint64_t stop = a->start[next + 1] < end ? a->start[next + 1] : end;
            if (stop > to && by_groups(a->column, to, stop, &group, &groups)) {
                break;
            }
            to = stop;
        }
        draw_entries(s, row, to, &w);
    }
    finish(&w, begin);
}

/* ---- the same of all elements ---- */

/* The lowest bit of each lane, which goes. */
SIMD uint64_t take_bit(uvec *x) {
    uint64_t bits = bits_of_mask(uless(uset(0), uand(*x, uset(1))));
    *x = ushift_right(*x, 1);
    return bits;
}

/* Bits of 32 columns, a word a row, as words of these columns. */
SIMD void turn_word(const uint32_t word[BAND], int64_t columns, uint64_t *turned) {
    uvec x[BAND / LANES];
    memcpy(x, word, sizeof x);
    for (int64_t b = 0; b < columns; b++) {
        uint64_t bits = take_bit(&x[0]) | take_bit(&x[1]) << 16;
        turned[b] = bits | take_bit(&x[2]) << 32 | take_bit(&x[3]) << 48;
    }
}

/* A band of rows, and what they are turned: a word of each column. */
static void draw_words_tile(void *context, int64_t tile, int thread) {
    const struct edge_drop *s = context;
    const struct culm_sparse_dropout_args *a = s->sparse;
    const int64_t first = tile * BAND, rows = at_most(BAND, a->n - first);
    uint32_t word[GROUP_WORDS][BAND] = {{0}};
    (void)thread;
    for (int64_t column = 0; column < a->columns; column += DROP_GROUP) {
        for (int64_t r = 0; r < rows; r++) {
            uint64_t group = (uint64_t)(column / DROP_GROUP);
            uint32_t drawn[GROUP_WORDS];
            draw_group(s, culm_dropout_sample(s->dropout, first + r), group, drawn);
            for (int64_t i = 0; i < GROUP_WORDS && column + i * 32 < a->columns; i += 2) {
                int64_t at = (column + i * 32) / 64 * a->n + first + r;
                uint64_t bits = a->there[at] & (drawn[i] | (uint64_t)drawn[i + 1] << 32);
                a->kept_words[at] = bits;
                word[i][r] = (uint32_t)bits;
                word[i + 1][r] = (uint32_t)(bits >> 32);
            }
        }
        for (int64_t i = 0; i < GROUP_WORDS && a->turned_words; i++) {
            int64_t from = column + i * 32;
            turn_word(word[i], at_most(32, a->columns - from),
                      a->turned_words + tile * a->columns + from);
        }
    }
}

void ISA_NAME(sparse_dropout)(struct culm_cpu *cpu, const struct culm_sparse_dropout_args *args) {
    struct edge_drop s = edge_drop_of(cpu, args->start, args->n, args->dropout);
    s.sparse = args;
    if (args->there) {
        culm_cpu_run(cpu, ceil_div(args->n, BAND), draw_words_tile, &s);
    } else {
        culm_cpu_run(cpu, s.chunks.count, sparse_dropout_tile, &s);
    }
}
ALIKE(sparse_dropout);

/* ---- of edges ---- */

/* Entries e .. e + n - 1, n at most LANES, of which `bits` are heads first .. first + 7. */
SIMD void drop_entries(const struct edge_drop *s, const struct drop_bits *bits, uint64_t e,
                       int64_t n, int64_t first) {
    const struct culm_edge_dropout_args *a = s->edge;
    uint32_t word[4][LANES];
    uint64_t at = e * (uint64_t)a->heads;
    uvec threshold = uset(s->threshold);
    vec scale = vset(s->scale);
    if (a->heads == 1) { /* lane i is entry i */
        vec x = load_part(a->x + at, n);
        store_part(a->y + at, drop_apply(bits, 0, threshold, scale, x), n);
        return;
    }
    if (a->heads == 8) {
        const struct drop_entries_bits order = drop_by_entry(bits);
        for (int64_t i = 0; i < n * 8; i += LANES) {
            uvec half = drop_of_entries(&order, i);
            vec x = load_part(a->x + at + (uint64_t)i, n * 8 - i);
            x = vselect(uless(half, threshold), vzero(), vmul(x, scale));
            store_part(a->y + at + (uint64_t)i, x, n * 8 - i);
        }
        return;
    }
    memcpy(word, bits->word, sizeof word);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t h = first; h < at_most(first + 8, a->heads); h++) {
            uint64_t to = at + (uint64_t)(i * a->heads + h);
            uint32_t half = word[h % 8 / 2][i] >> (h % 2 * 16) & 0xFFFF;
            a->y[to] = half < s->threshold ? 0.0f : a->x[to] * s->scale;
        }
    }
}

static void edge_dropout_tile(void *context, int64_t tile, int thread) {
    const struct edge_drop *s = context;
    const struct culm_edge_dropout_args *a = s->edge;
    (void)thread;
    int64_t row = chunk_row(&s->chunks, tile), to = chunk_row(&s->chunks, tile + 1);
    uint64_t end = a->start[to];
    for (uint64_t e = a->start[row]; e < end; e += LANES) {
        uint32_t id[LANES] = {0};
        int n = end - e < LANES ? (int)(end - e) : LANES;
        for (int i = 0; i < n; i++) {
            uint32_t column = a->column[e + (uint64_t)i];
            id[i] = a->column_id ? a->column_id[column] : column;
        }
        uvec c2, c3, above;
        memcpy(&c2, id, sizeof c2);
        ids_of(s, a->start, e, n, &row, &c3, &above);
        for (int64_t h = 0; h < a->heads; h += 8) {
            struct drop_bits bits =
                drop_draw_lanes(s->dropout->key, uset((uint32_t)(h / 8)), uset(0), c2, c3);
            drop_entries(s, &bits, e, n, h);
        }
    }
}

void ISA_NAME(edge_dropout)(struct culm_cpu *cpu, const struct culm_edge_dropout_args *args) {
    struct edge_drop s = edge_drop_of(cpu, args->start, args->n, args->dropout);
    s.edge = args;
    culm_cpu_run(cpu, s.chunks.count, edge_dropout_tile, &s);
}
ALIKE(edge_dropout);
