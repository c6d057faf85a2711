/*
 * Histories from a seed: shapes, timing and faults. See history.h.
 *
 * Half of the faults come anywhere; the others are aimed at what recovery itself does: a few
 * happenings after a loss, a view, a roll-back or a checkpoint, at the node that has just taken
 * over, at both copies of a stage, at whole pipelines, at everyone.
 */
#include "history.h"

#include "base/rng.h"

#include <stdio.h>
#include <string.h>

struct dice {
    uint64_t state;
};

static int64_t pick(struct dice *dice, int64_t n) {
    return (int64_t)culm_rng_below(&dice->state, (uint64_t)n);
}

static void pick_shape(struct dice *dice, struct culm_run_shape *shape) {
    bool large = pick(dice, 8) == 0;
    shape->pipelines = (int32_t)(1 + pick(dice, large ? 4 : 3));
    shape->stages = (int32_t)(1 + pick(dice, large ? 5 : 4));
    int32_t most = large ? 12 : 8;
    shape->lanes = shape->pipelines + (int32_t)pick(dice, most - shape->pipelines + 1);
    shape->micros_per_lane = (int32_t)(1 + pick(dice, shape->lanes > 6 ? 2 : 3));
    shape->micros = shape->lanes * shape->micros_per_lane;
    shape->micro_samples = 1 + pick(dice, 3);
    shape->global_samples = shape->micros * shape->micro_samples;
    shape->steps = 1 + pick(dice, 7);
    shape->redundancy = (enum culm_redundancy)pick(dice, 3);
    shape->clip_norm = 1.0;
}

static uint64_t pick_freeze_ms(struct dice *dice) {
    switch (pick(dice, 4)) {
    case 0: return 0;                                  /* for good */
    case 1: return (uint64_t)(1 + pick(dice, 190));    /* not even suspected */
    case 2: return (uint64_t)(210 + pick(dice, 380));  /* thaws and is fenced */
    default: return (uint64_t)(500 + pick(dice, 600)); /* about when it is killed */
    }
}

static void pick_fault(struct dice *dice, const struct culm_history *h,
                       struct culm_history_fault *fault) {
    static const char *const event[] = {"lost", "view",      "rollback", "checkpoint",
                                        "step", "recovered", "joined"};
    fault->micro = -1;
    fault->phase = (enum culm_phase)pick(dice, CULM_PHASE_COUNT);
    fault->step = 1 + pick(dice, h->shape.steps);
    fault->at_ms = (uint64_t)(10 + pick(dice, 600));
    fault->kind = pick(dice, 3)   ? CULM_FAULT_KILL
                  : pick(dice, 4) ? CULM_FAULT_FREEZE
                  : pick(dice, 2) ? CULM_FAULT_STICK
                                  : CULM_FAULT_CUT;
    fault->freeze_ms = fault->kind == CULM_FAULT_FREEZE ? pick_freeze_ms(dice) : 0;
    if (pick(dice, 2)) {
        fault->when = pick(dice, 3) ? CULM_AT_PHASE : CULM_AT_TIME;
        fault->target = pick(dice, 2) ? CULM_TARGET_ANY : CULM_TARGET_NODE;
        fault->node = (int32_t)pick(dice, h->shape.pipelines * h->shape.stages + 2);
        fault->skip = pick(dice, 2) ? 0 : (int32_t)pick(dice, 6);
        fault->with_neighbour = pick(dice, 4) == 0;
        return;
    }
    fault->when = CULM_AFTER_EVENT;
    fault->event = event[pick(dice, pick(dice, 2) ? 2 : 7)];
    fault->delay = (int32_t)(pick(dice, 2) ? pick(dice, 8) : pick(dice, 120));
    fault->skip = (int32_t)(pick(dice, 2) ? 0 : pick(dice, 5));
    fault->target = CULM_TARGET_TAKER;
    if (pick(dice, 2)) {
        fault->target = (enum culm_target)pick(dice, CULM_TARGET_COUNT);
        fault->node = (int32_t)pick(dice, h->shape.pipelines * h->shape.stages + 2);
    }
}

