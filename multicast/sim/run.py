"""A run after it happened: what is on record, what the checkers say, how to look at it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from shmcast.multicast.checks import accounting
from shmcast.multicast.checks.history import History
from shmcast.multicast.checks.table import check as check_properties
from shmcast.multicast.checks.trace import Trace
from shmcast.multicast.checks.verdict import Outcome, Verdict, violated
from shmcast.multicast.protocols.core import Machine, ProcessId
from shmcast.multicast.sim.diagram import text_diagram
from shmcast.multicast.sim.engine import Engine
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.svg import svg_diagram


class Violation(AssertionError):
    """A run broke what its protocol promises."""


@dataclass(frozen=True, slots=True)
class Report:
    """One verdict per property, and one for the invariants."""

    verdicts: dict[str, Verdict]

    @property
    def violated(self) -> dict[str, Verdict]:
        return {name: v for name, v in self.verdicts.items() if v.violated}

    @property
    def undetermined(self) -> dict[str, Verdict]:
        return {name: v for name, v in self.verdicts.items() if v.outcome is Outcome.UNDETERMINED}

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {v.outcome.value}{': ' + v.reason if v.reason else ''}"
            for name, v in self.verdicts.items()
        )


class Run:
    def __init__(self, scenario: Scenario, engine: Engine) -> None:
        self.scenario = scenario
        self.trace: Trace = engine.recorder.trace
        self.broken = engine.broken
        self.steps = engine.steps
        self.ended_at = engine.now
        self.sent: Counter[str] = engine.sent
        self.faults: Counter[str] = engine.faults
        self.machines: dict[ProcessId, Machine] = engine.world.machines

    def report(self, *names: str) -> Report:
        """Verdicts on the named properties; on none named, on all that the protocol promises."""
        spec = self.scenario.spec
        bound = None if spec.bound is None else spec.bound(self.scenario.topology)
        verdicts = check_properties(self.trace, names or spec.promises, bound=bound)
        if self.broken is not None:
            verdicts[f"invariant {self.broken.name}"] = violated(
                f"step {self.broken.step} of p{self.broken.process}: {self.broken.reason}"
            )
        return Report(verdicts)

    def check(self, *names: str) -> Report:
        """The same; raises Violation with the counterexample if something is violated."""
        report = self.report(*names)
        if report.violated:
            raise Violation(f"{self.scenario.spec.name}, seed {self.scenario.seed}\n{report}")
        return report

    def delays(self, layer: str = "") -> list[accounting.Delay]:
        """Per message and destination group, in ticks."""
        source = "" if layer else None
        return accounting.delays(History(self.trace, layer, source))

    def diagram(self, *, width: int = 14) -> str:
        return text_diagram(self.trace, self.scenario.topology, width=width)

    def svg(self) -> str:
        return svg_diagram(self.trace, self.scenario.topology)
