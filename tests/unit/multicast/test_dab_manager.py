"""Agreement on the end of a life (paper 003 §7): scenarios 10, 20, 30 and 32 of dab.md, and all
crash patterns of small groups."""

from collections.abc import Iterator
from itertools import chain, combinations, product

import pytest

from shmcast.multicast.protocols.dab_bounds import Timing
from shmcast.multicast.protocols.dab_consensus import FloodMin
from shmcast.multicast.protocols.dab_first_round import FirstRound
from shmcast.multicast.protocols.dab_manager import Decision, Manager, Output
from shmcast.multicast.protocols.dab_messages import Help, Outcome, Part, Round

TIMING = Timing(delta=4, theta=10, gamma=2, f=2)
LIFE = (9, 0)


def manager(me: int, members: tuple[int, ...], joined: int = 1) -> Manager:
    found = Manager(me, TIMING, joined)
    for k in members:
        found.join(k, 1)
    found.join(me, joined)
    return found


def test_scenario_10_first_round_message_before_the_own_report_is_kept() -> None:
    m = manager(1, (1, 3))
    assert m.receive(3, Part(LIFE, 3), 64) == []
    assert m.fail(LIFE, 4, 66) == [Part(LIFE, 4)]
    assert m.next_wake(66) == 66 + TIMING.hop
    assert m.wake(79) == [], "its own message may not have arrived everywhere"
    assert m.wake(80) == [Round(LIFE, 1, 3, False)]


def test_scenario_20_newcomer_helps_and_stays_out() -> None:
    """§7: 9 ended with slot 7 for process 2, with 6 for process 3; process 4 joins at 8."""
    two, three, four = manager(2, (2, 3)), manager(3, (2, 3)), manager(4, (2, 3), joined=8)
    two.join(4, 8)
    three.join(4, 8)
    assert four.fail(LIFE, 7, 0) == [Help(LIFE, 7)]
    two.fail(LIFE, 7, 0)
    three.fail(LIFE, 6, 0)
    assert two.running[LIFE].first.awaited == {3, 4}, "8 ≤ 7 + 1"
    assert three.running[LIFE].first.awaited == {2}
    two.receive(3, Part(LIFE, 6), 10)
    two.receive(4, Help(LIFE, 7), 10)
    three.receive(2, Part(LIFE, 7), 10)
    three.receive(4, Help(LIFE, 7), 10)
    assert two.wake(14) == [Round(LIFE, 1, 6, False)]
    assert two.running[LIFE].consensus.group == {2, 3}
    assert three.wake(14) == [Round(LIFE, 1, 6, False)]
    assert Round(LIFE, 2, 6, True) in two.receive(3, Round(LIFE, 1, 6, False), 24)
    two.flushed(30)
    assert two.wake(42) == [Decision(LIFE, 6)]


def test_scenario_32_lost_message_is_said_again_and_answered() -> None:
    one, other = manager(1, (1, 2)), manager(2, (1, 2))
    one.fail(LIFE, 4, 0)
    other.fail(LIFE, 4, 0)
    one.receive(2, Part(LIFE, 4), 10)
    assert one.wake(14) == [Round(LIFE, 1, 4, False)]
    assert one.say_again(20) == [], "there is still time"
    again = one.say_again(14 + TIMING.after_last_report + 1)
    assert again == [Part(LIFE, 4, again=True), Round(LIFE, 1, 4, False, again=True)]
    late = 100
    for ballot in again:
        assert not isinstance(ballot, Decision)
        other.receive(1, ballot, late)
    assert other.running[LIFE].consensus.r == 2


def test_scenario_32_one_that_has_decided_says_what() -> None:
    m = manager(1, (1,))
    m.fail(LIFE, 4, 0)
    m.wake(14)
    m.flushed(20)
    assert m.wake(32) == [Decision(LIFE, 4)]
    assert m.receive(2, Part(LIFE, 4), 30) == []
    assert m.receive(2, Part(LIFE, 4, again=True), 30) == [Outcome(LIFE, 4)]
    behind = manager(2, (1, 2))
    behind.fail(LIFE, 5, 0)
    assert behind.receive(1, Outcome(LIFE, 4), 40) == [Decision(LIFE, 4)]


def test_life_that_is_skipped_before_its_agreement_begins_is_not_waited_for() -> None:
    """D16, D17: its "part" was kept, so it is in the group, and consensus must not wait for it."""
    m = manager(1, (1, 2, 3))
    m.receive(2, Part(LIFE, 4), 0)
    m.fail((2, 0), 6, 5)
    m.fail(LIFE, 4, 6)
    m.receive(3, Part(LIFE, 4), 6)
    m.wake(30)
    consensus = m.running[LIFE].consensus
    assert consensus.group == {1, 2, 3} and 2 in consensus.skipped


# All crash patterns ---------------------------------------------------------------------------

Crash = tuple[int, frozenset[int]]  # the round, and who still gets that round's message


def lock_step(values: tuple[int, ...], crashes: dict[int, Crash]) -> dict[int, int]:
    """One message per process and round. A crash is known when the next round begins."""
    n = len(values)
    people = {p: Manager(p, TIMING, 1) for p in range(n)}
    for m in people.values():
        for k in range(n):
            m.join(k, 1)
    outbox = {p: m.fail(LIFE, values[p], 0) for p, m in people.items()}
    decided: dict[int, int] = {}
    for step in range(8):
        now = (step + 1) * 100
        received = list(_transmit(outbox, crashes, step))
        dead = {p for p, (when, _) in crashes.items() if when <= step}
        outbox = {p: [] for p in people}
        for receiver, sender, output in received:
            if receiver not in dead:
                assert not isinstance(output, Decision)
                outbox[receiver] += people[receiver].receive(sender, output, now)
        for p, m in people.items():
            if p not in dead:
                for k in sorted(dead):
                    outbox[p] += m.leave(k, now)
                outbox[p] += m.wake(now)
                m.flushed(now)
                for output in outbox[p]:
                    if isinstance(output, Decision):
                        decided[p] = output.value
    return decided


