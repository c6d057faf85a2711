#include "fake_world.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_world *self(struct culm_world *world) { return (struct fake_world *)world; }

static uint64_t fake_now(struct culm_world *world) { return self(world)->now_ns; }

static void fake_send(struct culm_world *world, int32_t to, const struct culm_message *message) {
    struct fake_world *fake = self(world);
    if (fake->sent_count == FAKE_MAX) {
        abort();
    }
    struct fake_sent *sent = &fake->sent[fake->sent_count++];
    *sent = (struct fake_sent){to, message->type, message->meta_bytes, NULL,
                               culm_blob_ref(message->payload)};
    sent->meta = malloc(message->meta_bytes + 1);
    if (message->meta_bytes != 0) {
        memcpy(sent->meta, message->meta, message->meta_bytes);
    }
    if (fake->on_sent) {
        fake->on_sent(fake, sent);
    }
}

static void fake_timer(struct culm_world *world, uint32_t timer, uint64_t delay_ns) {
    struct fake_world *fake = self(world);
    fake->timer_ns[timer] = delay_ns == CULM_NEVER ? CULM_NEVER : fake->now_ns + delay_ns;
}

static void fake_run(struct culm_world *world, struct culm_job *job) {
    struct fake_world *fake = self(world);
    fake->run[fake->run_count++] = job;
}

static void fake_io(struct culm_world *world, struct culm_job *job) {
    struct fake_world *fake = self(world);
    fake->io[fake->io_count++] = job;
}

static void fake_fault(struct culm_world *world, const struct culm_fault_point *point) {
    (void)world;
    (void)point;
}

static void fake_publish(struct culm_world *world, json_t *take_event) {
    struct fake_world *fake = self(world);
    const char *name = json_string_value(json_object_get(take_event, "event"));
    if (fake->event_count < FAKE_MAX) {
        snprintf(fake->event[fake->event_count], sizeof fake->event[0], "%s", name);
        fake->told[fake->event_count++] = json_incref(take_event);
    }
    json_decref(take_event);
}

static struct fake_world *of_agent(struct culm_agent *agent) {
    return (struct fake_world *)((char *)agent - offsetof(struct fake_world, agent));
}

static void fake_start(struct culm_agent *agent, uint32_t role) {
    if (role >= FAKE_ROLES) {
        abort();
    }
    of_agent(agent)->started++;
    of_agent(agent)->started_as[role]++;
}

static void fake_end(struct culm_agent *agent, int32_t node) {
    (void)node;
    of_agent(agent)->ended++;
}

static uint32_t fake_role(struct culm_agent *agent, int32_t node) {
    return node < FAKE_MAX ? of_agent(agent)->role[node] : 0;
}

static const struct culm_agent_ops fake_agent_ops = {
    .size = sizeof fake_agent_ops, .start = fake_start, .end = fake_end, .role = fake_role};

static void fake_leave(struct culm_world *world, int exit_code, const struct culm_error *error) {
    struct fake_world *fake = self(world);
    fake->exit_code = exit_code;
    snprintf(fake->error, sizeof fake->error, "%s", error ? error->text : "");
}

static const struct culm_world_ops fake_ops = {
    .size = sizeof fake_ops,
    .now_ns = fake_now,
    .send = fake_send,
    .timer = fake_timer,
    .run = fake_run,
    .io = fake_io,
    .fault = fake_fault,
    .publish = fake_publish,
    .leave = fake_leave,
};

static struct fake_world *of_record(struct culm_record *record) {
    return (struct fake_world *)((char *)record - offsetof(struct fake_world, record));
}

static void record_write(struct culm_record *record, enum culm_deed deed, int64_t step,
                         const char *about) {
    struct fake_world *fake = of_record(record);
    fake->deeds++;
    fake->deed = deed;
    fake->deed_step = step;
    snprintf(fake->deed_about, sizeof fake->deed_about, "%s", about);
}

static void record_give_up(struct culm_record *record) { of_record(record)->give_ups++; }

static const struct culm_record_ops fake_record_ops = {sizeof fake_record_ops, record_write,
                                                       record_give_up};

void fake_world_init(struct fake_world *fake) {
    memset(fake, 0, sizeof *fake);
    fake->world.ops = &fake_ops;
    fake->agent.ops = &fake_agent_ops;
    fake->record.ops = &fake_record_ops;
    fake->now_ns = 1000000000;
    memset(fake->timer_ns, 0xff, sizeof fake->timer_ns);
    fake->exit_code = -1;
}

void fake_world_forget(struct fake_world *fake) {
    for (int32_t i = 0; i < fake->sent_count; i++) {
        free(fake->sent[i].meta);
        culm_blob_unref(fake->sent[i].payload);
    }
    for (int32_t i = 0; i < fake->event_count; i++) {
        json_decref(fake->told[i]);
    }
    fake->sent_count = fake->event_count = 0;
}

void fake_world_release(struct fake_world *fake) { fake_world_forget(fake); }

int32_t fake_world_sent(const struct fake_world *fake, int32_t to, uint16_t type) {
    int32_t count = 0;
    for (int32_t i = 0; i < fake->sent_count; i++) {
        count += fake->sent[i].to == to && fake->sent[i].type == type;
    }
    return count;
}

const struct fake_sent *fake_world_last(const struct fake_world *fake, int32_t to, uint16_t type) {
    int32_t i = fake->sent_count - 1;
    while (i >= 0 && (fake->sent[i].to != to || fake->sent[i].type != type)) {
        i--;
    }
    return i >= 0 ? &fake->sent[i] : NULL;
}

int32_t fake_world_events(const struct fake_world *fake, const char *name) {
    int32_t count = 0;
    for (int32_t i = 0; i < fake->event_count; i++) {
        count += strcmp(fake->event[i], name) == 0;
    }
    return count;
}

const json_t *fake_world_told(const struct fake_world *fake, const char *name) {
    int32_t i = fake->event_count - 1;
    while (i >= 0 && strcmp(fake->event[i], name) != 0) {
        i--;
    }
    return i >= 0 ? fake->told[i] : NULL;
}

static void *first(struct culm_job **queue, int32_t *count) {
    if (*count == 0) {
        return NULL;
    }
    struct culm_job *job = queue[0];
    memmove(queue, queue + 1, (size_t)-- * count * sizeof *queue);
    job->status = CULM_OK;
    return job;
}

void *fake_world_run(struct fake_world *fake) { return first(fake->run, &fake->run_count); }

void *fake_world_io(struct fake_world *fake) { return first(fake->io, &fake->io_count); }
