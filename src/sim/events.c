/* Virtual time: what is to happen, and dice. */
#include "base/rng.h"
#include "sim/sim_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool before(const struct happen *a, const struct happen *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void sim_again(struct culm_sim *sim, struct happen happen) {
    if (sim->heap_count == sim->heap_capacity) {
        sim->heap_capacity = sim->heap_capacity ? 2 * sim->heap_capacity : 256;
        sim->heap = realloc(sim->heap, sim->heap_capacity * sizeof *sim->heap);
        if (!sim->heap) {
            abort(); /* a simulator without memory proves nothing */
        }
    }
    size_t i = sim->heap_count++;
    while (i > 0 && before(&happen, &sim->heap[(i - 1) / 2])) {
        sim->heap[i] = sim->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim->heap[i] = happen;
}

void sim_schedule(struct culm_sim *sim, uint64_t at_ns, struct happen happen) {
    happen.at_ns = at_ns;
    happen.order = sim->orders++;
    sim_again(sim, happen);
}

struct happen sim_next(struct culm_sim *sim) {
    struct happen top = sim->heap[0], last = sim->heap[--sim->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= sim->heap_count) {
            break;
        }
        if (child + 1 < sim->heap_count && before(&sim->heap[child + 1], &sim->heap[child])) {
            child++;
        }
        if (!before(&sim->heap[child], &last)) {
            break;
        }
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    sim->heap[i] = last;
    return top;
}

uint64_t sim_draw(struct culm_sim *sim, uint64_t bound) {
    return bound > 1 ? culm_rng_below(&sim->random_net, bound) : 0;
}

uint64_t sim_around(struct culm_sim *sim, uint64_t mean_ns) {
    return mean_ns / 2 + sim_draw(sim, mean_ns);
}

void culm_sim_log(const struct culm_sim *sim, const char *format, ...) {
    if (sim->o.log) {
        va_list args;
        va_start(args, format);
        printf("%12.3f  ", (double)sim->now_ns / 1e6);
        vprintf(format, args);
        putchar('\n');
        va_end(args);
    }
}
