/*
 * The leader: do those who speak of the same thing say the same?
 *
 * Every holder of a tensor tells the norm of its gradient (PREPARED) and the digest of its state
 * after each step (DIGESTS); several tell loss, samples and weight. All of these are pure functions
 * of the iteration, so a bit of difference is damage. It is looked for before anything follows from
 * it: norms before COMMIT, digests of version k before COMMIT(k + 1) and before a checkpoint of
 * version k is published.
 *
 *   a norm or a statistic   However many agree, they have it from one reducer, so the iteration is
 *                           done once more. Who alone said what that contradicts is put out; what
 *                           several said alike, somebody had handed on, who may be lost: nobody is.
 *                           If it differs again, those are put out whom more than half contradict,
 *                           or it cannot be told, and the run ends.
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
#include "pipeline/leader_internal.h"

#include "base/json.h"
#include "base/mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a worker has said of the iteration in progress and of the version before it. */
struct words {
    /* Stages whose tensors `norm` is of; with the last one, the statistics too. */
    struct culm_stage_set prepared;
    struct culm_stage_set before; /* the same before the iteration was done once more */
    struct culm_stage_set stated; /* stages whose tensors `digest` is of */
    double loss[2], weight[2];
    int64_t samples[2];
    uint64_t *ids[2]; /* [stages] */
    double *norm[2];  /* [params]; [1]: before the iteration was done once more */
    uint64_t *digest; /* [params] */
};

/* Who says what of thing number `thing`; false: w says nothing of it. */
typedef bool saying(const struct culm_pipeline_leader *leader, const struct worker *w,
                    int32_t thing, uint64_t *ret_value);

struct verdict {
    bool differ, open; /* open: of some thing nobody can say what is right */
    int32_t thing;     /* the first that differs */
};

