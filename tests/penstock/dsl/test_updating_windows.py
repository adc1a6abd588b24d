"""Windows whose results are updates, written in the DSL: count windows and reduce, with and without a key."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from tests.penstock.front_door import ORDERS, SCHEMA, Row, Script, batch, noon, orders, rows


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def add(one: Row, other: Row) -> Row:
    return {**other, "price": (one["price"] or 0) * 10 + (other["price"] or 0)}


def counted(windows: Any) -> ps.Stream:
    stream: ps.Stream = windows.agg(n=ps.count(), newest=ps.last("price"))
    return stream


def reduced(windows: Any) -> ps.Stream:
    stream: ps.Stream = windows.reduce(add)
    return stream


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("every", [None, 0, "1s"])
@pytest.mark.parametrize(
    ("window", "result"),
    [
        (ps.count_window(2), counted),
        (ps.count_window(2), reduced),
        (ps.session("4s"), reduced),
        (ps.tumbling("10s"), reduced),
        (ps.hopping("10s", "5s"), reduced),
        (ps.global_window(), reduced),
    ],
)
def test_updates_come_to_what_is_final(
    window: Any, result: Callable[[Any], ps.Stream], every: str | int | None, keyed: bool
) -> None:
    def windows() -> Any:
        stream = orders()
        return stream.key_by("item").window(window) if keyed else stream.window(window)

    updating = result(windows().emit("updates") if every is None else windows().emit(every=every))
    final = result(windows())
    assert updating.updating
    assert not final.updating
    assert rows(updating, batch_rows=1) == rows(final)


@pytest.mark.fixed_settings("parallelism", "batch_rows", "state_bytes")
@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (lambda windows: windows.agg(price=ps.sum_("price")), (3, 8, 4)),
        (lambda windows: windows.reduce(add), (3, 35, 4)),
    ],
)
def test_every_state_of_a_window_is_shown_and_taken_back(
    result: Callable[[Any], ps.Stream], shown: tuple[int, int, int]
) -> None:
    pens = [batch(row) for row in ORDERS if row["item"] == "pen"]
    stream = ps.read(Script(SCHEMA, pens), time="at", job=ps.Job())
    changes: list[Row] = []
    updates = result(stream.key_by("item").window(ps.count_window(2)).emit(every=0))
    updates.for_each_batch(lambda rows: changes.extend(rows.to_pylist()), mode="changelog")
    stream.job.run("changes", linger_ms=0)
    first, full, last = shown
    assert [(row["price"], row["weight"]) for row in changes] == [(first, 1), (first, -1), (full, 1), (last, 1)]


def test_results_of_updates_have_bounds_but_no_event_time() -> None:
    stream = orders().key_by("item").window(ps.count_window(2)).emit("updates").reduce(add)
    assert stream.schema.names == ["window_start", "window_end", "item", "price", "at"]
    assert {"item": "pen", "price": 35, "at": noon(4), "window_start": noon(0), "window_end": noon(4)} in rows(stream)
    with pytest.raises(ps.PlanError, match="event time"):
        stream.drop("at").window(ps.tumbling("1m")).agg(n=ps.count())
