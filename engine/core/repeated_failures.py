"""Repeated failures, reported once for each cause and then counted; the caller reports them."""

import re
from dataclasses import dataclass

REMIND_NS = 60_000_000_000
"""How long a cause that was said is only counted."""

_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9a-f]{8,}|\d+(?:[.,]\d+)*")
"""What differs between two failures of one cause: names of files, digests, numbers."""


@dataclass(slots=True)
class _Cause:
    said_ns: int
    unsaid: int = 0


@dataclass(frozen=True, slots=True)
class Streak:
    """Failures in a row, and how long they lasted."""

    count: int
    lasted_ns: int


class RepeatedFailures:
    """One thing that is tried until it works."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self._causes: dict[str, _Cause] = {}
        self._count = 0
        self._since_ns = 0

    def add(self, cause: str, now_ns: int) -> str | None:
        """Count a failure; return what to say of it, None: it was said lately."""
        if not self._count:
            self._since_ns = now_ns
        self._count += 1
        key = _VARYING.sub("", cause)
        repeated = self._causes.get(key)
        if repeated is None:
            self._causes[key] = _Cause(now_ns)
            return cause
        repeated.unsaid += 1
        if now_ns - repeated.said_ns < REMIND_NS:
            return None
        times = "once" if repeated.unsaid == 1 else f"{repeated.unsaid} times"
        self._causes[key] = _Cause(now_ns)
        return f"again, {times}: {cause}"

    def end(self, now_ns: int) -> Streak | None:
        """It worked: begin anew; return what came before, None if nothing failed."""
        count, self._count = self._count, 0
        self._causes.clear()
        return Streak(count, now_ns - self._since_ns) if count else None
