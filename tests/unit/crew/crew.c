/* A leader's half of a crew, whose owner is a toy: keepers, which it needs, and helpers, which it does without. */
#include "../fake_world.h"

#include "crew/crew.h"
#include "expect_mark.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull

enum { KEEPER, HELPER, ROLES };
enum { ANSWER = CULM_WORD_OWN };

struct toy_mate {
    struct culm_mate mate;
    bool told; /* the owner has heard of its loss */
};

struct toy {
    struct culm_crew crew;
    struct fake_world fake;
    struct culm_buf buf;
    int64_t version;
    bool runs; /* else it lacks keepers */
    int32_t came, lost, forgotten, nobody, leave;
    enum culm_cause cause; /* of the last loss */
    int32_t lost_id;
    struct culm_mate *guilty; /* whom the judge blames */
};

static struct toy *toy_of(const struct culm_crew *crew) { return (struct toy *)crew; }

static void came(struct culm_crew *crew, struct culm_mate *mate) {
    (void)mate;
    toy_of(crew)->came++;
}

static void lost(struct culm_crew *crew, struct culm_mate *mate, enum culm_cause cause,
                 const char *why_or_null) {
    struct toy *toy = toy_of(crew);
    assert_false(((struct toy_mate *)mate)->told);
    ((struct toy_mate *)mate)->told = true;
    toy->lost++;
    toy->cause = cause;
    toy->lost_id = mate->id;
    culm_crew_event(crew, culm_crew_lost_event(crew, mate, cause, why_or_null));
}

static void leaves(struct culm_crew *crew, struct culm_mate *mate) {
    assert_true(mate->alive && mate->asks && mate->leaving);
    toy_of(crew)->leave++;
}

static void forget(struct culm_crew *crew, struct culm_mate *mate) {
    (void)mate;
    toy_of(crew)->forgotten++;
}

static void message(struct culm_crew *crew, struct culm_mate *mate,
                    const struct culm_message *said) {
    struct culm_ask ask;
    assert_int_equal(said->type, ANSWER);
    assert_int_equal(culm_ask_decode(said->meta, said->meta_bytes, &ask), CULM_OK);
    (void)culm_crew_answers(crew, mate, ask.question);
}

static bool lacks(const struct culm_crew *crew, uint32_t role) {
    return role == KEEPER && !toy_of(crew)->runs;
}

static bool does_without(const struct culm_crew *crew, uint32_t role) {
    (void)crew;
    return role == HELPER;
}

static bool younger(const struct culm_mate *a, const struct culm_mate *b) { return a->id > b->id; }

static int64_t version(const struct culm_crew *crew) { return toy_of(crew)->version; }

static void name_place(const struct culm_crew *crew, char *ret_text, size_t size) {
    (void)crew;
    snprintf(ret_text, size, "the play");
}

static void name_task(int32_t kind, int32_t part, char *ret_text, size_t size) {
    snprintf(ret_text, size, "task %d of %d", kind, part);
}

static void tick_toy(struct culm_crew *crew, uint64_t now_ns) {
    (void)crew;
    (void)now_ns;
}

static void in_vain(struct culm_crew *crew, uint32_t role) {
    culm_crew_fail(crew, culm_crew_vain_status(crew, role), "waited for %ss",
                   crew->role[role].name);
}

static bool watched(struct culm_crew *crew) { return toy_of(crew)->runs; }

static int64_t progress(const struct culm_crew *crew) { return toy_of(crew)->version; }

static void forget_answer(struct culm_crew *crew, struct culm_mate *mate) {
    (void)crew;
    (void)mate;
}

static struct culm_mate *judge(struct culm_crew *crew, struct culm_mate *silent_or_null,
                               int64_t silent_ms) {
    (void)silent_ms;
    return silent_or_null ? silent_or_null : toy_of(crew)->guilty;
}

static void nobody(struct culm_crew *crew, const char *why) {
    assert_non_null(strstr(why, "nothing moved for"));
    toy_of(crew)->nobody++;
}

