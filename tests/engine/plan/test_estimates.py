"""Results of queries under contract say how good they are: which columns go where, through which operators."""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import col
from penstock.engine.core.contract import Emission
from penstock.engine.core.elements import Batch
from penstock.engine.operators.select import Pass

START = dt.datetime(2026, 1, 1)
ROWS = [{"k": number % 3, "v": number, "at": START + dt.timedelta(seconds=number)} for number in range(100)]
QUALITY = ["accuracy", "biased"]


def interval(*names: str) -> list[str]:
    return [f"{name}_{part}" for name in names for part in ("low", "high", "certified")]


def rows(job: ps.Job) -> ps.Stream:
    return ps.read_memory(ROWS, time="at", job=job)


def windows(stream: ps.Stream) -> ps.Stream:
    return stream.key_by("k").window(ps.tumbling("20s")).agg(n=ps.count(), most=ps.max_("v"), usual=ps.mean("v"))


def ran(job: ps.Job, *results: ps.Result, **options: Any) -> list[pa.Table]:
    job.run("estimates", **options)
    return [result.table() for result in results]


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_what_was_not_shed_is_exact(batch_rows: int, parallelism: int) -> None:
    job = ps.Job()
    made = windows(rows(job))
    bare, under = ran(
        job, made.collect(), made.collect().with_min_accuracy(0.5), batch_rows=batch_rows, parallelism=parallelism
    )
    names = ["k", "window_start", "window_end", "n", "most", "usual"]
    assert bare.schema.names == names
    assert under.schema.names == [*names, *QUALITY, *interval("n", "usual")]
    order = [("k", "ascending"), ("window_start", "ascending")]
    assert under.select(names).sort_by(order).equals(bare.sort_by(order))
    assert set(under["accuracy"].to_pylist()) == {1.0}
    assert set(under["biased"].to_pylist()) == {False}
    for name in ("n", "usual"):
        assert under[name].equals(under[f"{name}_low"]) and under[name].equals(under[f"{name}_high"])
        assert set(under[f"{name}_certified"].to_pylist()) == {True}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: s.filter(col("n") > 1), ["n", "usual"]),
        (lambda s: s.filter(lambda n: n > 1), ["n", "usual"]),
        (lambda s: s.select("k", count="n", share=col("usual") / 2), ["count"]),
        (lambda s: s.select("k", "n").with_columns(again=col("n")), ["n", "again"]),
        (lambda s: s.with_columns(n=col("n") + 1), ["usual"]),
        (lambda s: s.drop("usual").rename(n="number"), ["number"]),
        (lambda s: s.split(many=col("n") > 6)["many"], ["n", "usual"]),
        (lambda s: s.event_time("window_start"), ["n", "usual"]),
        (lambda s: s.union(s.filter(col("n") > 3)), ["n", "usual"]),
        (lambda s: s.key_by("k").agg(all=ps.sum_("n"), best=ps.max_("n")), ["all"]),
        (lambda s: s.rebalance().select("k", "n"), ["n"]),
    ],
)
def test_operators_carry_the_columns(change: Callable[[ps.Stream], ps.Stream], expected: list[str]) -> None:
    job = ps.Job()
    changed = change(windows(rows(job)))
    bare, under = ran(job, changed.collect(), changed.collect().with_min_accuracy(0.5), parallelism=2)
    assert bare.schema.names == changed.schema.names
    assert under.schema.names == [*changed.schema.names, *QUALITY, *interval(*expected)]
    plain = under.select(changed.schema.names)
    assert sorted(map(str, plain.to_pylist())) == sorted(map(str, bare.to_pylist()))
    assert set(under["accuracy"].to_pylist()) == {1.0}


def test_a_lookup_carries_the_columns() -> None:
    job = ps.Job()
    table = ps.lookup_table([{"k": 0, "name": "none"}, {"k": 1, "name": "one"}])
    found = windows(rows(job)).lookup(table, on="k").select("name", "n")
    (under,) = ran(job, found.collect().with_min_accuracy(0.5))
    assert under.schema.names == ["name", "n", *QUALITY, *interval("n")]


