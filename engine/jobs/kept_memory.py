"""The budgets of a job's operators that were changed while it ran, kept beside its checkpoints for later runs.

``memory.json`` is replaced by every change, and gone when the job begins anew.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.model.errors import CheckpointError
from penstock.state.files.durable_files import DurableFiles

MEMORY = "memory.json"
"""The file, beside the folders of a job's checkpoints."""

VERSION = 1


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """The file of one job; ``check`` raises if another run has taken over."""

    files: DurableFiles
    check: Callable[[], None]

    def read(self) -> Mapping[str, int]:
        """Return the budgets in bytes of each instance, by operator.

        Raises:
            CheckpointError: it is no such file.
            RetryableError: the storage failed.
        """
        try:
            return decode_budgets(self.files.read(MEMORY))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise CheckpointError(
                f"{MEMORY} beside the checkpoints cannot be read ({error}): delete it, and the budgets of the program "
                "hold again"
            ) from None

    def write(self, budgets: Mapping[str, int]) -> None:
        """Keep budgets instead of those before; none: delete the file.

        Raises:
            FencedError: another run has taken over.
            RetryableError: the storage failed.
        """
        self.check()
        if budgets:
            self.files.write(MEMORY, json.dumps({"version": VERSION, "budgets": dict(budgets)}).encode())
        else:
            self.files.delete(MEMORY)


def decode_budgets(data: bytes) -> Mapping[str, int]:
    """Return what a file holds.

    Raises:
        ValueError: it is no such file.
    """
    try:
        found = json.loads(data)
        if found["version"] != VERSION:
            raise ValueError(f"it is of version {found['version']}")
        budgets = {str(name): size for name, size in found["budgets"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in budgets.values()):
        raise ValueError("a budget in it is no number of bytes")
    return budgets
