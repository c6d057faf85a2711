/* One history of the edge scheduler, and who judges it. See edge_history.h. */
#include "edge_history.h"

#include "base/rng.h"
#include "edge/planner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define FAULTS_MAX CULM_EDGE_HISTORY_FAULTS
#define FRAMES_MAX 4096 /* of a feed */

const char *const culm_edge_fault_name[CULM_EDGE_FAULT_COUNT] = {
    "load fails",  "load is slow", "batch is slow", "batch fails", "feed ends",
    "feed stalls", "feed bursts",  "new round",     "query goes",  "query comes"};

struct planned {
    enum culm_edge_fault kind;
    uint64_t at_ns;
    int32_t of;
    uint64_t for_ns;
};

struct judge {
    struct culm_edge_exec exec; /* first */
    struct culm_edge_virtual *virtual;
    struct culm_edge_workload *workload, *next; /* next: a layout that is to come */
    struct culm_edge_workload store[2 + FAULTS_MAX];
    int32_t stored;
    struct culm_edge_history_result *result;
    bool there[CULM_EDGE_HISTORY_TENSORS], loading[CULM_EDGE_HISTORY_TENSORS];
    size_t activations;
    json_int_t told; /* bytes of tensors that events say are there */
    bool runs, log;
    int32_t runs_query;
    struct culm_edge_batch before; /* the last that went well; count 0: none in this layout */
    size_t left_bytes;             /* of what it left in the activations, from their beginning */
    uint8_t settled[CULM_EDGE_QUERIES_MAX][FRAMES_MAX];
    int64_t last_frame[CULM_EDGE_QUERIES_MAX];
    uint64_t dice;
    struct planned fault[FAULTS_MAX];
    int32_t faults;
    size_t frame_bytes; /* of the layout before, which frames still hold until over_until_ns */
    uint64_t over_until_ns;
    uint64_t slow_until_ns, fail_until_ns, run_slow_until_ns, run_fail_until_ns;
    bool disturbed; /* something went wrong, so that nobody is promised to be served */
    bool slow_runs;
};

static void complain(struct judge *judge, const char *format, ...) {
    if (judge->result->ok) {
        va_list args;
        va_start(args, format);
        vsnprintf(judge->result->why, sizeof judge->result->why, format, args);
        va_end(args);
        judge->result->ok = false;
    }
}

static void note(struct judge *judge, uint64_t a, uint64_t b) {
    judge->result->digest = culm_rng_mix(culm_rng_mix(judge->result->digest, a), b);
}

static struct judge *judge_of(struct culm_edge_exec *exec) { return (struct judge *)exec; }

/* --- what the scheduler has done -------------------------------------------------------------------- */

static enum culm_status load(struct culm_job *job) {
    const struct culm_edge_load *load = (const struct culm_edge_load *)job;
    if (job->status == CULM_OK) {
        judge_of(load->exec)->there[load->tensor] = true;
    }
    return job->status;
}

static enum culm_status infer(struct culm_job *job) {
    const struct culm_edge_batch *batch = (const struct culm_edge_batch *)job;
    struct judge *judge = judge_of(batch->exec);
    judge->runs = false;
    judge->before = *batch;
    judge->before.count = job->status == CULM_OK ? batch->count : 0;
    judge->left_bytes = judge->activations;
    return job->status;
}

/* What is told of a job is what the simulation let it take. */
static void loaded(struct culm_edge_exec *exec, const struct culm_edge_load *load, uint64_t ns) {
    struct judge *judge = judge_of(exec);
    if (culm_edge_virtual_now(judge->virtual) - ns != load->begin_ns) {
        complain(judge, "tensor %d is told to have come after %llu ns", load->tensor,
                 (unsigned long long)ns);
    }
}

