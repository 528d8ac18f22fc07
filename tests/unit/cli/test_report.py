"""report: what the page says, and how it looks in a browser."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shmcast.multicast.checks.trace import CRASH, TraceEvent
from shmcast.multicast.traces.generate import generate
from shmcast.multicast.traces.schema import life_directory, table_of
from shmcast.multicast.traces.writer import write_table
from shmcast.pipeline.rates import Rates
from shmcast.pipeline.report.throughput import throughput

SECTIONS = ("Verdict", "Throughput", "Delivery times", "Space and time", "Against the run")
WIDTHS = (1100, 420)  # a screen, and a telephone
BACKS = {"light": (0xF6, 0xF7, 0xF9), "dark": (0x11, 0x15, 0x1B)}


def a_run(folder: Path, **options: Any) -> Path:
    """A generated one, in which a process of the first group dies in the middle."""
    info = generate(folder, messages=400, **options)
    witnessed = TraceEvent(-1, 200_000_000, 200_000_000, 0, 0, 1 << 62, CRASH, detail="SIGKILL")
    life = life_directory(folder, info.groups[0][0], 0)
    write_table(life / "witness-8-00000.parquet", table_of([witnessed]))
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    from typer.testing import CliRunner

    from shmcast.cli.main import app

    now, earlier = a_run(folder / "now"), a_run(folder / "earlier", seed=5)
    result = CliRunner().invoke(app, ["report", str(now), "--against", str(earlier)])
    assert result.exit_code == 0, result.output
    return now / "report.html"


def test_the_page_has_everything_and_fetches_nothing(page: Path) -> None:
    text = page.read_text()
    for section in SECTIONS:
        assert f"<h2>{section}" in text
    for wanted in ('class="bound"', "max ", 'class="fault"', "prefers-color-scheme: dark"):
        assert wanted in text
    for fetching in ("http://", "https://", "<script", "<link", "url(", "@import"):
        assert fetching not in text.replace("http://www.w3.org/2000/svg", "").replace(
            "url(#tip)", ""
        )


def test_a_broken_promise_is_seen_and_has_its_exit_code(run: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    generate(broken, messages=200, break_="twice")
    result = run("report", str(broken), "--out", str(tmp_path / "page.html"))
    assert result.exit_code == 1
    assert 'class="verdict violated"' in (tmp_path / "page.html").read_text()


def test_groups_are_called_by_what_their_members_have_in_common(run: Any, tmp_path: Path) -> None:
    info = generate(tmp_path / "run", messages=50)
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    described["names"] = {
        str(p): f"shard{g}.{n}" for g, group in enumerate(info.groups) for n, p in enumerate(group)
    }
    (tmp_path / "run" / "run.json").write_text(json.dumps(described))
    assert run("report", str(tmp_path / "run")).exit_code == 0
    text = (tmp_path / "run" / "report.html").read_text()
    assert "<td>shard0</td>" in text and "group 0" not in text


def test_an_axis_is_labelled_in_one_way() -> None:
    drawn = throughput(Rates(0, 10**9, (1600,), {0: (1600,)}), [], {})
    assert [label for label in ("500", "1,000", "1,500") if f">{label}<" not in drawn] == []
    assert ">1k<" not in drawn


def test_the_time_of_a_fault_is_marked_though_no_process_had_it(page: Path) -> None:
    _, _, pictures = page.read_text().partition("<h2>Space and time")
    assert "time since the fault" in pictures and 'class="fault"' in pictures


# ---- in a browser ----


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no browser to look at the page with: tools/checkers installs one")
    return found


def browse(chromium: str, page: Path, tmp_path: Path, *options: str) -> str:
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--hide-scrollbars", f"--user-data-dir={tmp_path / 'profile'}", *options,
        page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


class Picture(NamedTuple):
    width: int
    height: int
    pixels: list[bytes]  # rows, 3 or 4 bytes a pixel
    depth: int

    def at(self, x: int, y: int) -> tuple[int, ...]:
        return tuple(self.pixels[y][x * self.depth : x * self.depth + 3])


def read_png(path: Path) -> Picture:
    """As much of the format as screenshots have: 8 bits, not interlaced."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, head = 8, b"", b""
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        packed += body if kind == b"IDAT" else b""
        head = body if kind == b"IHDR" else head
        at += size + 12
    width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", head)
    assert (bits, interlaced) == (8, 0)
    depth = {2: 3, 6: 4}[colour]
    raw = zlib.decompress(packed)
    rows: list[bytes] = []
    before = bytes(width * depth)
    for y in range(height):
        start = y * (width * depth + 1)
        line = bytearray(raw[start + 1 : start + 1 + width * depth])
        _unfilter(raw[start], line, before, depth)
        before = bytes(line)
        rows.append(before)
    return Picture(width, height, rows, depth)


def _unfilter(kind: int, line: bytearray, above: bytes, depth: int) -> None:
    for i in range(len(line)):
        left = line[i - depth] if i >= depth else 0
        up, corner = above[i], above[i - depth] if i >= depth else 0
        guess = left + up - corner
        paeth = min((left, up, corner), key=lambda value: abs(guess - value))
        line[i] = (line[i] + (0, left, up, (left + up) // 2, paeth)[kind]) & 255


@pytest.mark.parametrize("scheme", BACKS)
def test_a_screenshot_is_light_or_dark_and_shows_the_page(
    chromium: str, page: Path, tmp_path: Path, scheme: str
) -> None:
    shot = tmp_path / "shot.png"
    dark = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]
    options = [f"--screenshot={shot}", "--window-size=700,500", *(dark if scheme == "dark" else [])]
    browse(chromium, page, tmp_path, *options)
    picture = read_png(shot)
    assert (picture.width, picture.height) == (700, 500)
    assert picture.at(1, 1) == BACKS[scheme]
    shown = {picture.at(x, y) for x in range(0, 700, 3) for y in range(0, 500, 3)}
    assert len(shown) > 20  # text, tiles and the verdict's colour are there


MEASURE = """
<script>
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const out = [...document.querySelectorAll("svg:not(.defs)")].flatMap(svg => {
  const box = svg.viewBox.baseVal;
  return [...svg.querySelectorAll("text")].filter(text => {
    const b = text.getBBox();
    return b.x < -1 || b.y < -1 || b.x + b.width > box.width + 1 || b.y + b.height > box.height + 1;
  }).map(text => text.textContent);
});
document.body.dataset.found = JSON.stringify({wide, out});
</script>
</body>"""


def hanging_over(chromium: str, text: str, tmp_path: Path, width: int) -> dict[str, Any]:
    measured = tmp_path / "measured.html"
    measured.write_text(text.replace("</body>", MEASURE))
    dom = browse(chromium, measured, tmp_path, "--dump-dom", f"--window-size={width},900")
    told = dom.partition('data-found="')[2].partition('"')[0].replace("&quot;", '"')
    found: dict[str, Any] = json.loads(told)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_hangs_over_an_edge(chromium: str, page: Path, tmp_path: Path, width: int) -> None:
    assert hanging_over(chromium, page.read_text(), tmp_path, width) == {"wide": 0, "out": []}


def test_what_hangs_over_would_be_noticed(chromium: str, page: Path, tmp_path: Path) -> None:
    cut = page.read_text().replace('viewBox="0 0 760 ', 'viewBox="0 0 500 ')
    found = hanging_over(chromium, cut.replace("<h2>", "<h2 style='width:3000px'>"), tmp_path, 1100)
    assert found["wide"] > 0 and found["out"]
