/*
 * Runs a workload, hands frames over for one of its feeds as a program with a camera would, and prints what
 * the queries say of them.
 *
 *     cc edge.c -o edge $(pkg-config --cflags --libs culm)
 *     ./edge WORKLOAD.yaml FEED DIR
 *
 * The frames are of a bright square that moves, twenty a second for a second. Other feeds of the workload
 * are read as it says.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <culm/edge.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 96, HEIGHT = 80, SIDE = 32, FRAMES = 20 };

static struct culm_edge *edge; /* of the handler */

static void on_interrupt(int number) {
    (void)number;
    culm_edge_stop(edge);
}

static void on_event(void *context, const char *json) {
    (void)context;
    if (strstr(json, "\"event\":\"plan\"") || strstr(json, "\"error\"")) {
        printf("%s\n", json);
    }
}

static void paint(unsigned char *pixels, int frame) {
    memset(pixels, 40, (size_t)WIDTH * HEIGHT * 3);
    for (int y = 0; y < SIDE; y++) {
        memset(pixels + 3 * ((frame + y) * WIDTH + 3 * frame), 220, 3 * SIDE);
    }
}

/* Prints the answers that have come; waits for more if told so. CULM_ERR_AGAIN: none is left for now;
 * CULM_ERR_CLOSED: the run has ended. */
static enum culm_status print_answers(int64_t wait_ms, struct culm_error *error) {
    static const char *const how[] = {"", "fresh", "stale", "none"};
    struct culm_edge_answer answer = {.size = sizeof answer};
    enum culm_status status;
    while ((status = culm_edge_take_answer(edge, wait_ms, &answer, error)) == CULM_OK) {
        char *json = culm_prediction_json(answer.prediction);
        printf("%s: frame %lld, %s: %s\n", answer.query, (long long)answer.frame,
               how[answer.answered], json ? json : "");
        culm_text_free(json);
    }
    return status;
}

static enum culm_status post_frames(const char *feed, struct culm_error *error) {
    static unsigned char pixels[WIDTH * HEIGHT * 3];
    const struct culm_picture picture = {
        .size = sizeof picture, .pixels = pixels, .width = WIDTH, .height = HEIGHT, .channels = 3};
    const struct timespec pause = {0, 50000000};
    for (int frame = 0; frame < FRAMES; frame++) {
        paint(pixels, frame);
        enum culm_status status = culm_edge_post(edge, feed, &picture, NULL, error);
        if (status == CULM_OK) {
            status = print_answers(0, error);
        }
        if (status != CULM_ERR_AGAIN) {
            return status;
        }
        nanosleep(&pause, NULL);
    }
    return culm_edge_end(edge, feed, error);
}

int main(int argc, char **argv) {
    struct culm_error error = {CULM_OK, ""};
    struct culm_config *workload = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: %s WORKLOAD.yaml FEED DIR\n", argv[0]);
        return 2;
    }
    const char *const posted[] = {argv[2]};
    const struct culm_edge_options options = {.size = sizeof options,
                                              .dir = argv[3],
                                              .posted = posted,
                                              .posted_count = 1,
                                              .event = on_event};
    enum culm_status status = culm_config_open(argv[1], &workload, &error);
    if (status == CULM_OK) {
        status = culm_edge_open(workload, &options, &edge, &error);
    }
    if (status == CULM_OK) {
        signal(SIGINT, on_interrupt);
        status = culm_edge_start(edge, &error);
    }
    if (status == CULM_OK) {
        status = post_frames(argv[2], &error);
    }
    if (status == CULM_OK || status == CULM_ERR_CLOSED) { /* closed: it was interrupted */
        (void)print_answers(-1, &error);
        status = culm_edge_wait(edge, &error);
    }
    char *how = NULL;
    if (status == CULM_OK) {
        status = culm_edge_report(edge, &how, &error);
    }
    if (status == CULM_OK) {
        printf("%s\n", how);
    } else {
        fprintf(stderr, "%s: %s\n", culm_status_name(status), error.text);
    }
    culm_text_free(how);
    signal(SIGINT, SIG_DFL);
    culm_edge_close(edge);
    culm_config_free(workload);
    return culm_status_exit_code(status);
}
