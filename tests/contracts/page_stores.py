"""Every kind of page store by its name, and what the suites need of the disks below them."""

import shutil
from pathlib import Path

import numpy as np

from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles
from penstock.state.stores.rocksdb_store import RocksDbStores
from penstock.state.stores.simulated_page_store import SimulatedPageStores


class RealDisk:
    """Stores of RocksDB below a folder; a crash loses nothing that reached the kernel."""

    def __init__(self, folder: Path) -> None:
        self.stores = RocksDbStores()
        self._folder = folder

    def path(self, name: str) -> Path:
        return self._folder / name

    def copy(self, old: Path, new: Path) -> None:
        shutil.copytree(old, new)

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir())

    def crash(self, store) -> None:
        store.close()


class PretendedDisk:
    """Stores on a simulated disk; a crash loses what was not synced."""

    def __init__(self, folder: Path) -> None:
        self.disk = SimulatedDisk(np.random.default_rng(7))
        self.files = SimulatedFiles(self.disk)
        self.stores = SimulatedPageStores(self.files)

    def path(self, name: str) -> Path:
        return Path(name)

    def copy(self, old: Path, new: Path) -> None:
        for name in self.names(old):
            self.files.write(f"{new.as_posix()}/{name}", self.files.read(f"{old.as_posix()}/{name}"))

    def names(self, folder: Path) -> list[str]:
        return list(self.files.list(folder.as_posix()))

    def crash(self, store) -> None:
        self.disk.crash()


PAGE_STORES = {"rocksdb": RealDisk, "simulated": PretendedDisk}