static void words_free(struct words *words_or_null) {
    if (words_or_null) {
        free(words_or_null->norm[0]);
        free(words_or_null->norm[1]);
        free(words_or_null->ids[0]);
        free(words_or_null->ids[1]);
        free(words_or_null->digest);
        free(words_or_null);
    }
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double number_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool last_among(const struct culm_pipeline_leader *leader,
                       const struct culm_stage_set *stages) {
    return culm_stage_set_has(stages, leader->o.shape.stages - 1);
}

/* Things of an iteration: the norms, then loss, samples and weight, then which samples were read
 * for each stage. */
static int32_t gradient_things(const struct culm_pipeline_leader *leader) {
    return leader->o.layout->param_count + 3 + leader->o.shape.stages;
}

static bool says_of_gradient_at(const struct culm_pipeline_leader *leader,
                                const struct words *words, int which, int32_t thing,
                                uint64_t *ret_value) {
    int32_t params = leader->o.layout->param_count;
    const struct culm_stage_set *stages = which ? &words->before : &words->prepared;
    if (thing < params) {
        *ret_value = bits_of(words->norm[which][thing]);
        return culm_stage_set_meets(stages, &leader->o.layout->param[thing].stages);
    }
    if (thing >= params + 3) {
        *ret_value = words->ids[which][thing - params - 3];
        return culm_stage_set_has(stages, thing - params - 3);
    }
    *ret_value = thing == params       ? bits_of(words->loss[which])
                 : thing == params + 1 ? (uint64_t)words->samples[which]
                                       : bits_of(words->weight[which]);
    return last_among(leader, stages);
}

static bool says_of_gradient(const struct culm_pipeline_leader *leader, const struct worker *w,
                             int32_t thing, uint64_t *ret_value) {
    return says_of_gradient_at(leader, w->words, 0, thing, ret_value);
}

static bool says_of_state(const struct culm_pipeline_leader *leader, const struct worker *w,
                          int32_t thing, uint64_t *ret_value) {
    *ret_value = w->words->digest[thing];
    return culm_stage_set_meets(&w->words->stated, &leader->o.layout->param[thing].stages);
}

/* --- tallies --- */

/*
 * What is said is compared when it is said, with what was said first, so that all that is left to look at
 * when everyone has spoken is whether anything differs. If it does, compare() looks at everyone's words.
 */

static bool tallies_init(struct tallies *tallies, int32_t count) {
    tallies->thing = calloc((size_t)(count ? count : 1), sizeof *tallies->thing);
    tallies->count = count;
    return tallies->thing != NULL;
}

static void tallies_clear(struct tallies *tallies) {
    memset(tallies->thing, 0, (size_t)tallies->count * sizeof *tallies->thing);
    tallies->differ = 0;
}

/* One more, or (`by` -1) one fewer, says that. */
static void count_voice(struct tallies *tallies, int32_t thing, uint64_t value, int32_t by) {
    struct tally *tally = &tallies->thing[thing];
    const bool differed = tally->other > 0;
    if (tally->same + tally->other == 0) {
        tally->value = value;
    }
    *(value == tally->value ? &tally->same : &tally->other) += by;
    tallies->differ += (tally->other > 0) - differed;
}

/* Of these stages, the one under which a parameter counts that lives in several. */
static int32_t counts_under(const struct culm_pipeline_leader *leader, int32_t param,
                            const struct culm_stage_set *stages) {
    const struct culm_stage_set both =
        culm_stage_set_both(&leader->o.layout->param[param].stages, stages);
    return culm_stage_set_next(&both, 0);
}

static void count_gradients(struct culm_pipeline_leader *leader, const struct worker *worker,
                            int32_t by) {
    const int32_t params = leader->o.layout->param_count;
    const struct words *words = worker->words;
    const struct culm_stage_set stages = words ? words->prepared : (struct culm_stage_set){{0}};
    for (int32_t s = culm_stage_set_next(&stages, 0); s >= 0;
         s = culm_stage_set_next(&stages, s + 1)) {
        const struct culm_stage_desc *stage = &leader->o.layout->stage[s];
        for (int32_t i = 0; i < stage->param_count; i++) {
            const int32_t param = stage->params[i];
            if (counts_under(leader, param, &stages) == s) {
                count_voice(&leader->gradients, param, bits_of(words->norm[0][param]), by);
            }
        }
        count_voice(&leader->gradients, params + 3 + s, words->ids[0][s], by);
    }
    if (last_among(leader, &stages)) {
        count_voice(&leader->gradients, params, bits_of(words->loss[0]), by);
        count_voice(&leader->gradients, params + 1, (uint64_t)words->samples[0], by);
        count_voice(&leader->gradients, params + 2, bits_of(words->weight[0]), by);
    }
}

static void count_states(struct culm_pipeline_leader *leader, const struct worker *worker,
                         int32_t by) {
    const struct culm_stage_set stages =
        worker->words ? worker->words->stated : (struct culm_stage_set){{0}};
    for (int32_t s = culm_stage_set_next(&stages, 0); s >= 0;
         s = culm_stage_set_next(&stages, s + 1)) {
        const struct culm_stage_desc *stage = &leader->o.layout->stage[s];
        for (int32_t i = 0; i < stage->param_count; i++) {
            const int32_t param = stage->params[i];
            if (counts_under(leader, param, &stages) == s) {
                count_voice(&leader->states, param, worker->words->digest[param], by);
            }
        }
    }
}

bool leader_words_begin(struct culm_pipeline_leader *leader) {
    return tallies_init(&leader->gradients, gradient_things(leader)) &&
           tallies_init(&leader->states, leader->o.layout->param_count);
}

void leader_words_end(struct culm_pipeline_leader *leader) {
    free(leader->gradients.thing);
    free(leader->states.thing);
}

void leader_words_free(struct culm_pipeline_leader *leader, struct worker *worker) {
    struct words *words = worker->words;
    if (words) {
        count_gradients(leader, worker, -1);
        count_states(leader, worker, -1);
        words_free(words);
        worker->words = NULL;
    }
}

/* NULL: out of memory, and the run has ended. */
static struct words *words_of(struct culm_pipeline_leader *leader, struct worker *worker) {
    if (!worker->words) {
        const size_t params = (size_t)leader->o.layout->param_count;
        const size_t stages = (size_t)leader->o.shape.stages;
        struct words *words = worker->words = calloc(1, sizeof *words);
        if (words) {
            words->norm[0] = calloc(params, sizeof *words->norm[0]);
            words->norm[1] = calloc(params, sizeof *words->norm[1]);
            words->ids[0] = calloc(stages, sizeof *words->ids[0]);
            words->ids[1] = calloc(stages, sizeof *words->ids[1]);
            words->digest = calloc(params, sizeof *words->digest);
        }
        if (!words || !words->norm[0] || !words->norm[1] || !words->ids[0] || !words->ids[1] ||
            !words->digest) {
            words_free(words);
            worker->words = NULL;
            culm_crew_fail(&leader->crew, CULM_ERR_MEMORY, "keep what worker %d says",
                           worker->mate.id);
        }
    }
    return worker->words;
}

/* --- who is right --- */

/* Those who said it first may have been put out, and all others agree. */
static void tally_afresh(const struct culm_pipeline_leader *leader, saying *says,
                         struct tallies *tallies, int32_t thing) {
    uint64_t value;
    tallies->differ -= tallies->thing[thing].other > 0;
    tallies->thing[thing] = (struct tally){0};
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        const struct worker *w = worker_at(leader, i);
        if (w->words && says(leader, w, thing, &value)) {
            count_voice(tallies, thing, value, 1);
        }
    }
}

