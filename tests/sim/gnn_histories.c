/*
 * Histories of graph networks in the simulated world, on the symbolic executor.
 *
 *     gnn_histories [--first SEED] [--count N] [--replace MS] [--draw NAME,...] [--events MASK] [--marks MOST]
 *                   [--soak] [--log]
 *     gnn_histories --unmended [--log]
 *
 * Each seed makes up a graph, a network and a shape (servers, parameter servers, workers), and what
 * befalls them: nodes are killed or frozen where they do a certain thing, or at any time, or only nap, links are
 * cut or swallow what is sent over them, tasks hang, bits flip in a holder's state, workers leave by
 * themselves, and some starts take seconds. It must end, with the state that one server and one parameter
 * server come to when nothing befalls them; without a roll-back unless all holders were lost, and with
 * no blob left. What befell the runs is counted, and there are floors.
 *
 * Lost nodes are replaced at once. Every tenth history is played again with replacements that come later,
 * and every tenth with none: it may then end with an error, but only when no server is left, or nobody who
 * could save.
 *
 *   --draw      of what may befall a history beside faults and naps only this: names of gnn_draw_names, `default`, `all`,
 *               `none`. By default it is what the protocol survives (GNN_DRAWS_NOW). What other draws have found is in
 *               `unmended`
 *   --soak      these seeds alone, without floors; prints what they add to many others (tally.h)
 *   --unmended  plays those, and says which still fail. What mends one moves its row to `kept`, and puts the draw into
 *               GNN_DRAWS_NOW once no row needs it
 */
#include "expect_mark.h"
#include "gnn_history.h"
#include "shrink.h"
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOORS_FROM 200

#define SHRUNK_MAX 3 /* seeds that fail are made small; the rest likely fails for the same reason */

struct row {
    uint64_t seed;
    uint32_t events;
    int64_t replace_ms;
    uint32_t draws;
    const char *finding;
};

#define DRAW(name) (1u << GNN_DRAW_##name)

