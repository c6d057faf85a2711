/* `culm ckpt`: what it prints and its exit codes, on checkpoints, runs and files. */
#include "cli/ckpt.h"

#include "sample.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct sample sample; /* set anew where used */
static char out[1 << 16], err[1 << 16];

static void slurp(FILE *file, char *ret_text) {
    rewind(file);
    size_t len = fread(ret_text, 1, (1 << 16) - 1, file);
    ret_text[len] = '\0';
    fclose(file);
}

/* Runs the command with both outputs caught in `out` and `err`. */
static int run(const char *a, const char *b, const char *c, const char *d) {
    char *argv[] = {"ckpt",
                    (char *)(uintptr_t)a,
                    (char *)(uintptr_t)b,
                    (char *)(uintptr_t)c,
                    (char *)(uintptr_t)d,
                    NULL};
    int argc = 1 + !!a + !!b + !!c + !!d;
    FILE *caught_out = tmpfile(), *caught_err = tmpfile();
    fflush(stdout);
    fflush(stderr);
    int saved_out = dup(1), saved_err = dup(2);
    dup2(fileno(caught_out), 1);
    dup2(fileno(caught_err), 2);
    int code = culm_cli_ckpt(argc, argv);
    fflush(stdout);
    fflush(stderr);
    dup2(saved_out, 1);
    dup2(saved_err, 2);
    close(saved_out);
    close(saved_err);
    slurp(caught_out, out);
    slurp(caught_err, err);
    return code;
}

static void publish(const char *dir, int64_t step) {
    sample.info.step = step;
    assert_int_equal(sample_publish(NULL, dir, &sample, NULL), CULM_OK);
}

static void expect(const char *text, const char *part) {
    if (!strstr(text, part)) {
        fail_msg("'%s' lacks '%s'", text, part);
    }
}

static void test_usage(void **state) {
    (void)state;
    assert_int_equal(run(NULL, NULL, NULL, NULL), 2);
    assert_int_equal(run("look", NULL, NULL, NULL), 2);
    expect(err, "no such command: 'look'");
    assert_int_equal(run("show", NULL, NULL, NULL), 2);
    assert_int_equal(run("show", "a", "b", NULL), 2);
    assert_int_equal(run("show", "--frob", "b", NULL), 2);
    expect(err, "unknown option '--frob'");
    assert_int_equal(run("diff", "a", NULL, NULL), 2);
    assert_int_equal(run("diff", "a", "b", "c"), 2);
    assert_int_equal(run("--help", NULL, NULL, NULL), 0);
    expect(out, "usage: culm ckpt list");
    assert_string_equal(err, "");
}

static void test_show(void **state) {
    (void)state;
    char dir[64], path[128];
    temp_dir_make(dir);
    sample_init(&sample, 20);
    publish(dir, 20);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020", dir);
    assert_int_equal(run("show", path, NULL, NULL), 0);
    expect(out, "step           20\n");
    expect(out, "transformer.h.1.attn.weight.exp_avg_sq");
    expect(out, "F32 [4, 6]");
    assert_int_equal(run("show", dir, "--json", NULL), 0); /* the run's newest */
    assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
    json_t *root = json_loads(out, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "step")), 20);
    assert_int_equal(json_integer_value(json_object_get(root, "parameters")), 3 * 48);
    assert_int_equal(json_array_size(json_object_get(root, "tensors")), 18);
    assert_string_equal(json_string_value(json_object_get(root, "seed")), "18446744073709551614");
    assert_string_equal(json_string_value(json_object_get(root, "signature")),
                        sample.info.signature);
    struct culm_checkpoint *checkpoint = NULL;
    char weights[CULM_SHA256_HEX], states[CULM_SHA256_HEX], model[128];
    assert_int_equal(culm_checkpoint_open(path, true, &checkpoint, NULL), CULM_OK);
    assert_int_equal(culm_checkpoint_hashes(checkpoint, weights, states, NULL), CULM_OK);
    assert_string_equal(json_string_value(json_object_get(root, "weights_sha256")), weights);
    assert_string_equal(json_string_value(json_object_get(root, "state_sha256")), states);
    json_decref(root);
    snprintf(model, sizeof model, "%s/model.safetensors", dir);
    assert_int_equal(culm_checkpoint_export_model(NULL, checkpoint, model, NULL), CULM_OK);
    culm_checkpoint_close(checkpoint);
    assert_int_equal(run("show", "--json", model, NULL), 0);
    root = json_loads(out, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(root, "weights_sha256")), weights);
    assert_true(json_is_null(json_object_get(root, "state_sha256")));
    assert_null(json_object_get(root, "step"));
    json_decref(root);
    /* a checkpoint and the model exported from it have the same weights */
    assert_int_equal(run("diff", path, model, NULL), 0);
    expect(out, "bit-equal: 6 weight tensors; optimizer state is not in both");
    temp_dir_drop(dir);
}