static void ran(struct culm_edge_exec *exec, const struct culm_edge_batch *batch, uint64_t ns) {
    struct judge *judge = judge_of(exec);
    if (culm_edge_virtual_now(judge->virtual) - ns != batch->begin_ns) {
        complain(judge, "q%d is told to have run for %llu ns", batch->query,
                 (unsigned long long)ns);
    }
}

static bool is_pinned(const struct culm_edge_workload *workload, int32_t tensor) {
    for (int32_t q = 0; q < workload->layout.query_count; q++) {
        const struct culm_edge_query *query = &workload->query[q];
        for (int32_t i = 0; query->pin && !query->gone && i < query->tensor_count; i++) {
            if (query->tensor[i] == tensor) {
                return true;
            }
        }
    }
    return false;
}

static void evict(struct culm_edge_exec *exec, int32_t tensor) {
    struct judge *judge = judge_of(exec);
    if (!judge->there[tensor]) {
        complain(judge, "tensor %d goes and was not there", tensor);
    }
    if (judge->runs) {
        const struct culm_edge_query *query = &judge->workload->query[judge->runs_query];
        for (int32_t i = 0; i < query->tensor_count; i++) {
            if (query->tensor[i] == tensor) {
                complain(judge, "tensor %d goes while %s runs on it", tensor, query->name);
            }
        }
    }
    /* What a new layout does not pin goes just before it is in force. */
    if (is_pinned(judge->workload, tensor) && (!judge->next || is_pinned(judge->next, tensor))) {
        complain(judge, "tensor %d goes, and is pinned", tensor);
    }
    judge->there[tensor] = false;
    judge->result->evictions++;
}

static void activations(struct culm_edge_exec *exec, size_t bytes) {
    struct judge *judge = judge_of(exec);
    if (judge->runs) {
        complain(judge, "activations change while a batch runs");
    }
    judge->activations = bytes;
    judge->left_bytes = bytes < judge->left_bytes ? bytes : judge->left_bytes;
}

static void settled(struct culm_edge_exec *exec, int32_t query, const struct culm_edge_look *look,
                    const struct culm_edge_batch *batch) {
    struct judge *judge = judge_of(exec);
    uint64_t now = culm_edge_virtual_now(judge->virtual);
    if (look->frame < 0 || look->frame >= FRAMES_MAX || judge->settled[query][look->frame]++) {
        complain(judge, "frame %lld of q%d is settled twice", (long long)look->frame, query);
        return;
    }
    if (batch && now > look->due_ns) {
        complain(judge, "frame %lld of q%d counts and was late", (long long)look->frame, query);
    }
    judge->result->frames++;
    judge->result->processed += batch != NULL;
    note(judge, (uint64_t)query * 2 + (batch != NULL), (uint64_t)look->frame);
    note(judge, now, look->due_ns);
}

/* Frames hold no more than they may, but after a change for some time what they held before it. */
static size_t frames(struct culm_edge_exec *exec) {
    const struct judge *judge = judge_of(exec);
    return judge->virtual && culm_edge_virtual_now(judge->virtual) < judge->over_until_ns
               ? judge->frame_bytes
               : 0;
}

static void relaid(struct culm_edge_exec *exec) {
    struct judge *judge = judge_of(exec);
    uint64_t now = culm_edge_virtual_now(judge->virtual);
    judge->workload = judge->next;
    culm_edge_virtual_layout(judge->virtual, &judge->workload->layout);
    judge->result->rounds++;
    judge->before.count = 0;
    judge->over_until_ns = now + culm_rng_mix(now, 77) % 4 * 20 * MS;
}

static const struct culm_edge_exec_ops judge_ops = {.size = sizeof(struct culm_edge_exec_ops),
                                                    .load = load,
                                                    .infer = infer,
                                                    .loaded = loaded,
                                                    .ran = ran,
                                                    .evict = evict,
                                                    .activations = activations,
                                                    .frames = frames,
                                                    .settled = settled,
                                                    .relaid = relaid};