/* Those that once showed a mistake; run with any large number of others. */
static const struct row kept[] = {
    {1007, EVERY_EVENT, 0, 0,
     "a worker was put out, and its server's end of the link never said so"},
    {1625, EVERY_EVENT, 0, 0,
     "a sum came from a holder that had been told of a view earlier, and was forgotten"},
    {8281, EVERY_EVENT, 0, 0,
     "gradients for a copy of the state were taken by the state that it replaced"},
    {104863, EVERY_EVENT, 0, 0,
     "enough, with no parameter server there: the others had left the last version"},
    {17789, EVERY_EVENT, 0, 0, "a worker waited for weights that came of a task behind that one"},
    {6, 0x9080, 0, DRAW(NEWCOMERS), "a newcomer was told to load from a folder that is not its"},
    {18, 0x10080, 0, DRAW(NEWCOMERS), "a newcomer was told to load from a folder that is not its"},
    {152, 0x201080, 0, DRAW(LOADS), "the newest checkpoint was damaged, and the one before whole"},
    {170, 0x201a80, 1191, DRAW(LOADS),
     "the newest checkpoint was damaged, and the one before whole"},
    {100726, 0x1, 0, 0, "the order to save what was held was swallowed, and nobody was watched"},
    {204, 0x3180, 0, DRAW(STARTS), "starts that failed ended a run that committed epochs"},
    {344, 0x3280, 0, DRAW(STARTS), "starts that failed ended a run that committed epochs"},
    {1420, 0x1c0000, 0, DRAW(NEWCOMERS) | DRAW(ELSEWHERE) | DRAW(TASKS),
     "a newcomer's own file had changed, and that ended the run"},
    {34, 0x80, 0, DRAW(DUE), "nobody could save when it was due, or who was to was lost"},
    {36, 0x80, 0, DRAW(DUE), "nobody could save when it was due, or who was to was lost"},
    {58, 0x80, 0, DRAW(DUE), "nobody could save when it was due, or who was to was lost"},
    {67105, 0x4103, 0, DRAW(STOPS),
     "over, and nobody looked whether who is to save gets the state"},
    {85970, 0x1, 0, 0, "held, and nobody looked whether the order to try again arrives"},
    {119, 0x39280, 0, DRAW(NEWCOMERS) | DRAW(ELSEWHERE) | DRAW(TASKS),
     "newcomers with too little memory ended the run for all"},
    {1500, 0x58080, 1501, DRAW(NEWCOMERS) | DRAW(ELSEWHERE),
     "newcomers with too little memory ended the run for all"},
    {365, 0x8a000, -1, GNN_DRAWS_THEN,
     "no server was left, none was replaced, and it waited for longer than wait_ms"},
    {328, 0x4101, 0, DRAW(STOPS) | DRAW(LONG),
     "a stop waited for a replacement that was due later"},
    {1584, 0x4001, 0, DRAW(STOPS) | DRAW(LONG),
     "a stop waited for a replacement that was due later"},
    {707465, 0x400100, -1, DRAW(MEMORY), "the only worker left was slow, and the time ran out"},
    {1023830, 0x4100, 0, DRAW(STOPS) | DRAW(LARGE),
     "a stop waited for the first epoch, after which there is something to save"},
    {1030375, 0x78004, -1, DRAW(NEWCOMERS) | DRAW(ELSEWHERE),
     "only servers from elsewhere were left, with too little memory, and it ended"},
    {1031065, 0x40201, -1, DRAW(NEWCOMERS),
     "a server stood by that could save, and was passed over when nobody else could"},
    {910315, 0x201, -1, 0, "a worker never heard from a holder, and each epoch waited for it"},
    {2014160, 0xb01, 0, GNN_DRAWS_THEN,
     "a worker's order counted on an input that came of another server, which was lost"},
    {900198, 0x4004008, 0, GNN_DRAWS_THEN | DRAW(SIZE),
     "stopped, it tried once more to save, and gave up when the writer was lost, while others held "
     "it"},
    {70020675, EVERY_EVENT, -1, GNN_DRAWS_THEN | DRAW(SIZE) | DRAW(LEAVE),
     "a start that ended was not wanted any more, and nobody looked whether all are there"},
};

/* Those that show a mistake which nobody has mended yet; ends with an empty one. */
static const struct row unmended[] = {
    {0, 0, 0, 0, NULL},
};

/* What was seen in all histories. */
struct seen {
    int64_t fired[CULM_GNN_ROLES][CULM_GNN_PHASE_COUNT], kind[GNN_FAULT_KINDS], lost, rollbacks,
        checkpoints, unsaved, released, tunes, naps;
    int64_t stuck, stalled;  /* of those that were lost */
    int64_t cold, recovered; /* starts; losses */
    int64_t too_few;         /* histories */
    int64_t ended;           /* histories whose evaluations were enough */
    int64_t ages[CULM_GNN_STALENESS_MAX + 1], ahead;
    /* Of what is drawn. */
    int64_t left, calm, unstarted, stops, resumes, came, refused, unloaded, pinched, leader_naps,
        due, late, honest, large;
    uint64_t stop_took_ns, took_ns; /* the longest */
};

