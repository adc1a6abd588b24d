"""The connection of this process to the Ray cluster of jobs that it asks after."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from penstock.engine.executors.ray.cluster import connected
from penstock.model.errors import RetryableError


@contextmanager
def connected_to_jobs(address: str | None) -> Iterator[None]:
    """Be connected meanwhile to a cluster that runs: at this address, that of RAY_ADDRESS, or of this machine.

    A machine that is no node of the cluster reaches it by an address of Ray Client, ``ray://HOST:10001``.

    Raises:
        OptionError: there cannot be one at this address.
        RetryableError: none answers there.
    """
    with ExitStack() as stack:
        try:
            where = address or os.environ.get("RAY_ADDRESS") or "auto"
            stack.enter_context(connected(where, 1, with_program=False, only_calls=True))
        except RetryableError as error:
            reason = str(error).rstrip(".")
            raise RetryableError(
                f"{reason}; a job that runs without Ray goes by the URL at which it serves its metrics, such as "
                "http://localhost:9464"
            ) from error.__cause__
        yield
