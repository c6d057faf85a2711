/*
 * A leader alone, in a fake world, driven by a test that plays its workers. Failures end the
 * test (cmocka). Thread: the test's.
 */
#ifndef TESTS_UNIT_PIPELINE_LEADER_DRIVEN_H
#define TESTS_UNIT_PIPELINE_LEADER_DRIVEN_H

#include "../fake_world.h"

#include "crew/crew.h"
#include "pipeline/control.h"
#include "pipeline/leader.h"
#include "pipeline/message.h"

#define STAGES 2
#define MS 1000000ull

/* Two stages with a parameter each; the second has the statistics too. */
extern const struct culm_layout layout;

#define VIEWERS 64

struct fixture {
    struct fake_world fake; /* first member */
    struct culm_pipeline_leader *c;
    struct culm_buf buf;
    int32_t next; /* id of the next worker to come */
    int32_t asked;
    bool reads; /* there is more to read: timers without delay have to wait */
    struct culm_run_shape shape;
    struct culm_view *knows[VIEWERS]; /* what each node knows: every view that it is sent is read */
};

/* World and agent of `o` are set here. */
void begin(struct fixture *f, struct culm_pipeline_leader_options o);
void end(struct fixture *f);
/* The newest view that was sent to the node. */
const struct culm_view *newest(const struct fixture *f, int32_t node);
struct culm_pipeline_leader_totals totals(const struct fixture *f);
void joined(struct fixture *f, int32_t node);
void lost(struct fixture *f, int32_t node);
void ended(struct fixture *f, int32_t node);
/* What lies in the buffer, as a message of `from`. */
void deliver(struct fixture *f, int32_t from, uint16_t type);
/* Lets so much time pass. */
void tick(struct fixture *f, uint64_t ms);

/* Says the message of that name: one of training, or a word of any crew. */
#define SAY(f, from, TYPE, name, ...) SAY_(f, from, CULM_MSG_##TYPE, name, __VA_ARGS__)
#define SAY_WORD(f, from, TYPE, name, ...) SAY_(f, from, CULM_WORD_##TYPE, name, __VA_ARGS__)
#define SAY_(f, from, type, name, ...)                                                             \
    do {                                                                                           \
        const struct culm_##name name##_ = {__VA_ARGS__};                                          \
        culm_##name##_encode(&name##_, &(f)->buf);                                                 \
        deliver(f, from, type);                                                                    \
    } while (0)

#endif
