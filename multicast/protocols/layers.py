"""What each layer of the broadcast stack needs below it, and what it gives (paper 004 §5-6).

A stack of layers is sound if each one finds what it needs. `guarantees` computes what the whole
then promises, by the theorems of the paper and the corrections of its observations: the table of
what a transformation adds, keeps and loses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Guarantees = frozenset[str]  # names of checks/table.py

RELIABLE = frozenset({"validity", "agreement", "integrity", "uniform-integrity"})
TIMELY = frozenset({"real-time", "local-time", "uniform-local-time"})
IMPLIED = {  # what the stronger property on the left makes superfluous
    "uniform-integrity": ("integrity",),
    "uniform-agreement": ("agreement",),
    "uniform-fifo": ("fifo",),
    "uniform-causal": ("uniform-fifo", "causal", "fifo"),
    "uniform-total": ("total",),
    "uniform-local-time": ("local-time",),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """The network and the faults that a stack runs on."""

    name: str
    synchronous: bool = False  # links and clocks have bounds
    fifo_links: bool = False  # even between faulty processes
    omissions: bool = False  # else processes fail by crashing only
    skewed: bool = False  # clocks differ, so that an effect may have an earlier timestamp


SETTINGS = (
    Setting("crash"),
    Setting("crash-fifo-links", fifo_links=True),
    Setting("omission", omissions=True),
    Setting("sync-crash", synchronous=True),
    Setting("sync-skewed", synchronous=True, skewed=True),
    Setting("sync-skewed-fifo-links", synchronous=True, skewed=True, fifo_links=True),
    Setting("sync-omission", synchronous=True, omissions=True, skewed=True),
)


def closed(props: Guarantees) -> Guarantees:
    """With all that they imply."""
    return props.union(*(IMPLIED.get(p, ()) for p in props))


def strongest(props: Guarantees) -> tuple[str, ...]:
    """Without what is implied: what there is to check."""
    return tuple(sorted(props - {weak for p in props for weak in IMPLIED.get(p, ())}))


@dataclass(frozen=True, slots=True)
class Layer:
    """`over` answers with the guarantees on top of those below; None: it must not stand there."""

    name: str
    over: Callable[[Guarantees, Setting], Guarantees | None]


def _diffusion(setting: Setting) -> Guarantees:
    props = set(RELIABLE)
    if not setting.omissions:
        props.add("uniform-agreement")  # Theorem 10
    if setting.fifo_links and not setting.omissions:
        props.add("uniform-causal")  # Theorem 9; a lost message is a gap in a link's order
    if setting.synchronous:
        props.add("real-time")  # Theorem 11
    return frozenset(props)


def _timed_diffusion(setting: Setting) -> Guarantees | None:
    if not setting.synchronous:
        return None  # §6.6: impossible
    return _diffusion(setting) - {"real-time"} | {"local-time"}  # Theorem 12


def _fifo(below: Guarantees, setting: Setting) -> Guarantees | None:
    return None if "uniform-fifo" in below else below | {"uniform-fifo"}


def _nonblocking(below: Guarantees, setting: Setting) -> Guarantees | None:
    if "uniform-fifo" not in below or "uniform-causal" in below:
        return None
    lost = {"uniform-total"} & below
    if "uniform-agreement" not in below:
        # A faulty process may bring back an old message, long after its time.
        lost |= TIMELY
    return below - lost | {"uniform-causal"} | ({"total"} & below)


def _blocking(below: Guarantees, setting: Setting) -> Guarantees | None:
    if "uniform-fifo" not in below or "uniform-causal" in below:
        return None
    consistent = not setting.skewed or "uniform-local-time" in below
    # A message may wait for one that it depends on and that has a later timestamp. Over timed
    # total order there is none: what is delivered is Δ old, and that is more than any skew.
    return below - (frozenset() if consistent else {"local-time"}) | {"uniform-causal"}


def _timed_total(below: Guarantees, setting: Setting) -> Guarantees | None:
    if "local-time" not in below or "total" in below:
        return None
    return below | {"uniform-total", "uniform-local-time"}


def _causal_atomic(below: Guarantees, setting: Setting) -> Guarantees | None:
    if not {"total", "uniform-fifo"} <= below or "uniform-causal" in below:
        return None
    lost = frozenset() if "uniform-total" in below else frozenset({"uniform-agreement"})
    return below - lost | {"uniform-causal"}


def _from_consensus(below: Guarantees, setting: Setting) -> Guarantees | None:
    """Our consensus is uniform; so are total order and agreement. Batches forget other orders."""
    if setting.omissions or "total" in below:
        return None
    return RELIABLE | {"uniform-agreement", "uniform-total"}


def _bottom(
    gives: Callable[[Setting], Guarantees | None],
) -> Callable[[Guarantees, Setting], Guarantees | None]:
    return lambda below, setting: None if below else gives(setting)


LAYERS = {
    layer.name: layer
    for layer in (
        Layer("diffusion", _bottom(_diffusion)),
        Layer("timed-diffusion", _bottom(_timed_diffusion)),
        Layer("fifo", _fifo),
        Layer("causal-nonblocking", _nonblocking),
        Layer("causal-blocking", _blocking),
        Layer("timed-total", _timed_total),
        Layer("causal-atomic", _causal_atomic),
        Layer("causal-atomic-recent", _causal_atomic),
        Layer("causal-atomic-ahead", _causal_atomic),
        Layer("atomic-from-consensus", _from_consensus),
    )
}
BOTTOMS = ("diffusion", "timed-diffusion")


def guarantees(names: tuple[str, ...], setting: Setting) -> Guarantees | None:
    """Of the whole stack, bottom first; None if a layer lacks what it needs."""
    props: Guarantees = frozenset()
    for name in names:
        found = LAYERS[name].over(props, setting)
        if found is None or (name not in BOTTOMS and not props):
            return None
        props = closed(found)
    return props


def compositions(setting: Setting) -> list[tuple[str, ...]]:
    """Every stack, bottom first, in which each layer finds what it needs and adds something. No
    layer is used twice: an order that is lost above would only be paid for again."""
    found: list[tuple[str, ...]] = []
    frontier: list[tuple[str, ...]] = [(name,) for name in BOTTOMS]
    while frontier:
        stack = frontier.pop()
        if guarantees(stack, setting) is None:
            continue
        found.append(stack)
        frontier += [(*stack, name) for name in LAYERS if name not in (*BOTTOMS, *stack)]
    return sorted(found)