static const struct culm_crew_ops ops = {
    .size = sizeof ops,
    .mate_bytes = sizeof(struct toy_mate),
    .noun = "node",
    .unreachable = CULM_CAUSE_PEER,
    .came = came,
    .lost = lost,
    .leaves = leaves,
    .forget = forget,
    .message = message,
    .lacks = lacks,
    .does_without = does_without,
    .rather = younger,
    .version = version,
    .name_place = name_place,
    .name_task = name_task,
    .shorter = "play less",
    .tick = tick_toy,
    .in_vain = in_vain,
    .watched = watched,
    .progress = progress,
    .forget_answer = forget_answer,
    .judge = judge,
    .nobody = nobody,
};

static const struct culm_crew_settings settings = {.heartbeat_ms = 200,
                                                   .suspect_ms = 3000,
                                                   .kill_suspect_ms = 10000,
                                                   .stuck_ms = 30000,
                                                   .replace_ms = 500,
                                                   .wait_ms = 60000,
                                                   .max_nodes = 8};

static void begin_with(struct toy *toy, const struct culm_crew_settings *how, int32_t keepers,
                       int32_t helpers) {
    *toy = (struct toy){0};
    fake_world_init(&toy->fake);
    culm_buf_init(&toy->buf, 1 << 10);
    culm_crew_init(&toy->crew, &ops, &toy->fake.world, &toy->fake.agent, how, 1 << 10, 0, 4, 4);
    toy->crew.names_roles = true;
    culm_crew_add_role(&toy->crew, "keeper", keepers);
    culm_crew_add_role(&toy->crew, "helper", helpers);
    culm_crew_begin(&toy->crew);
}

static void begin(struct toy *toy, int32_t keepers, int32_t helpers) {
    begin_with(toy, &settings, keepers, helpers);
}

static void end(struct toy *toy) {
    culm_crew_release(&toy->crew);
    culm_buf_release(&toy->buf);
    fake_world_release(&toy->fake);
}

static void joined_as(struct toy *toy, int32_t id, uint32_t role, bool newcomer) {
    const struct culm_node_info info = {.role = role, .pid = 100 + id, .name = "toy"};
    toy->fake.role[id] = newcomer ? CULM_NO_ROLE : role;
    culm_crew_on_joined(&toy->crew, id, &info);
}

static void joined(struct toy *toy, int32_t id, uint32_t role) { joined_as(toy, id, role, false); }

static void ended(struct toy *toy, int32_t id, uint32_t role) {
    toy->fake.role[id] = role;
    culm_crew_on_ended(&toy->crew, id, NULL);
}

/* It says why it does not start. */
static void refused(struct toy *toy, int32_t id, uint32_t role) {
    struct culm_error why;
    culm_error_set(&why, CULM_ERR_CONFIG, "not awaited");
    toy->fake.role[id] = role;
    culm_crew_on_ended(&toy->crew, id, &why);
}

static void deliver(struct toy *toy, int32_t from, uint16_t type) {
    const struct culm_message said = {
        .type = type, .meta = toy->buf.data, .meta_bytes = (uint32_t)toy->buf.len};
    culm_crew_on_message(&toy->crew, from, &said);
    culm_buf_clear(&toy->buf);
}

static void beat(struct toy *toy, int32_t id) {
    const struct culm_heartbeat heartbeat = {.kind = -1};
    culm_heartbeat_encode(&heartbeat, &toy->buf);
    deliver(toy, id, CULM_WORD_HEARTBEAT);
}

static void failed(struct toy *toy, int32_t id, enum culm_status status) {
    const struct culm_failed said = {.status = status, .why = "it broke"};
    culm_failed_encode(&said, &toy->buf);
    deliver(toy, id, CULM_WORD_FAILED);
}

static void complain(struct toy *toy, int32_t by, int32_t about) {
    culm_peer_lost_encode(&(struct culm_peer_lost){about}, &toy->buf);
    deliver(toy, by, CULM_WORD_PEER_LOST);
}

