/* Rows of a layer of a graph network: bits alike everywhere, near the reference, and others in another order of
 * sums. See sparse.c. */
#include "sparse.h"

#include <stdarg.h>

enum { N = 700, LEAST = 37 }; /* several blocks of sums, and pieces of a block of many rows */

static struct culm_dropout dropout_of(double p, int64_t n) {
    static uint32_t id[N];
    for (int i = 0; i < N; i++) {
        id[i] = (uint32_t)(i * 2654435761u);
    }
    return (struct culm_dropout){.p = p, .key = 99, .sample_id = id, .samples = n};
}

/* Which elements of [n,c] dropout leaves. */
static void expect_kept(const uint32_t *kept, const struct culm_dropout *dropout, int64_t c) {
    for (int64_t i = 0; i < dropout->samples * c; i++) {
        uint32_t word = kept[i / c * ((c + 31) / 32) + i % c / 32];
        assert_int_equal(word >> i % c % 32 & 1, !culm_dropout_drops(dropout, i / c, i % c));
    }
}

static void check_heads(int64_t n, int64_t heads, int64_t width, double p) {
    char what[96];
    int64_t c = heads * width, row = c + 2 * heads;
    const struct culm_dropout dropout = dropout_of(p, n);
    snprintf(what, sizeof what, "%lld rows, %lld heads of %lld, dropout %g", (long long)n,
             (long long)heads, (long long)width, p);
    stream = seed;
    struct array t = array_of(n * c, CULM_F32), a = array_of(c, CULM_F32);
    struct array b = array_of(c, CULM_F32), dy = array_of(n * row, CULM_F32);
    uint32_t *kept = calloc((size_t)(n * ((c + 31) / 32)), sizeof *kept);
    struct array want[4], got[4]; /* y dt da db */
    const int64_t size[4] = {n * row, n * c, c, c};
    for (int i = 0; i < 4; i++) {
        want[i] = array_of(size[i], CULM_F32);
        got[i] = array_of(size[i], CULM_F32);
    }
    for (int d = 0; d < device_count; d++) {
        CULM_RUN(devices[d].device, heads_forward, .y = culm_out_f32(got[0].f32),
                 .t = culm_in_f32(t.f32), .a = a.f32, .b = b.f32, .n = n, .c = c, .heads = heads,
                 .dropout = p > 0 ? &dropout : NULL, .kept = p > 0 ? kept : NULL);
        if (p > 0) {
            expect_kept(kept, &dropout, c);
        }
        for (int first = 1; first >= 0; first--) { /* stored, then added */
            CULM_RUN(devices[d].device, heads_backward, .dt = culm_out_f32(got[1].f32),
                     .da = got[2].f32, .db = got[3].f32, .dy = culm_in_f32(dy.f32),
                     .t = culm_in_f32(t.f32), .a = a.f32, .b = b.f32, .kept = p > 0 ? kept : NULL,
                     .n = n, .c = c, .heads = heads, .p = p, .first = first);
        }
        for (int i = 0; i < 4; i++) {
            if (d == 0) {
                memcpy(want[i].f32, got[i].f32, bytes_of(&got[i]));
            }
            expect(want[i].f32, got[i].f32, size[i], d, is_reference(d) ? 1e-4 : 0, what);
        }
    }
    /* The rows in another order, and then the columns of each head: what is kept depends on them. */
    array_astray(&t, 1, n, c, false);
    array_astray(&dy, 1, n, row, false);
    astray(kept, 1, n, (c + 31) / 32, false);
    for (int first = 1; first >= 0; first--) {
        CULM_RUN(devices[0].device, heads_backward, .dt = culm_out_f32(got[1].f32),
                 .da = got[2].f32, .db = got[3].f32, .dy = culm_in_f32(dy.f32),
                 .t = culm_in_f32(t.f32), .a = a.f32, .b = b.f32, .kept = p > 0 ? kept : NULL,
                 .n = n, .c = c, .heads = heads, .p = p, .first = first);
    }
    assert_true(differs(want[2].f32, got[2].f32, c) && differs(want[3].f32, got[3].f32, c));
    array_astray(&t, 1, n, c, true);
    if (p == 0 && width > 2) {
        array_astray(&t, n * heads, width, 1, false);
        array_astray(&a, heads, width, 1, false);
        array_astray(&b, heads, width, 1, false);
        CULM_RUN(devices[0].device, heads_forward, .y = culm_out_f32(got[0].f32),
                 .t = culm_in_f32(t.f32), .a = a.f32, .b = b.f32, .n = n, .c = c, .heads = heads);
        for (int64_t r = 0; r < n; r++) {
            astray(got[0].f32 + r * row, heads, width, 1, true);
        }
        assert_true(differs(want[0].f32, got[0].f32, n * row));
    }
    free(kept);
    struct array *const all[] = {&t,       &a,       &b,      &dy,     &want[0], &want[1],
                                 &want[2], &want[3], &got[0], &got[1], &got[2],  &got[3]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        array_free(all[i]);
    }
}