static void test_diff(void **state) {
    (void)state;
    char a[64], b[64];
    temp_dir_make(a);
    temp_dir_make(b);
    sample_init(&sample, 20);
    publish(a, 20);
    publish(b, 20);
    assert_int_equal(run("diff", a, b, NULL), 0);
    expect(out, "bit-equal: 6 weight tensors, 12 tensors of optimizer state");
    sample.data[1][2][7] = 5.0f; /* exp_avg_sq */
    publish(b, 20);
    assert_int_equal(run("diff", a, b, NULL), 1);
    expect(out, "tensor 'transformer.h.1.attn.weight.exp_avg_sq' differs at [1, 1] (element 7)");
    expect(out, "and 5 (0x40a00000); 1 of 24 elements differ");
    sample.data[0][3][0] = -0.0f; /* a weight, reported first */
    publish(b, 20);
    sample.data[0][3][0] = 0.0f;
    publish(a, 20);
    assert_int_equal(run("diff", a, b, NULL), 1);
    expect(out, "'transformer.h.0.attn.bias' differs at [0] (element 0): 0 (0x00000000) and -0 "
                "(0x80000000)");
    publish(b, 40);
    assert_int_equal(run("diff", a, b, NULL), 1);
    expect(out, "step is 20 and 40");
    strcpy(sample.names[2][0], "transformer.h.2.extra");
    publish(b, 40);
    assert_int_equal(run("diff", b, a, NULL), 1);
    expect(out, "tensor 'transformer.h.2.attn.weight' is only in");
    sample_init(&sample, 40);
    sample.tensors[2][0].shape[0] = 2;
    sample.tensors[2][0].shape[1] = 12;
    publish(a, 40);
    sample_init(&sample, 40);
    publish(b, 40);
    assert_int_equal(run("diff", a, b, NULL), 1);
    expect(out, "is F32 [2, 12] and F32 [4, 6]");
    temp_dir_drop(a);
    temp_dir_drop(b);
}

static void expect_input_error(const char *path, const char *part) {
    assert_int_equal(run("show", path, NULL, NULL), 3);
    expect(err, part);
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
    assert_string_equal(out, "");
    assert_int_equal(run("diff", path, path, NULL), 3);
}

static void test_wrong_input(void **state) {
    (void)state;
    char dir[64], path[256];
    temp_dir_make(dir);
    expect_input_error("/nonexistent", "No such file");
    expect_input_error(dir, "is neither a checkpoint (it has no manifest.json) nor a run");
    sample_init(&sample, 20);
    publish(dir, 20);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020/stage-0.safetensors", dir);
    assert_int_equal(truncate(path, 300), 0);
    expect_input_error(path, "byte 300: truncated");
    expect_input_error(dir, "no whole checkpoint");
    snprintf(path, sizeof path, "%s/checkpoints/step-00000020", dir);
    expect_input_error(path, "has 300 bytes");
    /* an older one that is whole is shown, with a warning */
    publish(dir, 10);
    assert_int_equal(run("show", dir, NULL, NULL), 0);
    expect(out, "step           10\n");
    expect(err, "warning: ");
    temp_dir_drop(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_wrong_input),
    };
    return cmocka_run_group_tests_name("cli/ckpt", tests, NULL, NULL);
}