/* Lets so much time pass, in ticks in which all who are alive have beaten. */
static void pass(struct toy *toy, int64_t ms) {
    for (; ms > 0; ms -= settings.heartbeat_ms) {
        toy->fake.now_ns += (uint64_t)settings.heartbeat_ms * MS;
        for (int32_t i = 0; i < toy->crew.mates.count; i++) {
            if (culm_crew_at(&toy->crew, i)->alive) {
                beat(toy, culm_crew_at(&toy->crew, i)->id);
            }
        }
        culm_crew_on_timer(&toy->crew, CULM_CREW_TICK);
    }
}

static void commit(struct toy *toy) { culm_crew_committed(&toy->crew, ++toy->version, 100); }

/* --- those who are there --- */

static void test_the_lost_are_forgotten_when_they_have_ended(void **state) {
    (void)state;
    EXPECT_MARK(crew_ended_is_forgotten);
    struct toy toy;
    begin(&toy, 2, 0);
    joined(&toy, 7, KEEPER); /* in any order */
    joined(&toy, 3, KEEPER);
    assert_int_equal(culm_crew_at(&toy.crew, 0)->id, 3);
    culm_crew_on_lost(&toy.crew, 3);
    commit(&toy);
    pass(&toy, 200);
    assert_non_null(culm_crew_find(&toy.crew, 3)); /* it may still speak, and is told */
    beat(&toy, 3);
    assert_int_equal(fake_world_sent(&toy.fake, 3, CULM_WORD_FENCED), 1);
    ended(&toy, 3, KEEPER);
    pass(&toy, 200);
    assert_non_null(culm_crew_find(&toy.crew, 3)); /* nothing was committed since */
    commit(&toy);
    assert_non_null(culm_crew_find(&toy.crew, 3)); /* whoever calls may have a pointer */
    pass(&toy, 200);
    assert_null(culm_crew_find(&toy.crew, 3));
    assert_non_null(culm_crew_find(&toy.crew, 7));
    assert_int_equal(toy.forgotten, 1);
    end(&toy);
    assert_int_equal(toy.forgotten, 2);
}

/* Names may be any bytes: neither event disappears. */
static void test_text_that_is_no_utf8_loses_no_event(void **state) {
    (void)state;
    struct toy toy;
    begin(&toy, 1, 0);
    joined(&toy, 0, KEEPER);
    struct culm_failed said = {.status = CULM_ERR_IO, .why = "'\xff' is gone"};
    culm_failed_encode(&said, &toy.buf);
    deliver(&toy, 0, CULM_WORD_FAILED);
    const json_t *event = fake_world_told(&toy.fake, "lost");
    assert_non_null(event);
    assert_non_null(json_string_value(json_object_get(event, "message")));
    assert_string_equal(json_string_value(json_object_get(event, "role")), "keeper");
    end(&toy);
}

/* --- those who leave --- */

static void asks(struct toy *toy, int32_t id) {
    culm_notice_encode(&(struct culm_notice){25000}, &toy->buf);
    deliver(toy, id, CULM_WORD_NOTICE);
}

/* Another one is asked for as soon as it is known; when it is released it is gone, and no loss. */
static void test_one_asks_to_leave(void **state) {
    (void)state;
    EXPECT_MARK(crew_asks_to_leave);
    EXPECT_MARK(crew_asked_to_leave_and_is_released);
    struct toy toy;
    begin(&toy, 2, 0);
    joined(&toy, 0, KEEPER);
    joined(&toy, 1, KEEPER);
    asks(&toy, 1);
    asks(&toy, 1);
    assert_int_equal(toy.leave, 1);
    assert_int_equal(culm_crew_present(&toy.crew, KEEPER), 1);
    assert_int_equal(culm_crew_alive(&toy.crew), 2);
    pass(&toy, 600); /* replace_ms */
    assert_int_equal(toy.fake.started, 3);
    culm_crew_release_mate(&toy.crew, culm_crew_find(&toy.crew, 1));
    assert_int_equal(fake_world_sent(&toy.fake, 1, CULM_WORD_RELEASED), 1);
    assert_int_equal(culm_crew_alive(&toy.crew), 1);
    pass(&toy, 1000);
    assert_int_equal(toy.fake.ended, 0); /* it may do so by itself */
    pass(&toy, 2000);
    assert_int_equal(toy.fake.ended, 1);
    culm_crew_on_lost(&toy.crew, 1);
    ended(&toy, 1, KEEPER);
    assert_int_equal(toy.lost, 0);
    assert_int_equal(toy.crew.lost, 0);
    assert_int_equal(toy.fake.started, 3);
    end(&toy);
}