/* Half of the runs have streams that cut, hold up and take their time. */
static void pick_fabric(struct dice *dice, struct culm_history_fabric *fabric) {
    bool rough = pick(dice, 2);
    fabric->scratch_bytes = (size_t)(64 << pick(dice, 7));
    fabric->exit_us = (uint64_t)pick(dice, 4) ? (uint64_t)pick(dice, 6000) : 0;
    fabric->exit_us = pick(dice, 6) ? fabric->exit_us : 300000;
    fabric->unacked_ms = pick(dice, 2) ? 20000 : 0;
    fabric->piece_bytes = rough ? (size_t)(1 << pick(dice, 9)) : 0;
    fabric->short_percent = rough ? (uint32_t)pick(dice, 60) : 0;
    fabric->buffer_bytes = pick(dice, 3) ? 0 : (size_t)(200 << pick(dice, 7));
    fabric->bytes_per_ms = pick(dice, 3) ? 0 : (uint64_t)(500 << pick(dice, 6));
    fabric->backlog_full_percent = pick(dice, 8) ? 0 : (uint32_t)(1 + pick(dice, 10));
}

/* What befalls links, memory and the leader; anywhere, or soon after something happened. */
static void pick_outer_fault(struct dice *dice, const struct culm_history *h,
                             struct culm_history_fault *fault) {
    static const char *const event[] = {"lost", "view", "joined", "step", "rollback", "checkpoint"};
    static const enum culm_fault_kind kinds[] = {
        CULM_FAULT_DROP,   CULM_FAULT_DROP,   CULM_FAULT_SLOW,
        CULM_FAULT_GARBLE, CULM_FAULT_GARBLE, CULM_FAULT_DESCRIPTORS,
        CULM_FAULT_MEMORY, CULM_FAULT_CUT,    CULM_FAULT_FREEZE};
    *fault = (struct culm_history_fault){.micro = -1, .step = -1};
    fault->kind = kinds[pick(dice, sizeof kinds / sizeof *kinds)];
    fault->far = pick(dice, 3) ? pick(dice, 2) ? CULM_FAR_NEXT : CULM_FAR_ANYONE : CULM_FAR_LEADER;
    fault->inward = pick(dice, 2);
    fault->freeze_ms = (uint64_t)(1 + pick(dice, pick(dice, 2) ? 150 : 900));
    if (fault->kind == CULM_FAULT_DROP && pick(dice, 3) == 0) {
        fault->freeze_ms = 0;
    }
    fault->target = pick(dice, 2) ? CULM_TARGET_ANY : CULM_TARGET_TAKER;
    if (fault->kind == CULM_FAULT_FREEZE) {
        fault->target = CULM_TARGET_LEADER;
        fault->freeze_ms = (uint64_t)(1 + pick(dice, pick(dice, 2) ? 190 : 20000));
    }
    switch (pick(dice, 3)) {
    case 0:
        fault->when = CULM_AT_TIME;
        fault->at_ms = (uint64_t)(1 + pick(dice, 600));
        break;
    case 1:
        fault->when = CULM_AT_PHASE;
        fault->phase = (enum culm_phase)pick(dice, CULM_PHASE_COUNT);
        fault->skip = (int32_t)pick(dice, 12);
        break;
    default:
        fault->when = CULM_AFTER_EVENT;
        fault->event = event[pick(dice, 6)];
        fault->skip = (int32_t)pick(dice, 4);
        fault->delay = (int32_t)pick(dice, 60);
        break;
    }
    (void)h;
}

/* Every copy of a stage is lost after a checkpoint, and someone more while the others go back. */
static void chain_of_roll_back(struct dice *dice, struct culm_history *h) {
    h->settings.checkpoint_every = 1;
    h->shape.steps += 2;
    h->fault_count = 2 + (int32_t)pick(dice, 2);
    h->fault[0] = (struct culm_history_fault){.when = CULM_AFTER_EVENT,
                                              .event = "checkpoint",
                                              .skip = (int32_t)pick(dice, 2),
                                              .delay = (int32_t)pick(dice, 60),
                                              .target = CULM_TARGET_STAGE};
    for (int32_t i = 1; i < h->fault_count; i++) {
        static const char *const event[] = {"rollback", "view", "waiting", "lost", "joined"};
        h->fault[i] =
            (struct culm_history_fault){.when = CULM_AFTER_EVENT,
                                        .event = i == 1 ? "rollback" : event[pick(dice, 5)],
                                        .skip = i == 1 ? 0 : (int32_t)pick(dice, 6),
                                        .delay = (int32_t)pick(dice, 80),
                                        .target = CULM_TARGET_ANY};
    }
}

