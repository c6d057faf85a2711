/*
 * A leader alone, in branches of recovery that a history seldom takes: starts that fail, holders that differ, and
 * nodes that nobody hears.
 */
#include "expect_mark.h"
#include "leader_played.h"

/* --- losses at the same moment --- */

/* One view tells of all of them, and nothing is committed before it that one of them held. */
static void test_losses_at_the_same_moment_cost_one_view(void **state) {
    (void)state;
    struct fixture f;
    begin_with(&f, 3, 1, 4, 1, 0); /* servers 0 to 3, which own 1, 2, 0 and 0 intervals */
    both_hold(&f, 4, 0, 0);
    done_so(&f, 0, 0, 1, 0);
    done_so(&f, 1, 1, 1, 0);
    done_so(&f, 1, 2, 1, 0);
    fake_world_forget(&f.fake);
    for (int32_t node = 0; node < 3; node++) {
        culm_gnn_leader_actor.lost(f.leader, node);
        culm_gnn_leader_actor.leads->ended(f.leader, node, NULL);
    }
    holds(&f, 4, 1);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 3);
    assert_int_equal(fake_world_events(&f.fake, "view"), 0);
    assert_int_equal(fake_world_sent(&f.fake, 3, CULM_GNN_MSG_COMMIT), 0);
    settle(&f);
    assert_int_equal(fake_world_events(&f.fake, "view"), 1);
    assert_int_equal(fake_world_sent(&f.fake, 3, CULM_GNN_MSG_VIEW), 1);
    const struct culm_gnn_view view = *view_of(&f, 3);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(view.owner[i], 3);
    }
    assert_int_equal(view.holder_count, 2);
    assert_true(culm_gnn_view_holds(&view, 3) && culm_gnn_view_holds(&view, 4));
    holds(&f, 3, 1);
    assert_int_equal(fake_world_sent(&f.fake, 3, CULM_GNN_MSG_COMMIT), 1);
    end(&f);
}

static enum culm_status decode(const struct fixture *f, const struct fake_sent *sent,
                               struct culm_gnn_view *view) {
    assert_non_null(sent);
    return culm_gnn_view_decode(sent->meta, sent->meta_bytes, &f->layout, view);
}

/* Who knows the view before is told what has changed, and whoever comes the whole. */
static void test_a_view_is_told_by_its_changes(void **state) {
    (void)state;
    EXPECT_MARK(interval_view_is_told_by_its_changes);
    struct fixture f;
    begin_with(&f, 8, 7, 2, 1, 0); /* servers 0 and 1, of which the second owns the last interval */
    int32_t owner[3][8] = {{0}};
    struct culm_gnn_view known = {.owner = owner[0]}, none = {.owner = owner[1]}, other;
    assert_int_equal(decode(&f, fake_world_last(&f.fake, 0, CULM_GNN_MSG_VIEW), &known), CULM_OK);
    for (int32_t node = 2; node >= 0; node -= 2) {
        fake_world_forget(&f.fake);
        holds(&f, node, 0);
        const struct fake_sent *copied = fake_world_last(&f.fake, 0, CULM_GNN_MSG_VIEW);
        assert_true(!copied || decode(&f, copied, &known) == CULM_OK);
    }
    other = known;
    other.owner = owner[2];
    joined(&f, CULM_GNN_SERVER); /* 3, on standby */
    fake_world_forget(&f.fake);
    lost(&f, 1);
    const struct fake_sent *changes = fake_world_last(&f.fake, 0, CULM_GNN_MSG_VIEW);
    const struct fake_sent *whole = fake_world_last(&f.fake, 3, CULM_GNN_MSG_VIEW);
    assert_true(changes && whole && changes->meta_bytes < whole->meta_bytes);
    assert_int_equal(decode(&f, changes, &known), CULM_OK);
    assert_int_equal(decode(&f, whole, &none), CULM_OK);
    assert_memory_equal(owner[0], owner[1], sizeof owner[0]);
    known.owner = none.owner;
    assert_memory_equal(&known, &none, sizeof known);
    assert_int_equal(known.owner[6], 0);
    assert_int_equal(known.owner[7], 3);
    other.number--; /* one that knows another view does not take it in */
    assert_int_equal(decode(&f, changes, &other), CULM_ERR_FORMAT);
    end(&f);
}

