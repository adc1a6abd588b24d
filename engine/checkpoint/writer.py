"""From the cuts of all instances to a checkpoint in the repository. Runs beside the worker loop."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from penstock.engine.dataflow.cut import InstanceCut, OperatorCut
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
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.private_files import make_private_folder

Receipts = Mapping[str, Sequence[Any]]
"""What the writers of each sink prepared and no checkpoint has committed yet, by the sink's name."""


class CheckpointWriter:
    """Writes one job's checkpoints."""

    def __init__(
        self,
        repository: CheckpointRepository,
        job: str,
        key_groups: int,
        version: str,
        wall_us: Callable[[], int],
        directory: Path,
        meanings: Mapping[str, OperatorMeaning] | None = None,
    ) -> None:
        """Write checkpoints of ``job`` to the repository; ``version`` is this program's.

        Copies of page stores lie below ``directory`` while they are uploaded. ``meanings`` are those of the job's
        operators; without them what goes on from the checkpoints is not checked.
        """
        self._meanings = None if meanings is None else dict(meanings)
        self._directory = directory
        self._repository = repository
        self._job = job
        self._key_groups = key_groups
        self._version = version
        self._wall_us = wall_us

    def upload(self, epoch: int, cuts: Sequence[InstanceCut], receipts: Receipts) -> CheckpointManifest:
        """Bring the state of all instances to the repository; return the manifest to publish.

        Raises:
            RetryableError: the storage failed.
        """
        try:
            failpoint("checkpoint.uploading")
            return self._upload(epoch, cuts, receipts)
        finally:
            for cut in cuts:
                cut.release()

    def _upload(self, epoch: int, cuts: Sequence[InstanceCut], receipts: Receipts) -> CheckpointManifest:
        self._repository.begin(epoch)
        operators = sorted(
            (operator for cut in cuts for operator in cut.operators), key=lambda cut: (cut.operator, cut.instance)
        )
        return CheckpointManifest(
            job=self._job,
            epoch=epoch,
            created_us=self._wall_us(),
            engine_version=self._version,
            parallelism=dict(Counter(cut.operator for cut in operators)),
            key_groups=self._key_groups,
            instances=tuple(self._entry(epoch, cut) for cut in operators),
            sources=tuple(_sources(operators)),
            sinks=tuple(SinkEntry(operator=name, receipts=tuple(items)) for name, items in sorted(receipts.items())),
            ledger=_ledger(operators),
            meanings=self._meanings,
        )

    def _entry(self, epoch: int, cut: OperatorCut) -> InstanceEntry:
        files: tuple[FileEntry, ...] = ()
        if cut.part is not None:
            files = (self._repository.add_file(epoch, STATE_FILE, encode_part(cut.part).to_pybytes()),)
        elif cut.pages is not None:
            files = self._add_pages(epoch, cut, cut.pages)
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


def _sources(operators: Iterable[OperatorCut]) -> Iterable[SourceEntry]:
    positions: dict[str, dict[str, Any]] = {}
    for cut in operators:
        if cut.positions is not None:
            positions.setdefault(cut.operator, {}).update(cut.positions)
    return [SourceEntry(operator=name, positions=known) for name, known in positions.items()]


def _ledger(operators: Iterable[OperatorCut]) -> dict[str, dict[str, int]]:
    totals: dict[str, Counter[str]] = {}
    for cut in operators:
        totals.setdefault(cut.operator, Counter()).update(cut.counters)
    return {name: dict(counted) for name, counted in totals.items()}
