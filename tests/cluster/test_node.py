"""Replicas as real processes on one host, over mailboxes; killed, stopped, started again."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from cluster.replicas import replicas
from cluster.traffic import Traffic, judged
from helpers import SHM, Child, wait_until
from shmcast.errors import DeadlineMissed, Incompatible, MailboxFull, MessageTooLarge, NoQuorum
from shmcast.mailbox.faults import kill_copy
from shmcast.mailbox.mailbox import Mailbox
from shmcast.multicast.checks.verdict import Outcome
from shmcast.multicast.protocols.core import Message, MessageId
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import MulticastMsg
from shmcast.multicast.run.detector import Detector
from shmcast.multicast.run.handover import PATIENCE_TICKS, Handover
from shmcast.multicast.run.inbox import SENDERS, Outlet, head_of, inbox_name, lanes_for_replicas
from shmcast.multicast.run.life import OwnLife, path_of
from shmcast.multicast.run.recording import ORDERED
from shmcast.multicast.run.replica import EXIT_AGAIN
from shmcast.multicast.run.supervisor import stop
from shmcast.multicast.run.transfer import PATIENCE_DOUBLINGS
from shmcast.multicast.run.transport import CLIENTS_FROM
from shmcast.multicast.run.wire import Codec
from shmcast.multicast.traces.judge import check_record
from shmcast.multicast.traces.reader import read_record
from shmcast.multicast.traces.run_info import RunInfo


def test_a_multicast_to_two_groups_is_delivered_by_all_replicas_in_one_order(
    tmp_path: Path,
) -> None:
    with replicas(tmp_path, "order") as cluster:
        cluster.start_all()
        first, second = Traffic(cluster), Traffic(cluster)
        first.wait_for(50)
        second.wait_for(50)
        first.stop()
        second.stop()
        everyone = [r.name for r in cluster.config.replicas]
        for traffic in (first, second):
            cluster.wait_for_delivery(everyone, traffic.acknowledged[-1])
        assert set(cluster.stop_all()) == {0}
        assert cluster.verdicts() == {}
        orders = {tuple(cluster.delivered(r.name)) for r in cluster.config.replicas}
        assert len(orders) == 1
        assert sorted(orders.pop()) == sorted(first.acknowledged + second.acknowledged)
        assert not list(SHM.glob(f"shmcast.{cluster.config.name}*"))


def test_a_killed_leader_is_followed_by_another_and_nothing_is_lost(tmp_path: Path) -> None:
    with replicas(tmp_path, "leader") as cluster:
        cluster.start_all()
        traffic = Traffic(cluster)
        traffic.wait_for(20)
        leader = cluster.leader(0)
        cluster.kill(leader)
        traffic.wait_for(50)
        assert cluster.leader(0) != leader
        judged(cluster, traffic, [r.name for r in cluster.config.replicas if r.name != leader])


def test_a_killed_replica_comes_back_as_a_new_life_while_traffic_flows(tmp_path: Path) -> None:
    with replicas(tmp_path, "back") as cluster:
        cluster.start_all()
        traffic = Traffic(cluster)
        traffic.wait_for(20)
        cluster.kill("g2.b")
        traffic.wait_for(20)
        cluster.start("g2.b")
        cluster.wait_for_life("g2.b", 1)
        wait_until(lambda: cluster.delivered("g2.b", incarnation=1), "it delivers again")
        judged(cluster, traffic, ["g1.a", "g1.b", "g1.c", "g2.a", "g2.c"])
        assert set(cluster.delivered("g2.b")) < set(traffic.acknowledged)


LOG_APPLICATION = """
import json, sys
from pathlib import Path

class Log:
    def __init__(self):
        self.seen = []
    def deliver(self, delivery):
        self.seen.append([delivery.sender, delivery.sequence])
    def snapshot(self):
        return json.dumps(self.seen).encode()
    def restore(self, snapshot):
        assert self.seen == []
        self.seen = json.loads(snapshot)
    def close(self):
        Path(__file__).with_name(sys.argv[2] + ".json").write_text(json.dumps(self.seen))
