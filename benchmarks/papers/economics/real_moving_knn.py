"""Taxi Drives beside K-Nearest Neighbors on two task managers: rows from Kafka, waits as for an answer, counts by key.

As in `real_moving` every row waits, and keys lie so that task managers have unlike loads. The first one has half of the
first sink and most of the second, the second one the rest and all of K-Nearest Neighbors. Every phase asks for more:
first the second task manager has too much, then the first, and in the end not even minimums fit there. Rows wait once
they are counted, nearly each alone, in windows that are short. What is counted stands for rows that were shed, too,
which do not wait.
"""

import json
import time
from functools import partial
from typing import Any

import numpy as np

import penstock as ps
from penstock.benchmarks.papers.economics.applications import KNN, SINKS
from penstock.benchmarks.papers.economics.real_applications import KNN_SINK, read_dated
from penstock.benchmarks.papers.economics.real_moving import COUNT, zones
from penstock.benchmarks.papers.real.application import Application, Counted, Setting

_MODULE = "penstock.benchmarks.papers.economics.real_moving_knn"
MOVING_BESIDE_KNN, SPREAD_RIDES, POINTS = (f"{_MODULE}:{name}" for name in ("moving_beside_knn", "rides", "points"))

ROW_S = {KNN_SINK: 0.02, SINKS[0]: 0.02, SINKS[1]: 0.025}
"""By query how long a row waits: many times the core that it takes, as both task managers share one."""

CORE_S = 0.002
"""So much longer it takes in all."""

CONTRACTS = {KNN_SINK: (0.1, 1), SINKS[0]: (0.5, 2), SINKS[1]: (0.9, 3)}
"""By query its minimum and its priority."""

FULL = 37.0
"""Rows a second of rides; phases are parts of it."""

POINTS_RATE = 1.4
"""So many times as many points come as rides."""

LOADS = (0.4, 0.65, 0.9, 1.15)
"""All fits; the second task manager has too much; both have; minimums do not fit on the first."""

FIRST_SHARES = {SINKS[0]: 0.5, SINKS[1]: 0.8}
"""Of each sink so many rows are of its first instance."""

CELL = "10ms"
"""Rows of a zone are counted in windows of this length, about one in each."""

_PARTITIONS = 4
_POOL = 4_000
_SEED = 29


def load_of(rides_per_s: float, *, minimum: bool = False) -> tuple[dict[str, float], dict[str, float]]:
    """Return by query the part of each task manager's time that rows ask for, of all of them or of the minimum."""
    first, second = {}, {}
    for query, (least, _) in CONTRACTS.items():
        rate = rides_per_s * (POINTS_RATE if query == KNN_SINK else 1.0) * (least if minimum else 1.0)
        share = FIRST_SHARES.get(query, 0.0)
        asked = rate * (ROW_S[query] + CORE_S)
        first[query], second[query] = share * asked, (1 - share) * asked
    return first, second


def rides() -> list[bytes]:
    """Return messages of rides: a zone for each sink, dealt out so that instances get their shares evenly."""
    own = [zones(instance) for instance in range(2)]
    drawn = np.random.default_rng(_SEED).integers(0, len(own[0]), (_POOL, 2)).tolist()
    # Messages go to partitions in turn.
    turn = np.arange(_POOL) // _PARTITIONS
    tenths = [10 - round(10 * FIRST_SHARES[sink]) for sink in SINKS]
    is_second = [(((turn + 1) * part) // 10 - (turn * part) // 10).tolist() for part in tenths]
    return [
        json.dumps({"begin": own[begins][begin], "end": own[ends][end]}).encode()
        for (begin, end), begins, ends in zip(drawn, *is_second, strict=True)
    ]


def points() -> list[bytes]:
    """Return messages of points, whose zones all are of the second instance."""
    return [json.dumps({"zone": zone}).encode() for zone in zones(1)]


def moving_beside_knn(setting: Setting) -> Application:
    """Return both in one job, the topic of points last."""
    rides_of, points_of = setting.topics
    job = ps.Job()
    drives = read_dated(rides_of, {"begin": int, "end": int}, setting, job).name("rides")
    for sink, column in zip(SINKS, ("begin", "end"), strict=True):
        _count(drives.select("at", zone=column).name(f"to {sink}"), sink, setting)
    _count(read_dated(points_of, {"zone": int}, setting, job).name(KNN), KNN_SINK, setting)
    topics = {query: points_of if query == KNN_SINK else rides_of for query in CONTRACTS}
    return Application(job, {query: Counted(query + COUNT, (topic,)) for query, topic in topics.items()})


def _count(rows: ps.Stream, query: str, setting: Setting) -> None:
    counted = rows.key_by("zone").window(ps.tumbling(CELL)).agg(n=ps.count()).name(query + COUNT)
    waited = counted.map(partial(waits, ROW_S[query]), counted.schema).name(f"{query} waits")
    minimum, priority = CONTRACTS[query]
    written = waited.write_json(setting.folder / query).name(query)
    written.with_min_accuracy(minimum, columns=False).with_priority(priority)


def waits(row_s: float, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row after so long."""
    time.sleep(row_s)
    return row
