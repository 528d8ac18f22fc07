"""Latency histograms: one panel per phase over one logarithmic axis, the bound and the maximum."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shmcast.pipeline.latency import Summary
from shmcast.pipeline.report import svg
from shmcast.realtime.histogram import Histogram, low_of

WIDTH, LEFT, RIGHT = 760.0, 92.0, 18.0
PANEL, GAP, TOP, BOTTOM = 74.0, 30.0, 24.0, 34.0


class _Axis:
    """Logarithmic time, over everything that is shown."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = max(1.0, low) * 0.8, max(high, low * 2, 2.0) * 1.25
        self.scale = (WIDTH - LEFT - RIGHT) / math.log(self.high / self.low)

    def x(self, ns: float) -> float:
        inside = min(max(ns, self.low), self.high)
        return LEFT + self.scale * math.log(inside / self.low)


def histograms(
    panels: Sequence[tuple[str, Summary]],
    bound_ns: int | None,
    label: str,
    earlier: Summary | None = None,
) -> str:
    """`earlier` is drawn as an outline in the first panel, at the same height."""
    shown = [(name, summary) for name, summary in panels if summary.count]
    axis = _axis([s for _, s in shown] + ([earlier] if earlier else []), bound_ns)
    height = TOP + len(shown) * (PANEL + GAP) - GAP + BOTTOM
    bottom = height - BOTTOM
    parts = _grid(axis, bottom)
    for number, (name, summary) in enumerate(shown):
        base = TOP + number * (PANEL + GAP) + PANEL
        parts += _panel(axis, name, summary, base, bound_ns)
        if earlier is not None and number == 0:
            parts.append(_outline(axis, earlier.histogram, base))
    if bound_ns is not None:
        x = axis.x(bound_ns)
        parts.append(svg.line(x, TOP - 6, x, bottom, "bound"))
        words = f"bound {svg.duration(bound_ns)}"
        parts.append(_beside(x, 12, words, "bound-label"))
    parts.append(
        svg.text(WIDTH - RIGHT, height - 4, "time since the multicast, logarithmic", "end")
    )
    return svg.drawing(WIDTH, height, parts, label)


def _axis(summaries: Sequence[Summary], bound_ns: int | None) -> _Axis:
    filled = [b for s in summaries for b, _ in s.histogram.pairs()]
    high = max((s.most_ns for s in summaries), default=1)
    return _Axis(float(low_of(min(filled, default=0))), float(max(high, bound_ns or 0)))


def _grid(axis: _Axis, bottom: float) -> list[str]:
    parts = []
    last = -math.inf
    for value in svg.decades(axis.low, axis.high):
        x, words = axis.x(value), svg.duration(value)
        parts.append(svg.line(x, TOP - 6, x, bottom, "grid"))
        if x - last >= svg.width_of(words) + 8:
            parts.append(svg.text(x, bottom + 14, words, "middle"))
            last = x
    return parts


def _panel(
    axis: _Axis, name: str, summary: Summary, base: float, bound_ns: int | None
) -> list[str]:
    histogram = summary.histogram
    tallest = max(histogram.counts)
    parts = [
        svg.text(0, base - PANEL + 12, name, class_="strong"),
        svg.text(0, base - PANEL + 28, f"{summary.count:,}"),
        svg.line(LEFT, base, WIDTH - RIGHT, base, "axis"),
    ]
    for bucket, number in histogram.pairs():
        low, high = low_of(bucket), low_of(bucket + 1)
        x1, x2 = axis.x(low), axis.x(high)
        tall = _height(number, tallest)
        late = bound_ns is not None and low > bound_ns
        words = f"{svg.duration(low)} to {svg.duration(high)}: {number:,}"
        parts.append(
            svg.element(
                "rect",
                svg.title(words),
                x=x1,
                y=base - tall,
                width=max(1.0, x2 - x1 - 0.6),
                height=tall,
                class_="late" if late else "bar",
            )
        )
    x, top = axis.x(max(1, histogram.most_ns)), base - PANEL + 6
    parts.append(svg.line(x, top, x, base, "maximum"))
    parts.append(_beside(x, top + 4, f"max {svg.duration(histogram.most_ns)}", "maximum-label"))
    return parts


def _height(number: int, tallest: int) -> float:
    """Logarithmic, so that the one that was late is seen beside a million that were not."""
    return max(2.0, (PANEL - 20) * math.log1p(number) / math.log1p(tallest))


def _outline(axis: _Axis, histogram: Histogram, base: float) -> str:
    tallest = max(histogram.counts)
    path: list[str] = []
    before = -1
    for bucket, number in histogram.pairs():
        y = base - _height(number, tallest)
        start, end = axis.x(low_of(bucket)), axis.x(low_of(bucket + 1))
        if bucket != before + 1:
            path.append(f"M{start:.1f},{base:.1f}")
        path.append(f"L{start:.1f},{y:.1f} L{end:.1f},{y:.1f}")
        if not _filled(histogram, bucket + 1):
            path.append(f"L{end:.1f},{base:.1f}")
        before = bucket
    return svg.element("path", svg.title("earlier run"), d=" ".join(path), class_="earlier")


def _filled(histogram: Histogram, bucket: int) -> bool:
    return bucket < len(histogram.counts) and histogram.counts[bucket] > 0


def _beside(x: float, y: float, words: str, class_: str) -> str:
    """To the side of a mark where there is room."""
    if x + 6 + svg.width_of(words) > WIDTH - RIGHT:
        return svg.text(x - 6, y, words, "end", class_)
    return svg.text(x + 6, y, words, "start", class_)