"""


def test_a_replica_that_comes_back_has_the_state_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "logbook.py").write_text(LOG_APPLICATION)
    with replicas(tmp_path, "state", app="logbook:Log") as cluster:
        cluster.start_all()
        traffic = Traffic(cluster)
        traffic.wait_for(20)
        cluster.kill("g1.b")
        traffic.wait_for(20)
        cluster.start("g1.b")
        cluster.wait_for_life("g1.b", 1)
        wait_until(lambda: cluster.delivered("g1.b", incarnation=1), "it delivers again")
        traffic.stop()
        everyone = [r.name for r in cluster.config.replicas]
        cluster.wait_for_delivery(everyone, traffic.acknowledged[-1])
        cluster.stop_all()
        assert cluster.verdicts() == {}
        logs = {
            r.name: json.loads((tmp_path / f"{r.name}.json").read_text())
            for r in cluster.config.replicas
        }
        expected = [list(message) for message in traffic.acknowledged]
        assert logs == dict.fromkeys(logs, expected)


def test_a_stopped_leader_that_wakes_up_does_not_lead_any_more(tmp_path: Path) -> None:
    with replicas(tmp_path, "late") as cluster:
        cluster.start_all()
        traffic = Traffic(cluster)
        traffic.wait_for(20)
        leader = cluster.leader(0)
        cluster.signal(leader, signal.SIGSTOP)
        wait_until(lambda: cluster.leader(0) != leader, "another one leads")
        traffic.wait_for(20)
        cluster.signal(leader, signal.SIGCONT)
        traffic.wait_for(50)
        others = [r.name for r in cluster.config.replicas if r.name != leader]
        judged(cluster, traffic, others)


def test_a_replica_whose_inbox_is_destroyed_ends_and_the_others_go_on(tmp_path: Path) -> None:
    with replicas(tmp_path, "inbox") as cluster:
        cluster.start_all()
        traffic = Traffic(cluster)
        traffic.wait_for(20)
        victim = cluster.config.replica("g1.b")
        with Mailbox.open(inbox_name(cluster.config.name, victim.proc, 0)) as box:
            kill_copy(box, 0)
        wait_until(lambda: cluster.processes["g1.b"].poll() is not None, "it ends")
        traffic.wait_for(50)
        judged(cluster, traffic, ["g1.a", "g1.c", "g2.a", "g2.b", "g2.c"])


def test_a_client_without_a_quorum_is_told_so_and_a_retry_orders_its_request_once(
    tmp_path: Path,
) -> None:
    with replicas(tmp_path, "quorum", groups=1) as cluster:
        cluster.start_all()
        with cluster.client() as client:
            client.multicast(b"first", ["g1"], timeout=60)
            cluster.signal("g1.b", signal.SIGSTOP)
            cluster.signal("g1.c", signal.SIGSTOP)
            with pytest.raises(DeadlineMissed):
                client.multicast(b"second", ["g1"], timeout=0.5)
            cluster.signal("g1.b", signal.SIGCONT)
            cluster.signal("g1.c", signal.SIGCONT)
            assert client.retry(timeout=60).sequence == 2
            cluster.kill("g1.b")
            cluster.kill("g1.c")
            with pytest.raises(NoQuorum, match="1 of 3 replicas alive"):
                client.multicast(b"third", ["g1"], timeout=0.5)
            with pytest.raises(MessageTooLarge):
                client.multicast(bytes(5000), ["g1"])
            with pytest.raises(ValueError, match="no group 'g7'"):
                client.multicast(b"", ["g7"])
        cluster.stop_all()
        assert cluster.verdicts() == {}
        assert [seq for _, seq in cluster.delivered("g1.a")] == [1, 2]


def test_a_client_that_speaks_like_a_replica_is_not_heard(tmp_path: Path) -> None:
    """Its garbage was ordered, blamed on the replicas that passed it on, and ended the group."""
    with replicas(tmp_path, "garbage", groups=1) as cluster:
        cluster.start_all()
        with cluster.client() as client:
            client.multicast(b"first", ["g1"], timeout=60)
            codec = Codec("wbcast", cluster.config.topology)
            name = inbox_name(cluster.config.name, 0, 0)
            for number, sender in enumerate((CLIENTS_FROM + 5, 1)):  # as a client, as replica 1
                garbage = Message(MessageId(1, number + 7), (0,), b"no composite")
                outlet = Outlet(name, head_of(sender, 0))
                outlet.send(codec.encode([MulticastMsg(garbage, 1)]))
                outlet.close()
            for _ in range(20):
                client.multicast(b"more", ["g1"], timeout=60)
        assert [p.poll() for p in cluster.processes.values()] == [None] * 3
        cluster.stop_all()
        assert cluster.verdicts() == {}


def test_a_majority_that_died_at_once_and_came_back_is_no_quorum(tmp_path: Path) -> None:
    """Alive, but without memory: clients were told to retry() for ever."""
    with replicas(tmp_path, "memory", groups=1) as cluster:
        cluster.start_all()
        with cluster.client() as client:
            client.multicast(b"first", ["g1"], timeout=60)
            for name in ("g1.b", "g1.c"):
                cluster.kill(name)
            for name in ("g1.b", "g1.c"):
                cluster.start(name)
                cluster.wait_for_life(name, 1)
            with pytest.raises(NoQuorum, match=r"state at 1 of 3 replicas.*start the cluster anew"):
                client.multicast(b"second", ["g1"], timeout=0.2)


def test_a_replica_that_nobody_gives_a_state_ends_with_one_clear_error() -> None:
    topology = Topology(((0, 1, 2),))
    handover = Handover(
        Detector(topology, 0, 1000, 0),
        1,
        "g1",
        enter=lambda marker: None,
        send=lambda to, data: None,
        room_for=lambda to: True,
        put=lambda item: None,
        deliver=lambda request, place, dest: None,
    )
    for attempt in range(12):
        handover.tick(attempt * PATIENCE_TICKS << PATIENCE_DOUBLINGS)
    with pytest.raises(NoQuorum, match=r"12 attempts.*start the cluster anew"):
        handover.tick(12 * PATIENCE_TICKS << PATIENCE_DOUBLINGS)


def test_clients_without_a_place_are_told_so_and_a_replica_always_finds_one(
    tmp_path: Path,
) -> None:
    """The 64 lanes of an inbox were anybody's: a replica that came back was not heard any more."""
    with replicas(tmp_path, "lanes", groups=1) as cluster, cluster.client() as late:
        cluster.start_all()
        with cluster.client() as client:
            client.multicast(b"first", ["g1"], timeout=60)  # a majority is up now,
        for replica in cluster.config.replicas:  # and from here on everybody's inbox is there
            cluster.wait_for_life(replica.name, 0)
        spare = lanes_for_replicas(cluster.config)
        others = [
            Outlet(inbox_name(cluster.config.name, p, 0), head_of(CLIENTS_FROM + n, 0), spare=spare)
            for p in range(3)
            for n in range(SENDERS)
        ]
        assert 3 * (SENDERS - 2 * spare) <= sum(o.is_open() for o in others) < len(others)
        with pytest.raises(MailboxFull, match="no place left for another client"):
            late.multicast(b"second", ["g1"], timeout=0.2)
        cluster.kill("g1.c")
        cluster.start("g1.c")
        cluster.wait_for_life("g1.c", 1)  # its inbox is new, those of g1.a and g1.b are full
        late.retry(timeout=60)
        wait_until(
            lambda: (
                late.multicast(b"more", ["g1"], timeout=60)
                and cluster.delivered("g1.c", incarnation=1)
            ),
            "it is heard, and delivers",
        )
        for outlet in others:
            outlet.close()


