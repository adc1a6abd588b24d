"""The manifest of a folder of committed files: which checkpoint added which. Called by `committed_files`."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.engine.connectors.files.finished_files import publish
from penstock.engine.connectors.files.staged_files import DIGEST_BYTES, OutputFile
from penstock.model.errors import FatalError

MANIFEST_BYTES = 1 << 30
"""The largest manifest that is read."""

VERSION = 1


class Epoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Files that the commit of one checkpoint added; ``accepted``: some were since changed or removed on purpose."""

    epoch: int
    files: tuple[OutputFile, ...]
    accepted: bool = False


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The committed files up to checkpoint ``epoch`` (0: nothing yet), by rising epochs; none without files.

    ``suffix`` is that of every file.
    """

    suffix: str
    epoch: int
    epochs: tuple[Epoch, ...] = ()
    version: int = VERSION

    def is_of(self, epoch: int, files: tuple[OutputFile, ...]) -> bool:
        """Return whether an epoch added these files, so far as that can still be told."""
        added = next((item for item in self.epochs if item.epoch == epoch), None)
        return files == () if added is None else added.accepted or added.files == files

    def all_files(self) -> dict[str, OutputFile]:
        """Return every file by name."""
        return {file.name: file for item in self.epochs for file in item.files}

    def extended(self, epoch: int, files: tuple[OutputFile, ...]) -> "Manifest":
        """Return the manifest after the commit of a later epoch."""
        added = (Epoch(epoch, files),) if files else ()
        return Manifest(self.suffix, epoch, (*self.epochs, *added))

    def with_files(self, current: Mapping[str, OutputFile | None]) -> "Manifest":
        """Return the manifest with each of its files as it is known now; None: it is gone."""
        epochs = []
        for item in self.epochs:
            files = tuple(now for file in item.files if (now := current[file.name]) is not None)
            epochs.append(item if files == item.files else Epoch(item.epoch, files, accepted=True))
        return Manifest(self.suffix, self.epoch, tuple(epochs))

    def rolled_back(self, epoch: int) -> "Manifest":
        """Return the manifest as it was after the commit of an earlier epoch."""
        return Manifest(self.suffix, epoch, tuple(item for item in self.epochs if item.epoch <= epoch))


class _Signed(msgspec.Struct, forbid_unknown_fields=True):
    digest: str
    manifest: msgspec.Raw


def write_manifest(folder: Path, manifest: Manifest, staging: Path) -> None:
    """Publish a manifest beside those of other epochs, at once and for good; until then it lies in ``staging``.

    Raises:
        OSError: it cannot be written.
    """
    raw = msgspec.json.encode(manifest)
    signed = msgspec.json.encode(_Signed(_digest(raw), msgspec.Raw(raw)))
    publish(manifest_path(folder, manifest.epoch), signed, staging, "sink.manifest")


def newest_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of the latest epoch; None if there is none.

    Raises:
        FatalError: it is damaged.
    """
    epochs = manifest_epochs(folder)
    if not epochs:
        return None
    path = manifest_path(folder, epochs[-1])
    try:
        manifest = _read(path)
    except (msgspec.MsgspecError, ValueError) as error:
        raise FatalError(
            f"the manifest {str(path)!r} is damaged ({error}): bring it back from a copy, or start the job anew"
        ) from None
    if manifest.epoch != epochs[-1]:
        raise FatalError(f"the manifest {str(path)!r} is that of checkpoint {manifest.epoch}: it was renamed")
    return manifest


def manifest_epochs(folder: Path) -> list[int]:
    """Return the epochs that a manifest is there for, rising."""
    numbers = [path.stem.removeprefix("manifest-") for path in folder.glob("manifest-*.json")]
    return sorted(int(number) for number in numbers if number.isdigit())


def manifest_path(folder: Path, epoch: int) -> Path:
    """Return where the manifest of an epoch is."""
    return folder / f"manifest-{epoch:010d}.json"


def _read(path: Path) -> Manifest:
    """Raise `ValueError` or a msgspec error if it is damaged."""
    if path.stat().st_size > MANIFEST_BYTES:
        raise ValueError(f"it is larger than {MANIFEST_BYTES} bytes")
    signed = msgspec.json.decode(path.read_bytes(), type=_Signed)
    if _digest(bytes(signed.manifest)) != signed.digest:
        raise ValueError("its digest differs")
    manifest = msgspec.json.decode(signed.manifest, type=Manifest)
    if manifest.version != VERSION:
        raise ValueError(f"it has version {manifest.version}, and this Penstock reads version {VERSION}")
    return manifest


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()
