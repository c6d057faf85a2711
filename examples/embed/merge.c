/*
 * Merges the models of a workload into a package, says on the way what is shared, and prints at the end
 * what the package is.
 *
 *     cc merge.c -o merge $(pkg-config --cflags --libs culm)
 *     ./merge WORKLOAD.yaml DIR
 */
#include <culm/merge.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct culm_merging *merging; /* of the handler */

static void on_interrupt(int number) {
    (void)number;
    culm_merging_stop(merging); /* the package has what was shared so far */
}

static void on_event(void *context, const char *json) {
    (void)context;
    if (strstr(json, "\"event\":\"merged\"")) {
        printf("%s\n", json);
    }
}

static void on_warning(void *context, const char *text) {
    (void)context;
    fprintf(stderr, "warning: %s\n", text);
}

int main(int argc, char **argv) {
    struct culm_error error = {CULM_OK, ""};
    struct culm_config *workload = NULL;
    char *shown = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: %s WORKLOAD.yaml DIR\n", argv[0]);
        return 2;
    }
    const struct culm_merging_options options = {
        .size = sizeof options, .dir = argv[2], .event = on_event, .warning = on_warning};
    enum culm_status status = culm_config_open(argv[1], &workload, &error);
    if (status == CULM_OK) {
        status = culm_merging_new(workload, &options, &merging, &error);
    }
    if (status == CULM_OK) {
        signal(SIGINT, on_interrupt);
        status = culm_merging_run(merging, &error);
        signal(SIGINT, SIG_DFL);
    }
    if (status == CULM_OK) {
        status = culm_merge_show_package(argv[2], true, &shown, &error);
    }
    if (status == CULM_OK) {
        printf("%s\n", shown);
    } else {
        fprintf(stderr, "%s: %s\n", culm_status_name(status), error.text);
    }
    culm_text_free(shown);
    culm_merging_free(merging);
    culm_config_free(workload);
    return culm_status_exit_code(status);
}
