/* Encoding and decoding of the messages of graph networks. See message.h. */
#include "interval/message.h"

#include <stdlib.h>
#include <string.h>

#define TRAFFIC_BYTES 20 /* of an answer, for each node */
#define CHANGES_SAVE 4   /* owners at least, where a view lists changes */

static enum culm_status finished(const struct culm_reader *in) {
    return culm_reader_done(in) ? CULM_OK : CULM_ERR_FORMAT;
}

/* Reads a number in [low, high); anything else fails the reader. */
static int32_t read_below(struct culm_reader *in, int32_t low, int32_t high) {
    int32_t value = culm_read_i32(in);
    if (value < low || value >= high) {
        in->failed = true;
        return low;
    }
    return value;
}

static bool read_bool(struct culm_reader *in) {
    uint8_t value = culm_read_u8(in);
    in->failed = in->failed || value > 1;
    return value == 1;
}

bool culm_gnn_view_init(struct culm_gnn_view *view, int32_t intervals) {
    *view = (struct culm_gnn_view){.owner = calloc((size_t)intervals, sizeof *view->owner)};
    return view->owner != NULL;
}

void culm_gnn_view_release(struct culm_gnn_view *view) {
    free(view->owner);
    *view = (struct culm_gnn_view){0};
}

void culm_gnn_view_copy(struct culm_gnn_view *view, const struct culm_gnn_view *from,
                        int32_t intervals) {
    int32_t *owner = view->owner;
    *view = *from;
    view->owner = owner;
    memcpy(owner, from->owner, (size_t)intervals * sizeof *owner);
}

void culm_gnn_work_add(struct culm_gnn_work *sum, const struct culm_gnn_work *work) {
    sum->tasks += work->tasks;
    sum->retried += work->retried;
    for (int age = 0; age <= CULM_GNN_STALENESS_MAX; age++) {
        sum->rows_by_age[age] += work->rows_by_age[age];
    }
    sum->gathered_floats += work->gathered_floats;
    sum->ghost_bytes += work->ghost_bytes;
    sum->worker_bytes += work->worker_bytes;
    sum->looks += work->looks;
    sum->gathers_waiting += work->gathers_waiting;
    sum->applies_waiting += work->applies_waiting;
}

bool culm_gnn_view_serves(const struct culm_gnn_view *view, int32_t intervals, int32_t node) {
    for (int32_t i = 0; i < intervals && view->number > 0; i++) {
        if (view->owner[i] == node) {
            return true;
        }
    }
    return false;
}

bool culm_gnn_view_holds(const struct culm_gnn_view *view, int32_t node) {
    for (int32_t h = 0; h < view->holder_count; h++) {
        if (view->holder[h].node == node) {
            return true;
        }
    }
    return false;
}

int32_t culm_gnn_view_source(const struct culm_gnn_view *view, int32_t node) {
    int32_t found = -1;
    for (int32_t h = 0; h < view->holder_count; h++) {
        const struct culm_gnn_view_holder *holder = &view->holder[(node + h) % view->holder_count];
        if (holder->node != node && holder->from < 0) {
            return holder->node;
        }
        found = holder->node != node && found < 0 ? holder->node : found;
    }
    return found;
}

static void course_encode(const struct culm_gnn_course *course, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)course->epoch);
    culm_buf_u8(buf, course->train);
    culm_buf_u8(buf, course->evaluate);
}

static struct culm_gnn_course read_course(struct culm_reader *in) {
    struct culm_gnn_course course = {.epoch = culm_read_count(in)};
    course.train = read_bool(in);
    course.evaluate = read_bool(in);
    return course;
}

/* --- data --- */

void culm_gnn_slice_encode(const struct culm_gnn_slice_key *key, struct culm_buf *buf) {
    culm_buf_u32(buf, key->attempt);
    culm_buf_u64(buf, (uint64_t)key->epoch);
    culm_buf_i32(buf, key->gather);
    culm_buf_i32(buf, key->interval);
    culm_set_write(&key->readers, buf);
    culm_buf_u64(buf, key->view);
}

enum culm_status culm_gnn_slice_decode(const uint8_t *meta, size_t len,
                                       const struct culm_gnn_layout *layout,
                                       struct culm_gnn_slice_key *ret_key) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_slice_key key = {.attempt = culm_read_u32(&in)};
    key.epoch = culm_read_count(&in);
    key.gather = read_below(&in, 0, layout->gathers);
    key.interval = read_below(&in, 0, layout->intervals);
    enum culm_status status = culm_set_read(&in, layout->intervals, &key.readers);
    key.view = culm_read_u64(&in);
    status = status == CULM_OK ? finished(&in) : status;
    if (status != CULM_OK) {
        culm_set_release(&key.readers);
        return status;
    }
    *ret_key = key;
    return CULM_OK;
}

