"""Requests and answers in asyncio: two mailboxes, many tasks, one event loop each side."""

from __future__ import annotations

import asyncio
import os

from shmcast import Mailbox

REQUESTS = 100


async def serve(requests: Mailbox, answers: Mailbox) -> None:
    with requests.receiver() as receiver, answers.sender() as sender:
        for _ in range(REQUESTS):
            message = await receiver.areceive(timeout=30.0)
            await sender.asend(message.data.upper())


async def ask(requests: Mailbox, answers: Mailbox) -> list[bytes]:
    with requests.sender() as sender, answers.receiver() as receiver:
        for number in range(REQUESTS):
            await sender.asend(f"request {number}".encode())
        return [(await receiver.areceive(timeout=30.0)).data for _ in range(REQUESTS)]


async def main() -> None:
    names = [f"{what}-{os.getpid()}" for what in ("requests", "answers")]
    with Mailbox.create(names[0]) as requests, Mailbox.create(names[1]) as answers:
        try:
            server = asyncio.create_task(serve(requests, answers))
            await asyncio.sleep(0)  # the server joins before anything is asked
            got = await ask(requests, answers)
            await server
            assert got == [f"REQUEST {number}".encode() for number in range(REQUESTS)]
            print(f"{len(got)} answers in order")
        finally:
            for name in names:
                Mailbox.remove(name)


if __name__ == "__main__":
    asyncio.run(main())
