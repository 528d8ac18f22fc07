"""One direction of a link against a network that loses, doubles and reorders."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcast.errors import Corrupt, Incompatible
from shmcast.multicast.run import link
from shmcast.multicast.run.link import Ack, Cut, Data, Hello, Incoming, Outgoing, Welcome

PIECE_BYTES = 8
LIFE, NEXT = link.life_of(0, 7), link.life_of(1, 3)
FORGETFUL = link.life_of(0, 9)  # of a host that was rebooted


class World:
    """A sender, a receiver, and what is on its way between them."""

    def __init__(self, seed: int, frames_max: int = 10_000) -> None:
        self.random = Random(seed)
        self.frames_max = frames_max
        self.out = Outgoing(LIFE, frames_max, 1 << 20)
        self.into = Incoming(LIFE)
        self.there: deque[tuple[Hello | Data | Cut, bytes]] = deque()
        self.back: deque[Welcome | Ack] = deque()
        self.now = 0
        self.pushed: list[bytes] = []  # to the receiver's present life, as the sender knows it
        self.got: list[bytes] = []  # by the receiver's present life, of the sender's present one

    def push(self) -> None:
        data = f"{self.out.life}/{len(self.pushed)}".encode() * self.random.choice((1, 1, 5))
        self.pushed.append(data)
        self.there += self.out.push(*link.pieces_of(data, PIECE_BYTES))

    def heartbeat(self) -> None:
        self.now += 1
        self.there.append((Hello(1, self.out.life, "c", self.now), b""))
        self.out.hello_left(self.now)
        if self.out.cut and self.out.to_life is not None:
            self.there.append((Cut(self.out.life, self.out.to_life), b""))

    def arrive(self) -> None:
        if not self.there:
            return
        head, data = self.there.popleft()
        if isinstance(head, Hello):
            if head.life != self.into.from_life and not link.outlives(self.into.known, head.life):
                self.got.clear()
            answer = self.into.on_hello(head, 0, 0)
            self.back += [answer] if answer else []
        elif isinstance(head, Cut):
            self.into.on_cut(head)
        else:
            gap = self.into.leaves_a_gap(head)
            if self.into.is_next(head):
                whole = self.into.whole(data, 1 << 20)
                self.got += [] if whole is None else [whole]
                self.into.took(data)
            self.back.append(self.into.ack(gap))

    def answer(self) -> None:
        if self.back:
            record = self.back.popleft()
            answered = (
                self.out.on_welcome(record)
                if isinstance(record, Welcome)
                else self.out.on_ack(record)
            )
            self.there += answered

    def disturb(self) -> None:
        for queue in (self.there, self.back):
            if queue:
                i = self.random.randrange(len(queue))
                kind = self.random.randrange(3)
                if kind == 0:
                    del queue[i]
                elif kind == 1:
                    queue.append(queue[i])  # type: ignore[arg-type]
                else:
                    queue.rotate(1)

    def cut_connection(self) -> None:
        self.there.clear()
        self.back.clear()

    def step(self) -> None:
        acts = (self.push, self.heartbeat, self.arrive, self.answer, self.disturb)
        weights = (6, 2, 12, 12, 2)
        self.random.choices(acts, weights)[0]()
        if self.random.random() < 0.01:
            self.cut_connection()

    def heal(self) -> None:
        """Heartbeats, and a network that carries: a bounded number of rounds must do."""
        for _ in range(8 + 2 * len(self.pushed) // link.WINDOW):
            self.heartbeat()
            while self.there or self.back:
                self.arrive()
                self.answer()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_what_came_is_always_a_beginning_of_what_was_sent(seed: int) -> None:
    world = World(seed)
    for _ in range(300):
        world.step()
        assert world.got == world.pushed[: len(world.got)]
    world.heal()
    assert world.got == world.pushed
    assert not world.out.kept and world.out.kept_bytes == 0


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 20))
def test_a_sender_without_room_cuts_and_both_know(seed: int, frames_max: int) -> None:
    world = World(seed, frames_max)
    for _ in range(300):
        world.step()
        assert world.got == world.pushed[: len(world.got)]
        assert len(world.out.kept) <= frames_max
    world.heal()
    assert world.into.cut == world.out.cut
    if not world.out.cut:
        assert world.got == world.pushed


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_a_new_receiver_hears_nothing_of_the_past(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.step()
    world.heal()
    world.into, world.got = Incoming(NEXT), []
    world.heal()
    assert world.got == [] and world.out.to_life == NEXT
    world.pushed.clear()
    for _ in range(150):
        world.step()
        assert world.got == world.pushed[: len(world.got)]
    world.heal()
    assert world.got == world.pushed


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_an_old_life_of_the_sender_is_not_heard_again(seed: int) -> None:
    world = World(seed)
    for _ in range(100):
        world.step()
    late = list(world.there)
    world.out, world.pushed = Outgoing(NEXT, 10_000, 1 << 20), []
    world.there.clear()
    world.heal()
    world.there.extend(late)
    for _ in range(100):
        world.step()
        assert world.got == world.pushed[: len(world.got)]
    world.heal()
    assert world.got == world.pushed


class Forgetful(Outgoing):
    """Drops the oldest frame instead of cutting."""

    def push(self, *pieces: bytes) -> link.Sending:
        while self.kept and len(self.kept) + len(pieces) > self.frames_max:
            self.kept_bytes -= len(self.kept.popleft())
        return super().push(*pieces)


class Impatient(Incoming):
    """Takes a frame although one before it is missing."""

    def is_next(self, data: Data) -> bool:
        return data.seq >= self.expected


def run_broken(broken: str) -> None:
    for seed in range(50):
        world = World(seed, 5 if broken == "sender" else 10_000)
        if broken == "sender":
            world.out = Forgetful(0, 5, 1 << 20)
        else:
            world.into = Impatient(0)
        for _ in range(300):
            world.step()
            assert world.got == world.pushed[: len(world.got)]


@pytest.mark.parametrize("broken", ["sender", "receiver"])
def test_a_broken_link_would_be_noticed(broken: str) -> None:
    with pytest.raises(AssertionError):
        run_broken(broken)


def test_a_piece_that_nobody_sends_is_refused() -> None:
    into = Incoming(LIFE)
    assert into.whole(link.pieces_of(b"whole", 8)[0], 5) == b"whole"
    for piece in (b"", b"\7piece", b"\0" + bytes(6)):
        with pytest.raises(Corrupt):
            into.whole(piece, 5)
    into.took(b"\1abc")
    with pytest.raises(Corrupt):
        into.whole(b"\1def", 5)


@given(st.binary(max_size=60))
def test_garbage_on_a_link_is_recognised(data: bytes) -> None:
    for frame in (data, bytes([link.LINK_VERSION]) + data):
        try:
            found = link.decode(frame)
        except (Corrupt, Incompatible):
            continue
        assert link.decode(link.encode(found)) == found


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_what_answers_a_new_life_is_not_lost_when_its_welcome_comes(seed: int) -> None:
    world = World(seed)
    for _ in range(100):
        world.step()
    world.heal()
    world.into, world.got = Incoming(NEXT), []
    world.pushed.clear()
    world.out.meet(NEXT)  # its Hello, over the link of the other direction
    for _ in range(100):
        world.step()
        assert world.got == world.pushed[: len(world.got)]
    world.heal()
    assert world.got == world.pushed


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_a_sender_that_forgot_its_past_is_not_heard_and_cuts_nobody(seed: int) -> None:
    """After a reboot it was life 0 again: its first frames were swallowed, the rest was taken for
    the continuation."""
    world = World(seed)
    for _ in range(seed % 200):
        world.step()
    world.heal()
    got = list(world.got)
    world.out, world.pushed = Outgoing(FORGETFUL, 10_000, 1 << 20), []
    for _ in range(100):
        world.step()
    world.heal()
    assert world.got == got and not world.into.cut and not world.out.cut
    world.out, world.pushed = Outgoing(NEXT, 10_000, 1 << 20), []
    for _ in range(100):
        world.step()
    world.heal()
    assert world.got == world.pushed


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_a_receiver_that_forgot_its_past_gets_nothing_and_cuts_nobody(seed: int) -> None:
    world = World(seed)
    for _ in range(seed % 200):
        world.step()
    world.heal()
    world.into, world.got = Incoming(FORGETFUL), []
    for _ in range(100):
        world.step()
    world.heal()
    assert world.got == [] and not world.out.cut and not world.into.cut


def test_a_life_that_others_have_met_ends_the_one_before() -> None:
    into = Incoming(LIFE)
    into.learn(NEXT)
    assert into.on_hello(Hello(1, LIFE, "c", 0), 0, 0) is None
    assert into.on_hello(Hello(1, NEXT, "c", 0), 0, 0) is not None


def a_link() -> Outgoing:
    out = Outgoing(LIFE, 10_000, 1 << 20)
    out.on_welcome(Welcome(NEXT, LIFE, 0, 0, 0, 0))
    return out


def test_a_frame_on_a_long_way_is_sent_once() -> None:
    """At every heartbeat it was sent again, twelve times in 100 ms."""
    out = a_link()
    assert len(out.push(b"frame")) == 1
    for now in range(10, 20):
        out.hello_left(now)
        assert out.on_welcome(Welcome(NEXT, LIFE, 0, now - 10, 0, 0)) == []  # to an earlier Hello
    assert out.on_ack(Ack(NEXT, LIFE, 1, False)) == []
    assert out.on_welcome(Welcome(NEXT, LIFE, 1, 10, 0, 0)) == []


def test_a_frame_that_the_next_hello_overtook_is_sent_again() -> None:
    out = a_link()
    out.push(b"frame")
    out.hello_left(10)
    assert len(out.on_welcome(Welcome(NEXT, LIFE, 0, 11, 0, 0))) == 1


def test_a_peer_without_room_is_asked_with_fewer_and_fewer_frames() -> None:
    """It got the whole window again, at every heartbeat."""
    out = a_link()
    for _ in range(link.WINDOW):
        out.push(b"frame")
    sent = []
    for now in range(1, 6):
        out.hello_left(now)
        sent.append(len(out.on_welcome(Welcome(NEXT, LIFE, 0, now, 0, 0))))
    assert sent == [128, 16, 2, 1, 1]
    more = [len(out.on_ack(Ack(NEXT, LIFE, expected, False))) for expected in (1, 3, 7)]
    assert more == [2, 4, 8]