void test_heads(void **state) {
    (void)state;
    check_heads(N, 8, 8, 0.6);
    check_heads(LEAST, 8, 8, 0);
    check_heads(LEAST, 2, 40, 0);
    check_heads(N, 1, 7, 0.5);
    check_heads(N - 1, 1, 3, 0.5);
    check_heads(LEAST, 1, 8, 0.5);
    check_heads(LEAST, 3, 31, 0.3);
    check_heads(LEAST, 20, 9, 0.5);
    check_heads(N, 64, 2, 0.5);
    check_heads(LEAST, 2, 300, 0.5);
}

static void check_hidden(int64_t n, int64_t c, int64_t ld, enum culm_function function, bool bias,
                         double p) {
    char what[96];
    const struct culm_dropout dropout = dropout_of(p, n);
    snprintf(what, sizeof what, "%lld rows of %lld of %lld, function %d, dropout %g", (long long)n,
             (long long)c, (long long)ld, function, p);
    stream = seed;
    struct array x = array_of(n * ld, CULM_F32), add = array_of(c, CULM_F32);
    struct array dy = array_of(n * c, CULM_F32);
    uint32_t *kept = calloc((size_t)(n * ((c + 31) / 32)), sizeof *kept);
    struct array want[4], got[4]; /* y saved dx dbias */
    const int64_t size[4] = {n * c, n * c, n * ld, c};
    for (int i = 0; i < 4; i++) {
        want[i] = array_of(size[i], CULM_F32);
        got[i] = array_of(size[i], CULM_F32);
        memset(got[i].f32, 0, bytes_of(&got[i]));
    }
    for (int d = 0; d < device_count; d++) {
        for (int saves = 0; saves < 2; saves++) {
            CULM_RUN(devices[d].device, hidden_forward, .y = culm_out_f32(got[0].f32),
                     .saved = culm_out_f32(saves ? got[1].f32 : NULL), .x = culm_in_f32(x.f32),
                     .bias = bias ? add.f32 : NULL, .n = n, .c = c, .ldx = ld, .function = function,
                     .alpha = 1, .dropout = p > 0 ? &dropout : NULL, .kept = p > 0 ? kept : NULL);
        }
        if (p > 0) {
            expect_kept(kept, &dropout, c);
        }
        for (int first = 1; first >= 0; first--) {
            CULM_RUN(devices[d].device, hidden_backward, .dx = culm_out_f32(got[2].f32),
                     .dbias = bias ? got[3].f32 : NULL, .dy = culm_in_f32(dy.f32),
                     .saved = culm_in_f32(got[1].f32), .kept = p > 0 ? kept : NULL, .n = n, .c = c,
                     .ldx = ld, .function = function, .alpha = 1, .p = p, .first = first);
        }
        for (int i = 0; i < 4; i++) {
            if (d == 0) {
                memcpy(want[i].f32, got[i].f32, bytes_of(&got[i]));
            }
            expect(want[i].f32, got[i].f32, size[i], d, is_reference(d) ? 1e-4 : 0, what);
        }
    }
    array_astray(&dy, 1, n, c, false);
    array_astray(&want[1], 1, n, c, false);
    astray(kept, 1, n, (c + 31) / 32, false);
    for (int first = 1; first >= 0 && bias; first--) {
        CULM_RUN(devices[0].device, hidden_backward, .dx = culm_out_f32(got[2].f32),
                 .dbias = got[3].f32, .dy = culm_in_f32(dy.f32), .saved = culm_in_f32(want[1].f32),
                 .kept = p > 0 ? kept : NULL, .n = n, .c = c, .ldx = ld, .function = function,
                 .alpha = 1, .p = p, .first = first);
    }
    assert_true(!bias || differs(want[3].f32, got[3].f32, c));
    free(kept);
    struct array *const all[] = {&x,       &add,    &dy,     &want[0], &want[1], &want[2],
                                 &want[3], &got[0], &got[1], &got[2],  &got[3]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        array_free(all[i]);
    }
}

void test_hidden(void **state) {
    (void)state;
    check_hidden(N, 64, 80, CULM_FUNCTION_ELU, true, 0.6);
    check_hidden(N, 16, 16, CULM_FUNCTION_RELU, true, 0.5);
    check_hidden(N, 7, 9, CULM_FUNCTION_TANH, true, 0.5);
    check_hidden(LEAST, 3, 3, CULM_FUNCTION_ELU, false, 0.5);
    check_hidden(LEAST, 129, 140, CULM_FUNCTION_ELU, true, 0.3);
    check_hidden(N, 33, 33, CULM_FUNCTION_GELU_TANH, true, 0);
    check_hidden(LEAST, 600, 600, CULM_FUNCTION_RELU, true, 0.5);
}
