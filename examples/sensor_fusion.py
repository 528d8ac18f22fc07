"""Three sensors at different rates, one estimate every 20 ms, each task with a deadline.

Each sensor is a process with a schedule of its own: a Python task computes a reading, a task in C
sends it, on time. The fusion process receives in C, weighs what came, and sends the estimate. At
the end every schedule says what it kept and what it missed.

    python examples/sensor_fusion.py [seconds]
"""

from __future__ import annotations

import math
import multiprocessing
import os
import struct
import sys
import threading
from typing import Any

from shmcast import Domain
from shmcast.mailbox.scheduled import Inbox, Outbox
from shmcast.realtime.board import TaskFigures
from shmcast.realtime.scheduler import Job, Scheduler
from shmcast.realtime.tasks import Task

MS = 1_000_000  # ns
READING = struct.Struct("<Qdd")  # time in ns, value, standard deviation
SENSORS = {"gyro": (5, 0.30), "lidar": (20, 0.05), "camera": (40, 0.10)}  # period in ms, noise
FUSION_MS = 20


def truth(time_ns: int) -> float:
    return math.sin(time_ns / 1e9)


def schedule(name: str) -> Scheduler:
    return Scheduler(f"{name}-{os.getpid()}", policy="edf")


def sense(domain: str, sensor: str, over: Any) -> None:
    period_ms, noise = SENSORS[sensor]
    with Domain.open(domain) as dom, schedule(sensor) as tasks:
        box = dom.mailbox(sensor)
        outbox = Outbox(box.sender(), box)

        def measure(job: Job) -> None:
            error = noise * math.sin(job.release_ns / 1e7)  # stands for the real thing
            outbox.put(READING.pack(job.release_ns, truth(job.release_ns) + error, noise))

        each = Task(name="measure", period_ns=period_ms * MS, work_ns=MS)
        send = Task(name="send", period_ns=period_ms * MS, work_ns=MS // 4)
        tasks.add(each, measure)
        tasks.add(send, outbox.native)  # in C, out of Python's reach
        tasks.start()
        over.wait(60)


class Fusion:
    """The latest reading of each sensor, weighed by its noise."""

    def __init__(self, inboxes: dict[str, Inbox]) -> None:
        self.inboxes = inboxes
        self.latest: dict[str, tuple[int, float, float]] = {}
        self.received = dict.fromkeys(inboxes, 0)
        self.worst_error = 0.0
        self.estimates = 0
        self.has_all = threading.Event()

    def fuse(self, job: Job) -> None:
        for sensor, inbox in self.inboxes.items():
            while (message := inbox.take()) is not None:
                self.latest[sensor] = READING.unpack(message.data)
                self.received[sensor] += 1
        if len(self.latest) < len(self.inboxes):
            return
        # A reading ages: what it says of now is less certain by the time that has passed.
        weights = {s: 1 / (n + (job.release_ns - t) / 1e9) for s, (t, _, n) in self.latest.items()}
        estimate = sum(weights[s] * v for s, (_, v, _) in self.latest.items())
        estimate /= sum(weights.values())
        self.estimates += 1
        self.worst_error = max(self.worst_error, abs(estimate - truth(job.release_ns)))
        self.has_all.set()


def tell(task: TaskFigures) -> str:
    worst_us = task.worst_response_ns / 1000
    return f"  {task.name}: {task.finished} jobs, {task.unmet} late, worst {worst_us:,.0f} µs"


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    name = f"fusion-{os.getpid()}"
    spawn = multiprocessing.get_context("spawn")  # a fork would inherit handles of its parent
    over = spawn.Event()
    with Domain.create(name, copies=2, senders=4) as dom:
        boxes = {s: dom.create_mailbox(s, message_size=READING.size, capacity=64) for s in SENSORS}
        receivers = {s: box.receiver() for s, box in boxes.items()}
        fusion = Fusion({s: Inbox(receivers[s], boxes[s]) for s in SENSORS})
        sensors = [spawn.Process(target=sense, args=(name, s, over)) for s in SENSORS]
        try:
            for process in sensors:
                process.start()
            with schedule("fusion") as tasks:
                for sensor, inbox in fusion.inboxes.items():
                    receive = Task(name=f"receive-{sensor}", period_ns=5 * MS, work_ns=MS // 4)
                    tasks.add(receive, inbox.native)
                each = Task(name="fuse", period_ns=FUSION_MS * MS, work_ns=4 * MS)
                tasks.add(each, fusion.fuse)
                status = tasks.start()  # NotAdmitted would say which task does not fit, and why
                assert fusion.has_all.wait(60), "a sensor is silent"
                over.wait(seconds)
                figures = tasks.figures()
                assert not tasks.errors, tasks.errors
        finally:
            over.set()
            for process in sensors:
                process.join()
            Domain.remove(name)
    print(f"class {status.kernel_class}", *status.reasons, sep="; ")
    print(*map(tell, figures.tasks), sep="\n")
    print(f"received {fusion.received}")
    print(f"{fusion.estimates} estimates, off by {fusion.worst_error:.3f} at worst")


if __name__ == "__main__":
    main()