/* Has it come to this state by itself? One that was sent a copy only repeats its source. */
static bool independent(const struct culm_pipeline_leader *leader, const struct worker *w,
                        saying *says, int32_t thing) {
    return says == says_of_gradient ||
           culm_stage_set_meets(&w->stepped, &leader->o.layout->param[thing].stages);
}

/* Notes in `contradicted` whom a majority of the voices on `thing` contradicts. */
static void judge(struct culm_pipeline_leader *leader, saying *says, int32_t thing,
                  struct verdict *verdict) {
    int32_t voices = 0;
    uint64_t right = 0, value = 0, other;
    bool known = false;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        const struct worker *w = worker_at(leader, i);
        voices += w->words && says(leader, w, thing, &value) && independent(leader, w, says, thing);
    }
    for (int32_t i = 0; i < leader->crew.mates.count && !known; i++) {
        int32_t votes = 0;
        const struct worker *w = worker_at(leader, i);
        for (int32_t k = 0;
             k < leader->crew.mates.count && w->words && says(leader, w, thing, &value); k++) {
            const struct worker *voice = worker_at(leader, k);
            votes += voice->words && says(leader, voice, thing, &other) && other == value &&
                     independent(leader, voice, says, thing);
        }
        known = 2 * votes > voices;
        right = value;
    }
    verdict->open |= !known;
    for (int32_t i = 0; i < leader->crew.mates.count && known; i++) {
        struct worker *w = worker_at(leader, i);
        w->contradicted |= w->words && says(leader, w, thing, &value) && value != right;
    }
}

static void contradict_nobody(struct culm_pipeline_leader *leader) {
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        worker_at(leader, i)->contradicted = false;
    }
}

static struct verdict compare(struct culm_pipeline_leader *leader, saying *says,
                              struct tallies *tallies) {
    struct verdict verdict = {0};
    contradict_nobody(leader);
    for (int32_t thing = 0; thing < tallies->count && tallies->differ > 0; thing++) {
        if (tallies->thing[thing].other == 0) {
            continue;
        }
        tally_afresh(leader, says, tallies, thing);
        if (tallies->thing[thing].other > 0) {
            verdict.thing = verdict.differ ? verdict.thing : thing;
            verdict.differ = true;
            judge(leader, says, thing, &verdict);
        }
    }
    return verdict;
}

/* --- what follows --- */

/* The first stage of `thing`. */
static int32_t stage_of(const struct culm_pipeline_leader *leader, int32_t thing) {
    int32_t stage = leader->o.shape.stages - 1, ids = thing - leader->o.layout->param_count - 3;
    if (ids >= 0) {
        stage = ids;
    } else if (thing < leader->o.layout->param_count) {
        stage = culm_stage_set_next(&leader->o.layout->param[thing].stages, 0);
    }
    return stage;
}

