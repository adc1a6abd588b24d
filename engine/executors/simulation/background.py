"""Background work of the simulated executor: it proceeds when the scheduler says so, piece after piece."""

from collections import deque
from typing import Any

from penstock.engine.core.background import Answer, Background, Work
from penstock.engine.core.clock import ManualClock
from penstock.engine.executors.simulation.dice import Dice
from penstock.model.errors import BugError


class NotThereYetError(Exception):
    """A piece of work waits for something; it is done from the beginning later."""


AGAIN_NS = 1_000_000
"""How long a piece of work that waits is left alone."""


class SimulatedBackground(Background):
    """Keeps pieces of work until `proceed`; each takes a while that the seed draws."""

    def __init__(self, clock: ManualClock, dice: Dice) -> None:
        """Begin with nothing to do."""
        self._clock = clock
        self._dice = dice
        self._pieces: deque[tuple[int, Work, Answer]] = deque()
        self._done: deque[tuple[Answer, Any, BaseException | None]] = deque()
        self.lost_power = False
        """Nothing happens any more."""

    def submit(self, work: Work, answer: Answer) -> None:
        """Keep a piece for later."""
        most_ns = 500_000 if self._dice.chance(0.8) else 20_000_000
        self._pieces.append((self._clock.monotonic_ns() + self._dice.below(most_ns), work, answer))

    def collect(self) -> None:
        """Call the answers."""
        while self._done:
            answer, result, error = self._done.popleft()
            answer(result, error)

    def close(self, wait_s: float | None = None) -> None:
        """Work off what is left; the answers are dropped.

        Raises:
            BugError: a piece waits for something, and so would the process without end.
        """
        while self._pieces and not self.lost_power:
            left = len(self._pieces)
            self.proceed()
            if len(self._pieces) == left:
                if wait_s is None:
                    raise BugError("the process does not end: background work waits for what nobody brings")
                break
        self._pieces.clear()
        self._done.clear()

    def due_ns(self) -> int | None:
        """Return when the next piece may be done, None if there is none."""
        return self._pieces[0][0] if self._pieces else None

    def has_answers(self) -> bool:
        """Return whether `collect` has something to do."""
        return bool(self._done)

    def proceed(self) -> None:
        """Do the next piece."""
        _, work, answer = self._pieces.popleft()
        try:
            self._done.append((answer, work(), None))
        except NotThereYetError:
            # Those behind it wait for it, as in a thread.
            self._pieces.appendleft((self._clock.monotonic_ns() + AGAIN_NS, work, answer))
        except Exception as error:
            self._done.append((answer, None, error))
