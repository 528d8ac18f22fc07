"""Links that lose and repeat, clocks that change: drawn for those who bear it, and for no others.
The campaigns show that they do; mutants `tries-once` that the links really lose."""

import pytest

from shmcast.multicast.protocols.core import Wire
from shmcast.multicast.protocols.registry import lookup, names
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.campaign import spec_of
from shmcast.multicast.sim.delays import HeavyTailed
from shmcast.multicast.sim.faults import ClockFault, Disturbance, Fault, Partition
from shmcast.multicast.sim.network import Network
from shmcast.multicast.sim.weather import COUNT_NO_COPY, SESSIONS, weather

SPAN = 10_000
SEEDS = range(60)


def drawn(name: str) -> list[Fault]:
    spec = spec_of(name)
    return [f for s in spec.shapes for i in SEEDS for f in weather(spec, s, i, SPAN)]


def test_every_name_is_that_of_a_protocol() -> None:
    assert set(names()) >= SESSIONS | COUNT_NO_COPY


@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_links_of_clients_lose_and_repeat_and_those_of_members_do_not(name: str) -> None:
    clients = {p for shape in lookup(name).shapes for p in shape.clients}
    cuts = [f for f in drawn(name) if isinstance(f, Partition)]
    links = [f for f in drawn(name) if isinstance(f, Disturbance)]
    assert cuts and all(cut.drop and cut.side <= clients for cut in cuts)
    assert all(f.loss and f.duplication and f.reordering for f in links)
    assert links and all({f.src, f.dst} & clients for f in links)


@pytest.mark.parametrize("name", sorted(COUNT_NO_COPY))
def test_links_repeat_for_those_who_ask_whether_a_copy_is_the_first(name: str) -> None:
    links = [f for f in drawn(name) if isinstance(f, Disturbance)]
    assert links and all(f.duplication and not f.loss for f in links)


@pytest.mark.parametrize("name", [n for n in names() if lookup(n).tolerates.drift_ppm_max])
def test_clocks_change_their_rate_and_jump_where_delays_have_no_bound(name: str) -> None:
    allowed = lookup(name).tolerates
    clocks = [f for f in drawn(name) if isinstance(f, ClockFault)]
    assert clocks and all(abs(f.drift_ppm or 0) <= allowed.drift_ppm_max for f in clocks)
    assert any(f.jump for f in clocks) == (allowed.delay_max is None)


def test_neither_skeen_nor_a_mutant_gets_any() -> None:
    assert (
        drawn("skeen") == drawn("baseline~not-fifo") == drawn("reliable~forgets-what-it-saw") == []
    )


def test_clock_that_stays_within_the_model_convicts_nobody() -> None:
    for faulty, kind in ((True, "fault"), (False, "note")):
        change = ClockFault(0, 100, jump=50, faulty=faulty)
        run = simulate("skeen", groups=2, messages=1, faults=[change])
        assert [e.kind for e in run.trace if e.detail.startswith("clock")] == [kind]


def test_second_copy_never_comes_before_the_first() -> None:
    """Else it could overtake what a FIFO link delivers before it."""
    faults = (Disturbance(0, 10**6, duplication=0.9, jitter=10),)
    network = Network(HeavyTailed(1000), faults, seed=1, fifo=True)
    sent = [network.arrivals(0, 1, Wire(), now) for now in range(200)]
    firsts = [first for first, *_ in sent]
    assert firsts == sorted(firsts)
    assert any(len(copies) > 1 for copies in sent)
    assert all(copy > first for first, *copies in sent for copy in copies)
