"""A pipeline and its arguments are given alike to all commands, and what is not installed is named."""

from pathlib import Path

import pytest

from penstock.model.installation import extra_install_command
from tests.command_line import penstock
from tests.hidden_libraries import hide

PIPELINE = """
import sys
from pathlib import Path
import penstock as ps

Path(__file__).with_name("given.json").write_text(repr(sys.argv[1:]))
job = ps.Job()
ps.read_memory([{"a": 1}], job=job).write_json("out").name("out")
job.run("small")
"""


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("run", [], 0),
        ("explain", [], 0),
        ("simulate", ["--seeds", "1"], 0),
        ("chaos", ["--kills", "0"], 0),
        ("validate", [], 3),
        ("validate", ["--correct", "fixes"], 3),
        ("replay", ["--out", "exact"], 3),
    ],
)
def test_a_pipeline_and_its_arguments_are_given_alike(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    options: list[str],
    code: int,
) -> None:
    """Those without a dash need no mark; what needs Spark loads the file, and says what is missing here."""
    monkeypatch.chdir(tmp_path)
    Path("pipeline.py").write_text(PIPELINE)
    hide(monkeypatch, "pyspark")
    assert penstock(name, "pipeline.py", "one", *options, "two", "--", "--three") == code
    assert (tmp_path / "given.json").read_text() == "['one', 'two', '--three']"
    assert code == 0 or extra_install_command("spark") in capfd.readouterr().err


def test_an_archive_without_spark_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "pyspark")
    assert penstock("archive", "orders", "--kafka", "127.0.0.1:1", "--out", "archive") == 3
    assert extra_install_command("spark") in capfd.readouterr().err
