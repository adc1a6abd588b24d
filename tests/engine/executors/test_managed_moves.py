"""Moves that a job on task managers is asked for: the protocol's messages under faults, and real processes."""

import dataclasses
from pathlib import Path

import pytest

import penstock as ps
from penstock.commands.running_managers import OverHttp
from penstock.engine.core.elements import Reroute
from penstock.engine.executors.managers import handover_parcel
from penstock.engine.executors.managers.held_moves import UNDER_WAY, HeldMoves
from penstock.engine.executors.managers.managed_moves import ManagedMoves
from penstock.engine.executors.simulated import SeedResult, Simulation, record_pipeline
from penstock.engine.executors.simulation.faults import ALL, Faults
from penstock.engine.executors.simulation.paged import SimulatedPaging
from penstock.engine.moves.under_way import ChangeUnderWay
from penstock.engine.paging.options import PagingOptions
from penstock.engine.transport.batch_body import Body
from penstock.jobs_client.address import parse_address
from penstock.jobs_client.client import JobClient
from penstock.model.errors import UserError
from penstock.runs.own_token import own_token
from penstock.runs.steering import await_move
from penstock.state.tables.image import StoreDump
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, until
from tests.engine.executors.test_simulated_moves import IN_MEMORY, MOVING, SMALL, end_steps_early

FEW = range(1, 17)
"""So many seeds; sources move, too, so not every one moves state."""

HEADS = range(1, 33)
"""So many seeds in which heads are killed, in moves and between them."""

KILLS = 4
"""So often at most in each seed."""

CALM = Faults.of(("delay",))


def managed(
    name: str, folder: Path, head_kills: int = 0, faults: Faults = ALL, options: PagingOptions = IN_MEMORY
) -> Simulation:
    job = ps.Job()
    MOVING[name](job)
    paging = SimulatedPaging(folder, options)
    recording = record_pipeline(job.graph, 10_000)
    made = Simulation(recording, parallelism=3, managed=True, head_kills=head_kills, faults=faults, paging=paging)
    made.moves = True
    return made


def check(results: list[SeedResult], least: int) -> None:
    """Hold results to the undisturbed run's; at least so many moves were done, and some of state."""
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    moves = [result.moves for result in results if result.moves is not None]
    assert sum(item.done for item in moves) >= least
    assert sum(item.state_bytes for item in moves) > 0


def test_a_few_seeds_of_moves_between_task_managers_put_out_what_the_undisturbed_run_does(tmp_path: Path) -> None:
    simulation = managed("tumbled", tmp_path)
    check([simulation.run(seed) for seed in FEW], 6)


def test_rows_wait_at_markers_between_task_managers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end_steps_early(monkeypatch)
    simulation = managed("tumbled", tmp_path, options=SMALL)
    check([simulation.run(seed) for seed in FEW], 4)