/* Bits that a node can find by itself, whatever else happens to the others. */
static void flips(uint64_t seed, struct culm_history *h) {
    struct dice dice = {culm_rng_mix(seed, 0xF11)};
    int64_t count = 1 + pick(&dice, 3);
    for (int64_t i = 0; i < count && h->fault_count < CULM_HISTORY_FAULTS_MAX; i++) {
        struct culm_history_fault *fault = &h->fault[h->fault_count++];
        *fault = (struct culm_history_fault){
            .when = pick(&dice, 3) ? CULM_AT_PHASE : CULM_AT_TIME,
            .phase = (enum culm_phase)pick(&dice, CULM_PHASE_COUNT),
            .step = 1 + pick(&dice, h->shape.steps),
            .micro = -1,
            .skip = (int32_t)pick(&dice, 6),
            .at_ms = (uint64_t)(10 + pick(&dice, 600)),
            .target = pick(&dice, 2) ? CULM_TARGET_ANY : CULM_TARGET_SHADOW,
            .kind = CULM_FAULT_FLIP,
            .flip = pick(&dice, 4) ? CULM_FLIP_STATE : CULM_FLIP_APPLIED,
        };
    }
}

void culm_history_from_seed(uint64_t seed, struct culm_history *ret_history) {
    struct dice dice = {culm_rng_mix(seed, 0xC02)};
    struct culm_history h = {.seed = seed};
    pick_shape(&dice, &h.shape);
    h.settings = (struct culm_pipeline_settings){
        .crew = {.heartbeat_ms = 20,
                 .suspect_ms = 200,
                 .kill_suspect_ms = 400,
                 .replace_ms = pick(&dice, 4) == 0 ? 0 : 5 + pick(&dice, 300),
                 .join_ms = pick(&dice, 4) ? 200 + pick(&dice, 800) : 3,
                 .wait_ms = 300000,
                 .stuck_ms = 300}};
    h.settings.crew.max_nodes = h.shape.pipelines * h.shape.stages + pick(&dice, 4);
    h.settings.checkpoint_every = pick(&dice, 4);
    h.checkpoint_keep = 1 + pick(&dice, 2);
    h.params_per_stage = (int32_t)(1 + pick(&dice, 4));
    h.latency_us = (uint64_t)(20 + pick(&dice, 500));
    h.jitter_us = (uint64_t)pick(&dice, 4000);
    h.job_us = (uint64_t)(200 + pick(&dice, 3000));
    struct dice other = {culm_rng_mix(seed, 0xC03)}; /* what came later draws from others */
    pick_fabric(&other, &h.fabric);
    h.save_fail_percent = pick(&dice, 5) == 0 ? (uint32_t)(5 + pick(&dice, 40)) : 0;
    h.traced = pick(&dice, 8) == 0;
    if (!h.traced) {
        h.start_fail_percent = pick(&dice, 4) == 0 ? 5 : 0;
        h.settings.crew.replace_ms = pick(&dice, 8) == 0 ? -1 : h.settings.crew.replace_ms;
    }
    if (pick(&dice, 2)) {
        h.resume_pipelines = (int32_t)(1 + pick(&dice, h.shape.lanes < 4 ? h.shape.lanes : 4));
        h.resume_redundancy = (enum culm_redundancy)pick(&dice, 3);
    }
    h.fault_count = (int32_t)pick(&dice, 8);
    for (int32_t i = 0; i < h.fault_count; i++) {
        pick_fault(&dice, &h, &h.fault[i]);
    }
    if (pick(&dice, 6) == 0) {
        chain_of_roll_back(&dice, &h);
    }
    if (h.fault_count > 0 && pick(&dice, 4) == 0) {
        h.fault[pick(&dice, h.fault_count)].kind = CULM_FAULT_STOP;
    }
    for (int64_t more = pick(&other, 2) ? pick(&other, 4) : 0;
         more > 0 && h.fault_count < CULM_HISTORY_FAULTS_MAX; more--) {
        pick_outer_fault(&other, &h, &h.fault[h.fault_count++]);
    }
    if (seed % 8 == 2) {
        flips(seed, &h);
    }
    *ret_history = h;
}

