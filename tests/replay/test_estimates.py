"""Kept rows weighted by Spark: the estimates of `estimators`, by whatever operators they come, and rows counted."""

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock as ps
from penstock import col, count, max_, mean, sum_, tumbling
from penstock.model.job_graph import OperatorNode
from penstock.model.result_columns import ACCURACY, BIASED
from penstock.replay.compiler import compile_job
from penstock.replay.frames import ReplayError
from penstock.replay.kept_log import ALL_KEPT, KeptLog, Stretch, StretchRates
from penstock.replay.row_sampling import RATES, STEP
from penstock.replay.sample_columns import EXPECTED, USED
from penstock.replay.sink_sample import SinkSample, sink_rates
from penstock.replay.spark_types import spark_schema, to_spark_batch
from penstock.shedding import estimators
from penstock.shedding.offset_sampling import sample_steps

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
FIELDS = pa.schema({"at": pa.timestamp("us", "UTC"), "shop": pa.string(), "price": pa.float64(), "n": pa.int64()})
NUMBER = np.arange(3_000)
PRICE = NUMBER * 37 % 101 / 10
MINUTE = NUMBER // 600
STEPS = sample_steps(7, "t/0", NUMBER)
RATE_OF = (NUMBER // 450) % 3
"""Which of the log's rates held for a row: the first and the last minute have rows of several."""


def log_of(*rates: StretchRates) -> KeptLog:
    return KeptLog("log", "shops", 7, {("rows", "t", 0): [Stretch(at, at + 1, rate) for at, rate in enumerate(rates)]})


LOG = log_of(StretchRates(0.75), StretchRates(0.5, {"rows>dear": 0.25}))
KEEP = np.array([1.0, 0.75, 0.5])[RATE_OF]
OF_BRANCH = np.array([1.0, 0.75, 0.25])[RATE_OF]


def shops() -> ps.Job:
    job = ps.Job()
    rows = ps.read_memory([], schema=dict(zip(FIELDS.names, FIELDS.types, strict=True)), time="at", job=job).name(
        "rows"
    )
    mapped = rows.map(lambda row: row, schema=FIELDS).event_time("at").name("same")
    every = mapped.union(rows).with_columns(price=col("price") * 2).name("double").filter(col("price") >= 0)
    minutes = every.key_by("shop").window(tumbling("1m"))
    minutes = minutes.agg(n=count(), total=sum_("n"), mean=mean("price"), spent=sum_("price")).name("per minute")
    minutes.select("shop", "window_start", "total", "mean", "spent", rows="n").write_json("minutes").name("minutes")
    tops = rows.key_by("shop").window(tumbling("1m")).agg(n=count(), top=max_("price")).name("tops")
    tops.write_json("tops").name("tops")
    tops.key_by("window_start").agg(best=max_("n")).name("best of").write_json(
        "best", mode="upsert", key="window_start"
    ).name("best")
    rows.filter(col("price") > 9).name("dear").select("n", "price").write_json("few").name("few")
    return job


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    table = pa.table(
        {
            "at": pa.array(
                [START + datetime.timedelta(milliseconds=100 * n) for n in NUMBER.tolist()], FIELDS.types[0]
            ),
            "shop": [f"s{n % 2}" for n in NUMBER.tolist()],
            "price": PRICE,
            "n": NUMBER,
            STEP: pa.array(STEPS, pa.int16()),
            RATES: pa.array(RATE_OF, pa.int32()),
        }
    ).combine_chunks()
    batch = to_spark_batch(table.to_batches()[0])
    return spark.createDataFrame(pa.Table.from_batches([batch]), spark_schema(table.schema))


def replayed(rows: DataFrame, sink: str, *, estimates: bool) -> list[dict[str, Any]]:
    job = shops()
    sample = SinkSample(job.graph, sink, LOG, estimates)

    def read(node: OperatorNode) -> DataFrame:
        return rows

    frame = compile_job(job.graph, read, sink=sink, sample=sample)[sink]
    assert frame.rows.columns == frame.fields.names
    return [row.asDict() for row in frame.rows.collect()]


def group(shop: str, minute: int, *more: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
    """Return rows of a group, from each of these columns."""
    chosen = (minute == MINUTE) & (int(shop[1]) == NUMBER % 2)
    return [column[chosen] for column in more]


def test_estimates_are_those_of_the_kept_rows_by_their_weights(rows: DataFrame) -> None:
    found = replayed(rows, "minutes", estimates=True)
    assert len(found) == 10
    for row in found:
        price, n, keep, steps = group(row["shop"], row["window_start"].minute, PRICE, NUMBER, KEEP, STEPS)
        kept = steps < keep * 64
        # Every row comes twice: as it was read, and by a function.
        w = np.repeat(1 / keep[kept], 2)
        x, n = np.repeat(price[kept] * 2, 2), np.repeat(n[kept], 2)
        average = estimators.mean(x, w)
        assert average is not None
        assert row["rows"] == round(estimators.count(w).value)
        assert row["total"] == round(estimators.total(n, w).value)
        assert row["spent"] == pytest.approx(estimators.total(x, w).value, rel=1e-9)
        assert row["mean"] == pytest.approx(average.value, rel=1e-9)
        assert row[ACCURACY] == pytest.approx(len(w) / w.sum() if w.max() > 1 else 1.0, rel=1e-9)
        assert row[BIASED] is False


def test_results_without_an_estimate_are_those_of_the_kept_rows_and_biased(rows: DataFrame) -> None:
    for row in replayed(rows, "tops", estimates=True):
        price, keep, steps = group(row["shop"], row["window_start"].minute, PRICE, KEEP, STEPS)
        kept = steps < keep * 64
        assert row["top"] == price[kept].max()
        assert row["n"] == round((1 / keep[kept]).sum())
        assert row[BIASED] is bool(keep[kept].min() < 1)
    tops = replayed(rows, "tops", estimates=True)
    for row in replayed(rows, "best", estimates=True):
        below = [top for top in tops if top["window_start"] == row["window_start"]]
        assert row["best"] == max(top["n"] for top in below)
        assert row[ACCURACY] == pytest.approx(sum(top[ACCURACY] for top in below) / 2)
        assert row[BIASED] is any(top[ACCURACY] < 1 for top in below)


def test_exact_answers_say_how_many_rows_a_stream_has_used(rows: DataFrame) -> None:
    for row in replayed(rows, "minutes", estimates=False):
        price, keep, steps = group(row["shop"], row["window_start"].minute, PRICE, KEEP, STEPS)
        assert row["rows"] == row[EXPECTED] == 2 * len(price)
        assert row[USED] == 2 * (steps < keep * 64).sum()
        assert row["spent"] == pytest.approx(4 * price.sum())
    assert sum(row[USED] for row in replayed(rows, "best", estimates=False)) == (STEPS < KEEP * 64).sum()


def test_a_branch_has_the_rows_of_its_own_rate(rows: DataFrame) -> None:
    expected = NUMBER[(STEPS < OF_BRANCH * 64) & (PRICE > 9)]
    found = replayed(rows, "few", estimates=True)
    assert sorted(row["n"] for row in found) == expected.tolist()
    assert {(row["n"], row["$keep"]) for row in found} == set(zip(expected.tolist(), OF_BRANCH[expected], strict=True))


def test_which_branch_leads_to_a_sink_follows_from_the_plan() -> None:
    graph = shops().graph
    assert sink_rates(graph, "rows", "few", LOG) == (1.0, 0.75, 0.25)
    assert sink_rates(graph, "rows", "tops", LOG) == (1.0, 0.75, 0.5)
    with pytest.raises(ReplayError, match="the branch 'rows>none', which is no edge of the pipeline"):
        sink_rates(graph, "rows", "few", log_of(StretchRates(0.5, {"rows>none": 0.25})))
    name = next(node.name for node in graph.operators.values() if node.kind == "rowfunction")
    around = log_of(StretchRates(0.5, {f"rows>{name}": 0.25}))
    with pytest.raises(ReplayError, match=r"sink 'minutes' gets rows of source 'rows' by the branch .* and around it"):
        sink_rates(graph, "rows", "minutes", around)
    assert log_of(ALL_KEPT).rates() == (ALL_KEPT,)
