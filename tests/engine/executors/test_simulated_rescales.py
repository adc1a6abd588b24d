"""The parallelism of operators changes at random while a simulated job runs, and it puts out what it does undisturbed.

The long suite tries 10,000 seeds over all pipelines, by workers and by task managers, which also begin with single
instances, in parts of 50;
``PENSTOCK_RESCALE_SEEDS`` sets how many it tries of each.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.dataflow.exchange import Output
from penstock.engine.executors.managers.managed_partitions import ManagedPartitions
from penstock.engine.executors.simulated import SeedResult, Simulation, record_pipeline
from penstock.engine.executors.simulation.faults import ALL, Faults
from penstock.engine.executors.simulation.paged import SimulatedPaging
from penstock.engine.operators.process.descriptor import ProcessDescriptor
from penstock.engine.paging.options import PagingOptions
from penstock.engine.restore.state_assignment import RestoredState
from penstock.engine.transport.halves import SendingHalf
from penstock.model.connectors import Read, Reader, Source
from penstock.state.checkpoints.manifest import InstanceEntry
from tests.engine.executors.simulated_support import in_parts, part_name
from tests.engine.executors.test_simulated_moves import MOVING

EACH = 10_000 // (3 * len(MOVING)) + 1
PARTS_OF_SEEDS = in_parts(int(os.environ.get("PENSTOCK_RESCALE_SEEDS", str(EACH))))
FEW = (7, 14, 19)
"""Seeds in which instances come and go while a job runs."""

FROM_ONE = range(1, 13)

IN_ORDER = range(1, 9)

HANDED_OVER = range(1, 21)

LATE = Faults.of(("delay",))
"""Nothing fails, so that many handovers come to their end."""

MANY = range(1, 41)


PARTS = 5


class Parts(Source):
    """Rows in an order of their own in each partition; a column says which it is."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema({"part": pa.int64(), "value": pa.int64(), "at": pa.timestamp("us")})

    def partitions(self, parallelism: int) -> Sequence[str]:
        return [str(part) for part in range(PARTS)]

    def open(self, partition: str, position: Any | None) -> Reader:
        rng = np.random.default_rng(int(partition))
        times = np.sort(rng.integers(0, 60_000_000, 40))
        columns = pa.array([int(partition)] * 40), pa.array(rng.integers(0, 1_000, 40)), pa.array(times)
        arrays = [*columns[:2], columns[2].cast(pa.timestamp("us"))]
        return Once(pa.RecordBatch.from_arrays(arrays, schema=self.schema))


class Once(Reader):
    def __init__(self, rows: pa.RecordBatch) -> None:
        self.rows = rows

    def read(self, max_rows: int) -> Read:
        return Read(self.rows, ended=True)

    def position(self) -> Any:
        return None


