"""The check that committed files still hold what was written. Called by `committed_files`.

Every file is looked for and its size compared; digests are taken of the newest only, up to `DIGESTED_BYTES` in all, so
that a start costs the same after a year as after an hour.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from penstock.engine.connectors.files.staged_files import OutputFile, file_digest
from penstock.model.errors import FatalError

DIGESTED_BYTES = 64 << 20
"""How much of the newest output is read at a start."""

_NAMED = 3
"""How many files an error names."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A committed file that is not what was written; ``now`` is what there is, None: it is gone."""

    file: OutputFile
    now: OutputFile | None

    def __str__(self) -> str:
        name = repr(self.file.name)
        if self.now is None:
            return f"{name} is gone"
        if self.now.bytes != self.file.bytes:
            return f"{name} has {self.now.bytes:,} bytes where {self.file.bytes:,} were written"
        return f"{name} holds other bytes than were written"


def changed_files(
    folder: Path, files: Collection[OutputFile], digested_bytes: int = DIGESTED_BYTES
) -> tuple[Changed, ...]:
    """Return the files that are not what was written, by name; of the newest ``digested_bytes`` every byte is compared.

    Raises:
        OSError: the folder cannot be read.
    """
    with os.scandir(folder) as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
    changes = _compared(folder, files, sizes, digested_bytes)
    return tuple(sorted(changes, key=lambda item: item.file.name))


def refusal(folder: Path, changed: Collection[Changed], committed: int, sink: str | None) -> FatalError:
    """Return the error that names some of the changed files, of so many committed ones, and the ways out.

    ``sink`` is the name of the sink's operator.
    """
    named = "; ".join(map(str, [*changed][:_NAMED])) + ("; ..." if len(changed) > _NAMED else "")
    name = "the sink's name" if sink is None else repr(sink)
    option = "" if sink is None else f" (--accept-changed {quote(sink)})"
    return FatalError(
        f"{len(changed):,} of {committed:,} files that checkpoints have committed to {str(folder)!r} are not what was "
        f"written: {named}. Bring them back from a copy; or, if this was done on purpose, go on without what is gone "
        f"and with what there is: accept_changed={name}{option}."
    )


def _compared(
    folder: Path, files: Iterable[OutputFile], sizes: dict[str, int], digested_bytes: int
) -> Iterator[Changed]:
    left_bytes = digested_bytes
    for file in sorted(files, key=lambda item: item.epoch, reverse=True):
        size = sizes.get(file.name)
        if size is None:
            yield Changed(file, None)
            continue
        left_bytes -= file.bytes
        if size == file.bytes and left_bytes < 0:
            continue
        _, digest = file_digest(folder / file.name)
        if size != file.bytes or digest != file.digest:
            yield Changed(file, OutputFile(file.name, file.rows, size, digest))