void culm_gnn_gradient_encode(const struct culm_gnn_gradient_key *key, struct culm_buf *buf) {
    culm_buf_u32(buf, key->attempt);
    culm_buf_u64(buf, (uint64_t)key->epoch);
    culm_buf_i32(buf, key->stage);
    culm_buf_i32(buf, key->tree_node);
}

enum culm_status culm_gnn_gradient_decode(const uint8_t *meta, size_t len,
                                          const struct culm_gnn_layout *layout, int32_t nodes,
                                          struct culm_gnn_gradient_key *ret_key) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_gradient_key key = {.attempt = culm_read_u32(&in)};
    key.epoch = culm_read_count(&in);
    key.stage = read_below(&in, 0, layout->stages);
    key.tree_node = read_below(&in, 0, nodes);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_key = key;
    return CULM_OK;
}

void culm_gnn_version_encode(const struct culm_gnn_version *version, struct culm_buf *buf) {
    culm_buf_u32(buf, version->attempt);
    culm_buf_u64(buf, (uint64_t)version->version);
    culm_buf_u64(buf, (uint64_t)version->oldest);
}

enum culm_status culm_gnn_version_decode(const uint8_t *meta, size_t len,
                                         struct culm_gnn_version *ret_version) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_version version = {.attempt = culm_read_u32(&in)};
    version.version = culm_read_count(&in);
    version.oldest = culm_read_count(&in);
    in.failed = in.failed || version.oldest > version.version;
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_version = version;
    return CULM_OK;
}

void culm_gnn_held_encode(const struct culm_gnn_held *held, struct culm_buf *buf) {
    culm_buf_u32(buf, held->attempt);
    culm_buf_u64(buf, (uint64_t)held->version);
    culm_buf_u64(buf, held->digest);
    culm_buf_u64(buf, held->view);
    culm_buf_u8(buf, held->diverged);
}

enum culm_status culm_gnn_held_decode(const uint8_t *meta, size_t len,
                                      struct culm_gnn_held *ret_held) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_held held = {.attempt = culm_read_u32(&in)};
    held.version = culm_read_count(&in);
    held.digest = culm_read_u64(&in);
    held.view = culm_read_u64(&in);
    held.diverged = read_bool(&in);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_held = held;
    return CULM_OK;
}

/* --- tasks of workers --- */

void culm_gnn_task_key_encode(const struct culm_gnn_task_key *key, struct culm_buf *buf) {
    culm_buf_u32(buf, key->attempt);
    culm_buf_u64(buf, (uint64_t)key->epoch);
    culm_buf_u64(buf, (uint64_t)key->version);
    culm_buf_i32(buf, key->interval);
    culm_buf_i32(buf, key->step);
}

static struct culm_gnn_task_key read_task_key(struct culm_reader *in,
                                              const struct culm_gnn_layout *layout) {
    struct culm_gnn_task_key key = {.attempt = culm_read_u32(in)};
    key.epoch = culm_read_count(in);
    key.version = culm_read_count(in);
    key.interval = read_below(in, 0, layout->intervals);
    key.step = read_below(in, 0, layout->steps);
    return key;
}

enum culm_status culm_gnn_task_key_decode(const uint8_t *meta, size_t len,
                                          const struct culm_gnn_layout *layout,
                                          struct culm_gnn_task_key *ret_key) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_task_key key = read_task_key(&in, layout);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_key = key;
    return CULM_OK;
}

void culm_gnn_part_encode(const struct culm_gnn_part *part, struct culm_buf *buf) {
    culm_gnn_task_key_encode(&part->key, buf);
    culm_buf_i32(buf, part->block);
    culm_buf_i32(buf, part->blocks);
}

enum culm_status culm_gnn_part_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_gnn_part *ret_part) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_part part = {.key = read_task_key(&in, layout)};
    part.block = read_below(&in, 0, CULM_GNN_BLOCKS_MAX);
    part.blocks = read_below(&in, part.block + 1, CULM_GNN_BLOCKS_MAX + 1);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_part = part;
    return CULM_OK;
}

