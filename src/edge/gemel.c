/* The scheduler that was released with GEMEL, written after its description. See gemel.h. */
#include "edge/gemel.h"

#include "edge/batches.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define SIZES 3          /* batches of 1, 2, 4 */
#define ALL_UP_TO 6      /* up to this many models, all combinations of batches are tried */
#define TRIED_FRAMES 300 /* frames over which combinations are compared */

struct box {
    const struct culm_edge_layout *layout;
    size_t *lacks; /* [n, n] bytes of model i that model j does not have */
    size_t own[CULM_EDGE_QUERIES_MAX];
    size_t room; /* for models and activations: the limit less the frames */
};

static size_t lacking(const struct culm_edge_layout *layout, int32_t i, int32_t j) {
    const struct culm_edge_query *one = &layout->query[i], *other = &layout->query[j];
    size_t bytes = 0;
    int32_t b = 0;
    for (int32_t a = 0; a < one->tensor_count; a++) {
        while (b < other->tensor_count && other->tensor[b] < one->tensor[a]) {
            b++;
        }
        bytes += b < other->tensor_count && other->tensor[b] == one->tensor[a]
                     ? 0
                     : layout->tensor_bytes[one->tensor[a]];
    }
    return bytes;
}

struct state {
    int32_t resident[CULM_EDGE_QUERIES_MAX]; /* in the order of use, the most recent last */
    size_t added[CULM_EDGE_QUERIES_MAX];     /* by model: the bytes it counts for in `used` */
    int32_t count;
    size_t used;
};

static bool is_there(const struct state *state, int32_t model) {
    for (int32_t i = 0; i < state->count; i++) {
        if (state->resident[i] == model) {
            return true;
        }
    }
    return false;
}

static void use(struct state *state, int32_t model, size_t added) {
    int32_t kept = 0;
    for (int32_t i = 0; i < state->count; i++) {
        if (state->resident[i] != model) {
            state->resident[kept++] = state->resident[i];
        }
    }
    if (kept == state->count) {
        state->added[model] = added;
        state->used += added;
    }
    state->resident[kept] = model;
    state->count = kept + 1;
}

/* Bytes to load for a model, given what is resident now. */
static size_t to_load(const struct box *box, const struct state *state, int32_t model) {
    size_t bytes = box->own[model];
    for (int32_t i = 0; i < state->count; i++) {
        size_t pair = box->lacks[model * box->layout->query_count + state->resident[i]];
        bytes = pair < bytes ? pair : bytes;
    }
    return is_there(state, model) ? 0 : bytes;
}

static void play(const struct box *box, int64_t frames, struct culm_edge_gemel *result,
                 uint8_t *answered) {
    const struct culm_edge_layout *layout = box->layout;
    struct state state = {0};
    int64_t newest[CULM_EDGE_QUERIES_MAX]; /* the last frame that was answered or dropped */
    bool over[CULM_EDGE_QUERIES_MAX] = {0};
    uint64_t now = 0, waited = 0, run_before = 0;
    size_t running = 0; /* bytes of the previous batch and its model */
    int32_t left = layout->query_count;
    memset(newest, -1, sizeof newest);
    memset(result->processed, 0, sizeof result->processed);
    result->swaps = 0;
    for (int32_t i = 0; left > 0; i = (i + 1) % layout->query_count) {
        const struct culm_edge_query *query = &layout->query[i];
        uint64_t period = layout->feed[query->feed].period_ns;
        int32_t b = result->batch[i];
        if (over[i]) {
            continue;
        }
        size_t needs = query->activation_bytes[b];
        while (state.count > 0 && state.used + to_load(box, &state, i) + needs > box->room) {
            int32_t last = state.resident[state.count - 1];
            if (last == i && state.count > 1) { /* it is about to run: evict the next one */
                last = state.resident[state.count - 2];
                state.resident[state.count - 2] = i;
            } else if (last == i) {
                break;
            }
            state.used -= state.added[last];
            state.count--;
        }
        size_t bytes = to_load(box, &state, i);
        if (bytes > 0) {
            uint64_t load = culm_edge_load_ns(layout, bytes);
            bool beside = running + bytes <= box->room;
            uint64_t charged = !beside ? load : load > run_before ? load - run_before : 0;
            now += charged;
            waited += charged;
            result->swaps++;
        }
        use(&state, i, bytes);
        for (;;) {
            int64_t there = (int64_t)(now / period);
            there = there < frames ? there : frames - 1;
            int64_t first = there - query->batch[b] + 1, count = 0;
            first = first > newest[i] ? first : newest[i] + 1;
            for (int64_t f = first; f <= there; f++) {
                bool in_time = (uint64_t)f * period + query->deadline_ns >= now + query->run_ns[b];
                count += in_time;
                if (answered && in_time) {
                    answered[i * frames + f] = 1;
                }
            }
            if (count > 0) {
                now += query->run_ns[b];
                result->processed[i] += count;
                newest[i] = there;
                break;
            }
            if (there == frames - 1 || query->run_ns[b] > query->deadline_ns) {
                over[i] = true; /* no frame is left that it could answer */
                left--;
                break;
            }
            now += MS;
        }
        run_before = query->run_ns[b];
        running = box->own[i] + needs;
    }
    result->load_share = now ? (double)waited / (double)now : 0;
}

