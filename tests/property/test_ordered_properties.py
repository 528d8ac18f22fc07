"""run/sessions.py and run/transfer.py: any interleaving of retries and rejoins, one story."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcast.errors import Corrupt
from shmcast.multicast.run.api import Place
from shmcast.multicast.run.sessions import Sessions
from shmcast.multicast.run.transfer import (
    GiveUp,
    Joiner,
    Limits,
    MarkerId,
    Part,
    Phase,
    Restore,
    SendMarker,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    parts_of,
)

Attempt = tuple[int, int, tuple[int, ...]]  # client, seq, groups


def story(seed: int, make: Callable[[], Sessions]) -> int:
    """Two groups, clients that retry until they are answered, attempts that arrive late and out of
    order. Every request is delivered once in each of its groups. Returns how many came again."""
    random_ = random.Random(seed)
    tables = [make(), make()]
    delivered: list[list[tuple[int, int]]] = [[], []]
    flying: list[Attempt] = []
    waiting: dict[int, Attempt] = {}
    last_seq = [0, 0, 0]
    again = 0
    for time in range(1, 200):
        client = random_.randrange(3)
        if client not in waiting:
            last_seq[client] += 1
            groups = random_.choice(((0,), (1,), (0, 1)))
            waiting[client] = (client, last_seq[client], groups)
            flying.append(waiting[client])
        elif random_.random() < 0.5:
            flying.append(waiting[client])
        if not flying or random_.random() < 0.35:
            continue
        who, seq, groups = attempt = flying.pop(random_.randrange(len(flying)))
        found = {tables[g].is_first(who, seq, Place(time, 0)) for g in groups}
        assert len(found) == 1, "groups differ in a verdict"
        for g in groups:
            if True in found:
                delivered[g].append((who, seq))
        again += False in found
        if waiting.get(who) == attempt:
            assert all((who, seq) in delivered[g] for g in groups), "answered, not delivered"
            del waiting[who]
    for one in delivered:
        assert len(set(one)) == len(one), "delivered twice"
    return again


@given(st.integers(0, 1 << 32))
@settings(max_examples=150, deadline=None)
def test_retries_deliver_once_and_alike_in_all_groups(seed: int) -> None:
    story(seed, Sessions)


def test_requests_do_come_again_in_these_stories() -> None:
    assert sum(story(seed, Sessions) for seed in range(50)) > 500


class ForgetsEarly(Sessions):
    """Has room for one client only."""

    def is_first(self, client: int, seq: int, place: Place) -> bool:
        for other in [c for c in self._last if c != client]:
            del self._last[other]
        return super().is_first(client, seq, place)


class WantsTheNext(Sessions):
    """Takes numbers that other groups have delivered for missing ones."""

    def is_first(self, client: int, seq: int, place: Place) -> bool:
        last = self._last.get(client, (0, place))[0]
        return seq == last + 1 and super().is_first(client, seq, place)


@pytest.mark.parametrize("mutant", [ForgetsEarly, WantsTheNext])
def test_a_broken_table_is_caught(mutant: type[Sessions]) -> None:
    def caught(seed: int) -> bool:
        try:
            story(seed, mutant)
        except AssertionError:
            return True
        return False

    assert any(caught(seed) for seed in range(100))


# Rejoining ------------------------------------------------------------------------------------

LIMITS = Limits(patience=5, attempts=1000, kept_records=8)


class Replica:
    """An application whose state is the list of what it delivered, over the pure parts."""

    def __init__(self, me: int, life: int, *, complete: bool) -> None:
        self.me = me
        self.log: list[int] = []
        self.sessions = Sessions()
        self.joiner: Joiner[tuple[int, int]] = Joiner(me, life, "g", LIMITS)
        if complete:
            self.joiner.found()

    @property
    def complete(self) -> bool:
        return self.joiner.phase is Phase.COMPLETE

    def apply(self, place: Place, record: tuple[int, int]) -> None:
        client, seq = record
        if self.sessions.is_first(client, seq, place):
            self.log.append(client * 1000 + seq)

    def snapshot(self, marker: MarkerId) -> bytes:
        state = b"".join(n.to_bytes(4, "little") for n in self.log)
        return encode_snapshot(Snapshot(1, "g", tuple(marker), list(self.sessions.rows()), state))

    def restore(self, effect: Restore[tuple[int, int]]) -> None:
        state = effect.snapshot.state
        self.log = [int.from_bytes(state[i : i + 4], "little") for i in range(0, len(state), 4)]
        self.sessions = _sessions_of(effect.snapshot.sessions)
        for place, record in effect.kept:
            self.apply(place, record)


class SkipsKept(Replica):
    def restore(self, effect: Restore[tuple[int, int]]) -> None:
        super().restore(Restore(effect.snapshot, []))


class ForgetsSessions(Replica):
    def restore(self, effect: Restore[tuple[int, int]]) -> None:
        super().restore(Restore(_without_sessions(effect.snapshot), effect.kept))


class SnapshotTooEarly(Replica):
    """Hands out its state as of one delivery before the marker."""

    def apply(self, place: Place, record: tuple[int, int]) -> None:
        self.before = list(self.log), _sessions_of(self.sessions.rows())
        super().apply(place, record)

    def snapshot(self, marker: MarkerId) -> bytes:
        now = self.log, self.sessions
        self.log, self.sessions = getattr(self, "before", now)
        data = super().snapshot(marker)
        self.log, self.sessions = now
        return data


def _sessions_of(rows: Sequence[tuple[int, ...]]) -> Sessions:
    return Sessions.of_rows([(c, seq, time, tie) for c, seq, time, tie in rows])


def _without_sessions(s: Snapshot) -> Snapshot:
    return Snapshot(s.version, s.group, s.marker, [], s.state)


def rejoin(seed: int, kind: type[Replica] = Replica) -> int:  # noqa: PLR0912, PLR0915 one story
    """One group of three under requests, kills, lost and late chunks. Returns the restores."""
    random_ = random.Random(seed)
    replicas: list[Replica] = [kind(i, 0, complete=True) for i in range(3)]
    truth = Replica(9, 0, complete=True)
    order: list[tuple[str, Any]] = []
    at = [0, 0, 0]  # how far each has delivered
    chunks: list[Part] = []
    restores = 0

    def do(replica: Replica, effects: list[Any]) -> None:
        nonlocal restores
        for effect in effects:
            if isinstance(effect, SendMarker):
                order.append(("marker", effect))
            elif isinstance(effect, Restore):
                replica.restore(effect)
                restores += 1

    def step(i: int, now: int) -> None:
        replica = replicas[i]
        kind_, what = order[at[i]]
        at[i] += 1
        place = Place(at[i], 0)
        if kind_ == "request":
            if replica.complete:
                replica.apply(place, what)
            else:
                do(replica, replica.joiner.keep(place, what, 8, now, donors(i)))
        else:
            replica.joiner.marker_stands(what.marker, now)
            if what.donor == i and replica.complete:
                parts = parts_of(replica.snapshot(what.marker), what.marker, 40)
                if random_.random() < 0.1:
                    parts[0] = parts[0]._replace(data=b"?" + parts[0].data[1:])
                chunks.extend(parts)

    def arrive(part: Part, now: int) -> None:
        to = part.marker.joiner
        do(replicas[to], replicas[to].joiner.part(part, now, donors(to)))

    def donors(i: int) -> list[int]:
        return [j for j in range(3) if j != i and replicas[j].complete]

    for now in range(400):
        choice = random_.random()
        if choice < 0.35 and now < 300:
            record = (random_.randrange(2), random_.randrange(20))
            order.append(("request", record))
            truth.apply(Place(len(order), 0), record)
        elif choice < 0.4 and now < 300:
            victim = random_.randrange(3)
            if len(donors(victim)) == 2:  # one at a time, and the others are complete
                replicas[victim] = kind(victim, now, complete=False)
                at[victim] = len(order)  # what came before passes it by
        elif choice < 0.6 and chunks:
            part = chunks.pop(random_.randrange(min(3, len(chunks))))
            if random_.random() > 0.02:
                arrive(part, now)
        for i in range(3):
            do(replicas[i], replicas[i].joiner.tick(now, donors(i)))
            if at[i] < len(order) and random_.random() < 0.7:
                step(i, now)
    for now in range(400, 6000):
        for i in range(3):
            do(replicas[i], replicas[i].joiner.tick(now, donors(i)))
            while at[i] < len(order):
                step(i, now)
        while chunks:
            arrive(chunks.pop(0), now)
        if all(replica.complete for replica in replicas):
            break
    for replica in replicas:
        assert replica.complete
        assert replica.log == truth.log
    return restores


@given(st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_whoever_comes_back_has_what_the_others_have(seed: int) -> None:
    rejoin(seed)


def test_replicas_do_come_back_in_these_stories() -> None:
    assert sum(rejoin(seed) for seed in range(30)) > 30


@pytest.mark.parametrize("mutant", [SkipsKept, ForgetsSessions, SnapshotTooEarly])
def test_a_broken_rejoin_is_caught(mutant: type[Replica]) -> None:
    def caught(seed: int) -> bool:
        try:
            rejoin(seed, mutant)
        except AssertionError:
            return True
        return False

    assert any(caught(seed) for seed in range(60))


def test_no_donor_answers_and_it_gives_up_in_the_end() -> None:
    joiner: Joiner[int] = Joiner(0, 0, "g", Limits(patience=1, attempts=3))
    effects = [e for now in range(0, 20, 2) for e in joiner.tick(now, [1, 2])]
    assert [e.donor for e in effects if isinstance(e, SendMarker)] == [1, 2, 1]
    assert isinstance(effects[3], GiveUp)


@given(st.binary(max_size=64), st.integers(0, 63), st.integers(1, 255))
@settings(deadline=None)
def test_a_damaged_snapshot_is_corrupt(state: bytes, at: int, flip: int) -> None:
    marker = MarkerId(1, 2, 3)
    data = encode_snapshot(Snapshot(1, "g", tuple(marker), [(1, 2, 3, 4, 5, 6)], state))
    assert decode_snapshot(data, "g", marker).state == state
    damaged = bytearray(data)
    damaged[at % len(data)] ^= flip
    for bad in (bytes(damaged), data[:-1], b"", data[:3]):
        with pytest.raises(Corrupt):
            decode_snapshot(bad, "g", marker)
    with pytest.raises(Corrupt):
        decode_snapshot(data, "h", marker)
    with pytest.raises(Corrupt):
        decode_snapshot(data, "g", MarkerId(1, 2, 4))