static void totals_encode(const struct culm_gnn_totals *totals, struct culm_buf *buf) {
    culm_buf_f64(buf, totals->loss);
    for (int p = 0; p < CULM_GNN_SPLITS; p++) {
        culm_buf_u64(buf, (uint64_t)totals->correct[p]);
    }
}

static struct culm_gnn_totals read_totals(struct culm_reader *in) {
    struct culm_gnn_totals totals = {.loss = culm_read_f64(in)};
    for (int p = 0; p < CULM_GNN_SPLITS; p++) {
        totals.correct[p] = culm_read_count(in);
    }
    return totals;
}

void culm_gnn_warm_encode(const struct culm_set *warm, struct culm_buf *buf) {
    culm_set_write(warm, buf);
}

enum culm_status culm_gnn_warm_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_set *ret_warm) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_set warm = {0};
    enum culm_status status = culm_set_read(&in, layout->intervals, &warm);
    status = status == CULM_OK ? finished(&in) : status;
    if (status != CULM_OK) {
        culm_set_release(&warm);
        return status;
    }
    *ret_warm = warm;
    return CULM_OK;
}

void culm_gnn_cold_encode(bool cold, struct culm_buf *buf) { culm_buf_u8(buf, cold); }

enum culm_status culm_gnn_cold_decode(const uint8_t *meta, size_t len, bool *ret_cold) {
    struct culm_reader in = culm_reader_of(meta, len);
    bool cold = read_bool(&in);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_cold = cold;
    return CULM_OK;
}

void culm_gnn_result_encode(const struct culm_gnn_result *result, struct culm_buf *buf) {
    culm_gnn_task_key_encode(&result->key, buf);
    totals_encode(&result->totals, buf);
}

enum culm_status culm_gnn_result_decode(const uint8_t *meta, size_t len,
                                        const struct culm_gnn_layout *layout,
                                        struct culm_gnn_result *ret_result) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_result result = {.key = read_task_key(&in, layout)};
    result.totals = read_totals(&in);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_result = result;
    return CULM_OK;
}

/* --- to the leader --- */

void culm_gnn_done_encode(const struct culm_gnn_done *done, struct culm_buf *buf) {
    culm_buf_u32(buf, done->attempt);
    culm_buf_u64(buf, (uint64_t)done->epoch);
    culm_buf_i32(buf, done->interval);
    culm_buf_u8(buf, done->trained);
    totals_encode(&done->totals, buf);
    const int64_t work[] = {done->work.tasks,           done->work.retried,
                            done->work.gathered_floats, done->work.ghost_bytes,
                            done->work.worker_bytes,    done->work.looks,
                            done->work.gathers_waiting, done->work.applies_waiting};
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        culm_buf_u64(buf, (uint64_t)work[i]);
    }
    for (int age = 0; age <= CULM_GNN_STALENESS_MAX; age++) {
        culm_buf_u64(buf, (uint64_t)done->work.rows_by_age[age]);
    }
    culm_buf_u64(buf, (uint64_t)done->redone);
}

enum culm_status culm_gnn_done_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_gnn_done *ret_done) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_done done = {.attempt = culm_read_u32(&in)};
    done.epoch = culm_read_count(&in);
    done.interval = read_below(&in, 0, layout->intervals);
    done.trained = read_bool(&in);
    done.totals = read_totals(&in);
    int64_t *work[] = {&done.work.tasks,           &done.work.retried,
                       &done.work.gathered_floats, &done.work.ghost_bytes,
                       &done.work.worker_bytes,    &done.work.looks,
                       &done.work.gathers_waiting, &done.work.applies_waiting};
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        *work[i] = culm_read_count(&in);
    }
    for (int age = 0; age <= CULM_GNN_STALENESS_MAX; age++) {
        done.work.rows_by_age[age] = culm_read_count(&in);
    }
    done.redone = culm_read_count(&in);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_done = done;
    return CULM_OK;
}

void culm_gnn_saved_encode(const struct culm_gnn_saved *saved, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)saved->version);
    culm_buf_u64(buf, (uint64_t)saved->order);
    culm_buf_i32(buf, (int32_t)saved->status);
    culm_buf_string(buf, saved->piece);
    culm_buf_string(buf, saved->why);
}

enum culm_status culm_gnn_saved_decode(const uint8_t *meta, size_t len,
                                       struct culm_gnn_saved *ret_saved) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_saved saved = {.version = culm_read_count(&in)};
    saved.order = culm_read_count(&in);
    saved.status = (enum culm_status)read_below(&in, CULM_OK, CULM_ERR_STOPPED + 1);
    culm_read_string(&in, saved.piece, sizeof saved.piece);
    culm_read_string(&in, saved.why, sizeof saved.why);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_saved = saved;
    return CULM_OK;
}

