/*
 * Says what a model of pictures is, and what it sees: in files, or else in a picture of the program's own.
 *
 *     cc vision.c -o vision $(pkg-config --cflags --libs culm)
 *     ./vision MODEL [FILE|FOLDER|CLIP]
 *
 * MODEL is FILE.cfg, FILE.onnx, a configuration, a run, or PACKAGE:QUERY.
 */
#include <culm/vision.h>

#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 96, HEIGHT = 80 };

static enum culm_status print(void *context, const struct culm_prediction *prediction,
                              struct culm_error *error) {
    (void)context;
    char *json = culm_prediction_json(prediction);
    if (!json) {
        error->status = CULM_ERR_MEMORY;
        snprintf(error->text, sizeof error->text, "out of memory");
        return CULM_ERR_MEMORY;
    }
    printf("%s\n", json);
    culm_text_free(json);
    return CULM_OK;
}

static void warn(void *context, const char *text) {
    (void)context;
    fprintf(stderr, "warning: %s\n", text);
}

static enum culm_status describe(const struct culm_vision *vision, struct culm_error *error) {
    struct culm_vision_info info = {.size = sizeof info};
    enum culm_status status = culm_vision_describe(vision, &info, error);
    if (status == CULM_OK) {
        printf("%s answers with %s, %lld of them, on pictures of %lld x %lld\n", info.name,
               info.answers, (long long)info.classes, (long long)info.width,
               (long long)info.height);
    }
    return status;
}

/* A picture that gets redder to the right and greener to the bottom. */
static enum culm_status look_at_own(struct culm_vision *vision, struct culm_error *error) {
    static unsigned char pixels[HEIGHT][WIDTH][3];
    const struct culm_picture picture = {.size = sizeof picture,
                                         .pixels = pixels[0][0],
                                         .width = WIDTH,
                                         .height = HEIGHT,
                                         .channels = 3};
    const struct culm_prediction *prediction = NULL;
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            pixels[y][x][0] = (unsigned char)(255 * x / (WIDTH - 1));
            pixels[y][x][1] = (unsigned char)(255 * y / (HEIGHT - 1));
        }
    }
    enum culm_status status = culm_vision_predict(vision, &picture, &prediction, error);
    return status == CULM_OK ? print(NULL, prediction, error) : status;
}

int main(int argc, char **argv) {
    struct culm_error error = {CULM_OK, ""};
    struct culm_vision *vision = NULL;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s MODEL [FILE|FOLDER|CLIP]\n", argv[0]);
        return 2;
    }
    const char *const files[] = {argv[argc - 1]};
    const struct culm_vision_files_options options = {
        .size = sizeof options, .answer = print, .warning = warn};
    enum culm_status status = culm_vision_open(argv[1], NULL, &vision, &error);
    if (status == CULM_OK) {
        status = describe(vision, &error);
    }
    if (status == CULM_OK) {
        status = argc == 3 ? culm_vision_predict_files(vision, files, 1, &options, &error)
                           : look_at_own(vision, &error);
    }
    if (status != CULM_OK) {
        fprintf(stderr, "%s: %s\n", culm_status_name(status), error.text);
    }
    culm_vision_free(vision);
    return culm_status_exit_code(status);
}