static void test_one_dies_that_asks_to_leave(void **state) {
    (void)state;
    struct toy toy;
    begin(&toy, 1, 0);
    joined(&toy, 0, KEEPER);
    asks(&toy, 0);
    culm_crew_on_lost(&toy.crew, 0);
    assert_int_equal(toy.lost, 1);
    assert_int_equal(culm_crew_present(&toy.crew, KEEPER), 0);
    pass(&toy, 600);
    assert_int_equal(toy.fake.started, 2);
    end(&toy);
}

/* At the first boundary after it is asked to, and then now and then, as nobody may wait yet. */
static void test_a_leader_resigns(void **state) {
    (void)state;
    EXPECT_MARK(crew_resigns_after_a_boundary);
    struct toy toy;
    begin(&toy, 1, 0);
    toy.crew.record = &toy.fake.record;
    culm_crew_boundary(&toy.crew);
    assert_int_equal(toy.fake.give_ups, 0);
    culm_crew_on_resign(&toy.crew);
    assert_int_equal(toy.fake.give_ups, 0);
    culm_crew_boundary(&toy.crew);
    culm_crew_boundary(&toy.crew);
    assert_int_equal(toy.fake.give_ups, 1);
    pass(&toy, 600);
    assert_int_equal(toy.fake.give_ups, 2);
    end(&toy);
}

/* The next one would wait for it. */
static void test_a_leader_resigns_when_the_released_have_ended(void **state) {
    (void)state;
    struct toy toy;
    begin(&toy, 2, 0);
    toy.crew.record = &toy.fake.record;
    joined(&toy, 0, KEEPER);
    joined(&toy, 1, KEEPER);
    culm_crew_on_resign(&toy.crew);
    asks(&toy, 1);
    culm_crew_release_mate(&toy.crew, culm_crew_find(&toy.crew, 1));
    culm_crew_boundary(&toy.crew);
    pass(&toy, 600);
    assert_int_equal(toy.fake.give_ups, 0);
    ended(&toy, 1, KEEPER);
    pass(&toy, 200);
    assert_int_equal(toy.fake.give_ups, 1);
    end(&toy);
}

/* --- starts --- */

static void test_a_run_that_cannot_begin_ends(void **state) {
    (void)state;
    EXPECT_MARK(crew_starts_failed_too_often);
    struct toy toy;
    begin(&toy, 1, 0);
    assert_int_equal(toy.fake.started, 1);
    for (int32_t id = 0; id < 4; id++) {
        ended(&toy, id, KEEPER);
        assert_int_equal(toy.fake.started, id + 1); /* not at once */
        pass(&toy, 200 << id);
        assert_int_equal(toy.fake.started, id + 2);
    }
    assert_int_equal(toy.fake.exit_code, -1);
    ended(&toy, 4, KEEPER);
    assert_int_equal(toy.fake.exit_code, 4);
    assert_non_null(strstr(toy.fake.error, "no keeper can start"));
    end(&toy);
}

/* Something was committed: it goes on trying, and only wait_ms are the end. */
static void test_starts_that_fail_end_no_run_that_has_begun(void **state) {
    (void)state;
    EXPECT_MARK(crew_start_is_tried_again);
    EXPECT_MARK(crew_waits);
    EXPECT_MARK(crew_waited_in_vain);
    struct toy toy;
    begin(&toy, 1, 0);
    joined(&toy, 0, KEEPER);
    toy.runs = true;
    commit(&toy);
    culm_crew_on_lost(&toy.crew, 0);
    toy.runs = false;
    culm_crew_wait(&toy.crew, KEEPER, 1, 0, NULL);
    int64_t waited_ms = 0;
    for (int32_t id = 1; toy.fake.exit_code < 0; id++) {
        const int32_t before = toy.fake.started;
        for (; toy.fake.started == before && toy.fake.exit_code < 0; waited_ms += 200) {
            pass(&toy, 200);
        }
        if (toy.fake.exit_code < 0) {
            refused(&toy, id, KEEPER);
        }
        assert_true(waited_ms <= 70000);
    }
    assert_int_equal(toy.fake.exit_code, 4); /* and not 3: the run itself is as good as ever */
    assert_true(waited_ms >= 60000);
    assert_non_null(strstr(toy.fake.error, "waited for keepers"));
    assert_true(fake_world_events(&toy.fake, "waiting") >= 5); /* each failure is news */
    const json_t *event = fake_world_told(&toy.fake, "waiting");
    assert_int_equal(json_integer_value(json_object_get(event, "again_ms")), 5000);
    end(&toy);
}