/* What it goes on from was made by the batch before, and is there. */
static void check_shared(struct judge *judge, const struct culm_edge_batch *batch) {
    const struct culm_edge_query *query = &judge->workload->query[batch->query];
    const struct culm_edge_batch *before = &judge->before;
    const struct culm_edge_query *other = &judge->workload->query[before->query];
    const struct culm_edge_prefix *prefix = &query->prefix[batch->shared_prefix];
    int32_t size = culm_edge_batch_for(query, batch->count), of = -1;
    bool same = before->count == batch->count && other->feed == query->feed &&
                other->batch[culm_edge_batch_for(other, batch->count)] == query->batch[size];
    for (int32_t i = 0; i < other->prefixes; i++) {
        of = other->prefix[i].id == prefix->id ? i : of;
    }
    for (int32_t k = 0; same && k < batch->count; k++) {
        same = before->look[k].frame == batch->look[k].frame;
    }
    if (!same || of < 0 || prefix->keep_bytes[size] > judge->left_bytes) {
        complain(judge, "%s goes on from what is not there", query->name);
    }
    judge->result->shared++;
}

static void check_batch(struct judge *judge, const struct culm_edge_batch *batch) {
    const struct culm_edge_query *query = &judge->workload->query[batch->query];
    uint64_t now = culm_edge_virtual_now(judge->virtual);
    for (int32_t i = 0; i < query->tensor_count; i++) {
        if (!judge->there[query->tensor[i]]) {
            complain(judge, "%s runs without tensor %d", query->name, query->tensor[i]);
        }
    }
    int32_t size = culm_edge_batch_for(query, batch->count);
    if (query->gone || batch->count < 1 || batch->count > query->batch[size] ||
        query->activation_bytes[size] > judge->activations) {
        complain(judge, "%s runs a batch of %d in %zu bytes", query->name, batch->count,
                 judge->activations);
    }
    if (batch->shared_prefix >= 0) {
        check_shared(judge, batch);
    }
    for (int32_t k = 0; k < batch->count; k++) {
        const struct culm_edge_look *look = &batch->look[k];
        if (now + batch->expected_ns > look->due_ns || look->at_ns > now ||
            look->due_ns != look->at_ns + query->deadline_ns ||
            (k > 0 && look->frame <= batch->look[k - 1].frame) ||
            judge->settled[batch->query][look->frame]) {
            complain(judge, "%s should not run frame %lld", query->name, (long long)look->frame);
        }
    }
}

static uint64_t cost(void *context, struct culm_job *job, bool load_it) {
    struct judge *judge = context;
    /* The scheduler begins to load before anybody else knows of it. */
    uint64_t now = judge->virtual ? culm_edge_virtual_now(judge->virtual) : 0, ns = job->cost_ns;
    if (load_it) {
        int32_t tensor = ((struct culm_edge_load *)job)->tensor;
        if (judge->there[tensor]) {
            complain(judge, "tensor %d is loaded and was there", tensor);
        }
        memset(judge->loading, 0, sizeof judge->loading);
        judge->loading[tensor] = true;
        judge->result->loads++;
        if (now < judge->fail_until_ns && culm_rng_below(&judge->dice, 2)) {
            job->status = CULM_ERR_IO;
            judge->result->fired[CULM_EDGE_FAULT_LOAD_FAILS]++;
        }
        if (now < judge->slow_until_ns) {
            ns = ns * 20 + 5 * MS;
            judge->result->fired[CULM_EDGE_FAULT_LOAD_SLOW]++;
        }
    } else {
        check_batch(judge, (struct culm_edge_batch *)job);
        judge->runs = true;
        judge->runs_query = ((struct culm_edge_batch *)job)->query;
        if (now < judge->run_slow_until_ns) {
            ns = ns * 3;
            judge->result->fired[CULM_EDGE_FAULT_RUN_SLOW]++;
        }
        if (now < judge->run_fail_until_ns) {
            job->status = CULM_ERR_IO;
            judge->result->fired[CULM_EDGE_FAULT_RUN_FAILS]++;
        }
    }
    return ns;
}

