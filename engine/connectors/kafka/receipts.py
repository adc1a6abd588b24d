"""Receipts of one Kafka sink instance for a checkpoint, and the marker that says how far a run is published.

Values only; `kept_epochs` writes what a receipt stands for, `markers` brings markers to the broker and back.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.model.errors import FatalError


class Marker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that one transactional id prepared up to ``epoch`` in ``run`` is published, and nothing after it.

    A *run* is a line of checkpoints of which each goes on from the one before: an id drawn when a job begins anew.
    ``start`` is an id drawn at every start of the sink: who finds another one than its own has lost the id.
    """

    run: str
    epoch: int
    start: str


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The messages of one transactional id between two barriers, the later one being that of ``epoch``.

    ``run`` and ``start`` are those of the markers that the writer's sink leaves. ``file`` is the name of the kept file
    (None without messages), with its size in bytes and its BLAKE2b digest in hexadecimal.
    """

    run: str
    start: str
    transactional_id: str
    epoch: int
    rows: int
    file: str | None = None
    bytes: int = 0
    digest: str = ""


def to_claim(claim: Marker) -> dict[str, Any]:
    """Return what `from_claim` understands, as JSON-able data."""
    built: dict[str, Any] = msgspec.to_builtins(claim)
    return built


def from_claim(claim: Any) -> Marker:
    """Return the claim of writers.

    Raises:
        FatalError: it is none of a Kafka sink.
    """
    try:
        return msgspec.convert(claim, Marker)
    except msgspec.ValidationError as error:
        raise FatalError(f"what the writers have is no claim of a Kafka sink: {error}") from None


def to_receipt(receipt: Receipt) -> dict[str, Any]:
    """Return what `from_receipts` understands, as JSON-able data."""
    built: dict[str, Any] = msgspec.to_builtins(receipt)
    return built


def from_receipts(receipts: Iterable[Any], epoch: int) -> tuple[Receipt, ...]:
    """Return the receipts of a checkpoint by rising epochs.

    Raises:
        FatalError: they are not those of a Kafka sink up to ``epoch``.
    """
    try:
        decoded = [msgspec.convert(receipt, Receipt) for receipt in receipts]
    except msgspec.ValidationError as error:
        raise FatalError(f"the receipts of checkpoint {epoch} are not those of a Kafka sink: {error}") from None
    strange = [receipt.epoch for receipt in decoded if not 0 < receipt.epoch <= epoch]
    if strange:
        raise FatalError(f"the receipts of checkpoint {epoch} name epoch {strange[0]}, which is none of its own")
    return tuple(sorted(decoded, key=lambda receipt: receipt.epoch))
