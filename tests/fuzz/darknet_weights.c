/*
 * Fuzz target: darknet weights, of a small network. Any file is refused in one line, or has exactly the
 * numbers of the network; those that are read are finite.
 */
#include "fuzz.h"

#include "darknet/net.h"
#include "memory_file.h"

#include <math.h>

static const char cfg[] = "[net]\nwidth=4\nheight=4\nchannels=3\n"
                          "[convolutional]\nbatch_normalize=1\nfilters=2\nsize=1\nactivation=relu\n"
                          "[convolutional]\nfilters=6\nsize=1\nactivation=linear\n"
                          "[yolo]\nanchors=2,2\nclasses=1\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct {
        const char *name;
        int64_t count;
    } params[] = {{"conv0.bias", 2},     {"conv0.scale", 2},  {"conv0.mean", 2},
                  {"conv0.variance", 2}, {"conv0.weight", 6}, {"conv1.bias", 6},
                  {"conv1.weight", 12}};
    struct culm_error error = {0};
    struct culm_darknet_net net = {0};
    struct culm_darknet_weights weights = {.fd = -1};
    char path[64];
    FUZZ_REQUIRE(culm_darknet_parse(cfg, sizeof cfg - 1, "fuzz", &net, &error) == CULM_OK, "%s",
                 error.text);
    int fd = memory_file(data, size, path);
    if (culm_darknet_weights_open(path, &net, &weights, &error) == CULM_OK) {
        FUZZ_REQUIRE(size == 16 + 32 * 4 || size == 20 + 32 * 4, "%zu bytes", size);
        for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
            float read[12];
            error.text[0] = '\0';
            if (culm_darknet_weights_read(&weights, &net, params[i].name, params[i].count, read,
                                          &error) == CULM_OK) {
                for (int64_t k = 0; k < params[i].count; k++) {
                    FUZZ_REQUIRE(isfinite(read[k]), "%s has %g", params[i].name, (double)read[k]);
                }
            } else {
                FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'",
                             error.text);
            }
        }
        culm_darknet_weights_close(&weights);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    culm_darknet_net_release(&net);
    close(fd);
    return 0;
}
