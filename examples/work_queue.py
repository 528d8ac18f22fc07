"""A queue of jobs, shared by workers that may die, each job done exactly once. No broker.

Everybody sees all messages in one order, so everybody keeps the same table of jobs without asking:
the first claim of a job in the order gets it, and only the result of its owner counts. When a
worker dies, "gone" in the same order frees what it had claimed; nothing of it can come after that,
because its messages carry earlier timestamps.

    python examples/work_queue.py [jobs]
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from typing import Any

from shmcast import Mailbox, Rejected, Sender
from shmcast.mailbox.faults import kill_process

WORKERS = 4
VICTIM = 1  # killed when it claims its first job


class Table:
    """Jobs, owners and results: a function of the messages so far, and of nothing else."""

    def __init__(self) -> None:
        self.owner: dict[int, int | None] = {}  # of jobs that are not done
        self.results: dict[int, int] = {}
        self.jobs: int | None = None  # how many, once they are all there

    def apply(self, message: dict[str, Any]) -> None:
        match message:
            case {"job": job}:
                self.owner[job] = None
            case {"claim": job, "by": worker}:
                if job in self.owner and self.owner[job] is None:
                    self.owner[job] = worker
            case {"done": job, "by": worker, "result": result}:
                if self.owner.get(job) == worker:
                    del self.owner[job]
                    assert job not in self.results
                    self.results[job] = result
            case {"gone": worker}:
                for job in self.held_by(worker):
                    self.owner[job] = None
            case {"jobs": count}:
                self.jobs = count

    def held_by(self, worker: int | None) -> list[int]:
        return [job for job, owner in self.owner.items() if owner == worker]

    @property
    def is_over(self) -> bool:
        return len(self.results) == self.jobs


def do(job: int) -> int:
    return sum(n * n for n in range(job, job + 20_000))


def say(sender: Sender, **message: int) -> None:
    try:
        sender.send(json.dumps(message).encode(), timeout=30)
    except Rejected:  # this process stood still for too long: nobody got it, so once more
        sender.send(json.dumps(message).encode(), timeout=30)


def work(name: str, me: int, pipe: Any) -> None:
    table = Table()
    done: set[int] = set()
    asked: int | None = None  # a claim that is not decided yet
    with Mailbox.open(name) as box, box.receiver() as receiver, box.sender() as sender:
        pipe.send("here")
        while not table.is_over:
            table.apply(json.loads(receiver.receive(timeout=60).data))
            if asked is not None and (asked not in table.owner or table.owner[asked] is not None):
                asked = None
            for job in set(table.held_by(me)) - done:
                say(sender, done=job, by=me, result=do(job))
                done.add(job)
            if asked is None and not set(table.held_by(me)) and table.held_by(None):
                asked = table.held_by(None)[me % len(table.held_by(None))]
                say(sender, claim=asked, by=me)
    pipe.send((len(done), sorted(table.results.items())))


def lead(receiver: Any, sender: Sender, victim: Any, jobs: int) -> Table:
    """Hands out jobs, as many as are done; kills a worker at its first claim, and says so."""
    table, sent, end = Table(), 0, time.monotonic() + 60
    while not table.is_over:
        assert time.monotonic() < end, "it takes too long"
        while sent - len(table.results) < 2 * WORKERS and table.jobs is None:
            say(sender, job=sent)
            sent += 1
            if sent >= jobs and not victim.is_alive():
                table.jobs = sent
                say(sender, jobs=sent)
        message = json.loads(receiver.receive(timeout=60).data)
        table.apply(message)
        held = table.held_by(VICTIM)
        if held and victim.is_alive():
            kill_process(victim.pid)
            victim.join()
            say(sender, gone=VICTIM)
            print(f"worker {VICTIM} killed when it had claimed job {held[0]}")
    return table


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    name = f"jobs-{os.getpid()}"
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(WORKERS)]
    with Mailbox.create(name, message_size=200) as box, box.receiver() as receiver:
        workers = [
            spawn.Process(target=work, args=(name, n, theirs))
            for n, (_, theirs) in enumerate(pipes)
        ]
        try:
            for worker in workers:
                worker.start()
            assert all(ours.poll(60) and ours.recv() == "here" for ours, _ in pipes)
            with box.sender() as sender:
                table = lead(receiver, sender, workers[VICTIM], jobs)
            ends = [ours.recv() for n, (ours, _) in enumerate(pipes) if n != VICTIM]
        finally:
            for worker in workers:
                worker.kill()
                worker.join()
            Mailbox.remove(name)
    assert table.results == {job: do(job) for job in range(table.jobs or 0)}, "a wrong result"
    assert all(results == sorted(table.results.items()) for _, results in ends), "workers differ"
    print(f"{table.jobs} jobs, each done once; by the living: {[count for count, _ in ends]}")


if __name__ == "__main__":
    main()