def test_a_user_function_does_not_see_the_columns() -> None:
    job = ps.Job()
    seen: set[str] = set()

    def look(row: dict[str, Any]) -> bool:
        seen.update(row)
        return True

    ran(job, windows(rows(job)).filter(look).collect().with_min_accuracy(0.5))
    assert seen == {"k", "window_start", "window_end", "n", "most", "usual"}


def test_rows_that_nothing_has_folded_say_what_their_header_says() -> None:
    job = ps.Job()
    (under,) = ran(job, rows(job).filter(col("v") > 50).collect().with_min_accuracy(0.5))
    assert under.schema.names == ["k", "v", "at", *QUALITY]
    assert set(under["accuracy"].to_pylist()) == {1.0}


def test_rows_of_a_union_that_no_aggregate_has_made_are_exact() -> None:
    job = ps.Job()
    stream = rows(job)
    mixed = stream.select("k", n=col("v")).union(windows(stream).select("k", "n"))
    (under,) = ran(job, mixed.collect().with_min_accuracy(0.5))
    assert under.schema.names == ["k", "n", *QUALITY, *interval("n")]
    assert under["n"].equals(under["n_low"])
    assert under.num_rows == 100 + 15


def test_an_interval_that_one_input_of_a_union_lacks_is_left_out() -> None:
    job = ps.Job()
    made = windows(rows(job))
    (under,) = ran(job, made.select("k", n="most").union(made.select("k", "n")).collect().with_min_accuracy(0.5))
    assert under.schema.names == ["k", "n", *QUALITY]


def test_late_rows_are_rows() -> None:
    job = ps.Job()
    late = windows(rows(job)).side_output("late")
    (under,) = ran(job, late.collect().with_min_accuracy(0.5))
    assert under.schema.names == ["k", "v", "at", *QUALITY]


def test_without_columns_a_query_has_those_of_its_stream() -> None:
    job = ps.Job()
    made = windows(rows(job))
    (under,) = ran(job, made.collect().with_min_accuracy(0.5, columns=False))
    assert under.schema.names == made.schema.names


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.map(lambda row: row),
        lambda s: s.flat_map(lambda row: [row]),
        lambda s: s.map_batches(lambda batch: batch),
        lambda s: s.key_by("k").top(1, by="n"),
        lambda s: s.map(lambda row: row).key_by("k").agg(n=ps.count()),
        lambda s: s.join(s, on="k", window=ps.tumbling("1m")),
        lambda s: s.distinct("k"),
    ],
)
def test_an_operator_that_makes_rows_anew_is_named(change: Callable[[ps.Stream], ps.Stream]) -> None:
    job = ps.Job()
    result = change(windows(rows(job))).write_black_hole(mode="changelog").with_min_accuracy(0.7).name("hot")
    with pytest.raises(ps.PlanError, match=r"'hot' at .*test_estimates.py:\d+ .*, but '.*-\d+' at .*:\d+ ") as error:
        job.plan()
    assert "with_min_accuracy(0.7, columns=False)" in str(error.value)
    result.with_min_accuracy(0.7, columns=False)
    job.plan()


@pytest.mark.parametrize("name", ["accuracy", "biased", "n_low", "n_certified"])
def test_a_column_of_the_users_with_such_a_name_is_refused(name: str) -> None:
    job = ps.Job()
    windows(rows(job)).with_columns(**{name: col("n") + 1}).collect().with_min_accuracy(0.7).name("hot")
    with pytest.raises(ps.PlanError, match=rf"'hot' at .*test_estimates.py:\d+ .* writes a column '{name}'.*columns=F"):
        job.plan()


def test_no_contract_leaves_the_plan_as_it_is() -> None:
    job = ps.Job()
    made = windows(rows(job))
    made.collect()
    graph = job.plan().graph
    made.write_black_hole().with_min_accuracy(1.0)
    again = job.plan().graph
    assert {node.name for node in again.operators.values()} - {node.name for node in graph.operators.values()} == {
        "sink-2"
    }
    assert all(again[key].outputs == node.outputs for key, node in graph.operators.items())


