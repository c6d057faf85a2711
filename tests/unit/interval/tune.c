/* How many workers `workers: auto` comes to, on made-up clusters. */
#include "interval/tune.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A cluster: what an epoch of it takes with so many workers. */
struct cluster {
    double server_s; /* what servers do by themselves */
    double task_s;   /* what one worker would take for all tasks */
    double crowd_s;  /* what each worker adds to everybody's transfers */
    double alone;    /* how much longer servers take for the tasks than a worker */
    double noise;    /* share */
    int64_t pauses;  /* one epoch in so many takes an hour more; 0: none */
    int32_t most;
};

static double seconds_of(const struct cluster *c, int32_t workers) {
    double tasks = workers ? c->task_s / workers : c->alone * c->task_s;
    return (workers && tasks > c->server_s ? tasks : c->server_s + (workers ? 0 : tasks)) +
           c->crowd_s * workers;
}

static const struct culm_gnn_tune_options base = {
    .samples = 3, .usd_per_s = 1e-4, .worker_usd_per_s = 2e-5};

static struct culm_gnn_tune_options options_of(enum culm_gnn_tune goal, int32_t first,
                                               int32_t most) {
    struct culm_gnn_tune_options o = base;
    o.goal = goal;
    o.first = first;
    o.most = most;
    return o;
}

static double best_of(const struct cluster *c, const struct culm_gnn_tune_options *o) {
    double best = INFINITY;
    for (int32_t n = 0; n <= o->most; n++) {
        double cost = culm_gnn_tune_cost(o, n, seconds_of(c, n));
        best = cost < best ? cost : best;
    }
    return best;
}

/* Lives through `epochs`, in which as many workers are there as were asked for an epoch before. */
static void live(struct culm_gnn_tuner *t, const struct cluster *c, int64_t epochs, uint64_t *dice,
                 int32_t *changes) {
    int32_t there = t->workers;
    for (int64_t e = 1; e <= epochs; e++) {
        double seconds = seconds_of(c, there);
        double tasks = there ? c->task_s / there : 0;
        seconds *= 1 + c->noise * ((double)culm_rng_below(dice, 2001) / 1000 - 1);
        seconds += c->pauses > 0 && e % c->pauses == 0 ? 3600 : 0;
        const struct culm_gnn_tune_epoch epoch = {.seconds = seconds,
                                                  .workers = there,
                                                  .gathers = tasks < c->server_s ? 4 : 0.1,
                                                  .applies = tasks > c->server_s ? 4 : 0.1,
                                                  .left = epochs - e};
        there = t->workers;
        *changes += culm_gnn_tune_add(t, &epoch);
        assert_in_range(t->workers, 0, t->o.most);
    }
}

/* Ends within five per cent of the best of all numbers, of every goal, and stays there. */
static void test_comes_to_the_best(void **state) {
    (void)state;
    uint64_t dice = 41;
    for (int i = 0; i < 3000; i++) {
        struct cluster c = {.server_s = 0.1 + (double)culm_rng_below(&dice, 1000) / 200,
                            .task_s = (double)culm_rng_below(&dice, 1000) / 10,
                            .crowd_s = (double)culm_rng_below(&dice, 100) / 2000,
                            .alone = 0.5 + (double)culm_rng_below(&dice, 40) / 20,
                            .most = 1 + (int32_t)culm_rng_below(&dice, 200)};
        enum culm_gnn_tune goal = (enum culm_gnn_tune)culm_rng_below(&dice, 3);
        struct culm_gnn_tune_options o =
            options_of(goal, 1 + (int32_t)culm_rng_below(&dice, (uint64_t)c.most), c.most);
        struct culm_gnn_tuner *t = calloc(1, sizeof *t);
        int32_t changes = 0, late = 0;
        culm_gnn_tune_init(t, &o);
        live(t, &c, 300, &dice, &changes);
        double cost = culm_gnn_tune_cost(&o, t->workers, seconds_of(&c, t->workers));
        if (t->stage != CULM_GNN_TUNE_KEEP || cost > 1.05 * best_of(&c, &o)) {
            fail_msg("cluster %d (goal %d, up to %d): %d workers cost %g, the best %g", i, goal,
                     c.most, t->workers, cost, best_of(&c, &o));
        }
        assert_true(changes < 60);
        live(t, &c, 300, &dice, &late);
        assert_int_equal(late, 0);
        free(t);
    }
}

