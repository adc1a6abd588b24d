"""The history of a simulated run, in order: the trace that a seed reproduces and the story that a person reads."""

from penstock.engine.core.contract import Clock


class History:
    """Lines with their virtual time. Steps and deliveries are details; faults, restarts, checkpoints are the story."""

    def __init__(self, clock: Clock) -> None:
        """Begin empty."""
        self._clock = clock
        self._lines: list[tuple[bool, str]] = []

    def detail(self, text: str) -> None:
        """Note something that happens all the time."""
        self._add(False, text)

    def event(self, text: str) -> None:
        """Note something that a person wants to read."""
        self._add(True, text)

    def trace(self) -> str:
        """Return every line."""
        return "".join(f"{line}\n" for _, line in self._lines)

    def story(self) -> tuple[str, ...]:
        """Return the events only."""
        return tuple(line for is_event, line in self._lines if is_event)

    def _add(self, is_event: bool, text: str) -> None:
        self._lines.append((is_event, f"{self._clock.monotonic_ns() / 1e6:12.4f} ms  {text}"))