/* One that the run does without: it never ends the run, and is asked for less and less often, whenever it fails. */
static void test_helpers_that_do_nothing_are_asked_for_ever_less_often(void **state) {
    (void)state;
    EXPECT_MARK(crew_joined_in_vain);
    struct toy toy;
    begin(&toy, 1, 1);
    joined(&toy, 0, KEEPER);
    toy.runs = true;
    int32_t id = 1;
    for (int64_t ms = 0; ms < 3600000; id++) {
        const int32_t before = toy.fake.started_as[HELPER];
        joined(&toy, id, HELPER);
        pass(&toy, 33000); /* it joins, and reaches nobody for longer than any limit */
        toy.version++;     /* the run gets on */
        failed(&toy, id, CULM_ERR_CLOSED);
        ended(&toy, id, HELPER);
        commit(&toy);
        for (; toy.fake.started_as[HELPER] == before && ms < 3600000; ms += 1000) {
            pass(&toy, 1000);
            toy.version++;
        }
    }
    assert_true(id < 25);
    assert_int_equal(toy.fake.exit_code, -1);
    end(&toy);
}

/* And one that has worked is replaced as soon as ever. */
static void test_helpers_that_worked_are_replaced_soon(void **state) {
    (void)state;
    struct toy toy;
    begin(&toy, 0, 1);
    toy.runs = true;
    for (int32_t id = 0; id < 20; id++) {
        joined(&toy, id, HELPER);
        culm_took_encode(&(struct culm_took){.kind = 1}, &toy.buf);
        deliver(&toy, id, CULM_WORD_TOOK);
        culm_crew_on_lost(&toy.crew, id);
        ended(&toy, id, HELPER);
        pass(&toy, 600);
        assert_int_equal(toy.fake.started_as[HELPER], id + 2);
    }
    end(&toy);
}

/* A newcomer has taken the place of one that was to be replaced. */
static void test_who_is_not_missing_is_not_started(void **state) {
    (void)state;
    EXPECT_MARK(crew_start_is_not_needed_any_more);
    struct toy toy;
    begin(&toy, 2, 0);
    joined(&toy, 0, KEEPER);
    joined(&toy, 1, KEEPER);
    culm_crew_on_lost(&toy.crew, 0);
    joined_as(&toy, 9, KEEPER, true);
    pass(&toy, 2000);
    assert_int_equal(toy.fake.started, 2);
    culm_crew_on_lost(&toy.crew, 9); /* and goes again */
    pass(&toy, 2000);
    assert_int_equal(toy.fake.started, 3);
    end(&toy);
}

/* --- failures --- */

/* Three that fail alike end the run; but not three of one machine, where there is another. */
static void test_a_machine_of_its_own_trouble_ends_no_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_failed_and_there_are_others);
    EXPECT_MARK(crew_failed_too_often);
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        struct toy toy;
        begin(&toy, 2, 0);
        joined_as(&toy, 0, KEEPER, elsewhere);
        toy.runs = true;
        for (int32_t id = 1; id < 4; id++) {
            joined(&toy, id, KEEPER);
            failed(&toy, id, CULM_ERR_IO);
            pass(&toy, 6000);
        }
        assert_int_equal(toy.fake.exit_code, elsewhere ? -1 : 4);
        if (elsewhere) { /* and where it fails there, too, it is the work */
            failed(&toy, 0, CULM_ERR_IO);
            assert_int_equal(toy.fake.exit_code, 4);
        }
        end(&toy);
    }
}

