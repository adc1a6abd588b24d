"""What of an evaluation is run on real parts: at which length, how often, and which of its cases."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.scale import Scale
from penstock.model.errors import OptionError

Times = list[tuple[RealCase, int]]
"""Cases, and how often each is run where none is named; 0: only where it is."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The scale, and how often the main cases are run; with ``names`` only these, and each so often."""

    scale: Scale
    runs: int
    names: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether something that is measured beside the cases is wanted."""
        return not self.names or name in self.names

    def times(self, cases: Callable[[Scale, int], Times], others: Sequence[str] = ()) -> Times:
        """Return the cases that are wanted, and how often; ``others``: names of what is measured beside them.

        Raises:
            OptionError: there is no such case; the valid ones are named.
        """
        every = cases(self.scale, self.runs)
        if not self.names:
            return [(case, times) for case, times in every if times]
        valid = [*(case.name for case, _ in every), *others]
        unknown = [name for name in self.names if name not in valid]
        if unknown:
            raise OptionError(f"there is no case {unknown[0]!r}: cases are {', '.join(valid)}")
        return [(case, self.runs) for case, _ in every if case.name in self.names]


def in_smoke(every: Times, names: Collection[str]) -> Times:
    """Return the same cases, of which only these are run, once, where none is named."""
    return [(case, int(case.name in names)) for case, _ in every]
