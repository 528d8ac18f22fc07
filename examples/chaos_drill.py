"""A drill: break everything that may break under traffic, then count what came through.

Three senders and three receivers use one mailbox while copies are truncated and overwritten and
processes are killed and stopped. At the end: did all receivers see one order, was anything lost or
doubled? Copy it, and put your own processes in the place of these.

    python examples/chaos_drill.py [messages between two faults]
"""

from __future__ import annotations

import multiprocessing
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from shmcast import Mailbox, Rejected
from shmcast.mailbox.faults import continue_process, kill_copy, kill_process, stop_process

ENDS = 3
NUMBERED = struct.Struct("<II")  # sender, number
END = NUMBERED.pack(ENDS, 0)
WAIT_S = 60


def send(name: str, me: int, acknowledged: Any, over: Any) -> None:
    with Mailbox.open(name) as box, box.sender() as sender:
        while not over.value:
            try:
                sender.send(NUMBERED.pack(me, acknowledged[me]), timeout=WAIT_S)
            except Rejected:  # it stood still for too long, in the middle: nobody got this one
                continue
            acknowledged[me] += 1  # send has returned: this one must arrive


def receive(name: str, pipe: Any) -> None:
    seen: list[tuple[int, ...]] = []
    with Mailbox.open(name) as box, box.receiver() as receiver:
        pipe.send("here")
        while (data := receiver.receive(timeout=WAIT_S).data) != END:
            seen.append(NUMBERED.unpack(data))
    pipe.send(seen)


def run_on(acknowledged: Any, messages: int) -> float:
    """Until so many more have been acknowledged; returns the longest pause in between."""
    start = last = time.monotonic()
    before, longest = sum(acknowledged), 0.0
    target = before + messages
    while (now := sum(acknowledged)) < target:
        at = time.monotonic()
        if now != before:
            before, longest, last = now, max(longest, at - last), at
        assert at - start < WAIT_S, "the traffic has stopped"
        time.sleep(0.0002)
    return longest


def drill(box: Mailbox, senders: list[Any], receivers: list[Any]) -> dict[str, Callable[[], Any]]:
    return {
        "nothing": lambda: None,
        "copy 0 truncated": lambda: kill_copy(box, 0, "truncate"),
        "copy 1 overwritten": lambda: kill_copy(box, 1, "corrupt"),
        "both replaced": box.replace,
        "receiver 0 killed": lambda: kill_process(receivers[0].pid),
        "sender 0 killed": lambda: kill_process(senders[0].pid),
        "sender 1 stopped": lambda: stop_process(senders[1].pid),
        "sender 1 goes on": lambda: continue_process(senders[1].pid),
    }


def judge(seen: list[list[tuple[int, ...]]], acknowledged: list[int]) -> None:
    assert all(other == seen[0] for other in seen), "receivers saw different orders"
    for sender in range(ENDS):
        numbers = [number for who, number in seen[0] if who == sender]
        assert numbers == list(range(len(numbers))), f"sender {sender}: lost, doubled or reordered"
        # Of one that was killed, the message under way may have arrived: at all, or at none.
        assert 0 <= len(numbers) - acknowledged[sender] <= (sender == 0), f"sender {sender}: lost"


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    name = f"drill-{os.getpid()}"
    spawn = multiprocessing.get_context("spawn")
    acknowledged, over = spawn.RawArray("Q", ENDS), spawn.RawValue("b", 0)
    pipes = [spawn.Pipe() for _ in range(ENDS)]
    with Mailbox.create(name, copies=3, message_size=64) as box:
        receivers = [spawn.Process(target=receive, args=(name, pipe)) for _, pipe in pipes]
        senders = [
            spawn.Process(target=send, args=(name, n, acknowledged, over)) for n in range(ENDS)
        ]
        try:
            for process in receivers:
                process.start()
            assert all(ours.poll(WAIT_S) and ours.recv() == "here" for ours, _ in pipes)
            for process in senders:
                process.start()
            run_on(acknowledged, 1)
            for what, fault in drill(box, senders, receivers).items():
                fault()
                pause_ms = run_on(acknowledged, messages) * 1000
                copies = " ".join(state.value for state in box.copies)
                print(f"{what:20} longest pause {pause_ms:7.1f} ms   copies: {copies}")
            over.value = 1  # no lock around it: a process that is killed would keep it
            for process in senders:
                process.join()
            with box.sender() as sender:
                sender.send(END)
            seen = [ours.recv() for ours, _ in pipes[1:]]  # receiver 0 is dead
        finally:
            for process in [*senders, *receivers]:
                process.kill()
                process.join()
            Mailbox.remove(name)
    judge(seen, list(acknowledged))
    print(f"{len(seen[0])} messages, one order, none lost, none doubled")


if __name__ == "__main__":
    main()
