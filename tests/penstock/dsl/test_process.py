"""Process functions as users write them: what is accepted, what is refused, and the same answer at any parallelism."""

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.model.errors import PlanError
from tests.penstock.front_door import NOON, Row, dead_letters, line, noon, orders, rows

OUT = {"item": str, "n": int}


class Count(ps.Process):
    """Counts rows, and says ten seconds after each how many there are."""

    n = ps.value_state(int, default=0)

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def process(self, row: Row, context: Any) -> None:
        self.n.set(self.n.get() + 1)
        context.timers.after("10s")

    def on_timer(self, timer: Any, context: Any) -> Any:
        yield {"item": context.key, "n": self.start + self.n.get()}


def count(row: Row, context: Any) -> Row:
    n = context.state.n
    n.set(n.get() + 1)
    return {"item": row["item"], "n": n.get()}


def total(row: Row, context: Any) -> Row:
    context.state.prices.append(row["price"])
    return {"item": str(context.key), "n": len(context.state.prices.get())}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_class_and_an_object_work_alike_at_any_parallelism(parallelism: int) -> None:
    expected = [("ink", 1), ("ink", 2), ("pen", 3), ("pen", 2), ("pen", 2), (None, 1)]
    for function, start in ((Count, 0), (Count(start=100), 100)):
        stream = orders().key_by("item").process(function, OUT).parallelism(parallelism)
        found = [(row["item"], row["n"] - start) for row in rows(stream)]
        assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_function_gets_its_state_from_the_call(parallelism: int) -> None:
    stream = orders().key_by("item").process(count, OUT, state={"n": ps.value_state(int, default=0)})
    found = rows(stream.parallelism(parallelism))
    assert [row["n"] for row in found] == [1, 2, 1, 2, 3, 1]


def test_several_keys_are_a_tuple() -> None:
    stream = orders().key_by("item", "price").process(total, OUT, state={"prices": ps.list_state(int)})
    assert [row["item"] for row in rows(stream)][:2] == ["('ink', 8)", "('ink', None)"]


def test_the_schema_comes_from_the_annotation_and_event_time_is_kept() -> None:
    @dataclasses.dataclass
    class Seen:
        item: str
        price: int

    def see(row: Row, context: Any) -> Seen:
        return Seen(row["item"], row["price"])

    assert orders().key_by("item").process(see).schema.names == ["item", "price"]

    def same(row: Row, context: Any) -> Row:
        return row

    kept = orders().key_by("item").process(same).window(ps.tumbling("10s")).agg(n=ps.count())
    assert [(row["window_start"], row["n"]) for row in rows(kept)] == [(NOON, 3), (noon(10), 2), (noon(20), 1)]


def test_datetimes_in_state_have_the_zone_of_event_time() -> None:
    class Gap(ps.Process):
        last = ps.value_state(type(NOON))

        def process(self, row: Row, context: Any) -> Row:
            before = self.last.get()
            self.last.set(row["at"])
            assert context.time == row["at"]
            return {"item": row["item"], "n": None if before is None else (context.time - before).seconds}

    assert [row["n"] for row in rows(orders().key_by("item").process(Gap, OUT))] == [11, None, 4, 21, None, None]


def test_failures_are_dead_letters_or_end_the_job(tmp_path: Path) -> None:
    def fails(row: Row, context: Any) -> Row:
        if row["price"] == 8:
            raise ValueError("eight")
        return {"item": row["item"], "n": 1}

    stream = orders().key_by("item").process(fails, OUT).name("careful")
    result = stream.collect()
    metrics = stream.job.run("test", directory=tmp_path)
    assert len(result.rows()) == 5
    assert line(metrics, "careful") == {"rows_in": 6, "passed": 5, "dead_lettered": 1, "rows_out": 5}
    (letter,) = dead_letters(tmp_path)
    assert "ValueError: eight" in letter["error"]
    with pytest.raises(ps.BadRecordError, match="eight"):
        rows(orders().key_by("item").process(fails, OUT, on_error="fail"))
    assert len(rows(orders().key_by("item").process(fails, OUT, on_error="skip"))) == 5


def test_a_vectorised_function_sees_keys_and_groups() -> None:
    class Sum(ps.BatchProcess):
        n = ps.value_state(int, default=0)

        def process(self, batch: pa.RecordBatch, context: Any) -> Any:
            sums = self.n.gather().to_pylist()
            for group, price in zip(context.groups.tolist(), batch["price"].to_pylist(), strict=True):
                sums[group] += price or 0
            self.n.scatter(sums)
            if context.ended:
                return {"item": context.keys["item"], "n": sums}
            return None

    found = rows(orders().key_by("item").process(Sum, OUT))
    assert [(row["item"], row["n"]) for row in found] == [("ink", 8), ("pen", 12), (None, 2)]


class Hidden(ps.Process):
    """Has no process method."""


class Needs(ps.Process):
    """Needs an argument."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def process(self, row: Row, context: Any) -> None:
        """Do nothing."""


async def fetch(row: Row, context: Any) -> None:
    """Do nothing."""


class Mapped(ps.BatchProcess):
    """Has state without columns."""

    named = ps.map_state(str, int)

    def process(self, batch: pa.RecordBatch, context: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (3, {}, "a subclass of Process or BatchProcess, not 3"),
        (dict, {}, "not the class dict"),
        (lambda row: None, {}, "does not take two arguments"),
        (fetch, {}, "not an async one"),
        (Hidden, {}, "the class Hidden has no process"),
        (Needs, {}, r"process\(Needs\(\.\.\.\)\)"),
        (Mapped, {}, "no columnar form"),
        (count, {"state": {"n": int}}, r"ps.value_state\(int\) or the like, not"),
        (count, {"state": {"process": ps.value_state(int)}}, "cannot call a state 'process'"),
    ],
)
def test_what_is_no_process_function_is_refused(function: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        orders().key_by("item").process(function, OUT, **options)


def test_updating_streams_and_unknown_orders_are_refused() -> None:
    updating = orders().key_by("item").agg(n=ps.count())
    with pytest.raises(PlanError, match="updating stream"):
        updating.key_by("item").process(count, OUT)
    with pytest.raises(ps.OptionError, match="'event' or 'arrival'"):
        orders().key_by("item").process(count, OUT, order="random")


def test_the_plan_names_function_and_state() -> None:
    stream = orders().key_by("item").process(Count, OUT)
    stream.collect()
    text = ps.explain(stream.job)
    assert "process Count per item" in text
    named = orders().key_by("item").process(count, OUT, state={"n": ps.value_state(int, default=0)})
    named.collect()
    assert "process count per item" in ps.explain(named.job)
