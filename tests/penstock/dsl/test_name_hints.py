"""Who writes what other libraries call it is told what it is called here."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock import col, hopping
from penstock.dsl.keyed_stream import KeyedStream, WindowedStream
from penstock.model import name_hints
from penstock.model.expressions import Expr


def stream() -> Any:
    return ps.read_memory([{"a": 1, "b": 2}], job=ps.Job())


KEYED: Callable[[], Any] = lambda: stream().key_by("a")  # noqa: E731
CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: stream().group_by("a"), AttributeError, 'a stream has no group_by: use key_by("column") (at '),
    (lambda: stream().groupBy("a"), AttributeError, "key_by"),
    (lambda: stream().with_column("x", col("a")), AttributeError, "use with_columns(name=expression)"),
    (lambda: stream().withColumn("x", col("a")), AttributeError, "with_columns"),
    (lambda: stream().where(col("a") > 1), AttributeError, "use filter("),
    (lambda: stream().orderBy("a"), AttributeError, "use top("),
    (lambda: stream().sum("a"), AttributeError, "with penstock.sum_"),
    (lambda: KEYED().count(), AttributeError, "use agg(value=count()), with penstock.count"),
    (lambda: KEYED().max("b"), AttributeError, "with penstock.max_"),
    (lambda: KEYED().map(dict), AttributeError, "before key_by"),
    (lambda: stream().window(ps.global_window()).sum("a"), AttributeError, "penstock.sum_"),
    (lambda: KEYED().agg(n=sum(col("b"))), TypeError, "write sum_, min_ or max_ of penstock"),
    (lambda: KEYED().agg(n=max(col("b"))), TypeError, "write sum_, min_ or max_ of penstock"),
    (lambda: KEYED().agg(n=max(col("b"), col("a"))), ps.ExpressionError, "min_ or max_ for Python's min() or max()"),
    (lambda: KEYED().agg(n=max("b")), ps.PlanError, "Python's own max or min is none"),
    (lambda: KEYED().agg(n=sum), ps.PlanError, "Python's own sum is none, write sum_(...)"),
    (lambda: KEYED().agg(n=len(col("b"))), TypeError, "count()"),
    (lambda: KEYED().agg(n=col("b").max()), AttributeError, "an expression has no max: use penstock.max_(column)"),
    (lambda: [*col("a")], TypeError, "one value of each row"),
    (lambda: col("a").isNull(), AttributeError, "use is_null()"),
    (lambda: ps.max, AttributeError, "use penstock.max_"),
    (lambda: ps.literal, AttributeError, "use penstock.lit"),
    (lambda: ps.group_by, AttributeError, "key_by"),
]


@pytest.mark.parametrize(("write", "kind", "said"), CASES, ids=[str(number) for number in range(len(CASES))])
def test_the_name_here_is_said(write: Callable[[], Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as refused:
        write()
    assert said in str(refused.value)


def test_names_that_nobody_knows_are_plain_errors() -> None:
    for thing in (stream(), KEYED(), col("a")):
        with pytest.raises(AttributeError, match="has no attribute 'frobnicate'"):
            thing.frobnicate  # noqa: B018
        assert not hasattr(thing, "__dataframe__") and not hasattr(thing, "_repr_latex_")


def test_no_hint_stands_for_a_name_that_is_there() -> None:
    for kind, known in ((ps.Stream, name_hints.STREAM), (KeyedStream, name_hints.KEYED), (Expr, name_hints.EXPRESSION)):
        assert [name for name in known if name in dir(kind) and kind is not KeyedStream] == []
    assert [name for name in name_hints.KEYED if name in dir(KeyedStream) and name in dir(WindowedStream)] == []
    assert [name for name in name_hints.MODULE if name in ps.__all__] == []


def test_expressions_can_be_copied_and_sent() -> None:
    expression = (col("a") + 1).alias("x")
    for other in (copy.copy(expression), copy.deepcopy(expression), pickle.loads(pickle.dumps(expression))):
        assert other.same_as(expression)


def test_what_others_write_works_too() -> None:
    table = stream().with_columns(x=ps.lit("hello"), y=abs(col("a") - 3)).preview().rows()
    assert table == [{"a": 1, "b": 2, "x": "hello", "y": 2}]
    hopping("1 minute", "10 seconds")
