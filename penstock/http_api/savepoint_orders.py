"""Savepoints that were asked for over HTTP: each waits in a thread, who asked may come back for the answer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from penstock.http_api.served_job import ServedJob

WAIT_S = 10.0
"""How long an answer waits for the savepoint to be committed."""

MOST_WAITING = 4
"""So many savepoints may be on their way."""

KEPT_ORDERS = 100
"""Of so many savepoints that are over it is known what became of them."""


class TooManyOrdersError(Exception):
    """As many savepoints as may be are on their way."""


class SavepointOrders:
    """The savepoints of one job, by name; called in the server's loop."""

    def __init__(self, job: ServedJob) -> None:
        """Begin with none."""
        self._job = job
        self._threads = ThreadPoolExecutor(MOST_WAITING, "penstock-savepoint")
        self._orders: dict[str, asyncio.Future[int]] = {}

    async def take(self, name: str) -> int | None:
        """Ask the job for a savepoint; return its epoch, None: it is not committed yet.

        Raises:
            TooManyOrdersError: too many are on their way.
            PenstockError: it cannot be taken.
        """
        waiting = [order for order in self._orders.values() if not order.done()]
        if len(waiting) >= MOST_WAITING:
            raise TooManyOrdersError
        order = asyncio.get_running_loop().run_in_executor(self._threads, self._job.savepoint, name)
        order.add_done_callback(_look_at_error)
        earlier = self._orders.pop(name, None)
        if earlier is not None and not (earlier.done() and earlier.exception() is not None):
            # One of a name that is taken is refused, and does not hide whoever took it.
            self._orders[name] = earlier
        else:
            self._orders[name] = order
        self._forget_oldest()
        return await _within(order, WAIT_S)

    async def look(self, name: str) -> int | None:
        """Return the epoch of a savepoint that was asked for here, None: it is not committed yet.

        Raises:
            KeyError: none of this name was asked for.
            PenstockError: it could not be taken.
        """
        return await _within(self._orders[name], WAIT_S)

    def close(self) -> None:
        """Ask for no more; the job's end ends those that wait."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _forget_oldest(self) -> None:
        over = [name for name, order in self._orders.items() if order.done()]
        for name in over[: max(0, len(over) - KEPT_ORDERS)]:
            del self._orders[name]


async def _within(order: "asyncio.Future[int]", patience_s: float) -> int | None:
    done, _ = await asyncio.wait([order], timeout=patience_s)
    return order.result() if done else None


def _look_at_error(order: "asyncio.Future[int]") -> None:
    """Take an error that nobody may come back for."""
    if not order.cancelled():
        order.exception()