/* The books, from scratch. */
static void recount(struct judge *judge) {
    struct culm_edge_memory memory;
    const struct culm_edge_scheduler *scheduler = culm_edge_virtual_scheduler(judge->virtual);
    const struct culm_edge_layout *layout = &judge->workload->layout;
    size_t bytes = 0, held = 0;
    culm_edge_scheduler_memory(scheduler, &memory);
    for (int32_t t = 0; t < layout->tensor_count; t++) {
        bool holds = culm_edge_scheduler_holds(scheduler, t);
        if (holds != judge->there[t] && !judge->loading[t]) {
            complain(judge, "tensor %d is %s", t, holds ? "not there" : "forgotten");
        }
        held += holds ? layout->tensor_bytes[t] : 0;
    }
    bytes = memory.tensor_bytes + memory.activation_bytes + memory.frame_bytes;
    if (memory.frame_bytes < frames(&judge->exec)) {
        complain(judge, "the scheduler counts %zu bytes of frames", memory.frame_bytes);
    }
    if (memory.activation_bytes != judge->activations || held > memory.tensor_bytes) {
        complain(judge, "the scheduler counts %zu bytes of tensors and there are %zu",
                 memory.tensor_bytes, held);
    }
    /* One load at a time may be under way. */
    size_t under_way = memory.tensor_bytes - held, one = 0;
    for (int32_t t = 0; t < layout->tensor_count; t++) {
        one = judge->loading[t] ? layout->tensor_bytes[t] : one;
    }
    if (under_way != 0 && under_way != one) {
        complain(judge, "%zu bytes are neither there nor being loaded", under_way);
    }
    if (bytes > layout->limit_bytes) {
        complain(judge, "%zu bytes, the limit is %zu", bytes, layout->limit_bytes);
    }
}

/* --- faults ------------------------------------------------------------------------------------------- */

static struct culm_edge_workload *copy_of(struct judge *judge) {
    struct culm_edge_workload *from = judge->next, *copy = &judge->store[judge->stored++];
    *copy = *from;
    copy->layout.query = copy->query;
    copy->layout.feed = copy->feed;
    copy->layout.tensor_bytes = copy->tensor_bytes;
    for (int32_t q = 0; q < CULM_EDGE_QUERIES_MAX; q++) {
        copy->query[q].tensor = copy->tensors[q];
    }
    return copy;
}

static void take_layout(struct judge *judge, struct culm_edge_workload *workload,
                        enum culm_edge_fault kind) {
    struct culm_edge_plan plan;
    struct culm_error error;
    const struct culm_edge_plan_options quick = {.quick = true};
    if (culm_edge_plan_make(&workload->layout, &quick, &plan, &error) != CULM_OK) {
        judge->stored--; /* it would not fit: whoever wants it is told so, and nothing changes */
        return;
    }
    struct culm_edge_memory memory;
    culm_edge_scheduler_memory(culm_edge_virtual_scheduler(judge->virtual), &memory);
    judge->frame_bytes = memory.frame_bytes;
    judge->over_until_ns = CULM_NEVER; /* from when it is in force: see relaid */
    judge->next = workload;
    judge->result->fired[kind]++;
    if (culm_edge_scheduler_update(culm_edge_virtual_scheduler(judge->virtual), &workload->layout,
                                   &plan, &error) != CULM_OK) {
        complain(judge, "a layout is refused: %s", error.text);
    }
}

