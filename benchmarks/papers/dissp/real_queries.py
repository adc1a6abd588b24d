"""Many queries of one job, each with a topic, a rate and a cost of its own: rows from Kafka, CPU that is burnt.

Rates and costs are geometric from the least to the greatest, and no query's cost says anything of its rate.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import penstock as ps
from penstock.benchmarks.papers.real.application import Application, Counted, Setting, under_contract
from penstock.model.columns import Floats

_MODULE = "penstock.benchmarks.papers.dissp.real_queries"
APPLICATION = f"{_MODULE}:queries"
MESSAGES = f"{_MODULE}:messages"

QUERIES = 20
RATE_RATIO, COST_RATIO = 10.0, 20.0
"""The greatest by the least."""

LEAST_COST_NS = 100_000
"""CPU that a row takes at least."""

WORK = " work"
"""What the operator is called that rows of a query are counted at, after the query."""

WINDOW = "5s"

_FETCHES = {"fetch.wait.max.ms": "100", "fetch.min.bytes": "65536"}
"""Ten answers a second to each of many consumers: one for every few messages takes a quarter of the job's core."""

_GROUPS = 4
_POOL = 1_024
_SEED = 22


def names(count: int) -> tuple[str, ...]:
    """Return the names of so many queries, by rate, the slowest first."""
    return tuple(f"q{number:02}" for number in range(1, count + 1))


def rates(count: int) -> Floats:
    """Return how many times the rate of the slowest query each has."""
    return np.geomspace(1.0, RATE_RATIO, count)


def costs_ns(count: int) -> list[int]:
    """Return the CPU that a row of each query burns, which is uncorrelated with its rate."""
    ordered = np.geomspace(1.0, COST_RATIO, count) * LEAST_COST_NS
    return [int(cost) for cost in ordered[np.random.default_rng(_SEED).permutation(count)]]


def messages() -> list[bytes]:
    """Return messages of a number and its group."""
    values = np.random.default_rng(_SEED).random(_POOL).round(6).tolist()
    return [json.dumps({"group": number % _GROUPS, "value": value}).encode() for number, value in enumerate(values)]


def worked(row: dict[str, Any], cost_ns: int, cpu_ns: Callable[[], int] = time.thread_time_ns) -> dict[str, Any]:
    """Return a row once so much CPU of this thread is burnt."""
    until_ns = cpu_ns() + cost_ns
    while cpu_ns() < until_ns:
        pass
    return row


def queries(setting: Setting) -> Application:
    """Return a query for each topic, the slowest first; option ``contracts``: see `under_contract`."""
    job = ps.Job()
    counted = {}
    count = len(setting.topics)
    for name, topic, cost_ns in zip(names(count), setting.topics, costs_ns(count), strict=True):
        read = ps.read_kafka(
            topic,
            kafka={"bootstrap.servers": setting.kafka, **_FETCHES},
            schema={"group": int, "value": float},
            metadata={"timestamp": "at"},
            time="at",
            watermark="500ms",
            until=setting.until,
            job=job,
        )
        done = read.name(f"{name} source").map(partial(worked, cost_ns=cost_ns), read.schema).name(name + WORK)
        windows = done.key_by("group").window(ps.tumbling(WINDOW))
        totals = windows.agg(rows=ps.count(), total=ps.sum_("value"))
        under_contract(totals.write_json(setting.folder / f"{name}.jsonl"), setting, name)
        counted[name] = Counted(name + WORK, (topic,))
    return Application(job, counted)
