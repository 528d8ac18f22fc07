"""Paper 003, joining and leaving: scenarios 16-19, 21-28, 31 and 32 of dab.md, by number."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from dab_runs import (
    SAFETY,
    TIMING,
    dab,
    decisions,
    delivered,
    everyone_talks,
    latencies,
    replies,
    reports,
    talk,
    times,
)

from shmcast.multicast.protocols.core import Effect, Receive, Reply, Start
from shmcast.multicast.protocols.dab import Dab, State
from shmcast.multicast.protocols.dab_messages import Doubt, Flush, Join, JoinNotice, Leave
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.faults import Crash, Partition, Recover, SendOmission
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Call, Input

MEMBERS = (1, 2, 3)
JOIN_SENT, JOIN_SLOT, JOINED_AT = 98, 22, 220
TALK = everyone_talks(MEMBERS, 20, 330, 7)


def join(process: int, at: int = 0, incarnation: int = 1) -> list[Input]:
    return [Call(at, process, Join(incarnation))]


# Joining --------------------------------------------------------------------------------------


def test_scenario_16_join_takes_its_wait_and_its_lead_and_delays_nobody() -> None:
    run = dab(TALK + join(4) + talk(4, 221, 240), joiners=1)
    assert times(run, "join-ok")[4] == JOINED_AT == TIMING.join_bound
    notices = [e for e in run.trace if e.kind == "send" and e.proc == 4]
    assert notices[0].local_t == JOIN_SENT
    assert max(latencies(run).values()) <= 26
    assert set(talk_of(4, delivered(run, 1))) == {(4, 1), (4, 2)}
    run.check()


def talk_of(process: int, messages: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [m for m in messages if m[0] == process]


class NoEcho(Dab):
    """Keeps a join notice to itself."""

    def on_join_notice(self, notice: JoinNotice) -> list[Effect]:
        control = list(self.control)
        effects = super().on_join_notice(notice)
        self.control = control
        return effects


def joiner_dies(*unheard: int, kind: type[Dab] = Dab) -> Run:
    """Its join misses these members."""
    return dab(
        TALK + join(4),
        SendOmission(4, JOIN_SENT, JOIN_SENT + 1, frozenset(unheard)),
        Crash(4, JOIN_SENT + 1),
        joiners=1,
        kind=kind,
    )


def test_scenario_17_join_that_one_member_heard_is_heard_by_all() -> None:
    run = joiner_dies(2, 3)
    assert {p: slot for p, (slot, _) in reports(run, 4).items()} == dict.fromkeys(MEMBERS, 21)
    assert set(decisions(run, 4).values()) == {21}
    assert talk_of(4, delivered(run, 1)) == []
    assert max(latencies(run).values()) <= TIMING.latency(1)
    run.check()


def test_scenario_17_without_echo_the_one_that_heard_waits_for_ever() -> None:
    assert "member-delivery" in joiner_dies(2, 3, kind=NoEcho).report().violated


def test_scenario_18_join_that_nobody_heard_delays_nobody() -> None:
    run = joiner_dies(*MEMBERS)
    assert not reports(run, 4)
    assert max(latencies(run).values()) <= 26
    run.check()


def test_scenario_19_echoes_outrun_a_chain_of_crashes() -> None:
    """The joiner reaches 1 only, and 1 reaches 2 only: f = 2."""
    run = dab(
        everyone_talks((3, 4), 20, 330, 7) + join(5),
        SendOmission(5, JOIN_SENT, JOIN_SENT + 1, frozenset({2, 3, 4})),
        Crash(5, JOIN_SENT + 1),
        SendOmission(1, 110, 111, frozenset({3, 4})),
        Crash(1, 111),
        members=4,
        joiners=1,
    )
    heard = JOIN_SENT + TIMING.echo
    assert heard < JOIN_SLOT * TIMING.theta
    assert {p: slot for p, (slot, _) in reports(run, 5).items()} == dict.fromkeys((2, 3, 4), 21)
    run.check()


def test_scenario_19_all_the_living_know_in_time() -> None:
    run = dab(
        join(5),
        SendOmission(5, JOIN_SENT, JOIN_SENT + 1, frozenset({2, 3, 4})),
        Crash(5, JOIN_SENT + 1),
        SendOmission(1, 110, 111, frozenset({3, 4})),
        Crash(1, 111),
        members=4,
        joiners=1,
        until=JOIN_SENT + TIMING.echo,
    )
    for process in (2, 3, 4):
        member = run.machines[process]
        assert isinstance(member, Dab)
        assert member.ordering.newest[5] == 1


def test_scenario_21_life_that_ended_at_the_join_slot_does_not_hold_up_the_joiner() -> None:
    """D2: ⊥(22) of 2 reaches the members, not the joiner, which helps and gets no decision."""
    lost = (SendOmission(2, 230, 231, frozenset({4})), Crash(2, 231))
    run = dab(TALK + join(4) + talk(4, 225, 300), *lost, joiners=1)
    assert {p: slot for p, (slot, _) in reports(run, 2).items()} == {1: 22, 3: 22, 4: 21}
    assert decisions(run, 2) == {1: 21, 3: 21}
    assert (4, 2) in delivered(run, 4)
    run.check()


def test_scenario_22_member_that_was_gone_before_is_never_reported_by_the_joiner() -> None:
    run = dab(TALK + join(4), Crash(2, 155), joiners=1)
    assert set(reports(run, 2)) == {1, 3}
    assert times(run, "join-ok")[4] == JOINED_AT
    run.check()


def test_scenario_23_two_joiners_enter_at_one_slot_in_order() -> None:
    both = join(4) + join(5) + talk(4, 222) + talk(5, 222)
    run = dab(TALK + both, joiners=2)
    assert times(run, "join-ok")[4] == times(run, "join-ok")[5] == JOINED_AT
    newcomers = [m for m in delivered(run, 1) if m[0] > 3]
    assert newcomers == [(4, 1), (5, 1)]
    run.check()


def test_join_waits_for_its_slot_even_if_members_fail_meanwhile() -> None:
    for at in range(100, 230, 30):
        run = dab(TALK + join(4) + talk(4, 250), Crash(2, at), joiners=1)
        assert times(run, "join-ok")[4] == JOINED_AT
        run.check()


# Coming back ----------------------------------------------------------------------------------


def test_scenario_24_next_life_delivers_a_later_slice() -> None:
    again = join(2, at=61, incarnation=2) + talk(2, 300)
    run = dab(TALK + again, Crash(2, 55), Recover(2, 60), joiners=0)
    first = [e.msg for e in run.trace if e.kind == "deliver" and e.proc == 2 and not e.incarnation]
    later = [e.msg for e in run.trace if e.kind == "deliver" and e.proc == 2 and e.incarnation]
    assert first and later
    order = delivered(run, 1)
    assert order.index(first[-1]) < order.index(later[0])  # type: ignore[arg-type]
    run.check()


def test_scenario_24_stale_notice_and_stale_frame_change_nothing() -> None:
    member = Dab(1, MEMBERS, TIMING, initially=MEMBERS)
    member.handle(Start(), 0)
    member.handle(Receive(Flush(5, 3, control=(JoinNotice((2, 5), 30),), mark=False), 2), 31)
    lives = [peer.incarnation for peer in member.ordering.peers[2]]
    assert lives == [0, 5]
    member.handle(Receive(Flush(5, 3, control=(JoinNotice((2, 4), 28),), mark=False), 3), 32)
    member.handle(Receive(Flush(4, 3), 2), 33)
    assert [peer.incarnation for peer in member.ordering.peers[2]] == lives


class FigureFourWait(Dab):
    """Γ + 3(Δ+Θ) + (f−1)(Δ+Γ+2Θ): Fig. 4 leaves detection out (D5)."""

    def join_wait(self) -> int:
        t = self.timing
        return t.gamma + 3 * t.hop + (t.f - 1) * t.step


def pending_when_joining(kind: type[Dab]) -> bool:
    """Whether an agreement on the last life of 1 is still open when its join is sent. One more
    process fails meanwhile: f = 2."""
    joiner = kind(1, (1,), TIMING, initially=(1,))
    run = dab(
        join(1, at=52, incarnation=2),
        Crash(1, 51),
        Recover(1, 52),
        Crash(2, 75),
        members=5,
        kind=kind,
        clocks={p: Clock(1 if p <= 3 else -1) for p in range(1, 6)},
        until=52 + joiner.join_wait(),
    )
    people = [m for p, m in run.machines.items() if isinstance(m, Dab) and p != 1]
    return any((1, 0) in m.manager.running for m in people)


def test_scenario_25_wait_of_figure_4_can_end_inside_the_old_agreement() -> None:
    """70 against 98."""
    assert FigureFourWait(1, (1,), TIMING, initially=(1,)).join_wait() == 70
    assert pending_when_joining(FigureFourWait)
    assert not pending_when_joining(Dab)


# Leaving --------------------------------------------------------------------------------------


def test_scenario_26_nothing_follows_the_leave_mark() -> None:
    run = dab([*TALK, Call(52, 2, Leave())])
    assert times(run, "leave-ok")[2] == 70 <= 52 + TIMING.leave_bound
    assert all(seq <= 5 for _, seq in talk_of(2, delivered(run, 1)))
    assert max(latencies(run).values()) <= 26
    assert not reports(run, 2)
    run.check()


def test_scenario_27_crash_while_leaving_blocks_nobody() -> None:
    """The last mark reaches 1 only, which takes 2 for retired; 3 reports it, and 1 helps."""
    for reached in range(4):
        run = dab([*TALK, Call(52, 2, Leave())], Crash(2, 70, effects=reached))
        assert delivered(run, 1) == delivered(run, 3)
        run.check()
    only_one = dab([*TALK, Call(52, 2, Leave())], Crash(2, 70, effects=1))
    assert set(reports(only_one, 2)) == {3}
    assert decisions(only_one, 2) == {3: 5}


def test_scenario_28_leave_during_an_agreement_does_not_hold_it_up() -> None:
    for at in range(52, 100, 8):
        run = dab(
            [*everyone_talks((1, 2, 4), 20, 200, 7), Call(at, 2, Leave())],
            Crash(3, 51),
            members=4,
        )
        assert set(decisions(run, 3)) >= {1, 4}
        run.check()


# Broken assumptions ---------------------------------------------------------------------------


def test_scenario_31_process_that_was_taken_for_dead_expels_itself_and_comes_back() -> None:
    """Its marks are held up beyond Δ + Γ, so that the others agree on its end."""
    held = Partition(frozenset({2}), 50, 90, one_way=True)
    run = dab(TALK + join(2, at=150, incarnation=5) + talk(2, 400), held)
    assert replies(run, "Expelled") == [2]
    assert times(run, "join-ok")[2] > 150
    assert delivered(run, 1)[-1] == (2, talk_of(2, delivered(run, 1))[-1][1])
    run.check(*SAFETY)


def test_scenario_32_member_whose_join_was_lost_is_added_with_a_warning() -> None:
    member = Dab(1, (1, 2, 3, 4), TIMING, initially=(1, 2, 3))
    member.handle(Start(), 0)
    member.state = State.MEMBER
    effects = member.handle(Receive(Flush(1, 30), 4), 314)
    assert any(isinstance(e, Reply) and isinstance(e.what, Doubt) for e in effects)
    assert member.ordering.find((4, 1)) is not None
