/*
 * Convolutions: every pass and algorithm on every instruction set and 1, 2 and 3 threads (the slow
 * base on one) against the reference, in f32 and with bf16 images, with equal bits on all of them, and
 * other bits where sums have another order; the reference's gradients against finite differences; what the shapes allow.
 *
 *     CULM_TEST_SEED=N      another seed than 1
 */
#include "conv.h"

static const char *const passes[] = {"forward", "backward data", "backward weight"};

static struct culm_in in(const struct array *a) {
    return a->bf16 ? (struct culm_in){a->bf16, CULM_BF16} : culm_in_f32(a->f32);
}
static struct culm_out out(struct array *a) {
    return a->bf16 ? (struct culm_out){a->bf16, CULM_BF16} : culm_out_f32(a->f32);
}

static void settle(struct array *a) { /* f32 says what bf16 holds */
    for (int64_t i = 0; a->bf16 && i < a->count; i++) {
        a->f32[i] = widen(a->bf16[i]);
    }
}

static void pass_run(struct culm_device *cpu, const struct culm_conv *v, enum culm_conv_pass pass,
                     enum culm_conv_algorithm algorithm, struct set *s, bool bias, bool first) {
    struct array *a = s->a;
    if (pass == CULM_CONV_FORWARD) {
        if (cpu) {
            CULM_RUN(cpu, conv_forward, .conv = v, .algorithm = algorithm, .y = out(&a[Y]),
                     .x = in(&a[X]), .w = a[W].f32, .b = bias ? a[B].f32 : NULL);
        } else {
            culm_ref_conv_forward(v, a[Y].f32, a[X].f32, a[W].f32, bias ? a[B].f32 : NULL);
        }
    } else if (pass == CULM_CONV_BACKWARD_DATA) {
        if (cpu) {
            CULM_RUN(cpu, conv_backward_data, .conv = v, .algorithm = algorithm, .dx = out(&a[DX]),
                     .dy = in(&a[DY]), .w = a[W].f32);
        } else {
            culm_ref_conv_backward_data(v, a[DX].f32, a[DY].f32, a[W].f32);
        }
    } else {
        float *db = bias ? a[DB].f32 : NULL;
        if (cpu) {
            CULM_RUN(cpu, conv_backward_weight, .conv = v, .algorithm = algorithm, .dw = a[DW].f32,
                     .db = db, .x = in(&a[X]), .dy = in(&a[DY]), .first = first);
        } else {
            culm_ref_conv_backward_weight(v, a[DW].f32, db, a[X].f32, a[DY].f32, first);
        }
    }
}

/* The results of a pass. */
static const int results[CULM_CONV_PASSES][2] = {{Y, Y}, {DX, DX}, {DW, DB}};

/* The same inputs, and results of its own: numbers are drawn once for all devices. */
static struct set share_inputs(const struct set *inputs, enum culm_conv_pass pass) {
    struct set s = *inputs;
    for (int r = 0; r < 2 && (r == 0 || results[pass][1] != results[pass][0]); r++) {
        s.a[results[pass][r]] = array_copy(&inputs->a[results[pass][r]]);
    }
    return s;
}

static void free_results(struct set *s, enum culm_conv_pass pass) {
    for (int r = 0; r < 2 && (r == 0 || results[pass][1] != results[pass][0]); r++) {
        array_free(&s->a[results[pass][r]]);
    }
}

static float largest(const struct array *a) {
    float most = 0;
    for (int64_t j = 0; j < a->count; j++) {
        most = fmaxf(most, fabsf(a->f32[j]));
    }
    return most;
}

/* Moves the terms of sums over channels, of gradients of weights over images; where it is the same, those over
 * taps and pixels too, but for Winograd's, whose transforms are not the same from both ends. */
static void conv_astray(struct set *s, const struct culm_conv *v, enum culm_conv_pass pass,
                        bool turns, bool back) {
    struct array *a = s->a;
    int64_t cg = v->c / v->groups, og = v->o / v->groups, taps = v->kh * v->kw, g = v->groups;
    int64_t in = v->h * v->w, pixels = v->oh * v->ow;
    if (pass == CULM_CONV_FORWARD) {
        astray(a[X].f32, v->n * in * g, cg, 1, back);
        astray(a[W].f32, v->o, cg, taps, back);
    } else if (pass == CULM_CONV_BACKWARD_DATA) {
        astray(a[DY].f32, v->n * pixels * g, og, 1, back);
        astray(a[W].f32, g, og, cg * taps, back);
    } else {
        astray(a[X].f32, 1, v->n, in * v->c, back);
        astray(a[DY].f32, 1, v->n, pixels * v->o, back);
    }
    for (int d = 0; d < 2 && turns; d++) {
        astray_turned(a[d ? DX : X].f32, v->n, in, v->c);
        astray_turned(a[d ? DY : Y].f32, v->n, pixels, v->o);
        astray_turned(a[d ? DW : W].f32, v->o * cg, taps, 1);
    }
}

