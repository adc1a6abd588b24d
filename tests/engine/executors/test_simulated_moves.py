"""Key groups change their instances at random while a simulated job runs, and it puts out what it does undisturbed.

``make test`` tries 200 seeds over all pipelines, the long suite 10,000, in parts of 50; ``PENSTOCK_MOVE_SEEDS`` sets
how many it tries of each pipeline: in memory, in pages, and in memory with steps that end wherever they may.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock import count, sum_
from penstock.engine.dataflow import instance
from penstock.engine.executors.simulated import SeedResult, Simulation, record_pipeline
from penstock.engine.executors.simulation.paged import TINY, SimulatedPaging
from penstock.engine.moves.movable import refusal
from penstock.engine.operators.process import rows
from penstock.engine.paging import paged_operator
from penstock.engine.paging.options import PagingOptions
from tests.engine.executors.simulated_support import PIPELINES, in_parts, part_name, read

SLOT_S = 4
EPOCH = datetime(1970, 1, 1)
IN_MEMORY = PagingOptions()
SMALL = PagingOptions(None, 2_000, 1_500)
"""Many buckets, all in memory."""


class SlotTotals(ps.Process):
    """Adds up the values of each slot of time, and says so at its end."""

    totals = ps.map_state(int, int)

    def process(self, row: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        slot = int((row["at"] - EPOCH).total_seconds()) // SLOT_S
        if not self.totals.contains(slot):
            context.timers.at(EPOCH + timedelta(seconds=(slot + 1) * SLOT_S))
            self.totals.put(slot, 0)
        self.totals.put(slot, self.totals.get(slot) + row["value"])
        yield from ()

    def on_timer(self, timer: Any, context: Any) -> Iterator[dict[str, Any]]:
        slot = int((timer.time - EPOCH).total_seconds()) // SLOT_S - 1
        yield {"key": context.key, "slot": slot, "total": self.totals.get(slot)}
        self.totals.delete(slot)


def slots(job: ps.Job) -> None:
    """A process function with state and a timer for each key and slot."""
    keyed = read(job, 9).key_by("key")
    keyed.process(SlotTotals, {"key": int, "slot": int, "total": int}).name("slots").collect().name("out")


def upserted(job: ps.Job) -> None:
    """Windows that move beside a count that may not, as an upsert sink is behind it."""
    keyed = read(job, 10).key_by("key")
    keyed.window(ps.tumbling("5s")).agg(n=count(), total=sum_("value")).name("windows").collect().name("out")
    counts = keyed.agg(n=count()).name("counts")
    counts.for_each_batch(print, mode="upsert", key="key").name("latest")


MOVING = {**PIPELINES, "slots": slots, "upserted": upserted}

FEW = range(1, 1 + 200 // len(MOVING) + 1)
"""Seeds of each pipeline in ``make test``."""

EACH = 10_000 // (3 * len(MOVING)) + 1
PARTS = in_parts(int(os.environ.get("PENSTOCK_MOVE_SEEDS", str(EACH))))


def moving(name: str, folder: Path, options: PagingOptions) -> Simulation:
    job = ps.Job()
    MOVING[name](job)
    made = Simulation(record_pipeline(job.graph, 10_000), parallelism=3, paging=SimulatedPaging(folder, options))
    made.moves = True
    return made


def end_steps_early(patch: pytest.MonkeyPatch) -> None:
    """Let every step end wherever it may: rows wait at most markers where buckets are many."""
    for module in (instance, rows, paged_operator):
        patch.setattr(module, "SLICE_NS", 0)


def check(results: list[SeedResult]) -> None:
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    moves = [result.moves for result in results if result.moves is not None]
    assert sum(item.done for item in moves) > 2 * len(results)
    assert sum(item.state_bytes for item in moves) > 0


@pytest.mark.parametrize("name", MOVING)
def test_a_few_seeds_of_moves_put_out_what_the_undisturbed_run_does(name: str, tmp_path: Path) -> None:
    simulation = moving(name, tmp_path, IN_MEMORY)
    check([simulation.run(seed) for seed in FEW])


@pytest.mark.parametrize("name", ["tumbled", "nested"])
def test_a_move_completes_though_every_channel_is_full(name: str, tmp_path: Path) -> None:
    """A channel holds a single batch, so that producers wait for room nearly always."""
    simulation = moving(name, tmp_path, IN_MEMORY)
    simulation.loop = replace(simulation.loop, channel_bytes=1)
    check([simulation.run(seed) for seed in range(1, 9)])


def test_a_checkpoint_that_was_passed_over_is_not_gone_on_from_once_it_is_whole_again(tmp_path: Path) -> None:
    """A file of it is damaged; the next checkpoint uploads the same bytes again, and is never published."""
    assert moving("tumbled", tmp_path, IN_MEMORY).run(62).problem is None


def test_buckets_that_are_outside_move(tmp_path: Path) -> None:
    simulation = moving("sessions", tmp_path, TINY)
    check([simulation.run(seed) for seed in range(1, 5)])


@pytest.mark.long("hundreds of seeds; test_a_few_seeds_of_moves_put_out_what_the_undisturbed_run_does")
@pytest.mark.parametrize("seeds", PARTS, ids=part_name)
@pytest.mark.parametrize("options", [IN_MEMORY, TINY, SMALL], ids=["memory", "pages", "early ends"])
@pytest.mark.parametrize("name", MOVING)
def test_every_seed_of_moves_puts_out_what_the_undisturbed_run_does(
    name: str, options: PagingOptions, seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if options is SMALL:
        end_steps_early(monkeypatch)
    simulation = moving(name, tmp_path, options)
    results = [simulation.run(seed) for seed in seeds]
    check(results)
    assert simulation.run(seeds[0]).trace == results[0].trace
    assert sum(result.crashes for result in results) > 0
    assert sum(result.committed for result in results) > len(results)
    assert sum(result.moves.failed for result in results if result.moves is not None) > 0


def test_what_an_upsert_sink_is_behind_does_not_move(tmp_path: Path) -> None:
    graph = moving("upserted", tmp_path, IN_MEMORY).plan_at(2)
    reasons = {graph.name(task): refusal(graph, task.id) for task in graph.tasks}
    told = {name: reason for name, reason in reasons.items() if reason is not None}
    assert len(reasons) - len(told) == 1
    assert sum("the upsert sink 'latest' is behind it" in reason for reason in told.values()) == 1
