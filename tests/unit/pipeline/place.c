/* Who sits where: as few stages as possible lose all copies with a machine, or with a zone. */
#include "pipeline/place.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS_MAX 6
#define MACHINE (INT64_C(1) << 20)

static int64_t least_of(struct culm_place *place, const struct culm_place_node *node, int32_t count,
                        int32_t slot, unsigned used) {
    const int32_t slots = place->pipelines * place->stages;
    int64_t least = INT64_MAX;
    if (slot == slots) {
        return culm_place_exposed(place, node);
    }
    for (int32_t i = 0; i < count; i++) {
        if (!(used >> i & 1)) {
            place->seat[slot] = i;
            int64_t now = least_of(place, node, count, slot + 1, used | 1u << i);
            least = now < least ? now : least;
        }
    }
    return least;
}

static void check_seats(const struct culm_place *place, int32_t count) {
    const int32_t slots = place->pipelines * place->stages;
    unsigned used = 0;
    for (int32_t slot = 0; slot < slots; slot++) {
        if (slot < count) {
            assert_in_range(place->seat[slot], 0, count - 1);
            assert_false(used >> place->seat[slot] & 1);
            used |= 1u << place->seat[slot];
        } else {
            assert_int_equal(place->seat[slot], -1);
        }
    }
}

/* Of small places it finds the best there is, whichever machines nodes are on. */
static void test_the_best_of_all(void **state) {
    (void)state;
    static const int32_t shapes[][2] = {{1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 6},
                                        {2, 2}, {2, 3}, {3, 2}, {3, 1}};
    uint64_t seed = 5;
    int improved = 0, zero = 0, more = 0;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        for (int draw = 0; draw < 40; draw++) {
            int32_t seat[SLOTS_MAX], best[SLOTS_MAX];
            struct culm_place_node node[SLOTS_MAX];
            struct culm_place place = {shapes[k][0], shapes[k][1], draw % 4 != 0, seat};
            const int32_t slots = place.pipelines * place.stages;
            const uint64_t machines = 1 + culm_rng_below(&seed, 4);
            for (int32_t i = 0; i < slots; i++) {
                node[i].machine = culm_rng_below(&seed, machines);
                node[i].zone = draw % 3 ? 0 : node[i].machine % 2;
            }
            for (int32_t i = 0; i < slots; i++) {
                seat[i] = i;
            }
            const int64_t in_order = culm_place_exposed(&place, node);
            culm_place_all(&place, node, slots);
            check_seats(&place, slots);
            const int64_t found = culm_place_exposed(&place, node);
            struct culm_place other = place;
            other.seat = best;
            const int64_t least = least_of(&other, node, slots, 0, 0);
            assert_true(found <= in_order);
            if (found != least) {
                fail_msg("%d x %d, draw %d: %lld instead of %lld", (int)place.pipelines,
                         (int)place.stages, draw, (long long)found, (long long)least);
            }
            improved += found < in_order;
            zero += found == 0;
            more += found >= MACHINE;
        }
    }
    print_message("%d better than in order, %d not exposed, %d on one machine\n", improved, zero,
                  more);
    assert_true(improved > 20 && zero > 20 && more > 20);
}

static void test_what_is_well_stays(void **state) {
    (void)state;
    int32_t seat[4];
    const struct culm_place_node node[] = {{1, 0}, {2, 1}, {1, 0}, {2, 1}};
    struct culm_place place = {1, 4, true, seat};
    culm_place_all(&place, node, 4);
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(seat[i], i);
    }
    assert_int_equal(culm_place_exposed(&place, node), 0);
    assert_int_equal(culm_place_exposed_at(&place, node, 2), 0);
}

static void test_one_machine_has_nothing_better(void **state) {
    (void)state;
    int32_t seat[4];
    const struct culm_place_node node[4] = {{7, 1}, {7, 1}, {7, 1}, {7, 1}};
    struct culm_place place = {2, 2, true, seat};
    culm_place_all(&place, node, 4);
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(seat[i], i);
    }
    assert_int_equal(culm_place_exposed(&place, node), 2 * (MACHINE + 1));
}

/* Those of two machines that come one after the other; more than there are seats; fewer. */
static void test_more_and_fewer_than_seats(void **state) {
    (void)state;
    int32_t seat[6];
    const struct culm_place_node node[] = {{1, 0}, {1, 0}, {1, 0}, {1, 0},
                                           {2, 0}, {2, 0}, {2, 0}, {2, 0}};
    struct culm_place place = {1, 6, true, seat};
    culm_place_all(&place, node, 8);
    check_seats(&place, 8);
    assert_true(culm_place_exposed(&place, node) < MACHINE);
    culm_place_all(&place, node, 5);
    check_seats(&place, 5);
}

/* A thousand nodes, eight on a machine, come in order. */
static void test_many(void **state) {
    (void)state;
    enum { PIPELINES = 8, STAGES = 120, COUNT = PIPELINES * STAGES };
    int32_t *seat = calloc(COUNT, sizeof *seat);
    struct culm_place_node *node = calloc(COUNT, sizeof *node);
    assert_true(seat && node);
    for (int32_t i = 0; i < COUNT; i++) {
        node[i] = (struct culm_place_node){(uint64_t)i / 480, (uint64_t)i / 480};
    }
    struct culm_place place = {PIPELINES, STAGES, true, seat};
    culm_place_all(&place, node, COUNT);
    assert_int_equal(culm_place_exposed(&place, node), 0);
    place.pipelines = 1;
    culm_place_all(&place, node, STAGES);
    assert_int_equal(culm_place_exposed(&place, node),
                     STAGES * (MACHINE + 1)); /* all of one machine */
    for (int32_t i = 0; i < STAGES; i++) {
        node[i].machine = node[i].zone = i >= STAGES / 2;
    }
    culm_place_all(&place, node, STAGES);
    assert_int_equal(culm_place_exposed(&place, node), 0);
    free(seat);
    free(node);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_of_all),
        cmocka_unit_test(test_what_is_well_stays),
        cmocka_unit_test(test_one_machine_has_nothing_better),
        cmocka_unit_test(test_more_and_fewer_than_seats),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