/* --- starts and joins --- */

static void test_servers_that_cannot_start_end_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_starts_failed_too_often);
    EXPECT_MARK(crew_start_is_tried_again);
    struct fixture f;
    const struct culm_gnn_settings settings = settings_of(1, 1, 0);
    make(&f, 1, 1, &settings);
    for (int i = 0; i < ROUND; i++) {
        assert_int_equal(f.fake.exit_code, -1);
        f.fake.role[f.next] = CULM_GNN_SERVER;
        culm_gnn_leader_actor.leads->ended(f.leader, f.next++, NULL);
        f.fake.now_ns += 5000 * MS;
        tick(&f);
    }
    ended_with(&f, CULM_ERR_IO, "no server can start");
    end(&f);
}

static void test_a_stop_before_the_first_view(void **state) {
    (void)state;
    EXPECT_MARK(interval_stopped_before_the_first_view);
    struct fixture f;
    const struct culm_gnn_settings settings = settings_of(1, 1, 0);
    make(&f, 1, 1, &settings);
    culm_gnn_leader_actor.leads->stop(f.leader);
    ended_with(&f, CULM_ERR_STOPPED, "stopped before the first epoch");
    end(&f);
}

static void test_a_process_that_ends_before_its_link(void **state) {
    (void)state;
    EXPECT_MARK(crew_ended_before_its_link);
    EXPECT_MARK(crew_newcomer_ended);
    struct fixture f;
    begin(&f, 1, 0);
    culm_gnn_leader_actor.leads->ended(f.leader, 1, NULL);
    assert_int_equal(number(&f, "lost", "node"), 1);
    culm_gnn_leader_actor.lost(f.leader, 1); /* which changes nothing */
    assert_int_equal(fake_world_events(&f.fake, "lost"), 1);
    int32_t started = f.fake.started;
    f.fake.role[9] = CULM_NO_ROLE; /* one that came from elsewhere and never joined */
    culm_gnn_leader_actor.leads->ended(f.leader, 9, NULL);
    assert_int_equal(f.fake.started, started);
    end(&f);
}

static void test_there_is_room_for_so_many_nodes(void **state) {
    (void)state;
    EXPECT_MARK(crew_joins_and_there_is_no_room);
    struct fixture f;
    begin(&f, 1, 0);
    const struct culm_node_info info = {.role = CULM_GNN_WORKER, .name = "here"};
    for (; f.next < CULM_GNN_NODES_MAX; f.next++) {
        culm_gnn_leader_actor.leads->joined(f.leader, f.next, &info);
        fake_world_forget(&f.fake);
    }
    assert_int_equal(f.fake.ended, 0);
    culm_gnn_leader_actor.leads->joined(f.leader, f.next++, &info);
    assert_int_equal(f.fake.ended, 1);
    assert_int_equal(fake_world_events(&f.fake, "joined"), 0);
    end(&f);
}

/* --- holders --- */

static void holds_other(struct fixture *f, int32_t node, int64_t version, uint64_t digest) {
    const struct culm_gnn_held held = {
        .attempt = f->attempt, .version = version, .digest = digest, .view = UINT64_MAX};
    culm_gnn_held_encode(&held, &f->buf);
    deliver(f, node, CULM_GNN_MSG_HOLDS);
}

/* Nobody can say which is right, so all go back; and if that happens again and again, it is a machine. */
static void test_holders_that_differ(void **state) {
    (void)state;
    EXPECT_MARK(interval_holders_differ);
    EXPECT_MARK(interval_holders_differ_too_often);
    EXPECT_MARK(interval_rollback);
    struct fixture f;
    begin(&f, 2, 0);
    for (int time = 1; time <= 6; time++) {
        both_hold(&f, 1, 2, 0);
        done(&f, 1);
        holds(&f, 1, 1);
        holds_other(&f, 2, 1, 99);
        assert_null(fake_world_last(&f.fake, 0, CULM_GNN_MSG_COMMIT));
        assert_int_equal(fake_world_events(&f.fake, "rollback"), time < 6 ? time : 5);
        f.attempt++;
    }
    ended_with(&f, CULM_ERR_INTERNAL, "holders of the weights differ after epoch 1");
    end(&f);
}

