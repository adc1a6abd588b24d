"""A user's file runs as Python would run it, up to where a command wants it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.commands.loading import capture, program
from penstock.dsl import job as job_module
from penstock.dsl.job import Job
from penstock.dsl.pictures import Picture
from penstock.model.errors import PlanError
from penstock.model.ids import OperatorId


@pytest.fixture(autouse=True)
def fresh_default_job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """Give every test a default job of its own."""
    job = Job()
    monkeypatch.setattr(job_module, "_default_job", job)
    yield job


def test_file_is_the_main_module_with_its_own_arguments(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.py"
    before = sys.modules["__main__"], sys.argv, list(sys.path)
    with program(file, ["--input", "x"]) as module:
        assert sys.modules["__main__"] is module and module.__name__ == "__main__"
        assert sys.argv == [str(file), "--input", "x"]
        assert sys.path[0] == str(tmp_path)
    assert (sys.modules["__main__"], sys.argv, sys.path) == before


def test_capture_stops_at_run(tmp_path: Path) -> None:
    file = _write(
        tmp_path,
        """
        import helper, penstock as ps
        assert __name__ == "__main__"
        ps.read_memory([{"a": helper.ONE}]).collect()
        ps.run("counted", parallelism=3, batch_rows=7)
        raise AssertionError("nothing after run() is executed")
        """,
    )
    (tmp_path / "helper.py").write_text("ONE = 1\n")
    job, options = capture(file)
    assert (options.name, options.parallelism, options.loop.batch_rows) == ("counted", 3, 7)
    assert len(job.graph.operators) == 2


def test_capture_stops_at_start_of_a_job_of_its_own(tmp_path: Path) -> None:
    file = _write(
        tmp_path,
        """
        import penstock as ps
        job = ps.Job()
        ps.read_memory([{"a": 1}], job=job).collect()
        handle = job.start()
        """,
    )
    job, options = capture(file)
    assert job is not job_module.default_job()
    assert options.name == "pipeline"


def test_capture_takes_the_default_job_of_a_file_that_starts_none(tmp_path: Path) -> None:
    file = _write(tmp_path, 'import penstock as ps\nps.read_memory([{"a": 1}]).collect()\n')
    job, options = capture(file)
    assert job is job_module.default_job() and options.name == "pipeline"


def test_file_without_any_job_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = _write(tmp_path, 'import penstock as ps\nps.read_memory([{"a": 1}])\n')
    with pytest.raises(PlanError, match=r"pipeline.py starts no job.*collect\(\)"):
        capture(file)


def test_a_stream_shows_itself_without_starting_work() -> None:
    from penstock import col, read_iterable

    def endless() -> Iterator[dict[str, int]]:
        raise AssertionError("a picture must not read")

    stream = read_iterable(endless, schema={"a": int, "b": str}).filter(col("a") > 1).select("a")
    assert repr(stream) == "<Stream select-1: a int64>"
    tree = stream.explain()
    assert "source-1*" in tree and "a > 1" in tree and "picture" not in tree
    bundle = stream._repr_mimebundle_()
    assert set(bundle) == {"image/svg+xml", "text/vnd.mermaid", "text/plain"}
    assert bundle["image/svg+xml"].startswith("<svg") and bundle["text/plain"] == tree
    assert not any(node.kind == "sink" for node in stream.job.graph.operators.values())


def test_a_picture_never_raises() -> None:
    class Broken(Picture):
        def __init__(self) -> None:
            self.job = Job()
            self._operator = OperatorId("gone")
            self._output = "main"

    assert repr(Broken()) == "<Stream gone>"
    assert "cannot be drawn" in Broken()._repr_mimebundle_()["text/plain"]


def _write(folder: Path, text: str) -> Path:
    from textwrap import dedent

    file = folder / "pipeline.py"
    file.write_text(dedent(text))
    return file