@pytest.fixture
def half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows come as what is left when half of them were shed."""
    passed = Pass.process

    def halved(self: Pass, port: int, batch: Batch) -> Iterator[Emission]:
        for output, item in passed(self, port, batch):
            yield output, replace(item, keep=0.5) if type(self) is Pass else item

    monkeypatch.setattr(Pass, "process", halved)


def counts(stream: ps.Stream) -> ps.Stream:
    return stream.key_by("k").window(ps.tumbling("20s")).agg(n=ps.count())


@pytest.mark.usefixtures("half")
def test_rows_that_stayed_say_how_many_others_they_stand_for() -> None:
    job = ps.Job()
    stream = rows(job)
    made = counts(stream)
    raw, folded, twice = ran(
        job,
        stream.filter(col("v") >= 0).collect().with_min_accuracy(0.3),
        made.collect().with_min_accuracy(0.3),
        made.key_by("k").agg(all=ps.sum_("n")).collect().with_min_accuracy(0.3),
    )
    assert set(raw["accuracy"].to_pylist()) == set(folded["accuracy"].to_pylist()) == {0.5}
    assert set(raw["biased"].to_pylist()) == set(folded["biased"].to_pylist()) == {False}
    assert sum(folded["n"].to_pylist()) == sum(twice["all"].to_pylist()) == 2 * len(ROWS)
    assert all(row["n_low"] < row["n"] < row["n_high"] for row in folded.to_pylist())
    assert set(twice["biased"].to_pylist()) == {True} and set(twice["all_low"].to_pylist()) == {None}


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("change", [lambda s: s, lambda s: s.map(lambda row: row), lambda s: s.filter(col("n") > 0)])
def test_without_columns_values_are_those_of_all_rows_all_the_same(change: Callable[[ps.Stream], ps.Stream]) -> None:
    job = ps.Job()
    stream = rows(job)
    (bare,) = ran(job, change(counts(stream)).collect().with_min_accuracy(0.3, columns=False))
    assert bare.schema.names == ["k", "window_start", "window_end", "n"]
    assert sum(bare["n"].to_pylist()) == 2 * len(ROWS)


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize(
    ("choose", "is_biased"),
    [
        (lambda s: s.filter(col("n") > 0), True),
        (lambda s: s.select("k", n="n").filter(lambda n: n > 0), True),
        (lambda s: s.filter(lambda row: row["n"] > 0), True),
        (lambda s: s.split(none=col("n") < 0)["rest"], True),
        (lambda s: s.filter(col("k") >= 0), False),
        (lambda s: s.filter(lambda k: k >= 0), False),
    ],
)
def test_rows_that_were_chosen_by_an_estimate_are_biased(
    choose: Callable[[ps.Stream], ps.Stream], is_biased: bool
) -> None:
    job = ps.Job()
    made = counts(rows(job))
    chosen, others = ran(job, choose(made).collect().with_min_accuracy(0.3), made.collect().with_min_accuracy(0.3))
    assert chosen.num_rows == others.num_rows > 0
    assert set(chosen["biased"].to_pylist()) == {is_biased}
    assert all((low is None) == is_biased for low in chosen["n_low"].to_pylist())
    assert set(others["biased"].to_pylist()) == {False}


@pytest.mark.usefixtures("half")
def test_rows_of_a_union_have_the_accuracy_of_where_they_come_from() -> None:
    job = ps.Job()
    stream = rows(job)
    mixed = stream.select("k", n=col("v")).union(counts(stream).select("k", "n").with_columns(k=col("k") + 10))
    (under,) = ran(job, mixed.collect().with_min_accuracy(0.3))
    by_kind = {row["k"] >= 10: row for row in under.to_pylist()}
    assert set(under["accuracy"].to_pylist()) == {0.5}
    assert by_kind[False]["n_low"] == by_kind[False]["n"]
    assert by_kind[True]["n_low"] < by_kind[True]["n"]
