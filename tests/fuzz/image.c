/*
 * Fuzz target: image files. Any bytes are decoded or refused with a message; what was decoded has
 * its size, is turned as the file says, and becomes a window of any other.
 *
 * The first byte chooses channels and window, the rest is the file.
 */
#include "fuzz.h"

#include "data/image.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct culm_image image;
    static struct culm_resizer resizer;
    struct culm_error error = {0};
    if (!size) {
        return 0;
    }
    int32_t channels = data[0] & 1 ? 1 : 3;
    uint8_t *exact = malloc(size); /* so that a sanitizer sees the first byte past the end */
    memcpy(exact, data + 1, size - 1);
    enum culm_status status = culm_image_decode(exact, size - 1, "fuzz", channels, &image, &error);
    int orientation = culm_image_orientation(exact, size - 1);
    free(exact);
    FUZZ_REQUIRE(orientation >= 1 && orientation <= 8, "orientation %d", orientation);
    if (status != CULM_OK) {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        return 0;
    }
    status = culm_image_turn(&image, orientation, &error);
    FUZZ_REQUIRE(status == CULM_OK, "%s", error.text);
    FUZZ_REQUIRE(image.height >= 1 && image.width >= 1 && image.channels == channels &&
                     (size_t)image.height * (size_t)image.width * (size_t)channels <=
                         image.capacity,
                 "%d x %d x %d", image.height, image.width, image.channels);
    uint8_t out[16 * 16 * 3];
    const struct culm_image_window window = {.full_height = 5 + (data[0] >> 4),
                                             .full_width = 6 + (data[0] >> 3),
                                             .top = 1,
                                             .left = 2,
                                             .height = 4,
                                             .width = 3};
    status = culm_resizer_run(&resizer, image.data, image.height, image.width, channels,
                              (size_t)image.width * (size_t)channels, &window, out, &error);
    FUZZ_REQUIRE(status == CULM_OK, "%s", error.text);
    return 0;
}