def test_state_that_gets_lost_on_its_way_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: tables come without their rows."""

    tables = handover_parcel._tables

    def emptied(part: StoreDump, bodies: list[Body]) -> object:
        empty = {name: [rows.slice(0, 0) for rows in part.batches[name]] for name in part.batches}
        return tables(StoreDump(empty), bodies)

    monkeypatch.setattr(handover_parcel, "_tables", emptied)
    simulation = managed("tumbled", tmp_path)
    problems = (simulation.run(seed).problem for seed in range(1, 41))
    assert any(problem is not None and "rows are missing" in problem for problem in problems)


def adopted(results: list[SeedResult]) -> int:
    """Return how often a head went on with what was there."""
    told = [line for result in results for line in result.story]
    return sum("ADOPTED" in line and "NOT ADOPTED" not in line for line in told)


def test_heads_that_are_killed_are_followed_by_ones_that_know_the_owners(tmp_path: Path) -> None:
    simulation = managed("tumbled", tmp_path, head_kills=KILLS)
    results = [simulation.run(seed) for seed in HEADS]
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    assert sum(result.moves.done for result in results if result.moves is not None) > 0
    assert adopted(results) > 0
    points = {name for result in results for name in result.crashed_at}
    assert "move.round.told" in points
    told = [line for result in results for line in result.story]
    assert any("NOT ADOPTED" in line and UNDER_WAY in line for line in told)


def forget_the_owners(patch: pytest.MonkeyPatch) -> None:
    """A head that follows takes the owners for those of the checkpoint."""
    patch.setattr(HeldMoves, "said", lambda held: {})


def test_a_head_that_does_not_ask_for_the_owners_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = managed("tumbled", tmp_path, head_kills=KILLS, faults=CALM)
    simulation.moves_wanted = 200.0
    forget_the_owners(monkeypatch)
    # Those before show nothing.
    assert next((seed for seed in range(161, 401) if simulation.run(seed).problem is not None), None) is not None


@pytest.mark.long("hundreds of seeds; test_a_few_seeds_of_moves_between_task_managers")
@pytest.mark.parametrize("options", [IN_MEMORY, SMALL], ids=["memory", "early ends"])
@pytest.mark.parametrize("name", MOVING)
def test_every_seed_of_moves_between_task_managers_puts_out_what_the_undisturbed_run_does(
    name: str, options: PagingOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if options is SMALL:
        end_steps_early(monkeypatch)
    simulation = managed(name, tmp_path, options=options)
    results = [simulation.run(seed) for seed in range(1, 41)]
    check(results, len(results) // 4)
    assert sum(result.moves.failed for result in results if result.moves is not None) > 0


def test_state_walks_between_processes_while_the_job_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = MeteredJob(tmp_path)
    job.give(500)
    handle = job.start(executor="processes", task_managers=2, parallelism=2, metrics_port=0)
    assert handle.metrics_url is not None
    address = parse_address(handle.metrics_url)
    client = JobClient(dataclasses.replace(address, token=own_token(address.port)))
    job_there = OverHttp(client)
    until(lambda: handle.metrics().source_rows == PARTITIONS * 500, handle)
    places = {item.name: item.task_manager for item in client.instances().instances}
    keyed = [name for name in places if name.startswith("per ")]
    had = {item.name: item.key_groups for item in client.instances().instances}
    assert [name for name, groups in had.items() if groups] == keyed
    seen: list[ChangeUnderWay | None] = []
    end_round = ManagedMoves._end_round

    def noted(moves: ManagedMoves, reroute: Reroute) -> None:
        end_round(moves, reroute)
        seen.append(handle.metrics().change)

    monkeypatch.setattr(ManagedMoves, "_end_round", noted)
    for name in keyed:
        other = "tm-1" if places[name] == "tm-0" else "tm-0"
        record = await_move(job_there, client.move(name, other))
        assert record.summary is not None
        assert record.moved_key_groups == record.key_groups == record.summary.key_groups > 0
        assert record.summary.state_bytes > 0 and record.summary.rounds > 1
        job.give(600)
        task, of = name.partition("[")[0], record.key_groups
        told = [(it.what, it.task, it.moved_key_groups, it.key_groups) for it in seen[:-1] if it is not None]
        moved = [each[2] for each in told]
        assert moved == sorted(set(moved)) and 0 < moved[0] < of
        assert told == [(f"{name} to {other}", task, count, of) for count in moved] and seen[-1] is None
        seen.clear()
        here = {item.name: item.key_groups for item in client.instances().instances}
        assert here[name] == 0 and sum(here[each] or 0 for each in keyed) == sum(had[each] or 0 for each in keyed)
    source = next(name for name in places if name.startswith("numbers"))
    other = "tm-1" if places[source] == "tm-0" else "tm-0"
    record = await_move(job_there, client.move(source, other))
    assert record.summary is not None and record.summary.partitions == PARTITIONS // 2
    with pytest.raises(UserError, match="reads nothing"):
        await_move(job_there, client.move(source, other))
    assert client.status().restarts == 0
    handle.savepoint("after", 60)
    job.give(ROWS)
    handle.wait(60)
    job.check()
