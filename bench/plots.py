"""Lines over a number (with matplotlib, of the extra `bench`), and bars of peers, as small SVGs.

python -m bench.plots RESULT.json    draws the bars of a stored result again, beside it
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shmcast.pipeline.report import svg


def lines(
    path: Path,
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]],
    *,
    x: str,
    y: str,
    log: bool = False,
) -> None:
    """One panel per title, one line per name. The same figures give the same file."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = path.name
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.2), squeeze=False)
    for axis, (title, series) in zip(axes[0], panels.items(), strict=True):
        for name, points in series.items():
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        axis.set(title=title, xlabel=x, ylabel=y)
        if log:
            axis.set_yscale("symlog", linthresh=0.01)
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False, fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


_SCALES = {"ns": (1000.0, "µs, less is better"), "messages/s": (1e6, "million/s")}
_LEFT, _WIDTH, _RIGHT, _BAR, _HEAD, _FOOT = 190, 480, 20, 17, 24, 30
_STYLE = """
text { font: 11px system-ui, sans-serif; fill: #1b2330; } .title { font-size: 12px; }
.axis, .grid, .spread { stroke: #1b2330; } .grid { opacity: .12; } .other { fill: #9aa6b5; }
.ours { fill: #2469b3; } .paper { fill: #fff; }
@media (prefers-color-scheme: dark) {
  text { fill: #dfe5ee; } .axis, .grid, .spread { stroke: #dfe5ee; } .paper { fill: #11151b; }
  .ours { fill: #5c9ee6; } .other { fill: #5d6877; }
}
"""


def draw(rows: list[dict[str, Any]], stem: Path) -> list[str]:
    """Every question of a run: a bar per peer, with the least and most of its repetitions.
    Returns what was written."""
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["median"] and row["question"] != "counters":
            panels.setdefault(f"{row['question']}: {row['case']}", []).append(row)
    panels = {title: found for title, found in panels.items() if len(found) > 1}
    if not panels:
        return []
    parts, top = [svg.element("style", _STYLE)], 0
    height = sum(_HEAD + _BAR * len(found) + _FOOT for found in panels.values())
    width = _LEFT + _WIDTH + _RIGHT
    parts.append(svg.element("rect", width=width, height=height, class_="paper"))
    for title, found in panels.items():
        parts += _panel(title, found, top)
        top += _HEAD + _BAR * len(found) + _FOOT
    path = stem.with_suffix(".svg")
    path.write_text(svg.drawing(width, height, parts, "shmcast beside its peers") + "\n")
    return [path.suffix]


def _panel(title: str, found: list[dict[str, Any]], top: int) -> Iterator[str]:
    unit, words = _SCALES.get(found[0]["unit"], (1.0, found[0]["unit"]))
    most = max(row["most"] for row in found) / unit
    base = top + _HEAD + _BAR * len(found)

    def x(value: float) -> float:
        return _LEFT + _WIDTH * value / most

    yield svg.text(_LEFT, top + 16, f"{title} ({words})", class_="title")
    for value in svg.ticks(0, most, 5):
        yield svg.line(x(value), top + _HEAD, x(value), base, "grid" if value else "axis")
        yield svg.text(x(value), base + 14, f"{value:g}", "middle")
    for number, row in enumerate(found):
        y = top + _HEAD + _BAR * number
        length = x(row["median"] / unit) - _LEFT
        whose = "ours" if row["copies"] > 0 else "other"
        yield svg.text(_LEFT - 6, y + 12, row["peer"], "end")
        yield svg.element("rect", x=_LEFT, y=y + 2, width=length, height=_BAR - 4, class_=whose)
        least, middle = x(row["least"] / unit), y + _BAR / 2
        yield svg.line(least, middle, x(row["most"] / unit), middle, "spread")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw(json.loads(Path(name).read_text())["rows"], Path(name))
