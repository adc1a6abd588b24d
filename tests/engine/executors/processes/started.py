"""Processes of stand-ins, started by a launcher, and words with them."""

import json
import os
import select
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from penstock.engine.executors.processes.launcher import ProcessLauncher

STAND_IN = "tests.engine.executors.processes.stand_in"

WAIT_S = 60.0


class Started:
    """A launcher, and the stand-ins that it has started."""

    def __init__(self, service: str = STAND_IN) -> None:
        self.launcher = ProcessLauncher("shop", 3, service)
        self._links: dict[str, socket.socket] = {}
        self._files: dict[str, Any] = {}

    def start(self, *names: str) -> list[Any]:
        """Start them all, and return the first words of each."""
        for name in names:
            link = self.launcher.start(name)
            link.settimeout(WAIT_S)
            self._links[name], self._files[name] = link, link.makefile("rw")
        return [self.listen(name) for name in names]

    def say(self, name: str, *words: Any) -> None:
        self._files[name].write(json.dumps(words) + "\n")
        self._files[name].flush()

    def listen(self, name: str) -> Any:
        """Return the next answer; None: the other side is gone."""
        line = self._files[name].readline()
        return json.loads(line) if line else None

    def ask(self, name: str, *words: Any) -> Any:
        self.say(name, *words)
        return self.listen(name)

    def drop(self, name: str) -> None:
        """Close this side of a link."""
        self._files.pop(name).close()
        self._links.pop(name).close()

    def close(self, grace_s: float = 0.0) -> None:
        for name in tuple(self._links):
            self.drop(name)
        self.launcher.close(grace_s)


@contextmanager
def started(*names: str, service: str = STAND_IN) -> Iterator[Started]:
    """Start stand-ins, and leave nothing of them."""
    each = Started(service)
    try:
        each.start(*names)
        yield each
    finally:
        each.close()


@contextmanager
def watched(pids: Iterable[int]) -> Iterator[list[int]]:
    """Watch processes from now on; give what becomes readable when each has ended, be it a child of ours or not."""
    with ExitStack() as stack:
        descriptors = [os.pidfd_open(pid) for pid in pids]
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
        yield descriptors


def have_ended(descriptors: Iterable[int], within_s: float) -> bool:
    """Return whether all watched processes end within a time for each."""
    return all(select.select([descriptor], [], [], within_s)[0] for descriptor in descriptors)
