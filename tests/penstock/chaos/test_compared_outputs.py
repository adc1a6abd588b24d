"""Outputs as multisets of rows."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from penstock.chaos.compared_outputs import Difference, difference, read_rows


def test_lost_and_duplicated_rows_are_counted() -> None:
    expected, found = Counter({b"a": 2, b"b": 1, b"c": 1}), Counter({b"a": 1, b"b": 3, b"c": 1})
    assert difference(expected, found) == Difference(4, lost=1, duplicated=2)


def test_floats_agree_in_nine_digits() -> None:
    third = 0.1 + 0.2
    assert difference(Counter({b'{"x":0.3}': 1}), Counter({f'{{"x":{third!r}}}'.encode(): 1})) == Difference(1)
    assert difference(Counter({b'{"x":0.3}': 1}), Counter({b'{"x":0.3001}': 1})) == Difference(1, 1, 1)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_of_a_changelog_counts_what_stands(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"part-00000-0000000001{suffix}", {"k": ["a", "b"], "weight": [1, 1]})
    write(tmp_path / f"part-00000-0000000002{suffix}", {"k": ["a", "a", "c"], "weight": [-1, 1, -1]})
    rows = read_rows(tmp_path, "changelog", ())
    assert sorted(rows.values()) == [1, 1, 1]
    assert sum(row.startswith(b"retracted too often") for row in rows) == 1


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_of_upserts_the_last_row_of_a_key_stands(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"part-00001-0000000001{suffix}", {"k": ["a", "b"], "v": [1, 1], "deleted": [False, False]})
    write(tmp_path / f"part-00000-0000000010{suffix}", {"k": ["a", "b"], "v": [2, 0], "deleted": [False, True]})
    (row,) = read_rows(tmp_path, "upsert", ("k",))
    assert b"2" in row


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_of_appended_rows_each_counts(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"part-00000{suffix}", {"k": ["a", "a", "b"], "v": [1, 1, 2]})
    assert sorted(read_rows(tmp_path, "append", ()).values()) == [1, 2]


def test_staged_files_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "_staging").mkdir()
    write(tmp_path / "_staging" / "part-00000-0000000001.jsonl", {"k": ["a"]})
    assert not read_rows(tmp_path, "append", ())


def write(path: Path, columns: dict[str, list[object]]) -> None:
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        import json

        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
