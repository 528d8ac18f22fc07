"""``shmcast sim``: runs, replays, campaigns, and what it says when asked for the impossible."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shmcast.multicast.protocols.registry import names
from shmcast.multicast.sim import simulate

Run = Callable[..., Any]


def test_public_name_is_as_documented() -> None:
    assert not simulate("wbcast", groups=2, replicas=3, messages=3, seed=7).check().violated


def test_run_reports_verdicts_delays_and_counts(run: Run) -> None:
    done = run("sim", "wbcast", "--messages", "1", "--groups", "2", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["verdict"] == "passed"
    assert found["properties"]["ordering"]["outcome"] == "passed"
    assert found["delays_ticks"]["least"] == 3 * found["delta_ticks"]
    assert found["messages_sent"]["MulticastMsg"] >= 1


def test_same_seed_gives_the_same_run(run: Run) -> None:
    command = ("sim", "fastcast", "--messages", "10", "--faults", "random", "--seed", "5", "--json")
    assert run(*command).stdout == run(*command).stdout
    other = (*command[:-3], "--seed", "6", "--json")
    assert run(*command).stdout != run(*other).stdout


def test_fault_that_a_protocol_does_not_tolerate_fails_the_verdict(run: Run) -> None:
    done = run("sim", "skeen", "--messages", "20", "--faults", "crash:0@2000", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["verdict"] == "violated" and found["faults"] == {"Crash": 1}


@pytest.mark.parametrize(
    "fault",
    [
        "crash:1@3000+2",
        "cut:0,1@1000-9000",
        "slow:2@0-9000*100",
        "suspect:1@10-9000",
        "nominate:0>1@10-9000",
    ],
)
def test_fault_in_words_is_injected(run: Run, fault: str) -> None:
    done = run("sim", "wbcast", "--messages", "10", "--faults", fault, "--json")
    assert done.exit_code == 0
    assert sum(json.loads(done.stdout)["faults"].values()) == 1


def test_crashed_member_recovers(run: Run) -> None:
    words = ("--faults", "crash:1@3000", "--faults", "recover:1@9000")
    done = run("sim", "wbcast", "--messages", "10", *words, "--json")
    assert json.loads(done.stdout)["faults"] == {"Crash": 1, "Recover": 1}


def test_replay_shrinks_and_draws_a_broken_run(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "run.svg"
    command = ("sim", "skeen~impatient", "--replay", "4", "--shrink", "--diagram")
    done = run(*command, "--svg", str(picture))
    assert done.exit_code == 1
    assert "timestamp-order" in done.stdout and "MulticastMsg" in done.stdout
    assert done.stdout.count("Submit(") <= 3, "the whole run has more"
    assert picture.read_text().startswith("<svg")


def test_campaign_counts_runs_faults_and_virtual_hours(run: Run) -> None:
    done = run("sim", "--campaign", "skeen", "reliable", "--seeds", "8", "--jobs", "1", "--json")
    assert done.exit_code == 0
    rows = {row["protocol"]: row for row in json.loads(done.stdout)}
    assert set(rows) == {"skeen", "reliable"}
    assert all(row["runs"] == 8 and row["virtual_hours"] > 0 for row in rows.values())
    assert sum(rows["reliable"]["faults"].values()) > 0
    told = run("sim", "--campaign", "skeen", "--seeds", "8", "--jobs", "1").stdout
    assert "8 runs" in told and "faults injected" in told and "virtual hours" in told


def test_campaign_in_parallel_finds_the_same(run: Run) -> None:
    def found(jobs: int) -> dict[str, Any]:
        command = ("sim", "--campaign", "skeen", "--seeds", "60", "--jobs", str(jobs), "--json")
        (row,) = json.loads(run(*command).stdout)
        return {name: value for name, value in row.items() if name != "seconds"}

    assert found(1) == found(2)


def test_campaign_of_a_broken_protocol_fails_and_says_how_to_replay_it(run: Run) -> None:
    done = run("sim", "--campaign", "skeen~impatient", "--seeds", "8", "--jobs", "1")
    assert done.exit_code == 1
    assert "replay: shmcast sim skeen~impatient --replay" in done.stdout


def test_list_names_every_protocol(run: Run) -> None:
    rows = json.loads(run("sim", "--json").stdout)
    assert [row["protocol"] for row in rows] == names()
    assert all(row["promises"] for row in rows)
    assert "next: shmcast sim" in run("sim").stdout


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("wbcats",), "did you mean wbcast"),
        (("wbcast", "skeen"), "--campaign"),
        (("wbcast", "--faults", "boom"), "crash:P@T"),
        (("wbcast", "--faults", "crash:99@1"), "processes are 0 to"),
        (("wbcast", "--faults", "cut:1@9-3"), "FROM-UNTIL"),
        (("wbcast", "--faults", "nominate:7>1@1-3"), "groups are 0 to 2"),
        (("consensus",), "--replay 0"),
        (("skeen", "--messages", "2", "--shrink"), "another seed"),
    ],
)
def test_mistake_is_answered_with_the_next_step(
    run: Run, arguments: tuple[str, ...], hint: str
) -> None:
    done = run("sim", *arguments)
    assert done.exit_code == 2
    assert hint in done.stderr
