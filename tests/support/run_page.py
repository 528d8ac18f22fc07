"""Runs the blocks of one page: ``python run_page.py PAGE DIRECTORY own|shared [--up-to HEADING]``.

With `own`, as the first process of namespaces of its own: then names in shared memory and ports are
nobody else's, whatever is left there is the page's, no process outlives it, and no page can need a
network.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.pages import Block, Step, blocks, missing_lines, steps

STEP_TIMEOUT_S = 400  # Spark takes its time on a busy machine
SHM = Path("/dev/shm")


def run(step: Step, directory: Path, number: int) -> str:
    """Empty, or what went wrong."""
    if step.language == "python":
        (directory / f"block{number}.py").write_text(step.text)
        command = [sys.executable, f"block{number}.py"]
    else:
        command = ["bash", "-euo", "pipefail", "-c", step.text]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "120",
        "PYTHONUNBUFFERED": "1",
    }
    with (directory / f"printed{number}").open("w+") as out:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(STEP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = -signal.SIGALRM
        kill(process.pid)  # what it left in the background
        out.seek(0)
        printed = out.read()
    if code:
        return f"exit {code} of:\n{step.text}\n{printed}"
    missing = missing_lines(step.prints, printed)
    return f"not printed: {missing} by:\n{step.text}\n{printed}" if missing else ""


def kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def run_page(text: str, directory: Path) -> list[str]:
    for number, step in enumerate(steps(blocks(text))):
        if isinstance(step, Block):
            (directory / step.title).write_text(step.text)
        elif wrong := run(step, directory, number):
            return [wrong]
    return []


def main() -> int:
    page, directory, memory, *rest = sys.argv[1:]
    text = Path(page).read_text()
    if rest:
        text, found, _ = text.partition(f"\n{rest[1]}")
        assert found, f"{page} has no {rest[1]}"
    if memory == "own":
        subprocess.run(["mount", "-t", "tmpfs", "shmcast-docs", str(SHM)], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    wrong = run_page(text, Path(directory))
    if memory == "own" and not wrong:
        wrong = [f"left behind: {path.name}" for path in SHM.iterdir()]
    print(*wrong, sep="\n", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
