"""A key pair per host, for the links between them: CURVE's, made and used by libzmq.

KEYS/alpha.public   to every host
KEYS/alpha.secret   to alpha only; readable by its owner only
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from shmcast.errors import Corrupt, NotPermitted

_KEY = re.compile(rb"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class KeyPair(NamedTuple):
    public: bytes
    secret: bytes


def make(directory: Path, host: str, *, replace: bool = False) -> tuple[Path, Path]:
    """Writes the two files. An existing pair stays, unless it is to be replaced."""
    import zmq

    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is no name of a host: letters, digits, _ and -, at most 40")
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    public, secret = directory / f"{host}.public", directory / f"{host}.secret"
    if not replace and (public.exists() or secret.exists()):
        raise FileExistsError(f"{host} has a key in {directory}: hand it round, or use --replace")
    ours, hidden = zmq.curve_keypair()
    _write(secret, hidden, 0o600)
    _write(public, ours, 0o644)
    return public, secret


def _write(path: Path, key: bytes, mode: int) -> None:
    """Never readable by others for a moment, never half there."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(key + b"\n")
    beside.replace(path)


def public_key(directory: Path, host: str) -> bytes:
    return _read(directory / f"{host}.public")


def key_pair(directory: Path, host: str) -> KeyPair:
    """This host's own."""
    path = directory / f"{host}.secret"
    secret = _read(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise NotPermitted(f"{path} is readable by others: chmod 600 it, or make a new pair")
    return KeyPair(public_key(directory, host), secret)


def _read(path: Path) -> bytes:
    try:
        key = path.read_bytes().strip()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is not there: make it with `shmcast keys`, and copy the .public files round"
        ) from None
    if not _KEY.fullmatch(key):
        raise Corrupt(f"{path} is no key: make it again with `shmcast keys --replace`")
    return key
