/*
 * Runs a model on arrays of zeros and prints its largest logit.
 *
 *     cc infer.c -o infer $(pkg-config --cflags --libs culm)
 *     ./infer RUN|FILE.onnx|NAME
 */
#include <culm.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    struct culm_error error = {CULM_OK, ""};
    struct culm_model *model = NULL;
    struct culm_array_info info = {.size = sizeof info};
    void *input[8] = {NULL}, *output = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: %s RUN|FILE.onnx|NAME\n", argv[0]);
        return 2;
    }
    enum culm_status status = culm_model_open(argv[1], NULL, &model, &error);
    for (int32_t i = 0; status == CULM_OK && i < culm_model_input_count(model) && i < 8; i++) {
        status = culm_model_input(model, i, &info, &error);
        if (status == CULM_OK) {
            printf("input %s: %llu bytes\n", info.name, (unsigned long long)info.bytes);
            input[i] = calloc(1, info.bytes);
        }
    }
    if (status == CULM_OK) {
        status = culm_model_output(model, 0, &info, &error);
    }
    if (status == CULM_OK) {
        output = calloc(1, info.bytes);
        status = culm_model_run(model, (const void *const *)input, &output, &error);
    }
    if (status == CULM_OK && info.dtype == CULM_ARRAY_F32) {
        const float *logit = output;
        float most = logit[0];
        for (uint64_t i = 1; i < info.bytes / sizeof *logit; i++) {
            most = logit[i] > most ? logit[i] : most;
        }
        printf("output %s: %llu bytes, largest %g\n", info.name, (unsigned long long)info.bytes,
               (double)most);
    }
    if (status != CULM_OK) {
        fprintf(stderr, "%s: %s\n", culm_status_name(status), error.text);
    }
    for (int i = 0; i < 8; i++) {
        free(input[i]);
    }
    free(output);
    culm_model_free(model);
    return culm_status_exit_code(status);
}
