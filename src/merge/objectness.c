/* Shifting the objectness of a head. See objectness.h. */
#include "merge/objectness.h"

#include <stdlib.h>

#define PLACE 4         /* index of the objectness among a box's numbers */
#define LIKELY -1.0986f /* logit of 1/4; boxes below it are usually not reported */
#define JUDGED_BY 8     /* boxes that have to be likely in `was` */
#define MOST 2.0f

static int falling(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

float culm_objectness_shift(const float *now, const float *was, int64_t boxes, int64_t each,
                            float *room) {
    int64_t likely = 0;
    for (int64_t i = 0; i < boxes; i++) {
        room[i] = now[i * each + PLACE];
        likely += was[i * each + PLACE] >= LIKELY;
    }
    if (likely < JUDGED_BY) {
        return 0;
    }
    qsort(room, (size_t)boxes, sizeof *room, falling);
    float by = LIKELY - room[likely - 1];
    return by < -MOST ? -MOST : by > MOST ? MOST : by;
}