def _transmit(
    outbox: dict[int, list[Output]], crashes: dict[int, Crash], step: int
) -> Iterator[tuple[int, int, Output]]:
    for sender, outputs in outbox.items():
        when, reached = crashes.get(sender, (99, frozenset()))
        for receiver, output in product(outbox, outputs):
            if receiver == sender or when < step or isinstance(output, Decision):
                continue
            if when > step or receiver in reached:
                yield receiver, sender, output


def patterns(n: int, crash_count: int, rounds: int) -> Iterator[dict[int, Crash]]:
    everyone = range(n)
    subsets = [
        frozenset(s) for s in chain.from_iterable(combinations(everyone, k) for k in range(n))
    ]
    for victims in combinations(everyone, crash_count):
        choices = [(when, who) for when in range(rounds) for who in subsets]
        for picked in product(choices, repeat=crash_count):
            yield dict(zip(victims, picked, strict=True))


@pytest.mark.parametrize(("n", "crash_count"), [(3, 0), (3, 1), (3, 2), (4, 1)])
def test_every_crash_pattern_ends_in_one_decision(n: int, crash_count: int) -> None:
    """Theorem 1: uniform agreement, validity, minimum, termination."""
    for values in product((3, 4), repeat=n):
        for crashes in patterns(n, crash_count, rounds=3 if n == 3 else 4):
            decided = lock_step(values, crashes)
            assert len(set(decided.values())) <= 1, f"{values} {crashes}: {decided}"
            assert set(decided) >= set(range(n)) - set(crashes), f"{values} {crashes}"
            for p, value in decided.items():
                assert value <= values[p] and value in values


class DropsTheDead(FirstRound):
    """Fig. 8 as printed: a process that is skipped leaves the group, although its "part" came."""

    def skip(self, k: int) -> None:
        super().skip(k)
        self.takes_part.discard(k)


def skip_race(first_round: type[FirstRound]) -> set[int]:
    """Process 3 alone heard a smaller value; its first round message reached 1 and not 2, then it
    died. 2 learns of that before its own First Round is over, 1 after."""
    one, two = manager(1, (1, 2, 3)), manager(2, (1, 2, 3))
    decided: set[int] = set()
    for m in (one, two):
        m.first_round = first_round
        m.fail(LIFE, 4, 0)
        m.receive(3, Part(LIFE, 4), 10)
    to_two: list[Output] = [Part(LIFE, 4), *one.receive(2, Part(LIFE, 4), 14)]
    one.receive(3, Round(LIFE, 1, 3, False), 20)
    to_one: list[Output] = two.leave(3, 21)
    for now in range(22, 100):
        sent_to_one, sent_to_two = to_one, to_two
        to_two = [o for b in sent_to_one for o in _hear(one, 2, b, now)] + one.wake(now)
        to_one = [o for b in sent_to_two for o in _hear(two, 1, b, now)] + two.wake(now)
        one.flushed(now)
        two.flushed(now)
        decided |= {o.value for o in (*to_one, *to_two) if isinstance(o, Decision)}
    return decided


def _hear(m: Manager, sender: int, output: Output, now: int) -> list[Output]:
    return [] if isinstance(output, Decision) else m.receive(sender, output, now)


def test_scenario_30_late_skip_splits_no_decision() -> None:
    assert skip_race(FirstRound) == {3}


def test_scenario_30_figure_8_as_printed_splits_the_decision() -> None:
    """D16: it drops 3 from the group of 2, whose first round then looks stable."""
    assert skip_race(DropsTheDead) == {3, 4}


def test_scenario_30_participant_that_sent_one_round_and_died_splits_nothing() -> None:
    crash = {0: (1, frozenset({1}))}
    decided = lock_step((3, 4, 4, 4), crash)
    assert set(decided.values()) == {3}


def test_consensus_without_crashes_takes_two_rounds() -> None:
    flood = FloodMin(LIFE, 1, TIMING.outlive)
    assert flood.begin(4, frozenset({1, 2})) == [Round(LIFE, 1, 4, False)]
    flood.flushed(10)
    assert flood.receive(2, Round(LIFE, 1, 3, False)) == [Round(LIFE, 2, 3, True)]
    flood.flushed(20)
    assert flood.decision(20 + TIMING.outlive) == 3


def test_nothing_is_decided_while_a_crash_could_lose_its_announcement() -> None:
    """The window Θ is counted from the flush, not from when the announcement is handed over."""
    flood = FloodMin(LIFE, 1, TIMING.outlive)
    flood.begin(4, frozenset({1}))
    assert flood.decision(1000) is None, "it has not even left"
    flood.flushed(1000)
    flood.flushed(1001)
    assert flood.decision(1000 + TIMING.theta) is None
    assert flood.decision(1000 + TIMING.outlive) == 4


def test_decision_is_what_was_announced() -> None:
    """A value that arrives after the announcement changes nothing."""
    flood = FloodMin(LIFE, 1, TIMING.outlive)
    flood.begin(4, frozenset({1, 2}))
    flood.receive(2, Round(LIFE, 1, 4, False))
    flood.flushed(20)
    flood.receive(2, Round(LIFE, 2, 3, True))
    assert flood.decision(32) == 4
