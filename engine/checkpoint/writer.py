"""From cuts to a checkpoint: their files are uploaded where instances run, the manifest is made in one place."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from penstock.engine.dataflow.checkpoint_port import Contribution
from penstock.engine.dataflow.cut import InstanceCut, OperatorCut
from penstock.engine.paging.images_cut import ImagesCut
from penstock.engine.paging.pages_cut import PagesCut
from penstock.engine.paging.part_files import encode_part
from penstock.engine.restore.state_assignment import STATE_FILE
from penstock.model.failpoints import failpoint
from penstock.state.checkpoints.manifest import (
    CheckpointManifest,
    FileEntry,
    InstanceEntry,
    SinkEntry,
    SourceEntry,
    pack_notes,
)
from penstock.state.checkpoints.operator_meaning import OperatorMeaning
from penstock.state.checkpoints.uploads import CheckpointUploads
from penstock.state.files.private_files import make_private_folder

Receipts = Mapping[str, Sequence[Any]]
"""What the writers of each sink prepared and no checkpoint has committed yet, by the sink's name."""


class CutWriter:
    """Brings cuts to a repository. Runs beside the worker loop."""

    def __init__(self, repository: CheckpointUploads, directory: Path) -> None:
        """Copies of page stores lie below ``directory`` while they are uploaded."""
        self._repository = repository
        self._directory = directory

    def upload(self, epoch: int, cuts: Sequence[InstanceCut]) -> Contribution:
        """Upload the state of instances and release their cuts.

        Raises:
            RetryableError: the storage failed.
        """
        try:
            failpoint("checkpoint.uploading")
            operators = sorted(
                (operator for cut in cuts for operator in cut.operators), key=lambda cut: (cut.operator, cut.instance)
            )
            entries = tuple(self._entry(epoch, cut) for cut in operators)
            ended = Counter(operator.operator for cut in cuts if cut.ended for operator in cut.operators)
            return Contribution(entries, _positions(operators), _counters(operators), dict(ended))
        finally:
            for cut in cuts:
                cut.release()

    def _entry(self, epoch: int, cut: OperatorCut) -> InstanceEntry:
        files: tuple[FileEntry, ...] = ()
        if cut.part is not None:
            files = (self._repository.add_file(epoch, STATE_FILE, memoryview(encode_part(cut.part))),)
        elif isinstance(cut.buckets, ImagesCut):
            files = cut.buckets.write(self._repository.files_of(epoch))
        elif cut.buckets is not None:
            files = self._add_pages(epoch, cut, cut.buckets)
        return InstanceEntry(
            operator=cut.operator,
            instance=cut.instance,
            key_groups=cut.key_groups,
            files=files,
            notes=pack_notes(cut.notes),
        )

    def _add_pages(self, epoch: int, cut: OperatorCut, pages: PagesCut) -> tuple[FileEntry, ...]:
        directory = self._directory / f"epoch-{epoch}-{cut.instance}-{blake2b(cut.operator.encode()).hexdigest()[:16]}"
        shutil.rmtree(directory, ignore_errors=True)
        make_private_folder(directory.parent)
        try:
            return tuple(self._repository.add_file(epoch, path.name, path) for path in pages.write(directory))
        finally:
            shutil.rmtree(directory, ignore_errors=True)


class ManifestMaker:
    """Makes the manifests of one job's checkpoints."""

    def __init__(
        self,
        job: str,
        key_groups: int,
        version: str,
        wall_us: Callable[[], int],
        meanings: Mapping[str, OperatorMeaning] | None = None,
        seed: int = 0,
    ) -> None:
        """``version`` is this program's, ``meanings`` those of the job's operators.

        Without these what goes on from the checkpoints is not checked. ``seed`` is that of the job's samples.
        """
        self.job, self.seed = job, seed
        self._key_groups = key_groups
        self._version = version
        self._wall_us = wall_us
        self._meanings = None if meanings is None else dict(meanings)

    def make(self, epoch: int, contributions: Sequence[Contribution], receipts: Receipts) -> CheckpointManifest:
        """Return the manifest of what all places contribute."""
        entries = sorted(
            (entry for part in contributions for entry in part.entries),
            key=lambda entry: (entry.operator, entry.instance),
        )
        positions: dict[str, dict[str, Any]] = {}
        counters: dict[str, Counter[str]] = {}
        for part in contributions:
            for name, marks in part.positions.items():
                positions.setdefault(name, {}).update(marks)
            for name, counts in part.counters.items():
                counters.setdefault(name, Counter()).update(counts)
        return CheckpointManifest(
            job=self.job,
            epoch=epoch,
            created_us=self._wall_us(),
            engine_version=self._version,
            parallelism=dict(Counter(entry.operator for entry in entries)),
            key_groups=self._key_groups,
            instances=tuple(entries),
            sources=tuple(SourceEntry(operator=name, positions=marks) for name, marks in sorted(positions.items())),
            sinks=tuple(SinkEntry(operator=name, receipts=tuple(items)) for name, items in sorted(receipts.items())),
            ledger={name: dict(counts) for name, counts in sorted(counters.items())},
            meanings=self._meanings,
            measured_cpu={task: percent for part in contributions for task, percent in part.measured_cpu.items()},
        )


def _positions(operators: Iterable[OperatorCut]) -> dict[str, dict[str, Any]]:
    positions: dict[str, dict[str, Any]] = {}
    for cut in operators:
        if cut.positions is not None:
            positions.setdefault(cut.operator, {}).update(cut.positions)
    return positions


def _counters(operators: Iterable[OperatorCut]) -> dict[str, dict[str, int]]:
    totals: dict[str, Counter[str]] = {}
    for cut in operators:
        totals.setdefault(cut.operator, Counter()).update(cut.counters)
    return {name: dict(counted) for name, counted in totals.items()}
