"""The harness itself, the cases that once failed, and the short form of the whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crash.build import build, static_sites, unknown_calls
from crash.cases import LATENESSES, Job, Script, run_job, scripts, trace
from crash.mutants import TRAPS
from crash.plan import VICTIM_POINTS_MAX, extent
from crash.unreached import function_of
from prove.mutants import CSRC, ROOT, Edit, Mutant, mutated_sources
from prove.results import Report


@pytest.fixture(scope="module")
def program() -> Path:
    return build()


@pytest.fixture(scope="module")
def known(program: Path) -> dict[str, Script]:
    return {script.name: script for script in scripts(program)}


def test_the_points_of_a_role_with_one_thread_are_the_same_in_two_runs(
    program: Path, known: dict[str, Script]
) -> None:
    for name in ("send-first", "create", "leave-sender"):
        first = trace(program, Job("eager", known[name], "kill")).points
        again = trace(program, Job("eager", known[name], "kill")).points
        assert [p for p in first if "send.c" not in p] == [p for p in again if "send.c" not in p]
        assert abs(len(first) - len(again)) <= 2  # a new worst time is written to both copies


def test_a_role_is_killed_at_its_point_and_nowhere_else(
    program: Path, known: dict[str, Script]
) -> None:
    """The program fails a case whose role outlives its point, or dies without having reached it."""
    count = len(trace(program, Job("eager", known["leave-sender"], "kill")).points)
    last = run_job(program, Job("eager", known["leave-sender"], "kill", str(count)))
    assert last.figures["passed"] == 1
    beyond = run_job(program, Job("eager", known["leave-sender"], "kill", str(count + 100)))
    assert beyond.figures["not_reached"] == 1
    assert beyond.figures["passed"] == 0


def test_a_point_follows_every_write_of_a_send(program: Path, known: dict[str, Script]) -> None:
    """Payload, intent, header, walk, flags, intent down: in this order, in both copies."""
    points = trace(program, Job("eager", known["send-loan"], "kill")).points
    functions = [function_of(p)[1] for p in points if p.startswith("csrc/") and "loan" not in p]
    order = list(dict.fromkeys(functions))
    assert order[:6] == [
        "spread", "publish_intent", "header_write", "carry", "set_flags", "intent_lower",
    ]  # fmt: skip
    assert functions.count("set_flags") == 4  # flag and tail, twice
    assert functions.count("header_write") == 12  # six words, twice


def test_sites_of_atomics_and_of_system_calls_are_found_in_the_program(program: Path) -> None:
    sites = static_sites(program)
    functions = {(*function_of(site), site.split(" ")[1]) for site in sites}
    assert ("agree.c", "carry", "cas") in functions
    assert ("segment.c", "segment_link", "linkat") in functions
    assert ("sys.c", "sys_futex_wait", "syscall") in functions


def test_every_mutant_still_fits_the_sources(tmp_path: Path) -> None:
    assert len(TRAPS) >= 10
    for trap in TRAPS:
        mutated_sources(trap.mutant, tmp_path)


def expect(program: Path, known: dict[str, Script], *words: str, copies: int = 0) -> None:
    protocol, script, fault, points = words
    ran = run_job(program, Job(protocol, known[script], fault, points, copies))
    assert ran.passed, ran.first_failure


def test_a_torn_header_of_a_rejected_message_does_not_cost_the_last_copy(
    program: Path, known: dict[str, Script]
) -> None:
    for fault in ("kill+lose", "kill+truncate:0"):
        expect(program, known, "crash", "send-more", fault, "22")
        expect(program, known, "timing", "send-more", fault, "22")


def test_a_copy_that_dies_during_a_replacement_leaves_no_zeros_in_the_new_one(
    program: Path, known: dict[str, Script]
) -> None:
    expect(program, known, "eager", "replace", "truncate:1+lose", "~60/0")
    expect(program, known, "eager", "replace", "truncate:1", "36")


def test_a_mailbox_whose_remover_died_is_gone_for_its_receivers_and_its_memory(
    program: Path, known: dict[str, Script]
) -> None:
    expect(program, known, "eager", "remove-box", "kill", "all")


def test_removing_a_domain_survives_a_copy_that_is_truncated_meanwhile(
    program: Path, known: dict[str, Script]
) -> None:
    for fault in ("truncate:0", "truncate:1", "kill+truncate:1"):
        expect(program, known, "eager", "remove-domain", fault, "all")


def test_a_stillborn_domain_with_a_lost_copy_does_not_hold_its_name(
    program: Path, known: dict[str, Script]
) -> None:
    points = trace(program, Job("eager", known["create"], "kill")).points
    named = [number for number, point in enumerate(points, 1) if point.endswith("linkat")]
    for copy in (0, 1):
        around = [
            run_job(program, Job("eager", known["create"], f"kill+truncate:{copy}", str(number)))
            for number in range(named[0], named[-1] + 2)
        ]
        assert not any(ran.failures for ran in around)
        assert any(ran.figures["passed"] for ran in around)


def test_a_receiver_does_not_go_on_alone_with_a_copy_that_was_replaced(
    program: Path, known: dict[str, Script]
) -> None:
    expect(program, known, "eager", "send-more", "unlink:0", "~10/0")


def test_a_loan_in_a_copy_that_is_overwritten_is_refused(
    program: Path, known: dict[str, Script]
) -> None:
    expect(program, known, "eager", "send-loan", "corrupt:0", "all")


def test_an_heir_of_a_lane_is_not_rejected_for_its_predecessor(
    program: Path, known: dict[str, Script]
) -> None:
    expect(program, known, "eager", "reap", "kill+lose@7", "all")
    expect(program, known, "eager", "reclaim-receive", "kill+lose@7", "all")


def test_a_paused_receiver_of_timing_decides_on_everything_that_fits(
    program: Path, known: dict[str, Script]
) -> None:
    """Its thread looked one message less far than its cursor let the sender write."""
    expect(program, known, "timing", "send-first", "kill", "1")


SLOW_MACHINE = Edit(
    "sys.c",
    "&t, NULL) == EINTR)\n        ;\n}",
    "&t, NULL) == EINTR)\n        ;\n    usleep(15000);\n}",
)


def variant(name: str, to: Path, *edits: Edit) -> Path:
    return build(mutated_sources(Mutant(name, "nothing", edits), to))


def refusal(of: str) -> Edit:
    """Every send is answered so, though nobody is late."""
    old = "if (clock_from(sys_now()) > *ts + bound || config_count(s->view.config) != copies)\n"
    return Edit(
        "send_timed.c",
        f"    {old}        return SC_REJECTED;",
        f"    if (bound && copies)\n        return {of};",
    )


def test_bounds_grow_until_they_fit_a_slow_machine(
    tmp_path: Path, known: dict[str, Script]
) -> None:
    slow = variant("slow", tmp_path, SLOW_MACHINE)
    ran = run_job(slow, Job("timing", known["leave-sender"], "kill", "1"))
    assert ran.passed, ran.first_failure
    assert ran.figures["repeated"] > 0
    assert sum(ran.figures.get(why, 0) for why in LATENESSES) == ran.figures["repeated"]


def test_a_refusal_is_excused_only_where_somebody_was_late(
    tmp_path: Path, known: dict[str, Script]
) -> None:
    refusing = variant("refusing", tmp_path, refusal("SC_REJECTED"))
    ran = run_job(refusing, Job("crash", known["leave-sender"], "kill", "1"))
    assert ran.broken in ("validity", "never quiet")  # the latter if the machine is never quiet
    assert "SC_REJECTED" in ran.first_failure


def test_a_lost_mailbox_is_excused_by_no_lateness(tmp_path: Path, known: dict[str, Script]) -> None:
    losing = variant("losing", tmp_path, SLOW_MACHINE, refusal("SC_LOST"))
    ran = run_job(losing, Job("timing", known["leave-sender"], "kill", "1"))
    assert ran.broken == "validity"
    assert "SC_LOST" in ran.first_failure


def test_a_job_none_of_whose_faults_struck_has_not_passed(
    program: Path, known: dict[str, Script]
) -> None:
    ran = run_job(program, Job("eager", known["replace"], "truncate:3", "1"))
    assert ran.figures["no_such_copy"] == 1
    assert not ran.passed
    assert "no fault struck" in ran.first_failure
    struck = run_job(program, Job("eager", known["replace"], "truncate:3", "-9"))
    assert struck.passed


def test_a_function_of_the_system_without_a_crash_point_is_noticed(tmp_path: Path) -> None:
    assert unknown_calls() == []
    tree = tmp_path / "csrc"
    shutil.copytree(CSRC, tree, ignore=shutil.ignore_patterns("*.so", "_native.c"))
    (tree / "wait.c").open("a").write(
        "int chmod(const char *, unsigned);\n"
        'void open_up(void);\nvoid open_up(void) { chmod("/", 0); }\n'
    )
    assert unknown_calls(tree) == ["chmod"]


def test_the_lock_of_a_name_is_followed_by_a_point(program: Path) -> None:
    found = {(*function_of(site), site.split(" ")[1]) for site in static_sites(program)}
    assert ("segment.c", "segment_hold_name", "flock") in found


def test_no_sender_passes_more_points_than_are_tried_as_its_end(
    program: Path, known: dict[str, Script]
) -> None:
    for protocol in ("eager", "timing", "crash"):
        found = trace(program, Job(protocol, known["send-more"], "kill"))
        assert len(found.points) <= VICTIM_POINTS_MAX


def test_a_claim_says_at_which_steps_it_was_run(known: dict[str, Script]) -> None:
    def job(name: str, fault: str, points: str) -> Job:
        return Job("eager", known[name], fault, points)

    assert extent([job("create", "kill", "all")]) == "every step"
    mixed = [job("create", "kill", "~80/1"), job("send-more", "kill", "all")]
    assert extent(mixed) == "about 80 steps (create), every step (send-more)"
    with_victims = [job("reclaim", f"kill@{point}", "all") for point in (1, 2)]
    assert extent(with_victims) == "every step, with 2 points at which the sender died before"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_short_proof_passes(tmp_path: Path) -> None:
    out = tmp_path / "crash.json"
    command = [sys.executable, "-m", "crash.prove", "--effort", "short", "--out", str(out)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = Report.load(out)
    assert report.passed
    assert {c.name.split(",")[0] for c in report.claims[:-1]} == {"eager", "crash", "timing"}
