"""Scenario 2 of Stream-Economics on real parts: its application, and rows of runs whose answers are known."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.benchmarks.papers.economics.applications import SINKS
from penstock.benchmarks.papers.economics.real_applications import KNN_SINK
from penstock.benchmarks.papers.economics.real_cases import MOVES_KNN, cases, moves_beside_knn
from penstock.benchmarks.papers.economics.real_moving import COUNT, INSTANCES, zones
from penstock.benchmarks.papers.economics.real_moving_knn import (
    CONTRACTS,
    FIRST_SHARES,
    FULL,
    LOADS,
    load_of,
    points,
    rides,
)
from penstock.benchmarks.papers.economics.real_moving_knn_rows import moving_knn_rows
from penstock.benchmarks.papers.real.application import Application, Setting, attribute
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.schedule import Phase
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.benchmarks.papers.real.wanted import Wanted
from penstock.engine.restore.key_group_owners import owner_tables
from penstock.model.key_groups import key_groups_at
from penstock.model.plan import NoChange
from penstock.scheduler.action_log import ActionLog
from penstock.state.keys.batch_keys import KeyCodec
from tests.scheduler.scaling_jobs import Job, Task, measured

PHASES = (*(Phase(FULL * load, 30.0) for load in LOADS[:-1]), Phase(FULL * LOADS[-1], 60.0))
KEY_GROUPS = 128
CASE = moves_beside_knn(30.0)
ONE, TWO = SINKS

SHOWN: Sequence[tuple[float, float, float]] = ((1.0, 1.0, 1.0), (0.8, 1.0, 1.0), (0.55, 0.7, 1.0), (0.1, 0.6, 0.97))
"""Accuracies of KNN and both sinks in each phase, as they are to be."""


def test_each_phase_asks_for_more_than_there_is_in_one_more_place() -> None:
    full, room = 1.0, 0.9
    loads = [load_of(FULL * load) for load in LOADS]
    totals = [(sum(first.values()), sum(second.values())) for first, second in loads]
    assert max(totals[0]) < room
    # The second one has too much, of which all but K-Nearest Neighbors fits.
    assert totals[1][0] < room and totals[1][1] > full
    assert totals[1][1] - loads[1][1][KNN_SINK] < room
    # Then the first one, too, where it suffices that the first sink sheds.
    assert totals[2][0] > full and loads[2][0][TWO] + CONTRACTS[ONE][0] * loads[2][0][ONE] < room + 0.01
    # In the end not even minimums fit there; they do once what the first sink has is at the other one.
    first, second = load_of(FULL * LOADS[3], minimum=True)
    assert sum(first.values()) > full + 0.05
    assert first[TWO] < room and sum(second.values()) + first[ONE] < room
    assert CONTRACTS[KNN_SINK][1] < CONTRACTS[ONE][1] < CONTRACTS[TWO][1]


def test_zones_lie_where_these_loads_are() -> None:
    job: Application = attribute(CASE.application)(
        Setting("127.0.0.1:1", tuple(CASE.topics), Path("unused"), None, CASE.options)
    )
    assert {query: counted.topics for query, counted in job.queries.items()} == {
        KNN_SINK: ("points",), ONE: ("rides",), TWO: ("rides",),
    }  # fmt: skip
    graph = job.job.plan(INSTANCES, apart=True)
    tables = owner_tables(graph, KEY_GROUPS, {})
    waiting = [task for task in graph.tasks if any(COUNT in graph.node(each).name for each in task.operators)]
    assert len(waiting) == len(CONTRACTS)
    for task in waiting:
        for instance in range(INSTANCES):
            hashes = KeyCodec([pa.int64()]).hash([pa.array(zones(instance))], len(zones(instance)))
            groups = key_groups_at((hashes >> np.uint64(32)).astype(np.uint32), KEY_GROUPS)
            assert set(tables[task.id][groups].tolist()) == {instance}
    assert {json.loads(point)["zone"] for point in points()} == set(zones(1))


@pytest.mark.parametrize(("sink", "column"), [(ONE, "begin"), (TWO, "end")])
def test_every_instance_gets_its_share_of_each_partition_all_the_time(sink: str, column: str) -> None:
    given, firsts = [json.loads(ride) for ride in rides()], set(zones(0))
    partitions = len(CASE.shares)
    for partition in range(partitions):
        is_first = np.array([ride[column] in firsts for ride in given[partition::partitions]])
        turns = is_first[: len(is_first) // 10 * 10].reshape(-1, 10)
        assert set(turns.sum(axis=1).tolist()) == {round(10 * FIRST_SHARES[sink])}


def test_a_smoke_run_has_it_and_it_lasts_longest_where_something_moves() -> None:
    (smoke,) = [case for case, _ in Wanted(Scale.SMOKE, 1).times(cases) if case.name == MOVES_KNN]
    assert [load for load, _ in smoke.loads] == list(LOADS) and sum(length for _, length in smoke.loads) <= 40.0
    assert max(CASE.loads, key=lambda phase: phase[1]) == CASE.loads[-1]


def kept_run(folder: Path, by_phase: Sequence[tuple[float, float, float]], moved: Sequence[str]) -> SeenRun:
    """Write a run with these accuracies, in which these instances gave away what they had."""
    offered: dict[str, float] = {"rides": 0.0, "points": 0.0}
    taken = dict.fromkeys(CONTRACTS, 0.0)
    injected: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    at_s = 0.0
    for phase, shares in zip(PHASES, by_phase, strict=True):
        for _ in range(int(phase.seconds)):
            at = {"at_ns": int(at_s * 1e9), "cpu_s": 0.0}
            injected.append({**at, "delivered": {topic: [rows] for topic, rows in offered.items()}})
            samples.append({**at, "read": {"rides": 1}, "taken": {q + COUNT: rows for q, rows in taken.items()}})
            at_s += 1.0
            for topic in offered:
                offered[topic] += phase.rows_per_s * CASE.rate_of(topic)
            for query, part in zip(CONTRACTS, shares, strict=True):
                taken[query] += part * phase.rows_per_s * CASE.rate_of("points" if query == KNN_SINK else "rides")
    said: Mapping[str, Any] = {name: {"took_ms": 90.0, "key_groups": 64} for name in moved}
    (folder / "job").mkdir(parents=True)
    with ActionLog(folder / "job" / "actions.jsonl") as log:
        snapshot = measured(Job([Task("rides", None), Task("counts", 100.0)], [(0, 1, 4.0)], 50.0))
        log.snapshot(snapshot)
        log.decision(snapshot, "qod", NoChange("it fits"))
        log.result(snapshot, "qod", "applied", {"moved": said, "failed": {}})
    topics = {query: ["points" if query == KNN_SINK else "rides"] for query in CONTRACTS}
    seen = {
        "case": {"topics": ["rides", "points"]}, "capacity": FULL, "capacity_after": FULL,
        "phases": [asdict(phase) for phase in PHASES], "begin_ns": 0, "job_begun_ns": -1,
        "queries": {query: {"operator": query + COUNT, "topics": own} for query, own in topics.items()},
        "broker_cpu_s": 1.0, "exact": None, "injected": injected, "samples": samples,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(seen))
    return SeenRun(folder)


def instance(query: str, number: int) -> str:
    return f"{query}{COUNT} -> {query}[{number}]"


def test_a_run_in_which_all_of_it_shows(tmp_path: Path) -> None:
    told = list(moving_knn_rows([kept_run(tmp_path, SHOWN, [instance(ONE, 0)])]))
    assert [row.met for row in told] == [True] * 4 and all(row.real for row in told)
    assert "0.80/1.00/1.00" in told[0].note and "Not on real parts" in told[0].note and instance(ONE, 0) in told[2].note


@pytest.mark.parametrize(
    ("phase", "shares", "moved", "fails"),
    [
        (1, (1.0, 0.8, 1.0), [instance(ONE, 0)], 0),
        (1, (0.8, 0.9, 1.0), [instance(ONE, 0)], 0),
        (2, (0.55, 0.7, 0.8), [instance(ONE, 0)], 1),
        (0, SHOWN[0], [instance(KNN_SINK, 1), instance(ONE, 0)], 2),
        (0, SHOWN[0], [instance(ONE, 0), instance(TWO, 1)], 2),
        (0, SHOWN[0], [], 2),
        (3, (0.55, 0.6, 0.97), [instance(ONE, 0)], 3),
    ],
)
def test_what_does_not_show_is_not_met(
    phase: int, shares: tuple[float, float, float], moved: Sequence[str], fails: int, tmp_path: Path
) -> None:
    seen = [*SHOWN[:phase], shares, *SHOWN[phase + 1 :]]
    told = list(moving_knn_rows([kept_run(tmp_path, seen, moved)]))
    assert [place for place, row in enumerate(told) if not row.met] == [fails]


@pytest.mark.slow
@pytest.mark.long("a minute on a broker; tests/contracts/executors/test_overload_moves.py has a move without one")
def test_an_instance_of_the_first_sink_moves_on_real_parts(tmp_path: Path) -> None:
    run_case(moves_beside_knn(12.0), tmp_path / "moves-knn-1")
    told = list(moving_knn_rows([SeenRun(tmp_path / "moves-knn-1")]))
    assert told[2].met, [row.note for row in told]
