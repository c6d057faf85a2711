/*
 * The shrinker: on histories that fail as a rule says, and on one that is played.
 */
#include "shrink.h"
#include "small.h"

#include <stdio.h>
#include <string.h>

static int number;

static int check(bool ok, const char *what) {
    printf("%sok %d - %s\n", ok ? "" : "not ", ++number, what);
    return !ok;
}

/* --- rules --- */

struct rule {
    uint32_t needs, or ; /* it fails with all of these, or with all of those */
    uint32_t other;      /* with these alone something else is wrong */
};

static const char *fails(void *context, uint32_t events) {
    const struct rule *rule = context;
    static char why[64];
    if ((events & rule->needs) == rule->needs || (rule->or &&(events & rule->or) == rule->or)) {
        snprintf(why, sizeof why, "step %d was committed and nobody can make stage 3", events & 7);
        return why;
    }
    return rule->other && (events & rule->other) ? "the run ended with 1: other" : NULL;
}

static int rules(void) {
    static const struct {
        const char *what;
        struct rule rule;
        uint32_t all, left;
        int most;
    } cases[] = {
        {"two of sixteen", {.needs = 0x0108}, 0xffff, 0x0108, 60},
        {"one of thirty-two", {.needs = 0x80000000}, EVERY_EVENT, 0x80000000, 40},
        {"all of them", {.needs = 0x1f}, 0x1f, 0x1f, 40},
        {"none: it fails undisturbed", {.needs = 0}, 0xffff, 0, 3},
        {"either of two reasons, the smaller one or not",
         {.needs = 0x7, .or = 0x100},
         0xffff,
         0x100,
         60},
        {"another failure does not count", {.needs = 0x30, .other = 0xff}, 0xff, 0x30, 60},
        {"what does not fail stays as it is", {.needs = 0x100}, 0xff, 0xff, 1},
    };
    int failed = 0, tries;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rule rule = cases[i].rule;
        uint32_t left = shrink(cases[i].all, fails, &rule, &tries);
        bool ok = left == cases[i].left && tries <= cases[i].most;
        if (!ok) {
            printf("# left 0x%x after %d tries\n", left, tries);
        }
        failed += check(ok, cases[i].what);
    }
    return failed;
}

static int words(void) {
    int failed = 0;
    failed += check(shrink_same("fault 3 of 10 at 0x1f fails", "fault 12 of 7 at 0xab9 fails"),
                    "numbers may differ");
    failed += check(!shrink_same("fault 3 fails", "fault 3 hangs"), "words may not");
    failed += check(!shrink_same("fault 3", "fault 3 fails"), "nor may one be longer");
    failed += check(!shrink_same("node 3", "node x"), "a number is no word");
    return failed;
}

/* --- a history --- */

/* Of two pipelines of two stages: two workers are killed, and what else befalls them costs nobody's life. It counts as
 * a failure that more than one is lost. */
static struct culm_history history_of(uint32_t events) {
    struct culm_history history = small_history(2, 2, CULM_REDUNDANCY_EAGER, 7);
    static const struct culm_history_fault faults[] = {
        {.kind = CULM_FAULT_FREEZE,
         .freeze_ms = 40,
         .when = CULM_AT_TIME,
         .at_ms = 60,
         .micro = -1},
        {.kind = CULM_FAULT_KILL,
         .when = CULM_AT_PHASE,
         .phase = CULM_PHASE_FORWARD,
         .step = 1,
         .micro = -1,
         .target = CULM_TARGET_NODE,
         .node = 0},
        {.kind = CULM_FAULT_SLOW, .freeze_ms = 50, .when = CULM_AT_TIME, .at_ms = 90, .micro = -1},
        {.kind = CULM_FAULT_FREEZE,
         .freeze_ms = 30,
         .when = CULM_AT_PHASE,
         .phase = CULM_PHASE_SEND,
         .step = 2,
         .micro = -1},
        {.kind = CULM_FAULT_KILL,
         .when = CULM_AT_PHASE,
         .phase = CULM_PHASE_BACKWARD,
         .step = 2,
         .micro = -1,
         .target = CULM_TARGET_NODE,
         .node = 3},
        {.kind = CULM_FAULT_FREEZE,
         .freeze_ms = 50,
         .when = CULM_AFTER_EVENT,
         .event = "step",
         .delay = 3,
         .micro = -1},
    };
    history.fault_count = sizeof faults / sizeof *faults;
    memcpy(history.fault, faults, sizeof faults);
    history.must_fire = false;
    history.losses_max = 1;
    culm_history_keep(&history, events);
    return history;
}

static const char *play(void *context, uint32_t events) {
    static struct culm_history_result result;
    struct culm_history history = history_of(events);
    (void)context;
    culm_history_run(&history, &result);
    return result.ok ? NULL : result.why;
}

static int a_history(void) {
    int failed = 0, tries;
    struct culm_history history = history_of(EVERY_EVENT);
    uint32_t all = culm_history_events(&history), left = shrink(all, play, NULL, &tries);
    printf("# 0x%x of 0x%x after %d histories\n", left, all, tries);
    failed += check(left == (1u << 1 | 1u << 4), "of seven events those two that kill are left");
    history = history_of(left);
    failed += check(history.fault_count == 2 && history.jitter_us == 0 &&
                        history.fault[0].kind == CULM_FAULT_KILL && history.fault[1].node == 3,
                    "and are what befalls the history");
    failed += check(play(NULL, left) && !play(NULL, left & ~2u) && !play(NULL, left & ~16u),
                    "neither alone fails");
    culm_history_print_events(&history);
    return failed;
}

int main(void) {
    int failed = rules() + words() + a_history();
    printf("1..%d\n", number);
    return failed > 0;
}
