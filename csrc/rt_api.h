/* rt_api.h: the C API of bounded time: clocks, histograms, the dispatcher. Read by cffi as it is,
 * after api.h, under the same rules.
 */

/* Clocks of two cores, compared by messages through a cache line. */
struct sc_rt_skew {
    int64_t low_ns, high_ns;  /* clock of b minus clock of a lies in here, for certain */
    uint64_t round_trip_ns;   /* shortest */
    uint64_t rounds;          /* that were finished before the deadline */
    uint64_t inversions;      /* effects that were stamped before their causes */
    uint64_t inversion_ns;    /* the largest */
};

int sc_rt_clock_skew(int cpu_a, int cpu_b, uint32_t rounds, uint64_t deadline,
                     struct sc_rt_skew *out);

/* What the kernel believes of its wall clock (NTP, PTP): 1 synchronised, 0 not. */
int sc_rt_clock_error(uint64_t *max_error_ns, uint64_t *estimated_ns);
