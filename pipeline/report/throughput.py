"""Deliveries per second over the run, a line per group, with the time under faults shaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shmcast.pipeline.latency import FaultWindow, merged
from shmcast.pipeline.rates import Rates
from shmcast.pipeline.report import svg

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760.0, 250.0, 62.0, 18.0, 38.0, 36.0
BASE = HEIGHT - BOTTOM
SERIES_MAX = 6  # as many as there are colours; the others are added up


class _Axes:
    def __init__(self, rates: Rates, top: float) -> None:
        self.rates = rates
        self.span = max(1, rates.end_ns - rates.start_ns)
        self.scale = (HEIGHT - TOP - BOTTOM) / max(top, 1e-9)

    def x(self, ns: float) -> float:
        share = (ns - self.rates.start_ns) / self.span
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, share))

    def y(self, per_second: float) -> float:
        return BASE - per_second * self.scale


def throughput(rates: Rates, faults: Sequence[FaultWindow], names: Mapping[int, str]) -> str:
    series = _series(rates, names)
    top = max((max(values, default=0) for _, values in series), default=0) * 1.05e9 / rates.step_ns
    axes = _Axes(rates, top)
    parts = [_window(axes, start, end) for start, end in merged(faults)]
    for value in svg.ticks(0, top, 5):
        y = axes.y(value)
        parts.append(svg.line(LEFT, y, WIDTH - RIGHT, y, "grid" if value else "axis"))
        parts.append(svg.text(LEFT - 6, y + 4, _rate(value, top), "end"))
    parts += [
        svg.text(axes.x(rates.start_ns + value), BASE + 16, svg.duration(value), "middle")
        for value in svg.ticks(0, axes.span)
    ]
    parts += [_line(axes, name, values, number) for number, (name, values) in enumerate(series)]
    parts += _marks(axes, faults)
    parts.append(svg.text(0, 12, "deliveries per second"))
    parts += _legend([name for name, _ in series])
    parts.append(svg.text(WIDTH - RIGHT, HEIGHT - 4, "time since the first row", "end"))
    return svg.drawing(WIDTH, HEIGHT, parts, "Deliveries per second over time, faults marked")


def _rate(value: float, top: float) -> str:
    """All of an axis in one way: not 500, 1k, 1500."""
    return f"{value:,.0f}" if 10 <= top < 100_000 else svg.count(value)


def _window(axes: _Axes, start: int, end: int) -> str:
    x1, x2 = axes.x(start), axes.x(end)
    return svg.element(
        "rect", x=x1, y=TOP, width=max(1.0, x2 - x1), height=BASE - TOP, class_="window"
    )


def _series(rates: Rates, names: Mapping[int, str]) -> list[tuple[str, tuple[int, ...]]]:
    every = sorted(rates.deliveries.items())
    shown = every if len(every) <= SERIES_MAX else every[: SERIES_MAX - 1]
    rest = every[len(shown) :]
    found = [(names.get(group, f"group {group}"), values) for group, values in shown]
    if rest:
        added = tuple(map(sum, zip(*(values for _, values in rest), strict=True)))
        found.append((f"{len(rest)} other groups", added))
    return found


def _line(axes: _Axes, name: str, values: tuple[int, ...], number: int) -> str:
    rates = axes.rates
    points = []
    for step, value in enumerate(values):
        y = axes.y(value * 1e9 / rates.step_ns)
        left = axes.x(rates.start_ns + step * rates.step_ns)
        right = axes.x(rates.start_ns + (step + 1) * rates.step_ns)
        points.append(f"{left:.1f},{y:.1f} {right:.1f},{y:.1f}")
    return svg.element(
        "polyline", svg.title(name), points=" ".join(points), class_=f"series s{number}"
    )


def _marks(axes: _Axes, faults: Sequence[FaultWindow]) -> list[str]:
    parts = []
    last = -100.0
    for number, fault in enumerate(faults, 1):
        at = axes.x(fault.start_ns)
        parts.append(svg.line(at, TOP - 4, at, BASE, "fault"))
        if at - last >= 18:
            parts.append(svg.text(at, TOP - 7, str(number), "middle", "fault-label"))
            last = at
    return parts


def _legend(names: list[str]) -> list[str]:
    parts: list[str] = []
    x = WIDTH - RIGHT
    for number, name in reversed(list(enumerate(names))):
        x -= svg.width_of(name)
        parts.append(svg.text(x, 12, name))
        parts.append(svg.line(x - 18, 8, x - 5, 8, f"series s{number}"))
        x -= 32
    return parts
