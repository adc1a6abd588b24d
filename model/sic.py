"""Terms of shedding by source information content: what the head of a job tells those who read its sources.

SIC is the share of a query's input that rows stand for (THEMIS, SIGMOD 2016; docs/design/papers/dissp.md 2).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

SIC_WINDOW_S = 10.0
"""The source time window, in which SIC is summed up."""


@dataclass(frozen=True, slots=True)
class SicGroup:
    """Queries that share whatever is dropped of a source, by their numbers, and the least share that they allow.

    ``branches`` are the names of the branches behind the source on their way; ``minimum`` is in [0, 1].
    """

    source: str
    queries: tuple[int, ...]
    branches: tuple[str, ...] = ()
    minimum: float = 1.0


@dataclass(frozen=True, slots=True)
class SicTerms:
    """Terms that hold from now on, until later ones come.

    ``queries`` by number; ``row_sic``: the SIC of a row of each source, by query, 0 for one that it does not feed.
    ``delivered`` is the SIC of results in the source time window, by query, ``generated`` that which sources gave out
    in it, ``accuracy`` the share of that which was not dropped. ``sheds``: the name of the shedder that chooses what is
    dropped; "" drops nothing. ``spread``: several processes read sources. ``shed_backlog``: what waited when a source
    was read first may be dropped.
    """

    queries: tuple[str, ...]
    row_sic: Mapping[str, tuple[float, ...]]
    groups: tuple[SicGroup, ...] = ()
    delivered: tuple[float, ...] = ()
    generated: tuple[float, ...] = ()
    accuracy: tuple[float, ...] = ()
    sheds: str = ""
    spread: bool = False
    shed_backlog: bool = False


@dataclass(frozen=True, slots=True)
class CheckTimes:
    """The checks of what waits that a process has made: how many, and their CPU in all and at most, ns."""

    number: int = 0
    spent_ns: int = 0
    longest_ns: int = 0

    def after(self, spent_ns: int) -> "CheckTimes":
        """Return them with one more check."""
        return CheckTimes(self.number + 1, self.spent_ns + spent_ns, max(self.longest_ns, spent_ns))

    def __add__(self, other: "CheckTimes") -> "CheckTimes":
        """Return those of two processes together."""
        return CheckTimes(
            self.number + other.number, self.spent_ns + other.spent_ns, max(self.longest_ns, other.longest_ns)
        )


NO_CHECKS = CheckTimes()


@dataclass(frozen=True, slots=True)
class Admission:
    """So many of the next records of a partition are read, or dropped before they are decoded.

    ``dropped_at``: the names of branches at which those that are read are dropped.
    """

    records: int
    is_kept: bool
    dropped_at: tuple[str, ...] = field(default=())
