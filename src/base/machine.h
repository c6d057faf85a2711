/* What the machine offers. Thread: any. */
#ifndef CULM_BASE_MACHINE_H
#define CULM_BASE_MACHINE_H

#include <stddef.h>

/* Bytes of memory that this process and its children may take: the machine's, or less where a
 * control group says so. Linux promises more than that, and kills a process that uses it: ask before
 * work that takes long. */
size_t culm_machine_memory(void);

/* Bytes of memory that this process has held at most; 0: nobody can tell. What getrusage says is not
 * less than what the process held that started it. */
size_t culm_machine_peak(void);

#endif
