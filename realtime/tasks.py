"""What a schedule is made of: periodic tasks. Times are nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Released every period, from `offset_ns` on, each time for at most `work_ns`."""

    name: str
    period_ns: int
    work_ns: int  # worst-case time; the budget that is enforced
    deadline_ns: int = 0  # after the release; 0 means the period
    offset_ns: int = 0  # of the first release
    jitter_ns: int = 0  # a job may be ready so much after its release
    blocking_ns: int = 0  # longest wait inside a job; its thread has nothing else to do meanwhile
    locked_ns: int = 0  # longest stretch at its start in which nobody else can run
    priority: int | None = None  # greater is more urgent; None: the shorter deadline

    def __post_init__(self) -> None:
        if self.deadline_ns == 0:
            object.__setattr__(self, "deadline_ns", self.period_ns)
        for name, least in (("period_ns", 1), ("work_ns", 1), ("deadline_ns", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{self.name}: {name} must be positive")
        for name in ("offset_ns", "jitter_ns", "blocking_ns", "locked_ns"):
            if getattr(self, name) < 0:
                raise ValueError(f"{self.name}: {name} must not be negative")
        if self.locked_ns > self.work_ns:
            raise ValueError(f"{self.name}: locked_ns is a part of work_ns")

    @property
    def occupied_ns(self) -> int:
        """How long a job keeps its thread: native tasks share one, Python tasks another, and a
        thread that waits runs nobody else (docs/decisions/0024)."""
        return self.work_ns + self.blocking_ns

    @property
    def utilisation(self) -> Fraction:
        return Fraction(self.occupied_ns, self.period_ns)


def utilisation(tasks: Iterable[Task]) -> Fraction:
    return sum((task.utilisation for task in tasks), Fraction(0))


def by_priority(tasks: Sequence[Task]) -> list[Task]:
    """Most urgent first. Given priorities go before deadlines; ties keep their order."""
    given = [task for task in tasks if task.priority is not None]
    if given and len(given) != len(tasks):
        missing = next(task.name for task in tasks if task.priority is None)
        raise ValueError(f"{missing} has no priority: give one to every task, or to none")
    if given:
        return sorted(tasks, key=lambda task: -(task.priority or 0))
    return sorted(tasks, key=lambda task: task.deadline_ns - task.jitter_ns)


def check_names(tasks: Sequence[Task]) -> None:
    names = [task.name for task in tasks]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two tasks have the name {sorted(twice)[0]}")