/* A file that is not what it was is everybody's, unless it is a copy elsewhere. */
static void test_what_changed_elsewhere_is_one_machine_s_own(void **state) {
    (void)state;
    EXPECT_MARK(crew_inputs_have_changed);
    struct toy toy;
    begin(&toy, 2, 0);
    joined_as(&toy, 0, KEEPER, true);
    joined(&toy, 1, KEEPER);
    toy.runs = true;
    failed(&toy, 0, CULM_ERR_CHANGED);
    assert_int_equal(toy.fake.exit_code, -1);
    assert_int_equal(toy.lost_id, 0);
    failed(&toy, 1, CULM_ERR_CHANGED);
    assert_int_equal(toy.fake.exit_code, 1);
    end(&toy);
}

/* The connection ends first; that it was for want of memory is known when the process has ended. */
static void test_three_killed_for_memory_end_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_killed_for_memory);
    struct toy toy;
    struct culm_error why;
    culm_error_set(&why, CULM_ERR_MEMORY, "the system has killed it for want of memory");
    begin(&toy, 1, 0);
    toy.runs = true;
    for (int32_t id = 0; id < 3; id++) {
        assert_int_equal(toy.fake.exit_code, -1);
        joined(&toy, id, KEEPER);
        culm_crew_on_lost(&toy.crew, id);
        culm_crew_on_ended(&toy.crew, id, &why);
        pass(&toy, 600);
    }
    assert_int_equal(toy.fake.exit_code, culm_status_exit_code(CULM_ERR_MEMORY));
    assert_non_null(strstr(toy.fake.error, "for want of memory"));
    end(&toy);
}

/* --- links --- */

static void test_a_newcomer_goes(void **state) {
    (void)state;
    EXPECT_MARK(crew_newcomer_goes);
    EXPECT_MARK(crew_broken_link_is_known);
    struct toy toy;
    begin(&toy, 2, 0);
    joined_as(&toy, 0, KEEPER, true);
    joined(&toy, 1, KEEPER);
    complain(&toy, 1, 0);
    complain(&toy, 0, 1);
    pass(&toy, 2800);
    assert_int_equal(toy.lost, 0);
    pass(&toy, 400);
    assert_int_equal(toy.lost, 1);
    assert_int_equal(toy.lost_id, 0);
    assert_int_equal(toy.cause, CULM_CAUSE_PEER);
    end(&toy);
}

/* The younger goes, until the same one has stayed for no better reason. */
static void test_who_outlives_others_goes(void **state) {
    (void)state;
    EXPECT_MARK(crew_one_has_outlived_another);
    struct toy toy;
    begin(&toy, 2, 0);
    joined(&toy, 0, KEEPER);
    joined(&toy, 1, KEEPER);
    complain(&toy, 0, 1);
    pass(&toy, 3200);
    assert_int_equal(toy.lost_id, 1);
    joined(&toy, 2, KEEPER);
    complain(&toy, 0, 2);
    pass(&toy, 3200);
    assert_int_equal(toy.lost, 2);
    assert_int_equal(toy.lost_id, 0);
    end(&toy);
}

/* Links of those who are gone speak against nobody. */
static void test_links_of_the_lost_do_not_count(void **state) {
    (void)state;
    EXPECT_MARK(crew_broken_link_costs_one);
    struct toy toy;
    begin(&toy, 3, 0);
    joined(&toy, 0, KEEPER);
    joined(&toy, 1, KEEPER);
    joined(&toy, 2, KEEPER);
    complain(&toy, 2, 0);
    complain(&toy, 1, 0);
    culm_crew_on_lost(&toy.crew, 2);
    pass(&toy, 3200);
    assert_int_equal(toy.lost, 2);
    assert_int_equal(toy.lost_id, 1); /* the younger, and not the one with two links */
    end(&toy);
}

