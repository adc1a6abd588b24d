"""The state of an operator instance as the bytes of one file of a checkpoint, and back.

An Arrow IPC stream with a row per table and log: its name, and its batches as a stream of their own. Called by
`snapshots` and `restored`.
"""

import pyarrow as pa

from penstock.model.errors import CheckpointError
from penstock.state.image import Part

_SCHEMA = pa.schema(
    [pa.field("name", pa.string(), nullable=False), pa.field("rows", pa.large_binary(), nullable=False)]
)


def encode_part(part: Part) -> bytes:
    """Return the file of a part."""
    streams = []
    for batches in part.batches.values():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        streams.append(sink.getvalue().to_pybytes())
    sink = pa.BufferOutputStream()
    columns = [pa.array(list(part.batches), pa.string()), pa.array(streams, pa.large_binary())]
    with pa.ipc.new_stream(sink, _SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def decode_part(data: bytes, where: str) -> Part:
    """Return the part of a file whose digest was compared; ``where`` names it in errors.

    Raises:
        CheckpointError: the bytes are not such a file.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            if reader.schema != _SCHEMA:
                raise CheckpointError(f"{where} does not hold the state of an operator.")
            table = reader.read_all()
        batches = {}
        for name, stream in zip(table["name"].to_pylist(), table["rows"], strict=True):
            with pa.ipc.open_stream(stream.as_buffer()) as inner:
                batches[name] = list(inner)
        return Part(batches)
    except pa.ArrowInvalid as error:
        raise CheckpointError(f"{where} cannot be read as the state of an operator: {error}") from None
