"""Estimates of a stream that shed rows against exact answers: graded, and faults are told all the same."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.model.job_graph import SinkSpec
from penstock.replay.grades import below_minimum
from penstock.replay.source_reading import SourceReading
from penstock.replay.validation import validate_sink
from penstock.replay.validation_json import to_json
from penstock.replay.validation_result import ComparisonStatus, QueryValidation
from tests.long_cases import but_for
from tests.replay.shed_shops import (
    ERROR,
    MINUTE,
    PRICE,
    RATES_BY_MINUTE,
    Replay,
    dear_rows,
    keep,
    results,
    shops,
    steps,
    write,
)
from tests.replay.validations import validation


def validated(folder: Path, name: str, spark: SparkSession, files: Path | None = None, **more: Any) -> QueryValidation:
    job = shops(folder)
    (sink,) = [node for node in job.graph.operators.values() if isinstance(node.spec, SinkSpec) and node.name == name]
    reading = cast(SourceReading, Replay(spark, **more))
    return validate_sink(job.graph, sink, reading, spark, files=None if files is None else str(files))


def test_estimates_are_graded_by_window_group_and_aggregate(tmp_path: Path, spark: SparkSession) -> None:
    rows = results()
    write(tmp_path / "minutes", rows, {})
    found = validated(tmp_path, "minutes", spark, tmp_path / "grades")
    assert (found.why, found.status) == (None, ComparisonStatus.ESTIMATED)
    assert (found.same, found.estimated, found.missing, found.extra, found.different) == (4, 6, 0, 0, 0)
    kept = steps() < keep() * 64
    assert (found.rows_expected, found.rows_used) == (3_000, kept.sum())
    assert [(window.rows_expected, window.rows_used) for window in found.windows] == [
        (600, kept[minute == MINUTE].sum()) for minute in range(5)
    ]
    assert [window.biased for window in found.windows] == [False, True, True, True, False]
    assert [window.intervals for window in found.windows] == [0, 4, 4, 4, 0]
    assert found.grade is not None and found.grade.counted
    graded = pq.read_table(tmp_path / "grades").to_pylist()
    assert {(row["aggregate"], row["promised_accuracy"]) for row in graded} == {
        ("n", 0.5),
        ("spent", 0.5),
        ("top", 0.5),
    }
    assert len(graded) == 6 * 3
    assert all(row["covered"] is None for row in graded if row["aggregate"] == "top")
    by = {item.aggregate: item for item in found.grade.aggregates}
    errors = []
    for row in rows:
        minute, shop = row["window_start"].minute, int(row["shop"][1])
        exact = PRICE[(minute == MINUTE) & (np.arange(3_000) % 2 == shop)].sum()
        if row["accuracy"] < 1:
            errors.append((row["spent"] - exact, exact, row["spent_low"] <= exact <= row["spent_high"]))
    assert by["spent"].rows == by["spent"].intervals == by["spent"].biased == 6
    assert by["spent"].covered == sum(covered for _, _, covered in errors)
    assert by["spent"].mean_error == pytest.approx(np.mean([abs(error) / exact for error, exact, _ in errors]))
    spread = sum(((row["spent_high"] - row["spent_low"]) / (2 * 1.959963984540054)) ** 2 for row in rows) ** 0.5
    assert by["spent"].bias == pytest.approx(sum(error for error, _, _ in errors) / spread)
    assert by["n"].accuracy_error is not None and by["n"].accuracy_error < 0.05
    assert {(row.key["shop"], row.aggregate) for row in found.grade.drawn} == {
        (found.grade.drawn[0].key["shop"], name) for name in ("n", "spent", "top")
    }
    data = json.loads(to_json(validation(found)))["queries"][0]
    assert data["status"] == "estimated"
    assert data["grade"]["aggregates"][1]["coverage"] == by["spent"].coverage
    assert data["grade"]["drawn"][0]["window_start"] == "2024-01-01T00:01:00"


@pytest.mark.long("answers of Spark; grades by window, group and aggregate stay")
def test_faults_are_told_although_rows_were_shed(tmp_path: Path, spark: SparkSession) -> None:
    rows = results()
    exact = next(row for row in rows if row["accuracy"] == 1)
    write(tmp_path / "minutes", [row | {"top": 0.0} if row is exact else row for row in rows], {})
    found = validated(tmp_path, "minutes", spark)
    assert (found.status, found.different, found.estimated) == (ComparisonStatus.DIFFERS, 1, 6)
    assert [example.key["shop"] for example in found.examples] == [exact["shop"]]


@pytest.mark.long("answers of Spark; grades by window, group and aggregate stay")
def test_groups_of_which_nothing_was_kept_are_not_covered_and_too_few_rows_fail(
    tmp_path: Path, spark: SparkSession
) -> None:
    rates = (*RATES_BY_MINUTE[:3], 0.0, 1.0)
    write(tmp_path / "minutes", results(rates), {})
    found = validated(tmp_path, "minutes", spark, rates=rates)
    assert (found.status, found.vanished, found.missing) == (ComparisonStatus.BELOW_MINIMUM, 2, 0)
    assert [window.below_minimum for window in found.windows] == [False, False, False, True, False]
    assert found.grade is not None
    by = {item.aggregate: item for item in found.grade.aggregates}
    assert (by["n"].vanished, by["n"].intervals, by["n"].covered <= by["n"].intervals - 2) == (2, 6, True)
    # Without a log nothing counts rows, and what is not there may have been shed.
    found = validated(tmp_path, "minutes", spark, rates=None)
    assert (found.status, found.vanished, found.rows_used) == (ComparisonStatus.ESTIMATED, 2, None)


def test_the_minimum_is_missed_only_where_chance_does_not_explain_it() -> None:
    assert not below_minimum(0, 0, 0.5)
    assert not below_minimum(440, 1000, 0.45)
    assert not below_minimum(453, 1000, 0.5)
    assert below_minimum(452, 1000, 0.5)
    assert below_minimum(999, 1000, 1.0)


@pytest.mark.parametrize(
    "name", but_for(["minutes", "dear"], ["minutes"], "two answers of Spark each; estimates stay, which need weights")
)
def test_a_replay_of_kept_rows_has_the_same_estimates_and_accuracy(
    tmp_path: Path, spark: SparkSession, name: str
) -> None:
    write(tmp_path / name, results() if name == "minutes" else dear_rows(), {})
    assert validated(tmp_path, name, spark, estimates=True).status is ComparisonStatus.SAME
    assert validated(tmp_path, name, spark, estimates=True, seed=8).status is ComparisonStatus.DIFFERS


@pytest.mark.long("answers of Spark; grades by window, group and aggregate stay")
def test_what_a_stream_says_of_its_accuracy_is_compared_with_a_replay_of_kept_rows(
    tmp_path: Path, spark: SparkSession
) -> None:
    rows = results()
    write(tmp_path / "minutes", [rows[0] | {"accuracy": 0.99}, *rows[1:]], {})
    found = validated(tmp_path, "minutes", spark, estimates=True)
    assert (found.status, found.different) == (ComparisonStatus.DIFFERS, 1)
    assert not found.notes
    for name, other in (("spent_high", rows[2]["spent_high"] * 1.00001), ("n_low", 0), ("n_certified", False)):
        (tmp_path / "minutes" / "part-0.parquet").unlink()
        (tmp_path / "minutes").rmdir()
        write(tmp_path / "minutes", [*rows[:2], rows[2] | {name: other}, *rows[3:]], {})
        found = validated(tmp_path, "minutes", spark, estimates=True)
        assert (found.status, found.different) == (ComparisonStatus.DIFFERS, 1), name


@pytest.mark.long("three answers of Spark; ends of intervals are compared with the engine's by test_interval_ends")
def test_values_that_were_left_out_are_those_that_a_replay_leaves_out(tmp_path: Path, spark: SparkSession) -> None:
    rows = [{name: value for name, value in row.items() if name != "top"} | {"biased": False} for row in results()]
    left_out = [row["accuracy"] < 1 and row["spent_high"] - row["spent_low"] > 2 * ERROR * row["spent"] for row in rows]
    assert 0 < sum(left_out) < 6
    strict = [row | {"spent": None} if out else row for row, out in zip(rows, left_out, strict=True)]
    wrong = next(place for place, out in enumerate(left_out) if out)
    for written, status in (
        (strict, ComparisonStatus.SAME),
        (rows, ComparisonStatus.DIFFERS),
        ([*strict[:wrong], rows[wrong], *strict[wrong + 1 :]], ComparisonStatus.DIFFERS),
    ):
        write(tmp_path / "strict", written, {})
        found = validated(tmp_path, "strict", spark, estimates=True)
        assert (found.why, found.status, found.notes) == (None, status, [])
        (tmp_path / "strict" / "part-0.parquet").unlink()
        (tmp_path / "strict").rmdir()


@pytest.mark.long("answers of Spark; grades by window, group and aggregate stay")
def test_rows_that_were_kept_must_be_there(tmp_path: Path, spark: SparkSession) -> None:
    rows = dear_rows()
    write(tmp_path / "dear", rows, {})
    found = validated(tmp_path, "dear", spark)
    assert (found.status, found.missing, found.extra) == (ComparisonStatus.ESTIMATED, 0, 0)
    assert found.vanished == (PRICE > 9).sum() - len(rows) == found.rows_exact - found.rows_stream > 0
    (tmp_path / "dear" / "part-0.parquet").unlink()
    (tmp_path / "dear").rmdir()
    write(tmp_path / "dear", [rows[0], *rows[2:]], {})
    found = validated(tmp_path, "dear", spark)
    assert (found.status, found.missing) == (ComparisonStatus.DIFFERS, 1)
