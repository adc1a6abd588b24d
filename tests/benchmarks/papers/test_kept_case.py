"""A folder's run is taken for that of a case if it was the same case, and refused otherwise."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.benchmarks.papers.dissp import real_cases as dissp
from penstock.benchmarks.papers.economics import real_cases as economics
from penstock.benchmarks.papers.flink_er import real_cases as flink_er
from penstock.benchmarks.papers.justin import real_cases as justin
from penstock.benchmarks.papers.justin.real_state import state_cases, state_run, state_runs
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.kept_case import FINISHED
from penstock.benchmarks.papers.real.kept_runs import kept_runs
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.steady import acting_case, steady_case
from penstock.benchmarks.papers.sage import real_cases as sage
from penstock.model.errors import OptionError


def keep(case: Any, folder: Path, **more: Any) -> Path:
    """Write a run of a case, of which nothing is known but that."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FINISHED).write_text(json.dumps({"case": asdict(case), **more}))
    return folder


def of_scale(scale: Scale) -> dict[str, RealCase]:
    papers = (dissp, economics, flink_er, justin, sage)
    return {f"{paper.__name__} {case.name}": case for paper in papers for case, _ in paper.cases(scale, 5)}


def test_runs_of_other_scales_are_refused_by_their_loads(tmp_path: Path) -> None:
    short, full = of_scale(Scale.SHORT), of_scale(Scale.FULL)
    both = [name for name in short if name in full]
    assert len(both) > 20
    for number, name in enumerate(both):
        folder = keep(short[name], tmp_path / str(number))
        assert run_case(short[name], folder) == folder / FINISHED
        if short[name] == full[name]:
            continue
        with pytest.raises(OptionError, match=r"has a run of another case: .* and is to be"):
            run_case(full[name], folder)


def test_what_differs_is_named_by_its_place(tmp_path: Path) -> None:
    case = economics.moves(30.0)
    folder = keep(case, tmp_path / "moves-1")
    other = replace(case, control={**case.control, "period_s": 1}, batch_rows=17, start={}, exact="x:y", loads=())
    with pytest.raises(OptionError) as refused:
        run_case(other, folder)
    said = str(refused.value)
    assert "loads was [[0.5, 15.0], [1.0, 60.0]] and is to be []" in said
    assert "control.period_s was null and is to be 1" in said and f"{folder} has" in said and "more: say" in said


def test_a_field_that_a_kept_case_lacks_was_as_it_is_by_default(tmp_path: Path) -> None:
    case = economics.moves(30.0)
    folder = keep(case, tmp_path)
    plain = json.loads((folder / FINISHED).read_text())
    del plain["case"]["catch_up_s"]
    (folder / FINISHED).write_text(json.dumps(plain))
    assert run_case(case, folder) == folder / FINISHED
    with pytest.raises(OptionError, match=r"catch_up_s was 0\.0 and is to be 5"):
        run_case(replace(case, catch_up_s=5.0), folder)


def test_a_run_without_a_case_is_one_of_another(tmp_path: Path) -> None:
    (tmp_path / FINISHED).write_text("{}")
    with pytest.raises(OptionError, match="name was null"):
        run_case(economics.moves(30.0), tmp_path)


def test_before_the_first_run_is_made_all_that_are_kept_are_looked_at(tmp_path: Path) -> None:
    case, kept = economics.moves(30.0), economics.moves(90.0)
    keep(kept, tmp_path / f"{case.name}-2")
    with pytest.raises(OptionError, match="moves-2 has a run of another case"):
        # One that was made would fail otherwise.
        kept_runs([(replace(case, application="nobody:nothing"), 2)], tmp_path, lambda what, done, whole: None)
    state, *others = state_cases(Scale.SMOKE)
    keep(replace(state, keys=7), tmp_path / f"{state.name}-2")
    with pytest.raises(OptionError, match="keys was 7 and is to be 40000"):
        state_runs([state, *others], 2, tmp_path, lambda what, done, whole: None)
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("made", [steady_case, lambda seconds: acting_case(seconds, "ds2")])
def test_a_steady_job_of_other_minutes_is_refused(made: Callable[[float], RealCase], tmp_path: Path) -> None:
    folder = keep(made(1_200.0), tmp_path)
    with pytest.raises(OptionError, match=r"loads was \[\[1\.0, 1200\.0\]\] and is to be \[\[1\.0, 1800\.0\]\]"):
        run_case(made(1_800.0), folder)


def test_state_of_other_keys_is_refused(tmp_path: Path) -> None:
    case = state_cases(Scale.SHORT)[0]
    folder = keep(case, tmp_path, per_s=5.0)
    assert state_run(case, folder).per_s == 5.0
    with pytest.raises(OptionError, match="operations was 1000000 and is to be 4000000"):
        state_run(state_cases(Scale.FULL)[0], folder)
