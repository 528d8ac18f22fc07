"""What ``shmcast top`` shows, and what its keys do. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from shmcast.cli.manage import copies_text
from shmcast.cli.output import millis
from shmcast.cli.sampling import Row

_FRAME_LINES = 3  # summary, head of the table, keys
_NAME_WIDTH = 14
_COLUMNS = (
    ("mailbox", "left"),
    ("copies", "left"),
    ("tx", "right"),
    ("rx", "right"),
    ("sent/s", "right"),
    ("recv/s", "right"),
    ("depth", "right"),
    ("rej", "right"),
    ("send/bound", "right"),  # the worst ever, against what is promised
    ("deliv/bound", "right"),
)
_LEAST_IMPORTANT = ("rej", "depth", "tx", "rx", "recv/s", "send/bound", "copies")
_KEYS = "↑↓ PgUp PgDn move   s sort   r reverse   / filter   q quit"


class Sort(enum.StrEnum):
    rate = "rate"
    name = "name"
    depth = "depth"
    copies = "copies"  # most lost ones first
    worst = "worst"  # nearest to a bound first


@dataclass(slots=True)
class State:
    sort: Sort = Sort.rate
    filter: str = ""
    reverse: bool = False
    offset: int = 0
    is_typing: bool = False  # a filter
    quit: bool = False

    def press(self, key: str, count: int, height: int) -> None:
        page = max(1, height - _FRAME_LINES - 1)
        if self.is_typing:
            self._type(key)
            return
        moves = {"up": -1, "down": 1, "page-up": -page, "page-down": page, " ": page, "b": -page,
                 "home": -count, "end": count}  # fmt: skip
        if key in moves:
            self.offset = max(0, min(self.offset + moves[key], count - page))
        elif key == "s":
            every = list(Sort)
            self.sort = every[(every.index(self.sort) + 1) % len(every)]
        elif key == "r":
            self.reverse = not self.reverse
        elif key == "/":
            self.is_typing, self.filter = True, ""
        elif key == "escape":
            self.filter = ""
        elif key == "q":
            self.quit = True
        if key in "sr/":
            self.offset = 0

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.is_typing = False
            if key == "escape":
                self.filter = ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1:
            self.filter += key


def selected(rows: list[Row], state: State) -> list[Row]:
    """Filtered and sorted; names break ties, so that lines do not dance."""
    wanted = sorted(
        (row for row in rows if state.filter.lower() in row.name.lower()), key=lambda row: row.name
    )
    if state.sort is not Sort.name:
        wanted.sort(key=lambda row: _weight(row, state.sort), reverse=True)
    return wanted[::-1] if state.reverse else wanted


def _weight(row: Row, sort: Sort) -> float:
    if sort is Sort.rate:
        return round(row.sent_per_s, -2)
    if sort is Sort.depth:
        return row.depth
    if sort is Sort.copies:
        return len(row.copies) - row.intact
    return max(
        row.send_worst_ns / max(1, row.send_bound_ns),
        row.delivery_worst_ns / max(1, row.delivery_bound_ns),
    )


def picture(
    rows: list[Row], errors: dict[str, str], state: State, width: int, height: int | None
) -> RenderableType:
    """At most `height` lines. None: everything, without what belongs to a live view."""
    found = selected(rows, state)
    notes = [Text(f"{name}: {text}", style="red") for name, text in errors.items()]
    if not rows and not errors:
        notes.append(Text("there is no mailbox here; make one with: shmcast create NAME"))
    elif not found and rows:
        notes.append(Text(f"no name contains {state.filter!r}"))
    if height is None:
        return Group(_table(found, width), *notes)
    notes = notes[: max(0, height - _FRAME_LINES - 1)]
    room = max(1, height - _FRAME_LINES - len(notes))
    offset = max(0, min(state.offset, len(found) - room))
    shown = found[offset : offset + room]
    return Group(_summary(rows), _table(shown, width), *notes, _status(state, offset, shown, found))


def _summary(rows: list[Row]) -> Text:
    lost = sum(len(row.copies) - row.intact for row in rows)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{len(rows)} mailboxes", style="bold")
    text.append(f"   {sum(r.received_per_s for r in rows):,.0f} deliveries/s   ")
    text.append(f"{lost} {'copy' if lost == 1 else 'copies'} lost", style="red" if lost else "dim")
    return text


def _status(state: State, offset: int, shown: list[Row], found: list[Row]) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    if state.is_typing:
        text.append(f"filter: {state.filter}█")
        return text
    if len(shown) < len(found):
        text.append(f"{offset + 1}–{offset + len(shown)} of {len(found)}   ")
    text.append(f"by {state.sort.value}{' reversed' if state.reverse else ''}   ")
    if state.filter:
        text.append(f"filter: {state.filter}   ", style="yellow")
    text.append(_KEYS, style="dim")
    return text


def _table(rows: list[Row], width: int) -> Table:
    """Figures are never cut: where there is no room columns go, the least important first; what is
    left is for names."""
    cells = [_cells(row) for row in rows]
    titles = [title for title, _ in _COLUMNS]
    widths = {
        title: max([len(title), *(cell_len(str(row[n])) for row in cells)])
        for n, title in enumerate(titles)
    }
    shown = list(titles)
    for title in _LEAST_IMPORTANT:
        if _room_for_names(shown, widths, width) >= _NAME_WIDTH:
            break
        shown.remove(title)
    name_width = max(1, min(widths["mailbox"], _room_for_names(shown, widths, width)))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for title, side in _COLUMNS:
        if title in shown:
            own = name_width if title == "mailbox" else widths[title]
            justify: JustifyMethod = "right" if side == "right" else "left"
            table.add_column(title, justify=justify, no_wrap=True, width=own)
    for row in cells:
        table.add_row(*(cell for title, cell in zip(titles, row, strict=True) if title in shown))
    return table


def _room_for_names(shown: list[str], widths: dict[str, int], width: int) -> int:
    return width - sum(widths[title] + 1 for title in shown if title != "mailbox") - 1


def _cells(row: Row) -> list[str | Text]:
    lost = row.intact < len(row.copies)
    return [
        row.name,
        Text(copies_text(row.copies), style="red" if lost else "green"),
        str(row.senders),
        str(row.receivers),
        f"{row.sent_per_s:,.0f}",
        f"{row.received_per_s:,.0f}",
        f"{row.depth:,}",
        str(row.rejected),
        _against(row.send_worst_ns, row.send_bound_ns),
        _against(row.delivery_worst_ns, row.delivery_bound_ns),
    ]


def _against(worst_ns: int, bound_ns: int) -> Text:
    style = "red" if worst_ns > bound_ns else ""
    return Text(f"{millis(worst_ns)}/{millis(bound_ns)}".replace(" ", ""), style=style)


def plain(row: Row) -> str:
    """One line per mailbox, for pipes and logs."""
    return (
        (
            f"{row.name} copies={row.intact}/{len(row.copies)} tx={row.senders} rx={row.receivers} "
            f"sent/s={row.sent_per_s:.0f} recv/s={row.received_per_s:.0f} depth={row.depth} "
            f"rejected={row.rejected} "
            f"send={millis(row.send_worst_ns)}/{millis(row.send_bound_ns)} "
            f"delivery={millis(row.delivery_worst_ns)}/{millis(row.delivery_bound_ns)}"
        )
        .replace(" µs", "µs")
        .replace(" ms", "ms")
        .replace(" s", "s")
    )