static void test_no_link_is_to_blame_while_the_leader_slept(void **state) {
    (void)state;
    EXPECT_MARK(crew_broken_link_while_it_slept);
    EXPECT_MARK(crew_leader_slept);
    struct toy toy;
    begin(&toy, 2, 0);
    joined(&toy, 0, KEEPER);
    joined(&toy, 1, KEEPER);
    complain(&toy, 0, 1);
    toy.fake.now_ns += 60000 * MS;
    culm_crew_on_timer(&toy.crew, CULM_CREW_TICK);
    assert_int_equal(toy.lost, 0);
    pass(&toy, 2800);
    assert_int_equal(toy.lost, 0);
    pass(&toy, 400);
    assert_int_equal(toy.lost, 1);
    end(&toy);
}

/* How long a round took in which the leader slept is no measure of how long others may be silent. */
static void test_a_round_that_the_leader_slept_through_does_not_count(void **state) {
    (void)state;
    EXPECT_MARK(crew_round_of_a_leader_that_slept);
    struct toy toy;
    begin(&toy, 2, 0);
    joined(&toy, 0, KEEPER);
    culm_crew_committed(&toy.crew, 1, 40);
    assert_int_equal(toy.crew.stall.rounds, 1);
    toy.fake.now_ns += 60000 * MS;
    culm_crew_committed(&toy.crew, 2, 60000); /* before the tick by which it notices */
    assert_int_equal(toy.crew.stall.rounds, 1);
    culm_crew_on_timer(&toy.crew, CULM_CREW_TICK);
    culm_crew_committed(&toy.crew, 3, 60000);
    assert_int_equal(toy.crew.stall.rounds, 1);
    culm_crew_committed(&toy.crew, 4, 50);
    assert_int_equal(toy.crew.stall.rounds, 2);
    end(&toy);
}

/* The one that the younger cannot reach has said nothing since: it is dead or frozen, and about to be found so. */
static void test_no_link_is_to_blame_while_an_end_is_silent(void **state) {
    (void)state;
    struct toy toy;
    begin(&toy, 2, 0);
    joined(&toy, 0, KEEPER);
    joined(&toy, 1, KEEPER);
    complain(&toy, 1, 0);
    toy.fake.now_ns += 60000 * MS; /* the leader slept, so both may still be heard */
    culm_crew_on_timer(&toy.crew, CULM_CREW_TICK);
    for (int32_t ms = 0; ms < 3200; ms += 200) {
        toy.fake.now_ns += 200 * MS;
        beat(&toy, 1);
        culm_crew_on_timer(&toy.crew, CULM_CREW_TICK);
    }
    assert_int_equal(toy.lost, 1);
    assert_int_equal(toy.lost_id, 0);
    assert_int_equal(toy.cause, CULM_CAUSE_HEARTBEAT);
    end(&toy);
}

static void write_nothing(struct culm_record *record, enum culm_deed deed, int64_t step,
                          const char *about) {
    (void)record;
    (void)deed;
    (void)step;
    (void)about;
}

static void written(struct culm_crew *crew, enum culm_deed deed) {
    (void)crew;
    (void)deed;
}

/* If it is not written, another one leads, who may need what they have, or have to be told by them of their damage. */
static void test_nobody_is_ended_while_a_deed_is_in_doubt(void **state) {
    (void)state;
    EXPECT_MARK(crew_suspect_lives_while_a_deed_is_in_doubt);
    const struct culm_record_ops record_ops = {.size = sizeof record_ops, .write = write_nothing};
    struct culm_record record = {&record_ops};
    struct culm_crew_ops with_deeds = ops;
    struct toy toy;
    begin(&toy, 2, 0);
    with_deeds.written = written;
    toy.crew.ops = &with_deeds;
    toy.crew.record = &record;
    joined(&toy, 0, KEEPER);
    joined(&toy, 1, KEEPER);
    culm_crew_lose(&toy.crew, culm_crew_find(&toy.crew, 0), CULM_CAUSE_DIFFERS, "damaged");
    assert_true(culm_crew_write(&toy.crew, CULM_DEED_STOP, 1));
    pass(&toy, 2 * settings.kill_suspect_ms);
    assert_int_equal(toy.fake.ended, 0);
    culm_crew_on_written(&toy.crew, CULM_DEED_STOP);
    pass(&toy, 1000);
    assert_int_equal(toy.fake.ended, 1);
    end(&toy);
}

