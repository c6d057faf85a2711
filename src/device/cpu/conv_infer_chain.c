/*
 * Convolutions for inference of which each reads what the one before it made, some lines at a time: what
 * lies between them stays in the cache and is never written out.
 *
 * Bits: an element is what it is alone (conv_infer.c); who computes it, and how often, enters nowhere.
 *
 * How it is done: the last one's lines are cut into stretches, one a task, and made a band at a time. Each
 * of the others has a few lines in private scratch: for a band it keeps those that are still needed, moved
 * to the front, and makes the rest. So only where a stretch begins are lines made twice. A band is a
 * convolution of its own, of fewer lines, whose image begins at the first line that it reads.
 *
 * A chain ends with a 1x1 that has fewer outputs than inputs: what it makes is small. It must gain:
 * between the convolutions there is more than a second-level cache keeps. And the last one must not be put
 * where the first one's input lies, which is still read.
 */
#include "device/cpu/conv_infer.h"

#define MOST 3             /* convolutions of a chain */
#define GAIN (128 * 1024)  /* floats between them, from which on it is done */
#define BUFFER (64 * 1024) /* floats of all lines that a thread keeps, about */
#define LONG 20            /* lines of a stretch, beside which those made twice are few */

_Static_assert(BUFFER <= PRIVATE_FLOATS, "lines of a thread");

struct chain {
    struct infer link[MOST];
    int32_t count;
    int64_t band;               /* lines of the last one that are made at a time */
    int64_t stretch, stretches; /* its lines of a task, at most; tasks of an image */
    int64_t place[MOST];        /* where the lines of each but the last begin, in floats */
};

/* Of a task: lines [first, end) of what each but the last makes are there. */
struct kept {
    const struct chain *chain;
    int64_t image;
    float *line[MOST];
    int64_t first[MOST], end[MOST];
};

/* --- a band --- */

static const float *lines_of(struct kept *kept, int32_t k, int64_t first, int64_t end);

/* Lines [first, end) of what convolution `k` makes, to `y`. */
static void make(struct kept *kept, int32_t k, int64_t first, int64_t end, float *y) {
    struct infer s = kept->chain->link[k];
    struct culm_conv_infer_args args = *s.a;
    struct culm_conv v = *s.v;
    int64_t top = first * v.stride[0] - v.pad[0], whole = v.h;
    int64_t bottom = (end - 1) * v.stride[0] - v.pad[0] + (v.kh - 1) * v.dilation[0] + 1;
    int64_t low = at_most(whole, at_least(0, top)), high = at_least(low, at_most(whole, bottom));
    v.n = 1;
    v.h = high - low;
    v.oh = end - first;
    v.pad[0] = low - top;
    args.ahead = NULL;
    args.conv = &v;
    args.x =
        k > 0 ? lines_of(kept, k - 1, low, high) : s.a->x + (kept->image * whole + low) * v.w * v.c;
    args.y = y;
    if (args.residual) {
        args.residual += (kept->image * s.v->oh + first) * v.ow * v.o;
    }
    s.a = &args;
    s.v = &v;
    ISA_NAME(conv_infer_direct)(NULL, &s);
}

/* Where they lie, after those that are missing have been made. Of each, `first` and `end` never fall. */
static const float *lines_of(struct kept *kept, int32_t k, int64_t first, int64_t end) {
    const struct culm_conv *v = kept->chain->link[k].v;
    int64_t line = v->ow * v->o, there = at_least(0, kept->end[k] - first);
    float *at = kept->line[k];
    if (there > 0 && first > kept->first[k]) {
        memmove(at, at + (first - kept->first[k]) * line, (size_t)(there * line) * sizeof *at);
    }
    kept->first[k] = first;
    kept->end[k] = at_least(end, first + there);
    if (first + there < end) {
        make(kept, k, first + there, end, at + there * line);
    }
    return at;
}

