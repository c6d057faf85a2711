/*
 * A program that uses every structure with a size. tests/embed/versions compiles it against one
 * version of the header and runs it with the library of another; with -DNEXT, against a header in
 * which each structure has one more member, `later`, at its end.
 *
 *     versions CONFIG.yaml DIR PROGRAM older|same|newer     (the library, seen from this program)
 */
#include <culm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct culm_error error;
static const char *library;

static void fail(int line, const char *what) {
    fprintf(stderr, "versions.c:%d: %s: %s\n", line, what, error.text);
    exit(1);
}

#define MUST(condition_)                                                                           \
    do {                                                                                           \
        if (!(condition_)) {                                                                       \
            fail(__LINE__, #condition_);                                                           \
        }                                                                                          \
    } while (0)

/* A structure that the library fills, with bytes behind it that nobody may touch. */
#define GUARDED(type_, name_)                                                                      \
    struct {                                                                                       \
        struct type_ it;                                                                           \
        unsigned char guard[64];                                                                   \
    } name_;                                                                                       \
    memset(&name_, 0xa5, sizeof name_);                                                            \
    name_.it.size = sizeof name_.it

static int whole(const unsigned char *guard) {
    for (int i = 0; i < 64; i++) {
        if (guard[i] != 0xa5) {
            return 0;
        }
    }
    return 1;
}

#ifdef NEXT
/* Only a library that knows the member writes it; only that takes it. */
#define LATER(structure_)                                                                          \
    MUST((structure_).it.later == (strcmp(library, "older") ? 0 : (int64_t)0xa5a5a5a5a5a5a5a5))

/* What an older library answers to a member that it does not know. */
static void refused(enum culm_status status, const char *name) {
    MUST(status == CULM_ERR_UNSUPPORTED);
    MUST(strstr(error.text, name) && strstr(error.text, "this version of the library"));
    printf("%s\n", error.text);
}
#else
#define LATER(structure_) (void)0
#endif

static struct culm_config *config_of(const char *path) {
    struct culm_config *config = NULL;
    MUST(culm_config_open(path, &config, &error) == CULM_OK);
    return config;
}

static void train(const char *path, const char *dir, const char *program) {
    struct culm_training_options options = {.size = sizeof options, .dir = dir, .program = program};
    struct culm_config *config = config_of(path);
    struct culm_training *training = NULL;
    GUARDED(culm_summary_info, summary);
#ifdef NEXT
    if (strcmp(library, "older") == 0) {
        options.later = 1;
        refused(culm_training_new(config, &options, &training, &error), "culm_training_options");
        options.later = 0;
    }
#endif
    MUST(culm_training_new(config, &options, &training, &error) == CULM_OK);
    MUST(culm_training_run(training, &error) == CULM_OK);
    MUST(culm_run_summary(dir, &summary.it, &error) == CULM_OK);
    MUST(summary.it.done && summary.it.steps == 2 && strlen(summary.it.weights_sha256) == 64);
    MUST(strlen(summary.it.state_sha256) == 64 && whole(summary.guard));
    LATER(summary);
    culm_training_free(training);
    culm_config_free(config);
}

static void evaluate(const char *path, const char *dir) {
    char weights[1024];
    struct culm_config *config = config_of(path);
    struct culm_evaluate_arguments arguments = {
        .size = sizeof arguments, .weights = weights, .samples = 4, .threads = 1};
    GUARDED(culm_evaluate_result, result);
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
#ifdef NEXT
    if (strcmp(library, "older") == 0) {
        arguments.later = 1;
        refused(culm_evaluate_model(config, &arguments, &result.it, &error),
                "culm_evaluate_arguments");
        arguments.later = 0;
    }
#endif
    MUST(culm_evaluate_model(config, &arguments, &result.it, &error) == CULM_OK);
    MUST(result.it.samples == 4 && result.it.loss > 0 && result.it.perplexity > 1);
    MUST(whole(result.guard));
    LATER(result);
    culm_config_free(config);
}

static void look(const char *dir) {
    struct culm_model_open_options options = {.size = sizeof options, .batch = 2, .threads = 1};
    struct culm_model *model = NULL;
    struct culm_tensors *tensors = NULL;
    GUARDED(culm_array_info, input);
    GUARDED(culm_array_info, tensor);
#ifdef NEXT
    if (strcmp(library, "older") == 0) {
        options.later = 1;
        refused(culm_model_open(dir, &options, &model, &error), "culm_model_open_options");
        options.later = 0;
    }
#endif
    MUST(culm_model_open(dir, &options, &model, &error) == CULM_OK);
    MUST(culm_model_input(model, 0, &input.it, &error) == CULM_OK);
    MUST(input.it.rank == 2 && input.it.shape[0] == 2 && input.it.bytes > 0 && whole(input.guard));
    LATER(input);
    MUST(culm_tensors_open(dir, true, &tensors, &error) == CULM_OK);
    MUST(culm_tensors_info(tensors, 0, &tensor.it, &error) == CULM_OK);
    MUST(tensor.it.name && tensor.it.bytes > 0 && whole(tensor.guard));
    LATER(tensor);
    culm_tensors_free(tensors);
    culm_model_free(model);
}

int main(int argc, char **argv) {
    MUST(argc == 5);
    library = argv[4];
    train(argv[1], argv[2], argv[3]);
    evaluate(argv[1], argv[2]);
    look(argv[2]);
    return 0;
}
