"""Limits of a job that change while it runs: written by whoever changes them, read by its controllers."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from penstock.model.control import NO_LIMITS, Limits
from penstock.model.errors import OptionError


class LimitsKeeper(Protocol):
    """Keeps limits for runs that follow; ``started`` is what shed by the start of the run that changed shedding."""

    def read(self) -> tuple[Limits, str | None]:
        """Return what was written last."""

    def write(self, limits: Limits, started: str | None) -> None:
        """Keep these in place of others."""


class RunningLimits:
    """The limits of one run, over all its attempts and restores. Any thread may change them."""

    def __init__(self) -> None:
        """Begin with those of its program."""
        self.wanted = NO_LIMITS
        """The limits that hold from the next cycle of the controllers on."""
        self.noted: Callable[[Limits, str | None], None] = _note_nowhere
        """Takes all limits after each change, and what sheds by the start, in the thread that asked for it."""
        self._check: Callable[[Limits], None] | None = None
        self._keeper: LimitsKeeper | None = None
        self._started: str | None = None
        self._unchecked: tuple[Limits, str | None] | None = None
        self._warn: Callable[[str], None] = print
        # Each change rests on the one before.
        self._changing = threading.Lock()

    def begin(self, limits: Limits, started: str | None) -> None:
        """Let limits hold that were changed before, by the same job with another head."""
        with self._changing:
            self._unchecked = limits, started
            self._take()

    def watch(self, check: Callable[[Limits], None], started: str) -> None:
        """Let changes come through; ``check`` raises OptionError for limits that the job cannot have.

        ``started`` is what sheds by the start of this run.
        """
        with self._changing:
            self._check, self._started = check, started
            self._take()

    def keep(self, keeper: LimitsKeeper, *, anew: bool, warn: Callable[[str], None]) -> None:
        """Let limits of an earlier run hold, unless the job begins ``anew``, and keep those that follow.

        Raises:
            CheckpointError: what was kept cannot be read.
            RetryableError: the storage failed; call again.
        """
        with self._changing:
            if self._keeper is not None:
                return
            if anew:
                # What was changed before there was anywhere to keep it is of this run.
                keeper.write(*(self._unchecked or (self.wanted, self._started)))
            elif self.wanted == NO_LIMITS and self._unchecked is None:
                self._unchecked = keeper.read()
            self._keeper, self._warn = keeper, warn
            self._take()

    def change(self, limits: Limits) -> Limits:
        """Lay limits over those that hold, and return all of them; they are kept before they hold.

        Raises:
            OptionError: the job has no control of load, or the limits are of a query without a contract.
            RetryableError: they could not be kept; nothing has changed.
        """
        with self._changing:
            if self._check is None:
                raise OptionError(
                    "the job has no control of load: start it with control=ps.Control(...) (--shed); "
                    "shed='off' is one, too"
                )
            changed = self.wanted.changed_by(limits)
            self._check(changed)
            if self._keeper is not None:
                self._keeper.write(changed, self._started)
            self.wanted = changed
            self.noted(changed, self._started)
            return changed

    def _take(self) -> None:
        """Let kept limits hold, as far as this program and the way it was started leave them to."""
        if self._check is None or self._unchecked is None:
            return
        (kept, started), self._unchecked = self._unchecked, None
        if kept.shed is not None and started != self._started:
            self._warn(f"LIMITS: shed={kept.shed!r} of an earlier run is let go: this one was started otherwise.")
            kept = replace(kept, shed=None)
        if kept.shed is not None and not self._is_possible(Limits(kept.shed), f"shed={kept.shed!r}"):
            kept = replace(kept, shed=None)
        queries = {
            name: limit
            for name, limit in kept.queries.items()
            if self._is_possible(Limits(queries={name: limit}), f"those of query {name!r}")
        }
        self.wanted = Limits(kept.shed, queries)
        if self.wanted != NO_LIMITS:
            self._warn(
                f"LIMITS: {self.wanted.text()}, as they were changed in an earlier run; --reset takes them back."
            )

    def _is_possible(self, limits: Limits, what: str) -> bool:
        """Return whether this program can have limits of an earlier run; say so if not."""
        assert self._check is not None
        try:
            self._check(limits)
        except OptionError as error:
            self._warn(f"LIMITS: {what} of an earlier run {'is' if limits.shed else 'are'} let go: {error}.")
            return False
        return True


def _note_nowhere(limits: Limits, started: str | None) -> None:
    """Let them go: what is kept beside checkpoints is all that is kept."""
