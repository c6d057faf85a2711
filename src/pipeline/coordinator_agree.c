/*
 * The coordinator: do those who speak of the same thing say the same?
 *
 * Every holder of a tensor tells the norm of its gradient (PREPARED) and the digest of its state
 * after each step (DIGESTS); several tell loss, samples and weight. All of these are pure functions
 * of the iteration, so a bit of difference is damage. It is looked for before anything follows from
 * it: norms before COMMIT, digests of version k before COMMIT(k + 1) and before a checkpoint of
 * version k is published.
 *
 *   a norm or a statistic   More than half agree: the others are put out. Else the iteration is
 *                           done once more; whoever that contradicts is put out. If it still cannot
 *                           be told, the run ends.
 *   a digest of state       More than half of those who stepped agree: the others are put out, and
 *                           whoever has copied from them. Else the run ends, with the last
 *                           checkpoint as it is: the version before is no more.
 *   DAMAGED                 A node found its own copy not to be what it had made of it: it is out.
 *
 * What a copy that is put out had a part in since the last COMMIT is not believed either: the
 * iteration begins afresh (culm_view.attempt). What a node said before it was lost counts on. What
 * all say is believed: that a sum was damaged before it was handed out, or that the only copy of a
 * stage was stepped wrongly, cannot be seen here.
 */
#include "pipeline/coordinator_internal.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a worker has said of the iteration in progress and of the version before it. */
struct words {
    uint64_t
        prepared;    /* stages whose tensors `norm` is of; with the last one, the statistics too */
    uint64_t before; /* the same before the iteration was done once more */
    uint64_t stated; /* stages whose tensors `digest` is of */
    double loss[2], weight[2];
    int64_t samples[2];
    uint64_t ids[2][CULM_MAX_STAGES];
    double *norm[2];  /* [params]; [1]: before the iteration was done once more */
    uint64_t *digest; /* [params] */
};

/* Who says what of thing number `thing`; false: w says nothing of it. */
typedef bool saying(const struct culm_coordinator *c, const struct worker *w, int32_t thing,
                    uint64_t *ret_value);

struct verdict {
    bool differ, open; /* open: of some thing nobody can say what is right */
    int32_t thing;     /* the first that differs */
};

void culm_coordinator_words_free(struct worker *worker) {
    struct words *words = worker->words;
    if (words) {
        free(words->norm[0]);
        free(words->norm[1]);
        free(words->digest);
        free(words);
        worker->words = NULL;
    }
}

