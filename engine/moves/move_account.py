"""What a move takes, round by round, and its summary in the end. Pure: times are handed in."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.engine.moves.move_orders import MoveSummary
from penstock.engine.moves.source_rates import SourceRates


@dataclass(slots=True)
class MoveAccount:
    """The account of one move; ``planned_ms`` None: no move before tells how long so many bytes take."""

    began_ns: int
    planned_bytes: int
    planned_ms: float | None
    key_groups: int = 0
    state_bytes: int = 0
    buckets: int = 0
    checkpoints: int = 0
    rounds_ns: list[int] = field(default_factory=list)
    markers_ns: list[int] = field(default_factory=list)
    pauses_ns: list[int] = field(default_factory=list)
    _round_ns: int = 0

    def round_begins(self, now_ns: int, key_groups: int, checkpoints: int) -> None:
        """A round of so many key groups begins, behind so many checkpoints since the one before."""
        self._round_ns = now_ns
        self.key_groups += key_groups
        self.checkpoints += checkpoints

    def given(self, now_ns: int, state_bytes: int) -> None:
        """A giver has cut out what it gives: the marker has come to it on every channel."""
        self.state_bytes += state_bytes
        self.markers_ns.append(now_ns - self._round_ns)

    def installed(self, key_groups: int, buckets: int, paused_ns: int) -> None:
        """So many key groups go on, in so many buckets; their rows had to wait so long at most."""
        self.buckets += buckets
        self.pauses_ns += [paused_ns] * key_groups

    def round_is_over(self, now_ns: int) -> None:
        """All state of the round goes on."""
        self.rounds_ns.append(now_ns - self._round_ns)

    def summary(self, now_ns: int, rates: SourceRates) -> MoveSummary:
        """Return what it took, at its end."""
        took_ns = now_ns - self.began_ns
        return MoveSummary(
            self.key_groups,
            len(self.rounds_ns),
            self.state_bytes,
            took_ns / 1e6,
            *_quantiles_ms(self.rounds_ns),
            buckets=self.buckets,
            pause_ms=_quantiles_ms(self.pauses_ns),
            marker_ms=_quantiles_ms(self.markers_ns),
            checkpoints=self.checkpoints,
            planned_bytes=self.planned_bytes,
            planned_ms=self.planned_ms,
            source_rows_s=(rates.rate(0, self.began_ns), rates.rate(self.began_ns, now_ns)),
        )


def _quantiles_ms(times_ns: Sequence[int]) -> tuple[float, float]:
    """Return the median and the 99th percentile; of none 0."""
    return (float(np.percentile(times_ns, 50)) / 1e6, float(np.percentile(times_ns, 99)) / 1e6) if times_ns else (0, 0)