static void count(const struct gnn_history *h, struct seen *seen) {
    for (int32_t f = 0; f < h->fault_count; f++) {
        const struct gnn_fault *fault = &h->fault[f];
        seen->kind[fault->kind] += fault->fired;
        seen->fired[fault->role][fault->phase] += fault->fired && fault->at_phase;
    }
    for (int32_t n = 0; n < h->nap_count; n++) {
        seen->naps += h->nap[n].fired;
    }
    seen->lost += h->lost - h->left;
    seen->left += h->left;
    seen->calm += h->calm && h->left > 0;
    seen->released += h->released;
    seen->stuck += h->stuck;
    seen->stalled += h->stalled;
    seen->tunes += h->tunes;
    seen->cold += h->cold;
    seen->recovered += h->recovered;
    seen->too_few += h->too_few;
    seen->rollbacks += h->rollbacks;
    seen->checkpoints += h->checkpoints;
    seen->unsaved += h->unsaved;
    seen->ahead += h->shape.pace.ahead;
    seen->unstarted += h->unstarted;
    seen->stops += h->stops;
    seen->resumes += h->resumes;
    seen->came += h->came;
    seen->refused += h->refused;
    seen->unloaded += h->unloaded;
    seen->pinched += h->pinched;
    seen->leader_naps += h->leader_naps;
    seen->late += h->late;
    seen->due += h->due;
    seen->honest += h->honest;
    seen->large += h->large != GNN_SMALL;
    seen->stop_took_ns =
        h->stop_took_ns > seen->stop_took_ns ? h->stop_took_ns : seen->stop_took_ns;
    seen->took_ns = h->took_ns > seen->took_ns ? h->took_ns : seen->took_ns;
    for (int age = 0; age <= CULM_GNN_STALENESS_MAX; age++) {
        seen->ages[age] += h->ages[age];
    }
}

/* A seed that is being made small. */
struct small {
    struct row row;
    struct gnn_history h;
};

static const char *play_small(void *context, uint32_t events) {
    struct small *small = context;
    const struct row *row = &small->row;
    char expected[80];
    if (!gnn_history_from_seed(row->seed, row->replace_ms, events, row->draws, &small->h)) {
        return "out of memory";
    }
    gnn_history_play(&small->h, expected);
    return small->h.wrong[0] ? small->h.wrong : NULL;
}

/* As `--draw` takes them. */
static void name_draws(uint32_t draws, char *ret_text, size_t size) {
    size_t at = 0;
    snprintf(ret_text, size, "%s", draws ? "" : "none");
    for (int d = 0; d < GNN_DRAWS && at < size; d++) {
        if (draws >> d & 1) {
            at += (size_t)snprintf(ret_text + at, size - at, "%s%s", at ? "," : "",
                                   gnn_draw_names[d]);
        }
    }
}

static void make_small(const struct row *row) {
    static struct small small;
    char more[32], replay[192], names[128];
    int tries;
    small.row = *row;
    if (!gnn_history_from_seed(row->seed, row->replace_ms, row->events, row->draws, &small.h)) {
        return;
    }
    uint32_t all = small.h.all;
    culm_gnn_layout_release(&small.h.cast.layout);
    uint32_t left = shrink(all, play_small, &small, &tries);
    name_draws(row->draws, names, sizeof names);
    snprintf(more, sizeof more, ", %lld, 0x%x", (long long)row->replace_ms, row->draws);
    snprintf(replay, sizeof replay, "gnn_histories --replace %lld --draw %s",
             (long long)row->replace_ms, names);
    shrink_print(row->seed, all, left, more, tries, replay);
    if (gnn_history_from_seed(row->seed, row->replace_ms, left, row->draws, &small.h)) {
        gnn_history_print_events(&small.h);
        culm_gnn_layout_release(&small.h.cast.layout);
    }
}

static struct tally tally;

