/* Where what has a number lies in the arena, and that the kernel has what is not held. */
#include "live/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGES 4

/* Numbers between them were never wanted and take no addresses; what is put back frees its own. */
static void only_what_is_wanted_is_placed(void **state) {
    (void)state;
    struct culm_live_arena arena;
    struct culm_live_places places = {0};
    struct culm_error error = {0};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(culm_live_arena_init(&arena, PAGES * page, 0, &error), CULM_OK);
    for (int32_t i = 0; i < PAGES - 1; i++) {
        assert_int_equal(culm_live_places_want(&places, &arena, 50 * i, page, &error), CULM_OK);
        assert_ptr_equal(places.at[50 * i], arena.base + (size_t)i * page);
    }
    assert_int_equal(culm_live_places_want(&places, &arena, 50, page, &error), CULM_OK);
    assert_ptr_equal(places.at[50], arena.base + page);
    size_t before = arena.placed;
    for (int32_t round = 1; round < 9; round++) { /* each is refused */
        assert_int_equal(culm_live_places_want(&places, &arena, 100 * round + 7, page, &error),
                         CULM_OK);
        assert_ptr_equal(places.at[100 * round + 7], arena.base + before);
        culm_live_places_forget(&places, &arena, before);
        assert_null(places.at[100 * round + 7]);
        assert_ptr_equal(places.at[50], arena.base + page);
    }
    assert_int_equal(culm_live_places_want(&places, &arena, 1, page, &error), CULM_OK);
    assert_int_equal(culm_live_places_want(&places, &arena, 2, page, &error), CULM_ERR_MEMORY);
    assert_string_equal(error.text, "no addresses left for new tensors: start again");
    culm_live_places_release(&places);
    culm_live_arena_release(&arena);
}

/* Nobody has 2^62 bytes of addresses. */
static void as_many_as_there_are(void **state) {
    (void)state;
    struct culm_error error = {0};
    struct culm_live_arena arena;
    assert_int_equal(culm_live_arena_init(&arena, 1 << 20, (size_t)1 << 62, &error), CULM_OK);
    assert_true(arena.size >= (size_t)1 << 20 && arena.size < (size_t)1 << 62);
    char *at = culm_live_arena_place(&arena, arena.size);
    assert_non_null(at);
    assert_int_equal(culm_live_arena_hold(&arena, at, arena.page, &error), CULM_OK);
    at[arena.page - 1] = 1;
    culm_live_arena_release(&arena);
    assert_int_equal(culm_live_arena_init(&arena, (size_t)1 << 62, 0, &error), CULM_ERR_MEMORY);
    assert_non_null(strstr(error.text, "reserve addresses"));
    culm_live_arena_release(&arena);
}

/* Bytes of the arena that the kernel has, from its own account. */
static size_t resident(const struct culm_live_arena *arena) {
    char line[512];
    size_t total = 0, kb;
    unsigned long from, to;
    bool inside = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            inside = from >= (uintptr_t)arena->base && to <= (uintptr_t)arena->base + arena->size;
        } else if (inside && sscanf(line, "Rss: %zu", &kb) == 1) {
            total += kb * 1024;
        }
    }
    fclose(file);
    return total;
}

static void memory_comes_and_goes(void **state) {
    struct culm_live_arena arena;
    (void)state;
    assert_int_equal(culm_live_arena_init(&arena, 64 << 20, 0, NULL), CULM_OK);
    char *one = culm_live_arena_place(&arena, 3 * arena.page + 1);
    char *other = culm_live_arena_place(&arena, 8 << 20);
    assert_int_equal(other - one, 4 * arena.page);
    assert_int_equal(resident(&arena), 0);
    assert_int_equal(culm_live_arena_hold(&arena, one, 4 * arena.page, NULL), CULM_OK);
    memset(one, 7, 4 * arena.page);
    assert_int_equal(culm_live_arena_hold(&arena, other, 8 << 20, NULL), CULM_OK);
    assert_int_equal(resident(&arena), 4 * arena.page + (8 << 20));
    assert_int_equal(one[5], 7); /* what was there stays */
    culm_live_arena_give_back(&arena, other, 8 << 20);
    assert_int_equal(resident(&arena), 4 * arena.page);
    culm_live_arena_give_back(&arena, one, 4 * arena.page);
    assert_int_equal(resident(&arena), 0);
    assert_int_equal(culm_live_arena_hold(&arena, one, arena.page, NULL), CULM_OK);
    assert_int_equal(one[5], 0);
    assert_null(culm_live_arena_place(&arena, 64 << 20));
    culm_live_arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_is_wanted_is_placed),
                                       cmocka_unit_test(as_many_as_there_are),
                                       cmocka_unit_test(memory_comes_and_goes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
