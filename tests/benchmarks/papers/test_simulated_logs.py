"""Every policy of the registry decides the same again from what a simulated cluster logged, and else if it is changed.

A new policy is tried here once it has its line in the registry.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.control.decision_replay import Redecided, plain, redecide
from penstock.engine.control.policies import POLICIES, make_policy, parameters_of
from penstock.model.errors import OptionError
from penstock.model.plan import NoChange
from penstock.model.snapshot import SCHEMA
from penstock.scheduler.action_log import ActionLogError, EntryKind, read_log
from tests.benchmarks.papers.half_hour import PLACEMENT, TICKS, half_hour
from tests.long_cases import but_for

NAMES = tuple(sorted(POLICIES))

pytestmark = pytest.mark.xdist_group("simulated-logs")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The logs of the policies tried so far."""
    return {}


@pytest.fixture
def log(request: pytest.FixtureRequest, logs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a policy's half hour, made once."""
    name = str(request.param)
    if name not in logs:
        logs[name] = tmp_path_factory.mktemp("log") / f"{name}.jsonl"
        half_hour(name, logs[name])
    return logs[name]


def every(policies: tuple[str, ...], *long: str) -> pytest.MarkDecorator:
    cases = [pytest.param(name, name, id=name) for name in policies]
    kept = [(name, name) for name in policies if name not in long]
    tried = but_for(cases, kept, "decides again many times; policies that do it sooner, and once for each policy")
    return pytest.mark.parametrize(("log", "name"), tried, indirect=["log"])


@every(NAMES)
def test_a_simulated_log_replays_to_identical_decisions(log: Path, name: str) -> None:
    for policy in {name, PLACEMENT}:
        again = list(redecide(log, policy, {}))
        assert len(again) == TICKS and all(item.same for item in again)
        assert any(not isinstance(item.decision, NoChange) for item in again)


@every(NAMES, "flink-er", "justin", "memory-choice", "qod", "qod-paper", "sage", "sage-at-once")
def test_a_changed_parameter_changes_some(log: Path, name: str) -> None:
    before = [plain(item.decision) for item in redecide(log, name, {})]
    assert any(
        any(item.same is False for item in again) and len(again) == len(before) for again in changed(log, name)
    ), f"no parameter of {name} changes a decision"


def changed(log: Path, name: str) -> Iterator[list[Redecided]]:
    """Yield what the policy decides with one of its figures four times what it is, a fourth of it or 0, or turned."""
    for key, value in parameters_of(make_policy(name, {})).items():
        for other in others(value):
            try:
                yield list(redecide(log, name, {key: other}))
            except OptionError:
                continue


def others(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [type(value)(value * 4), type(value)(value / 4), type(value)(0)]
    return []


@every(NAMES[:1])
def test_a_log_that_is_cut_or_of_an_older_schema_fails_with_the_line(log: Path, name: str, tmp_path: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:60])[:-10])
    with pytest.raises(ActionLogError, match=r"cut\.jsonl:60: the line is cut off"):
        list(redecide(cut, name, {}))
    at = next(entry.line for entry in read_log(log) if entry.kind is EntryKind.SNAPSHOT and entry.line > 30)
    older = json.loads(lines[at - 1])
    older["content"]["schema"] = SCHEMA - 1
    old = tmp_path / "old.jsonl"
    old.write_bytes(b"".join([*lines[: at - 1], json.dumps(older).encode() + b"\n", *lines[at:]]))
    with pytest.raises(ActionLogError, match=rf"old\.jsonl:{at}: the snapshot has schema {SCHEMA - 1}"):
        list(redecide(old, name, {}))
