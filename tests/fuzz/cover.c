/* Hands the coverage of code that gcc instrumented to libFuzzer.
 *
 * gcc calls __sanitizer_cov_trace_pc at every branch; libFuzzer wants arrays of 8-bit counters. Each place in the
 * code is counted in the slot that its address hashes to; the slots of all kernels are looked at after every call, so
 * they are few, and LANCECY_COVERED names the one module that is to be counted, if it is not all of them. Compiled
 * without instrumentation, linked into every kernel.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 4096u

static uint8_t counts[SLOTS];
static struct { uintptr_t place, flags; } places[SLOTS];
static uintptr_t origin;

extern void __sanitizer_cov_8bit_counters_init(uint8_t *, uint8_t *) __attribute__((weak));
extern void __sanitizer_cov_pcs_init(const uintptr_t *, const uintptr_t *) __attribute__((weak));

__attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc(void)
{
    uint64_t place = (uint64_t)((uintptr_t)__builtin_return_address(0) - origin);
    unsigned slot = (unsigned)((place * 0x9E3779B97F4A7C15ull) >> 52) & (SLOTS - 1);
    if (counts[slot] < 255)
        counts[slot]++;
}

__attribute__((constructor)) static void tell(void)
{
    const char *covered = getenv("LANCECY_COVERED");
    Dl_info module;
    origin = (uintptr_t)&tell;
    if (covered && dladdr((void *)&tell, &module) && module.dli_fname && !strstr(module.dli_fname, covered))
        return;
    for (unsigned i = 0; i < SLOTS; i++)
        places[i].place = origin + i + 1;
    if (__sanitizer_cov_8bit_counters_init && __sanitizer_cov_pcs_init) {
        __sanitizer_cov_8bit_counters_init(counts, counts + SLOTS);
        __sanitizer_cov_pcs_init((uintptr_t *)places, (uintptr_t *)(places + SLOTS));
    }
}
