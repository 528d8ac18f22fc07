"""Lines over a number, as a small SVG. Needs matplotlib, of the extra `bench`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


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
