"""The state of an operator instance as the bytes of one file of a checkpoint, and back.

An Arrow IPC stream per table and log, one after the other, then a JSON list of their names and places, and its length.
Called by `checkpoint.writer`, `state_assignment` and for buckets.
"""

import msgspec
import pyarrow as pa

from penstock.model.errors import CheckpointError
from penstock.state.tables.image import StoreDump

_LENGTH_BYTES = 8


class _Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place of a table's or log's stream."""

    name: str
    start: int
    length: int


def encode_part(part: StoreDump) -> pa.Buffer:
    """Return the file of a part; values are copied once, so that it shares nothing with them."""
    sized = pa.MockOutputStream()
    _write(part, sized)
    # A stream that grows would copy what is there each time, into memory that the system has to clear first.
    data = pa.allocate_buffer(sized.size())
    _write(part, pa.FixedSizeBufferWriter(data))
    return data


def _write(part: StoreDump, sink: pa.NativeFile) -> None:
    places = []
    for name, batches in part.batches.items():
        start = sink.tell()
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        places.append(_Place(name, start, sink.tell() - start))
    footer = msgspec.json.encode(places)
    sink.write(footer)
    sink.write(len(footer).to_bytes(_LENGTH_BYTES, "little"))


def decode_part(data: bytes | pa.Buffer, where: str) -> StoreDump:
    """Return the part of a file whose digest was compared; ``where`` names it in errors.

    Raises:
        CheckpointError: the bytes are not such a file.
    """
    buffer = pa.py_buffer(data)
    try:
        batches = {}
        for place in _places(buffer):
            if place.start < 0 or place.length < 0 or place.start + place.length > buffer.size:
                raise CheckpointError(
                    f"{where} cannot be read as the state of an operator: a table lies outside of it."
                )
            with pa.ipc.open_stream(buffer.slice(place.start, place.length)) as inner:
                batches[place.name] = list(inner)
        return StoreDump(batches)
    except (pa.ArrowInvalid, msgspec.DecodeError, ValueError, OSError) as error:
        raise CheckpointError(f"{where} cannot be read as the state of an operator: {error}") from None


def _places(buffer: pa.Buffer) -> list[_Place]:
    end = buffer.size - _LENGTH_BYTES
    length = int.from_bytes(buffer.slice(max(end, 0)).to_pybytes(), "little")
    if end < 0 or length > end:
        raise ValueError("it is too short")
    return msgspec.json.decode(buffer.slice(end - length, length).to_pybytes(), type=list[_Place])
