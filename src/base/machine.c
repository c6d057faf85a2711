/* Memory of the machine and of control groups (version 2, and version 1's default places). */
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

/* A group is bound by the limits of those above it too. */
static void lower_to_groups(char *group, size_t *limit) {
    char path[PATH_MAX + 64];
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
        lower_to(path, limit);
        char *slash = strrchr(group, '/');
        if (!slash) {
            return;
        }
        *slash = '\0';
    }
}

size_t culm_machine_memory(void) {
    size_t limit = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    char line[PATH_MAX];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0) {
            lower_to_groups(line + 3, &limit);
        }
    }
    if (file) {
        fclose(file);
    }
    lower_to("/sys/fs/cgroup/memory/memory.limit_in_bytes", &limit);
    return limit;
}
