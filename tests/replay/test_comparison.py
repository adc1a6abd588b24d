"""Two answers held against each other in Spark, beside the same in plain Python: many small cases in one query."""

import math
import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from penstock.replay.comparison import DIFFERENT, EXACT, EXTRA, MISSING, STATUS, STREAM, differences
from penstock.replay.frames import ReplayError

CASES = 300
SCHEMA = "case int, key string, window int, count int, mean double"

Row = tuple[int, str | None, int, int | None, float | None]


def rows_of(rng: random.Random, case: int) -> list[Row]:
    count = rng.randint(0, 5)
    means = [None, 0.0, -0.0, math.nan, 0.1, 1e9, math.inf]
    return [
        (case, rng.choice(["a", "b", None]), rng.randint(0, 1), rng.choice([None, 1, 2]), rng.choice(means))
        for _ in range(count)
    ]


def changed(rng: random.Random, rows: list[Row]) -> list[Row]:
    """Return rows as a stream that goes wrong now and then would have put them out."""
    found = []
    for row in rows:
        what = rng.choice(["same", "same", "same", "near", "lost", "twice", "other"])
        if what == "near" and row[4] is not None:
            found.append((*row[:4], row[4] * (1 + 1e-12)))
        elif what == "other":
            found.append((*row[:3], 7, row[4]))
        elif what == "twice":
            found += [row, row]
        elif what != "lost":
            found.append(row)
    rng.shuffle(found)
    return found


def same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def matched(stream: list[Row], exact: list[Row]) -> tuple[int, int]:
    """Return how many rows are too much and how many missing, each row paired with an equal one if there is any."""
    missing = list(exact)
    extra = 0
    for row in stream:
        partner = next((one for one in missing if all(map(same, row, one))), None)
        if partner is None:
            extra += 1
        else:
            missing.remove(partner)
    return extra, len(missing)


@pytest.fixture(scope="module")
def cases() -> tuple[list[Row], list[Row]]:
    rng = random.Random(1)
    exact = [row for case in range(CASES) for row in rows_of(rng, case)]
    stream = [row for case in range(CASES) for row in changed(rng, [one for one in exact if one[0] == case])]
    return stream, exact


def test_without_keys_rows_are_missing_or_too_much(spark: Any, cases: tuple[list[Row], list[Row]]) -> None:
    stream, exact = cases
    found = differences(spark.createDataFrame(stream, SCHEMA), spark.createDataFrame(exact, SCHEMA), []).collect()
    assert found
    counted: dict[int, Counter[str]] = defaultdict(Counter)
    for row in found:
        assert row[STATUS] in (MISSING, EXTRA)
        assert (row[STREAM] is None) == (row[STATUS] == MISSING)
        assert (row[EXACT] is None) == (row[STATUS] == EXTRA)
        counted[(row[STREAM] or row[EXACT])["case"]][row[STATUS]] += 1
    for case in range(CASES):
        extra, missing = matched([row for row in stream if row[0] == case], [row for row in exact if row[0] == case])
        assert (counted[case][EXTRA], counted[case][MISSING]) == (extra, missing), case


def test_with_keys_rows_of_one_key_differ(spark: Any, cases: tuple[list[Row], list[Row]]) -> None:
    stream, exact = cases
    keys = ["case", "key", "window"]
    found = differences(spark.createDataFrame(stream, SCHEMA), spark.createDataFrame(exact, SCHEMA), keys).collect()
    groups: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for row in found:
        groups[row["case"], row["key"], row["window"]][row[STATUS]] += 1
        if row[STATUS] == DIFFERENT:
            assert tuple(row[STREAM])[:3] == tuple(row[EXACT])[:3]
            assert not all(map(same, row[STREAM], row[EXACT]))
    assert any(counts[DIFFERENT] for counts in groups.values())
    for group in {row[:3] for row in (*stream, *exact)}:
        ours = [row for row in stream if row[:3] == group]
        theirs = [row for row in exact if row[:3] == group]
        extra, missing = matched(ours, theirs)
        counts = groups[group]
        # Rows too much and rows missing are told as pairs as far as there are both.
        assert counts[EXTRA] + counts[DIFFERENT] == extra, group
        assert counts[MISSING] + counts[DIFFERENT] == missing, group
        assert min(counts[EXTRA], counts[MISSING]) == 0


def test_what_cannot_be_compared_is_said(spark: Any) -> None:
    maps = spark.createDataFrame([({"a": 1},)], "m map<string, int>")
    with pytest.raises(ReplayError, match="'m' is a map"):
        differences(maps, maps, [])
    with pytest.raises(ReplayError, match="columns"):
        differences(spark.createDataFrame([(1,)], "a int"), spark.createDataFrame([(1,)], "b int"), [])
