/*
 * Functions of float64 whose bits nothing changes: neither the processor, nor the C library, nor
 * the compiler. For what is computed in several places and must be the same in all of them: initial
 * values, schedules, folded constants. libm's functions differ in the last bit between processors
 * with and without FMA.
 *
 * Each is computed to about 107 bits by additions, subtractions, multiplications and divisions of
 * binary128, which IEEE 754 defines to the bit and compilers bring as software, and is then rounded
 * once, to the nearest float64. That is the correctly rounded result but where the true one lies
 * within 2^-50 of a last place from the middle of two numbers; the bits are the same there too.
 *
 * Special values (NaN, infinities, zeros, what overflows) are those of C's functions of these
 * names; no floating-point exception is promised. A call takes some microseconds: not for kernels.
 * Thread: any.
 */
#ifndef CULM_BASE_EXACT_H
#define CULM_BASE_EXACT_H

double culm_exact_exp(double x);
double culm_exact_log(double x);
double culm_exact_pow(double x, double y);
double culm_exact_sin(double x);
double culm_exact_cos(double x);
double culm_exact_tanh(double x);
double culm_exact_erf(double x);

#endif
