"""Algorithm 1 of paper 002, line by line, and the reconfiguration of §5."""

import pytest

from shmcast.multicast.protocols.barrier_config import Config
from shmcast.multicast.protocols.barrier_delivery import Delivery
from shmcast.multicast.protocols.barrier_entries import (
    Barrier,
    Entry,
    Final,
    Initial,
    Join,
    Joined,
    Leave,
    Left,
    WantBarrier,
    WantLeave,
)
from shmcast.multicast.protocols.baseline import Baseline
from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Delivered,
    Effect,
    Message,
    MessageId,
    Multicast,
    Receive,
    Replied,
    Request,
    Send,
    SetTimer,
    Start,
    Timer,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.group_log import Append, Follows, Leads, Learned
from shmcast.multicast.protocols.registry import Options
from shmcast.multicast.protocols.topology import Topology

TOPOLOGY = Topology.regular(groups=3, replicas=1)
SPARSE = {"sparse": True}
NOW = 1000


def message(sender: int, seq: int, *dest: int) -> Message:
    return Message(MessageId(sender, seq), dest)


def at(time: int, process: int = 0) -> Timestamp:
    return Timestamp(time, process)


def process(g: int, *, leads: bool = True, options: Options | None = None) -> Baseline:
    found = Baseline(TOPOLOGY, g, g, Config.of(TOPOLOGY, options or {}))
    if leads:
        found.handle(Replied(Leads(()), "log"), 0)
    return found


def fr_deliver(p: Baseline, body: Wire) -> list[Effect]:
    return p.handle(Delivered(Message(MessageId(9, 1), (0,), body), None, "fr"), NOW)


def learn(p: Baseline, group: int, entry: Entry) -> list[Effect]:
    return p.handle(Replied(Learned(group, entry), "log"), NOW)


def appended(effects: list[Effect]) -> list[object]:
    return [
        e.event.what.value
        for e in effects
        if isinstance(e, Ask) and isinstance(e.event, Request) and isinstance(e.event.what, Append)
    ]


def final(m: Message, ts: Timestamp, src: int = 0) -> Final:
    return Final(Initial(m, src, ts), ts, tuple(h for h in m.dest if h != src))


M = message(0, 1, 0, 1)


def test_multicast_goes_to_the_own_group_with_the_wallclock() -> None:
    """L7-L10."""
    [ask] = process(0).handle(Multicast(M), NOW)
    assert ask == Ask("fr", Multicast(Message(MessageId(0, 1), (0,), Initial(M, 0, at(NOW)))))


def test_two_multicasts_of_one_tick_get_two_timestamps() -> None:
    """L9: getTime() returns a unique value."""
    p = process(0)
    assert [p.get_time(NOW) for _ in range(3)] == [at(NOW), at(NOW + 1), at(NOW + 2)]


def test_initial_timestamp_above_all_decided_is_kept() -> None:
    """L25."""
    assert appended(fr_deliver(process(0), Initial(M, 0, at(7)))) == [final(M, at(7))]


def test_initial_timestamp_below_a_decided_one_is_raised() -> None:
    """L26."""
    p = process(0)
    fr_deliver(p, Initial(message(0, 1, 1), 0, at(7)))
    [entry] = appended(fr_deliver(p, Initial(message(1, 1, 1), 0, at(3, 1))))
    assert isinstance(entry, Final) and entry.ts == at(8, 1)


def test_barrier_binds_the_timestamps_that_follow() -> None:
    """L30: "no message decided afterwards within g will have a timestamp lower"."""
    p = process(0)
    fr_deliver(p, WantBarrier((1,), at(50, 1), MessageId(1, 1)))
    [entry] = appended(fr_deliver(p, Initial(M, 0, at(7))))
    assert isinstance(entry, Final) and entry.ts == at(51)


def test_follower_keeps_messages_until_it_leads() -> None:
    """Lemma 1: what every correct process has is decided in the end."""
    p = process(0, leads=False)
    assert fr_deliver(p, Initial(M, 0, at(7))) == []
    assert appended(p.handle(Replied(Leads(()), "log"), NOW)) == [final(M, at(7))]


def test_new_leader_does_not_propose_what_is_in_its_log() -> None:
    p = process(0, leads=False)
    fr_deliver(p, Initial(M, 0, at(7)))
    assert appended(p.handle(Replied(Leads((final(M, at(7)),)), "log"), NOW)) == []


def test_process_that_follows_again_proposes_nothing() -> None:
    p = process(0)
    p.handle(Replied(Follows(), "log"), NOW)
    assert fr_deliver(p, Initial(M, 0, at(7))) == []


def test_message_that_is_decided_is_not_proposed_again() -> None:
    """L19: messages \\ decided, although fr-mcast may be slower than the log."""
    p = process(0, leads=False)
    learn(p, 0, final(M, at(7)))
    fr_deliver(p, Initial(M, 0, at(7)))
    assert p.state.messages == {}


def test_message_is_delivered_when_every_sender_has_given_a_barrier() -> None:
    """L34."""
    p = process(1)
    assert learn(p, 0, final(M, at(7))) == []
    assert learn(p, 1, Barrier(at(7), ())) == []
    assert learn(p, 2, Barrier(at(9, 2), (1,))) == [Deliver(M, at(7))]


@pytest.mark.parametrize(("barrier", "delivered"), [(6, 0), (7, 1), (8, 1)])
def test_barrier_must_reach_the_timestamp(barrier: int, delivered: int) -> None:
    """L34, with ≤: timestamps are unique."""
    delivery = Delivery.of((0, 1))
    delivery.insert(final(M, at(7)))
    delivery.raise_barrier(0, at(7))
    delivery.raise_barrier(1, at(barrier))
    assert len(delivery.deliverable()) == delivered


