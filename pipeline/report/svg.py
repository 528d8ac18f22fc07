"""A little SVG: elements with their text escaped, colours by class, scales with readable ticks.

Colours are left to the page's style sheet, so that one drawing serves dark, light and paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

CHARACTER_PX = 6.2  # of the 11 px font, on average: to know which labels would touch


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """`content` is markup already: text goes through `text` or `title`."""
    told = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{told}>{content}</{tag}>" if content else f"<{tag}{told}/>"


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(x: float, y: float, words: str, /, anchor: str = "start", class_: str = "label") -> str:
    return element("text", escape(words) or " ", x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def title(words: str) -> str:
    return element("title", escape(words))


def drawing(width: float, height: float, parts: Iterable[str], label: str) -> str:
    return element(
        "svg",
        "\n".join(parts),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="img",
        aria_label=label,
    )


def width_of(words: str) -> float:
    return CHARACTER_PX * len(words)


def duration(ns: float) -> str:
    """Three figures, in the unit that people would use."""
    if ns == 0:
        return "0"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= size:
            return f"{_three(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def _three(value: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    shown = f"{value:.{digits}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def count(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 10 * size or (value >= size and value % size == 0):
            return f"{_three(value / size)}{unit}"
    return _three(value) if value else "0"


def ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten inside [low, high]."""
    if high <= low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten; with 2 and 5 where they would be few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    found = [f * 10.0**e for e in range(first, last + 1) for f in factors]
    return [value for value in found if low <= value <= high]