/* Where rows may be old, one holder decides which sums count. */
static void begin_stale(struct fixture *f) {
    struct culm_gnn_settings settings = settings_of(1, 3, 0);
    settings.pace.ahead = true;
    settings.pace.staleness = 1;
    begin_so(f, 1, 1, &settings);
    assert_int_equal(view_of(f, 0)->holder[0].node, 1);
}

static void test_the_first_holder_is_lost(void **state) {
    (void)state;
    EXPECT_MARK(interval_first_holder_is_another);
    EXPECT_MARK(interval_holder_gets_a_copy);
    struct fixture f;
    begin_stale(&f);
    holds(&f, 1, 0);
    holds(&f, 2, 0);
    holds(&f, 3, 0);
    done(&f, 1);
    both_hold(&f, 1, 3, 1); /* and 2 not yet */
    lost(&f, 1);
    const struct culm_gnn_view *view = view_of(&f, 0);
    assert_int_equal(view->holder[0].node, 3); /* which has the latest version */
    assert_int_equal(view->holder[1].node, 2);
    assert_int_equal(view->holder[1].from, 3);
    assert_int_equal(view->holder[1].since, view->number);
    end(&f);
}

static void test_the_first_holder_is_lost_before_any_has_loaded(void **state) {
    (void)state;
    EXPECT_MARK(interval_no_holder_can_be_the_first);
    struct fixture f;
    begin_stale(&f);
    lost(&f, 1);
    const struct culm_gnn_view *view = view_of(&f, 0);
    assert_int_equal(view->holder[0].node, 2);
    assert_int_equal(view->holder[0].from, -1); /* it loads, as it was told to */
    end(&f);
}

static void holder_is(const struct fixture *f, int32_t node, int32_t count, int32_t holder,
                      int32_t from) {
    const struct culm_gnn_view *view = view_of(f, node);
    assert_int_equal(view->holder_count, count);
    if (count > 0) {
        assert_int_equal(view->holder[count - 1].node, holder);
        assert_int_equal(view->holder[count - 1].from, from);
    }
}

/* A server from elsewhere can load the initial weights, but no checkpoint: it is sent a copy. */
static void test_a_run_is_resumed_with_a_server_from_elsewhere(void **state) {
    (void)state;
    EXPECT_MARK(interval_no_holder_without_files);
    for (int resumed = 0; resumed < 2; resumed++) {
        struct fixture f;
        const struct culm_gnn_settings settings = settings_of(1, 1, 0);
        make_from(&f, 1, 1, &settings, resumed ? 3 : 0, resumed ? "file" : "");
        joined_from_elsewhere(&f, CULM_GNN_SERVER);
        joined(&f, CULM_GNN_PARAMETER);
        holder_is(&f, 0, resumed ? 1 : 2, resumed ? 1 : 0, -1);
        holds(&f, 1, resumed ? 3 : 0);
        holder_is(&f, 0, 2, 0, 1);
        end(&f);
    }
}

/* All who have the state and the run directory are lost. Servers from elsewhere, which have neither, wait: nobody is told to
 * load a path that says nothing to it. */
