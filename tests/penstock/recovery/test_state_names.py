"""Columns of state by the names of the pipeline, wherever an operator keeps them."""

from pathlib import Path

import pytest

import penstock as ps
from tests.penstock.recovery.stateful_pipelines import PIPELINES
from tests.penstock.recovery.stopped_jobs import stopped

NAMES = {
    "agg": ("groups", ["item", "rows", "total.sum", "total.wraps", "total.count"]),
    "hopping": ("windows", ["prefix", "item", "rows", "total.sum", "total.wraps", "total.count"]),
    "over_rows": ("kept_rows", ["price"]),
    "distinct": ("keys", ["item", "shop", "seen"]),
    "process": ("state seen", ["item", "first", "end"]),
}


@pytest.mark.parametrize("pipeline", NAMES)
def test_columns_go_by_the_names_of_the_pipeline(pipeline: str, tmp_path: Path) -> None:
    table, names = NAMES[pipeline]
    stopped(PIPELINES[pipeline], tmp_path)
    checkpoint = ps.read_checkpoint(tmp_path / "checkpoints")
    assert checkpoint.tables_of("kept")[table].column_names == names
    (kept,) = (item for item in checkpoint.operators() if item.operator == "kept")
    assert {item.name: item.columns for item in kept.tables}[table] == tuple(names)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_table_can_be_shown(pipeline: str, tmp_path: Path) -> None:
    stopped(PIPELINES[pipeline], tmp_path)
    for rows in ps.read_checkpoint(tmp_path / "checkpoints").tables(internal=True).get("kept", {}).values():
        assert len(set(rows.column_names)) == len(rows.column_names)
