/* Memory of the machine and of control groups, of both versions in their usual places. */
#include "base/machine.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "max" and numbers beyond the machine's are not a limit. */
static void lower_to(const char *path, size_t *limit) {
    FILE *file = fopen(path, "re");
    unsigned long long bytes;
    if (file && fscanf(file, "%llu", &bytes) == 1 && bytes > 0 && bytes < *limit) {
        *limit = (size_t)bytes;
    }
    if (file) {
        fclose(file);
    }
}

/* A group is bound by the limits of those above it too, up to the root, which inside a container may be the
 * container's own. */
static void lower_to_groups(const char *root, char *group, const char *file, size_t *limit) {
    char path[PATH_MAX + 96];
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", root, strcmp(group, "/") == 0 ? "" : group, file);
        lower_to(path, limit);
        char *slash = strrchr(group, '/');
        if (!slash) {
            return;
        }
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup: "0::GROUP" of version 2, "4:memory:GROUP" of version 1. */
static void lower_to_line(char *line, size_t *limit) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':'),
         *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) {
        return;
    }
    *group++ = '\0';
    if (strncmp(line, "0:", 2) == 0) {
        lower_to_groups("/sys/fs/cgroup", group, "memory.max", limit);
    } else if (strcmp(controllers + 1, "memory") == 0) {
        lower_to_groups("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", limit);
    }
}

size_t culm_machine_memory(void) {
    size_t limit = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    char line[PATH_MAX];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        lower_to_line(line, &limit);
    }
    if (file) {
        fclose(file);
    }
    return limit;
}

size_t culm_machine_peak(void) {
    size_t kb = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %zu", &kb) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kb * 1024;
}