static void test_a_roll_back_with_servers_from_elsewhere(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.newcomers = true;
    settings.crew.replace_ms = 3000;
    settings.checkpoint_every = 2;
    begin_so(&f, 1, 1, &settings);
    both_hold(&f, 1, 0, 0);
    for (int64_t epoch = 1; epoch <= 3; epoch++) {
        commits_by(&f, epoch, 0, 1);
        if (epoch == 2) {
            saves(&f, 1);
        }
    }
    joined_from_elsewhere(&f, CULM_GNN_SERVER); /* it stands by */
    lost(&f, 1);
    lost(&f, 0);
    did(&f, CULM_GNN_TASK_FIND, CULM_OK);
    f.attempt++;
    assert_int_equal(number(&f, "rollback", "to_epoch"), 2);
    holder_is(&f, 2, 0, -1, -1);
    assert_int_equal(fake_world_events(&f.fake, "waiting"), 3); /* twice at the start */
    joined(&f, CULM_GNN_PARAMETER);
    holder_is(&f, 2, 1, 3, -1);
    assert_string_equal(view_of(&f, 2)->load, "file");
    holds(&f, 3, 2);
    holder_is(&f, 2, 2, 2, 3);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 2);
    end(&f);
}

/* With a depot, nodes from elsewhere have any role, and load and save as others do: the run goes on with them alone. */
static void test_a_roll_back_with_a_depot(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    const struct culm_node_info parameter = {.role = CULM_GNN_PARAMETER, .name = "there"};
    uint32_t role = CULM_NO_ROLE;
    settings.newcomers = true;
    settings.crew.replace_ms = 3600000;
    settings.checkpoint_every = 2;
    make_reached(&f, 1, 1, &settings, 0, "", true);
    joined_from_elsewhere(&f, CULM_GNN_SERVER);
    assert_true(culm_gnn_leader_actor.leads->admits(f.leader, &parameter, &role, NULL));
    assert_int_equal(role, CULM_GNN_PARAMETER);
    joined_from_elsewhere(&f, CULM_GNN_PARAMETER);
    both_hold(&f, 1, 0, 0);
    for (int64_t epoch = 1; epoch <= 3; epoch++) {
        commits_by(&f, epoch, 0, 1);
        if (epoch == 2) {
            assert_int_equal(saver_of(&f, 2), 1);
            saves(&f, 1);
        }
    }
    joined_from_elsewhere(&f, CULM_GNN_SERVER); /* it stands by */
    lost(&f, 1);
    lost(&f, 0);
    did(&f, CULM_GNN_TASK_FIND, CULM_OK);
    f.attempt++;
    assert_int_equal(number(&f, "rollback", "to_epoch"), 2);
    holder_is(&f, 2, 1, 2, -1);
    assert_string_equal(view_of(&f, 2)->load, "file");
    holds(&f, 2, 2);
    assert_int_equal(f.fake.exit_code, -1);
    end(&f);
}

/* A server may begin to train in an epoch that turns out to be none. */
static void test_done_with_what_was_no_epoch(void **state) {
    (void)state;
    EXPECT_MARK(interval_done_of_an_epoch_that_is_none);
    struct fixture f;
    begin(&f, 1, 0);
    both_hold(&f, 1, 0, 0);
    const struct culm_gnn_done evaluated = {.attempt = f.attempt, .epoch = 1, .trained = false};
    culm_gnn_done_encode(&evaluated, &f.buf);
    deliver(&f, 0, CULM_GNN_MSG_DONE);
    holds(&f, 1, 1);
    holds(&f, 0, 1);
    assert_null(fake_world_last(&f.fake, 0, CULM_GNN_MSG_COMMIT));
    done(&f, 1);
    assert_non_null(fake_world_last(&f.fake, 0, CULM_GNN_MSG_COMMIT));
    end(&f);
}

/* --- nothing moves --- */

static void beat(struct fixture *f, int32_t node, int32_t kind, int64_t task_ms) {
    const struct culm_heartbeat beat = {.kind = kind, .task_ms = task_ms};
    culm_heartbeat_encode(&beat, &f->buf);
    deliver(f, node, CULM_WORD_HEARTBEAT);
}

/* Times in which trouble is noticed. */
static struct culm_gnn_settings watched(int32_t servers, int32_t parameters) {
    struct culm_gnn_settings settings = settings_of(servers, parameters, 0);
    settings.crew.suspect_ms = 1000;
    settings.crew.stuck_ms = 300;
    return settings;
}

/* Two servers with an interval each, and a parameter server. */
static void begin_watched(struct fixture *f) {
    const struct culm_gnn_settings settings = watched(2, 1);
    begin_so(f, 2, 1, &settings);
    holds(f, 2, 0);
    fake_world_forget(&f->fake);
}

