/* What each event of training on a graph adds to a summary, and its lines. See gnn.h. */
#include "report/gnn.h"
#include "report/page.h"

#include <math.h>
#include <string.h>

enum { LOST_SERVERS, LOST_PARAMETERS, LOST_WORKERS, ENDED };
enum { VALID, TEST, TEST_AT_BEST, USD, VALUE };

static enum culm_status add_epoch(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    double epoch_ms = culm_event_real(event, "epoch_ms", 0);
    const struct culm_summary_step step = {
        .step = culm_event_int(event, "epoch", 0),
        .loss = culm_event_real(event, "loss", 0),
        .rate = epoch_ms > 0 ? 1e3 / epoch_ms : 0,
        .step_ms = epoch_ms,
    };
    return culm_summary_add_step(s, &step, event, error);
}

static enum culm_status add_start(struct culm_summary *s, const json_t *event,
                                  struct culm_error *error) {
    snprintf(s->rate_of, sizeof s->rate_of, "epochs");
    return culm_summary_add_start(s, event, error);
}

static enum culm_status add_lost(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    const char *role = culm_event_text(event, "role", "");
    (void)error;
    if (strcmp(culm_event_text(event, "cause", ""), "left") == 0) {
        return CULM_OK; /* as it was told to */
    }
    s->losses++;
    s->own_counts[LOST_SERVERS] += strcmp(role, "server") == 0;
    s->own_counts[LOST_PARAMETERS] += strcmp(role, "parameter") == 0;
    s->own_counts[LOST_WORKERS] += strcmp(role, "worker") == 0;
    return CULM_OK;
}

static enum culm_status add_recovered(struct culm_summary *s, const json_t *event,
                                      struct culm_error *error) {
    return culm_summary_add_pause(s, culm_event_real(event, "pause_ms", 0), error);
}

static enum culm_status add_done(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    s->own_counts[ENDED] = 1;
    s->own_figures[VALID] = culm_event_real(event, "valid", NAN);
    s->own_figures[TEST] = culm_event_real(event, "test", NAN);
    s->own_figures[TEST_AT_BEST] = culm_event_real(event, "test_at_best_valid", NAN);
    return culm_summary_add_done(s, event, error);
}

/* Each event has the cost so far, so the last one has the cost of the run. */
static enum culm_status add_cost(struct culm_summary *s, const json_t *event,
                                 struct culm_error *error) {
    (void)error;
    s->own_figures[USD] = culm_event_real(event, "usd", 0);
    s->own_figures[VALUE] = culm_event_real(event, "value", 0);
    return CULM_OK;
}

static enum culm_status add_rollback(struct culm_summary *s, const json_t *event,
                                     struct culm_error *error) {
    (void)error;
    culm_summary_undo(s, culm_event_int(event, "to_epoch", INT64_MAX));
    s->rollbacks++;
    return CULM_OK;
}

static const struct culm_summary_row rows[] = {
    {"epoch", .add = add_epoch},
    {"start", .add = add_start},
    {"lost", .add = add_lost},
    {"recovered", .add = add_recovered},
    {"done", .add = add_done},
    {"rollback", .add = add_rollback},
    {"cost", .add = add_cost},
    {"error", .add = culm_summary_add_error},
    {"checkpoint", .add = culm_summary_add_checkpoint},
    {"fault", .count = offsetof(struct culm_summary, faults)},
    {0},
};

struct culm_gnn_figures culm_gnn_figures_of(const struct culm_summary *s) {
    const bool ended = s->own_counts[ENDED];
    return (struct culm_gnn_figures){
        .valid = ended ? s->own_figures[VALID] : (double)NAN,
        .test = ended ? s->own_figures[TEST] : (double)NAN,
        .test_at_best_valid = ended ? s->own_figures[TEST_AT_BEST] : (double)NAN,
        .usd = s->own_figures[USD],
        .lost_servers = s->own_counts[LOST_SERVERS],
        .lost_parameter_servers = s->own_counts[LOST_PARAMETERS],
        .lost_workers = s->own_counts[LOST_WORKERS],
    };
}

/* --- lines --- */

