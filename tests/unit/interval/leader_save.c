/*
 * A leader alone, and its checkpoints: who is told to write them, that it alone publishes them, and
 * what becomes of those that are not written. What is held at the end is in leader_hold.c, and stops are
 * in leader_stop.c.
 */
#include "expect_mark.h"
#include "leader_played.h"

/* --- in mid-run --- */

/* The holder writes, and the leader publishes, with what it knows itself. */
static void test_the_leader_publishes(void **state) {
    (void)state;
    struct fixture f;
    begin_saving(&f, 1, 9);
    commits(&f, 1);
    assert_int_equal(saver_of(&f, 1), 1);
    assert_int_equal(f.fake.io_count, 0);
    says_saved(&f, 1, CULM_OK);
    struct culm_gnn_task *publish = task_of(&f, CULM_GNN_TASK_PUBLISH);
    assert_int_equal(publish->version, 1);
    assert_string_equal(publish->piece, "piece");
    assert_false(publish->weights_only);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 0);
    task_ends(&f, publish, CULM_OK);
    assert_int_equal(number(&f, "checkpoint", "epoch"), 1);
    assert_true(json_is_true(json_object_get(fake_world_told(&f.fake, "checkpoint"), "ok")));
    end(&f);
}

/* The order stands before the commit on its way, with which the holder may leave that version. */
static void test_the_order_is_ahead_of_the_commit(void **state) {
    (void)state;
    struct fixture f;
    begin_saving(&f, 1, 9);
    commits(&f, 1);
    int32_t order = -1, commit = -1;
    for (int32_t s = 0; s < f.fake.sent_count; s++) {
        const struct fake_sent *sent = &f.fake.sent[s];
        order = sent->to == 1 && sent->type == CULM_GNN_MSG_SAVE ? s : order;
        commit = sent->to == 1 && sent->type == CULM_GNN_MSG_COMMIT ? s : commit;
    }
    assert_true(order >= 0 && order < commit);
    end(&f);
}

/* One is under way at a time: the commit with which the next one is due waits for it, and no other. */
static void test_a_commit_waits_for_the_one_before(void **state) {
    (void)state;
    EXPECT_MARK(interval_commit_waits_for_a_checkpoint);
    struct fixture f;
    begin_saving(&f, 2, 9);
    commits(&f, 1);
    commits(&f, 2);
    assert_int_equal(saver_of(&f, 2), 1);
    commits(&f, 3);
    committed(&f, 3);
    commits(&f, 4);
    committed(&f, 3);
    says_saved(&f, 1, CULM_OK);
    committed(&f, 3); /* it is not published */
    did(&f, CULM_GNN_TASK_PUBLISH, CULM_OK);
    assert_int_equal(saver_of(&f, 4), 1);
    end(&f);
}

/* It is said, and the next commit is saved in its place, whoever is there by then. */
static void test_a_writer_is_lost(void **state) {
    (void)state;
    EXPECT_MARK(interval_writer_lost_gives_up_a_checkpoint);
    EXPECT_MARK(interval_node_joins_a_run);
    EXPECT_MARK(interval_holder_is_recovered);
    struct fixture f;
    begin_saving(&f, 4, 9);
    for (int64_t epoch = 1; epoch <= 4; epoch++) {
        commits(&f, epoch);
    }
    assert_int_equal(saver_of(&f, 4), 1);
    lost(&f, 1);
    not_written(&f, 4, "node 1 was lost while it wrote it");
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    holds(&f, 0, 4);
    joined(&f, CULM_GNN_PARAMETER);
    holds(&f, 3, 4);
    done(&f, 5);
    holds(&f, 0, 5);
    holds(&f, 2, 5);
    holds(&f, 3, 5);
    assert_int_equal(saver_of(&f, 5), 3);
    saves(&f, 3);
    assert_int_equal(number(&f, "checkpoint", "epoch"), 5);
    end(&f);
}

/* Nobody who is there has the run directory when it is due: it is ordered from the first who has, with the commit
 * that follows, and nothing is given up. */
