/* clock.c: offset and drift, injected per process. */
#include "clock.h"

_Atomic bool clock_is_faulty;
static _Atomic int64_t fault_offset_ns, fault_drift_ppb;
static _Atomic uint64_t fault_since_ns;

uint64_t clock_with_fault(uint64_t true_ns)
{
    int64_t elapsed = (int64_t)(true_ns - LOAD_RELAXED(&fault_since_ns));
    int64_t drift = (int64_t)((double)elapsed * (double)LOAD_RELAXED(&fault_drift_ppb) * 1e-9);
    int64_t shifted = (int64_t)true_ns + LOAD_RELAXED(&fault_offset_ns) + drift;
    return shifted < 0 ? 0 : (uint64_t)shifted;
}

void clock_set_fault(int64_t offset_ns, int64_t drift_ppb)
{
    STORE_RELAXED(&fault_since_ns, sys_now());
    STORE_RELAXED(&fault_offset_ns, offset_ns);
    STORE_RELAXED(&fault_drift_ppb, drift_ppb);
    STORE_RELEASE(&clock_is_faulty, offset_ns != 0 || drift_ppb != 0);
}
