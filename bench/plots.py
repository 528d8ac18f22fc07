"""Lines over a number, and bars of peers, as small SVGs. Needs matplotlib, of the extra `bench`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


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


_COLOURS = {True: "#2469b3", False: "#9aa6b5"}
_SCALES = {"ns": (1000.0, "µs, less is better"), "messages/s": (1e6, "million/s")}


def draw(rows: list[dict[str, Any]], stem: Path) -> list[str]:
    """Every question of a run: a bar per peer, with the least and most of its repetitions.
    Returns what was written: nothing without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no plots: pip install matplotlib", file=sys.stderr)
        return []
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["median"] and row["question"] != "counters":
            panels.setdefault(f"{row['question']}: {row['case']}", []).append(row)
    panels = {title: found for title, found in panels.items() if len(found) > 1}
    if not panels:
        return []
    path = stem.with_suffix(".svg")
    _bars(path, panels)
    return [path.suffix]


def _bars(path: Path, panels: Mapping[str, list[dict[str, Any]]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = path.name
    from matplotlib import pyplot

    heights = [0.6 + 0.24 * len(found) for found in panels.values()]
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(7.5, sum(heights)), squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )  # fmt: skip
    for axis, (title, found) in zip(axes[:, 0], panels.items(), strict=True):
        unit, words = _SCALES.get(found[0]["unit"], (1.0, found[0]["unit"]))
        middle = [row["median"] / unit for row in found]
        spread = [
            [m - row["least"] / unit for m, row in zip(middle, found, strict=True)],
            [row["most"] / unit - m for m, row in zip(middle, found, strict=True)],
        ]
        axis.barh(
            [row["peer"] for row in found], middle, xerr=spread, height=0.7,
            color=[_COLOURS[row["copies"] > 0] for row in found],
            error_kw={"elinewidth": 1, "capsize": 2, "ecolor": "#1b2330"},
        )  # fmt: skip
        axis.set_title(f"{title} ({words})", loc="left", fontsize="small")
        axis.tick_params(labelsize="x-small")
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
