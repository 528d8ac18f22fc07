"""Which layers may stand on which, and what the whole then promises; every sound composition keeps
its promises, layer by layer."""

import pytest

from shmcast.multicast.checks.table import check
from shmcast.multicast.checks.verdict import Outcome
from shmcast.multicast.protocols.broadcasts import BY_NAME, bound_of, spec_of
from shmcast.multicast.protocols.layers import (
    SETTINGS,
    Setting,
    compositions,
    guarantees,
    strongest,
)
from shmcast.multicast.sim.api import run
from shmcast.multicast.sim.campaign import scenario_of

SEEDS = range(3)
EVERY = [(setting, stack) for setting in SETTINGS for stack in compositions(setting)]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_every_composition_keeps_the_promises_of_each_of_its_layers(setting: Setting) -> None:
    for stack in compositions(setting):
        spec = spec_of(stack, setting)
        for seed in SEEDS:
            outcome = run(scenario_of(spec, seed))
            assert not outcome.report().violated, f"{spec.name}, seed {seed}\n{outcome.report()}"
            for height in range(1, len(stack)):
                below = stack[:height]
                props = guarantees(below, setting)
                assert props is not None
                bound = bound_of(below, setting)(outcome.scenario.topology)
                verdicts = check(outcome.trace, strongest(props), layer=below[-1], bound=bound)
                wrong = {n: v for n, v in verdicts.items() if v.outcome is not Outcome.PASSED}
                assert not wrong, f"{below[-1]} in {spec.name}, seed {seed}: {wrong}"


def test_there_are_as_many_compositions_as_the_paper_allows() -> None:
    assert len(EVERY) == 149
    assert len(set(EVERY)) == len(EVERY)


def types(setting: str) -> set[tuple[str, ...]]:
    orders = {"fifo", "causal", "total"}
    return {
        tuple(sorted(orders & guarantees(stack, BY_NAME[setting])))  # type: ignore[operator]
        for stack in compositions(BY_NAME[setting])
    }


def test_all_six_types_of_broadcast_exist_in_a_synchronous_network() -> None:
    """Fig. 1: reliable, FIFO, causal, and their atomic counterparts."""
    assert types("sync-skewed") == {
        (),
        ("fifo",),
        ("causal", "fifo"),
        ("total",),
        ("fifo", "total"),
        ("causal", "fifo", "total"),
    }


def test_without_synchrony_total_order_needs_consensus() -> None:
    """Corollary 2: "Atomic Broadcast … impossible" in asynchronous systems; with a failure
    detector it is not."""
    for setting, stack in EVERY:
        if not setting.synchronous and "total" in (guarantees(stack, setting) or ()):
            assert "atomic-from-consensus" in stack
    assert not any("timed-total" in s for setting, s in EVERY if not setting.synchronous)


@pytest.mark.parametrize(
    ("stack", "setting"),
    [
        (("diffusion", "causal-blocking"), "crash"),  # no FIFO below
        (("diffusion", "timed-total"), "sync-crash"),  # no local bound below
        (("timed-diffusion",), "crash"),  # no clocks
        (("diffusion", "fifo", "causal-atomic"), "crash"),  # no total order below
        (("diffusion", "atomic-from-consensus"), "omission"),  # crashes only
        (("timed-diffusion", "fifo", "causal-nonblocking", "timed-total"), "sync-omission"),
        (("timed-diffusion", "fifo", "causal-blocking", "timed-total"), "sync-skewed"),
    ],
)
def test_layer_does_not_stand_where_it_lacks_something(
    stack: tuple[str, ...], setting: str
) -> None:
    assert guarantees(stack, BY_NAME[setting]) is None


def test_fifo_links_give_causal_atomic_from_total_order_alone() -> None:
    """§6.8: "the algorithm in Fig. 12 is actually a Causal Broadcast", so one layer is enough."""
    props = guarantees(("timed-diffusion", "timed-total"), BY_NAME["sync-skewed-fifo-links"])
    assert props is not None and {"uniform-causal", "uniform-total"} <= props


def test_nonblocking_layer_loses_uniform_total_order() -> None:
    stack = ("timed-diffusion", "timed-total", "fifo", "causal-nonblocking")
    props = guarantees(stack, BY_NAME["sync-skewed"])
    assert props is not None and "total" in props and "uniform-total" not in props
