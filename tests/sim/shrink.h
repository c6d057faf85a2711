/*
 * Makes a failing history small: drops what befalls it, event by event, for as long as it still fails in the same
 * way (delta debugging, as Zeller's ddmin does it).
 *
 * A history has up to 32 *events*, one bit of a mask each: faults, and conditions such as a disk on which writes
 * fail. A seed draws all of them; a mask says which of these befall it. What is left of one is a seed and a mask, on
 * one line, which a table of histories that failed once takes as it is.
 *
 * Thread: the caller's.
 */
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include <stdbool.h>
#include <stdint.h>

#define EVERY_EVENT UINT32_MAX

/* One that failed once. */
struct kept_history {
    uint64_t seed;
    uint32_t events;
};

/* Plays the history with these events alone. Returns what is wrong, which is good until the next call; NULL: nothing. */
typedef const char *shrink_play(void *context, uint32_t events);

/* The events of which none can be left out: without any of them nothing is wrong, or something else is. `tries`: how
 * often it was played. */
uint32_t shrink(uint32_t events, shrink_play *play, void *context, int *ret_tries);

/* Are these of the same kind? Numbers and digests may differ. */
bool shrink_same(const char *one, const char *other);

/* Prints how many events are enough, the row that is kept (`more`: its other members) and the command `what` that
 * replays it; the caller adds what they are. */
void shrink_print(uint64_t seed, uint32_t all, uint32_t left, const char *more, int tries,
                  const char *what);

#endif
