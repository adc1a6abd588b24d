"""Null keys as in SQL: a group of their own in aggregates, no partner for anybody in joins."""

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from tests.end_to_end.bad_input_support import SALE, from_memory, run, sale
from tests.penstock.front_door import ordered


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("window", [None, ps.tumbling("1m"), ps.session("1m"), ps.global_window()])
def test_null_keys_are_a_group_of_their_own(tmp_path: Path, window: Any, parallelism: int) -> None:
    sales = [sale(None, 1, 0), sale("a", 2, 1), sale(None, 3, 2), sale("", 4, 3), sale("a", None, 4)]
    keyed = from_memory(*sales).key_by("shop")
    calls = {"n": ps.count(), "total": ps.sum_("amount")}
    stream = keyed.agg(**calls) if window is None else keyed.window(window).agg(**calls).select("shop", "n", "total")
    outcome = run(stream, tmp_path, parallelism=parallelism, batch_rows=2)
    assert outcome.rows == ordered(
        [{"shop": None, "n": 2, "total": 4}, {"shop": "a", "n": 2, "total": 2}, {"shop": "", "n": 1, "total": 4}]
    )


def test_a_null_in_a_composite_key_is_a_value_like_any_other(tmp_path: Path) -> None:
    sales = [sale(None, 1, 0), sale("a", None, 1), sale(None, None, 2), sale(None, 1, 3), sale("a", None, 4)]
    outcome = run(from_memory(*sales).key_by("shop", "amount").agg(n=ps.count()), tmp_path, parallelism=2)
    assert [(row["shop"], row["amount"], row["n"]) for row in outcome.rows] == [
        ("a", None, 2), (None, 1, 2), (None, None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("window", [None, ps.tumbling("1m")])
def test_null_keys_never_match_in_joins(tmp_path: Path, window: Any, parallelism: int) -> None:
    job = ps.Job()
    left, right = (
        ps.read_memory(
            [sale(None, number, 0), sale("a", number, 1), sale(None, number, 2)], schema=SALE, time="at", job=job
        )
        for number in (1, 2)
    )
    outcome = run(left.join(right, on="shop", window=window), tmp_path, parallelism=parallelism)
    assert [(row["shop"], row["amount"], row["amount_right"]) for row in outcome.rows] == [("a", 1, 2)]
    (join,) = [item for item in outcome.ledger.operators if item.operator == "join-1"]
    assert (join.rows_in, join.filtered, join.folded) == (6, 4, 2)