static void test_what_is_due_stays_due(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.newcomers = true;
    settings.checkpoint_every = 2;
    begin_elsewhere(&f, &settings);
    commits_by(&f, 1, 0, 1);
    lost(&f, 1);
    done(&f, 2);
    holds(&f, 0, 2);
    assert_int_equal(saver_of(&f, 2), -1);
    joined(&f, CULM_GNN_PARAMETER);
    holds(&f, 2, 2);
    assert_int_equal(saver_of(&f, 2), -1); /* it may be about to leave that version */
    commits_by(&f, 3, 0, 2);
    assert_int_equal(saver_of(&f, 3), 2);
    saves(&f, 2);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 1);
    commits_by(&f, 4, 0, 2);
    assert_int_equal(saver_of(&f, 4), 2);
    end(&f);
}

/* A server that has the weights and the run directory saves what is due, if no parameter server has them. */
static void test_a_server_saves(void **state) {
    (void)state;
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.checkpoint_every = 1;
    begin_so(&f, 1, 1, &settings);
    both_hold(&f, 0, 1, 0);
    lost(&f, 1);
    done(&f, 1);
    holds(&f, 0, 1);
    assert_int_equal(saver_of(&f, 1), 0);
    end(&f);
}

/* Pieces of orders that are over, of versions and of nodes that nobody asked. */
static void test_pieces_that_do_not_count(void **state) {
    (void)state;
    EXPECT_MARK(interval_piece_counts_not);
    struct fixture f;
    begin_saving(&f, 1, 9);
    commits(&f, 1);
    const struct culm_gnn_saved wrong[] = {{.version = 1, .order = 2, .piece = "a"},
                                           {.version = 0, .order = 1, .piece = "b"},
                                           {.version = 1, .order = 1, .piece = "c"}};
    for (int i = 0; i < 3; i++) {
        culm_gnn_saved_encode(&wrong[i], &f.buf);
        deliver(&f, i < 2 ? 1 : 2, CULM_GNN_MSG_SAVED);
        assert_int_equal(f.fake.io_count, 0);
    }
    says_saved(&f, 1, CULM_OK);
    culm_gnn_saved_encode(&wrong[2], &f.buf);
    deliver(&f, 1, CULM_GNN_MSG_SAVED); /* once more */
    assert_string_equal(task_of(&f, CULM_GNN_TASK_PUBLISH)->piece, "piece");
    end(&f);
}

/* The disk has no room, which is said with what to do, or older ones give way: then it is tried once more. */
static void test_a_full_disk(void **state) {
    (void)state;
    EXPECT_MARK(interval_piece_not_written);
    EXPECT_MARK(interval_checkpoint_not_written);
    EXPECT_MARK(interval_checkpoint_not_published);
    EXPECT_MARK(interval_older_checkpoints_give_way);
    struct fixture f;
    begin_saving(&f, 3, 9);
    for (int64_t epoch = 1; epoch <= 3; epoch++) {
        commits(&f, epoch);
    }
    says_saved(&f, 1, CULM_ERR_IO);
    looked(&f, CULM_ROOM_ALL, "some have given way");
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 0);
    commits(&f, 4);
    assert_int_equal(saver_of(&f, 4), 1);
    says_saved(&f, 1, CULM_OK);
    did(&f, CULM_GNN_TASK_PUBLISH, CULM_ERR_IO);
    looked(&f, CULM_ROOM_ALL, "free 3 kB there");
    not_written(&f, 4, "free 3 kB there");
    commits(&f, 5);
    assert_int_equal(saver_of(&f, 5), -1); /* it was given up */
    commits(&f, 6);
    says_saved(&f, 1, CULM_ERR_IO);
    looked(&f, CULM_ROOM_NOTHING, "");
    not_written(&f, 6, "the disk is full");
    assert_int_equal(fake_world_events(&f.fake, "lost"), 0);
    end(&f);
}

/* What room does not help is said at once. */
static void test_what_no_room_helps(void **state) {
    (void)state;
    struct fixture f;
    begin_saving(&f, 1, 9);
    commits(&f, 1);
    says_saved(&f, 1, CULM_ERR_INTERNAL);
    not_written(&f, 1, "the disk is full");
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    assert_int_equal(f.fake.io_count, 0);
    end(&f);
}