void culm_gnn_answer_encode(const struct culm_gnn_answer *answer, struct culm_buf *buf) {
    culm_buf_u64(buf, answer->question);
    culm_buf_i32(buf, answer->count);
    for (int32_t i = 0; i < answer->count; i++) {
        culm_buf_i32(buf, answer->with[i].node);
        culm_buf_u64(buf, (uint64_t)answer->with[i].sent);
        culm_buf_u64(buf, (uint64_t)answer->with[i].got);
    }
}

enum culm_status culm_gnn_answer_decode(const uint8_t *meta, size_t len,
                                        struct culm_gnn_answer **ret_answer) {
    struct culm_reader in = culm_reader_of(meta, len);
    const uint64_t question = culm_read_u64(&in);
    const int32_t count = read_below(&in, 0, CULM_GNN_NODES_MAX + 1);
    if (in.failed || (size_t)count > (len - in.at) / TRAFFIC_BYTES) {
        return CULM_ERR_FORMAT;
    }
    struct culm_gnn_answer *answer = malloc(sizeof *answer + (size_t)count * sizeof *answer->with);
    if (!answer) {
        return CULM_ERR_MEMORY;
    }
    *answer = (struct culm_gnn_answer){.question = question, .count = count};
    for (int32_t i = 0; i < count; i++) {
        answer->with[i].node = read_below(&in, 0, CULM_NODE_IDS);
        answer->with[i].sent = culm_read_count(&in);
        answer->with[i].got = culm_read_count(&in);
    }
    if (finished(&in) != CULM_OK) {
        free(answer);
        return CULM_ERR_FORMAT;
    }
    *ret_answer = answer;
    return CULM_OK;
}

void culm_gnn_report_encode(const struct culm_gnn_report *report, struct culm_buf *buf) {
    culm_buf_u64(buf, report->view);
    culm_buf_u32(buf, report->attempt);
    course_encode(&report->course, buf);
    culm_buf_u8(buf, report->holds);
    culm_buf_u8(buf, report->diverged);
    culm_buf_u64(buf, (uint64_t)report->version);
    culm_buf_u64(buf, report->digest);
    culm_buf_u64(buf, report->since);
    culm_buf_u64(buf, (uint64_t)report->curve_first);
    culm_gnn_outcome_write(&report->last, buf);
    culm_gnn_balance_write(&report->balance, buf);
}

enum culm_status culm_gnn_report_decode(const uint8_t *meta, size_t len,
                                        struct culm_gnn_report *ret_report) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_report report = {.view = culm_read_u64(&in)};
    report.attempt = culm_read_u32(&in);
    report.course = read_course(&in);
    report.holds = read_bool(&in);
    report.diverged = read_bool(&in);
    report.version = culm_read_count(&in);
    report.digest = culm_read_u64(&in);
    report.since = culm_read_u64(&in);
    report.curve_first = culm_read_count(&in);
    report.last = culm_gnn_outcome_read(&in);
    report.balance = culm_gnn_balance_read(&in);
    if (finished(&in) != CULM_OK || (report.view > 0) != (report.course.epoch > 0)) {
        return CULM_ERR_FORMAT;
    }
    *ret_report = report;
    return CULM_OK;
}

/* --- from the leader --- */

void culm_gnn_save_encode(const struct culm_gnn_save *save, struct culm_buf *buf) {
    culm_buf_u32(buf, save->attempt);
    culm_buf_u64(buf, (uint64_t)save->version);
    culm_buf_u64(buf, (uint64_t)save->order);
    culm_buf_u8(buf, save->weights);
    culm_buf_string(buf, save->to);
}

enum culm_status culm_gnn_save_decode(const uint8_t *meta, size_t len,
                                      struct culm_gnn_save *ret_save) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_save save = {.attempt = culm_read_u32(&in)};
    save.version = culm_read_count(&in);
    save.order = culm_read_count(&in);
    save.weights = read_bool(&in);
    culm_read_string(&in, save.to, sizeof save.to);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_save = save;
    return CULM_OK;
}

