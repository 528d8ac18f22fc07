"""What the audience sees: a live picture in a terminal, lines elsewhere, nothing for machines."""

from __future__ import annotations

import time
from typing import Protocol, Self

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shmcast.cli.demo.scene import BoxScene, GroupScene, Scene
from shmcast.cli.manage import copies_text
from shmcast.cli.output import millis

_PLAIN_EVERY_S = 2.0
_BAR_WIDTH = 32


class Audience(Protocol):
    def announce(self, title: str) -> None: ...
    def tell(self, outcome: str) -> None: ...
    def picture(self, scene: Scene) -> None: ...
    def working(self, what: str, done: int, total: int) -> None:
        """Something takes a while. `total` 0: nobody knows how long; an empty text: it is over."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class Silence:
    """For --json."""

    def announce(self, title: str) -> None:
        pass

    def tell(self, outcome: str) -> None:
        pass

    def picture(self, scene: Scene) -> None:
        pass

    def working(self, what: str, done: int, total: int) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Lines(Silence):
    """Without a terminal."""

    def __init__(self, acts: int) -> None:
        self._start = self._last = time.monotonic()
        self._acts, self._act = acts, 0
        self._working = ""

    def _say(self, text: str) -> None:
        typer.echo(f"{time.monotonic() - self._start:6.1f} s  {text}")

    def announce(self, title: str) -> None:
        self._act += 1
        self._say(f"▶ {self._act}/{self._acts} {title}")

    def tell(self, outcome: str) -> None:
        self._say(f"  {outcome}")

    def working(self, what: str, done: int, total: int) -> None:
        if what and what != self._working:
            self._say(f"  {what} …")
        self._working = what

    def picture(self, scene: Scene) -> None:
        if time.monotonic() - self._last >= _PLAIN_EVERY_S:
            self._last = time.monotonic()
            for box in scene.boxes:
                self._say(f"    {_box_line(box)}")
            for group in scene.groups:
                self._say(f"    {_group_line(group)}")


def _box_line(box: BoxScene) -> str:
    row = box.row
    order = "one order" if box.one_order else "ORDER BROKEN"
    send = f"{millis(row.send_worst_ns)}/{millis(row.send_bound_ns)}"
    delivery = f"{millis(row.delivery_worst_ns)}/{millis(row.delivery_bound_ns)}"
    return (
        f"{box.name}: copies {row.intact}/{len(row.copies)}, sent/s {row.sent_per_s:.0f}, "
        f"recv/s {row.received_per_s:.0f}, {order} ({box.agreed:,}), "
        f"worst/bound: send {send}, delivery {delivery}"
    )


def _group_line(group: GroupScene) -> str:
    standing = group.standing
    order = "one order" if group.one_order else "ORDER BROKEN"
    return (
        f"{standing.group}: replicas {sum(standing.alive.values())}/{len(standing.alive)}, "
        f"leader {standing.leader or 'none'}, delivered/s {group.delivered_per_s:.0f}, "
        f"{order} ({group.agreed:,})"
    )


class Picture(Silence):
    """In a terminal. The part that moves is drawn by a thread, so it moves while we wait."""

    def __init__(self, out: Console, acts: int) -> None:
        self._acts_to_come = acts
        self._acts: list[tuple[str, str]] = []
        self._scene: Scene | None = None
        self._working: tuple[str, int, int] = ("", 0, 0)
        self._since = time.monotonic()
        self._live = Live(
            console=out, refresh_per_second=8, transient=False, get_renderable=self._draw
        )

    def announce(self, title: str) -> None:
        self._acts = [*self._acts, (title, "")]

    def tell(self, outcome: str) -> None:
        self._acts = [*self._acts[:-1], (self._acts[-1][0], outcome)]

    def picture(self, scene: Scene) -> None:
        self._scene = scene

    def working(self, what: str, done: int, total: int) -> None:
        if what != self._working[0]:
            self._since = time.monotonic()
        self._working = (what, done, total)

    def _draw(self) -> RenderableType:
        parts: list[RenderableType] = [self._act_line(n) for n in range(len(self._acts))]
        if self._scene is not None:
            parts += [Text(), _boxes(self._scene), Text(), _groups(self._scene)]
        if self._working[0]:
            parts += [Text(), self._bar()]
        return Group(*parts)

    def _act_line(self, index: int) -> Text:
        title, outcome = self._acts[index]
        is_now = index == len(self._acts) - 1
        line = Text(no_wrap=not is_now, overflow="ellipsis")
        line.append(f"{index + 1}/{self._acts_to_come} ", style="dim")
        line.append("▶ " if is_now else "✓ ", style="yellow" if is_now else "green")
        line.append(title, style="bold" if is_now else "")
        if outcome:
            line.append(f": {outcome}", style="green" if is_now else "dim")
        return line

    def _bar(self) -> RenderableType:
        what, done, total = self._working
        bar = ProgressBar(
            total=total or None, completed=done, width=_BAR_WIDTH, pulse=not total,
            animation_time=time.monotonic(),
        )  # fmt: skip
        row = Table.grid(padding=(0, 1))
        row.add_row(bar, Text(what), Text(f"{time.monotonic() - self._since:.0f} s", style="dim"))
        return row

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._working = ("", 0, 0)
        self._live.stop()


def _table(*columns: str) -> Table:
    """The first two columns hold words, the others figures."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, title in enumerate(columns):
        table.add_column(title, justify="left" if number < 2 else "right", no_wrap=True)
    return table


def _order(one: bool, checked: int) -> Text:
    return Text(f"✓ {checked:,}" if one else "BROKEN", style="green" if one else "bold red")


def _short(ns: int) -> str:
    return millis(ns).replace(" ", "")


def _against(worst_ns: int, bound_ns: int) -> Text:
    return Text(
        f"{_short(worst_ns)}/{_short(bound_ns)}", style="yellow" if worst_ns > bound_ns else ""
    )


def _boxes(scene: Scene) -> Table:
    titles = ("sent/s", "recv/s", "one order", "send/bound", "deliv/bound")
    table = _table("mailbox", "copies", "tx", "rx", *titles)
    for box in scene.boxes:
        row = box.row
        lost = row.intact < len(row.copies)
        table.add_row(
            Text(box.name, style="bold"),
            Text(copies_text(row.copies), style="red" if lost else "green"),
            str(row.senders),
            str(row.receivers),
            f"{row.sent_per_s:,.0f}",
            f"{row.received_per_s:,.0f}",
            _order(box.one_order, box.agreed),
            _against(row.send_worst_ns, row.send_bound_ns),
            _against(row.delivery_worst_ns, row.delivery_bound_ns),
        )
    return table


def _groups(scene: Scene) -> Table:
    table = _table("group", "replicas", "leader", "deliv/s", "one order")
    for group in scene.groups:
        standing = group.standing
        dots = "".join("●" if alive else "○" for alive in standing.alive.values())
        table.add_row(
            Text(standing.group, style="bold"),
            Text(dots, style="green" if all(standing.alive.values()) else "red"),
            Text(standing.leader or "none", style="" if standing.leader else "red"),
            f"{group.delivered_per_s:,.0f}",
            _order(group.one_order, group.agreed),
        )
    return table
