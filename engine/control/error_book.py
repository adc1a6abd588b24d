"""The errors of the rows of a job's queries since they were asked for last, from what task managers have read."""

from collections.abc import Mapping

import numpy as np

from penstock.engine.control.part_reading import PartReading
from penstock.shedding.result_errors import FIGURES, ErrorCounts

Sink = tuple[str, int]
"""A query and the number of an instance of its sink."""


class ErrorBook:
    """The counts of each sink, as they were heard last and as they were at the last call of `take`."""

    def __init__(self) -> None:
        """Begin with none."""
        self._heard: dict[Sink, ErrorCounts] = {}
        self._taken: dict[Sink, ErrorCounts] = {}

    def hear(self, part: PartReading) -> None:
        """Take in what was read of instances."""
        table = part.errors
        if not len(table):
            return
        numbers, places, counted = (table.column(name).to_numpy() for name in ("number", "place", "figure"))
        queries = np.array(table.column("query").to_pylist(), object)
        for query, number in set(zip(queries.tolist(), numbers.tolist(), strict=True)):
            own = (queries == query) & (numbers == number)
            vector = np.zeros(FIGURES)
            vector[places[own]] = counted[own]
            self._heard[query, number] = ErrorCounts(vector)

    def take(self) -> Mapping[str, ErrorCounts]:
        """Return what was counted of each query since the last call."""
        found: dict[str, ErrorCounts] = {}
        for (query, number), counts in self._heard.items():
            since = counts.since(self._taken.get((query, number)))
            found[query] = found.get(query, ErrorCounts()) + since
        self._taken = dict(self._heard)
        return found
