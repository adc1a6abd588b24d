"""Unbounded joins written in the DSL: against DuckDB, in any order of the inputs, at any parallelism, into any sink."""

from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock import col
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.model.errors import PlanError
from penstock.model.join_specs import HOWS
from tests.engine.planning import edge, told

FIELDS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
NAMES = ("a", "b", "c")


def tables(seed: int) -> dict[str, pa.Table]:
    random = np.random.default_rng(seed)
    found = {}
    for name, rows in zip(NAMES, (60, 40, 30), strict=True):
        keys = random.integers(-3, 20, rows).tolist()
        columns = [
            pa.array([None if key < 0 else key for key in keys], pa.int64()),
            pa.array(random.integers(0, 4, rows)),
            pa.array([None if text == 3 else str(text) for text in random.integers(0, 4, rows)], pa.string()),
        ]
        found[name] = pa.Table.from_arrays(columns, schema=FIELDS)
    return found


def streams(job: ps.Job, seed: int) -> tuple[ps.Stream, ...]:
    """Read the tables; the second and third have other names for what is not the key."""
    read = [ps.read_memory(table, job=job).name(name) for name, table in tables(seed).items()]
    return read[0], read[1].rename(v="w", s="t"), read[2].rename(v="x", s="u")


def expected(sql: str, seed: int) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as database:
        for name, table in tables(seed).items():
            database.register(name, table)
        return Counter(database.execute(sql).fetchall())


def found(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("updating", ["", "a", "b", "ab"])
def test_equals_duckdb(how: str, updating: str, parallelism: int) -> None:
    job = ps.Job()
    a, b, _ = streams(job, seed=len(updating))
    if "a" in updating:
        a = a.key_by("k", "s").agg(v=ps.sum_("v")).select("k", "v", "s")
    if "b" in updating:
        b = b.key_by("k").agg(w=ps.count(), t=ps.max_("t"))
    joined = a.join(b, on="k", how=how)
    assert joined.updating == (how != "inner" or bool(updating))
    names = ["k", "v", "s", "w", "t", *(["k_right"] if how in ("right", "full") else [])]
    result = joined.select(*names).collect()
    job.run("test", parallelism=parallelism, batch_rows=16)
    left = "(select k, sum(v) v, s from a group by k, s)" if "a" in updating else "a"
    right = "(select k, count(*) w, max(s) t from b group by k)" if "b" in updating else "(select k, v w, s t from b)"
    columns = "l.k, l.v, l.s, r.w, r.t" + (", r.k" if how in ("right", "full") else "")
    sql = f"select {columns} from {left} l {how} join {right} r on l.k = r.k"
    assert found(result.rows()) == expected(sql, len(updating))


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_three_streams(how: str, parallelism: int) -> None:
    job = ps.Job()
    result = ps.join(*streams(job, 7), on="k", how=how).collect()
    job.run("test", parallelism=parallelism, batch_rows=16)
    sql = f"select a.k, a.v, a.s, b.v, b.s, c.v, c.s from a {how} join b on a.k = b.k {how} join c on a.k = c.k"
    assert found(result.rows()) == expected(sql, 7)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_second_of_three_is_met_where_the_first_two_are(how: str) -> None:
    job = ps.Job()
    one, two, three = (told(job).select("a", **{name: col("b")}) for name in "xyz")
    ps.join(one, two, three, on="a", how=how).collect()
    graph = job.plan(2)
    assert [edge(graph, "join-1", port).exchange for port in (0, 1)] == ["hash", "hash"]
    assert [edge(graph, "join-2", port).exchange for port in (0, 1)] == ["forward", "hash"]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_broadcast_side_meets_rows_wherever_they_are(how: str, parallelism: int) -> None:
    job = ps.Job()
    a, b, c = streams(job, 5)
    joined = a.rebalance().join(b.broadcast(), on="k", how=how)
    result = joined.join(c, on="k", how=how).collect()
    job.run("test", parallelism=parallelism, batch_rows=8)
    sql = f"select a.k, a.v, a.s, b.v, b.s, c.v, c.s from a {how} join b on a.k = b.k {how} join c on a.k = c.k"
    assert found(result.rows()) == expected(sql, 5)


@pytest.mark.parametrize(("how", "side"), [("left", 0), ("right", 1), ("full", 0), ("full", 1)])
def test_a_side_that_keeps_unmatched_rows_is_not_broadcast(how: str, side: int) -> None:
    job = ps.Job()
    a, b, _ = streams(job, 0)
    a, b = (a.broadcast(), b) if side == 0 else (a, b.broadcast())
    a.join(b, on="k", how=how).collect()
    with pytest.raises(PlanError, match="no partner"):
        job.plan(2)


def test_what_cannot_be_joined() -> None:
    job = ps.Job()
    a, b, c = streams(job, 0)
    with pytest.raises(PlanError, match="two streams or more"):
        ps.join(a, on="k")
    with pytest.raises(PlanError, match="one by one"):
        ps.join(a, b, c, on="k", how="full")
    with pytest.raises(PlanError, match="mode='changelog'"):
        ps.join(a, b, on="k", how="left").write_black_hole()
    assert ps.join(a, b, on="k", how="full").schema.names == ["k", "v", "s", "k_right", "w", "t"]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_sinks_take_the_result(parallelism: int) -> None:
    job = ps.Job()
    a, b, _ = streams(job, 3)
    joined = a.key_by("k").agg(v=ps.sum_("v")).join(b.key_by("k").agg(w=ps.count()), on="k", how="left")
    changes, latest = MemorySink(), MemorySink("k")
    joined.write(changes, mode="changelog")
    joined.write(latest, mode="upsert", key="k")
    job.run("test", parallelism=parallelism, batch_rows=8)
    sql = (
        "select l.k, l.v, r.w from (select k, sum(v) v from a group by k) l "
        "left join (select k, count(*) w from b group by k) r on l.k = r.k"
    )
    assert found(changes.rows()) == found(latest.rows()) == expected(sql, 3)
