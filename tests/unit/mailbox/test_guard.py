"""The SIGBUS guard: our segments only, everybody else's faults as before."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers import Child
from shmcast import Mailbox
from shmcast.mailbox import faults

Start = Callable[..., Child]

# An ordinary file is mapped, cut, and read: SIGBUS that is none of our business.
FOREIGN = """
import ctypes, mmap
def foreign_fault():
    fd = os.open(args[1], os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 8192)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(8192), 3, 1, fd, ctypes.c_long(0))
    os.ftruncate(fd, 0)
    say("now")
    ctypes.string_at(address + 4096, 1)
    say("survived")
"""


@pytest.fixture
def box_name(name: str) -> str:
    Mailbox.create(name, message_size=64, capacity=4).close()
    return name


def test_a_fault_elsewhere_ends_the_process_as_it_would_without_us(
    box_name: str, tmp_path: Path, start: Start
) -> None:
    child = start(
        FOREIGN + "\nbox = shmcast.Mailbox.open(args[0])\nforeign_fault()",
        box_name,
        str(tmp_path / "file"),
    )
    assert child.heard() == "now"
    assert child.ended() == -signal.SIGBUS


def test_a_fault_elsewhere_in_a_thread_ends_the_process_too(
    box_name: str, tmp_path: Path, start: Start
) -> None:
    child = start(
        FOREIGN
        + "\nimport threading\nbox = shmcast.Mailbox.open(args[0])\n"
        + "threading.Thread(target=foreign_fault).start()\nhear()",
        box_name,
        str(tmp_path / "file"),
    )
    assert child.heard() == "now"
    assert child.ended() == -signal.SIGBUS


def test_sigbus_sent_by_kill_ends_the_process(box_name: str, start: Start) -> None:
    child = start("box = shmcast.Mailbox.open(args[0])\nsay('ready')\nhear()", box_name)
    child.heard()
    os.kill(child.pid, signal.SIGBUS)
    assert child.ended() == -signal.SIGBUS


def test_faulthandler_enabled_before_us_still_tells_its_story(
    box_name: str, tmp_path: Path, start: Start
) -> None:
    child = start(
        "import faulthandler\nfaulthandler.enable()\n"
        + FOREIGN
        + "\nbox = shmcast.Mailbox.open(args[0])\nforeign_fault()",
        box_name,
        str(tmp_path / "file"),
        prelude=True,
    )
    assert child.heard() == "now"
    assert child.ended() == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in child.errors
    assert "foreign_fault" in child.errors


SURVIVE = """
from shmcast.mailbox import faults
box = shmcast.Mailbox.open(args[0])
tx, rx = box.sender(), box.receiver()
{extra}
faults.kill_copy(box, 0)
tx.send(b"through", timeout=20)
say(rx.receive(timeout=20).data.decode())
"""


@pytest.mark.parametrize(
    "extra",
    [
        "",
        "import faulthandler; faulthandler.enable(); other = shmcast.Mailbox.open(args[0])",
        "import signal; signal.signal(signal.SIGBUS, lambda *a: say('python handler'));"
        "other = shmcast.Mailbox.open(args[0])",
        "import faulthandler; faulthandler.enable(); more = box.sender()",
        "import faulthandler; faulthandler.enable(); more = box.receiver()",
        "import faulthandler; faulthandler.enable(); box.copies",
    ],
    ids=[
        "alone",
        "faulthandler after us",
        "python handler after us",
        "before a sender",
        "before a receiver",
        "before a look",
    ],
)
def test_our_own_fault_is_survived_beside_other_handlers(
    box_name: str, extra: str, start: Start
) -> None:
    child = start(SURVIVE.format(extra=extra), box_name)
    assert child.heard() == "through"
    assert child.ended() == 0
    assert "Bus error" not in child.errors


def test_a_python_handler_set_before_us_is_called_for_faults_elsewhere(
    box_name: str, start: Start
) -> None:
    child = start(
        """
        import signal
        signal.signal(signal.SIGBUS, lambda *a: say("handled"))
        box = shmcast.Mailbox.open(args[0])
        os.kill(os.getpid(), signal.SIGBUS)
        say("goes on")
        """,
        box_name,
    )
    assert child.heard() == "handled"
    assert child.heard() == "goes on"
    assert child.ended() == 0


def test_threads_survive_a_truncation_each_by_itself(box_name: str, start: Start) -> None:
    child = start(
        """
        import threading
        from shmcast.mailbox import faults
        box = shmcast.Mailbox.open(args[0])
        rx = [box.receiver() for _ in range(4)]
        got = []
        threads = [threading.Thread(target=lambda r=r: got.append(r.receive(timeout=20).data))
                   for r in rx]
        tx = box.sender()
        for t in threads: t.start()
        faults.kill_copy(box, 0)
        faults.kill_copy(box, 1)
        tx.send(b"x", timeout=20)
        for t in threads: t.join()
        say([data.decode() for data in got])
        """,
        box_name,
    )
    assert child.heard() == ["x"] * 4
    assert child.ended() == 0


def test_an_array_held_over_a_truncated_copy_does_not_end_the_process(name: str) -> None:
    with (
        Mailbox.create(name, message_size=1 << 16, capacity=4) as box,
        box.sender() as tx,
        box.receiver() as rx,
    ):
        tx.send(b"\1" * (1 << 16))
        block = rx.view(timeout=10)
        array = block.__enter__().array()
        assert array.sum() == 1 << 16
        faults.kill_copy(box, 0)
        assert array.sum() in (0, 1 << 16)  # whatever is there now, it can be read
        with pytest.raises(Exception, match="try again"):
            block.__exit__(None, None, None)
        tx.send(b"next")
        assert rx.receive(timeout=10).data == b"next"


def test_an_array_lent_from_a_truncated_copy_can_still_be_written(name: str) -> None:
    with Mailbox.create(name, message_size=1 << 16, capacity=4) as box, box.sender() as tx:
        block = tx.loan(1 << 16)
        array = block.__enter__().array()
        faults.kill_copy(box, 0)
        array[:] = np.arange(1 << 16, dtype=np.uint8)
        del array
        with pytest.raises(Exception, match="try again"):
            block.__exit__(None, None, None)
