"""The folder of a sink's prepared output, beside the checkpoints of its job.

The recovering job creates one for every sink that takes part in checkpoints.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

from penstock.state.files.durable_files import Content, DurableFiles, join_path

KEPT = "kept"


class SinkFolder:
    """The durable files directly in the folder of one sink, by name; their errors are those of `DurableFiles`."""

    def __init__(self, files: DurableFiles, operator: str) -> None:
        """Touch nothing yet; ``operator`` is the sink's name."""
        self._files = files
        self._folder = f"{KEPT}/{folder_name(operator)}"

    def write(self, name: str, content: Content) -> int:
        """Write a file, whole or not at all, and return its bytes."""
        return self._files.write(join_path(self._folder, name), content)

    def chunks(self, name: str) -> Iterator[bytes]:
        """Return a file's bytes, chunk by chunk.

        Raises:
            FileNotFoundError: there is no such file (with the first chunk).
        """
        return self._files.chunks(join_path(self._folder, name))

    def list(self) -> Sequence[str]:
        """Return the names of all files, sorted."""
        return self._files.list(self._folder)

    def delete(self, *names: str) -> None:
        """Delete files; those that do not exist are passed over."""
        self._files.delete(*(join_path(self._folder, name) for name in names))


def folder_name(operator: str) -> str:
    """Return a name that files allow, another one for every operator."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", operator)[:100]
    if plain == operator:
        return plain
    return f"{plain}-{hashlib.blake2b(operator.encode(), digest_size=8).hexdigest()}"
