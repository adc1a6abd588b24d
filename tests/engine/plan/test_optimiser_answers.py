"""Optimised or not, random pipelines give the same answer."""

import datetime
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock import col
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.planner import cut, plan
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.expressions import Expr

ROWS = [
    {"a": a, "b": b, "s": s, "t": t}
    for a, b, s, t in zip(
        [1, 2, 3, None, 5, 6, 7, 8] * 3,
        [None, 4, 4, 1, 2, 2, 0, 9, 3, 3, 1, 5] * 2,
        ["x", "y", "x", None, "z", "y"] * 4,
        ["p", "q", None, "p"] * 6,
        strict=True,
    )
]


ROWS_SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64(), "s": pa.string(), "t": pa.string()})


INTEGERS, TEXTS = ("a", "b", "c"), ("s", "t", "u")


def _of(stream: ps.Stream, wanted: Sequence[str]) -> list[str]:
    kind = pa.int64() if wanted is INTEGERS else pa.string()
    return [field.name for field in stream.schema if field.type == kind]


def condition(stream: ps.Stream, chance: Random) -> Expr:
    """Return a condition over some columns."""
    numbers, texts = _of(stream, INTEGERS), _of(stream, TEXTS)
    options: list[Expr] = [ps.lit(chance.random() < 0.5)]
    if numbers:
        one, other = col(chance.choice(numbers)), col(chance.choice(numbers))
        options = [one > chance.randrange(7), one.is_null(), one % 2 == 0, one <= other]
    if texts:
        text = col(chance.choice(texts))
        options += [text == chance.choice("xyzpq"), text.is_not_null() | (text > "p")]
    return chance.choice(options)


def computed(stream: ps.Stream, chance: Random) -> Expr:
    """Return an expression that has a value for every row."""
    numbers, texts = _of(stream, INTEGERS), _of(stream, TEXTS)
    options: list[Expr] = [ps.lit(chance.randrange(4)), ps.lit("x")]
    if numbers:
        one, other = col(chance.choice(numbers)), col(chance.choice(numbers))
        options += [one + other, one * 2 - 1, one.fill_null(0), other, ps.when(one > 2).then(other).otherwise(one)]
    if texts:
        text = col(chance.choice(texts))
        options += [text, text.str.upper(), text.str.length().cast("int64"), ps.concat(text, "x")]
    return chance.choice(options)


def bump(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value + 1 if isinstance(value, int) else value for name, value in row.items()}


def step(stream: ps.Stream, chance: Random) -> ps.Stream:
    """Return the stream with one more operator."""
    names = stream.schema.names
    often = ["filter", "select", "with_columns", "rename"] * 2
    seldom = ["map", "function"] if stream.updating else ["map", "function", "union", "split", "key", "batches"]
    match chance.choice(often + seldom):
        case "filter":
            return stream.filter(condition(stream, chance))
        case "select":
            kept = chance.sample(names, chance.randint(1, len(names)))
            return stream.select(*kept, **{"extra": computed(stream, chance)} if "extra" not in kept else {})
        case "with_columns":
            return stream.with_columns(**{chance.choice([*names, "c", "u"]): computed(stream, chance)})
        case "rename":
            return stream.rename(dict(zip(names, chance.sample(names, len(names)), strict=True)))
        case "map":
            return stream.map(bump)
        case "function":
            return stream.filter(_truthy(chance.choice(names)))
        case "union":
            return stream.union(stream.filter(condition(stream, chance)))
        case "split":
            parts = stream.split(one=condition(stream, chance), two=condition(stream, chance))
            return parts[chance.choice(["one", "two", "rest"])]
        case "batches":
            return stream.map_batches(lambda batch: batch.filter(pc.is_valid(batch.column(0))))
        case _:
            key, value = chance.choice(names), chance.choice(names)
            calls = {"c": ps.count(value), "u": ps.max_(value)}
            calls.pop(key, None)
            keyed = stream.key_by(key)
            return keyed.agg(**calls) if chance.random() < 0.5 else keyed.window(ps.global_window()).agg(**calls)


def _truthy(name: str) -> Callable[..., Any]:
    """Return a function with one parameter of this name."""
    scope: dict[str, Any] = {}
    exec(f"def truthy({name}): return bool({name})", scope)
    function: Callable[..., Any] = scope["truthy"]
    return function


def answer(job: ps.Job, graph: ExecutionGraph, results: list[ps.Result], folder: Path) -> list[Counter[str]]:
    EmbeddedJob(JobPlan("test", graph, LoopOptions(batch_rows=64), folder)).run()
    return [Counter(json.dumps(row, default=str) for row in result.rows()) for result in results]


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 1 << 32))
def test_the_optimised_plan_gives_the_same_answer(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    chance = Random(seed)
    job = ps.Job()
    stream = ps.read_memory(ROWS, schema=ROWS_SCHEMA, job=job)
    results = []
    for _ in range(chance.randint(3, 9)):
        stream = step(stream, chance)
        if chance.random() < 0.15:
            results.append(stream.collect())
    results.append(stream.collect())
    parallelism, folder = chance.randint(1, 2), tmp_path_factory.getbasetemp()
    plain = answer(job, cut(job.graph, parallelism), results, folder)
    assert answer(job, plan(job.graph, parallelism), results, folder) == plain


def test_count_windows_order_rows_by_columns_that_nobody_reads() -> None:
    at = datetime.datetime(2024, 1, 1)
    rows = [{"at": at, "a": a, "b": b} for a, b in ((2, 40), (1, 20), (4, 30), (3, 10))]
    answers = []
    for others in (False, True):
        job = ps.Job()
        stream = ps.read_memory(rows, schema={"a": int, "b": int, "at": pa.timestamp("us")}, time="at", job=job)
        if others:
            stream.select("a").write_black_hole()
        pairs = stream.key_by("at").window(ps.count_window(2)).agg(b=ps.sum_("b")).select("b").collect()
        job.run("pairs")
        answers.append(sorted(row["b"] for row in pairs.table().to_pylist()))
    assert answers == [[40, 60], [40, 60]]
