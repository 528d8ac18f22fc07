"""A clock that is wrong on purpose, in this process or, if it allows that, in another one.

A clock lies within its process: nobody else can set it, and it should stay so, because what goes
wrong beyond ε is what bounds are there for. A process that allows it listens at a socket that only
exists while the process does; whoever may kill the process may skew its clock.

The socket's name is in no file system, so a process in another network namespace is out of reach.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading

from shmcast._native import lib
from shmcast.errors import NotPermitted

VARIABLE = "SHMCAST_CLOCK_FAULT"  # OFFSET_S,DRIFT: wrong from the start, and others may change it
_REQUEST = struct.Struct("<qq")  # offset in ns, drift in ns per second
_CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: pid, user, group
_DONE, _REFUSED = b"+", b"-"
_PATIENCE_S = 5.0
_OFFSET_MAX_S = 1e9

_listening: list[socket.socket] = []  # one at most


def as_words(offset_s: float, drift: float) -> tuple[int, int]:
    """As the core takes them."""
    if not abs(offset_s) <= _OFFSET_MAX_S:
        raise ValueError(f"offset must be within ±{_OFFSET_MAX_S:.0g} s, not {offset_s}")
    if not -1 <= drift < 1:
        raise ValueError(f"drift must be between -1 (it stands still) and 1 s/s, not {drift}")
    return int(offset_s * 1e9), int(drift * 1e9)


def skew_clock(offset_s: float = 0.0, drift: float = 0.0) -> None:
    """This process's protocol clock: ahead by `offset_s`, and gaining `drift` seconds a second."""
    lib.sc_clock_fault(*as_words(offset_s, drift))


def allow_skew() -> None:
    """Lets processes of the same user, and root, skew this process's protocol clock. For drills:
    nothing listens in a process that has not called this."""
    if _listening:
        return
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listening.bind(_address(os.getpid()))
        listening.listen()
    except BaseException:
        listening.close()
        raise
    _listening.append(listening)
    threading.Thread(
        target=_obey, args=(listening,), name="shmcast-clock-fault", daemon=True
    ).start()


def skew_from_environment() -> None:
    """What `shmcast inject clock -- COMMAND` asks of the command and of all that it starts."""
    text = os.environ[VARIABLE]
    try:
        offset_s, drift = map(float, text.split(","))
        skew_clock(offset_s, drift)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}={text!r}: write OFFSET_S,DRIFT ({error})") from None
    allow_skew()


def ask(pid: int, offset_s: float, drift: float) -> bool:
    """False if there is no such process, or it does not listen."""
    request = _REQUEST.pack(*as_words(offset_s, drift))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.settimeout(_PATIENCE_S)
        try:
            asking.connect(_address(pid))
        except ConnectionRefusedError:
            return False
        if _credentials(asking)[0] != pid:  # one that only calls itself so
            return False
        try:
            asking.send(request)
            answer = asking.recv(1)
        except (ConnectionError, BrokenPipeError):  # it ended meanwhile
            return False
        except TimeoutError:
            raise TimeoutError(f"process {pid} does not answer: is it stopped?") from None
    if answer == _REFUSED:
        raise NotPermitted(f"process {pid} belongs to somebody else")
    return answer == _DONE


def _address(pid: int) -> str:
    return f"\0shmcast.clock.{pid}"


def _credentials(peer: socket.socket) -> tuple[int, int]:
    """Process and user at the other end."""
    packed = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(packed)
    return pid, user


def _obey(listening: socket.socket) -> None:
    while True:
        try:
            peer, _ = listening.accept()
        except OSError:  # closed after a fork
            return
        with peer, contextlib.suppress(OSError):
            peer.settimeout(_PATIENCE_S)
            peer.send(_answer(peer))


def _answer(peer: socket.socket) -> bytes:
    request = peer.recv(_REQUEST.size + 1)  # first: what is closed unread resets the answer, too
    if _credentials(peer)[1] not in (0, os.geteuid()):
        return _REFUSED
    if len(request) != _REQUEST.size:
        return b""
    lib.sc_clock_fault(*_REQUEST.unpack(request))
    return _DONE


def _after_fork() -> None:
    """The child has the skew, but neither the thread nor a right to its parent's name."""
    if _listening:
        _listening.pop().close()
        allow_skew()


os.register_at_fork(after_in_child=_after_fork)
