"""The assignment of a checkpoint's state to the instances of a plan, whose parallelism may be another.

The state of an operator follows its name. `build` asks for what each instance begins with.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.engine.core.contract import Notes, RowCounters
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.paging.bucket import BucketSource
from penstock.engine.paging.bucket_files import IndexedBucket, read_images, read_index
from penstock.engine.paging.bucket_pages import headers, read_bucket
from penstock.engine.paging.key_ranges import owned_spans
from penstock.engine.paging.part_files import decode_part
from penstock.engine.restore.key_group_owners import Noted, noted_owners
from penstock.engine.restore.state_migration import Adapt
from penstock.model.errors import UserError
from penstock.model.key_groups import Owners, key_groups_at
from penstock.state.checkpoints.content_files import ContentFolder
from penstock.state.checkpoints.manifest import InstanceEntry
from penstock.state.checkpoints.results import LoadedCheckpoint
from penstock.state.files.private_files import make_private_folder
from penstock.state.store import Positions
from penstock.state.stores.page_store import PageStore, PageStores
from penstock.state.tables.image import EMPTY, Chosen, StoreDump, StoreImage

STATE_FILE = "state"
"""The name of an instance's file of `part_files`."""


@dataclass(frozen=True, slots=True)
class OperatorStart:
    """The initial state of one operator instance: an image, or ``sources`` if it is paged."""

    image: StoreImage = EMPTY
    notes: tuple[Notes, ...] = ()
    counters: RowCounters = field(default_factory=RowCounters)
    sources: tuple[BucketSource, ...] = ()


@dataclass(frozen=True, slots=True)
class StateFit:
    """The fit of a checkpoint: ``dropped`` state by operator, and state ``adapted`` to what its operator is now."""

    dropped: frozenset[str] = frozenset()
    adapted: Mapping[str, Adapt] = field(default_factory=dict)


FITS = StateFit()
"""Everything goes on as it is."""


