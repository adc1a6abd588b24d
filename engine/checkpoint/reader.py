"""A checkpoint or savepoint as people look at it: operators, tables, rows, positions; nothing of a job is needed.

Behind `penstock.read_checkpoint` and ``penstock state``. Every byte was checked before it is
read, and what is read is JSON and Arrow only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pyarrow as pa

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket_files import read_images, read_index
from penstock.engine.paging.bucket_pages import headers, read_bucket
from penstock.engine.paging.part_files import decode_part
from penstock.engine.plan.state_names import shown_names
from penstock.engine.restore.state_assignment import STATE_FILE
from penstock.model.errors import CheckpointError, OptionError
from penstock.state.checkpoints.manifest import CheckpointManifest, InstanceEntry
from penstock.state.checkpoints.operator_meaning import OperatorMeaning
from penstock.state.checkpoints.repository import CHECKPOINTS, CheckpointRepository
from penstock.state.checkpoints.results import LoadedCheckpoint
from penstock.state.checkpoints.savepoints import SAVEPOINTS
from penstock.state.files.arrow_files import open_files
from penstock.state.stores.page_store import PageStores
from penstock.state.stores.rocksdb_store import RocksDbStores
from penstock.state.tables.image import StoreDump, table_form

INTERNAL = "$"
"""What the names of columns begin with that say how a store keeps its rows."""

INSTANCE = "$instance"

_EPOCH = re.compile(r"(?P<where>.+)@(?P<epoch>[0-9]{1,10})\Z", re.DOTALL)
_SAVEPOINT = re.compile(r"(?P<where>.+)#(?P<savepoint>[^#/]+)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class KeptTable:
    """A table or a log of an operator, all instances together; ``bytes`` are those of its columns in memory."""

    name: str
    kind: Literal["table", "log"]
    rows: int
    bytes: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeptOperator:
    """The part of a checkpoint that belongs to one operator, source or sink.

    ``file_bytes`` are those of its files; ``notes`` one mapping an instance, those that noted something; ``positions``
    where the partitions of a source go on; ``receipts`` what the writers of a sink prepared; ``rows`` its row counters.
    """

    operator: str
    instances: int
    file_bytes: int
    tables: tuple[KeptTable, ...]
    notes: tuple[Notes, ...]
    positions: Mapping[str, Any]
    receipts: tuple[Any, ...]
    rows: Mapping[str, int]


class Checkpoint:
    """A checkpoint whose every byte was checked. Rows are read when they are asked for."""

    def __init__(
        self, repository: CheckpointRepository, loaded: LoadedCheckpoint, page_stores: PageStores | None = None
    ) -> None:
        """Keep what was loaded from the repository; use `read_checkpoint`. Page stores are RocksDB's by default."""
        self._page_stores = page_stores or RocksDbStores()
        self._files = repository.contents(loaded.savepoint)
        self._loaded = loaded

    def __repr__(self) -> str:
        name = "" if self.savepoint is None else f", savepoint {self.savepoint!r}"
        return f"<Checkpoint of job {self.job!r}, epoch {self.epoch}{name}>"

    @property
    def manifest(self) -> CheckpointManifest:
        """The manifest."""
        return self._loaded.manifest

    @property
    def job(self) -> str:
        """The job's name."""
        return self.manifest.job

    @property
    def epoch(self) -> int:
        """The number of the checkpoint."""
        return self.manifest.epoch

    @property
    def created_us(self) -> int:
        """The time of the checkpoint, in microseconds since 1970 UTC."""
        return self.manifest.created_us

    @property
    def savepoint(self) -> str | None:
        """The savepoint's name, None for a checkpoint."""
        return self._loaded.savepoint

    @property
    def warning(self) -> str | None:
        """Names the newer checkpoints that are damaged and were passed over; None if none was."""
        return self._loaded.warning()

    def operators(self) -> tuple[KeptOperator, ...]:
        """Return what there is of every operator, source and sink, by name.

        Raises:
            CheckpointError: a file was deleted meanwhile, or cannot be read.
        """
        manifest = self.manifest
        positions = {source.operator: source.positions for source in manifest.sources}
        receipts = {sink.operator: sink.receipts for sink in manifest.sinks}
        operators = []
        for name, instances in sorted(manifest.parallelism.items()):
            entries = self._entries(name)
            files = {file.digest: file.bytes for entry in entries for file in entry.files}
            operators.append(
                KeptOperator(
                    operator=name,
                    instances=instances,
                    file_bytes=sum(files.values()),
                    tables=self._tables_of(name),
                    notes=tuple(notes for entry in entries if (notes := entry.unpacked_notes())),
                    positions=positions.get(name, {}),
                    receipts=receipts.get(name, ()),
                    rows=manifest.ledger.get(name, {}),
                )
            )
        return tuple(operators)

    def tables(self, *, internal: bool = False) -> dict[str, dict[str, pa.Table]]:
        """Return all rows: by operator and by table, keys and what aggregates keep by the names of the pipeline.

        ``internal`` keeps the columns whose names begin with ``$`` (slots, row ids, key positions), and adds
        ``$instance``.

        Raises:
            CheckpointError: a file was deleted meanwhile, or cannot be read.
        """
        tables_by_operator = {
            name: self.tables_of(name, internal=internal) for name in sorted(self.manifest.parallelism)
        }
        return {name: tables for name, tables in tables_by_operator.items() if tables}

    def tables_of(self, operator: str, *, internal: bool = False) -> dict[str, pa.Table]:
        """Return the rows of one operator by table; see `tables`.

        Raises:
            OptionError: there is no such operator.
            CheckpointError: a file was deleted meanwhile, or cannot be read.
        """
        if operator not in self.manifest.parallelism:
            names = ", ".join(map(repr, sorted(self.manifest.parallelism)))
            raise OptionError(f"the checkpoint of epoch {self.epoch} has no operator {operator!r}; it has {names}.")
        pieces: dict[str, list[pa.Table]] = {}
        for instance, part in self._parts(operator):
            for name, batches in part.batches.items():
                rows = pa.Table.from_batches(list(batches))
                rows = rows.rename_columns(shown_names(name, rows.schema, self._meaning(operator)))
                if internal:
                    number = pa.repeat(pa.scalar(instance, pa.int32()), rows.num_rows)
                    rows = rows.add_column(0, INSTANCE, number)
                pieces.setdefault(name, []).append(rows if internal else _shown(rows))
        return {name: pa.concat_tables(tables) for name, tables in sorted(pieces.items())}

    def _tables_of(self, operator: str) -> tuple[KeptTable, ...]:
        tables: dict[str, KeptTable] = {}
        for _, part in self._parts(operator):
            for name, batches in part.batches.items():
                schema = batches[0].schema
                shown = shown_names(name, schema, self._meaning(operator))
                before = tables.get(name)
                tables[name] = KeptTable(
                    name,
                    "log" if table_form(schema) is None else "table",
                    sum(rows.num_rows for rows in batches) + (before.rows if before else 0),
                    sum(rows.nbytes for rows in batches) + (before.bytes if before else 0),
                    tuple(column for column in shown if not column.startswith(INTERNAL)),
                )
        return tuple(table for _, table in sorted(tables.items()))

    def _meaning(self, operator: str) -> OperatorMeaning | None:
        return (self.manifest.meanings or {}).get(operator)

    def _entries(self, operator: str) -> list[InstanceEntry]:
        return [entry for entry in self.manifest.instances if entry.operator == operator]

    def _parts(self, operator: str) -> Iterator[tuple[int, StoreDump]]:
        """Yield what the stores of an operator held, with the number of the instance."""
        for entry in self._entries(operator):
            where = f"epoch {self.epoch}, operator {operator!r}, instance {entry.instance}"
            index = read_index(entry.files, self._files.read, where)
            if index is not None:
                parts = (read_images(bucket, entry.files, self._files.read, where) for bucket in index)
                yield from ((entry.instance, part) for part in parts if part is not None)
                continue
            if any(file.name != STATE_FILE for file in entry.files):
                yield from ((entry.instance, part) for part in self._paged_parts(entry))
                continue
            for file in entry.files:
                yield entry.instance, decode_part(self._files.read(file), where)

    def _paged_parts(self, entry: InstanceEntry) -> Iterator[StoreDump]:
        """Yield what the buckets of a paged operator held, one after the other, from a copy of its page store."""
        with TemporaryDirectory(prefix="penstock-") as directory:
            for file in entry.files:
                self._files.fetch(file, Path(directory, file.name))
            pages = self._page_stores.restore(Path(directory))
            try:
                for header in headers(pages):
                    part = read_bucket(pages, header.low).part
                    if part is not None:
                        yield part
            finally:
                pages.close()


