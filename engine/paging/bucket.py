"""One bucket of a paged operator: the state of a range of keys, in memory with its operator, or in the page store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.engine.core.contract import Notes, Operator
from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.paging.bucket_files import KeptBucket
from penstock.engine.paging.key_ranges import Span
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import StoreDump

SWEPT, PASSED = "paging swept_us", "paging passed_us"
"""The notes that say up to which watermark a bucket, or a whole operator, has come, and which one has gone out."""


def swept_us(notes: Notes) -> int:
    """Return up to which watermark a bucket with these notes has come."""
    return int(notes.get(SWEPT, START_OF_TIME_US) or 0)


@dataclass(frozen=True, slots=True)
class BucketSource:
    """State of a checkpoint that lies within ``span``: about ``bytes``, read by ``load`` (None: there is none).

    Others may share what is loaded and lie elsewhere, so it is filtered by the span.
    """

    span: Span
    bytes: int
    notes: Notes
    load: Callable[[], StoreDump | None]


@dataclass(slots=True)
class Bucket:
    """State of the keys in ``span`` that its instance owns.

    ``dirty``: used since it was last stored. ``stored``: pages hold what it was then. ``paged_bytes`` is the size of
    what is stored, ``needed_bytes`` what it last took in memory. Up to ``whole_bytes`` cutting it is of no use.

    ``segments`` are the lengths of the images that are stored. ``log_rows``: they hold nothing but so many rows of each
    log, numbered from 0 on, so that rows that are appended can be stored behind them; None: more than that.
    ``stored_changes`` is what `MemoryStore.changes` was of them. ``awaited``: another instance is about to give it.
    ``visited_bytes`` is its size when it last had a turn. ``kept`` is what checkpoints have of it as files, and it is
    as that says if it ``is_kept``.
    """

    span: Span
    held: "ResidentState | None" = None
    stored: bool = False
    dirty: bool = False
    used: int = 0
    paged_bytes: int = 0
    segments: tuple[int, ...] = ()
    log_rows: Mapping[str, int] | None = None
    stored_changes: int | None = None
    needed_bytes: int = 0
    whole_bytes: int = 0
    watermark_us: int = START_OF_TIME_US
    paged_due_us: int | None = None
    paged_timer_ns: int | None = None
    awaited: bool = False
    visited_bytes: int = 0
    kept: KeptBucket | None = None
    is_kept: bool = False

    @property
    def is_resident(self) -> bool:
        """True if it is in memory."""
        return self.held is not None

    @property
    def operator(self) -> Operator:
        """The bucket's operator; it must be in memory."""
        assert self.held is not None
        return self.held.operator

    @property
    def bytes(self) -> int:
        """Bytes of memory it takes."""
        held = self.held
        return 0 if held is None else held.store.bytes_used()

    def notes(self) -> Notes:
        """Return the notes of its operator and how far it has come."""
        return {**self.operator.notes(), SWEPT: self.watermark_us}

    def touch(self) -> None:
        """It is about to be used, and may be changed."""
        self.dirty, self.is_kept = True, False

    def due_us(self) -> int | None:
        """Return a watermark below which nothing would come of it, as `Operator.due_us`."""
        return self.paged_due_us if self.held is None else self.held.operator.due_us()

    def timer_ns(self) -> int | None:
        """Return when its timer is due."""
        return self.paged_timer_ns if self.held is None else self.held.operator.timer_ns()


@dataclass(frozen=True, slots=True)
class ResidentState:
    """The operator and store of a bucket in memory."""

    operator: Operator
    store: MemoryStore = field(repr=False)
