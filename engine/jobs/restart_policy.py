"""The restart policy of a job that failed: exponential back-off (docs/design/recovery.md 3)."""

import numpy as np

from penstock.model.config import RestartOptions
from penstock.model.errors import PlanChangedError, RetryableError, WorkerLeftError, WorkerLostError

SETTLED_NS = 1_000_000_000
"""An attempt that ran so long before a worker was lost did not make that happen: the next one begins at once."""


def is_retryable(error: BaseException) -> bool:
    """Return whether a restart may help: the outside world failed, or a worker is lost.

    What the user got wrong, what is fatal, what is a bug and what nobody foresaw would only fail again.
    """
    return isinstance(error, RetryableError | ConnectionError | TimeoutError)


class RestartPolicy:
    """Exponential back-off over failures in a row; without ``rng`` the same every time.

    It spares what failed from being asked too often. A worker that goes as it was told to is no failure, nor is another
    plan. A worker that is lost is asked for nothing any more, and those that live can go on: there is no wait, unless
    attempts end as soon as they begin.
    """

    def __init__(self, options: RestartOptions, rng: np.random.Generator | None = None) -> None:
        """With ``rng`` a delay is drawn from its upper half, so that many jobs do not come back at once."""
        self._options = options
        self._rng = rng
        self.failures = 0
        self._doublings = 0

    @property
    def start_timeout_ns(self) -> int:
        """The time within which a job that has never run must start."""
        return self._options.start_timeout_ms * 1_000_000

    def failed(self, ran_ns: int, error: BaseException | None = None) -> int | None:
        """Count a failure of an attempt that ran for ``ran_ns``; return the wait in ns, None for no further attempt."""
        options = self._options
        if isinstance(error, WorkerLeftError | PlanChangedError):
            return 0
        if ran_ns >= options.reset_after_ms * 1_000_000:
            self.failures = self._doublings = 0
        self.failures += 1
        if options.attempts is not None and self.failures > options.attempts:
            return None
        if isinstance(error, WorkerLostError) and ran_ns >= SETTLED_NS:
            self._doublings = 0
            return 0
        # The exponent is bounded only to keep the integer small.
        delay_ms = min(options.most_delay_ms, options.first_delay_ms << min(self._doublings, 64))
        self._doublings += 1
        delay_ns = delay_ms * 1_000_000
        return delay_ns if self._rng is None else int(delay_ns * self._rng.uniform(0.5, 1.0))
