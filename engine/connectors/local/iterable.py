"""Whatever Python can iterate over as a source: dicts, dataclasses or Arrow batches, bounded or endless."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from penstock.engine.connectors.arrow_capsule import batches_of
from penstock.engine.connectors.local.puller import ArrowItem, End, Puller
from penstock.engine.connectors.positions import read_position
from penstock.engine.connectors.text.bisect_rows import convert_rows
from penstock.engine.connectors.text.text_values import to_column
from penstock.model.connectors import ENDED, NOTHING, RawRecord, Read, Reader, Source
from penstock.model.errors import UserError

if TYPE_CHECKING:
    from penstock.model.expressions import Expr

_FIRST_US = 1_000
_MOST_DOUBLED = 6
"""After a None the iterator's next item is taken 1 ms later, after another 2, 4 and so on up to 32 ms."""

Items = Iterable[Any] | Callable[[], Iterable[Any]]
"""An iterable, or a function that makes one (then reading can start again from the beginning)."""


class _Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Items taken, Nones not counted, and rows read of the Arrow item that follows them."""

    items: int = 0
    rows: int = 0


class IterableSource(Source):
    """The items of an iterable: mappings, dataclass instances, or rows with the Arrow PyCapsule interface.

    Fields that are missing are null, others are passed over. An item that does not fit becomes a raw record; an
    exception in the iterator ends the job, after the items before it. A None means that nothing is there now. One
    partition, iterated over by one thread of its own and some way ahead, so that the iterator may block.
    """

    def __init__(
        self,
        items: Items,
        schema: pa.Schema,
        *,
        bounded: bool = True,
    ) -> None:
        """``bounded`` False says that the items never end, so that a silent one does not hold the watermark back."""
        self._items = items
        # Restricted copies share it: an iterator is used up, whichever of them read it.
        self._read: list[Iterator[Any]] = []
        self._schema = schema
        self.bounded = bounded
        # A function makes its iterator wherever it is called.
        self.in_caller = not callable(items)

    def __reduce__(self) -> tuple[Any, ...]:
        # Iterators that were read here are nobody's elsewhere.
        return _remake, (self._items, self._schema, self.bounded)

    @property
    def schema(self) -> pa.Schema:
        """The declared fields, or those left after `restrict`."""
        return self._schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Return one partition: an iterator cannot be shared."""
        return ["0/1"]

    def open(self, partition: str, position: Any | None) -> Reader:
        """Make a reader, which iterates from its first read on; at a position, that many items are passed over.

        Raises:
            UserError: it is an iterator that other readers have used, or at a position, or not iterable.
        """
        start = _Position() if position is None else read_position(self, position, _Position)
        return _IterableReader(self, self._start(start), start)

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> "IterableSource":
        """Convert only these columns."""
        fields = pa.schema([self._schema.field(name) for name in columns])
        restricted = IterableSource(self._items, fields, bounded=self.bounded)
        restricted._read = self._read
        return restricted

    def describe(self) -> str:
        """Name the function or the type of the iterable."""
        return f"items of {getattr(self._items, '__name__', type(self._items).__name__)}"

    def _start(self, position: _Position) -> Iterator[Any]:
        iterable = self._items() if callable(self._items) else self._items
        try:
            items = iter(iterable)
        except TypeError:
            raise UserError(
                f"{self.describe()} cannot be iterated over; give an iterable or a function that returns one"
            ) from None
        if items is iterable:
            if any(items is earlier for earlier in self._read):
                raise UserError(
                    f"{self.describe()} have been read by an earlier run, and an iterator gives them once; "
                    "give a function that makes a new iterator"
                )
            if position != _Position() and not callable(self._items):
                raise UserError(
                    f"{self.describe()} cannot be read again up to where reading stopped, as an iterator gives them "
                    "once; give a function that makes a new iterator"
                )
            self._read.append(items)
        return items


def _remake(items: Items, schema: pa.Schema, bounded: bool) -> IterableSource:
    return IterableSource(items, schema, bounded=bounded)


