"""Base classes for users' processing of a key's rows, one by one or in batches, with state and timers.

`penstock.dsl.process` checks the subclasses; `engine.operators.process` calls it.
"""

import datetime
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.durations import Duration
from penstock.model.process_states import State


@dataclass(frozen=True, slots=True)
class OpenContext:
    """The operator instance that is opened: the operator's name, and its number among the parallel instances."""

    name: str
    instance: int
    parallelism: int


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that fires: the time it was set for, in event time or (``processing``) in processing time."""

    time: datetime.datetime
    processing: bool = False


@dataclass(frozen=True, slots=True)
class FiredTimers:
    """Timers of a `BatchProcess` that fire: times[i] is the time of the one of the key number i of the context."""

    times: pa.Array
    processing: bool = False


class Timers(ABC):
    """The timers of the current key: one for each time, in event time and in processing time.

    A timer fires once every row of its key before its time has been processed, and before any row at that time or
    after it. One that is set for a time already passed fires right after the call that sets it. Times are datetimes as
    ``context.time`` is, durations ``"5s"`` or `timedelta`. The methods that set one return its time.
    """

    @abstractmethod
    def at(self, time: datetime.datetime) -> datetime.datetime:
        """Set a timer in event time."""

    @abstractmethod
    def after(self, duration: Duration) -> datetime.datetime:
        """Set a timer in event time, so long after ``context.time``."""

    @abstractmethod
    def cancel(self, time: datetime.datetime) -> None:
        """Remove the timer at this event time, if there is one."""

    @abstractmethod
    def at_processing(self, time: datetime.datetime) -> datetime.datetime:
        """Set a timer in processing time."""

    @abstractmethod
    def after_processing(self, duration: Duration) -> datetime.datetime:
        """Set a timer in processing time, so long after now."""

    @abstractmethod
    def cancel_processing(self, time: datetime.datetime) -> None:
        """Remove the timer at this processing time, if there is one."""


class BatchTimers(ABC):
    """The timers of the keys of a batch; see `Timers`. ``times`` are aligned with the keys, null: none for that key."""

    @abstractmethod
    def at(self, times: Any) -> None:
        """Set timers in event time."""

    @abstractmethod
    def cancel(self, times: Any) -> None:
        """Remove the timers at these event times that are there."""

    @abstractmethod
    def at_processing(self, times: Any) -> None:
        """Set timers in processing time."""

    @abstractmethod
    def cancel_processing(self, times: Any) -> None:
        """Remove the timers at these processing times that are there."""


class States(Mapping[str, Any]):
    """State by name: ``states.count`` or ``states["count"]``."""

    def __init__(self, states: Mapping[str, State]) -> None:
        """Hold this state by name."""
        self.__dict__.update(states)

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no state {name!r}; declared: {', '.join(self.__dict__) or 'none'}")

    def __iter__(self) -> Any:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)


class Context(Protocol):
    """The context of one call of `Process`, valid for that call only.

    ``key`` is the key's value, or a tuple of several in the order of ``key_by``. ``time`` is the event time of the row
    or timer (None if the stream has none, and in processing-time timers). ``watermark`` is the time before which no
    row will come any more (None before the first); ``ended`` says that the input has ended: a timer that sets
    itself again must stop then. How far these two have come at a row or timer depends on batches and parallelism.
    """

    timers: Timers
    state: States

    @property
    def key(self) -> Any:
        """The key."""

    @property
    def time(self) -> datetime.datetime | None:
        """The event time."""

    @property
    def watermark(self) -> datetime.datetime | None:
        """The watermark."""

    @property
    def ended(self) -> bool:
        """Whether the input has ended."""


class BatchContext(Protocol):
    """The context of one call of `BatchProcess`, valid for that call only.

    ``keys`` has one row for each distinct key, ``groups`` (int64) the number of each row's key among them.
    """

    timers: BatchTimers
    state: States
    keys: pa.RecordBatch
    groups: NDArray[np.int64]

    @property
    def watermark(self) -> datetime.datetime | None:
        """The watermark, as in `Context`."""

    @property
    def ended(self) -> bool:
        """Whether the input has ended."""


class Process:
    """Called with every row of a key in turn, with state and timers per key.

    Subclass it and declare state as class attributes; every operator instance works with a copy. Rows of a key come in
    event-time order, ties ordered by their columns, once the watermark has passed them, and timers between them at
    their time, so that results do not depend on batches or parallelism; ``order="arrival"`` gives that up.
    ``process`` and ``on_timer`` return None, a row (dict or dataclass) or an iterable of rows. If one raises, what
    that call has changed in state and timers is undone, its rows are dropped, and the row (or the timer's key and
    time, in a column ``timer``) becomes a dead letter. When the input ends, all event-time timers fire, those set then
    included; processing-time timers do not.
    """

    def open(self, context: OpenContext) -> None:
        """Prepare an operator instance, before the first row."""

    def process(self, row: dict[str, Any], context: Context) -> Any:
        """Take a row by column name."""
        raise NotImplementedError

    def on_timer(self, timer: Timer, context: Context) -> Any:
        """Take a timer that fires."""

    def close(self) -> None:
        """Release the resources of `open`."""


class BatchProcess:
    """Called with batches of rows of many keys, with state in columns and timers per key.

    Like `Process`, except: ``process`` takes a record batch, each key's rows in order; it and ``on_timer`` return None
    or anything Arrow-like (a dict of columns included). A call takes each key's rows up to its next timer; a timer that
    the call sets fires after it. If a call raises, all of its rows (or timers) become dead letters and nothing
    that it wrote is kept. State is value, reducing (as a value) or list state, read as of a key's first row in the call
    and written as of its last. What comes out depends on how the input was cut into batches, unless the function
    treats a key's rows one after the other.
    """

    def open(self, context: OpenContext) -> None:
        """Prepare an operator instance, before the first batch."""

    def process(self, batch: pa.RecordBatch, context: BatchContext) -> Any:
        """Take rows."""
        raise NotImplementedError

    def on_timer(self, timers: FiredTimers, context: BatchContext) -> Any:
        """Take timers that fire, one of each of ``context.keys``."""

    def close(self) -> None:
        """Release the resources of `open`."""


class FunctionProcess(Process):
    """A function of (row, context) as a `Process`."""

    def __init__(self, function: Any) -> None:
        """Call this function."""
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        # An attribute of the object, so that calling it costs no second call.
        self.process = function  # type: ignore[method-assign]
