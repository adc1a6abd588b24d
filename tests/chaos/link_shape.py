"""How a slow network treats what goes over it: delay, rate, and lost packets, which TCP makes stalls of.

It tells when what is sent arrives, and waits for nothing itself. Used by `tcp_proxy`.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Shape:
    """What a link does to what is sent, each way.

    Every piece comes ``delay_s`` later. All connections together get ``bytes_per_s`` through; None: any number. A share
    ``loss`` of the pieces stalls, and all behind it in its connection, for a time between those of ``stall_s``: that of
    a retransmission.
    """

    delay_s: float = 0.0
    bytes_per_s: float | None = None
    loss: float = 0.0
    stall_s: tuple[float, float] = (0.2, 0.4)


class Line:
    """One direction of a link, which all its connections share. One seed, one sequence of stalls."""

    def __init__(self, seed: int) -> None:
        """Let everything through at once."""
        self._shape = Shape()
        self._rng = np.random.default_rng(seed)
        self._free_at = 0.0

    def bend(self, shape: Shape) -> None:
        """Take another shape, for what is sent from now on."""
        self._shape = shape
        self._free_at = 0.0

    def arrival(self, now: float, size: int, after: float) -> float:
        """Return when a piece of so many bytes that is sent now arrives; the one before it does at ``after``."""
        shape = self._shape
        sent = max(now, self._free_at)
        if shape.bytes_per_s is not None:
            sent += size / shape.bytes_per_s
        self._free_at = sent
        stalled = shape.loss and self._rng.random() < shape.loss
        stall = float(self._rng.uniform(*shape.stall_s)) if stalled else 0.0
        return max(after, sent + shape.delay_s + stall)
