"""Readings of a job's metrics for many who ask at once: one at a time, each for all who asked before it began."""

import asyncio
from concurrent.futures import Executor

from penstock.engine.jobs.metrics import JobMetrics
from penstock.http_api.served_job import ServedJob


class Readings:
    """The metrics of one job; its methods are called in the server's loop, and the job's in a thread of the executor.

    However many ask, the job is read by one of them, so that it shares the interpreter with one reader and no more.
    """

    def __init__(self, job: ServedJob, executor: Executor) -> None:
        """Read nothing yet."""
        self._job, self._executor = job, executor
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[JobMetrics] | None = None

    async def read(self) -> JobMetrics:
        """Return metrics that are no older than this call.

        Raises:
            Exception: whatever the job raises.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._read_next())
            self._next.add_done_callback(_look_at_error)
        return await asyncio.shield(self._next)

    async def _read_next(self) -> JobMetrics:
        async with self._turn:
            # Who asks from now on may have seen more happen than this reading shows.
            self._next = None
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._job.metrics)


def _look_at_error(reading: "asyncio.Task[JobMetrics]") -> None:
    """Take an error that nobody waits for any more."""
    if not reading.cancelled():
        reading.exception()