static bool loss(const struct culm_summary *s, char *ret_text, size_t size) {
    if (!s->step_count) {
        snprintf(ret_text, size, "no epoch was done");
        return true;
    }
    const struct culm_summary_step *first = &s->steps[0], *last = &s->steps[s->step_count - 1];
    snprintf(ret_text, size, "%.4f (epoch %lld) -> %.4f (epoch %lld)", first->loss,
             (long long)first->step, last->loss, (long long)last->step);
    return true;
}

/* Parts of the split that have no vertices are left out. */
static bool accuracy(const struct culm_summary *s, char *ret_text, size_t size) {
    static const struct {
        int figure;
        const char *name, *separator;
    } parts[] = {{VALID, "validation", ""},
                 {TEST, "test", ", "},
                 {TEST_AT_BEST, "test at the best validation", "; "}};
    size_t len = 0;
    ret_text[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts && len < size; i++) {
        const double share = s->own_figures[parts[i].figure];
        if (s->own_counts[ENDED] && !isnan(share)) {
            len += (size_t)snprintf(ret_text + len, size - len, "%s%s %.2f %%",
                                    len > 0 ? parts[i].separator : "", parts[i].name, 100 * share);
        }
    }
    return len > 0;
}

static bool speed(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%.1f epochs/s (median over %zu)", culm_summary_rate(s),
             s->step_count);
    return s->step_count > 0;
}

static bool cost(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "$%.6f; value %.4g (1 over seconds times dollars)",
             s->own_figures[USD], s->own_figures[VALUE]);
    return s->own_figures[USD] > 0;
}

static bool nodes_lost(const struct culm_summary *s, char *ret_text, size_t size) {
    if (s->losses == 0) {
        snprintf(ret_text, size, "0");
        return true;
    }
    const int64_t servers = s->own_counts[LOST_SERVERS];
    const int64_t parameters = s->own_counts[LOST_PARAMETERS];
    const int64_t workers = s->own_counts[LOST_WORKERS];
    snprintf(ret_text, size, "%lld server%s, %lld parameter server%s, %lld worker%s%s",
             (long long)servers, servers == 1 ? "" : "s", (long long)parameters,
             parameters == 1 ? "" : "s", (long long)workers, workers == 1 ? "" : "s",
             s->done ? "; all survived" : "");
    return true;
}

static bool pause_per_loss(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "median %.0f ms, longest %.0f ms (workers need none)",
             culm_summary_pause_median_ms(s), culm_summary_pause_max_ms(s));
    return s->pause_count > 0;
}

static bool rollbacks(const struct culm_summary *s, char *ret_text, size_t size) {
    snprintf(ret_text, size, "%lld", (long long)s->rollbacks);
    return true;
}

static const struct culm_summary_line lines[] = {
    {"loss", loss},
    {"accuracy", accuracy},
    {"speed", speed},
    {"cost", cost},
    {"nodes lost", nodes_lost},
    {"pause per loss", pause_per_loss},
    {"roll-backs", rollbacks},
    {0},
};

/* --- page --- */

static const struct culm_page_chart charts[] = {
    {.title = "Loss", .x_of = "epoch", .y_label = "", .line = {{"epoch", "loss", "loss", NULL, 1}}},
    {.title = "Accuracy",
     .x_of = "epoch",
     .y_label = "%",
     .line = {{"epoch", "valid", "validation", NULL, 100}, {"epoch", "test", "test", NULL, 100}}},
    {.title = "Time of an epoch",
     .x_of = "epoch",
     .y_label = "ms",
     .from_zero = true,
     .line = {{"epoch", "epoch_ms", "epoch", NULL, 1}}},
    {.title = "Pauses after losses",
     .y_label = "ms",
     .from_zero = true,
     .line = {{"recovered", "pause_ms", "pause", NULL, 1}}},
    {0},
};
static const char *const notes[] = {"lost",    "fenced",  "rollback", "fault",   "tune", "held",
                                    "weights", "warning", "error",    "stopped", NULL};
static const struct culm_page_look page = {charts, NULL, notes, false};

const struct culm_summary_job culm_summary_gnn = {
    "epoch", rows, lines, "gnn", &page, culm_goodput_steps, "owners", "pauses"};
