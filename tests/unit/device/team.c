/* The team of threads and the device object: every tile once, floating-point control kept, refusals. */
#include "device/cpu/internal.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define TILES 997

struct counting {
    int seen[TILES];
    int busy[4];
    int overlaps, bad_control, bad_thread;
    int threads;
};

static void count_tile(void *context, int64_t tile, int thread) {
    struct counting *c = context;
    if (thread < 0 || thread >= c->threads) {
        __atomic_add_fetch(&c->bad_thread, 1, __ATOMIC_RELAXED);
        return;
    }
    if (__atomic_exchange_n(&c->busy[thread], 1, __ATOMIC_ACQ_REL)) {
        __atomic_add_fetch(&c->overlaps, 1, __ATOMIC_RELAXED);
    }
#if defined(__x86_64__)
    if ((_mm_getcsr() & 0xFFC0) != 0x9FC0) { /* nearest, masked, flush to zero both ways */
        __atomic_add_fetch(&c->bad_control, 1, __ATOMIC_RELAXED);
    }
#endif
    c->seen[tile]++;
    __atomic_store_n(&c->busy[thread], 0, __ATOMIC_RELEASE);
}

static void test_every_tile_once(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        struct culm_device *cpu;
        assert_int_equal(culm_device_new(threads, &cpu, NULL), CULM_OK);
        assert_int_equal(cpu->ops->threads(cpu), threads);
        for (int round = 0; round < 300; round++) {
            struct counting c = {.threads = threads};
            int64_t tiles = round % 3 ? round % 7 : TILES;
            culm_cpu_run(cpu_of(cpu), tiles, count_tile, &c);
            for (int64_t i = 0; i < TILES; i++) {
                assert_int_equal(c.seen[i], i < tiles);
            }
            assert_int_equal(c.overlaps + c.bad_control + c.bad_thread, 0);
        }
        culm_device_free(cpu);
    }
}

/* Has the kernel been asked for huge pages where `at` is? */
static bool asked_for_huge_pages(const void *at) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    char line[512];
    bool here = false, asked = false;
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            here = (uintptr_t)at >= from && (uintptr_t)at < to;
        } else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            asked = strstr(line, " hg") != NULL;
        }
    }
    fclose(maps);
    return asked;
}

/* With small tensors a huge page is cleared for a few bytes of it, in every process. */
static void test_small_work_takes_small_pages(void **state) {
    (void)state;
    struct culm_device *cpu;
    struct counting c = {.threads = 1};
    assert_int_equal(culm_device_new(1, &cpu, NULL), CULM_OK);
    culm_cpu_run(cpu_of(cpu), 16, count_tile, &c);
    assert_false(asked_for_huge_pages(cpu_shared(cpu_of(cpu))));
    culm_cpu_run(cpu_of(cpu), TILES, count_tile, &c);
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) == 0) {
        assert_true(asked_for_huge_pages(cpu_shared(cpu_of(cpu))));
        assert_true(asked_for_huge_pages(cpu_private(cpu_of(cpu), 0)));
    }
    culm_device_free(cpu);
}

static void test_control_word(void **state) {
    (void)state;
#if defined(__x86_64__)
    struct culm_device *cpu;
    assert_int_equal(culm_device_new(2, &cpu, NULL), CULM_OK);
    float x[4096] __attribute__((aligned(64))), toward_zero[4096], nearest[4096];
    for (int i = 0; i < 4096; i++) {
        x[i] = (float)(i - 2048) * 0.00317f;
    }
    CULM_RUN(cpu, activation_forward, .y = culm_out_f32(nearest), .x = culm_in_f32(x),
             .count = 4096, .function = CULM_FUNCTION_GELU_TANH, .alpha = 0);
    uint32_t before = _mm_getcsr();
    _mm_setcsr(0x1f80 | 0x6000); /* toward zero */
    CULM_RUN(cpu, activation_forward, .y = culm_out_f32(toward_zero), .x = culm_in_f32(x),
             .count = 4096, .function = CULM_FUNCTION_GELU_TANH, .alpha = 0);
    uint32_t after = _mm_getcsr();
    _mm_setcsr(before);
    assert_int_equal(after & 0xFFC0, (0x1f80 | 0x6000) & 0xFFC0);
    assert_memory_equal(nearest, toward_zero, sizeof nearest);
    culm_device_free(cpu);
#else
    skip();
#endif
}

/* A device made by one thread may be used by another. */
static void *use_elsewhere(void *argument) {
    float x[1024], y[1024];
    for (int i = 0; i < 1024; i++) {
        x[i] = 1;
    }
    CULM_RUN(argument, add, .y = culm_out_f32(y), .a = culm_in_f32(x), .b = culm_in_f32(x),
             .count = 1024);
    return (void *)(intptr_t)(y[1023] == 2.0f);
}

static void test_other_thread(void **state) {
    (void)state;
    struct culm_device *cpu;
    pthread_t id;
    void *right;
    assert_int_equal(culm_device_new(3, &cpu, NULL), CULM_OK);
    assert_int_equal(pthread_create(&id, NULL, use_elsewhere, cpu), 0);
    pthread_join(id, &right);
    assert_true((intptr_t)right);
    culm_device_free(cpu);
}

static void test_refusals(void **state) {
    (void)state;
    struct culm_device *cpu = NULL;
    struct culm_error error;
    assert_int_equal(culm_device_new(0, &cpu, &error), CULM_ERR_ARGUMENT);
    assert_string_equal(error.text, "threads: 0 is not in 1..256");
    assert_int_equal(culm_device_new(257, &cpu, NULL), CULM_ERR_ARGUMENT);
    assert_int_equal(culm_cpu_new(1, "abacus", &cpu, &error), CULM_ERR_MACHINE);
    assert_non_null(strstr(error.text, "abacus"));
    assert_null(cpu);
    culm_device_free(NULL);
}

/* What can change bits: not the threads, not the instruction set. */
static void test_signature(void **state) {
    (void)state;
    struct culm_device *one, *three;
    assert_int_equal(culm_device_new(1, &one, NULL), CULM_OK);
    assert_int_equal(culm_cpu_new(3, "base", &three, NULL), CULM_OK);
    assert_string_equal(one->ops->signature(one), three->ops->signature(three));
    assert_null(strchr(one->ops->signature(one), ' '));
    assert_string_equal(culm_cpu_isa(three), "base");
    assert_true(culm_cpu_device_ops.scratch_bytes(1) < culm_cpu_device_ops.scratch_bytes(3));
    culm_device_free(one);
    culm_device_free(three);
}

static void test_log(void **state) {
    (void)state;
    for (double x = 1e-300; x < 1e300; x *= 1.37) {
        double want = __builtin_log(x), got = culm_cpu_log(x);
        assert_true(__builtin_fabs(want - got) <= 1e-15 + 1e-15 * __builtin_fabs(want));
    }
    assert_true(culm_cpu_log(1) == 0);
    assert_true(culm_cpu_log(0) < -1e308);
    assert_true(culm_cpu_log(-1) != culm_cpu_log(-1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tile_once),
        cmocka_unit_test(test_small_work_takes_small_pages),
        cmocka_unit_test(test_control_word),
        cmocka_unit_test(test_other_thread),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_signature),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests_name("cpu device", tests, NULL, NULL);
}