/* Some tensors of a query become others, or those of another query. */
static void new_round(struct judge *judge, int32_t of) {
    struct culm_edge_workload *next = copy_of(judge);
    struct culm_edge_query *query = &next->query[of % next->layout.query_count];
    int32_t *tensor = next->tensors[of % next->layout.query_count];
    for (int32_t i = 0; i < query->tensor_count; i++) {
        if (culm_rng_below(&judge->dice, 3) == 0 &&
            next->layout.tensor_count < CULM_EDGE_HISTORY_TENSORS) {
            int32_t t = next->layout.tensor_count++;
            next->tensor_bytes[t] = next->tensor_bytes[tensor[i]];
            memmove(tensor + i, tensor + i + 1,
                    (size_t)(query->tensor_count - i - 1) * sizeof *tensor);
            tensor[query->tensor_count - 1] = t;
        }
    }
    take_layout(judge, next, CULM_EDGE_FAULT_ROUND);
}

static void goes(struct judge *judge, int32_t of) {
    struct culm_edge_workload *next = copy_of(judge);
    next->query[of % next->layout.query_count].gone = true;
    take_layout(judge, next, CULM_EDGE_FAULT_QUERY_GOES);
}

static void comes(struct judge *judge, int32_t of) {
    struct culm_edge_workload *next = copy_of(judge);
    int32_t q = next->layout.query_count, from = of % q;
    if (q == CULM_EDGE_QUERIES_MAX) {
        judge->stored--;
        return;
    }
    next->layout.query_count++;
    next->query[q] = next->query[from];
    next->query[q].tensor = next->tensors[q];
    next->query[q].gone = false;
    memcpy(next->tensors[q], next->tensors[from], sizeof next->tensors[q]);
    snprintf(next->query[q].name, sizeof next->query[q].name, "q%d", q);
    take_layout(judge, next, CULM_EDGE_FAULT_QUERY_COMES);
}

static void befall(struct judge *judge, const struct planned *fault) {
    int32_t feed = fault->of % judge->workload->layout.feed_count;
    uint64_t until = fault->at_ns + fault->for_ns;
    judge->disturbed = true;
    if (judge->log) {
        printf("%10.3f  %s (%d)\n", (double)fault->at_ns / 1e6, culm_edge_fault_name[fault->kind],
               fault->of);
    }
    switch (fault->kind) {
    case CULM_EDGE_FAULT_LOAD_FAILS: judge->fail_until_ns = until; break;
    case CULM_EDGE_FAULT_LOAD_SLOW: judge->slow_until_ns = until; break;
    case CULM_EDGE_FAULT_RUN_SLOW:
        judge->run_slow_until_ns = until;
        judge->slow_runs = true;
        break;
    case CULM_EDGE_FAULT_RUN_FAILS: judge->run_fail_until_ns = until; break;
    case CULM_EDGE_FAULT_FEED_ENDS:
        culm_edge_virtual_feed_end(judge->virtual, feed);
        judge->result->fired[fault->kind]++;
        break;
    case CULM_EDGE_FAULT_FEED_STALLS:
        culm_edge_virtual_feed_stall(judge->virtual, feed, fault->for_ns);
        judge->result->fired[fault->kind]++;
        break;
    case CULM_EDGE_FAULT_FEED_BURSTS:
        culm_edge_virtual_feed_burst(judge->virtual, feed, 2 + (int32_t)(fault->for_ns % 40));
        judge->result->fired[fault->kind]++;
        break;
    case CULM_EDGE_FAULT_ROUND: new_round(judge, fault->of); break;
    case CULM_EDGE_FAULT_QUERY_GOES: goes(judge, fault->of); break;
    case CULM_EDGE_FAULT_QUERY_COMES: comes(judge, fault->of); break;
    default: break;
    }
}

/* --- a run -------------------------------------------------------------------------------------------- */

/* Nothing is told to go that was not told to come. */
static void on_event(void *context, json_t *event) {
    struct judge *judge = context;
    const char *kind = json_string_value(json_object_get(event, "event"));
    const json_int_t bytes = json_integer_value(json_object_get(event, "bytes"));
    judge->told += strcmp(kind, "load") == 0 ? bytes : strcmp(kind, "evict") == 0 ? -bytes : 0;
    if (judge->told < 0) {
        complain(judge, "%lld bytes more are told to have gone than to have come",
                 (long long)-judge->told);
    }
    if (judge->log) {
        char *text = json_dumps(event, JSON_COMPACT);
        printf("%10.3f  %s\n",
               judge->virtual ? (double)culm_edge_virtual_now(judge->virtual) / 1e6 : 0, text);
        free(text);
    }
}

