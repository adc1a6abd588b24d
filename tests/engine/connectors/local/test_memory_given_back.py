"""A bucket that goes gives its memory back at once, without the collector: no operator refers to itself."""

import gc
import random
import weakref
from collections.abc import Iterator

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import RowCounters
from tests.engine.paging.driving import Driven, Results, context_of
from tests.engine.paging.kinds import KINDS
from tests.engine.paging.test_every_kind import batches


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.usefixtures("uncollected")
def test_no_kind_of_operator_refers_to_itself(name: str) -> None:
    kind, rng = KINDS[name], random.Random(1)
    operator = kind.make()
    driven = Driven(operator, kind, Results())
    operator.open(context_of(ManualClock(), RowCounters(), kind))
    for port, schema in enumerate(kind.inputs):
        for batch in batches(rng, schema):
            driven.process(port, batch)
    driven.watermark(50)
    driven.barrier(1)
    operator.close()
    store = operator.context.state
    table = next(iter([*store._tables.values(), *store._logs.values()]))
    left = [weakref.ref(item) for item in (operator, store, table)]
    del operator, driven, store, table
    assert [reference() for reference in left] == [None] * 3
