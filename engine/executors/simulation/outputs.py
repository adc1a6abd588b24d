"""The comparison of two runs' outputs: multisets of rows, of changelogs what stands after all changes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.local.memory_sink import consolidate, latest
from penstock.model.job_graph import SinkSpec

_WEIGHT = pa.field("weight", pa.int8(), nullable=False)
_CLOSE = 1e-9
"""Sums of floats depend on their order, in the last digits: numbers this close, relatively, are taken for equal."""

SHOWN = 5
"""How many rows of a difference are told."""


@dataclass(frozen=True, slots=True)
class SinkDifference:
    """Rows that one sink should have and has not, and the other way round; some of each are shown."""

    sink: str
    missing: int
    extra: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        return f"sink {self.sink!r}: {self.missing:,} rows are missing and {self.extra:,} are too many"


def standing(rows: pa.Table, spec: SinkSpec) -> pa.Table:
    """Return the rows that stand in a sink that received these."""
    if spec.mode == "changelog":
        return consolidate(rows)
    if spec.mode == "upsert":
        last = latest(rows, spec.key)
        return last.filter(pc.invert(last["deleted"])).drop_columns(["deleted"])
    return rows


def difference(sink: str, expected: pa.Table, actual: pa.Table) -> SinkDifference | None:
    """Compare the rows that stand; None: they are the same."""
    missing, extra = _less(expected, actual), _less(actual, expected)
    if not missing.num_rows and not extra.num_rows:
        return None
    if missing.num_rows == extra.num_rows and _are_close(missing, extra):
        return None
    examples = [f"missing {row}" for row in missing.slice(0, SHOWN).to_pylist()]
    examples += [f"too many {row}" for row in extra.slice(0, SHOWN).to_pylist()]
    return SinkDifference(sink, missing.num_rows, extra.num_rows, tuple(examples))


def _less(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Return the rows without as many of the others as there are."""
    both = pa.concat_tables([_weighed(rows, 1), _weighed(others.cast(rows.schema), -1)])
    return consolidate(both)


def _weighed(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(_WEIGHT, pa.array(np.full(rows.num_rows, weight, np.int8)))


def _are_close(left: pa.Table, right: pa.Table) -> bool:
    """Return whether as many rows are the same but for the last digits of their floats."""
    floats = [field.name for field in left.schema if pa.types.is_floating(field.type)]
    left, right = _sorted(left, floats), _sorted(right, floats)
    if not floats or left.drop_columns(floats) != right.drop_columns(floats):
        return False
    return all(
        left[name].is_null() == right[name].is_null()
        and np.isclose(left[name].to_numpy(), right[name].to_numpy(), rtol=_CLOSE, atol=0.0, equal_nan=True).all()
        for name in floats
    )


def _sorted(rows: pa.Table, floats: Sequence[str]) -> pa.Table:
    """Sort rows by their other columns, then by their floats, so that those that are nearly the same meet."""
    listed, others = rows.to_pylist(), [name for name in rows.column_names if name not in floats]

    def rank(place: int) -> tuple[str, list[tuple[bool, float]]]:
        row = listed[place]
        values = [(row[name] is None or row[name] != row[name], row[name] or 0.0) for name in floats]
        return repr([row[name] for name in others]), values

    return rows.take(sorted(range(len(listed)), key=rank))