static bool run(const struct row *row, bool log, bool quiet, struct seen *seen) {
    static int shrunk;
    static struct gnn_history h; /* large */
    char expected[80], names[128];
    if (!gnn_history_from_seed(row->seed, row->replace_ms, row->events, row->draws, &h)) {
        return false;
    }
    h.log = log;
    if (log) {
        printf("# %d intervals, %d stages, %d servers, %d parameter servers, %d workers, %d "
               "epochs, a checkpoint every %d, staleness %d%s%s\n",
               h.cast.layout.intervals, h.cast.layout.stages, h.shape.count[0], h.shape.count[1],
               h.shape.count[2], (int)h.shape.pace.epochs, (int)h.shape.checkpoint_every,
               h.shape.pace.staleness, h.shape.pace.ahead ? ", ahead" : "",
               h.shape.pace.in_step ? ", in step" : "");
        gnn_history_print_events(&h);
    }
    gnn_history_play(&h, expected);
    count(&h, seen);
    tally.rollbacks += h.rollbacks;
    tally_add(&tally, h.shape.count[0] + h.shape.count[1] + h.shape.count[2], h.wrong[0]);
    seen->ended += !h.too_few && h.epoch < h.shape.pace.epochs;
    if (quiet) {
        printf("# seed %llu, %s: %s\n", (unsigned long long)row->seed, row->finding,
               h.wrong[0] ? h.wrong : "nothing is wrong any more: keep it");
    } else if (h.wrong[0]) {
        name_draws(row->draws, names, sizeof names);
        printf("not ok - seed %llu: %s\n    (%s, expected %s)\n    replay: gnn_histories --first "
               "%llu --count 1 --replace %lld --draw %s --log\n",
               (unsigned long long)row->seed, h.wrong, h.state, expected,
               (unsigned long long)row->seed, (long long)row->replace_ms, names);
        if (!log && shrunk++ < SHRUNK_MAX) {
            make_small(row);
        }
    }
    return !h.wrong[0];
}

/* False: there were fewer of these than one in `one_of` histories. */
static bool at_least(const char *what, int64_t number, int64_t histories, int64_t one_of) {
    if (number >= histories / one_of) {
        return true;
    }
    printf("# only %lld %s\n", (long long)number, what);
    return false;
}

/* Of what is drawn, in histories that draw it. */
static bool drawn_enough(const struct seen *seen, int64_t histories, uint32_t draws) {
    const struct {
        enum gnn_draw draw;
        const char *what;
        int64_t number, one_of;
    } floors[] = {{GNN_DRAW_STARTS, "starts that failed", seen->unstarted, 4},
                  {GNN_DRAW_STOPS, "stops", seen->stops, 10},
                  {GNN_DRAW_STOPS, "resumes", seen->resumes, 10},
                  {GNN_DRAW_NEWCOMERS, "newcomers", seen->came, 4},
                  {GNN_DRAW_TASKS, "tasks that failed", seen->refused, 10},
                  {GNN_DRAW_LOADS, "loads that failed", seen->unloaded, 100},
                  {GNN_DRAW_MEMORY, "requests for memory refused", seen->pinched, 20},
                  {GNN_DRAW_LEADER, "naps of the leader", seen->leader_naps, 8},
                  {GNN_DRAW_LARGE, "large histories", seen->large, 125},
                  {GNN_DRAW_DUE, "checkpoints that were due", seen->due, 1},
                  {GNN_DRAW_COPIES, "copies given up", seen->late, 50},
                  {GNN_DRAW_LEAVE, "nodes that left as they asked", seen->left, 16},
                  {GNN_DRAW_LEAVE, "histories in which nothing else happened", seen->calm, 25}};
    bool enough = true;
    for (size_t f = 0; f < sizeof floors / sizeof *floors; f++) {
        enough &= !(draws >> floors[f].draw & 1) ||
                  at_least(floors[f].what, floors[f].number, histories, floors[f].one_of);
    }
    return enough;
}

