"""The latest events of a job by their numbers, so that who comes back misses none that is still kept. Pure."""

from collections import deque
from dataclasses import dataclass

from penstock.engine.core.job_events import JobEvent

KEPT_EVENTS = 1_000
"""So many events are kept."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event and its number, from 1 on; ``at_us`` is when it was told."""

    number: int
    at_us: int
    event: JobEvent


class EventLog:
    """The last ``kept`` events of one run."""

    def __init__(self, kept: int = KEPT_EVENTS) -> None:
        """Begin with none."""
        self.last = 0
        """The number of the last event, 0 before the first."""
        self._events: deque[LoggedEvent] = deque(maxlen=kept)

    def add(self, event: JobEvent, at_us: int) -> None:
        """Keep an event; the oldest may go."""
        self.last += 1
        self._events.append(LoggedEvent(self.last, at_us, event))

    def missed(self, number: int) -> int:
        """Return how many events after this number are not kept any more."""
        return max(0, self.last - len(self._events) - number)

    def since(self, number: int) -> list[LoggedEvent]:
        """Return the events after this number that are kept, oldest first."""
        count = min(max(0, self.last - number), len(self._events))
        return [self._events[index] for index in range(len(self._events) - count, len(self._events))]
