"""A notebook shows the sentence of an error and the user's own lines; a bug it shows whole."""

import linecache
from typing import Any

import pytest

import penstock as ps

CELL = """
import penstock as ps
rows = ps.read_memory([{"a": 1}], job=ps.Job())
def halve(row):
    return {"a": 1 // (row["a"] - 1)}
def build():
    return rows.filter(ps.col("b") > 1)
"""


@pytest.fixture
def cell() -> dict[str, Any]:
    """Run a cell as IPython does: compiled under a name of its own, its text known to `linecache`."""
    name = "/tmp/ipykernel_7/1234.py"
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CELL, name, "exec"), scope)
    return scope


def shown(error: BaseException) -> str:
    render = error._render_traceback_  # type: ignore[attr-defined]
    return "\n".join(render())


def test_a_user_error_is_its_sentence_and_the_users_line(cell: dict[str, Any]) -> None:
    with pytest.raises(ps.ExpressionError) as raised:
        cell["build"]()
    text = shown(raised.value)
    assert text.startswith("ExpressionError: Operator 'filter-1'")
    assert '  at /tmp/ipykernel_7/1234.py:7\n      return rows.filter(ps.col("b") > 1)' in text
    assert "penstock/dsl/stream.py" not in text and "penstock/dsl/job.py" not in text


def test_the_line_of_a_users_function_is_shown(cell: dict[str, Any]) -> None:
    mapped = cell["rows"].map(cell["halve"], on_error="fail")
    mapped.write_black_hole()
    with pytest.raises(ps.BadRecordError) as raised:
        mapped.job.run("halves")
    text = shown(raised.value)
    assert text.startswith("BadRecordError: ") and "ZeroDivisionError" in text
    assert "penstock/engine" not in text and "engine/dataflow/worker.py" not in text


def test_bugs_are_shown_whole() -> None:
    assert not hasattr(ps.BugError("x"), "_render_traceback_")
    for kind in (ps.UserError, ps.OptionError, ps.RetryableError, ps.FatalError, ps.CheckpointError):
        assert shown(kind("what to do")) == f"{kind.__name__}: what to do"
