"""Names of Protobuf messages, in their file and in a schema registry. Called by the Protobuf formats."""

import base64
import binascii
from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from penstock.engine.connectors.kafka.formats.schema_registry import ReferencedSchema, RegisteredSchema, SchemaRegistry

_BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")
"""Files that every registry has."""


def index_path(descriptor: Descriptor) -> tuple[int, ...]:
    """Return the indexes of a message among its file's, outermost first."""
    path: list[int] = []
    while descriptor.containing_type is not None:
        outer = descriptor.containing_type
        path.append([inner.full_name for inner in outer.nested_types].index(descriptor.full_name))
        descriptor = outer
    names = list(descriptor.file.message_types_by_name)
    return (names.index(descriptor.name), *reversed(path))


def written_name(text: str, indexes: tuple[int, ...]) -> str | None:
    """Return the full name of a message in a file that a registry gave; None if that is no ``FileDescriptorProto``.

    A registry may not know the form ``serialized`` and answer with the source of the file.
    """
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, binascii.Error, ValueError):
        return None
    names = [file.package] if file.package else []
    inside: list[DescriptorProto] = list(file.message_type)
    for index in indexes:
        if index >= len(inside):
            return None
        names.append(inside[index].name)
        inside = list(inside[index].nested_type)
    return ".".join(names)


def register_file(registry: SchemaRegistry, subject: str, file: FileDescriptor) -> RegisteredSchema:
    """Make sure that the registry has a file and all that it imports.

    Raises:
        SchemaError: it does not take one of them.
        RetryableError: it does not answer.
    """
    return _register(registry, subject, file)[0]


def _register(registry: SchemaRegistry, subject: str, file: FileDescriptor) -> tuple[RegisteredSchema, int]:
    references = tuple(
        ReferencedSchema(other.name, other.name, _register(registry, other.name, other)[1]) for other in _imports(file)
    )
    text = base64.b64encode(file.serialized_pb).decode("ascii")
    return registry.register(subject, text, "PROTOBUF", references)


def _imports(file: FileDescriptor) -> Iterator[FileDescriptor]:
    return (other for other in file.dependencies if not other.name.startswith(_BUILT_IN))
