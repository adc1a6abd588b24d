"""Names of the partitions of a source that can be cut anywhere: ``0/2`` and ``1/2`` for two. Called by such sources."""

from penstock.model.errors import BugError


def numbered(parallelism: int) -> list[str]:
    """Return one partition name per instance."""
    return [f"{number}/{parallelism}" for number in range(parallelism)]


def partition_number(partition: str) -> tuple[int, int]:
    """Return which partition a name means, and out of how many."""
    number, _, count = partition.partition("/")
    if not (number.isdigit() and count.isdigit() and int(number) < int(count)):
        raise BugError(f"{partition!r} is not a partition name such as '0/2'")
    return int(number), int(count)
