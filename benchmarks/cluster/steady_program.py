"""A program for a Ray cluster: rows at a steady rate, counted by key. Arguments: a folder, and rows per second.

Its sink makes the file ``first`` in the folder when the first row comes.
"""

import sys
from pathlib import Path

import pyarrow as pa

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource


class FirstRow(ps.Sink):
    """Makes a file when the first row comes."""

    def __init__(self, file: Path) -> None:
        """Make this file."""
        self._file = file

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> ps.Writer:
        """Begin to wait for a row."""
        return _FirstRowWriter(self._file)


class _FirstRowWriter(ps.Writer):
    def __init__(self, file: Path) -> None:
        self._file = file
        self._has_come = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Make the file, once."""
        if not self._has_come:
            self._file.touch()
            self._has_come = True


if __name__ == "__main__":
    folder, rows_per_s = Path(sys.argv[1]), int(sys.argv[2])
    steady = ps.read(SteadySource(rows_per_s // 2, 10_000, partitions=2)).name("steady")
    steady.write(FirstRow(folder / "first")).name("first row")
    steady.key_by("key").agg(n=ps.count()).name("counted").write_black_hole(mode="changelog").name("nowhere")
    ps.run("steady")
