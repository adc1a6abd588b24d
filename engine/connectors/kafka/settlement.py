"""The settlement of a start: epochs to publish before a job resumes from a checkpoint, or the reason it may not.

Pure: from the receipts of the checkpoint and the markers on the broker to what is published under which id
(docs/design/kafka.md 4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.engine.connectors.kafka.receipts import Marker, Receipt
from penstock.engine.connectors.kafka.transactions import Publish
from penstock.model.errors import FatalError

ACCEPT = "start with --accept-duplicates (accept_duplicates=True)"


@dataclass(frozen=True, slots=True)
class Settlement:
    """``publishes`` holds, for every id, what is published and the claim, the marker that is left under all of them.

    ``doubts`` are the ids whose output may be there twice afterwards, which was accepted; then a new run begins. After
    two starts that worked at the same time, what only the one that lost has kept may be missing, too.
    """

    claim: Marker
    publishes: Mapping[str, Publish]
    doubts: tuple[str, ...] = ()


def settled_ids(own: Sequence[str], receipts: Sequence[Receipt]) -> tuple[str, ...]:
    """Return the ids that a start takes, in the order in which everything is done: the job's own ones first.

    Every start has the first one, so that whoever lost it has lost all.
    """
    return tuple(dict.fromkeys((*own, *sorted(receipt.transactional_id for receipt in receipts))))


def settle(
    epoch: int | None,
    receipts: Sequence[Receipt],
    markers: Mapping[str, Marker | None],
    *,
    start: str,
    accept_duplicates: bool = False,
) -> Settlement:
    """Decide how a job goes on from ``epoch`` (None: it begins anew) with these receipts, by rising epochs.

    Without receipts the checkpoint does not know the sink, which begins behind it.

    ``markers`` are those of `settled_ids`, in that order; ``start`` is this start's id, and that of a run that begins.

    Raises:
        FatalError: something after the checkpoint is published already, or that cannot be told; with
            ``accept_duplicates`` it is passed over.
    """
    if epoch is None or not receipts:
        later = {} if epoch is None else _published_behind(epoch, markers)
        if later and not accept_duplicates:
            raise FatalError(next(iter(later.values())))
        # Nothing of the run is published yet, not even up to the checkpoint it begins behind.
        claim = Marker(start, 0, start)
        return Settlement(claim, dict.fromkeys(markers, Publish(claim, claim=True)), tuple(later))
    last = receipts[-1]
    due: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        if receipt.run == last.run:
            due.setdefault(receipt.transactional_id, []).append(receipt)
    doubts = {name: doubt for name in markers if (doubt := _doubt(name, markers[name], last, epoch, name in due))}
    if doubts and not accept_duplicates:
        raise FatalError(next(iter(doubts.values())))
    claim = Marker(start if doubts else last.run, epoch, start)
    publishes = {
        name: _publish(claim, due.get(name, ()), None if name in doubts else markers[name]) for name in markers
    }
    return Settlement(claim, publishes, tuple(doubts))


def _doubt(name: str, marker: Marker | None, last: Receipt, epoch: int, has_receipts: bool) -> str | None:
    """Return why it is not sure that nothing of this id comes twice, or None."""
    if marker is not None and marker.run == last.run and marker.epoch > epoch:
        return (
            f"the output up to checkpoint {marker.epoch} is published under transactional id {name!r} already, and "
            f"going on from checkpoint {epoch} would publish what came after it again: restore the latest checkpoint, "
            f"or {ACCEPT}"
        )
    if not has_receipts:
        return None
    if marker is None:
        return (
            f"the marker of transactional id {name!r} is missing, so that nobody can tell whether the output of "
            f"checkpoint {epoch} was published: the topic was made anew, the broker forgot the marker (it keeps those "
            f"of stopped jobs for offsets.retention.minutes), or it is another cluster; if it may come twice, {ACCEPT}"
        )
    if marker.run == last.run and (marker.epoch == epoch or marker.start == last.start):
        # It is published, or nobody else has had the id since the start that made the checkpoint.
        return None
    return (
        f"transactional id {name!r} was used by another run of this job before checkpoint {epoch} was published (up "
        f"to its checkpoint {marker.epoch}), so that nobody can tell what is missing or may come twice: go on from "
        f"a checkpoint of that one, give this job another name, or {ACCEPT}"
    )


def _published_behind(epoch: int, markers: Mapping[str, Marker | None]) -> dict[str, str]:
    """Return for each id that has published something behind a checkpoint why going on from it is refused."""
    return {
        name: f"the output up to checkpoint {marker.epoch} is published under transactional id {name!r} already, and "
        f"checkpoint {epoch}, which does not know this sink, came before it: restore the latest checkpoint, give the "
        f"sink another name, or {ACCEPT}"
        for name, marker in markers.items()
        if marker is not None and marker.epoch > epoch
    }


def _publish(claim: Marker, receipts: Sequence[Receipt], marker: Marker | None) -> Publish:
    """Publish whatever is not marked as published; without a marker (None), whatever is still kept."""
    if marker is None:
        return Publish(claim, tuple(receipts), claim=True, may_be_gone=True)
    return Publish(claim, tuple(item for item in receipts if item.epoch > marker.epoch), claim=True)
