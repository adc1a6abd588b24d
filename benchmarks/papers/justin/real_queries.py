"""Queries 8 and 11 of Nexmark as jobs that run: rows from Kafka, blocking work a row where state is.

A row waits for 2 ms in the task that keeps the state, so that two cores suffice and one instance does not.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import penstock as ps
from penstock.benchmarks.papers.real.application import Application, Counted, Setting
from penstock.dsl.job import Job
from penstock.model.aggregates import UserAggregate

_MODULE = "penstock.benchmarks.papers.justin.real_queries"
Q8, Q11, Q11_HELD = f"{_MODULE}:q8", f"{_MODULE}:q11", f"{_MODULE}:q11_held"
EXACT_BIDS = f"{_MODULE}:exact_sessions"
BIDS = {"bids": f"{_MODULE}:bids"}
SELLERS = {"persons": f"{_MODULE}:persons", "auctions": f"{_MODULE}:auctions"}
"""Topics, and what makes their messages."""

SESSIONS, OPENED, REGISTERED, JOINED = "sessions", "sellers", "people", "new sellers"
"""Operators that keep state; rows wait in the first two."""

OUT = "out"
"""The sink, and its folder."""

ROW_S = 0.002
READERS = 2
PROFILE_BYTES = 20_000
"""Of what comes with a bid and is kept while its session is open, where state is to be large."""

_POOL = 20_000
_BIDDERS, _PEOPLE = 4_000, 2_000
_SEED = 25


class Waited(UserAggregate):
    """Counts rows, each of which waits, as for an answer, which takes no core."""

    state: Mapping[str, Any] = {"rows": np.int64}
    result_type = pa.int64()

    def update(self, state: Mapping[str, NDArray[Any]], groups: NDArray[np.int64], values: Sequence[pa.Array]) -> None:
        """Wait for each row."""
        time.sleep(len(groups) * ROW_S)
        np.add.at(state["rows"], groups, 1)

    def merge(
        self,
        state: Mapping[str, NDArray[Any]],
        groups: NDArray[np.int64],
        other: Mapping[str, NDArray[Any]],
        other_groups: NDArray[np.int64],
    ) -> None:
        """Add up."""
        np.add.at(state["rows"], groups, other["rows"][other_groups])

    def result(self, state: Mapping[str, NDArray[Any]], groups: NDArray[np.int64]) -> Any:
        """Return how many rows have waited."""
        return pa.array(state["rows"][groups])


def bids() -> list[bytes]:
    """Return bids of bidders, who come as often."""
    random = np.random.default_rng(_SEED)
    return [
        json.dumps({"bidder": int(bidder), "price": int(price)}).encode()
        for bidder, price in zip(random.integers(0, _BIDDERS, _POOL), random.integers(1, 10**6, _POOL), strict=True)
    ]


def persons() -> list[bytes]:
    """Return people who register, each once in a pool."""
    order = np.random.default_rng(_SEED + 1).permutation(_PEOPLE)
    return [json.dumps({"id": int(number), "name": f"person {number}"}).encode() for number in order]


def auctions() -> list[bytes]:
    """Return auctions of sellers."""
    sellers = np.random.default_rng(_SEED + 2).integers(0, _PEOPLE, _POOL)
    return [json.dumps({"auction": number, "seller": int(seller)}).encode() for number, seller in enumerate(sellers)]


def q11(setting: Setting) -> Application:
    """Return query 11: bids of each bidder in every session without a pause of more than 10 seconds.

    Option ``readers``: how many instances read; `READERS` if it is not said.
    """
    job = ps.Job()
    _sessions(_read(setting.topics[0], {"bidder": int, "price": int}, setting, job), waits=True).write_parquet(
        setting.folder / OUT
    ).name(OUT)
    return Application(job, {"q11": Counted(SESSIONS, setting.topics)})


def q11_held(setting: Setting) -> Application:
    """Return query 11 in which each session keeps the last profile of its bidder: some 60 MB of state."""
    job = ps.Job()
    read = _read(setting.topics[0], {"bidder": int, "price": int}, setting, job)
    profiled = read.map_batches(with_profiles, pa.schema([*read.schema, pa.field("profile", pa.string())]))
    figures = {"bids": ps.count(), "profile": ps.last("profile"), "waited": ps.aggregate(Waited(), "price")}
    sessions = profiled.name("profiled").key_by("bidder").window(ps.session("10s")).agg(**figures).name(SESSIONS)
    sessions.select("bidder", "bids").write_parquet(setting.folder / OUT).name(OUT)
    return Application(job, {"q11": Counted(SESSIONS, setting.topics)})


def with_profiles(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return bids with a profile each."""
    offsets = np.arange(rows.num_rows + 1, dtype=np.int32) * PROFILE_BYTES
    text = np.random.default_rng(_SEED).integers(32, 127, rows.num_rows * PROFILE_BYTES, np.uint8)
    profiles = pa.Array.from_buffers(pa.string(), rows.num_rows, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return rows.append_column("profile", profiles)


def q8(setting: Setting) -> Application:
    """Return query 8: who opened an auction within 10 seconds of registering."""
    job = ps.Job()
    _registered(setting, job, waits=True).write_parquet(setting.folder / OUT).name(OUT)
    return Application(job, {"q8": Counted(OPENED, (setting.topics[1],))})


def exact_sessions(kafka: str, topics: Sequence[str]) -> int:
    """Return how many bids there are: rows read again, none waits."""
    job = ps.Job()
    setting = Setting(kafka, tuple(topics), Path(), "latest")
    found = _sessions(_read(topics[0], {"bidder": int, "price": int}, setting, job), waits=False).collect()
    job.run("exact")
    return sum(found.table().column("bids").to_pylist())


def _sessions(read: ps.Stream, *, waits: bool) -> ps.Stream:
    figures = {"bids": ps.count()} | ({"waited": ps.aggregate(Waited(), "price")} if waits else {})
    return read.key_by("bidder").window(ps.session("10s")).agg(**figures).name(SESSIONS)


def _registered(setting: Setting, job: Job, *, waits: bool) -> ps.Stream:
    people = _read(setting.topics[0], {"id": int, "name": str}, setting, job)
    opened = _read(setting.topics[1], {"auction": int, "seller": int}, setting, job)
    figures = {"auctions": ps.count()} | ({"waited": ps.aggregate(Waited(), "auction")} if waits else {})
    registered = people.key_by("id", "name").window(ps.tumbling("10s")).agg(rows=ps.count()).name(REGISTERED)
    sellers = opened.key_by("seller").window(ps.tumbling("10s")).agg(**figures).name(OPENED)
    return registered.select("id", "name", "window_end", stime="window_start").join(
        sellers.select("seller", "auctions", ended="window_end"),
        left_on="id", right_on="seller", window=ps.tumbling("10s"),
    ).name(JOINED)  # fmt: skip


def _read(topic: str, fields: dict[str, Any], setting: Setting, job: Job) -> ps.Stream:
    """Read a topic, dated by the times at which its messages were written."""
    read = ps.read_kafka(
        topic, kafka=setting.kafka, schema=fields, metadata={"timestamp": "at"}, time="at", watermark="500ms",
        until=setting.until, job=job,
    )  # fmt: skip
    return read.name(topic.partition("-")[0]).parallelism(setting.options.get("readers", READERS))
