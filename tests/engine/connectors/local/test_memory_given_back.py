"""A bucket that goes gives its memory back at once, without the collector: no operator refers to itself."""

import gc
import random
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import RowCounters
from tests.engine.paging.driving import Driven, Results, context_of
from tests.engine.paging.kinds import KINDS, Kind
from tests.engine.paging.test_every_kind import batches


@pytest.mark.parametrize("name", KINDS)
def test_no_kind_of_operator_refers_to_itself(name: str) -> None:
    # The compiler of kernels leaves cycles behind that refer to its callers: it is done after the first time.
    closed(KINDS[name])
    gc.collect()
    gc.disable()
    try:
        assert [reference() for reference in closed(KINDS[name])] == [None] * 3
    finally:
        gc.enable()


def closed(kind: Kind) -> Sequence["weakref.ref[Any]"]:
    """Use an operator and close it; return what refers weakly to it, its store and a table or log."""
    operator, rng = kind.make(), random.Random(1)
    driven = Driven(operator, kind, Results())
    operator.open(context_of(ManualClock(), RowCounters(), kind))
    for port, schema in enumerate(kind.inputs):
        for batch in batches(rng, schema):
            driven.process(port, batch)
    driven.watermark(50)
    driven.barrier(1)
    operator.close()
    store: Any = operator.context.state
    table = next(iter([*store._tables.values(), *store._logs.values()]))
    return [weakref.ref(item) for item in (operator, store, table)]