static void some_lines(void *context, int64_t index, int thread) {
    const struct chain *c = context;
    const struct infer *last = &c->link[c->count - 1];
    const struct culm_conv *v = last->v;
    int64_t line = index % c->stretches * c->stretch, end = at_most(v->oh, line + c->stretch);
    struct kept kept = {.chain = c, .image = index / c->stretches};
    for (int32_t k = 0; k + 1 < c->count; k++) {
        kept.line[k] = cpu_private(last->cpu, thread) + c->place[k];
    }
    for (; line < end; line += c->band) {
        make(&kept, c->count - 1, line, at_most(end, line + c->band),
             last->a->y + (kept.image * v->oh + line) * v->ow * v->o);
    }
}

/* --- what is a chain --- */

static int64_t floats_of(const struct culm_conv *v) { return v->oh * v->ow * v->o; }

/* Floats of the lines that are kept for a band of so many; fills `place`. */
static int64_t buffer(const struct culm_conv_infer_args *args, int32_t count, int64_t band,
                      int64_t place[MOST]) {
    int64_t floats = 0, lines = band;
    for (int32_t k = count - 1; k > 0; k--) {
        const struct culm_conv *v = args[k].conv;
        lines = at_most(v->h, (lines - 1) * v->stride[0] + (v->kh - 1) * v->dilation[0] + 1);
        place[k - 1] = floats;
        floats += round_up(lines * v->w * v->c, LANES) + LANES;
    }
    return floats;
}

static bool apart(const float *a, int64_t a_floats, const float *b, int64_t b_floats) {
    return (uintptr_t)(a + a_floats) <= (uintptr_t)b || (uintptr_t)(b + b_floats) <= (uintptr_t)a;
}

/* How many of the first are one chain. */
static int32_t length(const struct culm_conv_infer_args *args, int32_t count) {
    int64_t between = 0, coefficients = 0;
    int32_t length = 0;
    while (length < at_most(count, MOST)) {
        const struct culm_conv *v = args[length].conv;
        if (ISA_NAME(conv_infer_by_winograd)(v)) {
            break;
        }
        between += length > 0 ? v->h * v->w * v->c : 0;
        coefficients += 3 * round_up(v->o, LANES) + round_up(v->kw * v->c, LANES);
        length++;
        if (v->kh * v->kw == 1 && v->o < v->c) {
            break;
        }
    }
    if (length < 2 || between < GAIN || coefficients > SHARED_FLOATS) {
        return 0;
    }
    const struct culm_conv_infer_args *last = &args[length - 1];
    int64_t made = last->conv->n * floats_of(last->conv);
    const struct culm_conv *first = args->conv;
    return apart(args->x, first->n * first->h * first->w * first->c, last->y, made) ? length : 0;
}

int32_t ISA_NAME(conv_infer_chain)(struct culm_cpu *cpu, const struct culm_conv_infer_args *args,
                                   int32_t count) {
    struct chain c = {.count = length(args, count), .band = 2};
    if (!c.count || buffer(args, c.count, c.band, c.place) > BUFFER) {
        return 0;
    }
    const struct culm_conv *v = args[c.count - 1].conv;
    while (c.band < v->oh && buffer(args, c.count, c.band + 2, c.place) <= BUFFER) {
        c.band += 2;
    }
    (void)buffer(args, c.count, c.band, c.place);
    float *at = cpu_shared(cpu);
    for (int32_t k = 0; k < c.count; k++) {
        at += ISA_NAME(conv_infer_set_up)(cpu, &args[k], at, &c.link[k]);
    }
    int64_t tasks = cpu->threads == 1 ? 1 : ceil_div(cpu->threads, v->n);
    tasks *= cpu->threads > 1 && v->oh >= 2 * tasks * LONG ? 2 : 1;
    c.stretch = ceil_div(v->oh, tasks);
    c.stretches = ceil_div(v->oh, c.stretch);
    culm_cpu_run(cpu, v->n * c.stretches, some_lines, &c);
    return c.count;
}
