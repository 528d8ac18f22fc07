from hypothesis import given
from hypothesis import strategies as st

from shmcast.multicast.sim.clock import Clock

clocks = st.builds(
    Clock,
    offset=st.integers(-(10**6), 10**6),
    drift_ppm=st.integers(-500_000, 500_000),
    real_start=st.integers(0, 10**6),
)


@given(clocks, st.integers(0, 10**9))
def test_timer_time_is_the_first_tick_that_shows_it(clock: Clock, local: int) -> None:
    real = clock.real(local)
    assert clock.local(real) >= local
    assert clock.local(real - 1) < local


@given(clocks, st.integers(0, 10**9), st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_changed_clock_starts_where_the_old_one_stood(
    clock: Clock, real: int, jump: int, drift_ppm: int
) -> None:
    assert clock.changed(real, jump, drift_ppm).local(real) == clock.local(real) + jump
