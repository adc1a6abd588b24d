"""``penstock state`` and `read_checkpoint`: what they say of a real checkpoint, by every address, and of none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.commands.cli import main
from penstock.engine.checkpoint.reader import Checkpoint
from penstock.model.installation import extra_install_command
from tests.hidden_libraries import hide
from tests.penstock.recovery.checkpoint_jobs import LONG_S, running

ITEMS = {(None, 1), ("ink", 2), ("pen", 3)}
"""The items of the orders, and how often there is one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Leave behind a savepoint and a checkpoint of a job with two instances."""
    folder = tmp_path_factory.mktemp("state")
    with running(folder, parallelism=2) as handle:
        handle.savepoint("first", LONG_S)
    return folder


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["state", *map(str, arguments)])
        printed = capfd.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return call


def counted(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(row["item"], row["rows"]) for row in rows}


def test_every_address_leads_to_a_checkpoint(folder: Path) -> None:
    base = folder / "checkpoints"
    newest = ps.read_checkpoint(base / "items")
    assert ps.read_checkpoint(str(base)).manifest == newest.manifest
    assert ps.read_checkpoint(base.as_uri()).manifest == newest.manifest
    assert ps.read_checkpoint(f"{base}/items@{newest.epoch}").manifest == newest.manifest
    first = ps.read_checkpoint(f"{base}#first")
    assert (first.job, first.savepoint, first.epoch < newest.epoch) == ("items", "first", True)
    assert repr(first) == f"<Checkpoint of job 'items', epoch {first.epoch}, savepoint 'first'>"
    assert newest.warning is None


def test_rows_of_all_instances_are_there_without_what_is_the_store_s(folder: Path) -> None:
    checkpoint = ps.read_checkpoint(folder / "checkpoints")
    ((operator, tables),) = checkpoint.tables().items()
    ((name, rows),) = tables.items()
    assert (operator, counted(rows.to_pylist())) == ("per item", ITEMS)
    internal = checkpoint.tables(internal=True)[operator][name]
    assert {"$instance", "$slot"} <= set(internal.column_names) - set(rows.column_names)
    assert set(internal["$instance"].to_pylist()) <= {0, 1}


def test_the_listing_has_operators_tables_and_positions(folder: Path, command: Any) -> None:
    code, out, _ = command("ls", folder / "checkpoints", "--json")
    listing = json.loads(out)
    operators = {item["operator"]: item for item in listing["operators"]}
    assert (code, listing["job"], sorted(operators)) == (0, "items", ["orders", "out", "per item"])
    assert operators["orders"]["positions"]["only"]["at"] >= 1
    (table,) = operators["per item"]["tables"]
    assert (operators["per item"]["instances"], table["kind"], table["rows"]) == (2, "table", 3)
    assert operators["per item"]["file_bytes"] > table["bytes"] > 0
    assert listing["age_us"] > 0
    code, out, _ = command("ls", f"{folder / 'checkpoints'}#first")
    assert code == 0 and "savepoint first" in out and "positions of orders" in out


def test_rows_are_printed_and_exported(folder: Path, command: Any, tmp_path: Path) -> None:
    where = folder / "checkpoints"
    code, out, _ = command("show", where, "per item", "--json")
    assert (code, counted([json.loads(line) for line in out.splitlines()])) == (0, ITEMS)
    assert "the first 1 of 3 rows" in command("show", where, "per item", "-n", 1)[1]
    files = tmp_path / "rows.arrow", tmp_path / "rows.parquet"
    assert command("show", where, "per item", "--arrow", files[0], "--parquet", files[1])[0] == 0
    for table in (pa.ipc.open_file(files[0]).read_all(), pq.read_table(files[1])):
        assert counted(table.to_pylist()) == ITEMS


def test_sql_is_asked_of_operators_and_tables(folder: Path, command: Any) -> None:
    where = folder / "checkpoints"
    (name,) = ps.read_checkpoint(where).tables()["per item"]
    code, out, _ = command("query", where, f'SELECT sum("rows") AS n FROM "per item".{name}', "--json")
    assert (code, json.loads(out)) == (0, {"n": 6})
    for sql, said in [
        ('SELECT * FROM "per item".nothing', f'"per item"."{name}"'),
        ("SELECT * FROM nothing.at_all", '"orders", "out", "per item"'),
        ("SELECT * FROM read_csv('/etc/hosts')", "disabled"),
        ("COPY (SELECT 1) TO 'rows.csv'", "one query"),
        ("SET enable_external_access = true", "one query"),
        ("SELECT 1; SELECT 2", "one query"),
    ]:
        code, _, err = command("query", where, sql)
        assert code == 2 and said in err, err


def test_without_duckdb_it_says_what_to_install(folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "duckdb")
    code, _, err = command("query", folder / "checkpoints", "SELECT 1")
    assert code == 3 and extra_install_command("sql") in err


@pytest.mark.parametrize(
    ("address", "operator", "expected", "said"),
    [
        ("", "nothing", 2, "no operator 'nothing'; it has 'orders', 'out', 'per item'"),
        ("", "orders", 2, "holds no rows"),
        ("#second", "orders", 1, "no savepoint 'second'; there are: first"),
        ("@4711", "orders", 1, "no checkpoint of epoch 4711"),
        ("/nowhere", "orders", 1, "there are no checkpoints in"),
    ],
)
def test_what_is_not_there_is_named(
    folder: Path, command: Any, address: str, operator: str, expected: int, said: str
) -> None:
    code, _, err = command("show", f"{folder / 'checkpoints'}{address}", operator)
    assert code == expected and said in err, err


def test_several_jobs_in_a_directory_have_to_be_told_apart(folder: Path, tmp_path: Path) -> None:
    for job in ("one", "two"):
        (tmp_path / job / "checkpoints").mkdir(parents=True)
    with pytest.raises(ps.OptionError, match="several jobs, one, two: name one"):
        ps.read_checkpoint(tmp_path)
    with pytest.raises(ps.FatalError, match="no checkpoint was completed"):
        ps.read_checkpoint(tmp_path / "one")


def test_a_damaged_file_is_never_shown(tmp_path: Path, command: Any) -> None:
    with running(tmp_path) as handle:
        handle.savepoint("first", LONG_S)
    (file,) = (tmp_path / "checkpoints" / "items" / "savepoints" / "first" / "files").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    code, _, err = command("ls", f"{tmp_path / 'checkpoints'}#first")
    assert code == 1 and "damaged" in err


def test_state_that_does_not_fit_in_memory_is_read_all_the_same(tmp_path: Path) -> None:
    many = [{"user": number, "cents": number % 7} for number in range(60_000)]
    stream = ps.read_memory(many, job=ps.Job()).name("payments")
    stream.key_by("user").agg(cents=ps.sum_("cents")).name("per user").write_black_hole(mode="changelog").name("out")
    where = tmp_path / "checkpoints"
    stream.job.run("users", checkpoint_dir=where, state_bytes=1_000_000, directory=tmp_path, parallelism=2)
    checkpoint = ps.read_checkpoint(where)
    files = {file.name for entry in checkpoint.manifest.instances for file in entry.files}
    assert "CURRENT" in files
    (rows,) = checkpoint.tables()["per user"].values()
    assert sorted(rows["user"].to_pylist()) == list(range(60_000))
    (kept,) = [kept for kept in checkpoint.operators() if kept.operator == "per user"]
    assert (kept.tables[0].rows, kept.instances) == (60_000, 2)


def test_large_state_in_memory_is_read_and_gone_on_from(tmp_path: Path) -> None:
    def run(users: int) -> Checkpoint:
        rows = pa.record_batch({"user": np.arange(users), "cents": np.arange(users) % 7})
        stream = ps.read_iterable(lambda: iter([rows]), schema=rows.schema, job=ps.Job()).name("payments")
        totals = stream.key_by("user").agg(cents=ps.sum_("cents")).name("per user")
        totals.write_black_hole(mode="changelog").name("out")
        where = tmp_path / "checkpoints"
        stream.job.run("users", checkpoint_dir=where, directory=tmp_path, parallelism=2)
        return ps.read_checkpoint(where)

    checkpoint = run(400_000)
    files = [file.name for entry in checkpoint.manifest.instances for file in entry.files]
    assert files.count("buckets") == 2 and "CURRENT" not in files and len(files) > 4
    (rows,) = checkpoint.tables()["per user"].values()
    assert sorted(rows["user"].to_pylist()) == list(range(400_000))
    (kept,) = [kept for kept in checkpoint.operators() if kept.operator == "per user"]
    assert (kept.tables[0].rows, kept.instances) == (400_000, 2)
    assert run(400_000).epoch > checkpoint.epoch