/* Says who disagrees about what; `ret_text` is one line for people. */
static void tell(struct culm_pipeline_leader *leader, saying *says, const struct verdict *verdict,
                 char ret_text[CULM_REASON_MAX]) {
    int32_t stage = stage_of(leader, verdict->thing);
    bool state = says == says_of_state;
    int64_t step = state ? leader->iteration - 1 : leader->iteration;
    const char *what = state                                            ? "state"
                       : verdict->thing < leader->o.layout->param_count ? "gradient"
                                                                        : "statistics";
    json_t *nodes = json_array(), *out = json_array();
    char list[64] = "";
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        const struct worker *w = worker_at(leader, i);
        uint64_t value;
        if (w->words && says(leader, w, verdict->thing, &value)) {
            json_array_append_new(nodes, json_integer(w->mate.id));
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", w->mate.id);
        }
        if (w->contradicted) {
            json_array_append_new(out, json_integer(w->mate.id));
        }
    }
    snprintf(ret_text, CULM_REASON_MAX, "the %s of stage %d differs among workers %s (step %lld)",
             what, stage, list, (long long)step);
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:I, s:i, s:s, s:o, s:o, s:s}", "event", "differs", "step",
                              (json_int_t)step, "stage", stage, "what", what, "nodes", nodes,
                              "put_out", out, "message", ret_text));
}

/* It is out; what it wrote of a checkpoint that is not published yet does not count. */
static void put_out(struct culm_pipeline_leader *leader, struct worker *worker, bool afresh,
                    const char *why) {
    int32_t id = worker->mate.id;
    leader_words_free(leader, worker);
    worker->contradicted = false;
    for (int32_t s = 0; s < leader->o.shape.stages && leader->saving.active; s++) {
        if (leader->saving.writer[s] == id && !leader->saving.publishing) {
            CULM_MARK(pipeline_piece_of_one_put_out_counts_not);
            culm_stage_set_remove(&leader->saving.saved, s);
        }
    }
    leader->afresh |= afresh;
    culm_crew_lose(&leader->crew, &worker->mate, CULM_CAUSE_DIFFERS, why);
}

/* False: they all were lost already, and no longer count. */
static bool put_out_contradicted(struct culm_pipeline_leader *leader, bool afresh,
                                 const char *why) {
    bool any = false;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        if (!worker_at(leader, i)->mate.alive && worker_at(leader, i)->contradicted) {
            CULM_MARK(pipeline_word_of_a_lost_one_counts_not);
            leader_words_free(leader, worker_at(leader, i));
        }
    }
    for (int32_t i = 0; i < leader->crew.mates.count && leader->phase != ENDED; i++) {
        if (worker_at(leader, i)->mate.alive && worker_at(leader, i)->contradicted) {
            CULM_MARK(pipeline_contradicted_is_put_out);
            put_out(leader, worker_at(leader, i), afresh, why);
            any = true;
        }
    }
    return any;
}

static void cannot_be_told(struct culm_pipeline_leader *leader, const char *what) {
    CULM_MARK(pipeline_copies_differ_and_it_cannot_be_told);
    culm_crew_fail(&leader->crew, CULM_ERR_INTERNAL,
                   "%s, and it cannot be told which is right; the last checkpoint is kept: "
                   "continue from it with --resume",
                   what);
}

void leader_damaged(struct culm_pipeline_leader *leader, struct worker *worker,
                    const struct culm_message *message) {
    struct culm_damaged damaged;
    if (culm_damaged_decode(message->meta, message->meta_bytes, &damaged) != CULM_OK) {
        return;
    }
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:I, s:i, s:s, s:[i], s:[i], s:o}", "event", "differs", "step",
                              (json_int_t)damaged.iteration, "stage", damaged.stage, "what",
                              "memory", "nodes", worker->mate.id, "put_out", worker->mate.id,
                              "message", culm_json_text(damaged.why)));
    CULM_MARK(pipeline_damaged_is_put_out);
    /* A step that found it changed nothing for others: what it stepped from was looked at when the
     * step was prepared. */
    put_out(leader, worker, damaged.iteration == leader->iteration || leader->phase == TAKING,
            damaged.why);
}