/* The negative control: which of the pass's results have other bits in f32 when its sums go through their terms
 * in another order. They must be near. */
static int astray_shows(int index, enum culm_conv_pass pass, enum culm_conv_algorithm algorithm,
                        bool half) {
    struct culm_conv v = geometry(index);
    struct culm_device *cpu = NULL;
    struct set plain = set_new(&v, half, (uint64_t)index),
               moved = set_new(&v, half, (uint64_t)index);
    bool turns = same_turned(&v) && algorithm != CULM_CONV_WINOGRAD;
    int shown = 0;
    for (int k = 0; k < ISAS * THREADS && !cpu; k++) {
        cpu = cpu_for(k, &v);
    }
    for (int i = 0; cpu && i < 2; i++) {
        struct set *s = i ? &moved : &plain;
        if (i) {
            conv_astray(s, &v, pass, turns, false);
        }
        for (int k = 0; k < ARRAYS; k++) {
            for (int64_t j = 0; s->a[k].bf16 && j < s->a[k].count; j++) {
                s->a[k].bf16[j] = rounded(s->a[k].f32[j]);
            }
            if (k == results[pass][0]) {
                free(s->a[k].bf16);
                s->a[k].bf16 = NULL;
            }
        }
        pass_run(cpu, &v, pass, algorithm, s, true, true);
        if (i) {
            conv_astray(s, &v, pass, turns, true);
        }
    }
    for (int r = 0; cpu && r < 2; r++) {
        const struct array *p = &plain.a[results[pass][r]], *m = &moved.a[results[pass][r]];
        double near = (double)largest(p) * (half ? 1e-3 : 3e-5);
        for (int64_t j = 0; j < p->count; j++) {
            if (!(fabs((double)p->f32[j] - (double)m->f32[j]) <= near)) {
                fail_msg("geometry %d %s %s in another order: element %lld is %g, not %g", index,
                         passes[pass], culm_conv_algorithm_name(algorithm), (long long)j,
                         (double)m->f32[j], (double)p->f32[j]);
            }
        }
        shown |= memcmp(p->f32, m->f32, (size_t)p->count * 4) ? 1 << r : 0;
    }
    set_free(&plain);
    set_free(&moved);
    return shown;
}

static void geometry_test(int index, enum culm_conv_pass pass, enum culm_conv_algorithm algorithm,
                          bool half, bool bias, bool first) {
    struct culm_conv v = geometry(index);
    char where[160];
    uint64_t stream = (uint64_t)index;
    struct set inputs = set_new(&v, half, stream), want = share_inputs(&inputs, pass), leader = {0};
    bool led = false;
    pass_run(NULL, &v, pass, algorithm, &want, bias, first);
    for (int k = 0; k < ISAS * THREADS; k++) {
        struct culm_device *cpu = cpu_for(k, &v);
        if (!cpu) {
            continue;
        }
        snprintf(where, sizeof where, "geometry %d %s %s %s%s%s, %s, %d threads", index,
                 passes[pass], culm_conv_algorithm_name(algorithm), half ? "bf16" : "f32",
                 bias ? ", bias" : "", first ? "" : ", added", isas[k / THREADS], k % THREADS + 1);
        struct set got = share_inputs(&inputs, pass);
        pass_run(cpu, &v, pass, algorithm, &got, bias, first);
        for (int r = 0; r < 2; r++) {
            int i = results[pass][r];
            guard_check(&got.a[i], where);
            settle(&got.a[i]);
            struct array *g = &got.a[i], *w = &want.a[i];
            double most = (double)largest(w);
            double tolerance = algorithm == CULM_CONV_WINOGRAD ? 3e-5 : 5e-6;
            if (g->bf16) {
                tolerance = 0.0045;
            }
            for (int64_t j = 0; j < w->count; j++) {
                if (i == DB && !bias) {
                    break;
                }
                double error = fabs((double)g->f32[j] - (double)w->f32[j]);
                if (!(error <= tolerance * most)) {
                    fail_msg("%s: element %lld is %g, reference %g (largest %g)", where,
                             (long long)j, (double)g->f32[j], (double)w->f32[j], most);
                }
            }
            if (led && memcmp(g->f32, leader.a[i].f32, (size_t)g->count * 4)) {
                fail_msg("%s: other bits than the first", where);
            }
        }
        if (!led) {
            leader = got;
            led = true;
        } else {
            free_results(&got, pass);
        }
    }
    free_results(&leader, pass);
    free_results(&want, pass);
    set_free(&inputs);
}