def test_a_record_that_cannot_be_written_ends_nobody(tmp_path: Path) -> None:
    """With a full disk one kill ended every replica: each tried to put it on record."""
    with replicas(tmp_path, "disk", groups=1) as cluster:
        cluster.start_all()
        traffic = Traffic(cluster, ["g1"])
        traffic.wait_for(10)
        cluster.wait_for_life("g1.c", 0)
        recorded = cluster.trace / f"process={cluster.config.replica('g1.c').proc}"
        wait_until(recorded.exists, "it records")
        recorded.rename(tmp_path / "elsewhere")
        recorded.touch()  # from here on nothing can be written there
        cluster.kill("g1.c")
        for name in ("g1.a", "g1.b"):
            errors = cluster.processes[name].stderr
            assert errors and f"{name}: trace: 1 events are missing: " in errors.readline()
        cluster.start("g1.c")
        errors = cluster.processes["g1.c"].stderr
        assert errors and "g1.c: trace: life 1 of process 2 is not recorded" in errors.readline()
        cluster.wait_for_life("g1.c", 1)
        traffic.wait_for(10)
        traffic.stop()
        assert cluster.stop_all() == [0, 0, 0]


def test_a_run_with_a_bound_is_judged_by_it_and_shows_when_clients_were_told(
    tmp_path: Path,
) -> None:
    """verify had no Δ for a run of real processes, and no latency to completion."""
    with replicas(tmp_path, "bound", groups=1, size=1, options="bound_ms = 600_000") as cluster:
        cluster.start_all()
        with cluster.client() as client:
            for _ in range(5):
                client.multicast(b"payload", ["g1"], timeout=60)
        cluster.stop_all()
        info = RunInfo.read(cluster.trace)
        assert info.bound_ns == 600_000_000_000
        record = read_record(cluster.trace)
        verdict = check_record(record, ["real-time"])["real-time"]
        assert verdict.outcome is Outcome.PASSED, verdict.reason
        told = [event.msg for event in record.trace.events if event.kind == ORDERED]
        assert told == [(client.id, n) for n in range(1, 6)]


