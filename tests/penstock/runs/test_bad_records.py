"""Bad records are said, and too many of them end the job: on the command line, in code, over restarts, in a preview."""

import json
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import col
from penstock.commands.cli import main
from penstock.dsl import job as job_module
from penstock.model.connectors import ENDED, Read
from penstock.model.errors import DeadLetterLimitError, RetryableError
from tests.penstock.front_door import Script, dead_letters

TEXTS = pa.schema({"text": pa.string()})


def parsed(row: dict[str, Any]) -> dict[str, Any]:
    return {"n": json.loads(row["text"])}


LINE = parsed.__code__.co_firstlineno + 1


def numbers(*texts: str, **options: Any) -> ps.Stream:
    stream = ps.read_memory([{"text": text} for text in texts], schema=TEXTS, job=ps.Job())
    return stream.map(parsed, schema={"n": "int64"}, **options).name("parse")


def scripted(*steps: Any, bounded: bool = True) -> ps.Stream:
    stream = ps.read(Script(TEXTS, steps, bounded), job=ps.Job())
    return stream.map(parsed, schema={"n": "int64"}).name("parse")


def texts(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"text": list(values)}, schema=TEXTS)


def test_a_job_of_which_every_row_fails_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = numbers("one", "two")
    stream.collect()
    with pytest.raises(DeadLetterLimitError) as caught:
        stream.job.run("all", directory=tmp_path)
    text = str(caught.value)
    assert text.startswith("'parse' cannot go on: every record it took in is bad, 2 so far; the first error: ")
    for expected in (
        "JSONDecodeError: Expecting value",
        f"{__file__}:{LINE}",
        f"{tmp_path}/dead_letters.jsonl",
        '"any"',
    ):
        assert expected in text
    assert len(dead_letters(tmp_path)) == 2
    said = capsys.readouterr().err
    assert said.startswith("BAD RECORD: of 'parse': json.decoder.JSONDecodeError: Expecting value")
    assert said.count("BAD RECORD") == 1 and f"{__file__}:{LINE}" in said


def test_one_good_row_is_enough_by_default(tmp_path: Path) -> None:
    stream = numbers("one", "2", "three")
    stream.collect()
    metrics = stream.job.run("some", directory=tmp_path)
    [line] = metrics.bad_records
    assert (line.operator, line.rows, line.rejected) == ("parse", 3, 2)
    assert line.line == f"{__file__}:{LINE}"
    assert line.place == f"{tmp_path}/dead_letters.jsonl"
    assert "2 of 'parse', the first: json.decoder.JSONDecodeError" in repr(metrics)


@pytest.mark.parametrize("limit", ["any", None, 2, "2", 1.0, "100%"])
def test_a_limit_that_bears_all_lets_the_job_end(tmp_path: Path, limit: Any) -> None:
    stream = numbers("one", "two")
    stream.collect()
    assert stream.job.run("all", directory=tmp_path, max_dead_letters=limit).ledger.dead_lettered == 2


@pytest.mark.parametrize("limit", [1, "50%", 0.5])
def test_a_limit_is_per_operator_over_all_its_instances(tmp_path: Path, limit: Any) -> None:
    steps = [texts("1", "x") for _ in range(3)] + [texts("y")]
    stream = ps.read(Script(TEXTS, steps), job=ps.Job())
    keyed = stream.key_by("text").agg(n=ps.count()).with_columns(n=col("text").cast("int64")).name("cast")
    keyed.write_black_hole(mode="changelog")
    with pytest.raises(DeadLetterLimitError, match=r"'cast' cannot go on: .*more than max_dead_letters="):
        stream.job.run("cast", directory=tmp_path, max_dead_letters=limit, parallelism=2)


def test_an_operator_without_code_of_the_users_names_its_line(tmp_path: Path) -> None:
    stream = ps.read_memory([{"text": "x"}], schema=TEXTS, job=ps.Job())
    stream.with_columns(n=col("text").cast("int64")).collect()
    with pytest.raises(DeadLetterLimitError, match=rf"\({__file__}:\d+\)"):
        stream.job.run("cast", directory=tmp_path)


def test_an_endless_input_is_judged_after_its_first_thousand_rows(tmp_path: Path) -> None:
    def steps() -> Iterator[pa.RecordBatch]:
        while True:
            yield texts(*["x"] * 100)

    stream = ps.read(Script(TEXTS, steps(), bounded=False), job=ps.Job())
    stream.map(parsed, schema={"n": "int64"}).name("parse").write_black_hole()
    with pytest.raises(DeadLetterLimitError, match="every record it took in is bad, 1,000 so far"):
        stream.job.run("endless", directory=tmp_path, batch_rows=100)


def test_skipped_records_are_counted_and_said(tmp_path: Path) -> None:
    stream = numbers("x", "2", on_error="skip")
    stream.collect()
    [line] = stream.job.run("skip", directory=tmp_path).bad_records
    assert line.place is None
    assert line.sentence().startswith("skipped records: 1 of 'parse', the first: json.decoder.JSONDecodeError")


