"""The Nexmark events, persons, auctions and bids of an auction house, made by position.

Every field of event ``n`` is a function of (seed, n, field) alone, so each kind can be generated
on its own, from any row, in any split. Constants are those of nexmark/nexmark; called by the
generator source and by ``benchmarks/nexmark/dataset.py``.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.fields import COLUMNS, Events
from penstock.engine.kernels.nexmark import event_numbers
from penstock.model.errors import OptionError, SchemaError
from penstock.state.keys.arrays import Ints

__all__ = ["KINDS", "SCHEMAS", "NexmarkConfig", "generate", "kinds_between", "rows_before", "rows_of_kind"]

SCHEMAS: dict[str, pa.Schema] = {
    kind: pa.schema([(name, column.kind) for name, column in columns.items()]) for kind, columns in COLUMNS.items()
}

KINDS = tuple(SCHEMAS)

# An Arrow string column counts its bytes in 31 bits; padding is at most 1.2 times the mean size.
_TEXT_BYTES = 2**31 - 1
_OTHER_TEXT_BYTES = 128


def check_kind(kind: str) -> None:
    """Raise `OptionError` if there are no events of a kind."""
    if kind not in SCHEMAS:
        raise OptionError(f"Nexmark has no events of kind {kind!r}; it has {', '.join(KINDS)}.")


def rows_of_kind(config: NexmarkConfig, kind: str) -> int | None:
    """Return the number of rows of ``kind`` in the whole stream; None if it never ends."""
    return None if config.events is None else rows_before(config, kind, config.events)


@lru_cache(maxsize=256)
def rows_before(config: NexmarkConfig, kind: str, events: int) -> int:
    """Return the number of events of ``kind`` among the first ``events`` in stream order."""
    places = _places(config, kind)
    order = _order(config.period, config.out_of_order_group, places)
    blocks, rest = divmod(events, config.period)
    positions = np.arange(rest, dtype=np.int64)
    in_rest = _is_kind(_numbers_at(positions, config.out_of_order_group), places)
    return blocks * order.size + int(np.count_nonzero(in_rest))


def kinds_between(config: NexmarkConfig, first: int, end: int) -> Ints:
    """Return the kinds of the events from place ``first`` to before ``end`` of the stream, as indices into `KINDS`."""
    places = _numbers_at(np.arange(first, end, dtype=np.int64), config.out_of_order_group) % config.total_proportion
    limits = np.cumsum([config.person_proportion, config.auction_proportion])
    return np.searchsorted(limits, places, side="right").astype(np.int64)


def generate(
    config: NexmarkConfig,
    kind: str,
    first_row: int,
    rows: int,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatch:
    """Return rows ``first_row`` to ``first_row + rows`` of ``kind``, counted from 0 in stream order.

    Only ``columns`` are computed, and they come in that order; None means all. Rows are in
    event-time order unless ``out_of_order_group`` is above 1. Raises ``OptionError`` for rows that
    do not exist or do not fit one batch, ``SchemaError`` for a column the kind does not have.
    """
    places = _places(config, kind)
    wanted = SCHEMAS[kind].names if columns is None else list(columns)
    unknown = [name for name in wanted if name not in COLUMNS[kind]]
    if unknown:
        have = ", ".join(SCHEMAS[kind].names)
        raise SchemaError(f"Nexmark {kind} has no column {unknown[0]!r}; it has {have}.")
    total = rows_of_kind(config, kind)
    if first_row < 0 or rows < 0 or (total is not None and first_row + rows > total):
        raise OptionError(
            f"Nexmark {kind} rows {first_row} to {first_row + rows} were asked for; the stream holds rows 0 to {total}."
        )
    padded_bytes = {"person": config.person_bytes, "auction": config.auction_bytes, "bid": config.bid_bytes}[kind]
    most = _TEXT_BYTES // max(2 * padded_bytes, _OTHER_TEXT_BYTES)
    if rows > most:
        raise OptionError(f"Nexmark {kind}: one batch holds at most {most} rows; {rows} were asked for.")
    order = _order(config.period, config.out_of_order_group, places)
    events = Events(config, event_numbers(first_row, rows, order, config.period))
    return pa.RecordBatch.from_arrays([COLUMNS[kind][name].array(events) for name in wanted], names=wanted)


def _places(config: NexmarkConfig, kind: str) -> tuple[int, int, int]:
    """Return the first place of ``kind`` in a round, one past its last, and the length of the round."""
    check_kind(kind)
    people, auctions, total = config.person_proportion, config.auction_proportion, config.total_proportion
    limits, number = (0, people, people + auctions, total), KINDS.index(kind)
    return limits[number], limits[number + 1], total


def _numbers_at(positions: Ints, group: int) -> Ints:
    """Return the event number at each position of the stream: a fixed shuffle within every group."""
    return positions // group * group + positions * 953 % group


def _is_kind(numbers: Ints, places: tuple[int, int, int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    first, end, total = places
    place = numbers % total
    return (place >= first) & (place < end)


@lru_cache(maxsize=16)
def _order(period: int, group: int, places: tuple[int, int, int]) -> Ints:
    """Return the event numbers of one kind within a period, in stream order."""
    numbers = _numbers_at(np.arange(period, dtype=np.int64), group)
    return numbers[_is_kind(numbers, places)]