static void pass_test(enum culm_conv_pass pass, enum culm_conv_algorithm algorithm) {
    int shown[2] = {0, 0}; /* f32, bf16 */
    for (int i = 0; i < GEOMETRIES; i++) {
        struct culm_conv v = geometry(i);
        if (!culm_conv_algorithm_possible(&v, pass, algorithm)) {
            continue;
        }
        for (int how = 0; how < 4; how++) {
            bool half = how & 1, other = how >> 1 & 1;
            geometry_test(i, pass, algorithm, half, other != half, other);
            if (!other) {
                shown[half] |= astray_shows(i, pass, algorithm, half);
            }
        }
    }
    assert_int_equal(shown[0], 3); /* both results: in other bits */
    assert_int_equal(shown[1], 3);
}

static void direct_forward(void **state) {
    (void)state;
    pass_test(CULM_CONV_FORWARD, CULM_CONV_DIRECT);
}
static void direct_backward_data(void **state) {
    (void)state;
    pass_test(CULM_CONV_BACKWARD_DATA, CULM_CONV_DIRECT);
}
static void direct_backward_weight(void **state) {
    (void)state;
    pass_test(CULM_CONV_BACKWARD_WEIGHT, CULM_CONV_DIRECT);
}
static void winograd_forward(void **state) {
    (void)state;
    pass_test(CULM_CONV_FORWARD, CULM_CONV_WINOGRAD);
}
static void winograd_backward_data(void **state) {
    (void)state;
    pass_test(CULM_CONV_BACKWARD_DATA, CULM_CONV_WINOGRAD);
}
static void winograd_backward_weight(void **state) {
    (void)state;
    pass_test(CULM_CONV_BACKWARD_WEIGHT, CULM_CONV_WINOGRAD);
}

/* The sum of y, weighted with dy. */
static double weighted(const struct culm_conv *v, struct set *s) {
    pass_run(NULL, v, CULM_CONV_FORWARD, CULM_CONV_DIRECT, s, true, true);
    double sum = 0;
    for (int64_t i = 0; i < s->a[Y].count; i++) {
        sum += (double)s->a[Y].f32[i] * (double)s->a[DY].f32[i];
    }
    return sum;
}

static void reference_gradients(void **state) {
    (void)state;
    static const int pairs[][2] = {{X, DX}, {W, DW}, {B, DB}};
    for (int g = 0; g < GEOMETRIES; g++) {
        struct culm_conv v = geometry(g);
        if (culm_conv_flops(&v) > 2e5) {
            continue;
        }
        struct set s = set_new(&v, false, 1000 + (uint64_t)g);
        pass_run(NULL, &v, CULM_CONV_BACKWARD_DATA, CULM_CONV_DIRECT, &s, true, true);
        pass_run(NULL, &v, CULM_CONV_BACKWARD_WEIGHT, CULM_CONV_DIRECT, &s, true, true);
        uint64_t rng = culm_rng_mix(seed(), 77);
        for (int p = 0; p < 3; p++) {
            for (int trial = 0; trial < 12; trial++) {
                struct array *a = &s.a[pairs[p][0]];
                int64_t at = (int64_t)culm_rng_below(&rng, (uint64_t)a->count);
                float was = a->f32[at];
                a->f32[at] = was + 0.5f;
                double up = weighted(&v, &s);
                a->f32[at] = was - 0.5f;
                double down = weighted(&v, &s);
                a->f32[at] = was;
                double want = up - down, got = (double)s.a[pairs[p][1]].f32[at];
                if (fabs(want - got) > 2e-4 * (1 + fabs(want))) {
                    fail_msg("geometry %d, gradient %d: %g, differences say %g", g, p, got, want);
                }
            }
        }
        set_free(&s);
    }
}

static void algorithms(void **state) {
    (void)state;
    for (int i = 0; i < GEOMETRIES; i++) {
        struct culm_conv v = geometry(i);
        for (int pass = 0; pass < CULM_CONV_PASSES; pass++) {
            enum culm_conv_algorithm a = culm_conv_algorithm_default(&v, pass);
            assert_true(a != CULM_CONV_AUTO && culm_conv_algorithm_possible(&v, pass, a));
            assert_true(culm_conv_algorithm_possible(&v, pass, CULM_CONV_DIRECT));
        }
    }
}

int main(int argc, char **argv) {
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(algorithms),
        cmocka_unit_test(reference_gradients),
        cmocka_unit_test(direct_forward),
        cmocka_unit_test(direct_backward_data),
        cmocka_unit_test(direct_backward_weight),
        cmocka_unit_test(winograd_forward),
        cmocka_unit_test(winograd_backward_data),
        cmocka_unit_test(winograd_backward_weight),
    };
    printf("seed %llu (CULM_TEST_SEED)\n", (unsigned long long)seed());
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