/* --- what it draws besides --- */

const char *const culm_history_draw_names[CULM_HISTORY_DRAWS] = {
    [CULM_HISTORY_DRAW_STARTS] = "starts",   [CULM_HISTORY_DRAW_TASKS] = "tasks",
    [CULM_HISTORY_DRAW_LOADS] = "loads",     [CULM_HISTORY_DRAW_OPEN] = "open",
    [CULM_HISTORY_DRAW_LEADERS] = "leaders", [CULM_HISTORY_DRAW_STORE] = "store",
    [CULM_HISTORY_DRAW_SIZE] = "size",       [CULM_HISTORY_DRAW_LEAVE] = "leave",
    [CULM_HISTORY_DRAW_COPIES] = "copies"};

/* In one history of so many. */
static bool draws(const struct culm_history *h, uint32_t draws, enum culm_history_draw draw,
                  int64_t one_of, struct dice *ret_dice) {
    *ret_dice = (struct dice){culm_rng_mix(h->seed, 0xD00 + (uint64_t)draw)};
    return draws >> draw & 1 && pick(ret_dice, one_of) == 0;
}

/* Copies take several steps, or many. */
static void draw_copies(struct dice *dice, struct culm_history *h) {
    h->shape.steps += pick(dice, 12);
    h->fabric.later_bytes_per_ms = pick(dice, 3) ? (uint64_t)(30 << pick(dice, 6)) : 0;
    h->copy_window_bytes = pick(dice, 2) ? sizeof(uint64_t) << pick(dice, 4) : 0;
    h->copy_bytes_per_ms = pick(dice, 3) ? 0 : (uint64_t)(1 + pick(dice, 16));
}

/* Another shape; who was to be struck by number is the same part of the way through all nodes. */
static void draw_size(struct dice *dice, struct culm_history *h) {
    struct culm_run_shape *shape = &h->shape;
    const int32_t before = shape->pipelines * shape->stages;
    const bool large = pick(dice, 50) == 0;
    shape->stages = (int32_t)(large ? 3 + pick(dice, 6) : 1 + pick(dice, 6));
    shape->pipelines =
        (int32_t)(large ? 32 / shape->stages + 1 + pick(dice, 4) : 1 + pick(dice, 4));
    shape->lanes = shape->pipelines + (int32_t)pick(dice, large ? 3 : 8 - shape->pipelines);
    shape->micros_per_lane = (int32_t)(1 + pick(dice, shape->lanes > 6 ? 2 : 3));
    shape->micros = shape->lanes * shape->micros_per_lane;
    shape->global_samples = shape->micros * shape->micro_samples;
    const int32_t nodes = shape->pipelines * shape->stages;
    h->settings.crew.max_nodes += nodes - before;
    h->resume_pipelines = h->resume_pipelines < shape->lanes ? h->resume_pipelines : shape->lanes;
    for (int32_t i = 0; i < h->fault_count; i++) {
        h->fault[i].node = h->fault[i].node * (nodes + 2) / (before + 2);
    }
}

static void draw_troubles(struct dice *dice, struct culm_history *h) {
    static const enum culm_task_kind kinds[] = {
        CULM_TASK_LOAD,   CULM_TASK_DROP,     CULM_TASK_FORWARD, CULM_TASK_BACKWARD,
        CULM_TASK_FOLD,   CULM_TASK_NORM,     CULM_TASK_STEP,    CULM_TASK_EXPORT,
        CULM_TASK_IMPORT, CULM_TASK_SNAPSHOT, CULM_TASK_SAVE,    CULM_TASK_PUBLISH};
    h->trouble_count = (int32_t)(1 + pick(dice, CULM_HISTORY_TROUBLES_MAX));
    for (int32_t t = 0; t < h->trouble_count; t++) {
        struct culm_history_trouble *trouble = &h->trouble[t];
        trouble->kind = kinds[pick(dice, sizeof kinds / sizeof *kinds)];
        /* No two of one status, so that no more than two failures are alike by accident. */
        trouble->status = t > 0           ? CULM_ERR_TIMEOUT
                          : pick(dice, 4) ? CULM_ERR_NOT_FOUND
                                          : CULM_ERR_CHANGED;
        trouble->after = (int32_t)pick(dice, 1 + pick(dice, 40));
        trouble->times = (int32_t)pick(dice, 3);
        if (trouble->kind == CULM_TASK_SAVE || trouble->kind == CULM_TASK_PUBLISH) {
            trouble->status = CULM_ERR_IO; /* it is tried again, or given up */
            trouble->times = 1 + trouble->times % 2;
        }
    }
}

