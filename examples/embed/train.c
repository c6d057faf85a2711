/*
 * Trains the model of a configuration and says what came of it.
 *
 *     cc train.c -o train $(pkg-config --cflags --libs culm)
 *     ./train CONFIG.yaml DIR [STEPS]
 */
#include <culm.h>

#include <signal.h>
#include <stdio.h>

static struct culm_training *training; /* of the handler */

static void on_interrupt(int number) {
    static volatile sig_atomic_t again;
    (void)number;
    if (again) {
        culm_training_abort(training); /* the end */
    } else {
        culm_training_stop(training); /* a checkpoint, then the end */
    }
    again = 1;
}

static void on_event(void *context, const char *json) {
    ++*(long *)context;
    (void)json; /* {"event":"step","step":1,"loss":5.54,...} */
}

int main(int argc, char **argv) {
    struct culm_error error = {CULM_OK, ""};
    struct culm_config *config = NULL;
    struct culm_summary_info summary = {.size = sizeof summary};
    long events = 0;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: %s CONFIG.yaml DIR [STEPS]\n", argv[0]);
        return 2;
    }
    const struct culm_training_options options = {
        .size = sizeof options, .dir = argv[2], .event = on_event, .context = &events};
    enum culm_status status = culm_config_open(argv[1], &config, &error);
    if (status == CULM_OK && argc > 3) {
        status = culm_config_set(config, "steps", argv[3], &error);
    }
    if (status == CULM_OK) {
        status = culm_training_new(config, &options, &training, &error);
    }
    if (status == CULM_OK) {
        signal(SIGINT, on_interrupt);
        status = culm_training_run(training, &error);
        signal(SIGINT, SIG_DFL);
    }
    if (status == CULM_OK) {
        status = culm_run_summary(argv[2], &summary, &error);
    }
    if (status == CULM_OK) {
        printf("%lld steps, loss %.4f, %ld events, weights %.12s\n", (long long)summary.steps,
               summary.loss, events, summary.weights_sha256);
    } else {
        fprintf(stderr, "%s: %s\n", culm_status_name(status), error.text);
    }
    culm_training_free(training);
    culm_config_free(config);
    return culm_status_exit_code(status);
}
