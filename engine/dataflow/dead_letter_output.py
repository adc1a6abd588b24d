"""Dead letters as a stream: what an operator instance rejects leaves through its output `DEAD_LETTER`.

Made by `build` for operators of which something reads that output; their letters go there and not to the job's file.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.core.contract import Clock, Emission, chunks
from penstock.engine.core.elements import Batch
from penstock.model.connectors import RawRecord
from penstock.model.dead_letters import DEAD_LETTER


class DeadLetterOutput:
    """Keeps the letters of one operator instance until its chain sends them on.

    Implements the operators' `DeadLetters` contract; counts and policies are the writer's.
    """

    def __init__(self, writer: DeadLetterWriter, clock: Clock, batch_rows: int) -> None:
        """``batch_rows``: the most letters in a batch."""
        self._writer = writer
        self._clock = clock
        self._batch_rows = batch_rows
        self._waiting: list[pa.RecordBatch] = []

    def reject(self, operator: str, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        """Take rows the operator could not process, one error text per row.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        self._keep(self._writer.letters(operator, rows, errors))

    def reject_raw(self, operator: str, records: Sequence[RawRecord]) -> None:
        """Take records a source could not decode.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        self._keep(self._writer.raw_letters(operator, records))

    def close(self) -> None:
        """Nothing to finish: every letter has left after the call that rejected it."""

    def among(self, emissions: Iterable[Emission], cause: Batch | None) -> Iterator[Emission]:
        """Yield an operator's emissions and, as soon as they are there, its letters; none is left at the end.

        Letters have the header of the batch that caused them, a new one if there is none.
        """
        yield from self._take(cause)
        for emission in emissions:
            yield emission
            yield from self._take(cause)
        yield from self._take(cause)

    def _keep(self, letters: pa.RecordBatch | None) -> None:
        if letters is not None:
            self._waiting.append(letters)

    def _take(self, cause: Batch | None) -> Iterator[Emission]:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        header = cause or Batch(waiting[0], ingest_ns=self._clock.monotonic_ns())
        for letters in waiting:
            for chunk in chunks(letters, self._batch_rows):
                yield DEAD_LETTER, header.with_rows(chunk)
