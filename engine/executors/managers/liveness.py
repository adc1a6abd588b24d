"""The liveness of a task manager: dead, stuck in a step, or well. Pure.

A process that gives no sign of life may still be at work: user code that holds the interpreter lock lets no heartbeat
through. It counts as dead only if it uses no core either.
"""

from dataclasses import dataclass
from enum import Enum

SILENCE_NS = 10_000_000_000
"""How long a task manager without sign of life and without progress on a core is believed to live."""

LONG_STEP_NS = 10_000_000_000
"""From when on a step of the worker loop is spoken of."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on silence means death, and from when on a step is long; see `SILENCE_NS` and `LONG_STEP_NS`."""

    silence_ns: int = SILENCE_NS
    long_step_ns: int = LONG_STEP_NS


class Verdict(Enum):
    """The belief about a task manager."""

    WELL = "it lives"
    STUCK = "it lives, and its worker loop has been in one step for long"
    DEAD = "it is lost"


@dataclass(frozen=True, slots=True)
class LifeSigns:
    """Signs of a task manager's life at one moment, by the clock of whoever watches.

    ``heard_ns`` is when it was last heard. ``cpu_ns`` is the time that its process has used on any core so far, None if
    that cannot be seen from here. ``step_ns`` is for how long its worker loop has been in one step, as it said when it
    was last heard; 0 while it waits.
    """

    now_ns: int
    heard_ns: int
    cpu_ns: int | None
    step_ns: int = 0


class Liveness:
    """The belief in one task manager's life, from signs that are looked at now and then."""

    def __init__(self, now_ns: int, limits: Limits | None = None) -> None:
        """Begin with one that has just been heard."""
        self._limits = limits or Limits()
        self._progress_ns = now_ns
        self._cpu_ns: int | None = None

    def look(self, signs: LifeSigns) -> Verdict:
        """Return what to believe now; time must not go back."""
        if signs.cpu_ns is not None and signs.cpu_ns != self._cpu_ns:
            if self._cpu_ns is not None:
                self._progress_ns = signs.now_ns
            self._cpu_ns = signs.cpu_ns
        if signs.now_ns - max(signs.heard_ns, self._progress_ns) >= self._limits.silence_ns:
            return Verdict.DEAD
        silent_ns = signs.now_ns - signs.heard_ns
        if silent_ns >= self._limits.silence_ns:
            return Verdict.STUCK
        if signs.step_ns and signs.step_ns + silent_ns >= self._limits.long_step_ns:
            return Verdict.STUCK
        return Verdict.WELL
