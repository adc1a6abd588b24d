"""From messages of one partition to rows: value, key and what else a column can tell. Called by the reader.

Whatever becomes of a message, every row keeps the offset, the key and the time of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.formats.contract import Decoded, ValueDecoder, no_headers
from penstock.engine.connectors.kafka.messages import METADATA, Messages
from penstock.engine.connectors.time_range import time_error, unusable_times
from penstock.model.errors import OptionError, SchemaError
from penstock.model.option_literals import Tombstones

TOMBSTONES = get_args(Tombstones)

_NONE: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class DecodedMessages:
    """The result of decoding messages: ``rows`` of those at ``row_of``, ``errors`` of others (index, reason).

    All three are in order. ``skipped`` are tombstones that were left out, ``skipped_time_us`` their greatest time if
    the event time is the message's own.
    """

    rows: pa.RecordBatch
    row_of: NDArray[np.int64]
    errors: Sequence[tuple[int, str]]
    skipped: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    skipped_time_us: int | None = None


@dataclass(frozen=True, slots=True)
class RowMaker:
    """The conversion of messages to rows of `schema`.

    ``value`` and ``key`` decode columns (``key`` None: keys are not asked for), ``metadata`` gives by name of column
    what of `METADATA` it tells. ``columns`` are all of these in the order of the rows. Tombstones become rows whose
    value is null if ``keep_tombstones``, else they are skipped. ``time`` is the event time column, if there is one.
    """

    value: ValueDecoder
    key: ValueDecoder | None
    metadata: Mapping[str, str]
    columns: tuple[str, ...]
    keep_tombstones: bool = False
    time: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The fields of the rows."""
        fields = {item.name: item for item in self.value.schema}
        fields |= {item.name: item for item in (self.key.schema if self.key is not None else ())}
        fields |= {name: pa.field(name, METADATA[what]) for name, what in self.metadata.items()}
        return pa.schema([fields[name] for name in self.columns])

    def restrict(self, columns: Sequence[str]) -> "RowMaker":
        """Return one that makes and decodes only these columns."""
        key = self.key if self.key is not None and set(self.key.schema.names) & set(columns) else None
        return replace(
            self,
            value=self.value.restrict([name for name in columns if name in self.value.schema.names]),
            key=key,
            metadata={name: what for name, what in self.metadata.items() if name in columns},
            columns=tuple(columns),
            time=self.time if self.time in columns else None,
        )

    def fresh(self) -> "RowMaker":
        """Return one for a reader of its own."""
        return replace(self, value=self.value.fresh(), key=None if self.key is None else self.key.fresh())

    def make(self, messages: Messages) -> DecodedMessages:
        """Make rows of messages of one partition, in order.

        Raises:
            RetryableError: they cannot be decoded now; the same messages may be given again.
        """
        values = messages.values
        tombstones = messages.tombstones
        decoded = _decode(self.value, values, messages, tombstones)
        if len(tombstones) and self.keep_tombstones:
            decoded, tombstones = _with_nulls(decoded, tombstones), _NONE
        columns = dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True))
        errors = list(decoded.errors)
        whole = len(decoded.row_of) == len(messages) and np.array_equal(decoded.row_of, np.arange(len(messages)))
        row_of = pa.array(decoded.row_of)
        if self.key is not None:
            keys, bad = _keys(self.key, messages)
            columns |= {name: _at(column, row_of, whole) for name, column in keys.items()}
            rejected = {index for index, _ in errors}
            errors += [item for item in bad if item[0] not in rejected]
        for name, what in self.metadata.items():
            columns[name] = _at(messages.column(what), row_of, whole)
        rows = pa.RecordBatch.from_arrays([columns[name] for name in self.columns], schema=self.schema)
        result = DecodedMessages(rows, decoded.row_of, errors, tombstones, self._time_of(tombstones, messages))
        return self._timed(_without_errors(result) if len(errors) > len(decoded.errors) else result)

    def _time_of(self, skipped: NDArray[np.int64], messages: Messages) -> int | None:
        if not len(skipped) or self.metadata.get(self.time or "") != "timestamp":
            return None
        return messages.latest_us(skipped)

    def _timed(self, result: DecodedMessages) -> DecodedMessages:
        """Turn messages of one row whose event time cannot be used into errors, so that their bytes are kept."""
        if self.time is None or not result.rows.num_rows or (result.row_of[1:] == result.row_of[:-1]).any():
            return result
        times = result.rows.column(result.rows.schema.get_field_index(self.time))
        bad = unusable_times(times)
        if bad is None:
            return result
        missing = np.asarray(times.is_null())
        places = np.flatnonzero(bad)
        errors = [(int(result.row_of[row]), time_error(self.time, bool(missing[row]))) for row in places]
        return _without_errors(replace(result, errors=[*result.errors, *errors]))