/* --- gradients --- */

void leader_keep_prepared(struct culm_pipeline_leader *leader, struct worker *worker,
                          const struct culm_prepared *prepared) {
    struct words *words = words_of(leader, worker);
    if (words) {
        count_gradients(leader, worker, -1);
        words->prepared = prepared->stages;
        words->loss[0] = prepared->loss;
        words->samples[0] = prepared->samples;
        words->weight[0] = prepared->weight;
        memcpy(words->ids[0], prepared->ids,
               (size_t)leader->o.shape.stages * sizeof *words->ids[0]);
        memcpy(words->norm[0], prepared->norm,
               (size_t)leader->o.layout->param_count * sizeof *words->norm[0]);
        count_gradients(leader, worker, 1);
    }
}

/* Nobody can say which is right: what is said now is kept, and the iteration is done once more. */
static void once_more(struct culm_pipeline_leader *leader, const char *why) {
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct words *words = worker_at(leader, i)->words;
        if (words) {
            double *norm = words->norm[0];
            words->norm[0] = words->norm[1];
            words->norm[1] = norm;
            words->loss[1] = words->loss[0];
            words->samples[1] = words->samples[0];
            words->weight[1] = words->weight[0];
            uint64_t *ids = words->ids[0];
            words->ids[0] = words->ids[1];
            words->ids[1] = ids;
            words->before = words->prepared;
            words->prepared = (struct culm_stage_set){{0}};
        }
    }
    tallies_clear(&leader->gradients);
    CULM_MARK(pipeline_step_is_done_once_more);
    leader->once_more = true;
    leader->afresh = true;
    leader_publish(leader, false, why);
}

/* What nobody says any more that said it before the iteration was done once more: by how many? 0: they
 * say the same as then. */
static int32_t voices_against(const struct culm_pipeline_leader *leader, int32_t thing,
                              uint64_t value) {
    const struct tally *now = &leader->gradients.thing[thing];
    int32_t voices = 0;
    for (int32_t i = 0; i < leader->crew.mates.count && now->same > 0 && value != now->value; i++) {
        const struct words *words = worker_at(leader, i)->words;
        uint64_t said;
        voices += words && says_of_gradient_at(leader, words, 1, thing, &said) && said == value;
    }
    return voices;
}

/* The iteration was done once more and all agree: who had said otherwise? */
static bool settled(struct culm_pipeline_leader *leader) {
    bool all = true, handed_on = false;
    leader->once_more = false;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct worker *w = worker_at(leader, i);
        for (int32_t thing = 0; thing < leader->gradients.count && w->words; thing++) {
            uint64_t said;
            const int32_t voices = says_of_gradient_at(leader, w->words, 1, thing, &said)
                                       ? voices_against(leader, thing, said)
                                       : 0;
            w->contradicted |= voices > 0;
            handed_on |= voices > 1;
        }
        all &= !w->contradicted;
    }
    if (handed_on) {
        /* Somebody gave it to them, and it may have been in what others made, too. */
        CULM_MARK(pipeline_what_was_wrong_was_handed_on);
        contradict_nobody(leader);
        return true;
    }
    return all ||
           !put_out_contradicted(leader, false, "the same step, done once more, contradicts it");
}

/* All agree. */
static void take(struct culm_pipeline_leader *leader) {
    const int32_t params = leader->o.layout->param_count;
    const struct tally *thing = leader->gradients.thing;
    for (int32_t p = 0; p < params; p++) {
        if (thing[p].same > 0) {
            leader->norm[p] = number_of(thing[p].value);
            leader->norm_known[p] = true;
        }
    }
    if (thing[params].same > 0) {
        const double weight = number_of(thing[params + 2].value);
        leader->samples = (int64_t)thing[params + 1].value;
        leader->weight = weight > 0 ? weight : 1;
        leader->loss = number_of(thing[params].value) / leader->weight;
    }
}

/* --- samples --- */