def test_smallest_timestamp_is_delivered_first() -> None:
    """L33."""
    delivery = Delivery.of((0,))
    for time in (9, 3, 6):
        delivery.insert(final(message(0, time, 0), at(time)))
    delivery.raise_barrier(0, at(7))
    assert [f.ts.time for f in delivery.deliverable()] == [3, 6]


def test_decided_message_asks_every_sender_for_a_barrier() -> None:
    """§3.4: "p requests a barrier to every x in sendersTo(h)"."""
    effects = learn(process(0), 0, final(M, at(7)))
    assert effects == [
        Send(WantBarrier((0, 1), at(7), M.id), (1,)),
        Send(WantBarrier((0, 1), at(7), M.id), (2,)),
    ]


def test_request_is_answered_with_a_barrier_once() -> None:
    p = process(2)
    want = WantBarrier((0, 1), at(7), M.id)
    assert appended(p.handle(Receive(want, 0), NOW)) == [Barrier(at(7), (0, 1), M.id)]
    assert appended(p.handle(Receive(want, 0), NOW)) == []


def test_null_message_goes_to_the_groups_that_heard_nothing() -> None:
    """§3.4."""
    p = process(0, options={"null_ticks": 100})
    assert p.handle(Start(), 0) == [SetTimer("null", 100)]
    fr_deliver(p, Initial(message(0, 1, 1), 0, at(950)))
    effects = p.handle(Timer("null"), NOW)
    assert effects[0] == SetTimer("null", NOW + 100)
    assert appended(effects) == [Barrier(at(NOW), (2,))]


# Reconfiguration, §5 ------------------------------------------------------------------------------


def test_message_to_a_new_group_waits_for_the_answer_to_a_join() -> None:
    p = process(0, options=SPARSE)
    assert appended(fr_deliver(p, Initial(M, 0, at(7)))) == [Join(1, 0, at(7))]
    answer = Joined(0, 0, (0, 1), at(90, 1), (0,))
    [entry] = appended(learn(p, 1, answer))
    assert isinstance(entry, Final) and entry.ts == at(91)


def test_later_message_of_a_waiting_sender_waits_too() -> None:
    """FIFO order across a reconfiguration."""
    p = process(0, options=SPARSE)
    fr_deliver(p, Initial(M, 0, at(7)))
    assert appended(fr_deliver(p, Initial(message(0, 2, 0), 0, at(8)))) == []
    both = appended(learn(p, 1, Joined(0, 0, (0, 1), at(90, 1), (0,))))
    assert [e.m.id.seq for e in both if isinstance(e, Final)] == [1, 2]


def test_join_is_answered_to_all_senders() -> None:
    """§5: "all groups in sendersTo(h) must know one another"."""
    p = process(1, options={"senders_to": {1: (2,)}})
    [answer] = appended(learn(p, 0, Join(1, 0, at(5))))
    assert isinstance(answer, Joined)
    assert (answer.g, answer.senders, answer.to) == (0, (0, 1, 2), (0, 2))


def test_new_sender_is_asked_for_what_is_decided_already() -> None:
    """§5: "q checks among the history of messages from its group"."""
    p = process(2, options={"senders_to": {1: (2,)}})
    m = message(2, 1, 1)
    learn(p, 2, final(m, at(7, 2), src=2))
    effects = learn(p, 1, Joined(0, 0, (0, 1, 2), at(5, 1), (0, 2)))
    assert effects == [Send(WantBarrier((1,), at(7, 2), m.id), (0,))]


def test_leave_is_decided_and_told() -> None:
    p = process(0)
    [ask] = p.handle(Request(Leave(1)), NOW)
    want = WantLeave(1, at(NOW), MessageId(0, 1))
    assert ask == Ask("fr", Multicast(Message(MessageId(0, 1), (0,), want)))
    assert appended(fr_deliver(p, want)) == [Left(1, 0, at(NOW), MessageId(0, 1), (1,))]
    assert not p.may_address(1, p.state.tail) if p.state.tail else False


def test_group_that_joins_is_waited_for_from_then_on() -> None:
    """§5: "no message m with a timestamp greater than m_rp.ts will be delivered … until a barrier
    greater than m.ts is received from g"."""
    delivery = Delivery.of((1,))
    delivery.join(0, 0, at(10, 1))
    delivery.raise_barrier(1, at(99, 1))
    assert delivery.may_deliver(at(10, 1))
    assert not delivery.may_deliver(at(11))


def test_group_that_left_is_not_waited_for() -> None:
    delivery = Delivery.of((0, 1))
    delivery.raise_barrier(1, at(99, 1))
    delivery.leave(0, 0)
    assert delivery.may_deliver(at(50))


def test_join_that_is_over_already_blocks_nobody() -> None:
    """The end of an epoch may be heard of before h's own decision that began it."""
    delivery = Delivery.of((1,))
    delivery.leave(0, 0)
    delivery.join(0, 0, at(10, 1))
    assert set(delivery.senders) == {1}


def test_second_epoch_waits_for_the_rest_of_the_first() -> None:
    delivery = Delivery.of((0, 1))
    delivery.raise_barrier(1, at(99, 1))
    delivery.join(0, 1, at(50, 1))
    assert not delivery.may_deliver(at(20)), "messages of epoch 0 may still be on their way"
    delivery.leave(0, 0)
    assert delivery.may_deliver(at(20)) and not delivery.may_deliver(at(60))
