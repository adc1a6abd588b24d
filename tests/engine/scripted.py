"""Sources in a test's hands: partitions that do what they are told and keep what they were asked."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.model.connectors import ENDED, Read, Reader, Source

MS = 1_000_000


FIELDS = pa.schema({"at": pa.timestamp("us"), "x": pa.int64()})


Step = Read | Exception


def rows(*times_us: int | None) -> Read:
    """Return a read of rows at these times."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array(times_us, pa.timestamp("us")), pa.array(range(len(times_us)))], schema=FIELDS
    )
    return Read(batch)


class Scripts(Source):
    """Partitions that do what they are told and end after it; keeps what each was asked for."""

    def __init__(self, steps: Mapping[str, Sequence[Step] | Iterator[Step]], bounded: bool = True) -> None:
        self._steps = steps
        self.bounded = bounded
        self.asked: list[tuple[str, int]] = []
        self.closed: list[str] = []

    @property
    def schema(self) -> pa.Schema:
        return FIELDS

    def partitions(self, parallelism: int) -> list[str]:
        return list(self._steps)

    def open(self, partition: str, position: Any | None) -> Reader:
        return ScriptReader(self, partition, iter(self._steps[partition]))


class ScriptReader(Reader):
    def __init__(self, source: Scripts, partition: str, steps: Iterator[Step]) -> None:
        self._source = source
        self._partition = partition
        self._steps = steps

    def read(self, max_rows: int) -> Read:
        self._source.asked.append((self._partition, max_rows))
        step = next(self._steps, ENDED)
        if isinstance(step, Exception):
            raise step
        return step

    def position(self) -> Any:
        return None

    def close(self) -> None:
        self._source.closed.append(self._partition)
