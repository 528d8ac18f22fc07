"""up and down, at a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from support.terminal import at_a_terminal

# The bar comes at once, not when a second has passed.
IMPATIENT = """
import functools, sys
from shmcast.cli import cluster
cluster.progress = functools.partial(cluster.progress, after_s=0.0)
from shmcast.cli.main import main
main()
"""


def test_starting_and_ending_a_cluster_shows_how_far_it_is(name: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(f'[cluster]\nname = "{name}"\n[groups]\ng1 = ["a"]\n')
    for words, shown in ((["up", "-d"], "starting"), (["down"], "ending")):
        command = [sys.executable, "-c", IMPATIENT, *words, "cluster.toml"]
        with at_a_terminal(command, tmp_path) as session:
            seen = session.rest()
            assert session.process.returncode == 0, seen
            assert f"{shown} {name} on local" in seen and "/1" in seen
