"""A signal ends a wait: nobody has to kill a program that waits for a message or for room."""

from __future__ import annotations

import signal
from collections.abc import Callable

import psutil
import pytest

from helpers import Child, wait_until
from shmcast import Mailbox

WAITS = {
    "receive": "box.receiver().receive(timeout=300)",
    "receive_many": "box.receiver().receive_many(timeout=300)",
    "send": "[sender.send(b'fills the lane', timeout=300) for _ in range(9)]",
    "view": "box.receiver().view(timeout=300).__enter__()",
    "areceive": "import asyncio; asyncio.run(box.receiver().areceive(timeout=300))",
    "loan": "sender.send_many([b'full'] * 4); sender.loan(8, timeout=300).__enter__()",
    "sender": "[box.sender(timeout=300) for _ in range(9)]",
    "receiver": "[box.receiver(timeout=300) for _ in range(17)]",
    "send_many": "[sender.send_many([b'two', b'at a time'], timeout=300) for _ in range(9)]",
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_ctrl_c_ends_a_wait(name: str, start: Callable[..., Child], wait: str) -> None:
    with Mailbox.create(name, copies=2, message_size=64, capacity=4) as box, box.receiver():
        child = start(
            f"""
            box = shmcast.Mailbox.open({name!r})
            sender = box.sender()
            try:
                say("about to wait")
                {wait}
            except KeyboardInterrupt:
                say("interrupted")
            """
        )
        assert child.heard() == "about to wait"
        asleep = psutil.Process(child.pid)
        wait_until(lambda: asleep.status() == psutil.STATUS_SLEEPING, "the child waits")
        child.process.send_signal(signal.SIGINT)
        assert child.heard() == "interrupted"
