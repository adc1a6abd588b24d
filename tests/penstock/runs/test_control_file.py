"""A file of TOML says how a job is controlled, below the program, which is below the command line."""

import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.commands.run_start import RunOverrides
from penstock.dsl.job import beside_file
from penstock.model.control import Control
from penstock.model.errors import OptionError
from penstock.model.job_graph import SinkSpec
from penstock.model.max_error import LEAST_KEEP, MaxError
from penstock.runs.control_file import CONTROL, read_control_file
from penstock.runs.control_layers import overlaid, said_by
from penstock.runs.executors import control_of
from penstock.runs.run_options import RunOptions, make_options
from tests.command_line import penstock
from tests.engine.control.own_policies import HERE

WHOLE = """
[control]
shed = "qod"
scale = "ds2"
mode = "act"
offered = "lag maxima"
cores = 8
memory = "16GB"

[control.parameters]
pace.interval_s = 30
ds2.factor = 0.2

[control.parameters.qod]
reading.drain_s = 5

[queries.hot]
min_accuracy = 0.7
priority = 5
max_lag = "10s"

[queries.totals]
max_error = 0.05
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path, WHOLE)


def written(folder: Path, text: str) -> Path:
    path = folder / "shop.toml"
    path.write_text(text, encoding="utf-8")
    return path


def control(file: Path, program: Control | None = None, overrides: RunOverrides | None = None) -> Control:
    """Return the control that a run has in the end."""
    options = make_options("shop", {"config": file} | ({} if program is None else {"control": program}))
    found = control_of(options if overrides is None else overrides.apply(options)).control
    assert found is not None
    return found


def test_a_job_keeps_a_log_of_its_own_in_its_directory(tmp_path: Path) -> None:
    def own_log(**options: Any) -> Path | None:
        return control_of(make_options("shop", options)).own_log

    assert own_log() == Path(".penstock", "shop", "actions.jsonl")
    assert own_log(directory=tmp_path) == tmp_path / "actions.jsonl"
    # The folder of a head that is an actor may be one that Ray deletes.
    assert own_log(executor="ray", directory="here") is None
    assert own_log(executor="ray", directory="here", attached=True) == Path("here", "actions.jsonl")
    assert own_log(executor="ray", directory=tmp_path) == tmp_path / "actions.jsonl"


def test_all_options_of_a_control_may_stand_in_a_file() -> None:
    assert set(CONTROL) == {each.name for each in fields(Control) if each.init}


def test_a_file_says_what_nobody_else_does(file: Path) -> None:
    said = control(file)
    assert (said.shed, said.scale, said.mode, said.offered) == ("qod", "ds2", "act", "lag maxima")
    assert said.quotas == {"most_cores": 8, "most_memory_bytes": 16e9, "one_per_core": True}
    assert said.parameters_of("ds2") == {"pace.interval_s": 30, "factor": 0.2}
    assert said.parameters_of("qod") == {"reading.drain_s": 5}


def test_the_program_wins_over_the_file_also_with_what_is_so_by_default(file: Path) -> None:
    program = Control(mode="recommend", scale="ds2", cores=2, parameters={"factor": 0.1, "qod.move_timeout_s": 9.0})
    said = control(file, program)
    assert (said.mode, said.cores, said.memory, said.shed) == ("recommend", 2, "16GB", "qod")
    assert said.parameters_of("ds2") == {"pace.interval_s": 30, "factor": 0.1}
    assert said.parameters_of("qod") == {"reading.drain_s": 5, "move_timeout_s": 9.0}
    assert control(file, Control(shed="off")).shed == "off"


def test_the_command_line_wins_over_both(file: Path, tmp_path: Path) -> None:
    line = RunOverrides(control="scale", cores=3.0, parameters={"factor": "0.3", "qod.reading.drain_s": "4"})
    said = control(file, Control(scale="ds2", cores=2), line)
    assert (said.mode, said.cores, said.memory) == ("scale", 3.0, "16GB")
    assert said.parameters_of("ds2") == {"pace.interval_s": 30, "factor": "0.3"}
    assert said.parameters_of("qod") == {"reading.drain_s": "4"}
    # Its file stands in the place of the program's, below the program.
    other = tmp_path / "other.toml"
    other.write_text('[control]\nshed = "qod-paper"\nmode = "act"\n', encoding="utf-8")
    said = control(file, Control(mode="shed"), RunOverrides(config=str(other)))
    assert (said.shed, said.mode, said.scale) == ("qod-paper", "shed", "off")
    alone = RunOverrides(config=str(other), control="recommend").apply(RunOptions("shop")).control
    assert alone == Control("qod-paper", "recommend")


@pytest.mark.parametrize(
    ("text", "command_line"),
    [
        ("cores = 8", {"scale": ("ds2",)}),
        ('mode = "scale"', {"scale": ("ds2",)}),
        ('shed = "sic"', {"control": "act"}),
        ("parameters.pace.interval_s = 30", {"scale": ("ds2",)}),
    ],
)
def test_a_file_need_only_be_possible_with_what_the_command_line_says(
    tmp_path: Path, text: str, command_line: dict[str, Any]
) -> None:
    path = written(tmp_path, f"[control]\n{text}\n")
    control = RunOverrides(config=str(path), **command_line).apply(make_options("job", {})).control
    assert control is not None
    key = text.partition(" ")[0].partition(".")[0]
    assert {key, *(("mode",) if "control" in command_line else command_line)} <= control.given
    with pytest.raises(OptionError, match=r"shop\.toml"):
        RunOverrides(config=str(path)).apply(make_options("job", {}))
    # The same file, named by the program.
    named = make_options("job", {"config": path})
    assert RunOverrides(**command_line).apply(named).control == control
    with pytest.raises(OptionError, match=r"shop\.toml"):
        RunOverrides().apply(named)
    with pytest.raises(OptionError, match=r"shop\.toml"):
        shop().run(config=path)


def test_parameters_of_policies_that_nobody_chose_in_the_end_are_let_go(file: Path) -> None:
    said = control(file, Control(scale="flink-er", parameters={"looks": 3}))
    assert said.parameters == {"looks": 3, "qod.reading.drain_s": 5}
    own = f"{HERE}:KeepShare"
    layered = overlaid({"shed": own, "parameters": {own: {"share": 0.3}}}, {"shed": "qod"})
    assert layered == Control("qod")
    assert overlaid({"parameters": {"looks": 3}}, {"scale": "flink-er"}).parameters_of("flink-er") == {"looks": 3}
    several = {"scale": ("sage", "ds2"), "parameters": {"sage.windows": 0.5, "ds2": {"factor": 0.1}}}
    assert overlaid(several, {"scale": "ds2"}).parameters == {"factor": 0.1}
    assert overlaid(several, {"cores": 2}).parameters_of("sage") == {"windows": 0.5}


def test_options_go_to_a_head_elsewhere_with_what_the_file_has_said(file: Path) -> None:
    options = make_options("shop", {"config": file, "control": Control(mode="shed")})
    file.unlink()
    there = pickle.loads(pickle.dumps(options))
    assert there.control == options.control and there.config == options.config
    assert said_by(there.program) == {"mode": "shed"}


def test_what_was_said_is_known_of_a_control() -> None:
    assert said_by(Control("off", mode="recommend")) == {"shed": "off", "mode": "recommend"}
    assert said_by(Control()) == said_by(None) == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[control]\nshedd = 'qod'",
            "there is no 'shedd' in [control]; did you mean 'shed'? Valid are shed, mode, shed",
        ),
        (
            "[controls]\nshed = 'qod'",
            "there is no 'controls' at its top; did you mean 'control'? Valid are control, que",
        ),
        ("control = 3", "control at its top is a table, not 3"),
        ("[control]\ncores = 'all'", "cores in [control] is a number, not 'all'"),
        ("[control]\ncores = true", "cores in [control] is a number, not True"),
        ("[control]\nshed_backlog = 1", "shed_backlog in [control] is true or false, not 1"),
        ("[control]\nperiod_s = 2.5", "period_s in [control] is a whole number, not 2.5"),
        ("[control]\nscale = ['ds2', 3]", "scale in [control] is a name or a list of names, not ['ds2', 3]"),
        ("[control]\nmode = 'do'", "mode in [control] is 'recommend', 'act', 'shed' or 'scale', not 'do'"),
        ("[control]\nscale = 'ds3'", "scale in [control]: there is no policy 'ds3'; choose from autoscaler, ds2, "),
        (
            "[control]\nscale = 'qod'",
            "scale in [control]: control: 'qod' decides on keep rates and moves of running in",
        ),
        ("[control]\nshed = 'all'", "shed in [control]: control: shed is 'off', 'qod', 'qod-paper', 'sic', 'both' or "),
        ("[control]\nplacement = 'qod'", "placement in [control]: control: placement='qod' decides on keep rates and "),
        (
            "[control]\nscale = 'ds2'\nparameters.fctor = 1",
            "parameters in [control]: policy 'ds2' has no parameter 'fctor'; it has ",
        ),
        (
            "[control.parameters.qod]\nconfirms = 'yes'",
            "parameters in [control]: policy 'qod': confirms is true or false, not 'yes'",
        ),
        (
            "[control]\nscale = ['sage', 'ds2']\nparameters.windows = 0.5",
            "parameters in [control]: control: 2 policies scale: say whose 'windows' is, as 'sage.windows'",
        ),
        ("[control]\nscale = ['justin', 'ds2']", "scale in [control]: control: 'justin' and 'ds2' both decide on para"),
        ("[control]\ncores = 2", "control: cores is of a policy that scales: say which, as scale='ds2'"),
        ("[queries.hot]\naccuracy = 0.7", "there is no 'accuracy' in [queries.hot]; did you mean 'min_accuracy'? Val"),
        ("[queries.hot]\npriority = 'high'", "priority in [queries.hot] is a whole number, not 'high'"),
        ("[queries]\nhot = 0.7", "hot in [queries] is a table, not 0.7"),
        ("control", "is no TOML: "),
    ],
)
def test_what_there_is_not_is_refused_with_the_file_the_key_and_what_there_is(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(OptionError) as refused:
        control(path)
    assert str(refused.value).removeprefix(str(path)).removeprefix(":").lstrip().startswith(sentence)
    assert str(refused.value).startswith(str(path))


def test_parameters_beside_the_programs_policy_are_held_to_it(tmp_path: Path) -> None:
    path = written(tmp_path, "[control.parameters]\nlooks = 3")
    assert control(path, Control(scale="flink-er")).parameters == {"looks": 3}
    with pytest.raises(OptionError, match=r"shop.toml: policy 'ds2' has no parameter 'looks'; it has "):
        control(path, Control(scale="ds2"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"config: .*none.toml cannot be read: No such file or directory"):
        read_control_file(tmp_path / "none.toml")


def shop() -> ps.Job:
    job = ps.Job()
    rows = ps.read(SteadySource(1, keys=1), job=job).name("due")
    rows.write_black_hole().name("hot").with_priority(3)
    rows.write_black_hole().name("totals")
    return job


def spec(job: ps.Job, query: str) -> SinkSpec:
    (found,) = [node.spec for node in job.graph.operators.values() if node.name == query]
    assert isinstance(found, SinkSpec)
    return found


def test_a_file_promises_what_the_program_leaves_open(file: Path) -> None:
    job = shop()
    promised = beside_file(job, make_options("shop", {"config": file}))
    hot, totals = spec(promised, "hot"), spec(promised, "totals")
    assert (hot.min_accuracy, hot.priority, hot.max_lag_us) == (0.7, 3, 10_000_000)
    assert (totals.min_accuracy, totals.max_error) == (LEAST_KEEP, MaxError(0.05))
    # The program's own job is as it was, and another run of it is promised nothing.
    assert spec(job, "hot").min_accuracy == 1.0 and beside_file(job, RunOptions("shop")) is job


def test_a_program_that_forbids_shedding_for_a_query_is_heeded(tmp_path: Path) -> None:
    job = shop()
    ps.read(SteadySource(1, keys=1), job=job).name("more").write_black_hole().name("exact").with_min_accuracy(1.0)
    options = make_options("shop", {"config": written(tmp_path, "[queries.exact]\nmin_accuracy = 0.5")})
    assert spec(beside_file(job, options), "exact").min_accuracy == 1.0
    options = make_options("shop", {"config": written(tmp_path, "[queries.exact]\nmax_error = 0.1")})
    with pytest.raises(OptionError, match=r"\[queries.exact\]: min_accuracy 1 forbids what max_error allows"):
        beside_file(job, options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[queries.cold]\npriority = 1", "there is no query 'cold' for [queries.cold]; choose from 'hot', 'totals'"),
        ("[queries.hot]\nmin_accuracy = 7", "[queries.hot]: a minimum accuracy is a number between 0 and 1, not 7"),
        ("[queries.hot]\nmax_lag = 'long'", "[queries.hot]: max_lag"),
    ],
)
def test_a_promise_that_cannot_be_made_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(OptionError) as refused:
        beside_file(shop(), make_options("shop", {"config": path}))
    assert str(refused.value).startswith(f"{path}: {sentence}")


PIPELINE = """
import penstock as ps

rows = ps.read_memory([{"a": 1}, {"a": 2}]).name("rows")
rows.write_json("FOLDER/out").name("out")
ps.run("shop", directory="FOLDER/job")
"""


def test_the_command_line_takes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = tmp_path / "pipeline.py"
    pipeline.write_text(PIPELINE.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    path = written(tmp_path, "[control]\nshed = 'qod'\nmode = 'act'\n\n[queries.out]\nmin_accuracy = 0.5\n")
    assert penstock("run", pipeline, "--config", path) == 0
    assert "NOTHING IS SHED: source 'rows': it ends by itself" in capsys.readouterr().err
    rows = "".join(part.read_text(encoding="utf-8") for part in sorted((tmp_path / "out").rglob("*.json*")))
    assert '"accuracy":1' in rows.replace(" ", ""), rows
    written(tmp_path, "[control]\nshed = 'qd'\n")
    assert penstock("run", pipeline, "--config", path) == 1
    assert "shop.toml: shed in [control]: control: shed is 'off', 'qod'" in capsys.readouterr().err
