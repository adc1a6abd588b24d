"""How far the partitions of one source instance are read. Called by `SourceHead`, from any thread."""

from collections.abc import Sequence

from penstock.engine.dataflow.source_partition import Partition


def behind_of(partitions: Sequence[Partition]) -> dict[str, int]:
    """Return how many records wait in each partition whose reader knows it."""
    behind = {item.name: item.reader.behind() for item in partitions}
    return {name: records for name, records in behind.items() if records is not None}


def logs_of(partitions: Sequence[Partition]) -> list[tuple[str, int, int | None, int | None]]:
    """Return of each partition its name, the records taken, and its reader's `behind` and `appended`.

    Those whose reader knows neither are left out. Of a source that has read all there is one row says so, with no name.
    """
    if all(item.ended for item in partitions):
        taken = sum(item.taken for item in partitions)
        return [("", taken, 0, taken)]
    logs = [
        (item.name, item.taken, item.reader.behind(), item.reader.appended()) for item in partitions if not item.ended
    ]
    return [log for log in logs if log[2:] != (None, None)]


def waiting_of(partitions: Sequence[Partition], *, old: bool) -> dict[str, int]:
    """Return how many records wait in each partition whose reader knows it and that has not ended.

    Unless ``old``, those are left out of which records wait that were there when it was read first.
    """
    return behind_of(
        [item for item in partitions if not item.ended and (old or item.taken >= (item.old or item.taken))]
    )
