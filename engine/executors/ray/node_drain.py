"""The notice that a node of Ray is drained: it is to end soon, and what it runs must go elsewhere before.

``ray drain-node`` gives it, and clouds do before they take a machine back. Ray has no public call that says so; its own
libraries ask as this does, and nothing else here does.
"""

from collections.abc import Callable, Collection
from threading import Event, Thread

LOOK_S = 2.0
"""How often it is asked for."""


def draining_nodes() -> Collection[str]:
    """Return the ids of the nodes that are drained; none if the cluster does not say."""
    from ray._private.state import state
    from ray.exceptions import RaySystemError

    try:
        return frozenset(state.get_draining_nodes())
    except (RaySystemError, ConnectionError, RuntimeError):
        # Whether the cluster is there at all, others find out.
        return ()


class DrainWatch:
    """A thread that waits for the notice for one node."""

    def __init__(
        self,
        node: str,
        notice: Callable[[], None],
        read: Callable[[], Collection[str]] = draining_nodes,
        look_s: float = LOOK_S,
    ) -> None:
        """Begin; ``notice`` is called once, on that thread."""
        self._node, self._notice, self._read, self._look_s = node, notice, read, look_s
        self._over = Event()
        self._thread = Thread(target=self._watch, name="penstock-drain-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; one that waits for an answer is left behind."""
        self._over.set()
        self._thread.join(1.0)

    def _watch(self) -> None:
        while not self._over.wait(self._look_s):
            if self._node in self._read():
                self._notice()
                return
