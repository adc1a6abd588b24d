"""Sales of two shops of which a stream has shed some: what it would write, worked out with `estimators`, and a replay.

Called by the tests of grades. Rows were kept by minute, so some windows are exact.
"""

import datetime
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import penstock as ps
from penstock import col, count, max_, sum_, tumbling
from penstock.engine.accumulators.intervals import Moments, interval
from penstock.engine.checkpoint.reader import Checkpoint
from penstock.model.job_graph import JobGraph, OperatorNode
from penstock.replay.kept_log import KeptLog, Stretch, StretchRates
from penstock.replay.row_sampling import RATES, STEP
from penstock.replay.sink_sample import SinkSample
from penstock.replay.spark_types import spark_schema, to_spark_batch
from penstock.shedding import estimators
from penstock.shedding.offset_sampling import sample_steps

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
FIELDS = pa.schema({"at": pa.timestamp("us", "UTC"), "shop": pa.string(), "price": pa.float64(), "n": pa.int64()})
NUMBER = np.arange(3_000)
PRICE = NUMBER * 37 % 101 / 10
MINUTE = NUMBER // 600
SEED, MINIMUM = 7, 0.5
ERROR = 0.12
"""Half an interval of a sum at a rate of 1/2 is wider, one of a count is not; at 3/4 none is."""
RATES_BY_MINUTE = (1.0, 0.75, 0.5, 0.5, 1.0)


def steps(seed: int = SEED) -> np.ndarray[Any, Any]:
    return sample_steps(seed, "t/0", NUMBER)


def keep(rates: Sequence[float] = RATES_BY_MINUTE) -> np.ndarray[Any, Any]:
    return np.array(rates)[MINUTE]


def shops(folder: Path) -> ps.Job:
    job = ps.Job()
    rows = ps.read_memory([], schema=dict(zip(FIELDS.names, FIELDS.types, strict=True)), time="at", job=job).name(
        "rows"
    )
    minutes = rows.key_by("shop").window(tumbling("1m")).agg(n=count(), spent=sum_("price"), top=max_("price"))
    minutes.write_parquet(folder / "minutes").with_min_accuracy(MINIMUM).name("minutes")
    strict = rows.key_by("shop").window(tumbling("1m")).agg(n=count(), spent=sum_("price"))
    strict = strict.write_parquet(folder / "strict").with_min_accuracy(MINIMUM).name("strict")
    strict.with_max_error(ERROR, otherwise="null")
    dear = rows.filter(col("price") > 9).select("at", "n", "price")
    dear.write_parquet(folder / "dear").with_min_accuracy(MINIMUM).name("dear")
    return job


class Replay:
    """The source's rows as a replay with a log of rates reads them; None: there is no log."""

    checkpoint: Checkpoint | None = None

    def __init__(
        self,
        spark: SparkSession,
        rates: Sequence[float] | None = RATES_BY_MINUTE,
        *,
        estimates: bool = False,
        seed: int = SEED,
    ) -> None:
        self._spark, self._rates, self.estimates, self._seed = spark, rates, estimates, seed

    def sample(self, graph: JobGraph, sink: str) -> SinkSample | None:
        return None if self._rates is None else SinkSample(graph, sink, self._log(), self.estimates)

    def _log(self) -> KeptLog:
        stretches = [
            Stretch(600 * minute, 600 * minute + 600, StretchRates(rate))
            for minute, rate in enumerate(self._rates or ())
        ]
        return KeptLog("log", "shops", self._seed, {("rows", "t", 0): stretches})

    def __call__(self, node: OperatorNode) -> DataFrame:
        times = [START + datetime.timedelta(milliseconds=100 * n) for n in NUMBER.tolist()]
        columns: dict[str, Any] = {
            "at": pa.array(times, FIELDS.types[0]),
            "shop": [f"s{n % 2}" for n in NUMBER.tolist()],
            "price": PRICE,
            "n": NUMBER,
        }
        if self._rates is not None:
            rates = self._log().rates()
            places = [rates.index(StretchRates(rate)) for rate in keep(self._rates).tolist()]
            columns |= {STEP: pa.array(steps(self._seed), pa.int16()), RATES: pa.array(places, pa.int32())}
        table = pa.table(columns).combine_chunks()
        batch = to_spark_batch(table.to_batches()[0])
        return self._spark.createDataFrame(pa.Table.from_batches([batch]), spark_schema(table.schema))


def ends(value: float, w: np.ndarray[Any, Any], x: np.ndarray[Any, Any]) -> tuple[float, float, bool]:
    """Return the interval that the engine gives a sum over rows of these weights, and whether it is certified."""
    if w.max() == 1:
        return value, value, True
    s, t, f = w * (w - 1), w * (w - 1) ** 2, w * (w - 1) ** 3
    sums = (s * x**2, s * x**3, t * x**3, f * x**4)
    moments = Moments(*(np.array([each.sum()]) for each in sums))
    found = interval(np.array([value]), np.array([float(len(w))]), moments)
    return found.low[0], found.high[0], bool(found.certified[0])


def results(rates: Sequence[float] = RATES_BY_MINUTE) -> list[dict[str, Any]]:
    """Return what a stream writes to minutes; groups of which nothing was kept are not there."""
    rows = []
    for minute in range(5):
        for shop in range(2):
            chosen = (minute == MINUTE) & (shop == NUMBER % 2)
            kept = chosen & (steps() < keep(rates) * 64)
            if not kept.any():
                continue
            w, x = 1 / keep(rates)[kept], PRICE[kept]
            n, spent = estimators.count(w).value, estimators.total(x, w).value
            start = START + datetime.timedelta(minutes=minute)
            row = {"shop": f"s{shop}", "window_start": start, "window_end": start + datetime.timedelta(minutes=1)}
            row |= {"n": round(n), "spent": spent, "top": x.max()}
            row |= {"accuracy": len(w) / w.sum(), "biased": bool(w.max() > 1)}
            low, high, certified = ends(n, w, np.ones(len(w)))
            row |= {"n_low": max(math.ceil(low), len(w)), "n_high": math.floor(high), "n_certified": certified}
            low, high, certified = ends(spent, w, x)
            rows.append(row | {"spent_low": low, "spent_high": high, "spent_certified": certified})
    return rows


def dear_rows(rates: Sequence[float] = RATES_BY_MINUTE) -> list[dict[str, Any]]:
    """Return what a stream writes to dear."""
    kept = NUMBER[(PRICE > 9) & (steps() < keep(rates) * 64)]
    return [
        {
            "at": START + datetime.timedelta(milliseconds=100 * n),
            "n": n,
            "price": PRICE[n],
            "accuracy": keep(rates)[n],
            "biased": False,
        }
        for n in kept.tolist()
    ]


def write(folder: Path, rows: Sequence[Mapping[str, Any]], more: Mapping[str, pa.DataType]) -> None:
    """Write rows where a sink would have, with times as the job has them."""
    folder.mkdir()
    times = {name: FIELDS.types[0] for name in ("at", "window_start", "window_end") if name in rows[0]}
    table = pa.Table.from_pylist(list(map(dict, rows)))
    for name, kind in {**times, **more}.items():
        table = table.set_column(table.schema.get_field_index(name), name, table.column(name).cast(kind))
    pq.write_table(table, folder / "part-0.parquet")