static void draw_damages(struct dice *dice, struct culm_history *h) {
    int64_t damages = 1 + pick(dice, 2);
    for (int32_t i = 0; i < h->fault_count; i++) {
        if (h->fault[i].kind == CULM_FAULT_STOP) {
            return; /* the newest checkpoint of a run that was stopped is looked at */
        }
    }
    h->settings.checkpoint_every = 1;
    h->shape.steps += 3;
    for (int64_t i = 0; i <= damages && h->fault_count < CULM_HISTORY_FAULTS_MAX; i++) {
        bool last = i == damages;
        h->fault[h->fault_count++] =
            (struct culm_history_fault){.when = CULM_AFTER_EVENT,
                                        .event = "checkpoint",
                                        .skip = (int32_t)(2 - damages + i - last),
                                        .delay = last ? (int32_t)pick(dice, 40) : 0,
                                        .target = CULM_TARGET_ALL,
                                        .node = (int32_t)pick(dice, 12),
                                        .kind = last ? CULM_FAULT_KILL : CULM_FAULT_DAMAGE};
    }
}

/* One that froze for so long that another one has taken over wakes up later, or never speaks again. */
static void draw_leaders(struct dice *dice, struct culm_history *h) {
    static const char *const event[] = {"lost",      "view",   "rollback", "checkpoint", "step",
                                        "recovered", "joined", "leader",   "waiting"};
    h->outlives = true;
    h->take_ms = (uint64_t)(pick(dice, 3) ? 1 + pick(dice, 100) : 1 + pick(dice, 3000));
    for (int64_t more = 1 + pick(dice, 3); more > 0 && h->fault_count < CULM_HISTORY_FAULTS_MAX;
         more--) {
        struct culm_history_fault *fault = &h->fault[h->fault_count++];
        *fault = (struct culm_history_fault){.micro = -1, .step = -1, .target = CULM_TARGET_LEADER};
        fault->kind = pick(dice, 2)   ? CULM_FAULT_KILL
                      : pick(dice, 2) ? CULM_FAULT_FREEZE
                                      : CULM_FAULT_CUT; /* from the store */
        if (fault->kind == CULM_FAULT_FREEZE) {
            fault->freeze_ms = h->take_ms + 1 + (uint64_t)pick(dice, pick(dice, 2) ? 100 : 3000);
        }
        fault->when = (enum culm_when)pick(dice, 3);
        fault->at_ms = (uint64_t)(1 + pick(dice, 600));
        fault->phase = (enum culm_phase)pick(dice, CULM_PHASE_COUNT);
        fault->skip = (int32_t)pick(dice, pick(dice, 2) ? 12 : 3);
        fault->event = event[pick(dice, 9)];
        fault->delay = (int32_t)(pick(dice, 2) ? pick(dice, 12) : pick(dice, 120));
    }
}

/* Whose lease ends while it is frozen, wakes up later; one that is cut from the store leads on, as far as it knows. */
static void draw_store(struct dice *dice, struct culm_history *h) {
    static const char *const event[] = {"lost", "view",   "rollback", "checkpoint",
                                        "step", "joined", "leader"};
    h->outlives = true;
    h->candidates = (int32_t)(1 + pick(dice, 4));
    h->lease_ms = 300 + pick(dice, pick(dice, 2) ? 400 : 3000);
    h->store_fault_percent = pick(dice, 3) ? (uint32_t)pick(dice, 30) : 0;
    for (int64_t more = 1 + pick(dice, 4); more > 0 && h->fault_count < CULM_HISTORY_FAULTS_MAX;
         more--) {
        struct culm_history_fault *fault = &h->fault[h->fault_count++];
        *fault = (struct culm_history_fault){.micro = -1, .step = -1, .target = CULM_TARGET_LEADER};
        fault->kind = pick(dice, 2)   ? CULM_FAULT_AWAY
                      : pick(dice, 3) ? CULM_FAULT_KILL
                      : pick(dice, 2) ? CULM_FAULT_FREEZE
                                      : CULM_FAULT_CUT;
        fault->freeze_ms =
            fault->kind == CULM_FAULT_KILL ? 0 : (uint64_t)(1 + pick(dice, 3 * h->lease_ms));
        if (fault->kind == CULM_FAULT_CUT && pick(dice, 2)) {
            fault->freeze_ms = 0;
        }
        fault->when = (enum culm_when)pick(dice, 3);
        fault->at_ms = (uint64_t)(1 + pick(dice, 600));
        fault->phase = (enum culm_phase)pick(dice, CULM_PHASE_COUNT);
        fault->skip = (int32_t)pick(dice, pick(dice, 2) ? 12 : 3);
        fault->event = event[pick(dice, 7)];
        fault->delay = (int32_t)(pick(dice, 2) ? pick(dice, 12) : pick(dice, 120));
    }
}

