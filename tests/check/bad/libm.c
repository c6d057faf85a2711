/* What the check of code that decides bits must refuse: a function whose last bit differs from one C
 * library or processor to another. */
#include <math.h>

float culm_bad_libm(double x);

float culm_bad_libm(double x) { return sqrtf((float)exp(x)) + tanhf((float)x); }