/* With epochs that differ by a tenth at random: not far off, and not for ever on the move. */
static void test_noise(void **state) {
    (void)state;
    uint64_t dice = 43;
    double worst = 0, sum = 0;
    for (int i = 0; i < 500; i++) {
        struct cluster c = {.server_s = 1,
                            .task_s = 5 + (double)culm_rng_below(&dice, 400) / 10,
                            .crowd_s = 0.01,
                            .alone = 1,
                            .noise = 0.1,
                            .most = 64};
        struct culm_gnn_tune_options o = options_of(CULM_GNN_TUNE_VALUE, 64, 64);
        struct culm_gnn_tuner *t = calloc(1, sizeof *t);
        int32_t changes = 0;
        culm_gnn_tune_init(t, &o);
        live(t, &c, 1000, &dice, &changes);
        double cost = culm_gnn_tune_cost(&o, t->workers, seconds_of(&c, t->workers));
        double off = cost / best_of(&c, &o);
        worst = off > worst ? off : worst;
        sum += off;
        assert_true(changes < 40);
        free(t);
    }
    print_message("# mean %.3f, worst %.3f of the best\n", sum / 500, worst);
    assert_true(sum / 500 < 1.05 && worst < 1.5);
}

/* What it is told of the queue decides the first step. */
static void test_the_queue(void **state) {
    (void)state;
    struct culm_gnn_tune_options o = options_of(CULM_GNN_TUNE_TIME, 40, 80);
    struct culm_gnn_tuner t;
    struct culm_gnn_tune_epoch epoch = {.seconds = 1, .workers = 40, .gathers = 9, .left = 100};
    culm_gnn_tune_init(&t, &o);
    for (int i = 0; i < 3; i++) { /* one to settle is not asked for at the beginning */
        assert_int_equal(culm_gnn_tune_add(&t, &epoch), i == 2);
    }
    assert_int_equal(t.workers, 30);
    epoch.applies = 9;
    epoch.gathers = 0;
    culm_gnn_tune_init(&t, &o);
    for (int i = 0; i < 3; i++) {
        (void)culm_gnn_tune_add(&t, &epoch);
    }
    assert_int_equal(t.workers, 50);
    assert_int_equal(t.stage, CULM_GNN_TUNE_QUEUE);
    epoch.workers = 50;
    epoch.applies = 1;
    epoch.gathers = 0.2; /* neither grows nor shrinks: the goal decides from here */
    for (int i = 0; i < 4; i++) {
        (void)culm_gnn_tune_add(&t, &epoch);
    }
    assert_int_equal(t.stage, CULM_GNN_TUNE_SEARCH);
}

/* Workers that never come are done without; a cluster that has changed is looked at again. */
static void test_changes(void **state) {
    (void)state;
    struct cluster c = {.server_s = 1, .task_s = 20, .crowd_s = 0.01, .alone = 1, .most = 64};
    struct culm_gnn_tune_options o = options_of(CULM_GNN_TUNE_VALUE, 16, 64);
    struct culm_gnn_tuner t;
    uint64_t dice = 47;
    int32_t changes = 0;
    culm_gnn_tune_init(&t, &o);
    live(&t, &c, 300, &dice, &changes);
    c.task_s = 200;
    live(&t, &c, 300, &dice, &changes);
    double cost = culm_gnn_tune_cost(&o, t.workers, seconds_of(&c, t.workers));
    assert_true(cost <= 1.05 * best_of(&c, &o));
    culm_gnn_tune_init(&t, &o);
    for (int64_t e = 0; e < 400; e++) { /* four are there, whatever is wanted */
        const struct culm_gnn_tune_epoch epoch = {.seconds = 5, .workers = 4, .left = 400 - e};
        (void)culm_gnn_tune_add(&t, &epoch);
    }
    assert_int_equal(t.stage, CULM_GNN_TUNE_KEEP);
    assert_in_range(t.workers, 0, 4);
}

/* The machine stands still in some epochs: that changes nothing. */
static void test_pauses(void **state) {
    (void)state;
    uint64_t dice = 59;
    for (int i = 0; i < 200; i++) {
        struct cluster c = {.server_s = 1,
                            .task_s = 5 + (double)culm_rng_below(&dice, 400) / 10,
                            .crowd_s = 0.01,
                            .alone = 1,
                            .most = 32};
        const struct culm_gnn_tune_options o =
            options_of((enum culm_gnn_tune)culm_rng_below(&dice, 3), 32, 32);
        struct culm_gnn_tuner awake, paused;
        int32_t changes[2] = {0};
        culm_gnn_tune_init(&awake, &o);
        culm_gnn_tune_init(&paused, &o);
        live(&awake, &c, 300, &dice, &changes[0]);
        c.pauses = 3 + (int64_t)culm_rng_below(&dice, 9);
        live(&paused, &c, 300, &dice, &changes[1]);
        assert_int_equal(awake.workers, paused.workers);
        assert_int_equal(changes[0], changes[1]);
    }
}

/* With few epochs left nothing is tried any more. */
static void test_the_end(void **state) {
    (void)state;
    struct cluster c = {.server_s = 1, .task_s = 20, .crowd_s = 0.01, .alone = 1, .most = 64};
    struct culm_gnn_tune_options o = options_of(CULM_GNN_TUNE_VALUE, 64, 64);
    struct culm_gnn_tuner t;
    uint64_t dice = 53;
    int32_t changes = 0;
    culm_gnn_tune_init(&t, &o);
    live(&t, &c, 12, &dice, &changes);
    assert_true(changes <= 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_to_the_best),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_the_queue),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
