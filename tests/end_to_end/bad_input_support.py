"""What the tests of bad input share: sales from every kind of source, and one run whose ledger is checked."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.engine.jobs.ledger import Ledger, check_ledger
from tests.penstock.front_door import dead_letters, ordered

Row = dict[str, Any]


START = datetime(2025, 3, 1)


SALE = pa.schema({"shop": pa.string(), "amount": pa.int64(), "at": pa.timestamp("us")})


GOOD = '{"shop": "north", "amount": 1, "at": "2025-03-01T00:00:00"}'


LARGEST = 2**63 - 1


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def sale(shop: str | None, amount: int | None, seconds: float | None) -> Row:
    return {"shop": shop, "amount": amount, "at": None if seconds is None else at(seconds)}


@dataclass
class Outcome:
    """What a run left behind."""

    rows: list[Row]
    ledger: Ledger
    letters: list[Row] = field(default_factory=list)

    @property
    def errors(self) -> list[tuple[str, str]]:
        """Position, without the folder, and error of every dead letter."""
        return [(letter["position"].rsplit("/", 1)[-1], letter["error"]) for letter in self.letters]


def run(stream: ps.Stream, folder: Path, **options: Any) -> Outcome:
    """Run a stream; every row of every operator is accounted for, and dead letters are all there."""
    result = stream.collect()
    metrics = stream.job.run("bad", directory=folder / "job", max_dead_letters="any", **options)
    check_ledger(metrics.ledger, ended=True)
    letters = dead_letters(folder / "job")
    assert len(letters) == metrics.ledger.dead_lettered
    return Outcome(ordered(result.rows()), metrics.ledger, letters)


def from_json(folder: Path, *lines: str | bytes, **options: Any) -> ps.Stream:
    file = folder / "sales.jsonl"
    file.write_bytes(b"\n".join(text if isinstance(text, bytes) else text.encode() for text in lines))
    return ps.read_json(file, job=ps.Job(), **{"schema": SALE, "time": "at", **options})


def from_csv(folder: Path, text: str, **options: Any) -> ps.Stream:
    file = folder / "sales.csv"
    file.write_text(text)
    return ps.read_csv(file, job=ps.Job(), **{"schema": SALE, "time": "at", **options})


def from_memory(*sales: Row, **options: Any) -> ps.Stream:
    return ps.read_memory(list(sales), schema=SALE, job=ps.Job(), **{"time": "at", **options})


def parquet(folder: Path, *tables: pa.Table | bytes) -> ps.Stream:
    files = folder / "sales"
    files.mkdir()
    for number, table in enumerate(tables):
        file = files / f"{number}.parquet"
        if isinstance(table, bytes):
            file.write_bytes(table)
        else:
            pq.write_table(table, file)
    return ps.read_parquet(files, time="at", job=ps.Job())


SALES = pa.Table.from_pylist([sale("a", number, number) for number in range(10)], schema=SALE)
