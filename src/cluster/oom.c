/* Processes killed for want of memory. See oom.h. */
#include "cluster/oom.h"

#include <inttypes.h>
#include <stdio.h>

int64_t culm_oom_kills(const char *path) {
    char line[128];
    int64_t kills = -1;
    FILE *file = fopen(path, "re");
    while (file && kills < 0 && fgets(line, sizeof line, file)) {
        if (sscanf(line, "oom_kill %" SCNd64, &kills) != 1) {
            kills = -1;
        }
    }
    if (file) {
        fclose(file);
    }
    return kills;
}
