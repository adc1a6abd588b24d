"""The sample of a partition: the contract between a shedder and a reader that drops records before it decodes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.result_columns import DRAW

STEP = pa.field("$step", pa.uint8(), nullable=False)
"""The hidden column of rows that branches shed further: the step of the record that a row was made of, in [0, 64)."""


DRAW_FIELD = pa.field(DRAW, pa.uint8(), nullable=False)
"""The column that rows of a source with strata have."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The steps of records of a source with strata, in [0, 64), which were dealt out from offset ``since`` on."""

    steps: NDArray[np.uint8]
    since: int

    def where(self, chosen: NDArray[np.bool_]) -> "Drawn":
        """Return those of some of the records."""
        return Drawn(self.steps[chosen], self.since)


class Sampler(Protocol):
    """Chooses which records of one partition stay, by their offsets."""

    @property
    def keep(self) -> float:
        """The keep rate that holds now, in [0, 1]."""

    @property
    def branches(self) -> Mapping[str, float]:
        """The keep rates that hold now of branches behind the source, ``PRODUCER>CONSUMER``: those below `keep`."""

    @property
    def drawn(self) -> Drawn | None:
        """What the records have drawn that `chosen` was asked about last; None: their steps follow from offsets."""

    def chosen(
        self, offsets: NDArray[np.int64], keys: Sequence[bytes | None] | None = None
    ) -> NDArray[np.bool_] | None:
        """Return which of these records stay, None: all. ``keys`` are those of messages, None if none has any.

        It is asked about each record once, in order.
        """

    def wants_time(self) -> bool:
        """Return whether the event time of a dropped record is due, so that watermarks move; True at most 10/s."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The stretch of a partition, from ``start`` up to but without ``stop``, that one read has come past.

    ``keep`` is the rate that held for all of it, ``shed`` how many of its records were dropped. ``dated`` has the event
    time of one of these, in a column of its name; None: none was decoded. ``branches`` are the sampler's that held for
    all of it; if there are any, ``offsets`` has the offset of the record that each row of the read was made of.
    ``drawn`` has what the record of each row has drawn, if the sampler has strata and drew for it.
    """

    keep: float
    start: int
    stop: int
    shed: int = 0
    dated: pa.RecordBatch | None = None
    branches: Mapping[str, float] = field(default_factory=dict)
    offsets: NDArray[np.int64] | None = None
    drawn: Drawn | None = None
