"""Resources of a process and all that it has started: memory while they run, and time of CPU. Called by `rate`."""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_EVERY_S = 0.2
_MB = 1 << 20


class PeakMemory:
    """Samples a process and its descendants while the block runs.

    Pages that several processes share count once, in parts (PSS): workers are forks of one another.
    """

    def __init__(self, process: int) -> None:
        """Nothing is sampled before the block."""
        self.total_mb = 0.0
        self.java_mb = 0.0
        self.python_mb = 0.0
        """The greatest sums: of all processes, of Java's, and of the others'; not all at the same moment."""

        self._process = process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(_EVERY_S):
            java = others = 0.0
            for process in tree(self._process):
                try:
                    size, name = _pss(process.pid) / _MB, process.name()
                except (OSError, psutil.Error):
                    continue
                if name == "java":
                    java += size
                else:
                    others += size
            self.java_mb, self.python_mb = max(self.java_mb, java), max(self.python_mb, others)
            self.total_mb = max(self.total_mb, java + others)


def tree(process: int) -> list[psutil.Process]:
    """Return a process and its descendants; none if it is gone."""
    try:
        root = psutil.Process(process)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def cpu_s(process: int) -> float:
    """Return the seconds of CPU of a process and its descendants, those that ended and were waited for included."""
    total = 0.0
    for one in tree(process):
        try:
            total += sum(one.cpu_times()[:4])
        except psutil.Error:
            continue
    return total


def _pss(process: int) -> int:
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
