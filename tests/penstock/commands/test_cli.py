"""The command line: what it prints, what it exits with, and that a user's file behaves under it."""

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import penstock
from penstock.commands.cli import main
from penstock.commands.run_start import RunLauncher, RunOverrides
from penstock.dsl import job as job_module

ROOT = Path(penstock.__file__).parent.parent

PIPELINE = """
    import sys
    import penstock as ps
    from penstock import col, count, sum_, tumbling

    bids = ps.read_csv("bids.csv", time="at", watermark="1s")
    goods = ps.read_csv("goods.csv", time="at")
    dear = bids.filter(col("price") > 1)
    joined = dear.join(goods, on="item", window=tumbling("10s")).name("joined")
    joined.select("item", "price", "label").write_json("joined").name("out")
    dear.key_by("item").window(tumbling("10s")).agg(n=count(), total=sum_("price")).write_json(
        "sums"
    ).with_min_accuracy(0.7).with_priority(5)
    metrics = ps.run("sales")
    print("after", metrics.source_rows, *sys.argv[1:])
"""

BIDS = """\
    at,item,price
    2024-01-01 00:00:01,1,5
    2024-01-01 00:00:02,2,1
    2024-01-01 00:00:03,1,7
    2024-01-01 00:00:14,2,9
"""

GOODS = """\
    at,item,label
    2024-01-01 00:00:00,1,pen
    2024-01-01 00:00:12,2,ink
"""


class Done:
    """What a command left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Command = Callable[..., Done]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Run a command in a folder with input files and a default job of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job_module, "_default_job", job_module.Job())
    (tmp_path / "bids.csv").write_text(dedent(BIDS))
    (tmp_path / "goods.csv").write_text(dedent(GOODS))

    def call(*arguments: str, file: str | None = None) -> Done:
        if file is not None:
            (tmp_path / "pipeline.py").write_text(dedent(file))
        with pytest.raises(SystemExit) as end:
            main(arguments)
        captured = capfd.readouterr()
        return Done(int(end.value.code or 0), captured.out, captured.err)

    yield call


TREE = """\
plan: 4 tasks, 8 instances
* generated name; .name("...") gives the operator a stable one

task 0 ×2: source-1*  read CSV bids.csv
│   columns     at, item, price
│   event time  at, watermark 1s behind
│   shedding    never: it ends by itself, so what comes late is not lost
└─ filter-1*  where price > 1
   ├─ filter-1>joined*  branch that keeps what its source keeps
   │  ╘═ hash(item) (left) ═▶ task 2 ×2: joined (drawn below)
   └─ filter-1>agg-1*  branch with a keep rate of its own
      │   shedding  never, as its source
      ╘═ hash(item) ═▶ task 3 ×2: agg-1*  group by item
         │   window    tumbling 10s, emits final results
         │   n         count()
         │   total     sum(price)
         │   shedding  n, total estimated, with an interval
         └─ sink-2*  sink: write sums
                mode  append, min accuracy 0.7, priority 5
                adds  accuracy, biased, n_low, n_high, n_certified, total_low, total_high, total_certified

task 1 ×2: source-2*  read CSV goods.csv
│   columns     at, item, label
│   event time  at, watermark 0s behind
│   shedding    never: it ends by itself, so what comes late is not lost
╘═ hash(item) (right) ═▶ task 2 ×2: joined  join on item
   │   window   tumbling 10s
   │   columns  item, price, label
   └─ select-1*  select item, price, label
      └─ out  sink: write joined
             mode  append, min accuracy 1, priority 0
