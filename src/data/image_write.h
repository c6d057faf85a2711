/* Pictures as PNG files. Thread: any. */
#ifndef CULM_DATA_IMAGE_WRITE_H
#define CULM_DATA_IMAGE_WRITE_H

#include "base/status.h"

/* data[height,width,3] RGB; the file is there whole or as it was. */
enum culm_status culm_image_write_png(const char *path, const uint8_t *data, int32_t width,
                                      int32_t height, struct culm_error *error);

#endif
