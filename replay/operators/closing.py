"""Windows of a replay that were over in the stream at its checkpoint, and rows that were counted.

Called by aggregates. A stream to its end has closed all of them, and nothing is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from penstock.model.job_graph import AggregateSpec, OperatorNode, ReduceSpec
from penstock.model.windows import Count, Global, Session, Windowing
from penstock.replay.checkpoint_progress import CheckpointProgress, micros_literal
from penstock.replay.frames import ReplayContext
from penstock.replay.operators.prepared import AT, quoted

ROWS = "$rows"
"""Number of rows of a window."""

_END, _LAST = "$window_end", "$last"


@dataclass(frozen=True)
class WindowClosing:
    """Tells the windows of one operator apart; ``passed_us`` is the time up to which it had come.

    Without ``checkpoint_progress`` all are over.
    """

    node: OperatorNode
    windowing: Windowing | None = None
    progress: CheckpointProgress | None = None
    passed_us: int = 0

    def counted(self, rows: DataFrame) -> DataFrame:
        """Return the rows, with their times in `AT`, that its windows have counted: others wait for the watermark."""
        if self.progress is None or not self._follows or not isinstance(self._window, Count):
            return rows
        return self.progress.due(self.node, rows, f"{quoted(AT)} < {micros_literal(self.passed_us)}")

    def further(self) -> dict[str, str]:
        """Return what `over` must know of each window, as aggregates by name."""
        count = self.progress is not None and isinstance(self._window, Count)
        return {_LAST: f"max({quoted(AT)})"} if count else {}

    def over(self, windows: DataFrame) -> DataFrame:
        """Return the windows that have been put out; their ends are in microseconds."""
        if self.progress is None or self._follows:
            return windows
        passed, end = micros_literal(self.passed_us), quoted(_END)
        if isinstance(self._window, Count):
            over = f"{quoted(ROWS)} = {self._window.rows}L AND {quoted(_LAST)} < {passed}"
        elif isinstance(self._window, Session):
            over = f"{end} < {passed}"
        else:
            over = "FALSE" if isinstance(self._window, Global) else f"{end} <= {passed}"
        return self.progress.due(self.node, windows, over)

    @property
    def _window(self) -> object:
        return None if self.windowing is None else self.windowing.window

    @property
    def _follows(self) -> bool:
        """True if what it shows follows its rows, with nothing held back until a window is over."""
        return self.windowing is None or self.windowing.emission.mode == "updates"


def allowed_lateness_us(nodes: Iterable[OperatorNode]) -> int:
    """Return the greatest lateness that the windows of these operators allow."""
    specs = [node.spec for node in nodes if isinstance(node.spec, AggregateSpec | ReduceSpec)]
    return max((spec.windowing.lateness_us for spec in specs if spec.windowing is not None), default=0)


def closing_of(windowing: Windowing | None, node: OperatorNode, context: ReplayContext) -> WindowClosing:
    """Return how the windows of an operator are told apart.

    Raises:
        ReplayError: its checkpoint does not tell.
    """
    progress = context.progress
    if progress is None or windowing is None:
        return WindowClosing(node)
    follows = windowing.emission.mode == "updates"
    if follows and not isinstance(windowing.window, Count):
        return WindowClosing(node)
    passed_us = progress.passed_us(node, windowing.lateness_us)
    return WindowClosing(node) if passed_us is None else WindowClosing(node, windowing, progress, passed_us)
