"""Queries that want a certain error write columns that say so, and may leave values out; plans say what is wanted."""

from pathlib import Path

import pyarrow.parquet as pq

import penstock as ps

ROWS = [{"k": number % 3, "v": float(number), "at": number * 1_000_000} for number in range(90)]


def sums(job: ps.Job) -> ps.Stream:
    rows = ps.read_memory(ROWS, job=job)
    return rows.key_by("k").agg(n=ps.count(), total=ps.sum_("v"))


def test_what_was_not_shed_is_whole_and_its_columns_could_be_null(tmp_path: Path) -> None:
    job = ps.Job()
    made = sums(job)
    bare = made.collect()
    under = made.collect().with_max_error(0.05, otherwise="null")
    made.write_parquet(tmp_path / "out", mode="upsert", key="k").with_max_error(0.05, otherwise="null").name("files")
    job.run("errors")
    order = [("k", "ascending")]
    assert (
        under.table().select(["k", "n", "total"]).sort_by(order).to_pylist() == bare.table().sort_by(order).to_pylist()
    )
    for schema in (under.table().schema, pq.read_table(tmp_path / "out").schema):
        assert schema.field("n").nullable and schema.field("total").nullable
        assert not schema.field("accuracy").nullable


def test_explain_says_which_error_is_wanted() -> None:
    job = ps.Job()
    sums(job).write_black_hole(mode="changelog").name("hot").with_max_error(0.05, confidence=0.9, groups=0.99)
    assert "max error 0.05 of 0.99 of rows at confidence 0.9, otherwise keep" in " ".join(ps.explain(job).split())