/* --- stalls --- */

static void test_who_does_not_answer_goes(void **state) {
    (void)state;
    EXPECT_MARK(crew_stalled_and_it_does_not_answer);
    struct toy toy;
    begin(&toy, 2, 0);
    joined(&toy, 0, KEEPER);
    joined(&toy, 1, KEEPER);
    toy.runs = true;
    pass(&toy, 31000);
    assert_int_equal(fake_world_sent(&toy.fake, 0, CULM_WORD_ASK), 1);
    culm_ask_encode(&(struct culm_ask){toy.crew.stall.question - 1}, &toy.buf);
    deliver(&toy, 1, ANSWER); /* to an older question */
    culm_ask_encode(&(struct culm_ask){toy.crew.stall.question}, &toy.buf);
    deliver(&toy, 0, ANSWER);
    pass(&toy, 3400);
    assert_int_equal(toy.lost, 1);
    assert_int_equal(toy.lost_id, 1);
    assert_int_equal(toy.cause, CULM_CAUSE_STALLED);
    end(&toy);
}

static void test_nobody_is_to_blame_for_ever(void **state) {
    (void)state;
    EXPECT_MARK(crew_stalled_and_nobody_is_to_blame);
    EXPECT_MARK(crew_stalled_for_good);
    struct toy toy;
    begin(&toy, 1, 0);
    joined(&toy, 0, KEEPER);
    toy.runs = true;
    for (int i = 0; i < 40000 && toy.fake.exit_code < 0; i++) {
        const int32_t asked = fake_world_sent(&toy.fake, 0, CULM_WORD_ASK);
        pass(&toy, 200);
        if (fake_world_sent(&toy.fake, 0, CULM_WORD_ASK) > asked) {
            culm_ask_encode(&(struct culm_ask){toy.crew.stall.question}, &toy.buf);
            deliver(&toy, 0, ANSWER);
        }
    }
    assert_int_equal(toy.nobody, CULM_STALL_VAIN_MAX);
    assert_int_equal(toy.lost, 0);
    assert_non_null(strstr(toy.fake.error, "nothing has moved in the play"));
    end(&toy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_lost_are_forgotten_when_they_have_ended),
        cmocka_unit_test(test_text_that_is_no_utf8_loses_no_event),
        cmocka_unit_test(test_one_asks_to_leave),
        cmocka_unit_test(test_one_dies_that_asks_to_leave),
        cmocka_unit_test(test_a_leader_resigns),
        cmocka_unit_test(test_a_leader_resigns_when_the_released_have_ended),
        cmocka_unit_test(test_a_run_that_cannot_begin_ends),
        cmocka_unit_test(test_starts_that_fail_end_no_run_that_has_begun),
        cmocka_unit_test(test_helpers_that_do_nothing_are_asked_for_ever_less_often),
        cmocka_unit_test(test_helpers_that_worked_are_replaced_soon),
        cmocka_unit_test(test_who_is_not_missing_is_not_started),
        cmocka_unit_test(test_a_machine_of_its_own_trouble_ends_no_run),
        cmocka_unit_test(test_what_changed_elsewhere_is_one_machine_s_own),
        cmocka_unit_test(test_three_killed_for_memory_end_the_run),
        cmocka_unit_test(test_a_newcomer_goes),
        cmocka_unit_test(test_who_outlives_others_goes),
        cmocka_unit_test(test_links_of_the_lost_do_not_count),
        cmocka_unit_test(test_no_link_is_to_blame_while_the_leader_slept),
        cmocka_unit_test(test_a_round_that_the_leader_slept_through_does_not_count),
        cmocka_unit_test(test_no_link_is_to_blame_while_an_end_is_silent),
        cmocka_unit_test(test_nobody_is_ended_while_a_deed_is_in_doubt),
        cmocka_unit_test(test_who_does_not_answer_goes),
        cmocka_unit_test(test_nobody_is_to_blame_for_ever),
    };
    return cmocka_run_group_tests_name("crew/crew", tests, NULL, NULL);
}
