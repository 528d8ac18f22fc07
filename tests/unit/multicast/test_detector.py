"""Failure detector and leader selection, in time that the test makes."""

from __future__ import annotations

from shmcast.multicast.protocols.core import Nominate, Suspect, Trust
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.run.detector import BIRTH_DOUBLINGS, CALM, Detector, Leadership

LIMIT = 100  # ticks of silence


def a_detector(me: int = 1) -> Detector:
    detector = Detector(Topology(((0, 1, 2), (3, 4, 5))), me, LIMIT, 0)
    for peer in detector.peers:
        detector.heard(peer, 0, 0)
    return detector


def all_speak(detector: Detector, now: int, but: int = -1) -> None:
    for peer in detector.peers:
        if peer != but:
            detector.heard(peer, 0, now)


def test_a_death_that_the_kernel_reports_needs_no_timeout() -> None:
    detector = a_detector()
    assert detector.died(0, 0) == [Suspect(0), Nominate(0, 1)]
    assert detector.died(0, 0) == []


def test_silence_is_suspected_and_a_word_takes_it_back() -> None:
    detector = a_detector()
    all_speak(detector, LIMIT, but=2)
    assert detector.passed(LIMIT) == []
    assert detector.passed(LIMIT + 1) == [Suspect(2)]
    assert detector.heard(2, 0, LIMIT + 2) == [Trust(2)]


def test_a_wrong_suspicion_doubles_the_patience_with_that_peer_alone() -> None:
    detector = a_detector()
    all_speak(detector, LIMIT + 1, but=2)
    assert detector.passed(LIMIT + 1) == [Suspect(2)]
    detector.heard(2, 0, LIMIT + 1)
    assert detector.passed(2 * LIMIT + 2) == [
        Suspect(0), Suspect(3), Suspect(4), Suspect(5), Nominate(0, 1),
    ]  # fmt: skip
    assert detector.passed(3 * LIMIT + 1) == []
    assert detector.passed(3 * LIMIT + 2) == [Suspect(2)]


def test_one_that_has_not_been_heard_of_gets_time_to_start() -> None:
    detector = Detector(Topology(((0, 1),)), 0, LIMIT, 0)
    assert detector.passed(LIMIT << BIRTH_DOUBLINGS) == []
    assert detector.passed((LIMIT << BIRTH_DOUBLINGS) + 1) == [Suspect(1)]


def test_the_next_life_of_a_dead_peer_is_trusted_and_does_not_lead_again() -> None:
    detector = a_detector()
    detector.died(0, 0)
    assert detector.heard(0, 1, 50, Leadership(0, 0)) == [Trust(0)]
    assert detector.leaders[0] == (1, 1)
    assert detector.peers[0].mistakes == 0


def test_an_echo_of_an_earlier_life_says_nothing() -> None:
    detector = a_detector()
    detector.heard(0, 3, 10)
    assert detector.heard(0, 2, 20) == []
    assert detector.died(0, 2) == []
    assert not detector.is_suspected(0)


def test_members_adopt_the_highest_epoch_and_of_equal_ones_the_lower_leader() -> None:
    detector = a_detector(me=2)
    assert detector.heard(1, 0, 1, Leadership(4, 1)) == [Nominate(0, 1)]
    assert detector.heard(0, 0, 2, Leadership(4, 0)) == [Nominate(0, 0)]
    assert detector.heard(1, 0, 3, Leadership(4, 1)) == []
    assert detector.heard(3, 0, 4, Leadership(1, 4)) == [Nominate(1, 4)]


def test_a_leader_of_another_group_is_no_leader_of_ours() -> None:
    detector = a_detector(me=2)
    assert detector.heard(1, 0, 1, Leadership(9, 3)) == []
    assert detector.leaders[0] == (0, 0)


def test_a_suspected_leader_that_others_still_follow_is_replaced_at_once() -> None:
    detector = a_detector(me=2)
    detector.died(0, 0)
    assert detector.leaders[0] == (1, 1)
    assert detector.heard(1, 0, 1, Leadership(5, 0)) == [Nominate(0, 0), Nominate(0, 1)]
    assert detector.leaders[0] == (6, 1)


def test_any_two_that_hear_each_other_come_to_agree() -> None:
    """They suspect different members; after a few exchanges they follow the same one."""
    one, two = a_detector(me=1), a_detector(me=2)
    one.died(0, 0)
    two.heard(0, 0, 1)
    for now in range(2, 6):
        two.heard(1, 0, now, one.leaders[0])
        one.heard(2, 0, now, two.leaders[0])
    assert one.leaders[0] == two.leaders[0] == (1, 1)


def test_one_that_trusts_no_majority_stands_for_nothing_until_it_does() -> None:
    """On its way back it deposed the leader that the others had followed all the time."""
    detector = a_detector(me=2)
    assert detector.passed(LIMIT + 1) == [Suspect(p) for p in (0, 1, 3, 4, 5)]
    assert not detector.has_quorum()
    assert detector.leaders[0] == (0, 0)
    assert detector.heard(0, 0, LIMIT + 2, Leadership(0, 0)) == [Trust(0)]
    assert detector.has_quorum()


def test_a_leader_that_stays_away_is_replaced_when_a_majority_is_back() -> None:
    detector = a_detector(me=2)
    detector.passed(LIMIT + 1)
    assert detector.heard(1, 0, LIMIT + 2) == [Trust(1), Nominate(0, 1)]


def test_our_own_stall_is_charged_to_nobody() -> None:
    detector = a_detector()
    detector.excuse(10 * LIMIT, 10 * LIMIT)
    assert detector.passed(11 * LIMIT) == []
    assert detector.passed(11 * LIMIT + 1)[0] == Suspect(0)


def test_patience_shrinks_again_after_a_long_time_without_a_mistake() -> None:
    detector = a_detector()
    detector.passed(LIMIT + 1)
    detector.heard(2, 0, LIMIT + 1)
    assert detector.peers[2].mistakes == 1
    calm = LIMIT + 1 + CALM * 2 * LIMIT
    detector.heard(2, 0, calm)
    assert detector.peers[2].mistakes == 1
    detector.heard(2, 0, calm + 1)
    assert detector.peers[2].mistakes == 0