static bool fired_enough(const struct seen *seen, int64_t histories) {
    const struct {
        const char *what;
        int64_t number, one_of;
    } floors[] = {{"lost", seen->lost, 4},
                  {"checkpoints", seen->checkpoints, 4},
                  {"not written", seen->unsaved, 10},
                  {"released", seen->released, 10},
                  {"stuck", seen->stuck, 50},
                  {"stalled", seen->stalled, 100},
                  {"changes of the number of workers", seen->tunes, 8},
                  {"cold starts", seen->cold, 4},
                  {"recovered", seen->recovered, 8},
                  {"naps", seen->naps, 4},
                  {"ended by their evaluations", seen->ended, 40},
                  {"roll-backs", seen->rollbacks, 100},
                  /* all ages that are allowed are met */
                  {"rows of this epoch", seen->ages[0], 1},
                  {"rows of the epoch before", seen->ages[1], 1},
                  {"rows that are two epochs old", seen->ages[2], 10},
                  {"rows that are three epochs old", seen->ages[3], 500}};
    bool enough = true;
    for (size_t f = 0; f < sizeof floors / sizeof *floors; f++) {
        enough &= at_least(floors[f].what, floors[f].number, histories, floors[f].one_of);
    }
    for (int k = 0; k < GNN_FAULT_KINDS; k++) {
        enough &= at_least(gnn_fault_kind_names[k], seen->kind[k], histories, 20);
    }
    for (uint32_t r = 0; r < CULM_GNN_ROLES; r++) {
        for (uint32_t p = 0; p < CULM_GNN_PHASE_COUNT; p++) {
            char what[64];
            snprintf(what, sizeof what, "faults of a %s at %s", culm_gnn_role_name(r),
                     culm_gnn_phase_name(p));
            enough &=
                !gnn_cast_has_phase(r, p) || at_least(what, seen->fired[r][p], histories, 500);
        }
    }
    return enough;
}

/* The draws that a list names. */
static uint32_t draws_of(const char *list) {
    uint32_t draws = 0;
    while (*list) {
        size_t len = strcspn(list, ",");
        uint32_t named = len == 4 && memcmp(list, "none", 4) == 0 ? 1u << GNN_DRAWS : 0;
        named |= len == 3 && memcmp(list, "all", 3) == 0 ? (1u << GNN_DRAWS) - 1 : 0;
        named |= len == 7 && memcmp(list, "default", 7) == 0 ? GNN_DRAWS_NOW | 1u << GNN_DRAWS : 0;
        for (int d = 0; d < GNN_DRAWS; d++) {
            bool this =
                strlen(gnn_draw_names[d]) == len && memcmp(list, gnn_draw_names[d], len) == 0;
            named |= (uint32_t)this << d;
        }
        if (!named) {
            fprintf(stderr, "gnn_histories: there is no draw '%.*s'\n", (int)len, list);
            exit(2);
        }
        draws |= named & ((1u << GNN_DRAWS) - 1);
        list += len + (list[len] == ',');
    }
    return draws;
}

static int play_unmended(bool log) {
    struct seen seen = {0};
    int64_t mended = 0;
    for (size_t k = 0; k < sizeof unmended / sizeof *unmended; k++) {
        mended += unmended[k].finding && run(&unmended[k], log, true, &seen);
    }
    printf("1..1\nok 1 - %zu histories that show what is not mended, %lld of which nothing is "
           "wrong any "
           "more\n",
           sizeof unmended / sizeof *unmended, (long long)mended);
    return 0;
}

