"""Optimistic Atomic Multicast, paper 002 §4.2, and the estimate of §6."""

from shmcast.multicast.protocols.barrier_config import Config
from shmcast.multicast.protocols.barrier_entries import Barrier, Final, Initial, WantBarrier
from shmcast.multicast.protocols.core import (
    OPTIMISTIC,
    Ask,
    Deliver,
    Delivered,
    Effect,
    Message,
    MessageId,
    Multicast,
    Replied,
    Send,
    SetTimer,
    Timer,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.group_log import Leads, Learned
from shmcast.multicast.protocols.optimistic import WINDOW_TIMER, Optimistic
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wait_window import SAMPLES, WaitWindow

TOPOLOGY = Topology.regular(groups=3, replicas=1)
WINDOW = 100
M = Message(MessageId(0, 1), dest=(1, 2))
N = Message(MessageId(0, 2), dest=(1, 2))


def process(g: int, window: int | None = WINDOW) -> Optimistic:
    options: dict[str, object] = {} if window is None else {"window": window}
    found = Optimistic(TOPOLOGY, g, g, Config.of(TOPOLOGY, options))
    found.handle(Replied(Leads(()), "log"), 0)
    return found


def fr_deliver(p: Optimistic, body: Wire, now: int) -> list[Effect]:
    return p.handle(Delivered(Message(MessageId(9, 1), (0,), body), None, "fr"), now)


def initial(m: Message, time: int) -> Initial:
    return Initial(m, 0, Timestamp(time, 0))


def test_barriers_are_requested_before_the_message_goes_to_all() -> None:
    """§4.2: "such requests are also sent …, before the sender fr-mcasts m in the first step"."""
    asked = ((1, 1), (2, 1), (1, 2), (2, 2))
    ts = Timestamp(7, 0)
    request, m = process(0).handle(Multicast(M), 7)
    assert request == Ask(
        "fr", Multicast(Message(MessageId(0, 1), (1, 2), WantBarrier((1, 2), ts, M.id)))
    )
    assert m == Ask("fr", Multicast(Message(MessageId(0, 2), (0, 1, 2), Initial(M, 0, ts, asked))))


def test_message_waits_for_its_window() -> None:
    """ "p waits until its wallclock has a value greater than m.ts + w(p)"."""
    p = process(1)
    assert fr_deliver(p, initial(M, 7), 20) == [SetTimer(WINDOW_TIMER, 107)]
    assert p.handle(Timer(WINDOW_TIMER), 107) == [Deliver(M, Timestamp(7, 0), OPTIMISTIC)]


def test_messages_are_opt_delivered_in_the_order_of_initial_timestamps() -> None:
    p = process(1)
    other = Message(MessageId(2, 1), dest=(1,))
    fr_deliver(p, Initial(other, 2, Timestamp(9, 2)), 20)
    fr_deliver(p, initial(M, 7), 30)
    effects = p.handle(Timer(WINDOW_TIMER), 110)
    assert [e.message for e in effects if isinstance(e, Deliver)] == [M, other]


def test_late_message_is_opt_delivered_at_once() -> None:
    assert fr_deliver(process(1), initial(M, 7), 500) == [SetTimer(WINDOW_TIMER, 500)]


def test_source_group_proposes_when_the_window_is_over() -> None:
    """ "… and then p opt-delivers m and proposes m": g is no destination, so it only proposes."""
    p = process(0)
    fr_deliver(p, initial(M, 7), 20)
    effects = p.handle(Timer(WINDOW_TIMER), 107)
    assert [type(e) for e in effects] == [Ask]


def test_destination_that_is_not_the_source_proposes_nothing() -> None:
    p = process(1)
    fr_deliver(p, initial(M, 7), 20)
    p.handle(Timer(WINDOW_TIMER), 107)
    assert p.state.messages == {}


def test_request_for_a_barrier_waits_for_the_window_too() -> None:
    p = process(1)
    want = WantBarrier((2,), Timestamp(7, 0), M.id)
    assert fr_deliver(p, want, 20) == [SetTimer(WINDOW_TIMER, 107)]
    assert len(p.handle(Timer(WINDOW_TIMER), 107)) == 1


def learn_with_barriers(p: Optimistic, final: Final) -> list[Effect]:
    effects = list(p.handle(Replied(Learned(0, final), "log"), 50))
    for x in (1, 2):
        barrier = Barrier(final.ts, (1, 2))
        effects += p.handle(Replied(Learned(x, barrier), "log"), 50)
    return effects


def test_message_decided_before_the_window_ends_is_opt_delivered_first_and_once() -> None:
    p = process(1)
    fr_deliver(p, initial(M, 7), 20)
    ts = Timestamp(7, 0)
    effects = learn_with_barriers(p, Final(initial(M, 7), ts, (1, 2)))
    assert effects == [Deliver(M, ts, OPTIMISTIC), Deliver(M, ts)]
    assert p.handle(Timer(WINDOW_TIMER), 107) == []
    assert not p.opt.opt_delivered and not p.opt.overtaken, "nothing is kept"


def test_changed_timestamp_is_asked_for_while_it_is_proposed() -> None:
    """§6: "g's leader can send the new barrier request to x while running consensus"."""
    p = process(0, window=0)
    for m, time in ((M, 30), (Message(MessageId(3, 1), (1,)), 10)):
        fr_deliver(p, initial(m, time), 40)
        effects = p.handle(Timer(WINDOW_TIMER), 40)
    asked = [e.message for e in effects if isinstance(e, Send)]
    assert asked == [WantBarrier((1,), Timestamp(31, 0), MessageId(3, 1))] * 2


def test_window_is_the_greatest_average_of_all_senders() -> None:
    """§6: "the value of w(p) is the maximum among such estimates"."""
    window = WaitWindow()
    for sender, delay in ((1, 100), (1, 300), (2, 150)):
        window.observe(sender, delay)
    assert window.value == 200


def test_window_forgets_all_but_the_last_hundred_messages() -> None:
    """§6: "for the last 100 messages received from q"."""
    window = WaitWindow()
    for delay in [9000] * 50 + [100] * SAMPLES:
        window.observe(1, delay)
    assert window.value == 100
    assert len(window.averages[1].samples) == SAMPLES


def test_clock_ahead_of_all_others_needs_no_window() -> None:
    """§4.2: "a negative skew means … p can wait less"."""
    window = WaitWindow()
    window.observe(1, -50)
    assert window.value == -50


def test_fixed_window_stays() -> None:
    window = WaitWindow(fixed=70)
    window.observe(1, 500)
    assert window.value == 70


def test_window_is_learned_from_messages_with_both_delay_and_skew() -> None:
    p = process(1, window=None)
    fr_deliver(p, initial(M, 7), 307)
    assert p.opt.window.value == 300
