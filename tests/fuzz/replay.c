/*
 * Runs a fuzz target over every file of the folders given, in place of libFuzzer: the corpus as a
 * test for every compiler. Prints TAP, one case a file; each file is also run cut in the middle.
 */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>

static uint8_t *read_file(const char *path, size_t *ret_size) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0, got = 0;
    do {
        data = realloc(data, size + 65536);
        got = file && data ? fread(data + size, 1, 65536, file) : 0;
        size += got;
    } while (got == 65536);
    if (!file || ferror(file)) {
        fprintf(stderr, "cannot read '%s'\n", path);
        exit(1);
    }
    fclose(file);
    *ret_size = size;
    return data;
}

int main(int argc, char **argv) {
    int cases = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        struct dirent **entries;
        int count = scandir(argv[i], &entries, NULL, alphasort);
        for (int k = 0; k < count; k++) {
            if (entries[k]->d_name[0] != '.') {
                char path[4096];
                size_t size;
                snprintf(path, sizeof path, "%s/%s", argv[i], entries[k]->d_name);
                uint8_t *data = read_file(path, &size);
                LLVMFuzzerTestOneInput(data, size);
                LLVMFuzzerTestOneInput(data, size / 2);
                free(data);
                printf("ok %d - %s\n", ++cases, entries[k]->d_name);
            }
            free(entries[k]);
        }
        if (count > 0) {
            free(entries);
        }
    }
    printf("1..%d\n", cases);
    if (!cases) {
        fprintf(stderr, "no corpus in the folders given\n");
    }
    return cases ? 0 : 1;
}
