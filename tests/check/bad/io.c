/* What the symbol check must refuse: a clock, a file and a random number in code without I/O. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

long culm_bad_io(const char *path);

long culm_bad_io(const char *path) {
    FILE *file = fopen(path, "r");
    return file ? (long)time(NULL) : random();
}