def test_what_a_source_cannot_read_counts_alike(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("no\nnot this either\n")
    stream = ps.read_json(file, schema=TEXTS, job=ps.Job()).name("rows")
    stream.collect()
    with pytest.raises(DeadLetterLimitError, match=rf"'rows' cannot go on: .*{file}:1"):
        stream.job.run("source", directory=tmp_path / "job")


def test_letters_that_a_stream_reads_are_no_failure_of_the_job(tmp_path: Path, capsys: Any) -> None:
    stream = numbers("x", "y")
    stream.collect()
    letters = stream.side_output("dead_letter").collect()
    metrics = stream.job.run("read", directory=tmp_path)
    assert len(letters.rows()) == 2
    assert metrics.bad_records[0].place == "its output 'dead_letter'"
    assert capsys.readouterr().err == ""
    with pytest.raises(DeadLetterLimitError):
        numbers_read_as_stream().run("read", directory=tmp_path, max_dead_letters=1)


def numbers_read_as_stream() -> ps.Job:
    stream = numbers("x", "y")
    stream.collect()
    stream.side_output("dead_letter").collect()
    return stream.job


class _Failing(Script):
    """Raises once what may pass, and gives its rows again."""

    failed = False

    def open(self, partition: str, position: Any | None) -> Any:
        first = [texts("x", "y"), RetryableError("gone for a moment")] if not self.failed else []
        type(self).failed = True
        self._steps = [*first, texts("x", "y", "z"), ENDED]
        return super().open(partition, None)


def test_counts_go_on_over_restarts_and_a_limit_ends_them(tmp_path: Path) -> None:
    """What is read again is rejected again; the job that fails of it is not restarted any more."""
    _Failing.failed = False
    stream = ps.read(_Failing(TEXTS, []), job=ps.Job()).name("texts")
    stream.map(parsed, schema={"n": "int64"}).name("parse").write_json(tmp_path / "out").name("out")
    options = {"directory": tmp_path / "job", "checkpoint_dir": tmp_path / "checkpoints", "restart_delay": "1ms"}
    with pytest.raises(DeadLetterLimitError, match=r"'parse' cannot go on: every record it took in is bad, \d so far"):
        stream.job.run("again", **options)
    assert not list((tmp_path / "out").glob("part-*"))


def test_a_job_with_checkpoints_commits_no_end_that_it_fails_of(tmp_path: Path) -> None:
    stream = ps.read(Script(TEXTS, [texts("x"), ENDED]), job=ps.Job()).name("texts")
    stream.map(parsed, schema={"n": "int64"}).name("parse").write_json(tmp_path / "out").name("out")
    options = {"directory": tmp_path / "job", "checkpoint_dir": tmp_path / "checkpoints"}
    for _ in range(2):
        with pytest.raises(DeadLetterLimitError):
            stream.job.run("end", **options)


@pytest.mark.parametrize("bad", [6, 5])
def test_a_run_that_keeps_windows_for_the_next_is_not_done_if_all_its_rows_are_bad(bad: int, tmp_path: Path) -> None:
    """Its operators do not end: the last barrier comes behind all rows of the run."""
    folder = tmp_path / "in"
    folder.mkdir()
    for file in range(2):
        lines = ['{"n": "x"}' if 3 * file + row < bad else '{"n": "1"}' for row in range(3)]
        (folder / f"{file}.json").write_text("\n".join(lines))

    def run() -> int:
        rows = ps.read_json(folder, schema={"n": str}, job=ps.Job()).name("rows")
        parsed = rows.map(lambda row: {"n": int(row["n"])}, schema={"n": int}).name("parse")
        parsed.write_json(tmp_path / "out").name("out")
        options = {"directory": tmp_path / "job", "checkpoint_dir": tmp_path / "checkpoints", "batch_rows": 1}
        return rows.job.run("hourly", at_end="keep", **options).ledger.dead_lettered

    if bad == 5:
        assert run() == 5
        return
    for _ in range(2):
        with pytest.raises(DeadLetterLimitError, match="every record it took in is bad, 6 so far"):
            run()
    assert not list((tmp_path / "checkpoints").rglob("checkpoints/*.json"))


@pytest.mark.parametrize("kept", [False, True])
def test_calls_that_all_fail_are_no_success_however_many_are_on_their_way(kept: bool, tmp_path: Path) -> None:
    async def refused(text: str) -> dict[str, Any]:
        raise ConnectionError(f"no answer to {text}")

    rows = ps.read_memory([{"text": str(n)} for n in range(50)], schema=TEXTS, job=ps.Job()).name("rows")
    rows.map_async(refused, {"n": int}, capacity=10).name("ask").write_black_hole().name("out")
    options: dict[str, Any] = {"checkpoint_dir": tmp_path / "checkpoints", "at_end": "keep"} if kept else {}
    with pytest.raises(DeadLetterLimitError, match="'ask' cannot go on: every record it took in is bad, 50 so far"):
        rows.job.run("calls", directory=tmp_path / "job", **options)


def test_a_stop_judges_no_short_input(tmp_path: Path) -> None:
    stream = ps.read(Script(TEXTS, [texts("x"), *[Read()] * 10_000], bounded=False), job=ps.Job())
    stream.map(parsed, schema={"n": "int64"}).name("parse").write_black_hole()
    handle = stream.job.start("stopped", directory=tmp_path)
    while not handle.metrics().ledger.dead_lettered:
        pass
    assert handle.stop().bad_records[0].rejected == 1


PIPELINE = """
    import json
    import penstock as ps

    def parsed(row):
        return {"n": json.loads(row["text"])}

    rows = ps.read_memory([{"text": text} for text in TEXTS])
    rows.map(parsed, schema={"n": "int64"}).name("parse").write_black_hole()
    ps.run("numbers")
"""


Answer = tuple[int, str, str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Callable[..., Answer]:
    """Run a file with ``penstock run``; returns the exit code and what was printed on both streams."""
    monkeypatch.chdir(tmp_path)

    def call(file: str, *options: str) -> Answer:
        monkeypatch.setattr(job_module, "_default_job", job_module.Job())
        Path("pipeline.py").write_text(dedent(file))
        with pytest.raises(SystemExit) as end:
            main(["run", "pipeline.py", *options])
        printed = capfd.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return call


def test_the_command_ends_with_a_sentence_or_says_what_was_bad(run: Callable[..., Answer]) -> None:
    bad, some = PIPELINE.replace("TEXTS", "['x', 'y']"), PIPELINE.replace("TEXTS", "['x', '2', 'z']")
    code, _, said = run(bad)
    assert code == 1
    assert "error: 'parse' cannot go on: every record it took in is bad, 2 so far; the first error: json.dec" in said
    assert "pipeline.py:6)" in said and "--max-dead-letters" in said
    code, _, said = run(some)
    assert code == 0
    [line] = [line for line in said.splitlines() if line.startswith("dead letters: ")]
    assert line.startswith("dead letters: 2 of 'parse', the first: json.decoder.JSONDecodeError: Expecting value")
    assert line.endswith("pipeline.py:6); they are in .penstock/numbers/dead_letters.jsonl")
    code, _, said = run(some, "--max-dead-letters", "1")
    assert code == 1 and "2 of its 3 records are bad, more than max_dead_letters=1 allows" in said
    assert run(bad, "--max-dead-letters", "any")[0] == 0
    [figures] = json.loads(run(some, "--json")[1])["bad_records"]
    assert (figures["operator"], figures["rejected"], figures["rows"]) == ("parse", 2, 3)


def test_a_preview_says_what_was_bad() -> None:
    preview = numbers("x", "2", "<z>").preview()
    said = "2 of 3 records of 'parse' are bad, the first: json.decoder.JSONDecodeError: Expecting value"
    assert said in repr(preview)
    assert said in preview._repr_html_()
    assert len(numbers("x").preview()) == 0


def test_the_users_line_is_found_below_deep_libraries(tmp_path: Path) -> None:
    def deep(row: dict[str, Any]) -> dict[str, Any]:
        return {"n": json.loads(row["text"], parse_int=json.loads, object_hook=json.loads)}

    stream = ps.read_memory([{"text": '{"a": {"b": 1.5}}'}, {"text": "x"}], schema=TEXTS, job=ps.Job())
    stream.map(deep, schema={"n": "int64"}).collect()
    [line] = stream.job.run("deep", directory=tmp_path, max_dead_letters="any").bad_records
    assert line.line == f"{__file__}:{deep.__code__.co_firstlineno + 1}"


def test_only_the_owner_may_read_dead_letters(tmp_path: Path) -> None:
    stream = numbers("x", "2")
    stream.collect()
    stream.job.run("private", directory=tmp_path / "new" / "job")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new", tmp_path / "new" / "job")]
    assert modes == [0o700, 0o700]
    assert stat.S_IMODE((tmp_path / "new" / "job" / "dead_letters.jsonl").stat().st_mode) == 0o600


def test_only_the_owner_may_read_spilled_state(tmp_path: Path) -> None:
    rows = ps.read_memory([{"k": n % 5_000, "text": "x" * 50} for n in range(20_000)], job=ps.Job()).name("rows")
    rows.key_by("k").agg(greatest=ps.max_("text")).name("per key").write_black_hole(mode="changelog").name("out")
    folders: list[int] = []

    def looked(metrics: Any) -> None:
        # Folders come and go meanwhile.
        with suppress(FileNotFoundError):
            modes = [path.stat().st_mode for path in (tmp_path / "job").rglob("*")]
            folders.extend(stat.S_IMODE(mode) for mode in modes if stat.S_ISDIR(mode))

    handle = rows.job.start("spill", directory=tmp_path / "job", state_bytes=200_000, batch_rows=500)
    while handle.running:
        looked(handle.metrics())
    handle.wait()
    assert folders and set(folders) == {0o700}