/* Two from elsewhere have the weights, or are to get them, and neither could save them. */
static void test_somebody_who_could_save_is_a_holder(void **state) {
    (void)state;
    EXPECT_MARK(interval_server_becomes_a_holder_to_save);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(3, 1, 0);
    settings.crew.replace_ms = 3600000;
    settings.newcomers = true;
    make(&f, 3, 1, &settings);
    joined_from_elsewhere(&f, CULM_GNN_SERVER);
    joined_from_elsewhere(&f, CULM_GNN_SERVER);
    joined(&f, CULM_GNN_SERVER);
    joined(&f, CULM_GNN_PARAMETER);
    both_hold(&f, 3, 0, 0);
    lost(&f, 3);
    const struct culm_gnn_view *view = view_of(&f, 0);
    assert_int_equal(view->holder_count, 3);
    assert_true(culm_gnn_view_holds(view, 2));
    end(&f);
}

/* One from elsewhere has the only place of a server, and the run's own came later. */
static void test_one_that_stands_by_could_save(void **state) {
    (void)state;
    EXPECT_MARK(interval_standby_becomes_a_holder_to_save);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.crew.replace_ms = -1;
    settings.newcomers = true;
    begin_elsewhere(&f, &settings);
    joined(&f, CULM_GNN_SERVER);
    assert_false(culm_gnn_view_holds(view_of(&f, 0), 2));
    lost(&f, 1);
    assert_int_equal(f.fake.exit_code, -1);
    assert_true(culm_gnn_view_holds(view_of(&f, 0), 2));
    end(&f);
}

/* --- the run goes back --- */

/* All holders are lost while one writes: it is given up, and what there is of it goes before the run goes back. */
static void test_all_are_lost_while_one_writes(void **state) {
    (void)state;
    EXPECT_MARK(interval_checkpoint_is_of_what_is_undone);
    struct fixture f;
    begin_saving(&f, 1, 9);
    commits(&f, 1);
    lost(&f, 2);
    lost(&f, 1);
    not_written(&f, 1, "the run goes back to before it");
    assert_int_equal(fake_world_events(&f.fake, "rollback"), 0);
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    assert_int_equal(fake_world_events(&f.fake, "rollback"), 1);
    assert_int_equal(number(&f, "rollback", "to_epoch"), 0);
    end(&f);
}

/* All holders are lost while the leader publishes: the run goes back to that, unless it could not be. */
static void test_all_are_lost_while_it_is_published(void **state) {
    (void)state;
    EXPECT_MARK(interval_not_published_before_it_goes_back);
    for (int fails = 0; fails < 2; fails++) {
        struct fixture f;
        begin_saving(&f, 1, 9);
        commits(&f, 1);
        says_saved(&f, 1, CULM_OK);
        struct culm_gnn_task *publish = task_of(&f, CULM_GNN_TASK_PUBLISH);
        lost(&f, 2);
        lost(&f, 1);
        assert_int_equal(fake_world_events(&f.fake, "rollback"), 0);
        task_ends(&f, publish, fails ? CULM_ERR_IO : CULM_OK);
        assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 1);
        did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
        if (!fails) {
            did(&f, CULM_GNN_TASK_FIND, CULM_OK);
        }
        assert_int_equal(number(&f, "rollback", "to_epoch"), !fails);
        end(&f);
    }
}

/* What is found is that version. */
static void finds(struct fixture *f, int64_t version, const char *path) {
    struct culm_gnn_task *find = task_of(f, CULM_GNN_TASK_FIND);
    find->version = version;
    snprintf(find->text, sizeof find->text, "%s", path);
    task_ends(f, find, CULM_OK);
}

/* Four epochs, of which the second and the fourth are saved, and all who hold the weights are lost. */
static void lose_all(struct fixture *f) {
    begin_saving(f, 2, 9);
    for (int64_t epoch = 1; epoch <= 4; epoch++) {
        commits(f, epoch);
        if (epoch % 2 == 0) {
            saves(f, 1);
        }
    }
    lost(f, 2);
    lost(f, 1);
    assert_int_equal(fake_world_events(&f->fake, "rollback"), 0); /* it is looked for first */
}