/* Some leaders commit no more while they are cut off, and give up if that lasts; in some the store is away for so long that everyone
 * ends. What came later draws from other dice. */
static void draw_patience(struct culm_history *h) {
    struct dice dice = {culm_rng_mix(h->seed, 0xD80)};
    h->settings.crew.store_ms = pick(&dice, 2) ? 1 + pick(&dice, 2 * h->lease_ms) : 0;
    for (int32_t i = 0; i < h->fault_count; i++) {
        if (h->fault[i].kind == CULM_FAULT_AWAY && pick(&dice, 8) == 0) {
            h->fault[i].freeze_ms = (uint64_t)(2000 + pick(&dice, pick(&dice, 2) ? 20000 : 200000));
            h->job_us = h->job_us < 3000 ? h->job_us * 6 : h->job_us; /* it goes on for that long */
        }
    }
}

/* In half of them nothing else befalls anyone. Some have no time to leave. */
static void draw_leave(struct dice *dice, struct culm_history *h) {
    static const char *const event[] = {"lost", "view",      "rollback", "checkpoint", "step",
                                        "step", "recovered", "joined",   "notice",     "leader"};
    static const enum culm_target target[] = {
        CULM_TARGET_ANY,  CULM_TARGET_ANY,      CULM_TARGET_OWNER, CULM_TARGET_SHADOW,
        CULM_TARGET_PAIR, CULM_TARGET_PIPELINE, CULM_TARGET_STAGE, CULM_TARGET_ALL};
    const bool alone = pick(dice, 2) == 0;
    int32_t resigns = 0; /* the number of that fault, from 1 */
    if (alone) {
        h->fault_count = 0;
        h->trouble_count = 0;
        h->save_fail_percent = h->start_fail_percent = h->start_fail_later = 0;
        h->store_fault_percent = h->fabric.backlog_full_percent = 0;
        h->settings.crew.join_ms += 1000;
    }
    for (int64_t more = 1 + pick(dice, 3); more > 0 && h->fault_count < CULM_HISTORY_FAULTS_MAX;
         more--) {
        struct culm_history_fault *fault = &h->fault[h->fault_count++];
        *fault = (struct culm_history_fault){
            .micro = -1, .step = -1, .kind = CULM_FAULT_LEAVE, .target = target[pick(dice, 8)]};
        fault->freeze_ms =
            alone || pick(dice, 2) ? CULM_HISTORY_GRACE_MS : 1 + (uint64_t)pick(dice, 300);
        fault->when = (enum culm_when)pick(dice, 3);
        fault->at_ms = (uint64_t)(1 + pick(dice, 600));
        fault->phase = (enum culm_phase)pick(dice, CULM_PHASE_COUNT);
        fault->skip = (int32_t)pick(dice, pick(dice, 2) ? 12 : 3);
        fault->event = event[pick(dice, 10)];
        fault->delay = (int32_t)(pick(dice, 2) ? pick(dice, 12) : pick(dice, 120));
        if (resigns > 0 &&
            pick(dice, 4)) { /* while nobody leads, or another one has just begun to */
            fault->behind = resigns;
            fault->when = CULM_AFTER_EVENT;
            fault->event = "step";
            fault->skip = 0;
            fault->delay = (int32_t)pick(dice, 300);
        } else if (h->candidates > 1 && pick(dice, 2)) {
            fault->target = CULM_TARGET_LEADER;
            resigns = h->fault_count;
        }
    }
}

