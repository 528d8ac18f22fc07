"""run.json: what was run, by whom, and what it promises."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shmcast.errors import Corrupt, Incompatible
from shmcast.multicast.traces.schema import VERSION

FILE = "run.json"


@dataclass(frozen=True)
class RunInfo:
    """Processes that are in no group are clients; those that come later need not be listed."""

    run: str
    protocol: str
    groups: tuple[tuple[int, ...], ...]
    clients: tuple[int, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)  # of processes
    promises: tuple[str, ...] = ()  # names of checks/table.py
    bound_ns: int | None = None  # Δ
    started: str = ""  # wall clock, ISO
    meta: Mapping[str, str] = field(default_factory=dict)
    version: int = VERSION

    @property
    def members(self) -> frozenset[int]:
        return frozenset(p for group in self.groups for p in group)

    def write(self, directory: str | Path) -> None:
        """Creates the directory and the file. Whoever comes second leaves the first one's."""
        run = Path(directory)
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = run / f".{FILE}.{os.getpid()}.{threading.get_ident()}"
        beside.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        try:
            with contextlib.suppress(FileExistsError):
                os.link(beside, run / FILE)
        finally:
            beside.unlink()

    @classmethod
    def read(cls, directory: str | Path) -> RunInfo:
        path = Path(directory) / FILE
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            version = found["version"]
        except FileNotFoundError:
            raise FileNotFoundError(
                f"no recorded run in {directory}: it has no {FILE}; name the directory that has"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, error) from None
        if version != VERSION:
            raise Incompatible(
                f"{path}: a run of version {version}, and this program reads version {VERSION}: "
                "read it with the shmcast that wrote it"
            )
        try:
            return _parsed(found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(path, error) from None


def _parsed(found: dict[str, Any]) -> RunInfo:
    bound = found.get("bound_ns")
    return RunInfo(
        run=str(found["run"]),
        protocol=str(found["protocol"]),
        groups=tuple(tuple(int(p) for p in group) for group in found["groups"]),
        clients=tuple(int(p) for p in found.get("clients", ())),
        names={int(p): str(name) for p, name in found.get("names", {}).items()},
        promises=tuple(str(name) for name in found.get("promises", ())),
        bound_ns=None if bound is None else int(bound),
        started=str(found.get("started", "")),
        meta={str(k): str(v) for k, v in found.get("meta", {}).items()},
    )


def _damaged(path: Path, error: Exception) -> Corrupt:
    return Corrupt(f"{path} describes no run ({type(error).__name__}: {error}): restore the file")