/* All but who owns what; the owners follow, if `base` is 0, else changes to that view. */
static void view_encode(const struct culm_gnn_view *view, uint64_t base, struct culm_buf *buf) {
    culm_buf_u64(buf, view->number);
    culm_buf_u64(buf, base);
    culm_buf_u32(buf, view->attempt);
    culm_buf_u32(buf, view->load_attempt);
    culm_buf_u64(buf, (uint64_t)view->load_version);
    culm_buf_string(buf, view->load);
    course_encode(&view->course, buf);
    culm_buf_i32(buf, view->holder_count);
    for (int32_t h = 0; h < view->holder_count; h++) {
        culm_buf_i32(buf, view->holder[h].node);
        culm_buf_i32(buf, view->holder[h].from);
        culm_buf_u64(buf, view->holder[h].since);
    }
    culm_gnn_outcome_write(&view->last, buf);
    culm_gnn_balance_write(&view->balance, buf);
}

void culm_gnn_view_encode(const struct culm_gnn_view *view, int32_t intervals,
                          struct culm_buf *buf) {
    view_encode(view, 0, buf);
    for (int32_t i = 0; i < intervals; i++) {
        culm_buf_i32(buf, view->owner[i]);
    }
}

bool culm_gnn_view_encode_changes(const struct culm_gnn_view *view, uint64_t base,
                                  const int32_t *before, int32_t intervals, struct culm_buf *buf) {
    int32_t count = 0;
    for (int32_t i = 0; i < intervals; i++) {
        count += view->owner[i] != before[i];
    }
    if (1 + 2 * count + CHANGES_SAVE > intervals) {
        return false;
    }
    view_encode(view, base, buf);
    culm_buf_i32(buf, count);
    for (int32_t i = 0; i < intervals; i++) {
        if (view->owner[i] != before[i]) {
            culm_buf_i32(buf, i);
            culm_buf_i32(buf, view->owner[i]);
        }
    }
    return true;
}

enum culm_status culm_gnn_view_decode(const uint8_t *meta, size_t len,
                                      const struct culm_gnn_layout *layout,
                                      struct culm_gnn_view *view) {
    struct culm_reader in = culm_reader_of(meta, len);
    const uint64_t known = view->number;
    view->number = culm_read_u64(&in);
    const uint64_t base = culm_read_u64(&in);
    view->attempt = culm_read_u32(&in);
    view->load_attempt = culm_read_u32(&in);
    in.failed |= view->load_attempt > view->attempt;
    view->load_version = culm_read_count(&in);
    culm_read_string(&in, view->load, sizeof view->load);
    view->course = read_course(&in);
    view->holder_count = read_below(&in, 0, CULM_GNN_HOLDERS_MAX + 1);
    memset(view->holder, 0, sizeof view->holder);
    for (int32_t h = 0; h < view->holder_count; h++) {
        view->holder[h].node = read_below(&in, 0, CULM_NODE_IDS);
        view->holder[h].from = read_below(&in, -1, CULM_NODE_IDS);
        view->holder[h].since = culm_read_u64(&in);
    }
    view->last = culm_gnn_outcome_read(&in);
    view->balance = culm_gnn_balance_read(&in);
    for (int32_t i = 0; base == 0 && i < layout->intervals; i++) {
        view->owner[i] = read_below(&in, -1, CULM_NODE_IDS);
    }
    const int32_t changes = base > 0 ? read_below(&in, 0, layout->intervals + 1) : 0;
    for (int32_t c = 0; c < changes && !in.failed; c++) {
        const int32_t interval = read_below(&in, 0, layout->intervals);
        view->owner[interval] = read_below(&in, -1, CULM_NODE_IDS);
    }
    return base > 0 && base != known ? CULM_ERR_FORMAT : finished(&in);
}

void culm_gnn_commit_encode(const struct culm_gnn_commit *commit, struct culm_buf *buf) {
    culm_buf_u32(buf, commit->attempt);
    culm_buf_u64(buf, (uint64_t)commit->epoch);
    course_encode(&commit->next, buf);
    culm_gnn_outcome_write(&commit->outcome, buf);
    culm_gnn_balance_write(&commit->balance, buf);
}

enum culm_status culm_gnn_commit_decode(const uint8_t *meta, size_t len,
                                        struct culm_gnn_commit *ret_commit) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_gnn_commit commit = {.attempt = culm_read_u32(&in)};
    commit.epoch = culm_read_count(&in);
    commit.next = read_course(&in);
    commit.outcome = culm_gnn_outcome_read(&in);
    commit.balance = culm_gnn_balance_read(&in);
    if (finished(&in) != CULM_OK) {
        return CULM_ERR_FORMAT;
    }
    *ret_commit = commit;
    return CULM_OK;
}
