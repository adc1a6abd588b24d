"""Windows of every kind, and what folds their rows: Spark answers what our stream does."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import penstock as ps
from penstock import tumbling
from penstock.dsl.job import Job
from penstock.dsl.stream import Stream
from penstock.model.windows import Count, Hopping, Session, Tumbling, Window, Windowing
from tests.replay.both import check_both, random_rows, timed

WINDOWS = {
    "tumbling": ps.tumbling("10s"),
    "offset": ps.tumbling("7s", offset="3s"),
    "hopping": ps.hopping("10s", "4s"),
    "hopping_offset": ps.hopping("9s", "3s", offset="1s"),
    "session": ps.session("2s"),
    "count": ps.count_window(7),
    "global": ps.global_window(),
}


def test_windows_with_and_without_keys(spark: SparkSession) -> None:
    # What aggregates do not look at is pruned, and so decides no ties of count windows.
    rows = random_rows(3, 300, span_s=40).select(["k", "name", "at", "small"])

    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, rows)
        calls = {"n": ps.count(), "total": ps.sum_("small"), "last": ps.last("name"), "k_most": ps.max_("k")}
        keyed = {name: stream.key_by("k", "name").window(window).agg(**calls) for name, window in WINDOWS.items()}
        whole = {f"{name}_whole": stream.window(window).agg(**calls) for name, window in WINDOWS.items()}
        return keyed | whole

    check_both(spark, build)


def random_window(draw: random.Random) -> Windowing:
    """Return a window whose bounds fit nothing."""
    size = draw.choice([1, 7, 1_000_003, 9_999_999])
    match draw.randrange(4):
        case 0:
            window: Window = Tumbling(size, draw.randrange(2 * size))
        case 1:
            hop = size - draw.randrange(min(size, size // 5 + 1))
            window = Hopping(size, hop, draw.randrange(hop))
        case 2:
            window = Session(size)
        case _:
            window = Count(draw.randrange(1, 5))
    return Windowing(window)


@pytest.mark.long("windows of any size; test_windows_with_and_without_keys has given ones")
def test_random_windows(spark: SparkSession) -> None:
    draw = random.Random(17)
    micros = [draw.randrange(-(10**8), 10**8) for _ in range(20)] + [draw.randrange(-20, 20) for _ in range(40)]
    keys = [draw.choice([None, 1, 2]) for _ in micros]
    rows = pa.table({"k": pa.array(keys, pa.int64()), "at": pa.array(micros, pa.timestamp("us"))})

    def build(job: Job) -> dict[str, Stream]:
        keyed = timed(job, rows).key_by("k")
        cases = [
            keyed.window(random_window(draw)).agg(n=ps.count(), last=ps.last("at")).with_columns(case=ps.lit(case))
            for case in range(16)
        ]
        return {"all": cases[0].union(*cases[1:])}

    check_both(spark, build)


def test_a_session_goes_on_exactly_one_gap_after_its_last_row(spark: SparkSession) -> None:
    micros = pa.array([-2_000_000, 0, 2_000_000, 4_000_001], pa.timestamp("us"))
    rows = pa.table({"at": micros})
    check_both(spark, lambda job: {"all": timed(job, rows).window(ps.session("2s")).agg(n=ps.count())})


def test_updating_windows_leave_what_stands(spark: SparkSession) -> None:
    rows = random_rows(4, 200).select(["k", "at", "n"])

    def build(job: Job) -> dict[str, Stream]:
        keyed = timed(job, rows).key_by("k")
        return {
            name: keyed.window(window).emit(every=0).agg(n=ps.count(), most=ps.max_("n"))
            for name, window in WINDOWS.items()
        }

    check_both(spark, build)


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_bounds_have_the_types_of_the_stream(spark: SparkSession, unit: str, zone: str | None) -> None:
    times = pa.array([-3, 0, 5, 1_700_000_000], pa.int64()).cast(pa.timestamp(unit, zone))
    rows = pa.table({"at": times, "x": pa.array([1, 2, 3, 4])})

    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, rows)
        return {
            "coarse": stream.window(tumbling("2s")).agg(x=ps.sum_("x"), at=ps.max_("at")),
            "fine": stream.window(ps.session("1500us")).agg(x=ps.sum_("x")),
        }

    check_both(spark, build)


class Halves(ps.WindowAssigner):
    """Windows of ten seconds of which a row before the middle is in two; rows of the first second are in none."""

    def assign(self, times_us: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        size = 10_000_000
        into = times_us % size
        start = times_us - into
        rows = np.arange(len(times_us))
        whole = np.column_stack([rows, start, start + size])[into >= 1_000_000]
        half = np.column_stack([rows, start, start + size // 2])[(into >= 1_000_000) & (into < size // 2)]
        both = np.concatenate([whole, half])
        both = both[np.argsort(both[:, 0], kind="stable")]
        return both[:, 0].copy(), both[:, 1].copy(), both[:, 2].copy()


def test_custom_windows(spark: SparkSession) -> None:
    rows = random_rows(7, 200)
    check_both(
        spark, lambda job: {"all": timed(job, rows).key_by("k").window(Halves()).agg(n=ps.count(), x=ps.last("x"))}
    )


class Longest(ps.UserAggregate):
    """The number of bytes of the longest name, and so the sum of a user's own code."""

    state = {"most": np.int64}  # noqa: RUF012
    result_type = pa.int64()

    def update(self, state: Any, groups: NDArray[np.int64], values: Sequence[pa.Array]) -> None:
        np.maximum.at(state["most"], groups, [len(value.as_py()) for value in values[0]])

    def merge(self, state: Any, groups: NDArray[np.int64], other: Any, other_groups: NDArray[np.int64]) -> None:
        np.maximum.at(state["most"], groups, other["most"][other_groups])

    def result(self, state: Any, groups: NDArray[np.int64]) -> Any:
        return pa.array(state["most"][groups])


def test_aggregates_of_users(spark: SparkSession) -> None:
    rows = random_rows(8, 200).select(["k", "name", "at"])

    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, rows)
        calls = {"longest": ps.aggregate(Longest(), "name"), "n": ps.count()}
        keyed = {name: stream.key_by("k").window(window).agg(**calls) for name, window in WINDOWS.items()}
        return keyed | {"standing": stream.key_by("k").emit(every=0).agg(**calls)}

    check_both(spark, build)


def add(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Fold two rows so that their order shows."""
    return {**new, "name": f"{old['name']}|{new['name']}"}


def test_reduce(spark: SparkSession) -> None:
    rows = random_rows(9, 150).select(["k", "name", "at", "small"])

    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, rows)
        keyed = {name: stream.key_by("k").window(window).reduce(add) for name, window in WINDOWS.items()}
        return keyed | {"standing": stream.key_by("k").reduce(add), "whole": stream.window(tumbling("5s")).reduce(add)}

    check_both(spark, build)