/* NULL: out of memory, and the run has ended. */
static struct words *words_of(struct culm_coordinator *c, struct worker *worker) {
    if (!worker->words) {
        size_t params = (size_t)c->o.layout->param_count;
        struct words *words = worker->words = calloc(1, sizeof *words);
        if (words) {
            words->norm[0] = calloc(params, sizeof *words->norm[0]);
            words->norm[1] = calloc(params, sizeof *words->norm[1]);
            words->digest = calloc(params, sizeof *words->digest);
        }
        if (!words || !words->norm[0] || !words->norm[1] || !words->digest) {
            culm_coordinator_words_free(worker);
            culm_coordinator_fail(c, CULM_ERR_MEMORY, "keep what worker %d says", worker->id);
        }
    }
    return worker->words;
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static bool last_among(const struct culm_coordinator *c, uint64_t stages) {
    return stages >> (c->o.shape.stages - 1) & 1;
}

/* Things of an iteration: the norms, then loss, samples and weight, then which samples were read
 * for each stage. */
static int32_t gradient_things(const struct culm_coordinator *c) {
    return c->o.layout->param_count + 3 + c->o.shape.stages;
}

static bool says_of_gradient_at(const struct culm_coordinator *c, const struct words *words,
                                int which, int32_t thing, uint64_t *ret_value) {
    int32_t params = c->o.layout->param_count;
    uint64_t stages = which ? words->before : words->prepared;
    if (thing < params) {
        *ret_value = bits_of(words->norm[which][thing]);
        return (stages & c->o.layout->param[thing].stages) != 0;
    }
    if (thing >= params + 3) {
        *ret_value = words->ids[which][thing - params - 3];
        return stages >> (thing - params - 3) & 1;
    }
    *ret_value = thing == params       ? bits_of(words->loss[which])
                 : thing == params + 1 ? (uint64_t)words->samples[which]
                                       : bits_of(words->weight[which]);
    return last_among(c, stages);
}

static bool says_of_gradient(const struct culm_coordinator *c, const struct worker *w,
                             int32_t thing, uint64_t *ret_value) {
    return says_of_gradient_at(c, w->words, 0, thing, ret_value);
}

static bool says_of_state(const struct culm_coordinator *c, const struct worker *w, int32_t thing,
                          uint64_t *ret_value) {
    *ret_value = w->words->digest[thing];
    return (w->words->stated & c->o.layout->param[thing].stages) != 0;
}

/* Has it come to this state by itself? One that was sent a copy only repeats its source. */
static bool independent(const struct culm_coordinator *c, const struct worker *w, saying *says,
                        int32_t thing) {
    return says == says_of_gradient || (w->stepped & c->o.layout->param[thing].stages);
}

/* Notes in `contradicted` whom a majority of the voices on `thing` contradicts. */
static void judge(struct culm_coordinator *c, saying *says, int32_t thing,
                  struct verdict *verdict) {
    int32_t voices = 0;
    uint64_t right = 0, value = 0, other;
    bool known = false;
    for (int32_t i = 0; i < c->worker_count; i++) {
        const struct worker *w = &c->worker[i];
        voices += w->words && says(c, w, thing, &value) && independent(c, w, says, thing);
    }
    for (int32_t i = 0; i < c->worker_count && !known; i++) {
        int32_t votes = 0;
        const struct worker *w = &c->worker[i];
        for (int32_t k = 0; k < c->worker_count && w->words && says(c, w, thing, &value); k++) {
            const struct worker *voice = &c->worker[k];
            votes += voice->words && says(c, voice, thing, &other) && other == value &&
                     independent(c, voice, says, thing);
        }
        known = 2 * votes > voices;
        right = value;
    }
    verdict->open |= !known;
    for (int32_t i = 0; i < c->worker_count && known; i++) {
        struct worker *w = &c->worker[i];
        w->contradicted |= w->words && says(c, w, thing, &value) && value != right;
    }
}

static struct verdict compare(struct culm_coordinator *c, saying *says, int32_t things) {
    struct verdict verdict = {0};
    for (int32_t i = 0; i < c->worker_count; i++) {
        c->worker[i].contradicted = false;
    }
    for (int32_t thing = 0; thing < things; thing++) {
        bool any = false, differ = false;
        uint64_t first = 0, value;
        for (int32_t i = 0; i < c->worker_count; i++) {
            const struct worker *w = &c->worker[i];
            if (w->words && says(c, w, thing, &value)) {
                differ |= any && value != first;
                first = any ? first : value;
                any = true;
            }
        }
        if (differ) {
            verdict.thing = verdict.differ ? verdict.thing : thing;
            verdict.differ = true;
            judge(c, says, thing, &verdict);
        }
    }
    return verdict;
}

/* --- what follows --- */

/* The first stage of `thing`. */
static int32_t stage_of(const struct culm_coordinator *c, int32_t thing) {
    int32_t stage = c->o.shape.stages - 1, ids = thing - c->o.layout->param_count - 3;
    if (ids >= 0) {
        stage = ids;
    } else if (thing < c->o.layout->param_count) {
        for (stage = 0; !(c->o.layout->param[thing].stages >> stage & 1); stage++) {
        }
    }
    return stage;
}

/* Says who disagrees about what; `ret_text` is one line for people. */
static void tell(struct culm_coordinator *c, saying *says, const struct verdict *verdict,
                 char ret_text[CULM_REASON_MAX]) {
    int32_t stage = stage_of(c, verdict->thing);
    bool state = says == says_of_state;
    int64_t step = state ? c->iteration - 1 : c->iteration;
    const char *what = state                                       ? "state"
                       : verdict->thing < c->o.layout->param_count ? "gradient"
                                                                   : "statistics";
    json_t *nodes = json_array(), *out = json_array();
    char list[64] = "";
    for (int32_t i = 0; i < c->worker_count; i++) {
        const struct worker *w = &c->worker[i];
        uint64_t value;
        if (w->words && says(c, w, verdict->thing, &value)) {
            json_array_append_new(nodes, json_integer(w->id));
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", w->id);
        }
        if (w->contradicted) {
            json_array_append_new(out, json_integer(w->id));
        }
    }
    snprintf(ret_text, CULM_REASON_MAX, "the %s of stage %d differs among workers %s (step %lld)",
             what, stage, list, (long long)step);
    culm_coordinator_event(c, json_pack("{s:s, s:I, s:i, s:s, s:o, s:o, s:s}", "event", "differs",
                                        "step", (json_int_t)step, "stage", stage, "what", what,
                                        "nodes", nodes, "put_out", out, "message", ret_text));
}

/* It is out; what it wrote of a checkpoint that is not published yet does not count. */
static void put_out(struct culm_coordinator *c, struct worker *worker, bool afresh,
                    const char *why) {
    int32_t id = worker->id;
    culm_coordinator_words_free(worker);
    worker->contradicted = false;
    for (int32_t s = 0; s < c->o.shape.stages && c->saving.active; s++) {
        if (c->saving.writer[s] == id && !c->saving.publishing) {
            c->saving.saved &= ~(1ull << s);
        }
    }
    c->afresh |= afresh;
    culm_coordinator_lose(c, worker, CULM_CAUSE_DIFFERS, why);
}

/* False: they all were lost already, and no longer count. */
static bool put_out_contradicted(struct culm_coordinator *c, bool afresh, const char *why) {
    bool any = false;
    for (int32_t i = 0; i < c->worker_count; i++) {
        if (!c->worker[i].alive && c->worker[i].contradicted) {
            culm_coordinator_words_free(&c->worker[i]);
        }
    }
    for (int32_t i = 0; i < c->worker_count && c->phase != ENDED; i++) {
        if (c->worker[i].alive && c->worker[i].contradicted) {
            put_out(c, &c->worker[i], afresh, why);
            any = true;
        }
    }
    return any;
}

static void cannot_be_told(struct culm_coordinator *c, const char *what) {
    culm_coordinator_fail(c, CULM_ERR_INTERNAL,
                          "%s, and it cannot be told which is right; the last checkpoint is kept: "
                          "continue from it with --resume",
                          what);
}

void culm_coordinator_damaged(struct culm_coordinator *c, struct worker *worker,
                              const struct culm_message *message) {
    struct culm_damaged damaged;
    if (culm_damaged_decode(message->meta, message->meta_bytes, &damaged) != CULM_OK) {
        return;
    }
    culm_coordinator_event(c,
                           json_pack("{s:s, s:I, s:i, s:s, s:[i], s:[i], s:o}", "event", "differs",
                                     "step", (json_int_t)damaged.iteration, "stage", damaged.stage,
                                     "what", "memory", "nodes", worker->id, "put_out", worker->id,
                                     "message", culm_json_text(damaged.why)));
    /* A step that found it changed nothing for others: what it stepped from was looked at when the
     * step was prepared. */
    put_out(c, worker, damaged.iteration == c->iteration, damaged.why);
}

/* --- gradients --- */

void culm_coordinator_keep_prepared(struct culm_coordinator *c, struct worker *worker,
                                    const struct culm_prepared *prepared) {
    struct words *words = words_of(c, worker);
    if (words) {
        words->prepared = prepared->stages;
        words->loss[0] = prepared->loss;
        words->samples[0] = prepared->samples;
        words->weight[0] = prepared->weight;
        memcpy(words->ids[0], prepared->ids, sizeof words->ids[0]);
        memcpy(words->norm[0], prepared->norm,
               (size_t)c->o.layout->param_count * sizeof *words->norm[0]);
    }
}

/* Nobody can say which is right: what is said now is kept, and the iteration is done once more. */
static void once_more(struct culm_coordinator *c, const char *why) {
    for (int32_t i = 0; i < c->worker_count; i++) {
        struct words *words = c->worker[i].words;
        if (words) {
            double *norm = words->norm[0];
            words->norm[0] = words->norm[1];
            words->norm[1] = norm;
            words->loss[1] = words->loss[0];
            words->samples[1] = words->samples[0];
            words->weight[1] = words->weight[0];
            memcpy(words->ids[1], words->ids[0], sizeof words->ids[0]);
            words->before = words->prepared;
            words->prepared = 0;
        }
    }
    c->once_more = true;
    c->afresh = true;
    culm_coordinator_publish(c, false, why);
}

/* The iteration was done once more and all agree: who had said otherwise? */
static bool settled(struct culm_coordinator *c, int32_t things) {
    bool all = true;
    c->once_more = false;
    for (int32_t i = 0; i < c->worker_count; i++) {
        struct worker *w = &c->worker[i];
        for (int32_t thing = 0; thing < things && w->words; thing++) {
            uint64_t said, value = 0;
            bool known = false;
            if (!says_of_gradient_at(c, w->words, 1, thing, &said)) {
                continue;
            }
            for (int32_t k = 0; k < c->worker_count && !known; k++) {
                known = c->worker[k].words && says_of_gradient(c, &c->worker[k], thing, &value);
            }
            w->contradicted |= known && said != value;
        }
        all &= !w->contradicted;
    }
    return all || !put_out_contradicted(c, false, "the same step, done once more, contradicts it");
}

static void take(struct culm_coordinator *c) {
    for (int32_t i = 0; i < c->worker_count; i++) {
        const struct words *words = c->worker[i].words;
        for (int32_t p = 0; p < c->o.layout->param_count && words; p++) {
            if (c->o.layout->param[p].stages & words->prepared) {
                c->norm[p] = words->norm[0][p];
                c->norm_known[p] = true;
            }
        }
        if (words && last_among(c, words->prepared)) {
            c->samples = words->samples[0];
            c->weight = words->weight[0] > 0 ? words->weight[0] : 1;
            c->loss = words->loss[0] / c->weight;
        }
    }
}

/* --- samples --- */

/* What a stage that reads the samples of `iteration` says of them. */
static uint64_t ids_of(const struct culm_coordinator *c, int64_t iteration) {
    uint32_t sum[CULM_IDS_PARTS] = {0};
    for (int32_t m = 0; m < c->o.shape.micros; m++) {
        uint64_t first = culm_run_shape_first_sample(&c->o.shape, iteration, m);
        uint64_t ids = culm_order_ids(&c->o.order, first, c->o.shape.micro_samples);
        for (int i = 0; i < CULM_IDS_PARTS; i++) {
            sum[i] += culm_order_ids_part(ids, i);
        }
    }
    return culm_order_ids_told(sum);
}

#define NEAR 64 /* steps on either side whose samples may have been read instead */

/* All agree on what was read for `stage`, and it is not what the ledger is about to say. */
static void misread(struct culm_coordinator *c, int32_t stage, uint64_t ids) {
    int64_t from = c->iteration > NEAR ? c->iteration - NEAR : 1, other = from;
    while (other <= c->iteration + NEAR && ids_of(c, other) != ids) {
        other++;
    }
    bool told = other <= c->iteration + NEAR;
    char what[64] = "and which they are cannot be told";
    struct culm_ledger_audit audit = {0};
    if (told) { /* the ledger says what was read, so that the audit counts it */
        snprintf(what, sizeof what, "but those of step %lld", (long long)other);
        uint64_t first = culm_run_shape_first_sample(&c->o.shape, other, 0);
        uint64_t end = (uint64_t)c->iteration * (uint64_t)c->o.shape.global_samples;
        culm_ledger_commit(c->ledger, c->iteration, first,
                           first + (uint64_t)c->o.shape.global_samples - 1);
        told = culm_ledger_audit(c->ledger, end, &audit) == CULM_OK;
    }
    json_t *event = json_pack("{s:s, s:I, s:i}", "event", "misread", "step",
                              (json_int_t)c->iteration, "stage", stage);
    json_object_set_new(event, "samples_lost",
                        told ? json_integer((json_int_t)audit.lost) : json_null());
    json_object_set_new(event, "samples_repeated",
                        told ? json_integer((json_int_t)audit.repeated) : json_null());
    culm_coordinator_event(c, event);
    culm_coordinator_fail(c, CULM_ERR_INTERNAL,
                          "step %lld: stage %d has not read the samples whose turn it was, %s; the "
                          "last checkpoint is kept: continue from it with --resume",
                          (long long)c->iteration, stage, what);
}

/* Were the samples read that the ledger is about to say were? */
static bool read_as_ordered(struct culm_coordinator *c) {
    uint64_t wanted = 0;
    for (int32_t i = 0; i < c->worker_count && c->o.order.samples > 0; i++) {
        const struct words *words = c->worker[i].words;
        for (int32_t s = 0; s < c->o.shape.stages && words; s++) {
            if (!(words->prepared >> s & 1) || !c->o.layout->stage[s].reads) {
                continue;
            }
            wanted = wanted ? wanted : ids_of(c, c->iteration);
            if (words->ids[0][s] != wanted) {
                misread(c, s, words->ids[0][s]);
                return false;
            }
        }
    }
    return true;
}

bool culm_coordinator_agree(struct culm_coordinator *c) {
    if (!culm_coordinator_state_agreed(c)) {
        return false;
    }
    int32_t things = gradient_things(c);
    struct verdict verdict = compare(c, says_of_gradient, things);
    if (!verdict.differ) {
        if (c->once_more && !settled(c, things)) {
            return false;
        }
        take(c);
        return read_as_ordered(c);
    }
    char why[CULM_REASON_MAX];
    tell(c, says_of_gradient, &verdict, why);
    if (!verdict.open) {
        return !put_out_contradicted(c, true, why) && culm_coordinator_agree(c);
    }
    if (c->once_more) {
        cannot_be_told(c, why);
    } else {
        once_more(c, why);
    }
    return false;
}

/* --- state --- */

void culm_coordinator_digests(struct culm_coordinator *c, struct worker *worker,
                              const struct culm_message *message) {
    int32_t params = c->o.layout->param_count;
    uint64_t *digest = malloc((size_t)params * sizeof *digest);
    struct words *words = words_of(c, worker);
    if (!digest || !words) {
        free(digest);
        culm_coordinator_fail(c, CULM_ERR_MEMORY, "read DIGESTS");
        return;
    }
    struct culm_digests said = {.params = params, .digest = digest};
    if (culm_digests_decode(message->meta, message->meta_bytes, &said) == CULM_OK &&
        said.version == c->iteration - 1 && said.view >= c->load_view) {
        for (int32_t p = 0; p < params; p++) {
            if (c->o.layout->param[p].stages & said.stages) {
                words->digest[p] = digest[p];
            }
        }
        words->stated |= said.stages;
        culm_coordinator_settle(c);
    }
    free(digest);
}

void culm_coordinator_words_stepped(struct culm_coordinator *c) {
    c->once_more = false;
    for (int32_t i = 0; i < c->worker_count; i++) {
        struct worker *w = &c->worker[i];
        const struct culm_view_node *node = w->alive ? culm_view_find(c->view, w->id) : NULL;
        w->stepped = node ? node->holds : 0;
        if (!w->alive) {
            culm_coordinator_words_free(w);
        } else if (w->words) {
            w->words->prepared = w->words->before = w->words->stated = 0;
        }
    }
}

void culm_coordinator_words_afresh(struct culm_coordinator *c) {
    for (int32_t i = 0; i < c->worker_count; i++) {
        if (c->worker[i].words) {
            c->worker[i].words->prepared = 0;
        }
    }
}

void culm_coordinator_words_loaded(struct culm_coordinator *c) {
    for (int32_t i = 0; i < c->worker_count; i++) {
        c->worker[i].stepped = c->worker[i].alive ? c->worker[i].holds : 0;
    }
}

void culm_coordinator_words_forget(struct culm_coordinator *c) {
    c->once_more = false;
    c->agreed_version = -1;
    for (int32_t i = 0; i < c->worker_count; i++) {
        c->worker[i].stepped = 0;
        culm_coordinator_words_free(&c->worker[i]);
    }
}

bool culm_coordinator_state_agreed(struct culm_coordinator *c) {
    if (c->phase != RUNNING) {
        return false;
    }
    for (int32_t i = 0; i < c->worker_count; i++) {
        const struct worker *w = &c->worker[i];
        uint64_t stated = w->words ? w->words->stated : 0;
        if (w->alive && (w->stepped & w->holds & ~stated)) {
            return false; /* it has yet to say what it stepped to */
        }
    }
    struct verdict verdict = compare(c, says_of_state, c->o.layout->param_count);
    if (!verdict.differ) {
        c->agreed_version = c->iteration - 1;
        return true;
    }
    char why[CULM_REASON_MAX];
    tell(c, says_of_state, &verdict, why);
    if (verdict.open) {
        cannot_be_told(c, why);
        return false;
    }
    return !put_out_contradicted(c, true, why) && culm_coordinator_state_agreed(c);
}
