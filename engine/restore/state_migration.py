"""State that was kept for other aggregates, frames or declared states than an operator has now, laid out for these.

What both have stays as it is, what is new begins, what is gone is dropped. `state_assignment` calls it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.aggregation import ROWS, Aggregation
from penstock.engine.accumulators.weighted_part import WEIGHTED
from penstock.engine.operators.over.rows import KEPT_ROWS
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.restore.meaning_changes import same_aggregate
from penstock.engine.restore.weighted_migration import with_weighted
from penstock.model.job_graph import OperatorNode
from penstock.model.schema import StreamSchema
from penstock.state.checkpoints.operator_meaning import AggregateMeaning, OperatorMeaning
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import BagColumn, TableSpec
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import StoreDump

Adapt = Callable[[StoreDump], StoreDump]

_OWN = re.compile(r"a\d+\.")
_VALUE = re.compile(r"e\d+\Z")


def adapt_to(
    before: OperatorMeaning, now: OperatorMeaning, node: OperatorNode, schema: StreamSchema, *, by_name: bool = False
) -> Adapt | None:
    """Return what makes state of one meaning that of another; None: it lies as it must.

    ``schema`` is that of the operator's input. ``by_name``: aggregates of one name go on from each other, whatever they
    computed, and rows that lack a column have null in it.
    """
    steps: list[Adapt] = []
    if by_name:
        steps.append(lambda part: replace(part, lenient=True))
    if _laid_out(before) != _laid_out(now):
        layout = descriptor_of(node.spec).state_layout(node.spec, now, schema, node.name)
        for table, aggregation in layout.tables.items():
            steps.append(_aggregates(table, aggregation, before.aggregates, now.aggregates, by_name))
        if before.values != now.values:
            values = layout.values
            steps.append(_in_table(KEPT_ROWS, lambda rows: _with_values(rows, before.values, now.values, values)))
    removed = before.states.keys() - now.states.keys()
    if removed:
        steps.append(lambda part: _without_states(part, removed))
    return _in_turn(steps) if steps else None


def _laid_out(meaning: OperatorMeaning) -> tuple[object, ...]:
    aggregates = [(item.means, item.table, item.place, item.weighted) for item in meaning.aggregates]
    return aggregates, meaning.values, meaning.estimates


def _in_turn(steps: Sequence[Adapt]) -> Adapt:
    def adapt(part: StoreDump) -> StoreDump:
        for step in steps:
            part = step(part)
        return part

    return adapt


def _aggregates(
    table: str,
    aggregation: Aggregation,
    before: Sequence[AggregateMeaning],
    now: Sequence[AggregateMeaning],
    by_name: bool,
) -> Adapt:
    mine = [item for item in now if item.table == table]
    was = [item for item in before if item.table == table]
    matches = {item.name: same_aggregate(item, was, by_name=by_name) for item in mine}

    def change(rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = _aggregate_columns(rows, aggregation, mine, was, matches)
        vectors = with_weighted(rows, aggregation, mine, matches, lossy=by_name)
        return _with_columns(rows, columns if vectors is None else [*columns, vectors])

    return _in_table(table, change)


def _in_table(table: str, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Adapt:
    """Return what changes the rows of one table or log, if there is one."""

    def adapt(part: StoreDump) -> StoreDump:
        batches = part.batches.get(table)
        if batches is None:
            return part
        return replace(part, batches={**part.batches, table: [change(rows) for rows in batches]})

    return adapt


def _aggregate_columns(
    rows: pa.RecordBatch,
    aggregation: Aggregation,
    now: Sequence[AggregateMeaning],
    before: Sequence[AggregateMeaning],
    matches: Mapping[str, AggregateMeaning | None],
) -> list[tuple[pa.Field, pa.Array]]:
    """Return the columns of the exact part."""
    fresh = _fresh(aggregation, rows.num_rows)
    block = [(rows.schema.field(ROWS), rows.column(ROWS))]
    for place in aggregation.distinct():
        members = [item for item in now if item.place == place]
        source = next((match for item in members if (match := matches[item.name]) and match.place is not None), None)
        prefix = f"a{place}."
        for name, spec in aggregation.columns().items():
            if not name.startswith(prefix):
                continue
            begun = pa.concat_arrays(fresh.column(name).chunks)
            cells = begun if source is None else _column(rows, f"a{source.place}.{name.removeprefix(prefix)}")
            if cells is None:
                # It has no such column, which the store refuses.
                continue
            if isinstance(spec, BagColumn) and source is not None:
                cells = _lanes(cells, begun.type, [_lane(matches[item.name], source, before) for item in members])
            block.append((pa.field(name, cells.type), cells))
    return block


def _with_columns(rows: pa.RecordBatch, block: Sequence[tuple[pa.Field, pa.Array]]) -> pa.RecordBatch:
    """Return rows with these columns in the place of those of the aggregates before."""
    others = [(field, rows.column(index)) for index, field in enumerate(rows.schema)]
    first = next(index for index, (field, _) in enumerate(others) if _is_own(field.name))
    rest = [pair for pair in others[first:] if not _is_own(pair[0].name)]
    columns = [*others[:first], *block, *rest]
    schema = pa.schema([field for field, _ in columns], rows.schema.metadata)
    return pa.RecordBatch.from_arrays([column for _, column in columns], schema=schema)


def _is_own(column: str) -> bool:
    return column in (ROWS, WEIGHTED) or _OWN.match(column) is not None


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index)


def _fresh(aggregation: Aggregation, rows: int) -> pa.Table:
    """Return the state of groups that have seen no row."""
    keys = pa.array(np.arange(rows))
    table = MemoryStore(aggregation.operator).table(TableSpec("fresh", (pa.int64(),), aggregation.columns()))
    slots = table.upsert(KeyCodec([pa.int64()]).encode([keys], rows)).slots
    aggregation.bind(table).reset(slots)
    return pa.Table.from_batches(list(table.dump())).combine_chunks()


def _lane(item: AggregateMeaning | None, source: AggregateMeaning, before: Sequence[AggregateMeaning]) -> int | None:
    """Return in which lane of a bag an aggregate was counted; None: in none."""
    if item is None or item.place != source.place:
        return None
    return [other.name for other in before if other.place == source.place].index(item.name)


def _lanes(cells: pa.Array, kind: pa.DataType, lanes: Sequence[int | None]) -> pa.Array:
    """Return bags with other lanes: each is one of those before, or (None) empty; what no lane counts is forgotten."""
    values, counts = cells.flatten().flatten()
    if pa.types.is_fixed_size_list(counts.type):
        width = counts.type.list_size
        table = counts.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    else:
        table = counts.to_numpy(zero_copy_only=False).reshape(-1, 1)
    empty = np.zeros(len(table), table.dtype)
    chosen = np.column_stack([empty if lane is None else table[:, lane] for lane in lanes])
    kept = np.flatnonzero(chosen.any(axis=1))
    owners = np.repeat(np.arange(len(cells)), np.diff(cells.offsets.to_numpy()))[kept]
    offsets = np.zeros(len(cells) + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=len(cells)), out=offsets[1:])
    column = pa.array(chosen[kept].ravel())
    if len(lanes) > 1:
        column = pa.FixedSizeListArray.from_arrays(column, len(lanes))
    items = pa.StructArray.from_arrays([values.take(pa.array(kept)), column], ["value", "count"])
    return pa.ListArray.from_arrays(pa.array(offsets), items).cast(kind)


def _with_values(
    rows: pa.RecordBatch, before: Sequence[str], now: Sequence[str], types: Sequence[pa.DataType]
) -> pa.RecordBatch:
    columns = {name: rows.column(name) for name in rows.schema.names if _VALUE.match(name) is None}
    for place, (text, kind) in enumerate(zip(now, types, strict=True)):
        kept = text in before
        columns[f"e{place}"] = rows.column(f"e{before.index(text)}") if kept else pa.nulls(rows.num_rows, kind)
    return pa.RecordBatch.from_pydict(columns)


def _without_states(part: StoreDump, states: set[str]) -> StoreDump:
    """Leave out the tables and logs of states that are not declared any more; their names begin with the state's."""
    names = tuple(f"state {name}" for name in states)
    kept = {
        table: batches
        for table, batches in part.batches.items()
        if not any(table == name or table.startswith(f"{name} ") for name in names)
    }
    return replace(part, batches=kept)
