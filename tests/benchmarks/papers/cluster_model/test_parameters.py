"""Parameters: every figure says where it is from; draws shake the others, and all by the same seed."""

from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.parameters import ORIGINS, default_parameters, drawn, read_parameters
from penstock.benchmarks.papers.cluster_model.spec import (
    ActionSpec,
    ApplicationSpec,
    EdgeSpec,
    MachineSpec,
    ReportSpec,
    ServiceSpec,
    StateSpec,
    TaskSpec,
)

SECTIONS: dict[str, tuple[Any, set[str]]] = {
    "machine": (MachineSpec, {"name"}),
    "application": (ApplicationSpec, {"name"}),
    "task": (TaskSpec, {"name", "application", "parallelism"}),
    "edge": (EdgeSpec, {"producer", "consumer"}),
    "state": (StateSpec, set()),
    "service": (ServiceSpec, {"name", "application", "latency_s", "error_share"}),
    "actions": (ActionSpec, set()),
    "reports": (ReportSpec, set()),
}


def test_every_default_is_marked() -> None:
    entries = default_parameters().entries
    assert len(entries) > 60
    assert {item.origin for item in entries.values()} <= set(ORIGINS)


def test_the_defaults_are_the_figures_of_the_specs_and_nothing_else() -> None:
    entries = default_parameters().entries
    expected = {"source.is_random"}
    for section, (kind, given) in SECTIONS.items():
        needed = {field.name for field in fields(kind) if field.default is MISSING} - given
        expected |= {f"{section}.{name}" for name in needed}
    assert set(entries) == expected


def test_draws_shake_by_thirty_percent_what_no_seed_gives() -> None:
    defaults = default_parameters()
    factors = []
    for seed in range(200):
        shaken = drawn(defaults, seed)
        for name, item in shaken.entries.items():
            before = defaults.entries[name]
            assert item.origin == before.origin
            if before.origin == "paper" or isinstance(before.value, bool | str):
                assert item == before
            elif before.value == 0:
                assert item.value == 0
            elif isinstance(before.value, int):
                assert isinstance(item.value, int) and abs(item.value / before.value - 1) <= 0.34
            else:
                factors.append(item.value / before.value)
                assert item.value <= 1 or not name.endswith(("_share", "_probability"))
    assert 0.7 <= min(factors) < 0.71 and 1.29 < max(factors) <= 1.3
    assert np.mean(factors) == pytest.approx(1.0, abs=0.01)


def test_the_same_seed_draws_the_same_whatever_else_there_is() -> None:
    defaults = default_parameters()
    more = defaults | read_parameters("[task.slow]\ncpu_s = { value = 1.0, from = 'measured' }")
    for name, item in drawn(defaults, 5).entries.items():
        assert drawn(more, 5).entries[name] == item
    assert drawn(more, 5).value("task", "cpu_s", "slow") != drawn(more, 6).value("task", "cpu_s", "slow")


def test_names_go_before_sections() -> None:
    parameters = default_parameters() | read_parameters("[task.slow]\ncpu_s = { value = 1.0, from = 'measured' }")
    slow = parameters.make(TaskSpec, "task", "slow", name="slow", application="a", parallelism=1)
    other = parameters.make(TaskSpec, "task", "other", name="other", application="a", parallelism=1)
    assert (slow.cpu_s, other.cpu_s) == (1.0, default_parameters().value("task", "cpu_s"))
    with pytest.raises(KeyError):
        parameters.make(SourceLike, "task")


class SourceLike(ReportSpec):
    pass


def test_a_figure_without_an_origin_is_refused() -> None:
    for text in ("[task]\ncpu_s = 1.0", "[task]\ncpu_s = { value = 1.0 }", "[task]\ncpu_s = { value = 1, from = 'x' }"):
        with pytest.raises(ValueError, match=r"task\.cpu_s"):
            read_parameters(text)