void culm_history_draw(struct culm_history *h, uint32_t draw_mask) {
    struct dice dice;
    if (draws(h, draw_mask, CULM_HISTORY_DRAW_SIZE, 1,
              &dice)) { /* first: others look at the shape */
        draw_size(&dice, h);
    }
    if (draws(h, draw_mask, CULM_HISTORY_DRAW_STARTS, 6, &dice) && !h->traced) {
        h->start_fail_percent = (uint32_t)(5 + pick(&dice, 40));
        h->start_fail_later = (uint32_t)(20 + pick(&dice, 66));
    }
    if (draws(h, draw_mask, CULM_HISTORY_DRAW_TASKS, 4, &dice) &&
        h->settings.crew.replace_ms >= 0) {
        draw_troubles(&dice, h);
    }
    if (draws(h, draw_mask, CULM_HISTORY_DRAW_LOADS, 8, &dice) &&
        h->settings.crew.replace_ms >= 0) {
        draw_damages(&dice, h);
    }
    if (draws(h, draw_mask, CULM_HISTORY_DRAW_OPEN, 5, &dice) && !h->traced) {
        h->open = true;
        h->here_most =
            pick(&dice, 3) ? (int32_t)pick(&dice, h->shape.pipelines * h->shape.stages + 1) : 0;
    }
    if (draws(h, draw_mask, CULM_HISTORY_DRAW_LEADERS, 2, &dice) && !h->traced &&
        h->settings.crew.replace_ms >= 0) { /* who was about to join one that is gone, ends */
        draw_leaders(&dice, h);
    }
    if (draws(h, draw_mask, CULM_HISTORY_DRAW_STORE, 3, &dice) && !h->traced &&
        h->settings.crew.replace_ms >= 0) {
        draw_store(&dice, h);
        draw_patience(h);
    }
    if (draws(h, draw_mask, CULM_HISTORY_DRAW_LEAVE, 3, &dice)) {
        draw_leave(&dice, h);
    }
    if (draws(h, draw_mask, CULM_HISTORY_DRAW_COPIES, 3, &dice)) {
        draw_copies(&dice, h);
    }
}

/* --- what befalls it --- */

/* Behind the faults. */
enum {
    WRITES_FAIL = CULM_HISTORY_FAULTS_MAX,
    STARTS_FAIL,
    ROUGH_STREAMS,
    JITTER,
    TROUBLE,
    STORE_FAILS = TROUBLE + CULM_HISTORY_TROUBLES_MAX
};

uint32_t culm_history_events(const struct culm_history *h) {
    const struct culm_history_fabric calm = {.scratch_bytes = h->fabric.scratch_bytes};
    return ((1u << h->fault_count) - 1) | (uint32_t)(h->save_fail_percent > 0) << WRITES_FAIL |
           (uint32_t)(h->start_fail_percent > 0) << STARTS_FAIL |
           (uint32_t)(memcmp(&h->fabric, &calm, sizeof calm) != 0) << ROUGH_STREAMS |
           (uint32_t)(h->jitter_us > 0) << JITTER | ((1u << h->trouble_count) - 1) << TROUBLE |
           (uint32_t)(h->store_fault_percent > 0) << STORE_FAILS;
}

void culm_history_keep(struct culm_history *h, uint32_t events) {
    int32_t left = 0;
    for (int32_t i = 0; i < h->fault_count; i++) {
        if (events >> i & 1) {
            h->fault[left++] = h->fault[i];
        }
    }
    h->fault_count = left;
    h->save_fail_percent = events >> WRITES_FAIL & 1 ? h->save_fail_percent : 0;
    h->start_fail_percent = events >> STARTS_FAIL & 1 ? h->start_fail_percent : 0;
    h->start_fail_later = events >> STARTS_FAIL & 1 ? h->start_fail_later : 0;
    h->jitter_us = events >> JITTER & 1 ? h->jitter_us : 0;
    left = 0;
    for (int32_t t = 0; t < h->trouble_count; t++) {
        if (events >> (TROUBLE + t) & 1) {
            h->trouble[left++] = h->trouble[t];
        }
    }
    h->trouble_count = left;
    h->store_fault_percent = events >> STORE_FAILS & 1 ? h->store_fault_percent : 0;
    if (!(events >> ROUGH_STREAMS & 1)) {
        h->fabric = (struct culm_history_fabric){.scratch_bytes = h->fabric.scratch_bytes};
    }
}