/* The newest is damaged, and the one behind it is whole; or none is. Nobody is lost for it. */
static void test_the_newest_is_damaged(void **state) {
    (void)state;
    EXPECT_MARK(interval_checkpoint_is_damaged);
    for (int64_t version = 0; version <= 4; version += 2) {
        struct fixture f;
        lose_all(&f);
        fake_world_forget(&f.fake);
        finds(&f, version, version == 4 ? "file" : version ? "older" : "");
        assert_int_equal(number(&f, "rollback", "from_epoch"), 4);
        assert_int_equal(number(&f, "rollback", "to_epoch"), version);
        assert_int_equal(fake_world_events(&f.fake, "checkpoint"), version < 4);
        if (version < 4) {
            not_written(&f, 4, "the checkpoint of epoch 4 is damaged");
        }
        assert_int_equal(view_of(&f, 0)->load_version, version);
        assert_string_equal(view_of(&f, 0)->load, version == 4 ? "file" : version ? "older" : "");
        end(&f);
    }
}

/* It was whole when it was looked at, and cannot be loaded: it is looked at again. */
static void test_what_cannot_be_loaded_is_looked_for_again(void **state) {
    (void)state;
    EXPECT_MARK(interval_checkpoint_is_not_loaded);
    struct fixture f;
    lose_all(&f);
    finds(&f, 4, "file");
    f.attempt++;
    failed(&f, 0, CULM_ERR_FORMAT);
    joined(&f, CULM_GNN_PARAMETER);
    finds(&f, 2, "older");
    assert_int_equal(view_of(&f, 3)->load_version, 2);
    assert_string_equal(view_of(&f, 3)->load, "older");
    end(&f);
}

/* --- at the end --- */

/* Another one writes the last checkpoint when its writer is lost, and nothing is given up. */
static void test_the_last_writer_is_lost(void **state) {
    (void)state;
    EXPECT_MARK(interval_writer_lost_another_writes);
    struct fixture f;
    begin_saving(&f, 0, 1);
    commits(&f, 1);
    assert_int_equal(saver_of(&f, 1), 1);
    lost(&f, 1);
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    assert_int_equal(saver_of(&f, 1), 2);
    saves(&f, 2);
    assert_int_equal(fake_world_events(&f.fake, "checkpoint"), 1);
    assert_int_equal(f.fake.io_count, 1); /* FINISH */
    end(&f);
}

/* A server that came from elsewhere has the last version, but not the run directory. */
static void test_nobody_is_left_to_save(void **state) {
    (void)state;
    EXPECT_MARK(interval_nobody_can_save);
    struct fixture f;
    struct culm_gnn_settings settings = settings_of(1, 1, 0);
    settings.newcomers = true;
    settings.crew.replace_ms = 500;
    settings.pace.epochs = 1;
    begin_elsewhere(&f, &settings);
    commits_by(&f, 1, 1, 0);
    assert_int_equal(saver_of(&f, 1), 1);
    lost(&f, 1);
    did(&f, CULM_GNN_TASK_DISCARD, CULM_OK);
    assert_int_equal(saver_of(&f, 1), 1); /* it has got no other order */
    assert_int_equal(f.fake.io_count, 0);
    joined(&f, CULM_GNN_PARAMETER);
    holds(&f, 2, 1);
    assert_int_equal(saver_of(&f, 1), 2);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_leader_publishes),
        cmocka_unit_test(test_the_order_is_ahead_of_the_commit),
        cmocka_unit_test(test_a_commit_waits_for_the_one_before),
        cmocka_unit_test(test_a_writer_is_lost),
        cmocka_unit_test(test_what_is_due_stays_due),
        cmocka_unit_test(test_a_server_saves),
        cmocka_unit_test(test_pieces_that_do_not_count),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_what_no_room_helps),
        cmocka_unit_test(test_somebody_who_could_save_is_a_holder),
        cmocka_unit_test(test_one_that_stands_by_could_save),
        cmocka_unit_test(test_all_are_lost_while_one_writes),
        cmocka_unit_test(test_all_are_lost_while_it_is_published),
        cmocka_unit_test(test_the_newest_is_damaged),
        cmocka_unit_test(test_what_cannot_be_loaded_is_looked_for_again),
        cmocka_unit_test(test_the_last_writer_is_lost),
        cmocka_unit_test(test_nobody_is_left_to_save),
    };
    return cmocka_run_group_tests_name("interval/leader_save", tests, NULL, NULL);
}