SILENT_CLIENT = """
client = shmcast.Cluster.load(args[0]).client()
client.multicast(b"first", ["g1"], timeout=60)
say(client.id)
if hear() == "leave":
    os._exit(0)
client.multicast(b"second", ["g1"], timeout=60)
"""


def test_a_client_that_ends_without_a_word_breaks_no_promise_on_record(tmp_path: Path) -> None:
    """With a request under way that nobody answers, or with rows that never reached the disk."""
    with replicas(tmp_path, "silent", groups=1) as cluster:
        cluster.start_all()
        leaves, dies = (Child(SILENT_CLIENT, str(cluster.file)) for _ in range(2))
        numbers = [leaves.heard(), dies.heard()]
        leaves.tell("leave")
        leaves.ended()
        for name in ("g1.b", "g1.c"):
            cluster.signal(name, signal.SIGSTOP)
        dies.tell("ask")
        dies.kill()
        for name in ("g1.b", "g1.c"):
            cluster.signal(name, signal.SIGCONT)
        for number in numbers:
            witnessed = cluster.trace / f"process={number}"
            wait_until(lambda at=witnessed: list(at.glob("*/witness-*")), "its end is on record")
        cluster.stop_all()
        assert cluster.verdicts() == {}


@pytest.mark.parametrize("damage", [b"", b"x" * 60], ids=["cut off", "overwritten"])
def test_a_damaged_record_of_lives_is_refused_and_down_removes_it(
    tmp_path: Path, damage: bytes
) -> None:
    """Born again under a number of its past it would vote against what it promised."""
    with replicas(tmp_path, "stale", groups=1) as cluster:
        path = path_of(cluster.config, 0)
        OwnLife(cluster.config, 0).close()
        path.write_bytes(damage)
        cluster.start("g1.a")
        process = cluster.processes["g1.a"]
        assert process.wait(60) == EXIT_AGAIN
        assert process.stderr and "damaged: with a number" in process.stderr.read()
        stop(cluster.config, "local")
        assert not path.exists()
        life = OwnLife(cluster.config, 0)
        assert life.incarnation == 0
        life.close()


@pytest.mark.parametrize(
    ("at", "what"), [(7, b"9"), (8, b"\x63")], ids=["another form", "another wire version"]
)
def test_a_newcomer_of_another_release_ends_itself_and_nobody_else(
    tmp_path: Path, at: int, what: bytes
) -> None:
    """Each cut the other off, and the old ones were the majority."""
    with replicas(tmp_path, "release", groups=1) as cluster:
        old = OwnLife(cluster.config, 1)
        old.beat(1, 0, 0)
        path = path_of(cluster.config, 1)
        record = bytearray(path.read_bytes())
        record[at : at + 1] = what
        path.write_bytes(record)
        cluster.start("g1.a")
        process = cluster.processes["g1.a"]
        assert process.wait(60) == EXIT_AGAIN
        assert process.stderr and "another release of shmcast (" in process.stderr.read()
        assert path.read_bytes() == bytes(record)
        old.close(orderly=False)
        with pytest.raises(Incompatible, match="end the whole cluster with that release"):
            OwnLife(cluster.config, 1)


def test_the_record_of_a_life_counts_on_and_belongs_to_one(tmp_path: Path) -> None:
    with replicas(tmp_path, "lives", groups=1) as cluster:
        first = OwnLife(cluster.config, 0)
        with pytest.raises(FileExistsError, match="alive already"):
            OwnLife(cluster.config, 0)
        first.close()
        second = OwnLife(cluster.config, 0)
        assert (first.incarnation, second.incarnation) == (0, 1)
        second.close()