/* What a stage that reads the samples of `iteration` says of them. */
static uint64_t ids_of(const struct culm_pipeline_leader *leader, int64_t iteration) {
    uint32_t sum[CULM_IDS_PARTS] = {0};
    for (int32_t m = 0; m < leader->o.shape.micros; m++) {
        uint64_t first = culm_run_shape_first_sample(&leader->o.shape, iteration, m);
        uint64_t ids = culm_order_ids(&leader->o.order, first, leader->o.shape.micro_samples);
        for (int i = 0; i < CULM_IDS_PARTS; i++) {
            sum[i] += culm_order_ids_part(ids, i);
        }
    }
    return culm_order_ids_told(sum);
}

#define NEAR 64 /* steps on either side whose samples may have been read instead */

/* All agree on what was read for `stage`, and it is not what the ledger is about to say. */
static void misread(struct culm_pipeline_leader *leader, int32_t stage, uint64_t ids) {
    int64_t from = leader->iteration > NEAR ? leader->iteration - NEAR : 1, other = from;
    while (other <= leader->iteration + NEAR && ids_of(leader, other) != ids) {
        other++;
    }
    bool told = other <= leader->iteration + NEAR;
    char what[64] = "and which they are cannot be told";
    struct culm_ledger_findings audit = {0};
    if (told) { /* the ledger says what was read, so that the audit counts it */
        CULM_MARK(pipeline_samples_of_another_step_were_read);
        snprintf(what, sizeof what, "but those of step %lld", (long long)other);
        uint64_t first = culm_run_shape_first_sample(&leader->o.shape, other, 0);
        uint64_t end = (uint64_t)leader->iteration * (uint64_t)leader->o.shape.global_samples;
        culm_ledger_commit(leader->ledger, leader->iteration, first,
                           first + (uint64_t)leader->o.shape.global_samples - 1);
        told = culm_ledger_audit(leader->ledger, end, &audit) == CULM_OK;
    }
    CULM_MARK(pipeline_samples_were_misread);
    json_t *event = json_pack("{s:s, s:I, s:i}", "event", "misread", "step",
                              (json_int_t)leader->iteration, "stage", stage);
    json_object_set_new(event, "samples_lost",
                        told ? json_integer((json_int_t)audit.lost) : json_null());
    json_object_set_new(event, "samples_repeated",
                        told ? json_integer((json_int_t)audit.repeated) : json_null());
    culm_crew_event(&leader->crew, event);
    culm_crew_fail(&leader->crew, CULM_ERR_INTERNAL,
                   "step %lld: stage %d has not read the samples whose turn it was, %s; the "
                   "last checkpoint is kept: continue from it with --resume",
                   (long long)leader->iteration, stage, what);
}

/* Were the samples read that the ledger is about to say were? */
static bool read_as_ordered(struct culm_pipeline_leader *leader) {
    const struct tally *ids = leader->gradients.thing + leader->o.layout->param_count + 3;
    uint64_t wanted = 0;
    for (int32_t s = 0; s < leader->o.shape.stages && leader->o.order.samples > 0; s++) {
        if (ids[s].same == 0 || !leader->o.layout->stage[s].reads) {
            continue;
        }
        wanted = wanted ? wanted : ids_of(leader, leader->iteration);
        if (ids[s].value != wanted) {
            misread(leader, s, ids[s].value);
            return false;
        }
    }
    return true;
}

bool leader_agree(struct culm_pipeline_leader *leader) {
    if (!leader_state_agreed(leader)) {
        return false;
    }
    struct verdict verdict = compare(leader, says_of_gradient, &leader->gradients);
    if (!verdict.differ) {
        if (leader->once_more && !settled(leader)) {
            CULM_MARK(pipeline_step_done_once_more_says_who_was_wrong);
            return false;
        }
        take(leader);
        return read_as_ordered(leader);
    }
    char why[CULM_REASON_MAX];
    if (!leader->once_more) {
        contradict_nobody(leader);
        tell(leader, says_of_gradient, &verdict, why);
        once_more(leader, why);
        return false;
    }
    tell(leader, says_of_gradient, &verdict, why);
    if (verdict.open) {
        cannot_be_told(leader, why);
        return false;
    }
    return !put_out_contradicted(leader, true, why) && leader_agree(leader);
}