/* The longest time that anything of this workload takes. */
static uint64_t longest_round(const struct culm_edge_layout *layout,
                              const struct culm_edge_plan *plan, uint64_t *ret_one) {
    uint64_t round = 0, one = 0;
    for (int32_t q = 0; q < layout->query_count; q++) {
        const struct culm_edge_query *query = &layout->query[q];
        uint64_t visit = culm_edge_visit_ns(query, plan->visit[q], 0);
        uint64_t load_ns =
            (uint64_t)query->tensor_count * layout->load_ns +
            (uint64_t)(layout->load_ns_per_byte * (double)culm_edge_query_bytes(layout, q));
        round += visit + load_ns;
        visit = visit + load_ns;
        one = visit > one ? visit : one;
    }
    *ret_one = one;
    return round;
}

/* Whoever has time enough is served often; whoever has time at all is served now and then. */
static void check_starved(struct judge *judge, const struct culm_edge_plan *plan,
                          uint64_t lasted_ns) {
    const struct culm_edge_layout *layout = &judge->workload->layout;
    uint64_t one, round = longest_round(layout, plan, &one);
    for (int32_t q = 0; q < layout->query_count; q++) {
        const struct culm_edge_query *query = &layout->query[q];
        const struct culm_edge_totals *totals =
            culm_edge_scheduler_totals(culm_edge_virtual_scheduler(judge->virtual), q);
        uint64_t period = layout->feed[query->feed].period_ns;
        uint64_t bound =
            6 * (round + period) + query->deadline_ns + query->after_ns + query->every_ns;
        if (!query->every_ns && query->deadline_ns >= query->run_ns[0] + 2 * one &&
            totals->longest_wait_ns > bound) {
            complain(judge, "%s waits for %.1f ms, %.1f would do", query->name,
                     (double)totals->longest_wait_ns / 1e6, (double)bound / 1e6);
        }
        uint64_t others = 0;
        for (int32_t other = 0; other < layout->query_count; other++) {
            uint64_t run = layout->query[other].run_ns[layout->query[other].batches - 1];
            others = other != q && run > others ? run : others;
        }
        if (query->deadline_ns >= query->run_ns[0] + others && totals->processed == 0 &&
            lasted_ns > 10 * bound * (uint64_t)layout->query_count) {
            complain(judge, "%s starves: %lld frames, none answered", query->name,
                     (long long)totals->frames);
        }
    }
}

/* How many frames of an undisturbed feed a query looks at: all, or those of the bursts that fit. */
static void frames_settled(const struct culm_edge_layout *layout, int32_t q, int64_t frames,
                           int64_t *ret_least, int64_t *ret_most) {
    const struct culm_edge_query *query = &layout->query[q];
    *ret_least = *ret_most = frames;
    if (query->every_ns) {
        uint64_t period = layout->feed[query->feed].period_ns;
        uint64_t span = (uint64_t)frames * period, burst = (uint64_t)query->burst * period;
        uint64_t between = query->every_ns > burst ? query->every_ns : burst;
        uint64_t whole = span > query->after_ns ? (span - query->after_ns) / (between + period) : 0;
        int64_t most = query->burst * (int64_t)(span / query->every_ns + 1);
        *ret_least =
            query->burst * (int64_t)whole < frames ? query->burst * (int64_t)whole : frames;
        *ret_least -= *ret_least < query->burst ? *ret_least : query->burst; /* of the last one */
        *ret_most = most < frames ? most : frames;
    }
}