/* All talk and nobody does anything, until the leader asks. */
static uint64_t idle_until_asked(struct fixture *f) {
    struct culm_ask ask = {0};
    for (int i = 0; i < 20000 && f->fake.exit_code == -1; i++) {
        fake_world_forget(&f->fake);
        for (int32_t node = 0; node < f->next; node++) {
            beat(f, node, -1, 0);
        }
        f->fake.now_ns += 250 * MS;
        tick(f);
        const struct fake_sent *sent = fake_world_last(&f->fake, 0, CULM_WORD_ASK);
        if (sent) {
            assert_int_equal(culm_ask_decode(sent->meta, sent->meta_bytes, &ask), CULM_OK);
            break;
        }
    }
    return ask.question;
}

static void answers_so(struct fixture *f, int32_t node, uint64_t question, int32_t count,
                       const struct culm_gnn_traffic *with) {
    struct culm_gnn_answer *answer = malloc(sizeof *answer + (size_t)count * sizeof *with);
    assert_non_null(answer);
    *answer = (struct culm_gnn_answer){.question = question, .count = count};
    memcpy(answer->with, with, (size_t)count * sizeof *with);
    culm_gnn_answer_encode(answer, &f->buf);
    free(answer);
    deliver(f, node, CULM_GNN_MSG_ANSWER);
}

static void answers(struct fixture *f, int32_t node, uint64_t question, int32_t with, int64_t sent,
                    int64_t got) {
    answers_so(f, node, question, 1, &(struct culm_gnn_traffic){with, sent, got});
}

static void test_a_link_that_swallows_costs_one_of_its_ends(void **state) {
    (void)state;
    EXPECT_MARK(interval_stalled_by_a_link);
    struct fixture f;
    begin_watched(&f);
    uint64_t question = idle_until_asked(&f);
    assert_int_equal(question, 1);
    answers(&f, 0, question, 1, 7, 3); /* of seven messages */
    answers(&f, 1, question, 0, 3, 5); /* five have come */
    answers(&f, 2, question, 0, 0, 0);
    later(&f, 250);
    assert_int_equal(fake_world_events(&f.fake, "stalled"), 1);
    assert_int_equal(number(&f, "lost", "node"), 1);
    end(&f);
}

static void answers_of_two(struct fixture *f, int32_t node, uint64_t question,
                           struct culm_gnn_traffic first, struct culm_gnn_traffic second) {
    answers_so(f, node, question, 2, (const struct culm_gnn_traffic[]){first, second});
}

/* Whatever the order of an answer, each link is found, and the node at the end of most of them goes. */
static void test_links_are_found_in_answers_of_any_order(void **state) {
    (void)state;
    struct fixture f;
    begin_watched(&f);
    uint64_t question = idle_until_asked(&f);
    answers_of_two(&f, 0, question, (struct culm_gnn_traffic){2, 4, 9},
                   (struct culm_gnn_traffic){1, 7, 5});
    answers_of_two(&f, 1, question, (struct culm_gnn_traffic){0, 5, 6},
                   (struct culm_gnn_traffic){2, 8, 8});
    answers_of_two(&f, 2, question, (struct culm_gnn_traffic){1, 8, 8},
                   (struct culm_gnn_traffic){0, 9, 2});
    later(&f, 250);
    const json_t *links = json_object_get(fake_world_told(&f.fake, "stalled"), "links");
    static const int64_t expected[][3] = {{0, 1, 1}, {0, 2, 2}};
    assert_int_equal(json_array_size(links), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *link = json_array_get(links, i);
        assert_int_equal(json_integer_value(json_object_get(link, "from")), expected[i][0]);
        assert_int_equal(json_integer_value(json_object_get(link, "to")), expected[i][1]);
        assert_int_equal(json_integer_value(json_object_get(link, "count")), expected[i][2]);
    }
    assert_int_equal(number(&f, "lost", "node"), 0);
    end(&f);
}

