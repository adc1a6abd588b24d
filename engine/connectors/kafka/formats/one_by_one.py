"""Messages that a library reads one by one, made columns by the block. Called by the Avro and Protobuf decoders."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from penstock.engine.connectors.kafka.formats.contract import Decoded, HeadersOf
from penstock.engine.connectors.text.bisect_rows import convert_rows
from penstock.engine.connectors.text.layouts import one_batch

Item = TypeVar("Item")

ReadBlock = Callable[[Sequence[bytes], int, HeadersOf, list[tuple[int, str]]], tuple[list[Item], list[int]]]
"""Returns what messages hold, the first of which has this index, and the indices of those; appends errors by index."""


def decode_blocks(
    values: Sequence[bytes],
    headers: HeadersOf,
    block_rows: int,
    read: ReadBlock[Item],
    to_rows: Callable[[Sequence[Item]], pa.RecordBatch],
    schema: pa.Schema,
) -> Decoded:
    """Read ``block_rows`` messages at a time and make columns of them; one that does not fit these is an error."""
    blocks: list[pa.RecordBatch] = []
    places: list[int] = []
    errors: list[tuple[int, str]] = []
    for first in range(0, len(values), block_rows):
        items, block_places = read(values[first : first + block_rows], first, headers, errors)
        rows, unfit = convert_rows(items, to_rows, schema)
        errors += [(block_places[index], reason) for index, reason in unfit]
        for index, _ in reversed(unfit):
            del block_places[index]
        blocks.append(rows)
        places += block_places
    return Decoded(one_batch(blocks, schema), np.array(places, np.int64), sorted(errors))
