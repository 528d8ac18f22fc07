"""The table of README.md out of a stored result, between two markers.

    python -m bench.readme [RESULT.json]    writes it; default: the newest of bench/results
    python -m bench.readme --check          exit code 1 if README.md says something else

A ratio compares medians over the repetitions; its spread is that of the same ratio within each
repetition, in which everybody ran on the same cores, one after the other.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.targets import BATCHED, ONE, SINGLE, THREE, Results

README = Path(__file__).parents[1] / "README.md"
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- speed: written by `python -m bench.readme` -->", "<!-- /speed -->"


@dataclass(frozen=True)
class Line:
    """One line of the table: our case, and those of the peers that it is compared with."""

    words: str
    question: str
    case: str
    ours: str
    against: tuple[str, ...]
    unit: str = "messages/s"


def _rates(words: str, question: str) -> list[Line]:
    every = (SINGLE, BATCHED)  # a peer may send as it is fastest
    return [
        Line(f"{words}, single sends", question, SINGLE, THREE, every),
        Line(f"{words}, batches of 64", question, BATCHED, THREE, every),
    ]


def _trip(words: str, case: str) -> Line:
    return Line(f"round trip, {words}", "round trip", case, THREE, (case,), "ns")


def _frames(words: str, case: str) -> Line:
    return Line(words, "frames 1 MiB", case, ONE, (case,), "frames/s")


LINES = [
    _trip("spinning", "busy"),
    _trip("blocking, two cores", "blocking, two cores"),
    _trip("blocking, one core", "blocking, one core"),
    *_rates("stream", "stream 64 B"),
    *_rates("one to three", "fan-out 1 to 3"),
    *_rates("one to three groups, all or none", "1 to 3 groups"),
    *_rates("three to one", "fan-in 3 to 1"),
    *_rates("4 KiB", "stream 4 KiB"),
    _frames("1 MiB frames in place, 1 copy, filled", "in place, filled"),
    _frames("1 MiB frames in place, 1 copy, touched", "in place, touched"),
]


def _ratio(ours: float, theirs: float, unit: str) -> float:
    """Larger is better."""
    return theirs / ours if unit == "ns" else ours / theirs


def _spread(line: Line, runs: list[dict[str, Any]], peer: str, case: str) -> list[float]:
    """The ratio of each repetition."""

    def values(name: str, its_case: str) -> dict[int, float]:
        return {
            run["repetition"]: float(run["value"])
            for run in runs
            if (run["question"], run["case"], run["peer"]) == (line.question, its_case, name)
            and run["error"] is None
        }

    mine, other = values(line.ours, line.case), values(peer, case)
    return [_ratio(mine[n], other[n], line.unit) for n in sorted(mine.keys() & other.keys())]


def _row(line: Line, content: dict[str, Any]) -> str | None:
    """None: it was not measured."""
    results = Results(content["rows"])
    ours = results.value(line.question, line.case, line.ours)
    bests = [(results.best(line.question, [case], line.unit), case) for case in line.against]
    found = [(best[1], best[0], case) for best, case in bests if best is not None]
    if ours is None or not found:
        return None
    theirs, peer, case = min(found) if line.unit == "ns" else max(found)
    ratios = _spread(line, content["runs"], peer, case)
    spread = f"{min(ratios):.2f} – {max(ratios):.2f}" if len(ratios) > 1 else ""
    how = ", batched" if case == BATCHED else ""
    return f"| {line.words} | {_ratio(ours, theirs, line.unit):.2f} | {spread} | {peer}{how} |"


def section(content: dict[str, Any]) -> str:
    """Everything between the markers."""
    machine = content["machine"]
    found = {line.words: _row(line, content) for line in LINES}
    rows = [row for row in found.values() if row is not None]
    unknown = "; ".join(words for words, row in found.items() if row is None) or "nothing"
    missing = ", ".join(content["missing"]) or "none"
    return "\n".join(
        [
            "64 bytes unless the line says otherwise, **3 copies**, `eager`, against the best peer",
            "in the same run on the same cores (Unix sockets, multiprocessing pipes and queues,",
            "POSIX queues, pyzmq, faster-fifo, iceoryx2). Larger is better:",
            "",
            "| question | shmcast ÷ best peer | within each repetition | best peer |",
            "| --- | ---: | ---: | --- |",
            *rows,
            "",
            f"{machine['cores']} cores, {machine['processor']}, Python {machine['python']}, "
            f"{machine['date'][:10]}; missing peers: {missing}.",
            f"Not measured in that run: {unknown}.",
            f"Made by `{content['command']}`.",
        ]
    )


def newest(folder: Path = RESULTS) -> Path:
    """Of the results that have rows of peers."""
    found = [path for path in folder.glob("*cores.json") if "runs" in json.loads(path.read_text())]
    if not found:
        raise FileNotFoundError(f"no stored result in {folder}: python -m bench.run makes one")
    return max(found, key=lambda path: json.loads(path.read_text())["machine"]["date"])


def replaced(text: str, inner: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{inner}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    content = json.loads((arguments.result or newest()).read_text())
    text = README.read_text()
    wanted = replaced(text, section(content))
    if arguments.check:
        return 0 if text == wanted else 1
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