static void test_one_that_does_not_answer_is_lost(void **state) {
    (void)state;
    EXPECT_MARK(crew_stalled_and_it_does_not_answer);
    struct fixture f;
    begin_watched(&f);
    uint64_t question = idle_until_asked(&f);
    answers(&f, 1, question, 0, 0, 0);
    answers(&f, 2, question, 0, 0, 0);
    for (int i = 0; i < 6; i++) {
        for (int32_t node = 0; node < 3; node++) {
            beat(&f, node, -1, 0);
        }
        later(&f, 250);
    }
    assert_int_equal(number(&f, "lost", "node"), 0);
    end(&f);
}

/* The last version is held, and the order to save it does not arrive: its writer is lost, and another is told. */
static void test_an_order_that_is_swallowed_while_held(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_save save;
    struct culm_gnn_settings settings = watched(1, 2);
    settings.pace.epochs = 1;
    begin_held_by_two(&f, &settings);
    commits(&f, 1);
    says_saved(&f, 1, CULM_ERR_IO);
    looked(&f, CULM_ROOM_NOTHING, "free 3 kB there");
    for (int i = 0; i < 10 && f.fake.io_count == 0; i++) {
        for (int32_t node = 0; node < 3; node++) {
            beat(&f, node, -1, 0);
        }
        later(&f, 250);
    }
    struct culm_gnn_task *room = task_of(&f, CULM_GNN_TASK_ROOM);
    room->room = CULM_ROOM_ALL;
    task_ends(&f, room, CULM_OK);
    assert_int_equal(order_of(&f, &save), 1);
    uint64_t question = idle_until_asked(&f);
    answers(&f, 0, question, 1, 0, 0);
    answers(&f, 2, question, 1, 0, 0);
    for (int i = 0; i < 6 && fake_world_events(&f.fake, "lost") == 0; i++) {
        for (int32_t node = 0; node < 3; node++) {
            beat(&f, node, -1, 0);
        }
        later(&f, 250);
    }
    assert_int_equal(number(&f, "lost", "node"), 1);
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    end(&f);
}

static void test_what_never_moves_ends_the_run(void **state) {
    (void)state;
    EXPECT_MARK(interval_view_is_told_again);
    EXPECT_MARK(crew_stalled_for_good);
    struct fixture f;
    begin_watched(&f);
    for (int look = 0; look < 20 && f.fake.exit_code == -1; look++) {
        uint64_t question = idle_until_asked(&f);
        for (int32_t node = 0; node < 3; node++) {
            answers(&f, node, question, (node + 1) % 3, 0, 0);
        }
        later(&f, 250);
        if (f.fake.exit_code == -1) {
            assert_int_equal(fake_world_sent(&f.fake, 0, CULM_GNN_MSG_VIEW), 1);
        }
    }
    ended_with(&f, CULM_ERR_TIMEOUT, "nothing has moved in epoch 1");
    end(&f);
}

/* It is over, and the parameter server that came in place of the lost one is never sent the state: the order
 * to do so was swallowed. */
static void test_a_run_that_is_over_is_watched_until_it_is_saved(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = watched(1, 1);
    settings.newcomers = true;
    settings.pace.epochs = 1;
    begin_elsewhere(&f, &settings);
    commits_by(&f, 1, 0, 1);
    assert_int_equal(fake_world_events(&f.fake, "epoch"), 1);
    lost(&f, 1);
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    assert_int_equal(idle_until_asked(&f), 0); /* nobody is there who could save: it waits */
    joined(&f, CULM_GNN_PARAMETER);
    assert_int_equal(idle_until_asked(&f), 1);
    end(&f);
}

