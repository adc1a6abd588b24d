"""Local folders and files of a job as one process sees them."""

import msgspec

from penstock.state.leases.run_records import Owner

SizeAndTime = tuple[int, int]
"""The bytes of a file, and when it was changed, in nanoseconds since 1970 UTC."""


class HeldFolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder that the head's run has: what ``kind`` it is, its path, and the ``lease`` that ``run`` has of it there.

    ``owner`` is what the record of the lease says.
    """

    kind: str
    path: str
    lease: str
    run: int
    owner: Owner


class InputFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the job reads; None: it is not there."""

    path: str
    seen: SizeAndTime | None