"""


def test_explain_draws_tree_and_mermaid_and_starts_nothing(command: Command, tmp_path: Path) -> None:
    done = command("explain", "pipeline.py", "--parallelism", "2", file=PIPELINE)
    assert done.code == 0, done.err
    tree, drawing = done.out.split("\n```mermaid\n")
    assert tree == TREE
    assert drawing.startswith("flowchart TB\n") and drawing.endswith("```\n")
    assert not (tmp_path / "joined").exists()


def test_explain_draws_only_one_of_them(command: Command) -> None:
    tree = command("explain", "pipeline.py", "--only", "tree", "--parallelism", "2", file=PIPELINE)
    assert tree.out == TREE
    drawing = command("explain", "pipeline.py", "--only", "mermaid", file=PIPELINE)
    assert drawing.out.startswith("flowchart TB\n") and "```" not in drawing.out


def test_explain_shows_the_plan_of_a_job_on_task_managers(command: Command) -> None:
    elsewhere = PIPELINE.replace('run("sales")', 'run("sales", executor="processes", task_managers=1)')
    shown = [command("explain", "pipeline.py", "--only", "tree", file=file).out for file in (PIPELINE, elsewhere)]
    assert ["hash(item) ═▶" in tree for tree in shown] == [False, True]


def test_explain_writes_a_picture_and_json(command: Command, tmp_path: Path) -> None:
    done = command("explain", "pipeline.py", "--json", "--svg", "plan.svg", file=PIPELINE)
    data = json.loads(done.out)
    assert data["job"] == "sales"
    names = [item["name"] for task in data["tasks"] for item in task["operators"]]
    assert {"joined", "out", "source-1", "source-2"} <= set(names)
    ElementTree.fromstring((tmp_path / "plan.svg").read_text(encoding="utf-8"))


def test_run_runs_the_file_to_its_end(command: Command, tmp_path: Path) -> None:
    done = command("run", "pipeline.py", "--", "one", "--two", file=PIPELINE)
    assert done.code == 0, done.err
    assert done.out == "after 6 one --two\n"
    joined = [json.loads(line) for line in next((tmp_path / "joined").glob("part-*")).read_text().splitlines()]
    assert sorted((row["item"], row["price"], row["label"]) for row in joined) == [
        (1, 5, "pen"),
        (1, 7, "pen"),
        (2, 9, "ink"),
    ]
    for expected in ("sales", "done", "rows in", "dead letters"):
        assert expected in done.err
    assert "\x1b" not in done.err


def test_options_of_the_command_line_win(command: Command) -> None:
    file = """
        import penstock as ps
        sizes = []
        rows = ps.read_memory([{"a": number} for number in range(10)])
        rows.for_each_batch(lambda batch: sizes.append(batch.num_rows))
        print(ps.run("mine", batch_rows=4).name)
        print(max(sizes))
    """
    assert command("run", "pipeline.py", file=file).out.split() == ["mine", "4"]
    done = command("run", "pipeline.py", "--name", "yours", "--batch-rows", "3", file=file)
    assert done.out.split() == ["yours", "3"]


def test_json_is_one_line_on_stdout_and_nothing_else(command: Command) -> None:
    file = 'import penstock as ps\nps.read_memory([{"a": 1}, {"a": 2}]).write_black_hole()\nps.run("two")\n'
    done = command("run", "--json", "pipeline.py", file=file)
    summary = json.loads(done.out)
    assert (summary["job"], summary["status"], summary["rows_in"], summary["rows_out"]) == ("two", "done", 2, 2)
    assert {"late", "dead_lettered", "seconds", "rows_per_s", "operators"} <= set(summary)
    assert done.err == ""


def test_default_job_of_a_file_that_starts_none(command: Command) -> None:
    file = 'import penstock as ps\nps.read_memory([{"a": 1}]).print()\n'
    done = command("run", "pipeline.py", file=file)
    assert done.code == 0 and "a=1" in done.out and "pipeline" in done.err


def test_file_without_job(command: Command) -> None:
    done = command("run", "pipeline.py", file="import penstock\n")
    assert done.code == 1
    assert "pipeline.py starts no job" in done.err and "Traceback" not in done.err


def test_user_error_is_one_sentence_with_the_place(command: Command) -> None:
    file = """
        import penstock as ps
        from penstock import col
        rows = ps.read_memory([{"price": 1}])
        rows.filter(col("prize") > 1).print()
    """
    done = command("explain", "pipeline.py", file=file)
    assert done.code == 1
    assert "prize" in done.err and "pipeline.py:5" in done.err and "price" in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 2


RAISING = """
    import penstock as ps

    def parse(row):
        return {"a": 1 // row["a"]}

    ps.read_memory([{"a": 0}]).map(parse, on_error="fail").print()
    bad = {}
    def look():
        return bad["key"]
    look()
"""


def test_other_errors_show_the_users_frames_first(command: Command) -> None:
    done = command("run", "pipeline.py", file=RAISING)
    lines = done.err.splitlines()
    assert done.code == 1
    assert lines[0] == "error: KeyError: 'key'"
    assert lines[1].strip() == "at pipeline.py:10, in look" and lines[2].strip() == 'return bad["key"]'
    assert lines[3].strip() == "at pipeline.py:11, in <module>"
    assert "Traceback" not in done.err and "cli.py" not in done.err


def test_debug_lets_the_traceback_through(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path("pipeline.py")).write_text(dedent(RAISING))
    monkeypatch.setattr(sys, "argv", ["penstock"])
    with pytest.raises(KeyError):
        main(["run", "--debug", "pipeline.py"])


def test_failure_as_json(command: Command) -> None:
    done = command("run", "--json", "pipeline.py", file=RAISING)
    assert json.loads(done.out) == {"status": "failed", "error": "'key'", "type": "KeyError"}


def test_syntax_error_names_the_line(command: Command) -> None:
    done = command("run", "pipeline.py", file="import penstock\nx = (1,\n")
    assert done.code == 1
    assert "not valid Python" in done.err and "line 2" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "nowhere.py"], "does not exist"),
        (["run", "pipeline.py", "--paralelism", "2"], "--parallelism"),
        (["run", "pipeline.py", "--parallelism", "0"], "--parallelism"),
        (["explan", "pipeline.py"], "explain"),
        (["explain", "pipeline.py", "--only", "ascii"], "mermaid"),
        (["run"], "FILE"),
    ],
)
def test_wrong_usage_exits_with_2(command: Command, arguments: list[str], expected: str) -> None:
    done = command(*arguments, file="import penstock\n")
    assert done.code == 2
    assert expected in done.err


def test_missing_library_of_ours_exits_with_3(command: Command) -> None:
    done = command("run", "pipeline.py", file="raise ModuleNotFoundError('no duckdb', name='duckdb')\n")
    assert done.code == 3 and "duckdb" in done.err


def test_scripts_exit_code_is_kept(command: Command) -> None:
    assert command("run", "pipeline.py", file="raise SystemExit(7)\n").code == 7


def test_doctor(command: Command) -> None:
    done = command("doctor", "--json")
    checks = json.loads(done.out)
    assert {"name", "status", "finding", "advice"} == set(checks[0])
    assert done.code == (3 if any(check["status"] == "fail" for check in checks) else 0)
    assert "Python" in command("doctor").out


ENDLESS = """
    import itertools
    import penstock as ps

    rows = ps.read_iterable(({"a": n} for n in itertools.count()), schema={"a": int})
    seen = []

    def note(batch):
        if not seen:
            print("running", flush=True)
        seen.append(batch.num_rows)

    rows.for_each_batch(note)
    metrics = ps.run("endless", batch_rows=100)
    print("read", metrics.source_rows == sum(seen))
"""


def test_ctrl_c_stops_cleanly(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(dedent(ENDLESS))
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", "run", "pipeline.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert out == "read True\n"
    assert "stopped" in err and "endless" in err


def test_background_jobs_are_waited_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = job_module.Job()
    result = penstock.read_memory([{"a": 1}, {"a": 2}], job=job).collect()
    runner = RunLauncher(RunOverrides(name="behind"), as_json=True)
    handle = runner.start(job, job_module.RunOptions("mine", directory=tmp_path))
    runner.finish()
    assert not handle.running and result.rows() == [{"a": 1}, {"a": 2}]
    summary = json.loads(capfd.readouterr().out)
    assert (summary["job"], summary["status"], summary["rows_out"]) == ("behind", "done", 2)


def test_failed_background_job_is_not_lost(tmp_path: Path) -> None:
    def fail(row: dict[str, int]) -> dict[str, int]:
        raise ValueError("no")

    job = job_module.Job()
    penstock.read_memory([{"a": 1}], job=job).map(fail, on_error="fail").write_black_hole()
    runner = RunLauncher(RunOverrides())
    runner.start(job, job_module.RunOptions("mine", directory=tmp_path))
    with pytest.raises(penstock.BadRecordError, match="no"):
        runner.finish()


def _python(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{path}"},
        timeout=60,
    )


def test_json_has_stdout_for_itself(command: Command) -> None:
    done = command(
        "run", "pipeline.py", "--json", file='import penstock as ps\nps.read_memory([{"k": 1}]).print()\nps.run()'
    )
    assert [json.loads(line)["status"] for line in done.out.splitlines()] == ["done"]
    assert "k=1" in done.err


def test_state_is_found_again_by_positions_where_the_program_does_not_change(command: Command, tmp_path: Path) -> None:
    """As under chaos; for users every operator with state needs a name."""
    file = """
        import penstock as ps

        job = ps.Job()
        rows = ps.read_json("rows", schema={"k": int}, job=job)
        rows.key_by("k").agg(n=ps.count()).write_json("counts", mode="upsert", key="k")
        job.run("counts", checkpoint_dir="checkpoints")
    """
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "1.jsonl").write_text('{"k": 1}\n{"k": 1}\n')
    refused = command("run", "pipeline.py", file=file)
    assert refused.code == 1 and "write .name('...') behind source-1" in refused.err
    assert command("run", "pipeline.py", "--generated-names").code == 0
    (tmp_path / "rows" / "2.jsonl").write_text('{"k": 1}\n')
    assert command("run", "pipeline.py", "--generated-names").code == 0
    written = sorted((tmp_path / "counts").glob("part-*"), key=lambda path: path.stat().st_mtime_ns)
    assert json.loads(written[-1].read_text().splitlines()[-1])["n"] == 3
