/*
 * Runs a fuzz target over every file of the folders given, in place of libFuzzer: the corpus as a
 * test for every compiler. Each file is also run cut in the middle. Prints TAP: one case, however
 * many files there are.
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
    int files = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..1\n");
    for (int i = 1; i < argc; i++) {
        struct dirent **entries;
        int count = scandir(argv[i], &entries, NULL, alphasort);
        for (int k = 0; k < count; k++) {
            if (entries[k]->d_name[0] != '.') {
                char path[4096];
                size_t size;
                snprintf(path, sizeof path, "%s/%s", argv[i], entries[k]->d_name);
                printf("# %s\n",
                       entries[k]->d_name); /* the last one told is the one that crashed */
                uint8_t *data = read_file(path, &size);
                LLVMFuzzerTestOneInput(data, size);
                LLVMFuzzerTestOneInput(data, size / 2);
                free(data);
                files++;
            }
            free(entries[k]);
        }
        if (count > 0) {
            free(entries);
        }
    }
    if (!files) {
        fprintf(stderr, "no corpus in the folders given\n");
        return 1;
    }
    printf("ok 1 - %d files of the corpus\n", files);
    return 0;
}