def read_checkpoint(where: str | PathLike[str]) -> Checkpoint:
    """Open a checkpoint to look at it, without the job: also while it runs.

    ``where`` is the directory (or URL) of a job's checkpoints, ``CHECKPOINT_DIR/JOB``, or the one above if it holds
    only one job: its newest complete checkpoint. ``DIR@EPOCH`` is a certain one, ``DIR#NAME`` a savepoint.

    Raises:
        OptionError: the address cannot be used, or names several jobs.
        CheckpointError: there is no such checkpoint, or it is damaged.
    """
    text = fspath(where)
    epoch: int | None = None
    savepoint: str | None = None
    if match := _SAVEPOINT.match(text):
        text, savepoint = match["where"], match["savepoint"]
    elif match := _EPOCH.match(text):
        text, epoch = match["where"], int(match["epoch"])
    repository = CheckpointRepository(open_files(text, *_job_below(text)))
    if savepoint is not None:
        return Checkpoint(repository, repository.savepoint(savepoint))
    loaded = repository.latest() if epoch is None else repository.load(epoch)
    if loaded is None:
        names = ", ".join(f"{text}#{name}" for name in repository.savepoints())
        raise CheckpointError(
            f"no checkpoint was completed in {text}{f'; there are savepoints: {names}' * bool(names)}."
        )
    return Checkpoint(repository, loaded)


def _job_below(directory: str) -> Sequence[str]:
    """Return the name of the only job below a directory, nothing if it is a job's own."""
    folders = open_files(directory).folders("")
    if _is_jobs(folders):
        return ()
    jobs = [name for name in folders if _is_jobs(_folders(directory, name))]
    if len(jobs) > 1:
        raise OptionError(
            f"{directory} holds checkpoints of several jobs, {', '.join(jobs)}: name one, such as "
            f"{directory.rstrip('/')}/{jobs[0]}."
        )
    if not jobs:
        raise CheckpointError(f"there are no checkpoints in {directory}.")
    return jobs


def _folders(directory: str, name: str) -> Sequence[str]:
    try:
        return open_files(directory, name).folders("")
    except OptionError:
        # Not a name that a job could have.
        return ()


def _is_jobs(folders: Sequence[str]) -> bool:
    return CHECKPOINTS in folders or SAVEPOINTS in folders


def _shown(rows: pa.Table) -> pa.Table:
    """Return the rows without what belongs to their store."""
    kept = rows.select([name for name in rows.column_names if not name.startswith(INTERNAL)])
    return pa.Table.from_arrays(kept.columns, schema=pa.schema([field.remove_metadata() for field in kept.schema]))
