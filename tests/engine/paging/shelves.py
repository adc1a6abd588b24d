"""Where paged operators of tests keep their pages: a simulated disk, or RocksDB as in a job."""

from itertools import count
from pathlib import Path

import numpy as np

from penstock.engine.paging.write_behind import WriteBehind
from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles
from penstock.state.stores.page_store import DEFAULT_MEMORY_BYTES, PageStore, PageStores
from penstock.state.stores.rocksdb_store import RocksDbStores
from penstock.state.stores.simulated_page_store import SimulatedPageStore, SimulatedPageStores


class SimulatedPages(SimulatedPageStore):
    """A store on a simulated disk whose copies are files of the machine, as those of RocksDB are."""

    def copy_to(self, directory: Path) -> list[str]:
        inside = directory.relative_to("/")
        names = super().copy_to(inside)
        directory.mkdir(parents=True)
        for name in names:
            (directory / name).write_bytes(self._files.read(f"{inside.as_posix()}/{name}"))
            self._files.delete(f"{inside.as_posix()}/{name}")
        return names


class Shelves(PageStores):
    """Stores on one simulated disk."""

    def __init__(self) -> None:
        self.files = SimulatedFiles(SimulatedDisk(np.random.default_rng(0)))
        self._numbers = count()

    def open(self, memory_bytes: int) -> PageStore:
        """Open an empty store."""
        return self.create(Path(f"store-{next(self._numbers)}"), memory_bytes)

    def create(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> PageStore:
        store = SimulatedPages(self.files, Path(), Path("created") / directory.name, memory_bytes)
        store.write_list({})
        return store

    def restore(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> PageStore:
        inside = Path(f"restored-{next(self._numbers)}")
        for path in directory.iterdir():
            self.files.write(f"{inside.as_posix()}/{path.name}", path.read_bytes())
        return SimulatedPageStores(self.files).restore(inside, memory_bytes)


class RocksShelves(Shelves):
    """Stores in RocksDB that are written by threads of their own, as a job has them."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def create(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> PageStore:
        return WriteBehind(RocksDbStores().create(self._directory / directory.name, memory_bytes))

    def restore(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> PageStore:
        return RocksDbStores().restore(directory, memory_bytes)
