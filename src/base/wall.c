/* See wall.h. */
#include "base/wall.h"

#include "base/clock.h"

#include <stdio.h>
#include <time.h>

void culm_wall_text(uint64_t clock_ns, char ret_text[CULM_WALL_TEXT]) {
    struct timespec now;
    struct tm day;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t passed_ns = (int64_t)(culm_clock_ns() - clock_ns);
    const int64_t ms = (int64_t)now.tv_sec * 1000 + (now.tv_nsec - passed_ns) / INT64_C(1000000);
    const time_t s = (time_t)(ms / 1000);
    gmtime_r(&s, &day);
    size_t len = strftime(ret_text, CULM_WALL_TEXT, "%Y-%m-%dT%H:%M:%S", &day);
    snprintf(ret_text + len, CULM_WALL_TEXT - len, ".%03dZ", (int)(ms % 1000));
}
