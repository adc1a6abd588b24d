"""State in pages under simulation: stores that are simulated, on real files, which checkpoints upload (engine.md 6).

They bring no surprise of their own, as RocksDB's file names and times would; handed to `Simulation`.
"""

from pathlib import Path

from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paging import Paging
from penstock.state.local_files import LocalFiles
from penstock.state.simulated_page_store import SimulatedPageStores

TINY = PagingOptions(budget_bytes=1 << 20, bucket_bytes=200, least_bucket_bytes=100, row_bytes=2_000)
"""Buckets of some rows each, none of which stays in memory for long."""


class SimulatedPaging:
    """Pages the state of one simulated process after the other, below ``directory``, which nothing else touches."""

    def __init__(self, directory: Path, options: PagingOptions = TINY) -> None:
        """Nothing is made yet."""
        self.directory = directory
        self.stores = SimulatedPageStores(LocalFiles(directory), directory)
        self._options = options

    def make(self) -> Paging:
        """Return what pages the state of an attempt; that of the one before is gone."""
        return Paging(self._options, self.stores, self.directory / "state", threads=False)
