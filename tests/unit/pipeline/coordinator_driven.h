/*
 * A coordinator alone, in a fake world, driven by a test that plays its workers. Failures end the
 * test (cmocka). Thread: the test's.
 */
#ifndef TESTS_UNIT_PIPELINE_COORDINATOR_DRIVEN_H
#define TESTS_UNIT_PIPELINE_COORDINATOR_DRIVEN_H

#include "../fake_world.h"

#include "ledger/pulse.h"
#include "pipeline/control.h"
#include "pipeline/coordinator.h"
#include "pipeline/message.h"

#define STAGES 2
#define MS 1000000ull

/* Two stages with a parameter each; the second has the statistics too. */
extern const struct culm_layout layout;

struct fixture {
    struct fake_world fake;
    struct culm_coordinator *c;
    struct culm_buf buf;
    int32_t next; /* id of the next worker to come */
    int32_t asked;
};

/* World and agent of `o` are set here. */
void begin(struct fixture *f, struct culm_coordinator_options o);
void end(struct fixture *f);
struct culm_coordinator_totals totals(const struct fixture *f);
void joined(struct fixture *f, int32_t node);
void lost(struct fixture *f, int32_t node);
void ended(struct fixture *f, int32_t node);
/* What lies in the buffer, as a message of `from`. */
void deliver(struct fixture *f, int32_t from, uint16_t type);
/* Lets so much time pass. */
void tick(struct fixture *f, uint64_t ms);

/* Says the message of that name. */
#define SAY(f, from, TYPE, name, ...)                                                              \
    do {                                                                                           \
        const struct culm_##name name##_ = {__VA_ARGS__};                                          \
        culm_##name##_encode(&name##_, &(f)->buf);                                                 \
        deliver(f, from, CULM_MSG_##TYPE);                                                         \
    } while (0)

#endif
