"""The manifest of a checkpoint: a list of all that belongs to it, as typed structs and as bytes.

A manifest's file is JSON, ``{"digest":"<BLAKE2b of the rest>","manifest":{...}}``, and stands for exactly one manifest:
its length and its digest are checked before anything of it is parsed (docs/design/checkpoints.md 3).
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from penstock.model.errors import BugError, CheckpointError
from penstock.state.checkpoints.operator_meaning import OperatorMeaning
from penstock.state.files.durable_files import NAME_PATTERN

FORMAT = 4
"""The version of manifests that are written."""

FORMATS = (1, 2, 3, FORMAT)
"""The versions that are read: manifests of version 1 have no meanings, those of version 2 no measured CPU, and those of
version 3 no state as images of buckets."""

MANIFEST_BYTES_LIMIT = 64 << 20
"""The longest manifest that is read."""

LAST_EPOCH = 9_999_999_999
"""The greatest epoch: ten digits name a manifest."""

Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Count = Annotated[int, msgspec.Meta(ge=0)]
NoteValue = int | float | str | bytes | None
"""The values that an operator may note beside its state."""


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A file of an instance: its name there, its BLAKE2b digest (32 bytes, as hexadecimal digits) and its bytes.

    ``run`` is the one that uploaded it (0: none had a lease), so that no earlier run deletes what a later one needs.
    """

    name: Name
    digest: Digest
    bytes: Count
    run: Count = 0

    @property
    def stored(self) -> str:
        """The name under which the repository keeps it."""
        return f"{self.digest}-{self.run:010d}" if self.run else self.digest


class WrappedNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A note that JSON cannot express: bytes, or a number that is not finite."""

    base64: bytes | None = None
    number: Literal["nan", "inf", "-inf"] | None = None


PackedNotes = dict[str, bool | int | float | str | WrappedNote | None]


class InstanceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The state of one operator instance.

    ``key_groups`` are half-open ranges of the key groups it owned; ``notes`` come from `pack_notes`.
    """

    operator: str
    instance: Count
    key_groups: tuple[tuple[Count, Count], ...] = ()
    files: tuple[FileEntry, ...] = ()
    notes: PackedNotes = {}

    def unpacked_notes(self) -> dict[str, NoteValue]:
        """Return the notes as they were packed."""
        return unpack_notes(self.notes)


class SourceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The position at which each partition of a source resumes, from `Reader.position`."""

    operator: str
    positions: dict[str, Any]


class SinkEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The receipts that a sink must commit, one per writer; they are JSON-able."""

    operator: str
    receipts: tuple[Any, ...]


class CheckpointManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All of one checkpoint. ``created_us`` is in microseconds since 1970 UTC; ``parallelism`` is per operator name.

    ``meanings`` say what the state of each operator stands for; None: it was not noted yet when this was written.
    ``measured_cpu`` is what an instance of each task took when it was measured last, percent of a core, by the task's
    name: where to place it when the job begins again.
    """

    job: Name
    epoch: Annotated[int, msgspec.Meta(ge=0, le=LAST_EPOCH)]
    created_us: int
    engine_version: str
    parallelism: dict[str, Annotated[int, msgspec.Meta(ge=1)]]
    key_groups: Annotated[int, msgspec.Meta(ge=1)]
    instances: tuple[InstanceEntry, ...] = ()
    sources: tuple[SourceEntry, ...] = ()
    sinks: tuple[SinkEntry, ...] = ()
    ledger: dict[str, Any] = {}
    meanings: dict[str, OperatorMeaning] | None = None
    measured_cpu: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}
    format: int = FORMAT

    def files(self) -> dict[str, FileEntry]:
        """Return an entry of every different file, by the name under which it is stored."""
        return {file.stored: file for instance in self.instances for file in instance.files}


def pack_notes(notes: Mapping[str, NoteValue]) -> PackedNotes:
    """Return notes as a manifest keeps them."""
    return {name: _packed(value) for name, value in notes.items()}


def unpack_notes(notes: PackedNotes) -> dict[str, NoteValue]:
    """Return notes as they were before they were packed."""
    return {name: _unpacked(value) for name, value in notes.items()}


def encode_manifest(manifest: CheckpointManifest) -> bytes:
    """Return the bytes of a manifest's file; equal manifests give equal bytes.

    Raises:
        BugError: the manifest could not be read back: a field out of its range, or a position, a receipt or a ledger
            that is not JSON.
    """
    for source in manifest.sources:
        _check_json(source.positions, f"the position of source {source.operator!r}")
    for sink in manifest.sinks:
        _check_json(sink.receipts, f"a receipt of sink {sink.operator!r}")
    _check_json(manifest.ledger, "the ledger")
    _check_json(manifest.measured_cpu, "the measured CPU")
    try:
        body = msgspec.json.encode(manifest, order="deterministic")
    except (TypeError, ValueError, OverflowError) as error:
        raise BugError(f"the manifest of epoch {manifest.epoch} cannot be written: {error}.") from error
    data = _HEAD + hashlib.blake2b(body, digest_size=32).hexdigest().encode() + _MIDDLE + body + _TAIL
    try:
        decode_manifest(data)
    except CheckpointError as error:
        raise BugError(f"the manifest of epoch {manifest.epoch} could not be read back: {error}") from error
    return data


def decode_manifest(data: bytes) -> CheckpointManifest:
    """Return the manifest in a file's bytes, having checked their digest first.

    Raises:
        CheckpointError: they are damaged, of another format, or no manifest.
    """
    start = len(_HEAD) + 64 + len(_MIDDLE)
    body = data[start : len(data) - len(_TAIL)]
    digest = hashlib.blake2b(body, digest_size=32).hexdigest().encode()
    if len(data) < start + len(_TAIL) or data != _HEAD + digest + _MIDDLE + body + _TAIL:
        raise CheckpointError("the manifest is damaged: its digest does not fit its bytes.")
    try:
        written = msgspec.json.decode(body, type=_AnyFormat).format
        if written not in FORMATS:
            raise CheckpointError(
                f"the manifest has format {written} and this version of Penstock reads formats up to {FORMAT}: "
                "use the version that wrote it."
            )
        return msgspec.json.decode(body, type=CheckpointManifest)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CheckpointError(f"the manifest is not one of a checkpoint: {error}.") from error


_HEAD, _MIDDLE, _TAIL = b'{"digest":"', b'","manifest":', b"}"


class _AnyFormat(msgspec.Struct, frozen=True):
    format: int


def _packed(value: NoteValue) -> bool | int | float | str | WrappedNote | None:
    if isinstance(value, bytes):
        return WrappedNote(base64=value)
    if isinstance(value, float) and not math.isfinite(value):
        return WrappedNote(number="nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
    return value


def _unpacked(value: bool | int | float | str | WrappedNote | None) -> NoteValue:
    if not isinstance(value, WrappedNote):
        return value
    return float(value.number) if value.number is not None else value.base64


def _check_json(value: Any, what: str) -> None:
    """Reject values that JSON would lose silently: numbers that are not finite, bytes, keys that are no text."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BugError(f"{what} is not JSON: the key {key!r} is no text.")
            _check_json(item, what)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_json(item, what)
    elif not (value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))):
        raise BugError(f"{what} is not JSON: it holds {value!r}.")
