"""Classes of Protobuf messages on their way to another process. Called by the Protobuf formats."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message


@dataclass(frozen=True)
class MessageClass:
    """A class of messages that can be pickled: by its name in a module, or by its files if no module has it."""

    kind: type[Message]

    def __reduce__(self) -> tuple[Any, ...]:
        if _is_importable(self.kind):
            return MessageClass, (self.kind,)
        descriptor = self.kind.DESCRIPTOR
        return _from_files, (_files(descriptor.file), descriptor.full_name)


def _is_importable(kind: type[Message]) -> bool:
    """Return whether another process finds the class by its name; it has a main module of its own."""
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return False
    try:
        return reduce(getattr, kind.__qualname__.split("."), module) is kind  # type: ignore[comparison-overlap]
    except AttributeError:
        return False


def _files(file: FileDescriptor) -> tuple[bytes, ...]:
    """Return a file as its descriptor, behind those that it imports."""
    files: dict[str, bytes] = {}

    def add(one: FileDescriptor) -> None:
        if one.name not in files:
            for imported in one.dependencies:
                add(imported)
            files[one.name] = one.serialized_pb

    add(file)
    return tuple(files.values())


def _from_files(files: Sequence[bytes], name: str) -> MessageClass:
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file)
    return MessageClass(message_factory.GetMessageClass(pool.FindMessageTypeByName(name)))
