"""The base of what calls a process function, row by row or batch by batch, and of the contexts that calls see."""

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.operators.process.process_input import ProcessInput, TimeProgress
from penstock.engine.operators.process.schema import ProcessPlan
from penstock.engine.operators.process.state import ProcessState
from penstock.engine.operators.process.timers import Calendar, TimerTable


@dataclass(frozen=True, slots=True)
class RunnerParts:
    """The parts of an operator instance that calls work on; ``timers`` are those in event and in processing time.

    ``now_ns`` is its monotonic clock.
    """

    plan: ProcessPlan
    state: ProcessState
    timers: tuple[TimerTable, TimerTable]
    progress: TimeProgress
    batch_rows: int
    now_ns: Callable[[], int]


class FunctionRunner(ABC):
    """Calls the user's function for a piece at a time; keeps its state."""

    def __init__(self, function: Any, parts: RunnerParts, handles: Mapping[str, Any]) -> None:
        """Give the function its state."""
        self._plan = parts.plan
        self._state = parts.state
        self._progress = parts.progress
        self._batch_rows = parts.batch_rows
        self._now_ns = parts.now_ns
        for name, handle in handles.items():
            object.__setattr__(function, name, handle)

    @abstractmethod
    def run(self, piece: ProcessInput) -> Iterator[pa.RecordBatch]:
        """Yield what comes out; the piece's failures are complete and state is written once the last was taken."""

    def sweep(self) -> None:
        """Forget state that has expired."""
        self._state.sweep(self._progress)


class TimedContext:
    """The part of calls' contexts that is about time."""

    __slots__ = ("_calendar", "_progress")

    def __init__(self, calendar: Calendar, progress: TimeProgress) -> None:
        self._calendar = calendar
        self._progress = progress

    @property
    def watermark(self) -> datetime.datetime | None:
        """The watermark."""
        time_us = self._progress.watermark_us
        return None if time_us == START_OF_TIME_US else self._calendar.datetime_of(time_us)

    @property
    def ended(self) -> bool:
        """True if the input has ended."""
        return self._progress.watermark_us == END_OF_TIME_US
