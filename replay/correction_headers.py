"""The headers of a correction, which say that it is one and of what (docs/reference/validation.md). Pure."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "penstock.correction."
"""Names of headers begin with it."""

INSERT, RETRACT = "insert", "retract"
"""What becomes of the row of a message: it belongs to the answer, or it does not."""

Pairs = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers of all corrections of a sink; ``checkpoint`` is the epoch up to which the job had read."""

    job: str
    name: str
    checkpoint: int | None

    def sink(self) -> Pairs:
        """Return those that tell corrections of one sink from others."""
        return [_pair("job", self.job), _pair("sink", self.name)]

    def change(self, change: str) -> tuple[str, bytes]:
        """Return the one that tells `INSERT` from `RETRACT`."""
        return _pair("change", change)

    def all(self, status: str, change: str) -> Pairs:
        """Return all of them, the status first."""
        at = [] if self.checkpoint is None else [_pair("checkpoint", str(self.checkpoint))]
        return [_pair("status", status), self.change(change), *self.sink(), *at]


def _pair(name: str, value: str) -> tuple[str, bytes]:
    return PREFIX + name, value.encode()
