"""The connection of this process to the Ray cluster of jobs that it asks after."""

import os
from contextlib import AbstractContextManager

from penstock.engine.executors.ray.cluster import connected


def connected_to_jobs(address: str | None) -> AbstractContextManager[None]:
    """Be connected meanwhile to a cluster that runs: at this address, that of RAY_ADDRESS, or of this machine.

    A machine that is no node of the cluster reaches it by an address of Ray Client, ``ray://HOST:10001``.

    Raises:
        OptionError: there cannot be one at this address.
        RetryableError: none answers there.
    """
    return connected(address or os.environ.get("RAY_ADDRESS") or "auto", 1, with_program=False, only_calls=True)