int main(int argc, char **argv) {
    uint64_t first = 1, histories = 100;
    struct row row = {.events = EVERY_EVENT, .draws = GNN_DRAWS_NOW};
    int marks = -1;
    bool log = false, all_unmended = false, soak = false;
    for (int i = 1; i < argc; i++) {
        log = log || strcmp(argv[i], "--log") == 0;
        soak = soak || strcmp(argv[i], "--soak") == 0;
        all_unmended = all_unmended || strcmp(argv[i], "--unmended") == 0;
        if (i + 1 < argc && strcmp(argv[i], "--first") == 0) {
            first = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--count") == 0) {
            histories = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--replace") == 0) {
            row.replace_ms = strtoll(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--events") == 0) {
            row.events = (uint32_t)strtoul(argv[++i], NULL, 0);
        } else if (i + 1 < argc && strcmp(argv[i], "--draw") == 0) {
            row.draws = draws_of(argv[++i]);
        } else if (i + 1 < argc && strcmp(argv[i], "--marks") == 0) {
            marks = atoi(argv[++i]);
        }
    }
    if (all_unmended) {
        return play_unmended(log);
    }
    struct seen seen = {0}, later = {0}, never = {0};
    int64_t failed = 0;
    for (size_t k = 0; !soak && histories >= FLOORS_FROM && k < sizeof kept / sizeof *kept; k++) {
        failed += !run(&kept[k], log, false, &seen);
    }
    for (uint64_t seed = first; seed < first + histories; seed++) {
        struct row other = row;
        row.seed = other.seed = seed;
        failed += !run(&row, log, false, &seen);
        if (row.replace_ms == 0 && seed % 10 == 0) {
            other.replace_ms = 1 + (int64_t)(seed * 7 % 3000);
            failed += !run(&other, log, false, &later);
        } else if (row.replace_ms == 0 && seed % 10 == 5) {
            other.replace_ms = -1;
            failed += !run(&other, log, false, &never);
        }
    }
    if (soak) {
        tally_print(&tally);
        return failed > 0;
    }
    int64_t n = (int64_t)histories;
    bool enough = true;
    if (histories >= FLOORS_FROM && row.replace_ms == 0) {
        enough = fired_enough(&seen, n) & drawn_enough(&seen, n, row.draws) &
                 at_least("lost and replaced later", later.lost, n, 40) &
                 at_least("lost for good", never.lost, n, 40) &
                 at_least("that had too few", never.too_few, n, 400);
    }
    if (marks >= 0 && mark_print_missed("interval_", 1) > marks) {
        printf("# more than %d marks that no history hits\n", marks);
        failed++;
    }
    printf("# replaced later: %lld nodes lost, %lld roll-backs; never: %lld lost, %lld "
           "histories had too few\n",
           (long long)later.lost, (long long)later.rollbacks, (long long)never.lost,
           (long long)never.too_few);
    printf("# %lld ended by their evaluations\n", (long long)seen.ended);
    printf("# rows by age: %lld %lld %lld %lld; %lld histories ahead\n", (long long)seen.ages[0],
           (long long)seen.ages[1], (long long)seen.ages[2], (long long)seen.ages[3],
           (long long)seen.ahead);
    printf("# %lld large; %lld starts failed, %lld stops, %lld resumes, %lld came from elsewhere, "
           "%lld tasks and "
           "%lld loads failed, %lld requests for memory refused, %lld naps of the leader; %lld "
           "checkpoints were due; %lld times, copies were given up; %lld ended "
           "with an error that was in order; the longest stop took %.1f s, the longest history "
           "%.1f s\n",
           (long long)seen.large, (long long)seen.unstarted, (long long)seen.stops,
           (long long)seen.resumes, (long long)seen.came, (long long)seen.refused,
           (long long)seen.unloaded, (long long)seen.pinched, (long long)seen.leader_naps,
           (long long)seen.due, (long long)seen.late, (long long)seen.honest,
           (double)seen.stop_took_ns / 1e9, (double)seen.took_ns / 1e9);
    printf("1..1\n%s 1 - %llu histories: %lld killed, %lld frozen, %lld naps, %lld links cut, %lld "
           "flips, "
           "%lld slow links, %lld stuck, %lld deaf, "
           "%lld nodes lost (%lld stuck, %lld stalled), %lld recovered, "
           "%lld changes of the number of workers, %lld cold starts, "
           "%lld released, %lld roll-backs, %lld checkpoints, %lld not written, %lld failed%s\n",
           failed || !enough ? "not ok" : "ok", (unsigned long long)histories,
           (long long)seen.kind[GNN_KILL], (long long)seen.kind[GNN_FREEZE], (long long)seen.naps,
           (long long)seen.kind[GNN_CUT], (long long)seen.kind[GNN_FLIP],
           (long long)seen.kind[GNN_SLOW], (long long)seen.kind[GNN_STICK],
           (long long)seen.kind[GNN_DROP], (long long)seen.lost, (long long)seen.stuck,
           (long long)seen.stalled, (long long)seen.recovered, (long long)seen.tunes,
           (long long)seen.cold, (long long)seen.released, (long long)seen.rollbacks,
           (long long)seen.checkpoints, (long long)seen.unsaved, (long long)failed,
           enough ? "" : ", and too little befell them");
    return failed || !enough;
}
