"""The weighted part of aggregates, laid out for other aggregates than it was kept for. `state_migration` calls it."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.aggregation import Aggregation
from penstock.engine.accumulators.weighted_blocks import HEADER
from penstock.engine.accumulators.weighted_part import WEIGHTED
from penstock.model.errors import UserError
from penstock.state.checkpoints.operator_meaning import AggregateMeaning

_TYPE = pa.list_(pa.float64())


def with_weighted(
    rows: pa.RecordBatch,
    aggregation: Aggregation,
    now: Sequence[AggregateMeaning],
    matches: Mapping[str, AggregateMeaning | None],
    *,
    lossy: bool,
) -> tuple[pa.Field, pa.Array] | None:
    """Return the column of vectors for a table's rows, None if the aggregation has none.

    Blocks of aggregates that were there go on, those of others begin at zero. ``lossy``: rows that stand for others may
    be lost where nothing says any longer how good results are.

    Raises:
        UserError: they would be, and may not.
    """
    place = rows.schema.get_field_index(WEIGHTED)
    kept = pa.nulls(rows.num_rows, _TYPE) if place < 0 else rows.column(place)
    if aggregation.estimates is None:
        if kept.null_count < len(kept) and not lossy:
            raise UserError(_would_be_lost(aggregation.operator))
        return None
    written = kept.is_valid().to_numpy(zero_copy_only=False)
    count = int(written.sum())
    before = kept.flatten().to_numpy().reshape(count, -1) if count else np.zeros((0, HEADER))
    vectors = np.zeros((count, aggregation.estimates.width))
    vectors[:, :HEADER] = before[:, :HEADER]
    for item, block in zip(now, aggregation.estimates.blocks, strict=True):
        match = matches[item.name]
        if item.weighted is None or match is None or match.weighted is None or block is None:
            continue
        (start, end), (first, last) = item.weighted, match.weighted
        # Of rows that were dropped in another way the moments are the same, and what follows them is not.
        count = end - start if end - start == last - first else block.rows - block.start
        vectors[:, start : start + count] = before[:, first : first + count]
    offsets = np.zeros(rows.num_rows + 1, np.int32)
    np.cumsum(written * vectors.shape[1], out=offsets[1:])
    cells = pa.ListArray.from_arrays(pa.array(offsets), pa.array(vectors.ravel()), mask=pa.array(~written))
    return pa.field(WEIGHTED, _TYPE), cells


def _would_be_lost(operator: str) -> str:
    return (
        f"the state of {operator!r} holds rows that stand for others, which were shed, but no query under contract "
        "reads it any more, so its results could not say so: leave the query its .with_min_accuracy(...) until the "
        f"windows that are open now are over; or begin without that state, with drop_state={operator!r}; or lose those "
        f"rows, with accept_changed={operator!r}."
    )