class RestoredState:
    """A checkpoint, verified, and how to read its files."""

    def __init__(
        self,
        loaded: LoadedCheckpoint,
        files: ContentFolder,
        directory: Path,
        page_stores: PageStores,
        fitting: StateFit = FITS,
    ) -> None:
        """Read state when it is asked for; page stores are opened below ``directory``, which goes with `close`.

        ``fitting`` says what of it is left behind, and what is laid out anew.
        """
        self.closed: frozenset[str] = frozenset()
        """Sources behind which an earlier run closed what is open by event time, so that they may bring no row."""
        self.is_afresh = False
        """Whether watermarks begin anew; see `begin_afresh`."""
        self.manifest = manifest = loaded.manifest
        self.savepoint = loaded.savepoint
        """Its name; None: it is a checkpoint."""
        self._fitting = fitting
        self._files = files
        self._directory = directory
        self._page_stores = page_stores
        self._opened: list[PageStore] = []
        self._sources: dict[tuple[str, int], tuple[BucketSource, ...]] = {}
        self._instances: dict[str, list[InstanceEntry]] = {}
        dropped = fitting.dropped
        for entry in manifest.instances:
            if entry.operator not in dropped:
                self._instances.setdefault(entry.operator, []).append(entry)
        for entries in self._instances.values():
            entries.sort(key=lambda entry: entry.instance)
        self._owners = {name: noted_owners(item, manifest.key_groups) for name, item in self._instances.items()}
        self._positions = {item.operator: item.positions for item in manifest.sources if item.operator not in dropped}
        self._receipts = {sink.operator: sink.receipts for sink in manifest.sinks}

    @property
    def epoch(self) -> int:
        """The checkpoint's epoch."""
        return self.manifest.epoch

    def at_end(self) -> frozenset[str]:
        """Return the operators that were told that no row follows: their inputs had ended, and their windows closed.

        Operators that keep no time do not mind, and are not among them.
        """
        return frozenset(
            entry.operator for entry in self.manifest.instances if END_OF_TIME_US in entry.unpacked_notes().values()
        )

    def begin_afresh(self) -> None:
        """Let operators take in rows again after the end of time: their watermarks begin anew."""
        self.is_afresh = True

    def _opened_again(self, notes: Notes) -> Notes:
        if not self.is_afresh:
            return notes
        return {name: START_OF_TIME_US if value == END_OF_TIME_US else value for name, value in notes.items()}

    def operators(self) -> frozenset[str]:
        """Return the names of the operators, sources and sinks that the checkpoint knows."""
        return frozenset(self.manifest.parallelism)

    def owners(self) -> Mapping[str, Noted]:
        """Return the instance that owned each key group, by operator."""
        return {name: Noted(owners, len(self._instances[name])) for name, owners in self._owners.items()}

    def paged_start_of(self, operator: str, instance: int, owners: Owners) -> OperatorStart:
        """Return what an instance of a paged operator begins with: the buckets of all that had what it owns now."""
        before = self._instances.get(operator, [])
        givers = self._givers(operator, instance, owners)
        sources = tuple(source for entry in givers for source in self._sources_of(entry))
        notes = tuple(self._opened_again(entry.unpacked_notes()) for entry in before)
        return OperatorStart(notes=notes, counters=self._counters(operator, instance), sources=sources)

    def close(self) -> None:
        """Close the page stores that were opened and remove their files; every instance has begun."""
        for pages in self._opened:
            pages.close()
        self._opened.clear()
        self._sources.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start_of(self, operator: str, instance: int, parallelism: int, owners: Owners, keyed: bool) -> OperatorStart:
        """Return what an instance begins with; ``owners[g]`` is the instance that owns key group g now.

        State without keys goes to the instance of the same number, what has none any more to those that remain in turn.
        """
        before = self._instances.get(operator)
        if before is None:
            return OperatorStart(counters=self._counters(operator, instance))
        chosen: Chosen | None = None
        noting = givers = before[instance::parallelism]
        if keyed:
            givers = self._givers(operator, instance, owners)
            noting = givers
            if not np.array_equal(self._owners[operator], owners):
                noting, chosen = before, _owned_by(instance, owners)
        parts = [part for entry in givers if (part := self._part(entry)) is not None]
        notes = tuple(self._opened_again(entry.unpacked_notes()) for entry in noting)
        return OperatorStart(StoreImage(parts, chosen), notes, self._counters(operator, instance))

    def check_parallelism(self, operator: str, parallelism: int) -> None:
        """Refuse to deal out the state of a join that meets a broadcast side, for it does not lie by key.

        Raises:
            UserError: it had another parallelism.
        """
        before = len(self._instances.get(operator, ()))
        if before not in (0, parallelism):
            raise UserError(
                f"the join {operator!r} meets a broadcast side, so its state does not lie by key and cannot be dealt "
                f"out anew: restore it at parallelism {before}, not {parallelism}."
            )

    def positions(self, source: str) -> Mapping[str, Any]:
        """Return where the partitions of a source go on, those of all instances."""
        return self._positions.get(source, {})

    def receipts(self, sink: str) -> Sequence[Any]:
        """Return what the writers of a sink had prepared and not committed."""
        return self._receipts.get(sink, ())

    def sinks(self) -> Sequence[str]:
        """Return the names of the sinks that had prepared something for the checkpoint."""
        return [name for name, receipts in self._receipts.items() if any(receipts)]

    def _counters(self, operator: str, instance: int) -> RowCounters:
        """Return the rows that all instances had counted, for the first one."""
        counted = self.manifest.ledger.get(operator)
        return RowCounters(**counted) if counted and instance == 0 else RowCounters()

    def _givers(self, operator: str, instance: int, owners: Owners) -> list[InstanceEntry]:
        """Return what was kept of those that owned a key group which is an instance's now."""
        before = self._owners.get(operator)
        if before is None or len(before) != len(owners):
            return self._instances.get(operator, [])
        numbers = frozenset(before[owners == instance].tolist())
        return [entry for entry in self._instances[operator] if entry.instance in numbers]

    def _part(self, entry: InstanceEntry) -> StoreDump | None:
        files = [file for file in entry.files if file.name == STATE_FILE]
        if not files:
            return None
        return self._adapted(entry.operator, decode_part(self._files.read(files[0]), self._where(entry)))

    def _where(self, entry: InstanceEntry) -> str:
        return f"epoch {self.epoch}, operator {entry.operator!r}, instance {entry.instance}"

    def _sources_of(self, entry: InstanceEntry) -> tuple[BucketSource, ...]:
        key = (entry.operator, entry.instance)
        if key not in self._sources:
            index = read_index(entry.files, self._files.read, self._where(entry))
            if index is not None:
                sources = self._indexed_sources(entry, index)
            elif any(file.name != STATE_FILE for file in entry.files):
                sources = self._paged_sources(entry)
            else:
                sources = self._image_sources(entry)
            self._sources[key] = tuple(sources)
        return self._sources[key]

    def _image_sources(self, entry: InstanceEntry) -> Iterator[BucketSource]:
        size = sum(file.bytes for file in entry.files)
        load = cache(lambda: self._part(entry))
        for span in owned_spans(self._owners[entry.operator], entry.instance):
            yield BucketSource(span, size, self._opened_again(entry.unpacked_notes()), load)

    def _indexed_sources(self, entry: InstanceEntry, index: Sequence[IndexedBucket]) -> Iterator[BucketSource]:
        owned = owned_spans(self._owners[entry.operator], entry.instance)
        for bucket in index:
            load = partial(self._indexed_part, entry, bucket)
            for both in filter(None, (bucket.span & span for span in owned)):
                yield BucketSource(both, bucket.image_bytes, self._opened_again(bucket.notes), load)

    def _indexed_part(self, entry: InstanceEntry, bucket: IndexedBucket) -> StoreDump | None:
        part = read_images(bucket, entry.files, self._files.read, self._where(entry))
        return None if part is None else self._adapted(entry.operator, part)

    def _paged_sources(self, entry: InstanceEntry) -> Iterator[BucketSource]:
        directory = self._directory / f"{len(self._opened)}"
        make_private_folder(directory)
        for file in entry.files:
            self._files.fetch(file, directory / file.name)
        pages = self._page_stores.restore(directory)
        self._opened.append(pages)
        owned = owned_spans(self._owners[entry.operator], entry.instance)
        for header in headers(pages):
            load = partial(self._bucket_part, entry.operator, pages, header.low)
            # A bucket reaches over what lies between the ranges of its instance, which is not its own.
            for both in filter(None, (header.span & span for span in owned)):
                yield BucketSource(both, header.image_bytes, self._opened_again(header.notes), load)

    def _bucket_part(self, operator: str, pages: PageStore, low: int) -> StoreDump | None:
        part = read_bucket(pages, low).part
        return None if part is None else self._adapted(operator, part)

    def _adapted(self, operator: str, part: StoreDump) -> StoreDump:
        adapt = self._fitting.adapted.get(operator)
        return part if adapt is None else adapt(part)


def _owned_by(instance: int, owners: Owners) -> Chosen:
    def chosen(positions: Positions) -> NDArray[np.bool_]:
        mine: NDArray[np.bool_] = owners[key_groups_at(positions, len(owners))] == instance
        return mine

    return chosen