def row_maker(
    value: ValueDecoder,
    key: ValueDecoder | None = None,
    metadata: Mapping[str, str] | None = None,
    tombstones: str = "skip",
) -> RowMaker:
    """Return what makes rows of messages: the columns of the value, then of the key, then of ``metadata``.

    ``metadata`` names columns by what of `METADATA` they tell. ``tombstones``: messages without a value are counted
    and skipped, or kept as rows whose value is null.

    Raises:
        OptionError: an option has an impossible value.
        SchemaError: two columns have the same name.
    """
    names = dict(metadata or {})
    unknown = [what for what in names if what not in METADATA]
    if unknown:
        raise OptionError(f"metadata= knows {', '.join(METADATA)}, but not {unknown[0]!r}")
    if tombstones not in TOMBSTONES:
        raise OptionError(f"tombstones must be one of {', '.join(TOMBSTONES)}, not {tombstones!r}")
    columns = [*value.schema.names, *(key.schema.names if key is not None else ()), *names.values()]
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise SchemaError(f"column {repeated[0]!r} comes twice, from value, key= or metadata=; rename one")
    keep = tombstones == "keep" or "tombstone" in names
    return RowMaker(value, key, {name: what for what, name in names.items()}, tuple(columns), keep_tombstones=keep)


def _decode(
    decoder: ValueDecoder, values: Sequence[bytes | None], messages: Messages, absent: NDArray[np.int64]
) -> Decoded:
    """Decode the values that are there; indices are those among all messages."""
    if not len(absent):
        return decoder.decode(values, messages.headers_of)  # type: ignore[arg-type]
    there = np.delete(np.arange(len(values), dtype=np.int64), absent)
    present = [value for value in values if value is not None]
    decoded = decoder.decode(present, lambda index: messages.headers_of(int(there[index])))
    errors = [(int(there[index]), reason) for index, reason in decoded.errors]
    return Decoded(decoded.rows, there[decoded.row_of], errors)


def _with_nulls(decoded: Decoded, absent: NDArray[np.int64]) -> Decoded:
    """Add a row of nulls for each message that is ``absent``."""
    row_of = np.concatenate([decoded.row_of, absent])
    order = np.argsort(row_of, kind="stable")
    rows = np.concatenate([np.arange(len(decoded.row_of)), np.full(len(absent), -1)])[order]
    places = pa.array(rows, pa.int64(), mask=rows < 0)
    columns = [column.take(places) for column in decoded.rows.columns]
    fields = [item.with_nullable(True) for item in decoded.rows.schema]
    return Decoded(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), row_of[order], decoded.errors)


def _keys(decoder: ValueDecoder, messages: Messages) -> tuple[dict[str, pa.Array], list[tuple[int, str]]]:
    """Return the columns of the keys, a value per message, and what is wrong with some of them."""
    keys = messages.keys if messages.keys is not None else [None] * len(messages)
    there = np.flatnonzero([key is not None for key in keys])
    decoded = decoder.decode([key for key in keys if key is not None], no_headers)
    places = np.full(len(messages), -1, np.int64)
    places[there[decoded.row_of]] = np.arange(len(decoded.row_of))
    at = pa.array(places, mask=places < 0)
    columns = {name: decoded.rows.column(name).take(at) for name in decoded.rows.schema.names}
    return columns, [(int(there[index]), f"the key: {reason}") for index, reason in decoded.errors]


def _at(column: pa.Array, row_of: pa.Array, whole: bool) -> pa.Array:
    return column if whole else column.take(row_of)


def _without_errors(result: DecodedMessages) -> DecodedMessages:
    """Leave out the rows of messages that are errors."""
    good = ~np.isin(result.row_of, [index for index, _ in result.errors])
    rows, row_of = result.rows.filter(pa.array(good)), result.row_of[good]
    return replace(result, rows=rows, row_of=row_of, errors=sorted(result.errors))
