"""What controllers may do is said by the command line, then the program; what there is not is refused by name."""

from typing import Any

import pytest

import penstock as ps
from penstock.commands.run_start import RunOverrides
from penstock.model.control import Limits, QueryLimit
from penstock.model.errors import OptionError
from penstock.runs.run_options import RunOptions, make_options


def test_the_command_line_wins_over_the_program() -> None:
    options = make_options("shop", {"control": ps.Control(shed="qod", mode="act", shed_backlog=True)})
    changed = RunOverrides(shed="qod-paper").apply(options).control
    assert changed == ps.Control(shed="qod-paper", mode="act", shed_backlog=True)
    assert RunOverrides().apply(options).control is options.control
    assert RunOverrides(shed="qod", control="act").apply(RunOptions("shop")).control == ps.Control("qod", "act")
    assert RunOptions("shop").control is None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"shed": "sci"},
            "control: shed is 'off', 'qod', 'qod-paper', 'sic', 'both' or a class of yours as 'module:Class', not "
            "'sci'",
        ),
        (
            {"shed": "sic"},
            "control: shed='sic' decides four times a second of what waits, and has nothing to recommend: "
            "say mode='act' or 'shed', or shed='qod'",
        ),
        ({"mode": "do"}, "control: mode is 'recommend', 'act', 'shed' or 'scale', not 'do'"),
        (
            {"mode": "scale"},
            "control: mode='scale' lets who scales act, and nobody does: say who, as scale='ds2'",
        ),
        (
            {"shed": "both", "scale": "ds2", "mode": "scale"},
            "control: shed='both' decides four times a second of what waits, and has nothing to recommend: "
            "say mode='act' or 'shed', or shed='qod'",
        ),
        ({"offered": "guess"}, "control: offered is 'end offsets' or 'lag maxima', not 'guess'"),
        ({"period_s": 0}, "control: period_s is a number of whole seconds, 1 or more, not 0"),
        ({"period_s": 2.5}, "control: period_s is a number of whole seconds, 1 or more, not 2.5"),
        ({"cores": 4}, "control: cores is of a policy that scales: say which, as scale='ds2'"),
        ({"scale": "ds2", "cores": 0}, "control: cores is a number above 0, not 0"),
        (
            {"scale": "ds2", "memory": "much"},
            "control: memory is a number of bytes such as '16GB' or '512MiB', not 'much'",
        ),
    ],
)
def test_what_there_is_not_is_refused(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(OptionError) as refused:
        ps.Control(**values)  # type: ignore[arg-type]
    assert str(refused.value) == sentence


def test_who_scales_is_said_by_the_command_line_too() -> None:
    program = ps.Control(scale="ds2", cores=8, parameters={"factor": 0.1, "pace.interval_s": 20})
    options = make_options("shop", {"control": program})
    changed = RunOverrides(memory="2GiB", parameters={"factor": "0.2"}).apply(options).control
    assert changed is not None and changed.scale == "ds2"
    assert changed.parameters == {"factor": "0.2", "pace.interval_s": 20}
    assert changed.quotas == {"most_cores": 8, "most_memory_bytes": 2.0 * 1024**3, "one_per_core": True}
    # Parameters are of a policy, so that another one has none of them.
    other = RunOverrides(scale=("justin",)).apply(options).control
    assert other == ps.Control(scale="justin", cores=8)
    assert RunOverrides(scale=("flink-er",), cores=2.0).apply(RunOptions("shop")).control == ps.Control(
        scale="flink-er", cores=2.0
    )
    acting = RunOverrides(scale=("ds2",), control="act").apply(RunOptions("shop")).control
    assert acting == ps.Control(scale="ds2", mode="act")


@pytest.mark.parametrize(
    ("mode", "sheds", "scales"),
    [("recommend", False, False), ("act", True, True), ("shed", True, False), ("scale", False, True)],
)
def test_one_word_says_who_acts(mode: Any, sheds: bool, scales: bool) -> None:
    control = ps.Control(shed="qod", scale="ds2", mode=mode)
    assert (control.may_shed, control.is_acting, control.may_scale) == (sheds, sheds, scales)
    # Somebody may be let shed while the job runs.
    assert ps.Control(scale="ds2", mode=mode).may_shed is sheds and not ps.Control(scale="ds2", mode=mode).is_acting


def test_who_recommends_without_a_quota_says_what_it_takes() -> None:
    assert ps.Control(scale="ds2").quotas == {"one_per_core": False}
    assert ps.Control(scale="ds2", mode="act").quotas == {"one_per_core": True}
    assert ps.Control(scale="ds2", cores=2.5).quotas == {"most_cores": 2.5, "one_per_core": True}


def test_what_is_no_control_is_refused() -> None:
    with pytest.raises(OptionError, match=r"control is a penstock.Control\(...\), not 'qod'"):
        make_options("shop", {"control": "qod"})
    with pytest.raises(
        OptionError,
        match="shed is 'off', 'qod', 'qod-paper', 'sic', 'both' or a class of yours as 'module:Class', not 'all'",
    ):
        RunOverrides(shed="all")


def test_later_limits_are_laid_over_earlier_ones() -> None:
    first = Limits("off", {"hot": QueryLimit(0.5, 3)})
    second = first.changed_by(Limits("qod", {"hot": QueryLimit(min_accuracy=0.25)}))
    assert second == Limits("qod", {"hot": QueryLimit(0.25, 3)})
    with pytest.raises(OptionError, match=r"min_accuracy is a share from 0 to 1, not 1\.5"):
        QueryLimit(1.5)