const char *const culm_fault_kind_names[CULM_FAULT_COUNT] = {
    [CULM_FAULT_KILL] = "kill",
    [CULM_FAULT_FREEZE] = "freeze",
    [CULM_FAULT_STICK] = "stick",
    [CULM_FAULT_CUT] = "cut",
    [CULM_FAULT_STOP] = "stop",
    [CULM_FAULT_DAMAGE] = "damage",
    [CULM_FAULT_FLIP] = "flip",
    [CULM_FAULT_DROP] = "drop",
    [CULM_FAULT_SLOW] = "slow",
    [CULM_FAULT_GARBLE] = "garble",
    [CULM_FAULT_DESCRIPTORS] = "descriptors",
    [CULM_FAULT_MEMORY] = "memory",
    [CULM_FAULT_AWAY] = "away",
    [CULM_FAULT_LEAVE] = "leave",
};

static void print_fault(const struct culm_history_fault *fault) {
    static const char *const target[] = {"any",      "node",  "taker", "owner", "shadow",    "pair",
                                         "pipeline", "stage", "all",   "",      "the leader"};
    printf("      %s %s", culm_fault_kind_names[fault->kind], target[fault->target]);
    if (fault->target == CULM_TARGET_NODE) {
        printf(" %d", fault->node);
    }
    switch (fault->when) {
    case CULM_AT_TIME: printf(" after %llu ms", (unsigned long long)fault->at_ms); break;
    case CULM_AT_PHASE:
        printf(" at phase %s of step %lld, skip %d", culm_phase_name((size_t)fault->phase),
               (long long)fault->step, fault->skip);
        break;
    case CULM_AFTER_EVENT:
        printf(" %d happenings after event %s, skip %d", fault->delay, fault->event, fault->skip);
        break;
    case CULM_AT_MOMENT:
        printf(" at moment %d of %u, skip %d", (int)fault->moment.does, fault->moment.what,
               fault->skip);
        break;
    }
    printf("%s", fault->with_neighbour ? ", and kill its neighbour" : "");
    if (fault->freeze_ms) {
        printf(", for %llu ms", (unsigned long long)fault->freeze_ms);
    }
    printf("\n");
}

void culm_history_print_events(const struct culm_history *h) {
    uint32_t events = culm_history_events(h);
    for (int32_t i = 0; i < h->fault_count; i++) {
        print_fault(&h->fault[i]);
    }
    for (int32_t t = 0; t < h->trouble_count; t++) {
        const struct culm_history_trouble *trouble = &h->trouble[t];
        printf("      tasks of kind %d fail with %s, after %d, %d of them (0: all)\n",
               (int)trouble->kind, culm_status_name(trouble->status), trouble->after,
               trouble->times);
    }
    printf("%s%s%s%s%s", events >> WRITES_FAIL & 1 ? "      some writes fail\n" : "",
           events >> STARTS_FAIL & 1 ? "      some starts fail\n" : "",
           events >> ROUGH_STREAMS & 1 ? "      streams are slow or in pieces\n" : "",
           events >> JITTER & 1 ? "      latencies differ\n" : "",
           events >> STORE_FAILS & 1 ? "      the store fails now and then\n" : "");
}

void culm_history_describe(const struct culm_history *h, char *ret_text, size_t size) {
    static const char *const redundancy[] = {"none", "lazy", "eager"};
    snprintf(ret_text, size,
             "seed %llu: %d x %d, lanes %d x %d, %lld steps, %s, %d faults%s, checkpoint every "
             "%lld, %u %% of writes fail, replace after %lld ms%s",
             (unsigned long long)h->seed, h->shape.pipelines, h->shape.stages, h->shape.lanes,
             h->shape.micros_per_lane, (long long)h->shape.steps, redundancy[h->shape.redundancy],
             h->fault_count, h->traced ? ", traced" : "", (long long)h->settings.checkpoint_every,
             h->save_fail_percent, (long long)h->settings.crew.replace_ms,
             h->candidates ? ", a store" : "");
}
