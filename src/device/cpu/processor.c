/* Prints the instruction set that the device would choose on this processor, if it had kernels for all.
 * Run when a build is set up, with kernels=native. */
#include "device/cpu/processor.h"

#include <stdio.h>

int main(void) {
#define TRY(isa)                                                                                   \
    if (culm_has_##isa()) {                                                                        \
        return puts(#isa) < 0;                                                                     \
    }
    CULM_PROCESSOR_HAS(TRY)
    return 1;
}
