/* How long loads take, fitted to those that were measured. */
#include "live/loads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Loads of which each takes 0.2 ms and 1 ms a megabyte. */
static void fit_of_loads(void **state) {
    struct culm_live_loads loads = {0}, same = {0}, odd = {0};
    double ms, mb_per_s;
    (void)state;
    for (size_t i = 1; i <= 40; i++) {
        size_t bytes = i * i * 10000;
        uint64_t noise = i % 2 ? 20000 : 0; /* ns */
        culm_live_loads_add(&loads, bytes, 190000 + noise + bytes);
        culm_live_loads_add(&same, 50000, 250000);
        culm_live_loads_add(&odd, bytes,
                            1000000 - bytes / 100); /* larger ones take less: nonsense */
    }
    culm_live_loads_fit(&loads, &ms, &mb_per_s);
    assert_true(ms > 0.19 && ms < 0.21);
    assert_true(mb_per_s > 990 && mb_per_s < 1010);
    double all = ms * 40 + loads.bytes / 1e3 / mb_per_s; /* as much as they took together */
    assert_true(all > loads.ms * 0.999 && all < loads.ms * 1.001);
    culm_live_loads_fit(&same, &ms, &mb_per_s); /* what is of each cannot be told */
    assert_true(ms < 1e-9 && mb_per_s > 199.9 && mb_per_s < 200.1);
    culm_live_loads_fit(&odd, &ms, &mb_per_s);
    assert_true(ms > 0.9 && mb_per_s >= 0 && (mb_per_s == 0 || mb_per_s > 1e6));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fit_of_loads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