/* --- state --- */

void leader_digests(struct culm_pipeline_leader *leader, struct worker *worker,
                    const struct culm_message *message) {
    int32_t params = leader->o.layout->param_count;
    uint64_t *digest = malloc((size_t)params * sizeof *digest);
    struct words *words = words_of(leader, worker);
    if (!digest || !words) {
        free(digest);
        culm_crew_fail(&leader->crew, CULM_ERR_MEMORY, "read DIGESTS");
        return;
    }
    struct culm_digests said = {
        .params = params, .of_stages = leader->o.shape.stages, .digest = digest};
    if (culm_digests_decode(message->meta, message->meta_bytes, &said) == CULM_OK &&
        said.version == leader->iteration - 1 && said.view >= leader->load_view) {
        count_states(leader, worker, -1);
        for (int32_t p = 0; p < params; p++) {
            if (culm_stage_set_meets(&leader->o.layout->param[p].stages, &said.stages)) {
                words->digest[p] = digest[p];
            }
        }
        words->stated = culm_stage_set_any(&words->stated, &said.stages);
        count_states(leader, worker, 1);
        leader_settle(leader);
    }
    free(digest);
}

void leader_words_stepped(struct culm_pipeline_leader *leader) {
    leader->once_more = false;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct worker *w = worker_at(leader, i);
        const struct culm_view_node *node =
            w->mate.alive ? culm_view_find(leader->view, w->mate.id) : NULL;
        w->stepped = node ? node->holds : (struct culm_stage_set){{0}};
        if (!w->mate.alive) {
            leader_words_free(leader, w);
        } else if (w->words) {
            w->words->prepared = w->words->before = w->words->stated = (struct culm_stage_set){{0}};
        }
    }
    tallies_clear(&leader->gradients);
    tallies_clear(&leader->states);
}

void leader_words_afresh(struct culm_pipeline_leader *leader) {
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        if (worker_at(leader, i)->words) {
            worker_at(leader, i)->words->prepared = (struct culm_stage_set){{0}};
        }
    }
    tallies_clear(&leader->gradients);
}

void leader_words_loaded(struct culm_pipeline_leader *leader) {
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        worker_at(leader, i)->stepped = worker_at(leader, i)->mate.alive
                                            ? worker_at(leader, i)->holds
                                            : (struct culm_stage_set){{0}};
    }
}

void leader_words_forget(struct culm_pipeline_leader *leader) {
    leader->once_more = false;
    leader->agreed_version = -1;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        worker_at(leader, i)->stepped = (struct culm_stage_set){{0}};
        leader_words_free(leader, worker_at(leader, i));
    }
}

/* Has everyone said what it stepped to? Looks at all only when nobody is missing any more. */
static bool all_stated(struct culm_pipeline_leader *leader) {
    const int32_t count = leader->crew.mates.count;
    for (int32_t i = 0; i < count; i++) {
        leader->unstated %= count;
        const struct worker *w = worker_at(leader, leader->unstated);
        const struct culm_stage_set due = culm_stage_set_both(&w->stepped, &w->holds);
        if (w->mate.alive && !(w->words ? culm_stage_set_within(&due, &w->words->stated)
                                        : culm_stage_set_empty(&due))) {
            return false;
        }
        leader->unstated++;
    }
    return true;
}

bool leader_state_agreed(struct culm_pipeline_leader *leader) {
    if (leader->phase != RUNNING || !all_stated(leader)) {
        return false;
    }
    struct verdict verdict = compare(leader, says_of_state, &leader->states);
    if (!verdict.differ) {
        leader->agreed_version = leader->iteration - 1;
        return true;
    }
    char why[CULM_REASON_MAX];
    tell(leader, says_of_state, &verdict, why);
    if (verdict.open) {
        cannot_be_told(leader, why);
        return false;
    }
    return !put_out_contradicted(leader, true, why) && leader_state_agreed(leader);
}
