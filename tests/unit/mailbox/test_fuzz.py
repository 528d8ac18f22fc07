"""Random bytes in segments: whoever opens or reads them gets an error or goes on.

Never a crash, never a hang. Each case runs in a process of its own with a deadline.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import Child, Layout, seal, segments_of
from shmcast import Mailbox

Start = Callable[..., Child]
SIZES = {"senders": 2, "receivers": 2, "message_size": 64, "capacity": 4}
AT = Layout(**SIZES)
CASES = 12  # damaged mailboxes per process: most of the time goes into starting it

# Opens each mailbox and does everything once. Only known errors are answers.
VICTIM = """
known = (shmcast.ShmcastError, OSError, ValueError, TimeoutError)
for name in iter(hear, ""):
    said = []
    def attempt(act):
        try:
            act()
            said.append("fine")
        except known as error:
            said.append(type(error).__name__)
    try:
        box = shmcast.Mailbox.open(name, timeout=0.05)
    except known as error:
        say([type(error).__name__])
        continue
    with box:
        kept = []
        attempt(lambda: kept.append(box.receiver(timeout=0.05)))
        attempt(lambda: kept.append(box.sender(timeout=0.05)))
        for member in kept:
            if isinstance(member, shmcast.Sender):
                attempt(lambda: member.send(b"x" * 64, timeout=0.05))
            else:
                attempt(lambda: member.receive(timeout=0.05))
        attempt(box.reap)
        attempt(lambda: box.replace(timeout=0.5))
        attempt(box.stats)
        attempt(lambda: box.copies)
    say(said)
"""


def whole(path: Path, noise: random.Random) -> None:
    path.write_bytes(noise.randbytes(path.stat().st_size))


def one_page(path: Path, noise: random.Random) -> None:
    page = noise.randrange(path.stat().st_size // 4096) * 4096
    _write(path, page, noise.randbytes(4096))


def words(path: Path, noise: random.Random) -> None:
    for _ in range(20):
        _write(path, noise.randrange(path.stat().st_size // 8) * 8, noise.randbytes(8))


def bits(path: Path, noise: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(20):
        data[noise.randrange(len(data))] ^= 1 << noise.randrange(8)
    _write(path, 0, bytes(data))


def sealed_words(path: Path, noise: random.Random) -> None:
    """Worse than chance: words with a valid check and a value that makes no sense."""
    for _ in range(3):
        value = noise.choice([noise.getrandbits(48), noise.getrandbits(8), (1 << 48) - 1])
        _write(path, noise.randrange(1024, path.stat().st_size, 8), seal(value))


def cut(path: Path, noise: random.Random) -> None:
    os.truncate(path, noise.randrange(path.stat().st_size))


def _write(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b", buffering=0) as file:
        file.seek(offset)
        file.write(data)


DAMAGES = [whole, one_page, words, bits, sealed_words, cut]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("every_copy", [True, False], ids=["every copy", "one copy"])
def test_random_damage_is_an_error_or_survived(
    new_name: Callable[[], str],
    damage: Callable[[Path, random.Random], None],
    every_copy: bool,
    start: Start,
) -> None:
    child = start(VICTIM)
    for seed in range(CASES):
        noise = random.Random(f"{damage.__name__} {every_copy} {seed}")
        name, protocol = new_name(), ("eager", "crash", "timing")[seed % 3]
        with (
            Mailbox.create(name, copies=2, protocol=protocol, **SIZES) as box,
            box.sender() as tx,
            box.receiver(),
        ):
            for i in range(3):
                tx.send(b"%d" % i)
        for path in segments_of(name)[: None if every_copy else 1]:
            damage(path, noise)
        child.tell(name)
        said = child.heard(timeout=20)
        assert said, f"seed {seed}"
        if not every_copy and damage is not sealed_words:
            assert said == ["fine"] * 4 + said[4:] or "TimeoutError" in said, (seed, said)
    child.tell("")
    assert child.ended() == 0, child.errors


def test_damage_under_the_hands_of_members_is_an_error_or_survived(name: str, start: Start) -> None:
    """Mapped and in use, while a fuzzer writes into the only copy and does not stop."""
    noise = random.Random(11)
    Mailbox.create(name, copies=1, **SIZES).close()
    child = start(
        """
        box = shmcast.Mailbox.open(args[0])
        tx, rx = box.sender(), box.receiver()
        say("ready")
        i, ends = 0, ""
        while not ends:
            try:
                tx.send(b"%d" % i, timeout=0.2)
                rx.receive(timeout=0.2)
            except (TimeoutError, shmcast.ShmcastError) as error:
                ends = type(error).__name__
            i += 1
        say(ends)
        """,
        name,
    )
    assert child.heard() == "ready"
    path = segments_of(name)[0]
    for _ in range(20000):
        words(path, noise)
        if child.process.poll() is not None:
            break
    known = ("MailboxLost", "TimeoutError", "MailboxFull", "DeadlineMissed", "Rejected")
    assert child.heard(timeout=20) in known
    assert child.ended() == 0, child.errors