/* The last checkpoint found no room, and the order to try it again was swallowed. */
static void test_what_is_held_is_watched_while_it_is_tried_again(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = watched(1, 1);
    settings.pace.epochs = 1;
    begin_so(&f, 1, 1, &settings);
    both_hold(&f, 1, 0, 0);
    commits_by(&f, 1, 0, 1);
    says_saved(&f, 1, CULM_ERR_IO);
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    did(&f, CULM_GNN_TASK_ROOM, CULM_OK); /* there is none */
    assert_int_equal(fake_world_events(&f.fake, "held"), 1);
    for (int i = 0; i < 8; i++) {
        beat(&f, 0, -1, 0);
        beat(&f, 1, -1, 0);
        later(&f, 250);
    }
    struct culm_gnn_task *room = task_of(&f, CULM_GNN_TASK_ROOM);
    room->room = CULM_ROOM_ALL;
    task_ends(&f, room, CULM_OK);
    struct culm_gnn_save save;
    assert_int_equal(order_of(&f, &save), 1);
    assert_int_equal(save.order, 2);
    assert_int_equal(idle_until_asked(&f), 1);
    end(&f);
}

static void test_a_task_that_nobody_finishes_ends_the_run(void **state) {
    (void)state;
    EXPECT_MARK(crew_stuck_is_lost);
    EXPECT_MARK(crew_nobody_finishes_a_task);
    struct fixture f;
    begin_watched(&f);
    int32_t stuck = 0, tried = 0;
    for (; tried < 50 && f.fake.exit_code == -1; tried++) {
        for (int64_t ms = 250; fake_world_events(&f.fake, "lost") == 0; ms += 250) {
            for (int32_t node = 0; node < f.next; node++) {
                beat(&f, node, node == stuck ? CULM_GNN_TASK_GATHER : -1, node == stuck ? ms : 0);
            }
            later(&f, 250);
        }
        assert_int_equal(number(&f, "lost", "node"), stuck);
        joined(&f, CULM_GNN_SERVER);
        stuck = f.next - 1;
        fake_world_forget(&f.fake);
    }
    assert_true(tried < 50);
    ended_with(&f, CULM_ERR_TIMEOUT, "no node finishes gather 0");
    end(&f);
}

/* One that is silent is put out, and killed after a while; if it wakes up before, it is told to end. */
static void test_a_suspect_is_given_time(void **state) {
    (void)state;
    EXPECT_MARK(crew_suspect_may_wake);
    EXPECT_MARK(crew_fenced);
    EXPECT_MARK(crew_suspect_is_ended);
    EXPECT_MARK(crew_silent_is_lost);
    for (int wakes = 0; wakes < 3; wakes++) {
        struct fixture f;
        struct culm_gnn_settings settings = watched(2, 1);
        settings.crew.kill_suspect_ms = 2000;
        begin_so(&f, 2, 1, &settings);
        holds(&f, 2, 0);
        for (int i = 0; i < 6; i++) {
            beat(&f, 0, -1, 0);
            beat(&f, 2, -1, 0);
            later(&f, 250);
        }
        assert_int_equal(number(&f, "lost", "node"), 1);
        assert_int_equal(f.fake.ended, 0);
        if (wakes > 0) {
            beat(&f, 1, -1, 0);
            beat(&f, 1, -1, 0);
            assert_int_equal(fake_world_events(&f.fake, "fenced"), 1);
            assert_int_equal(fake_world_sent(&f.fake, 1, CULM_WORD_FENCED), 2);
        }
        if (wakes > 1) {
            lost(&f, 1); /* it has ended */
        }
        for (int i = 0; i < 10; i++) {
            beat(&f, 0, -1, 0);
            beat(&f, 2, -1, 0);
            later(&f, 250);
        }
        assert_int_equal(f.fake.ended, wakes < 2);
        assert_int_equal(fake_world_events(&f.fake, "lost"), 1);
        end(&f);
    }
}

/* --- broken links --- */

static void cannot_reach(struct fixture *f, int32_t by, int32_t peer) {
    culm_peer_lost_encode(&(struct culm_peer_lost){peer}, &f->buf);
    deliver(f, by, CULM_WORD_PEER_LOST);
}

/* All are heard of, for longer than suspect_ms; `at_once`: the leader is not, meanwhile. */
static void wait_for_links(struct fixture *f, bool at_once) {
    for (int i = 0; i < 5; i++) {
        for (int32_t node = 0; node < f->next; node++) {
            beat(f, node, -1, 0);
        }
        f->fake.now_ns += 250 * MS;
        if (!at_once || i == 4) {
            tick(f);
        }
    }
}

