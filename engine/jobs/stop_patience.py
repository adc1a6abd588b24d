"""The patience of a stopping job with sinks that are still sending. Pure; called by attempts."""

from collections import Counter
from collections.abc import Iterable

from penstock.model.errors import FatalError
from penstock.model.outstanding import Outstanding

STOP_DELIVERY_NS = 5_000_000_000
"""How long it waits for the next row to arrive."""


class StopPatience:
    """Watches deliveries from the moment on that a job was told to stop."""

    def __init__(self, *, checkpoints: bool) -> None:
        """With ``checkpoints`` what has not arrived is sent again by the next run."""
        self._since_ns: int | None = None
        self._arrived: dict[str, int] = {}
        self._checkpoints = checkpoints

    def look(self, now_ns: int, outstanding: Iterable[Outstanding | None]) -> FatalError | None:
        """Take in what each sink has on its way now; return the error that ends the job once nothing arrives."""
        waiting = [item for item in outstanding if item is not None]
        arrived, left = Counter[str](), Counter[str]()
        for item in waiting:
            arrived[item.where] += item.arrived
            left[item.where] += item.left
        # The count of a topic falls, too, when one of its writers has nothing on its way any more.
        if self._since_ns is None or dict(arrived) != self._arrived or not waiting:
            self._since_ns, self._arrived = now_ns, dict(arrived)
        if now_ns - self._since_ns < STOP_DELIVERY_NS:
            return None
        what = " and ".join(f"{count:,} rows to {where}" for where, count in left.items())
        then = "the next start sends them again" if self._checkpoints else "they are lost to it"
        return FatalError(
            f"the job was told to stop, and of {what} nothing has arrived for {STOP_DELIVERY_NS // 1_000_000_000} s: "
            f"{then}"
        )
