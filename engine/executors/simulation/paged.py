"""State in pages under simulation: stores that are simulated, on real files, which checkpoints upload.

They bring no surprise of their own, as RocksDB's file names and times would; handed to `Simulation`
(docs/design/simulated-runs.md 4).
"""

from pathlib import Path

from penstock.engine.executors.simulation.page_faults import PageFaults, PageFiles
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paging import Paging
from penstock.state.stores.simulated_page_store import SimulatedPageStores

_LEAST_BYTES = 1_500
"""More than a bucket takes that holds nothing: smaller ones would be cut without end, until none has a key."""

TINY = PagingOptions(budget_bytes=1 << 20, bucket_bytes=200, least_bucket_bytes=_LEAST_BYTES, row_bytes=2_000)
"""Buckets of some rows each, none of which stays in memory for long."""


def paging_of(state_bytes: int) -> PagingOptions:
    """Return options for a budget: recorded rows are few, so buckets and what waits for them are small, too."""
    return PagingOptions(
        budget_bytes=state_bytes,
        least_bucket_bytes=min(max(state_bytes // 64, _LEAST_BYTES), 1 << 18),
        row_bytes=max(state_bytes // 16, 1_000),
    )


class SimulatedPaging:
    """Pages the state of simulated processes, one after the other, below ``directory``, which nothing else touches."""

    def __init__(self, directory: Path, options: PagingOptions = TINY) -> None:
        """Nothing is made yet."""
        self.directory = directory
        self.options = options


class SimulatedPages:
    """The paging of one seed's run."""

    def __init__(self, paging: SimulatedPaging, faults: PageFaults) -> None:
        """Nothing is made yet."""
        self.faults = faults
        self.directory = paging.directory
        self.stores = SimulatedPageStores(PageFiles(paging.directory, faults), paging.directory)
        self._options = paging.options

    def make(self, folder: str = "state") -> Paging:
        """Return what pages the state of an attempt in a folder of its own; that of the one before is gone."""
        return Paging(self._options, self.stores, self.directory / folder, threads=False)