static void play(struct judge *judge, const struct culm_edge_plan *plan) {
    const struct culm_edge_layout *layout = &judge->workload->layout;
    const struct culm_edge_virtual_options options = {
        .layout = layout,
        .plan = plan,
        .frames = 1 + (int64_t)culm_rng_below(&judge->dice, 200),
        .exec = &judge->exec,
        .context = judge,
        .cost = cost,
        .event = on_event};
    judge->virtual = culm_edge_virtual_new(&options);
    if (!judge->virtual) {
        complain(judge, "out of memory");
        return;
    }
    uint64_t begin = culm_edge_virtual_now(judge->virtual);
    int64_t steps = 0;
    int32_t next_fault = 0;
    while (culm_edge_virtual_step(judge->virtual) && judge->result->ok) {
        recount(judge);
        while (next_fault < judge->faults &&
               culm_edge_virtual_now(judge->virtual) >= judge->fault[next_fault].at_ns &&
               !culm_edge_virtual_left(judge->virtual)) {
            befall(judge, &judge->fault[next_fault++]);
        }
        if (++steps > 400000) {
            complain(judge, "it does not end");
        }
    }
    if (judge->result->ok && !culm_edge_virtual_left(judge->virtual)) {
        complain(judge, "nothing is left to happen, and it has not ended");
    }
    uint64_t lasted = culm_edge_virtual_now(judge->virtual) - begin;
    for (int32_t q = 0; q < judge->workload->layout.query_count; q++) {
        const struct culm_edge_totals *totals =
            culm_edge_scheduler_totals(culm_edge_virtual_scheduler(judge->virtual), q);
        judge->result->late += totals->late;
        if (totals->late && !judge->slow_runs) {
            complain(judge, "q%d was late", q);
        }
        int64_t least, most;
        frames_settled(&judge->workload->layout, q, options.frames, &least, &most);
        if (totals->frames != totals->processed + totals->dropped ||
            (!judge->disturbed && (totals->frames < least || totals->frames > most))) {
            complain(judge, "q%d has settled %lld of %lld frames", q, (long long)totals->frames,
                     (long long)options.frames);
        }
    }
    if (!judge->disturbed && judge->result->ok) {
        check_starved(judge, plan, lasted);
    }
    culm_edge_virtual_free(judge->virtual);
}

void culm_edge_history_run(uint64_t seed, uint32_t faults, bool log,
                           struct culm_edge_history_result *ret_result) {
    struct judge *judge = calloc(1, sizeof *judge);
    struct culm_edge_plan plan;
    struct culm_error error;
    *ret_result = (struct culm_edge_history_result){.ok = judge != NULL};
    if (!judge) {
        return;
    }
    judge->exec.ops = &judge_ops;
    judge->result = ret_result;
    judge->log = log;
    judge->dice = culm_rng_mix(seed, 5);
    judge->workload = judge->next = &judge->store[judge->stored++];
    culm_edge_workload_from_seed(seed, 0, judge->workload);
    int32_t drawn = faults ? (int32_t)culm_rng_below(&judge->dice, FAULTS_MAX + 1) : 0;
    uint64_t at = 1000 * MS;
    for (int32_t i = 0; i < drawn; i++) {
        at += culm_rng_below(&judge->dice, 700 * MS);
        const struct planned fault = {
            .kind = (enum culm_edge_fault)culm_rng_below(&judge->dice, CULM_EDGE_FAULT_COUNT),
            .at_ns = at,
            .of = (int32_t)culm_rng_below(&judge->dice, 1000),
            .for_ns = culm_rng_below(&judge->dice, 800 * MS)};
        if (faults >> i & 1) {
            judge->fault[judge->faults++] = fault;
            ret_result->planned |= 1u << i;
        }
    }
    const struct culm_edge_plan_options options = {.quick = seed % 4 != 0};
    if (culm_edge_plan_make(&judge->workload->layout, &options, &plan, &error) != CULM_OK) {
        complain(judge, "no plan: %s", error.text);
    } else {
        play(judge, &plan);
    }
    free(judge);
}
