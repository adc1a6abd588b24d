"""Progress of a stream at a checkpoint, operator by operator, and results that were still to come.

A batch gives the results of windows that are open in a stream, and of rows that wait there. By the watermark that an
operator noted in the checkpoint its results are told apart: those that are due are compared, the others counted.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from penstock.engine.checkpoint.reader import Checkpoint
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.engine.core.contract import Notes
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.operators.functions.async_function import LOG
from penstock.engine.paging.bucket import SWEPT
from penstock.engine.plan.optimiser import reachable
from penstock.engine.restore.source_positions import read_positions
from penstock.model.job_graph import JobGraph, OperatorNode, SourceSpec
from penstock.replay.frames import ReplayError
from penstock.replay.spark_types import quoted_name

_WATERMARK, _PASSED = "watermark_us", "passed_us"


@dataclass(frozen=True, slots=True)
class OpenResults:
    """The number of results of an operator that were still to come."""

    operator: str
    results: int


class CheckpointProgress:
    """Progress of a job's operators, read from a checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Look at the manifest; state is read where it must be."""
        self.checkpoint = checkpoint
        self._notes: dict[str, list[Notes]] = {name: [] for name in checkpoint.manifest.parallelism}
        for entry in checkpoint.manifest.instances:
            self._notes[entry.operator].append(entry.unpacked_notes())
        self._kept: list[tuple[str, DataFrame, DataFrame]] = []
        self._lock = threading.Lock()

    def passed_us(self, node: OperatorNode, lateness_us: int = 0) -> int | None:
        """Return up to which event time an operator had worked, less its lateness; None: its input had ended.

        Raises:
            ReplayError: the checkpoint does not tell.
        """
        times = {_passed_us(notes, lateness_us) for notes in self._notes.get(node.name, ())}
        if not times or (None in times and len(times) > 1):
            raise self._untold(node, "knows of no watermark there")
        if len(times) > 1:
            raise self._untold(node, "has its instances at different times")
        passed_us = times.pop()
        assert passed_us is not None
        return None if passed_us == END_OF_TIME_US else passed_us

    def final_us(self, nodes: Sequence[OperatorNode], lateness_us: int) -> int | None:
        """Return up to which end of windows none of these operators adds anything; None: their input had ended.

        Those that note no watermark are not asked; if none does, nothing is known to be final.
        """
        times = {
            _passed_us(notes, lateness_us)
            for node in nodes
            for notes in self._notes.get(node.name, ())
            if SWEPT in notes or _WATERMARK in notes
        }
        least_us = min((time_us for time_us in times if time_us is not None), default=START_OF_TIME_US)
        return None if least_us == END_OF_TIME_US else least_us

    def check_sources(self, graph: JobGraph) -> None:
        """Check that the sources that are no topics had been read to their ends: as far as these is all that is read.

        Raises:
            ReplayError: one had not.
        """
        positions = {entry.operator: entry.positions for entry in self.checkpoint.manifest.sources}
        for node in reachable(graph).operators.values():
            if isinstance(node.spec, SourceSpec) and not isinstance(node.spec.source, KafkaSource):
                marks = positions.get(node.name, {})
                if not all(item.ended for item in read_positions(node.name, list(marks), marks).values()):
                    raise ReplayError(
                        f"source {node.name!r} had not been read to its end at the checkpoint of epoch "
                        f"{self.checkpoint.epoch}, and only topics are replayed as far as a checkpoint: compare when "
                        "the job has ended"
                    )

    def check_answered(self, node: OperatorNode) -> None:
        """Check that no row waited for an answer from outside.

        Raises:
            ReplayError: some did, and a batch cannot tell which.
        """
        tables = self.checkpoint.tables_of(node.name) if node.name in self._notes else {}
        waiting = tables[LOG].num_rows if LOG in tables else 0
        if waiting:
            raise self._untold(node, f"has {waiting} rows there that wait for their answers")

    def due(self, node: OperatorNode, rows: DataFrame, condition: str) -> DataFrame:
        """Return the results of an operator that fulfil a condition, which is never null; the others are open."""
        persisted = rows.persist()
        with self._lock:
            self._kept.append((node.name, persisted, persisted.filter(f"NOT ({condition})")))
        return persisted.filter(condition)

    def open(self) -> Sequence[OpenResults]:
        """Count what was left out, by operator; those of which nothing was are not among them."""
        counts: dict[str, int] = {}
        for name, _, others in self._kept:
            counts[name] = counts.get(name, 0) + others.count()
        return [OpenResults(name, count) for name, count in counts.items() if count]

    def close(self) -> None:
        """Let go of the rows that are kept."""
        for _, persisted, _ in self._kept:
            persisted.unpersist()
        self._kept.clear()

    def _untold(self, node: OperatorNode, why: str) -> ReplayError:
        return ReplayError(
            f"which results of operator {node.name!r} were still to come cannot be told: the checkpoint of epoch "
            f"{self.checkpoint.epoch} {why}; compare at another one (--checkpoint), or when the job has ended"
        )


def before_watermark(progress: CheckpointProgress | None, node: OperatorNode, rows: DataFrame, time: str) -> DataFrame:
    """Return the results of an operator that come once the watermark has passed their times, in a column of theirs."""
    passed_us = None if progress is None else progress.passed_us(node)
    if progress is None or passed_us is None:
        return rows
    return progress.due(node, rows, f"{quoted_name(time)} < {micros_literal(passed_us)}")


def micros_literal(time_us: int) -> str:
    """Return a time in microseconds as Spark SQL; the least number of 64 bits has no literal."""
    return f"CAST('{time_us}' AS BIGINT)"


def _passed_us(notes: Notes, lateness_us: int) -> int | None:
    """Return the time up to which an instance had worked; None: it does not say."""
    if SWEPT not in notes and _WATERMARK not in notes:
        return None if notes.get(_PASSED) is None else int(notes[_PASSED] or 0)
    watermark_us = int(notes.get(SWEPT, notes.get(_WATERMARK)) or 0)
    if watermark_us in (START_OF_TIME_US, END_OF_TIME_US):
        return watermark_us
    return max(START_OF_TIME_US, watermark_us - lateness_us)
