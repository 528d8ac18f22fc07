"""The command ``shmcast sim``: one run, a replay, a campaign, or the list of protocols."""

from __future__ import annotations

import difflib
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from shmcast.cli.output import Code, console, emit_json, progress
from shmcast.cli.sim import faults as fault_words
from shmcast.cli.sim import show
from shmcast.cli.sim.record import write_run
from shmcast.multicast.protocols.registry import Spec, names
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import DELTA, run
from shmcast.multicast.sim.campaign import Campaign, scenario_for, spec_of
from shmcast.multicast.sim.delays import Constant
from shmcast.multicast.sim.mutants import all_mutants
from shmcast.multicast.sim.parallel import added_up, campaigns, jobs_here
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.shrink import shrink
from shmcast.multicast.sim.workload import random_submissions

STEP_LIMIT = 5_000_000
INTERVAL_TICKS = 300


def sim(
    protocols: Annotated[
        list[str] | None,
        typer.Argument(help="A protocol, or protocol~mutant. None: the list of them."),
    ] = None,
    *,
    groups: Annotated[int, typer.Option(min=1, help="Destination groups.")] = 3,
    replicas: Annotated[int | None, typer.Option(min=1, help="Members of each group.")] = None,
    clients: Annotated[int, typer.Option(min=0, help="Senders outside of groups.")] = 2,
    messages: Annotated[int, typer.Option(min=0, help="Multicasts, at random times.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 0,
    faults: Annotated[
        list[str] | None, typer.Option(help=f"Repeat it for more: {fault_words.FORMS}.")
    ] = None,
    replay: Annotated[
        int | None, typer.Option(metavar="SEED", help="The run of a campaign's seed.")
    ] = None,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Make a run that fails as short as it gets.")
    ] = False,
    diagram: Annotated[bool, typer.Option("--diagram", help="Time runs down.")] = False,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="The diagram as SVG.")] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Record the run there: for shmcast verify and report."),
    ] = None,
    campaign: Annotated[
        bool, typer.Option("--campaign", help="Many runs, each a scenario of its seed.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of a campaign.")] = 300,
    first: Annotated[int, typer.Option(min=0, help="First seed of a campaign.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: cores.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Figures for machines.")] = False,
) -> None:
    """Simulate an ordering protocol: same seed, same run, to the event."""
    wanted = protocols or []
    for name in wanted:
        _known(name)
    if campaign:
        _campaign(wanted or names(), range(first, first + seeds), jobs, json)
    elif not wanted:
        _list(json)
    elif len(wanted) > 1:
        raise ValueError(f"one run is of one protocol, not of {len(wanted)}; or add --campaign")
    else:
        scenario = (
            _scenario(
                spec_of(wanted[0]),
                groups=groups,
                replicas=replicas,
                clients=clients,
                messages=messages,
                seed=seed,
                faults=faults or [],
            )
            if replay is None
            else scenario_for(wanted[0], replay)
        )
        _one_run(scenario, short=shrink, diagram=diagram, svg=svg, record=record, json=json)


def _known(name: str) -> None:
    there = [*names(), *all_mutants()]
    if name in there:
        return
    near = difflib.get_close_matches(name, there, n=2)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"no protocol {name!r}; {hint}`shmcast sim` lists them all")


def _list(json: bool) -> None:
    rows = [show.spec_summary(spec_of(name)) for name in names()]
    if json:
        emit_json(rows)
    else:
        show.show_list(console(), rows)


# One run --------------------------------------------------------------------------------------


def _scenario(
    spec: Spec,
    *,
    groups: int,
    replicas: int | None,
    clients: int,
    messages: int,
    seed: int,
    faults: list[str],
) -> Scenario:
    if not spec.multicasts or spec.calls is not None:
        raise ValueError(
            f"{spec.name} answers calls, which campaigns make: shmcast sim {spec.name} --replay 0"
        )
    usual = spec.shapes[0]
    if all(len(shape.groups) == 1 for shape in spec.shapes):
        groups = 1  # a broadcast: everybody is in the one group
    if not any(shape.clients for shape in spec.shapes):
        clients = 0
    topology = Topology.regular(groups, replicas or len(usual.groups[0]), clients)
    span = messages * INTERVAL_TICKS + 5 * DELTA
    top = spec.tolerates.delay_max
    return Scenario(
        spec=spec,
        topology=topology,
        inputs=tuple(random_submissions(topology, messages, seed, interval=INTERVAL_TICKS)),
        faults=tuple(fault_words.parse(faults, spec, topology, seed, span)),
        seed=seed,
        delay=Constant(DELTA if top is None else min(DELTA, top)),
        step_limit=STEP_LIMIT,
    )


def _one_run(
    scenario: Scenario,
    *,
    short: bool,
    diagram: bool,
    svg: Path | None,
    record: Path | None,
    json: bool,
) -> None:
    outcome = run(scenario)
    if short:
        outcome = _shrunk(outcome)
    report = outcome.report()
    if svg is not None:
        svg.write_text(outcome.svg(), encoding="utf-8")
    if record is not None:
        write_run(record, outcome)
    if json:
        emit_json(show.run_summary(outcome, report))
    else:
        if diagram:
            typer.echo(outcome.diagram())
        show.show_run(console(), show.run_summary(outcome, report))
        if short:
            for item in (*outcome.scenario.inputs, *outcome.scenario.faults):
                typer.echo(f"  {item}")
    if report.violated or report.undetermined:
        raise typer.Exit(Code.FAILED_VERDICT)


def _shrunk(outcome: Run) -> Run:
    broken = set(outcome.report().violated)
    if not broken:
        raise ValueError("nothing is violated, so there is nothing to shrink; try another seed")
    # The first one counts: a shorter run need not break everything that the long one did.
    found = shrink(outcome.scenario, lambda r: bool(broken & set(r.report().violated)))
    return run(replace(found, step_limit=STEP_LIMIT))


# Campaigns ------------------------------------------------------------------------------------


def _campaign(wanted: list[str], seeds: range, jobs: int | None, json: bool) -> None:
    began = time.monotonic()
    found = _with_progress(wanted, seeds, jobs or jobs_here())
    took_s = time.monotonic() - began
    summaries = [show.campaign_summary(one, took_s) for one in found.values()]
    if json:
        emit_json(summaries)
    else:
        show.show_campaigns(console(), summaries, seeds)
        for one in found.values():
            for seed, text in sorted(one.failures.items())[:3]:
                typer.echo(f"{one.name}, seed {seed}\n{text}")
    if not all(one.passed for one in found.values()):
        raise typer.Exit(Code.FAILED_VERDICT)


def _with_progress(wanted: list[str], seeds: range, jobs: int) -> dict[str, Campaign]:
    running = campaigns(wanted, seeds.start, len(seeds), jobs=jobs)
    parts: list[Campaign] = []
    with progress("runs", len(wanted) * len(seeds)) as show:
        for part in running:
            parts.append(part)
            show(sum(one.runs for one in parts))
    return added_up(parts)
