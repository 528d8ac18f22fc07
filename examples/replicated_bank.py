"""A bank: accounts sharded over two groups of three replicas, transfers within and between groups.

A transfer between groups is one multicast to both: both apply their part, or neither. An audit is
a multicast, too, so it cuts through all groups at one place of the order: no money is ever under
way. Replicas are killed and started again while money moves, and take over the state of others.

    python examples/replicated_bank.py [transfers]
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from shmcast import Cluster, DeadlineMissed

GROUPS = ["g1", "g2"]
ACCOUNTS = ["ann", "bob", "cat", "dan", "eve", "fay"]
START = 1_000
AUDIT_EVERY = 100


def shard(account: str) -> str:
    """Which group keeps it: everybody can tell, nobody has to be asked."""
    return GROUPS[zlib.crc32(account.encode()) % len(GROUPS)]


class Shard:
    """The state of one replica: what its group keeps. The same messages make the same state."""

    def __init__(self, group: str) -> None:
        self.balance = {a: START for a in ACCOUNTS if shard(a) == group}
        self.audits: list[int] = []

    def apply(self, request: dict[str, Any]) -> None:
        if request["do"] == "audit":
            self.audits.append(sum(self.balance.values()))
        for account, change in request.get("changes", {}).items():
            if account in self.balance:
                self.balance[account] += change

    def snapshot(self) -> bytes:
        return json.dumps([self.balance, self.audits]).encode()

    def restore(self, snapshot: bytes) -> None:
        self.balance, self.audits = json.loads(snapshot)


def replica(path: str, name: str, pipe: Any) -> None:
    state = Shard(name.partition(".")[0])
    with Cluster.load(path).node(name, state=state) as node:
        for number, delivery in enumerate(node.deliveries()):
            if number == 0:
                pipe.send("here")
            request = json.loads(delivery.payload)
            if request["do"] == "end":
                break
            state.apply(request)
        pipe.send((state.balance, state.audits))
        pipe.recv()  # stays until everybody has said so


def ask(client: Any, request: dict[str, Any]) -> None:
    groups = {shard(account) for account in request.get("changes", {})} or GROUPS
    try:
        client.multicast(json.dumps(request).encode(), groups, timeout=20)
    except DeadlineMissed:
        client.retry(timeout=20)  # the same one again, never a second transfer


def move_money(client: Any, transfers: int, restart: Any) -> None:
    chance = random.Random(7)
    victims = {transfers // 3: "g1.a", 2 * transfers // 3: "g2.c"}
    for n in range(transfers):
        if n in victims:
            restart(victims[n])
            print(f"transfer {n}: {victims[n]} killed and started again")
        source, target = chance.sample(ACCOUNTS, 2)
        amount = chance.randrange(100)
        ask(client, {"do": "transfer", "changes": {source: -amount, target: amount}})
        if n % AUDIT_EVERY == 0:
            ask(client, {"do": "audit"})


def judge(finals: dict[str, Any]) -> None:
    for group in GROUPS:
        one, *others = [finals[name] for name in sorted(finals) if name.startswith(group)]
        assert all(other == one for other in others), f"{group}: replicas differ"
        print(group, one[0])
    audits = [sum(parts) for parts in zip(*(finals[f"{g}.b"][1] for g in GROUPS), strict=True)]
    assert set(audits) == {START * len(ACCOUNTS)}, f"money was under way: {audits}"
    money = sum(sum(finals[f"{g}.b"][0].values()) for g in GROUPS)
    assert money == START * len(ACCOUNTS)
    print(f"{money} in all and at each of {len(audits)} audits: no money made, none lost")


def main() -> None:
    transfers = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    spawn = multiprocessing.get_context("spawn")
    replicas: dict[str, Any] = {}
    pipes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "cluster.toml"
        lines = [f'[cluster]\nname = "bank-{os.getpid()}"\nmessage_size = 200\n[groups]']
        path.write_text("\n".join([*lines, *(f'{group} = ["a", "b", "c"]' for group in GROUPS)]))
        cluster = Cluster.load(path)

        def restart(name: str) -> None:
            if name in replicas:
                replicas[name].kill()
                replicas[name].join()
            pipes[name], theirs = spawn.Pipe()
            replicas[name] = spawn.Process(target=replica, args=(str(path), name, theirs))
            replicas[name].start()

        for member in cluster.config.replicas:
            restart(member.name)
        with cluster.client() as client:
            move_money(client, transfers, restart)
            end = time.monotonic() + 60
            while not all(pipe.poll() for pipe in pipes.values()):  # who came back is complete
                assert time.monotonic() < end, "a replica does not come back"
                ask(client, {"do": "nothing"})
                time.sleep(0.01)
            ask(client, {"do": "end"})
        finals = {}
        for name, pipe in pipes.items():
            while (said := pipe.recv()) == "here":
                pass
            finals[name] = said
        for name, process in replicas.items():
            pipes[name].send("go")
            process.join()
    judge(finals)


if __name__ == "__main__":
    main()