class Chained(ps.Process):
    """Says of each row what follows from it and all before it of its partition, in their order."""

    before = ps.value_state(int)

    def process(self, row: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        self.before.set(((self.before.get() or 0) * 31 + row["value"]) % 1_000_003)
        yield {"part": context.key, "chain": self.before.get()}


def ordered(job: ps.Job) -> None:
    rows = ps.read(Parts(), time="at", job=job).name("rows").key_by("part")
    rows.process(Chained, {"part": int, "chain": int}, order="arrival").name("chain").collect().name("out")


def rescaled(name: str, folder: Path, *, managed: bool, parallelism: int = 2) -> Simulation:
    job = ps.Job()
    (ordered if name == "ordered" else MOVING[name])(job)
    paging = SimulatedPaging(folder, PagingOptions())
    made = Simulation(record_pipeline(job.graph, 10_000), parallelism=parallelism, managed=managed, paging=paging)
    made.rescales = True
    return made


def check(results: list[SeedResult], *, live: bool) -> None:
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    counted = [result.rescales for result in results if result.rescales is not None]
    assert sum(item.done for item in counted) >= len(results)
    assert sum(item.moved for item in counted) > 0
    if live:
        assert sum(item.live for item in counted) > 0
        assert sum(item.partitions for item in counted) > 0


@pytest.mark.parametrize("managed", [False, True], ids=("workers", "task managers"))
def test_a_few_seeds_put_out_what_the_undisturbed_run_does(tmp_path: Path, *, managed: bool) -> None:
    simulation = rescaled("tumbled", tmp_path, managed=managed)
    check([simulation.run(seed) for seed in FEW], live=managed)


@pytest.mark.parametrize("name", ["tumbled", "joined"])
def test_what_begins_with_single_instances_gets_others_while_it_runs(name: str, tmp_path: Path) -> None:
    simulation = rescaled(name, tmp_path, managed=True, parallelism=1)
    results = [simulation.run(seed) for seed in FROM_ONE]
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    counted = [result.rescales for result in results if result.rescales is not None]
    assert sum(item.live for item in counted) > 0 and sum(item.moved for item in counted) > 0
    assert sum(item.partitions for item in counted) > 0


def test_state_of_instances_that_are_no_more_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: only the first instance's buckets come to those that follow."""
    found = RestoredState._givers

    def first(self: RestoredState, *arguments: Any) -> list[InstanceEntry]:
        return [entry for entry in found(self, *arguments) if entry.instance == 0]

    monkeypatch.setattr(RestoredState, "_givers", first)
    simulation = rescaled("tumbled", tmp_path, managed=False)
    problems = (simulation.run(seed).problem for seed in MANY)
    assert any(problem is not None and "rows are missing" in problem for problem in problems)


def test_receivers_that_are_not_told_which_watermark_holds_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plant a bug: producers send to new instances from then on, and say nothing of before."""

    def silently(self: Output, senders: Sequence[SendingHalf], numbers: Sequence[int]) -> None:
        self.senders += tuple(senders)
        self.by_number |= zip(numbers, senders, strict=True)

    monkeypatch.setattr(Output, "join", silently)
    simulation = rescaled("tumbled", tmp_path, managed=True)
    simulation.faults = LATE
    problems = (simulation.run(seed).problem for seed in MANY)
    assert any(problem is not None and "has not ended" in problem for problem in problems)


def test_rows_of_a_partition_stay_in_order_though_it_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_order_of_arrival(monkeypatch)
    simulation = rescaled("ordered", tmp_path, managed=True)
    check([simulation.run(seed) for seed in IN_ORDER], live=True)


def handing_over(folder: Path, patch: pytest.MonkeyPatch, faults: Faults = ALL) -> Simulation:
    """Return a job in which partitions change their instances all the time, with rows of them on many ways.

    Channels have room for all rows, so that those of a giver may wait while the taker's overtake them.
    """
    in_order_of_arrival(patch)
    simulation = rescaled("ordered", folder, managed=True)
    simulation.faults, simulation.moves, simulation.moves_wanted = faults, True, 400.0
    simulation.loop = replace(simulation.loop, batch_rows=2, channel_bytes=1 << 20)
    return simulation


@pytest.mark.parametrize("faults", [LATE, ALL], ids=["late", "all faults"])
def test_partitions_move_all_the_time_and_their_rows_stay_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: Faults
) -> None:
    simulation = handing_over(tmp_path, monkeypatch, faults)
    results = [simulation.run(seed) for seed in HANDED_OVER]
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    assert sum(result.moves.partitions for result in results if result.moves is not None) > 0


def test_rows_that_overtake_others_of_their_partition_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: who takes a partition reads it on before the rows that were read of it have passed."""
    monkeypatch.setattr(ManagedPartitions, "_has_passed", lambda self, handover: True)
    simulation = handing_over(tmp_path, monkeypatch, LATE)
    problems = (simulation.run(seed).problem for seed in MANY)
    assert any(problem is not None and "rows are missing" in problem for problem in problems)


def in_order_of_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare what depends on the order of rows in a partition, too: that is promised by its key."""
    monkeypatch.setattr(ProcessDescriptor, "depends_on", lambda self, spec: None)


@pytest.mark.long("hundreds of seeds; test_a_few_seeds_put_out_what_the_undisturbed_run_does")
@pytest.mark.parametrize("seeds", PARTS_OF_SEEDS, ids=part_name)
@pytest.mark.parametrize(
    ("managed", "parallelism"),
    [(False, 2), (True, 2), (True, 1)],
    ids=("workers", "task managers", "task managers, from one instance"),
)
@pytest.mark.parametrize("name", MOVING)
def test_every_seed_puts_out_what_the_undisturbed_run_does(
    name: str, seeds: range, tmp_path: Path, *, managed: bool, parallelism: int
) -> None:
    simulation = rescaled(name, tmp_path, managed=managed, parallelism=parallelism)
    check([simulation.run(seed) for seed in seeds], live=managed and name != "upserted")
