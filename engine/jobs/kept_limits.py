"""The limits of a job that were changed while it ran, kept beside its checkpoints for the runs that go on from these.

``limits.json`` is replaced by every change, and gone when the job begins anew.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from penstock.model.control import NO_LIMITS, Limits, QueryLimit
from penstock.model.errors import CheckpointError, OptionError
from penstock.state.files.durable_files import DurableFiles

LIMITS = "limits.json"
"""The file, beside the folders of a job's checkpoints."""

VERSION = 1


@dataclass(frozen=True, slots=True)
class LimitsFile:
    """The file of one job; ``check`` raises if another run has taken over."""

    files: DurableFiles
    check: Callable[[], None]

    def read(self) -> tuple[Limits, str | None]:
        """Return the limits, and what shed by the start of the run in which shedding was changed.

        Raises:
            CheckpointError: it is none.
            RetryableError: the storage failed.
        """
        try:
            return decode_limits(self.files.read(LIMITS))
        except FileNotFoundError:
            return NO_LIMITS, None
        except ValueError as error:
            raise CheckpointError(
                f"{LIMITS} beside the checkpoints cannot be read ({error}): delete it, and the limits of the program "
                "hold again"
            ) from None

    def write(self, limits: Limits, started: str | None) -> None:
        """Keep limits instead of those before; none: delete the file.

        Raises:
            FencedError: another run has taken over.
            RetryableError: the storage failed.
        """
        self.check()
        if limits == NO_LIMITS:
            self.files.delete(LIMITS)
        else:
            self.files.write(LIMITS, encode_limits(limits, started))


def encode_limits(limits: Limits, started: str | None) -> bytes:
    """Return the file's bytes."""
    queries = {name: asdict(limit) for name, limit in limits.queries.items()}
    return json.dumps({"version": VERSION, "shed": limits.shed, "started": started, "queries": queries}).encode()


def decode_limits(data: bytes) -> tuple[Limits, str | None]:
    """Return what `encode_limits` was given.

    Raises:
        ValueError: it is no such file.
    """
    try:
        found = json.loads(data)
        if found["version"] != VERSION:
            raise ValueError(f"it is of version {found['version']}")
        queries = {name: QueryLimit(**limit) for name, limit in found["queries"].items()}
        return Limits(found["shed"], queries), found["started"]
    except (KeyError, TypeError, AttributeError, OptionError) as error:
        raise ValueError(str(error)) from None
