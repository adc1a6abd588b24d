"""Outputs of a pipeline's runs, read back as multisets of rows to compare; called by `chaos`.

Of an updating stream only what stands at the end counts: how often a row is corrected depends on how rows were batched.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from penstock.dsl.sink_relocation import output_folder
from penstock.engine.connectors.files.staged_files import epoch_of
from penstock.model.job_graph import SinkSpec

Rows = Counter[bytes]
"""Rows as JSON, each with how often it is there."""

DIGITS = 9
"""Sums of floats depend on the order of the summands; rows that agree in so many digits are the same."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of the undisturbed run that are missing, rows that it does not have, and how many there are altogether."""

    rows: int = 0
    lost: int = 0
    duplicated: int = 0

    def __add__(self, other: "Difference") -> "Difference":
        return Difference(self.rows + other.rows, self.lost + other.lost, self.duplicated + other.duplicated)


class Outputs:
    """The outputs of a run with a directory to itself: files below it, whatever the pipeline's sinks are."""

    def options(self, folder: Path) -> Sequence[str]:
        """Return options of ``penstock run``."""
        return [f"--sinks-into={folder}"]

    def arguments(self, folder: Path) -> Sequence[str]:
        """Return further arguments of the pipeline. There are none by default."""
        return []

    def read(self, folder: Path, name: str, sink: SinkSpec) -> Rows:
        """Return what a sink of that name has committed there."""
        return read_rows(output_folder(folder, name), sink.mode, sink.key)


def read_rows(folder: Path, mode: str, key: tuple[str, ...]) -> Rows:
    """Return the rows that a file sink wrote into a directory in this mode, those in place only."""
    files = sorted(folder.glob("part-*"), key=lambda path: (epoch_of(path.name) or 0, path.name))
    if mode == "append":
        return Counter(row for path in files for row in _plain(path))
    if mode == "changelog":
        return _standing(files)
    last: dict[bytes, bytes] = {}
    for path in files:
        for row in _dicts(path):
            deleted = row.pop("deleted") in (True, "true", "True")
            name = _encode([row[column] for column in key])
            if deleted:
                last.pop(name, None)
            else:
                last[name] = _encode(row)
    return Counter(last.values())


def difference(expected: Rows, actual: Rows) -> Difference:
    """Hold the rows of a run against those expected."""
    lost, duplicated = expected - actual, actual - expected
    if lost and duplicated:
        near_lost, near_duplicated = _rounded(lost), _rounded(duplicated)
        lost, duplicated = near_lost - near_duplicated, near_duplicated - near_lost
    return Difference(expected.total(), lost.total(), duplicated.total())


def _standing(files: list[Path]) -> Rows:
    """Return what a changelog comes to. A row of negative weight stands for itself: something retracted it twice."""
    weights: Rows = Counter()
    for path in files:
        for row in _dicts(path):
            weight = int(row.pop("weight"))
            weights[_encode(row)] += weight
    standing = +weights
    for retracted, weight in (-weights).items():
        standing[b"retracted too often: " + retracted] = weight
    return standing


def _plain(path: Path) -> Iterator[bytes]:
    if path.suffix == ".parquet":
        return map(_encode, _dicts(path))
    lines = path.read_bytes().splitlines()
    return iter(lines[1:] if path.suffix == ".csv" else lines)


def _dicts(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        # Reads this one file: a path alone would take folder names such as a=b for columns.
        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    elif path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)
    else:
        for line in path.read_bytes().splitlines():
            yield msgspec.json.decode(line)


def _encode(row: Any) -> bytes:
    return msgspec.json.encode(row, enc_hook=str)


def _rounded(rows: Rows) -> Rows:
    near: Rows = Counter()
    for row, times in rows.items():
        try:
            near[_encode(_round(msgspec.json.decode(row)))] += times
        except msgspec.DecodeError:
            near[row] += times
    return near


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [_round(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _round(item) for name, item in value.items()}
    return value