class _IterableReader(Reader):
    """Position: `_Position`."""

    def __init__(self, source: IterableSource, items: Iterator[Any], position: _Position) -> None:
        self._source = source
        self._puller = Puller(items, position.items)
        self._schema = source.schema
        self._taken = position.items
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None
        self._rest_rows = 0
        self._skip_rows = position.rows
        # Whoever does not watch asks again and again, so that each read waits a moment.
        self._watched = False
        # How many Nones came in a row.
        self._nones = 0

    def watch(self, wake: Callable[[], None]) -> bool:
        """Promise to say when items were pulled."""
        self._puller.on_ready = wake
        self._watched = True
        return True

    def read(self, max_rows: int) -> Read:
        """Return the rows that are there, of one Arrow item or of the items up to it."""
        while True:
            if self._batches is not None:
                rows = self._next_rows(max_rows)
                if rows is not None:
                    return Read(rows)
                self._check_skipped(0)
                self._batches = None
                self._taken += 1
            if not (self._puller.ready() if self._watched else self._puller.wait()):
                return NOTHING
            first = self._taken
            items, stop, nothing = self._puller.take(max_rows)
            self._taken += len(items)
            if isinstance(stop, ArrowItem):
                self._batches = batches_of(stop.item, self._schema)
                self._rest_rows = 0
            ended = isinstance(stop, End) and stop.error is None
            if items:
                self._nones = 0
                self._check_skipped(0)
                rows, errors = convert_rows(items, self._to_rows, self._schema)
                rejected = [_raw(items[index], first + index, reason) for index, reason in errors]
                return Read(rows if rows.num_rows else None, ended=ended, rejected=rejected)
            if isinstance(stop, End):
                self._raise(stop)
                return ENDED
            if nothing and not self._watched:
                return NOTHING
            if nothing:
                # The iterator is asked again at once; one that goes on giving Nones must not take the loop's time.
                self._nones = min(self._nones + 1, _MOST_DOUBLED)
                return Read(again_us=_FIRST_US << (self._nones - 1))
            self._nones = 0

    def position(self) -> dict[str, int]:
        """Return the items taken and the rows read of the next."""
        # Rows still to be skipped belong to an item that was not reached.
        return {"items": self._taken, "rows": self._rest_rows or self._skip_rows}

    def close(self) -> None:
        """Stop pulling; an iterator that blocks is left behind."""
        self._puller.close()

    def _raise(self, end: End) -> None:
        """Raise what the iterator raised, if it did, or that it ended too early."""
        if isinstance(end.error, Exception):
            raise UserError(
                f"{self._source.describe()} raised {type(end.error).__name__} "
                f"after {self._taken - end.missing} items: {end.error}"
            ) from end.error
        if end.error is not None:
            raise end.error
        self._check_skipped(end.missing)

    def _check_skipped(self, missing: int) -> None:
        """Raise `UserError` if what was read by an earlier run, up to the position, is not there to be passed over."""
        if missing or self._skip_rows:
            raise UserError(
                f"{self._source.describe()} are not those that were read before the restart, of which some are missing "
                "now: give a function that makes the same items each time"
            )

    def _next_rows(self, max_rows: int) -> pa.RecordBatch | None:
        """Return up to ``max_rows`` rows of the Arrow item, None at its end."""
        assert self._batches is not None
        while self._rest is None or self._rest.num_rows == 0:
            self._rest = next(self._batches, None)
            if self._rest is None:
                self._rest_rows = 0
                return None
            skipped = min(self._skip_rows, self._rest.num_rows)
            self._skip_rows -= skipped
            self._rest_rows += skipped
            self._rest = self._rest.slice(skipped)
        rows = self._rest.slice(0, max_rows)
        self._rest = self._rest.slice(rows.num_rows)
        self._rest_rows += rows.num_rows
        return rows

    def _to_rows(self, items: Sequence[Any]) -> pa.RecordBatch:
        records = [item if isinstance(item, Mapping) else _as_mapping(item) for item in items]
        columns = [to_column([record.get(field.name) for record in records], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _as_mapping(item: Any) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return dataclasses.asdict(item)
    raise TypeError(f"an item must be a mapping, a dataclass instance or Arrow rows, not {type(item).__name__}")


def _raw(item: Any, number: int, reason: str) -> RawRecord:
    """Quote an item as JSON, or as Python shows it where JSON cannot."""
    try:
        raw = msgspec.json.encode(item, enc_hook=str)
    except (TypeError, ValueError, RecursionError):
        raw = repr(item).encode("utf-8", "backslashreplace")
    return RawRecord(raw, f"item {number + 1}", reason)