static void test_the_one_that_reaches_nobody_goes(void **state) {
    (void)state;
    EXPECT_MARK(crew_more_links_are_broken);
    EXPECT_MARK(crew_broken_link_is_known);
    EXPECT_MARK(crew_broken_link_costs_one);
    struct fixture f;
    begin_watched(&f);
    cannot_reach(&f, 1, 0);
    cannot_reach(&f, 0, 1); /* the same link */
    cannot_reach(&f, 2, 0);
    wait_for_links(&f, false);
    assert_int_equal(number(&f, "lost", "node"), 0); /* though it is the oldest */
    assert_int_equal(fake_world_events(&f.fake, "lost"), 1);
    end(&f);
}

static void test_a_leader_that_slept_gives_links_their_time(void **state) {
    (void)state;
    EXPECT_MARK(crew_broken_link_while_it_slept);
    EXPECT_MARK(crew_leader_slept);
    struct fixture f;
    begin_watched(&f);
    cannot_reach(&f, 1, 0);
    wait_for_links(&f, true);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 0);
    wait_for_links(&f, false);
    assert_int_equal(fake_world_events(&f.fake, "lost"), 1);
    end(&f);
}

/* --- the end --- */

/* Its intervals had been committed: nothing was left to be done again. */
static void test_one_lost_after_the_last_epoch_is_recovered(void **state) {
    (void)state;
    EXPECT_MARK(interval_recovered_at_the_end);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 2, 0);
    settings.pace.epochs = 1;
    begin_held_by_two(&f, &settings);
    commits(&f, 1);
    lost(&f, 0);
    saves(&f, 1);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 0);
    did(&f, CULM_GNN_TASK_FINISH, CULM_OK);
    assert_int_equal(fake_world_events(&f.fake, "recovered"), 1);
    assert_int_equal(f.fake.exit_code, 0);
    f.fake.exit_code = -1;
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_at_the_same_moment_cost_one_view),
        cmocka_unit_test(test_a_view_is_told_by_its_changes),
        cmocka_unit_test(test_servers_that_cannot_start_end_the_run),
        cmocka_unit_test(test_a_stop_before_the_first_view),
        cmocka_unit_test(test_a_process_that_ends_before_its_link),
        cmocka_unit_test(test_there_is_room_for_so_many_nodes),
        cmocka_unit_test(test_holders_that_differ),
        cmocka_unit_test(test_the_first_holder_is_lost),
        cmocka_unit_test(test_the_first_holder_is_lost_before_any_has_loaded),
        cmocka_unit_test(test_a_run_is_resumed_with_a_server_from_elsewhere),
        cmocka_unit_test(test_a_roll_back_with_servers_from_elsewhere),
        cmocka_unit_test(test_a_roll_back_with_a_depot),
        cmocka_unit_test(test_done_with_what_was_no_epoch),
        cmocka_unit_test(test_a_link_that_swallows_costs_one_of_its_ends),
        cmocka_unit_test(test_links_are_found_in_answers_of_any_order),
        cmocka_unit_test(test_one_that_does_not_answer_is_lost),
        cmocka_unit_test(test_an_order_that_is_swallowed_while_held),
        cmocka_unit_test(test_what_never_moves_ends_the_run),
        cmocka_unit_test(test_a_run_that_is_over_is_watched_until_it_is_saved),
        cmocka_unit_test(test_what_is_held_is_watched_while_it_is_tried_again),
        cmocka_unit_test(test_a_task_that_nobody_finishes_ends_the_run),
        cmocka_unit_test(test_a_suspect_is_given_time),
        cmocka_unit_test(test_the_one_that_reaches_nobody_goes),
        cmocka_unit_test(test_a_leader_that_slept_gives_links_their_time),
        cmocka_unit_test(test_one_lost_after_the_last_epoch_is_recovered),
    };
    return cmocka_run_group_tests_name("interval/leader_recovery", tests, NULL, NULL);
}