static void shares_of(const struct box *box, const struct culm_edge_gemel *result, int64_t frames,
                      double *ret_share) {
    for (int32_t q = 0; q < box->layout->query_count; q++) {
        ret_share[q] = (double)result->processed[q] / (double)frames;
    }
}

static void consider(const struct box *box, int64_t frames, struct culm_edge_gemel *trial,
                     struct culm_edge_gemel *best, double *best_share, bool *found) {
    double share[CULM_EDGE_QUERIES_MAX];
    int32_t count = box->layout->query_count;
    for (int32_t q = 0; q < count; q++) {
        const struct culm_edge_query *query = &box->layout->query[q];
        if (box->own[q] + query->activation_bytes[trial->batch[q]] > box->room) {
            return;
        }
    }
    play(box, frames, trial, NULL);
    shares_of(box, trial, frames, share);
    if (!*found || culm_edge_shares_compare(share, best_share, count) > 0) {
        *best = *trial;
        memcpy(best_share, share, sizeof share);
        *found = true;
    }
}

static int32_t sizes_of(const struct culm_edge_query *query) {
    int32_t count = 0;
    while (count < query->batches && count < SIZES && query->batch[count] <= 4) {
        count++;
    }
    return count;
}

enum culm_status culm_edge_gemel_play(const struct culm_edge_layout *layout, int64_t frames,
                                      struct culm_edge_gemel *ret_result, uint8_t *answered) {
    int32_t count = layout->query_count;
    struct culm_edge_gemel trial = {0}, best = {0};
    double share[CULM_EDGE_QUERIES_MAX];
    int64_t tried = frames < TRIED_FRAMES ? frames : TRIED_FRAMES;
    bool found = false;
    size_t taken = culm_edge_frames_bytes(layout, CULM_EDGE_SLOTS_MIN);
    struct box box = {.layout = layout, .room = layout->limit_bytes - taken};
    if (count == 0) {
        *ret_result = best;
        return CULM_OK;
    }
    box.lacks = calloc((size_t)count * (size_t)count, sizeof *box.lacks);
    if (!box.lacks) {
        return CULM_ERR_MEMORY;
    }
    for (int32_t i = 0; i < count; i++) {
        box.own[i] = culm_edge_query_bytes(layout, i);
        for (int32_t j = 0; j < count; j++) {
            box.lacks[i * count + j] = lacking(layout, i, j);
        }
    }
    consider(&box, tried, &trial, &best, share, &found);
    if (count <= ALL_UP_TO) {
        for (;;) {
            int32_t q = 0;
            while (q < count && ++trial.batch[q] == sizes_of(&layout->query[q])) {
                trial.batch[q++] = 0;
            }
            if (q == count) {
                break;
            }
            consider(&box, tried, &trial, &best, share, &found);
        }
    } else {
        for (int32_t q = 0; q < count; q++) {
            for (int32_t b = 0; b < sizes_of(&layout->query[q]); b++) {
                trial = best;
                trial.batch[q] = b;
                consider(&box, tried, &trial, &best, share, &found);
            }
        }
    }
    play(&box, frames, &best, answered);
    free(box.lacks);
    *ret_result = best;
    return CULM_OK;
}
