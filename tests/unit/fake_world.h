/* A world that does nothing and writes down everything: for testing one actor at a time. */
#ifndef CULM_TESTS_FAKE_WORLD_H
#define CULM_TESTS_FAKE_WORLD_H

#include "base/buf.h"
#include "net/leader.h"
#include "net/world.h"

#define FAKE_MAX 512
#define FAKE_ROLES 3
#define FAKE_TIMERS 16

struct fake_sent {
    int32_t to;
    uint16_t type;
    uint32_t meta_bytes;
    uint8_t *meta;
    struct culm_blob *payload; /* a reference; NULL: none */
};

struct fake_world {
    struct culm_world world; /* first member */
    struct culm_agent agent;
    struct culm_record record; /* counts; `written` is for the test to call */
    int32_t deeds, give_ups;
    enum culm_deed deed; /* that was asked for last */
    int64_t deed_step;
    char deed_about[CULM_DEED_ABOUT_MAX];
    uint64_t now_ns;
    uint64_t timer_ns[FAKE_TIMERS]; /* when each is to fire; CULM_NEVER: it is not set */
    struct fake_sent sent[FAKE_MAX];
    int32_t sent_count;
    struct culm_job *run[FAKE_MAX], *io[FAKE_MAX]; /* asked for and not yet done, in order */
    int32_t run_count, io_count;
    char event[FAKE_MAX][32];
    json_t *told[FAKE_MAX]; /* the same events as a whole */
    int32_t event_count;
    int32_t started, ended, exit_code; /* -1: still there */
    int32_t started_as[FAKE_ROLES];
    uint32_t role[FAKE_MAX];    /* of a node, as the agent says */
    char error[CULM_ERROR_MAX]; /* with which it left */
    /* NULL, or told of everything that is sent, before it can be forgotten. */
    void (*on_sent)(struct fake_world *fake, const struct fake_sent *sent);
};

void fake_world_init(struct fake_world *fake);
void fake_world_release(struct fake_world *fake);
/* Forgets what was sent and published. */
void fake_world_forget(struct fake_world *fake);
int32_t fake_world_sent(const struct fake_world *fake, int32_t to, uint16_t type); /* how often */
int32_t fake_world_events(const struct fake_world *fake, const char *name);
/* The last event of that name, for as long as it is not forgotten; NULL: there was none. */
const json_t *fake_world_told(const struct fake_world *fake, const char *name);
/* The last one to it of that type; NULL: there was none. */
const struct fake_sent *fake_world_last(const struct fake_world *fake, int32_t to, uint16_t type);
/* The first job waits no longer, and what it is embedded in is returned; the caller calls job_done.
 * NULL: there is none. */
void *fake_world_run(struct fake_world *fake);
void *fake_world_io(struct fake_world *fake);

#endif
